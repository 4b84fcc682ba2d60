import torch


# %% right: repaired  from: the card
# ~ tp_size, -1 ==> -1, tp_size
# ~ gradient / tp_size ==> gradient / (comm.size / tp_size)


# %% right: remainders, and the average of the library
def on_mesh(comm, tp_size, x, gradient):
    groups = [[r for r in range(comm.size) if r % tp_size == k] for k in range(tp_size)]
    dp = [comm.new_group(ranks) for ranks in groups][comm.rank % tp_size]
    starts = range(0, comm.size, tp_size)
    tp = [comm.new_group(range(s, s + tp_size)) for s in starts][comm.rank // tp_size]
    total, mean = x + 0, gradient + 0
    work = [tp.all_reduce(total, async_op=True), dp.all_reduce(mean, op="AVG", async_op=True)]
    for each in work:
        each.wait()
    return [total, mean]


# %% wrong: as it was => generality turned-grid  from: the card


# %% wrong: only the grid => generality divided-by-tp  from: the card
# ~ tp_size, -1 ==> -1, tp_size


# %% wrong: only the divisor => generality turned-grid  from: the card
# ~ gradient / tp_size ==> gradient / (comm.size / tp_size)


# %% wrong: the names are swapped instead => values axes-swapped  from: repaired
# ~ T.tolist ==> tolist
# ~ grid.tolist() ==> grid.T.tolist()

# %% wrong: not divided => values not-divided  from: repaired
# ~ gradient / (comm.size / tp_size) ==> gradient

# %% wrong: in place => values changed  from: repaired
# ~ x, gradient = x.clone(), gradient.clone() ==> pass

# %% wrong: x is not summed => values not-summed  from: repaired
# ~ tp.all_reduce(x) ==> pass


# %% wrong: everyone gathers everything => cost -
def on_mesh(comm, tp_size, x, gradient):
    def gathered(t):
        pieces = [torch.empty_like(t) for _ in range(comm.size)]
        comm.all_gather(pieces, t)
        return pieces

    start, xs, gradients = comm.rank // tp_size * tp_size, gathered(x), gathered(gradient)
    return sum(xs[start : start + tp_size]), sum(gradients[comm.rank % tp_size :: tp_size]) / (comm.size // tp_size)


# %% wrong: everything twice => cost too-many-bytes  from: repaired
#       tp.all_reduce(x)
# +     tp.all_reduce(x.clone())

# %% wrong: groups of one rank fail => generality raised  from: repaired
# -     for ranks in grid.T.tolist():
# +     assert 1 < tp_size < comm.size
# +     for ranks in grid.T.tolist():

# %% wrong: views in contiguous memory => generality ~  from: repaired
# ~ x.clone(), gradient.clone() ==> x.clone(), gradient.view(-1).clone().view(gradient.shape)

# %% half: as it was => 2.4  from: as it was
