import torch


# %% right: gather, use, forget
def sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True):
    def gather(u):
        row = shards[u].new_empty(comm.size * len(shards[u]))
        comm.all_gather_into_tensor(row, shards[u])
        return row[: counts[u]]

    def part_of(u, grad):
        row = grad.new_zeros(comm.size * len(shards[u]))
        row[: counts[u]] = grad
        mine = torch.empty_like(shards[u])
        comm.reduce_scatter_tensor(mine, row, op="AVG")
        return mine

    units, inputs, kept = range(len(shards)), [], {}
    for u in units:
        weights = gather(u)
        inputs.append(x)
        x = forward(u, weights, x)
        if not reshard:
            kept[u] = weights
    grad, parts = loss(x), [None] * len(shards)
    for u in reversed(units):
        weights = gather(u) if reshard else kept.pop(u)
        grad, own = backward(u, weights, inputs.pop(), grad)
        parts[u] = part_of(u, own)
    return parts


# %% right: the next unit is gathered ahead, gradients leave behind the next unit
def sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True):
    n, last = comm.size, len(shards) - 1
    coming = {}

    def start(u):
        if 0 <= u <= last and u not in coming:
            row = torch.empty(n * shards[u].numel(), dtype=shards[u].dtype)
            coming[u] = comm.all_gather_into_tensor(row, shards[u], async_op=True), row

    def take(u):
        start(u)
        work, row = coming[u]
        work.wait()
        return row.narrow(0, 0, counts[u])

    inputs = {}
    for u in range(last + 1):
        inputs[u] = x
        weights = take(u)
        start(u + 1)
        x = forward(u, weights, x)
        if reshard and u < last:
            del coming[u]
        del weights
    grad = loss(x)
    parts, leaving = {}, None
    for u in range(last, -1, -1):
        weights = take(u)
        start(u - 1)
        grad, own = backward(u, weights, inputs.pop(u), grad)
        del weights, coming[u]
        row = torch.zeros(n * len(shards[u]), dtype=own.dtype)
        row[: counts[u]] = own / n
        parts[u] = torch.empty_like(shards[u])
        if leaving:
            leaving[0].wait()
        leaving = comm.reduce_scatter_tensor(parts[u], row, async_op=True), row
        del own, row
    leaving[0].wait()
    return [parts[u] for u in range(last + 1)]


# %% right: storages emptied and filled again  from: gather, use, forget
#   def sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True):
# +     rows = [shard.new_empty(comm.size * len(shard)) for shard in shards]
# +     def free(u):
# +         rows[u].untyped_storage().resize_(0)
# +     for u in range(len(shards)):
# +         free(u)
# -         row = shards[u].new_empty(comm.size * len(shards[u]))
# -         comm.all_gather_into_tensor(row, shards[u])
# +         row = rows[u]
# +         if row.untyped_storage().size() == 0:
# +             row.untyped_storage().resize_(row.numel() * row.element_size())
# +             comm.all_gather_into_tensor(row, shards[u])
# -         if not reshard:
# +         if reshard:
# +             free(u)
# +         else:
#           grad, own = backward(u, weights, inputs.pop(), grad)
# +         free(u)

# %% right: owners broadcast their parts, and sums go to owners  from: gather, use, forget
# -         row = shards[u].new_empty(comm.size * len(shards[u]))
# -         comm.all_gather_into_tensor(row, shards[u])
# -         return row[: counts[u]]
# +         row = []
# +         for r in range(comm.size):
# +             row.append(shards[u].clone() if r == comm.rank else torch.empty_like(shards[u]))
# +             comm.broadcast(row[r], r)
# +         return torch.cat(row)[: counts[u]]
# -         mine = torch.empty_like(shards[u])
# -         comm.reduce_scatter_tensor(mine, row, op="AVG")
# -         return mine
# +         pieces = [piece.clone() for piece in row.chunk(comm.size)]
# +         for r, piece in enumerate(pieces):
# +             comm.reduce(piece, r)
# +         return pieces[comm.rank] / comm.size

# %% right: any variant  from: gather, use, forget
# - def sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True):
# + from course_lib import notebook
# + VARIANT = notebook.params("fsdp-by-hand")
# + def sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True):
# ~ return row[: counts[u]] ==> return row.roll(VARIANT.owner * len(shards[u]))[: counts[u]]
# ~ (mine, row, op="AVG") ==> (mine, row.roll(-VARIANT.owner * len(shards[u])), op="AVG")


# %% wrong: everything is gathered in the beginning, in one row => values read-after-free
def sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True):
    n = comm.size
    sizes = [len(s) for s in shards]
    row = shards[0].new_empty(n * sum(sizes))
    comm.all_gather_into_tensor(row, torch.cat(shards))
    table = row.view(n, -1).split(sizes, dim=1)
    whole = torch.cat([table[u].reshape(-1)[: counts[u]] for u in range(len(shards))])
    at = [sum(counts[:u]) for u in range(len(shards))]
    weights = [whole[at[u] : at[u] + counts[u]] for u in range(len(shards))]
    inputs = []
    for u in range(len(shards)):
        inputs.append(x)
        x = forward(u, weights[u], x)
    grad, parts = loss(x), [None] * len(shards)
    for u in reversed(range(len(shards))):
        grad, own = backward(u, weights[u], inputs[u], grad)
        row = own.new_zeros(n * sizes[u])
        row[: counts[u]] = own
        parts[u] = torch.empty_like(shards[u])
        comm.reduce_scatter_tensor(parts[u], row, op="AVG")
    return parts


# %% wrong: one giant unit, gathered for each pass => cost one-giant-unit  from: everything is gathered in the beginning, in one row
# -     row = shards[0].new_empty(n * sum(sizes))
# -     comm.all_gather_into_tensor(row, torch.cat(shards))
# -     table = row.view(n, -1).split(sizes, dim=1)
# -     whole = torch.cat([table[u].reshape(-1)[: counts[u]] for u in range(len(shards))])
# -     at = [sum(counts[:u]) for u in range(len(shards))]
# -     weights = [whole[at[u] : at[u] + counts[u]] for u in range(len(shards))]
# -     inputs = []
# +     def gather():
# +         row = shards[0].new_empty(n * sum(sizes))
# +         comm.all_gather_into_tensor(row, torch.cat(shards))
# +         table = row.view(n, -1).split(sizes, dim=1)
# +         whole = torch.cat([table[u].reshape(-1)[: counts[u]] for u in range(len(shards))])
# +         return whole.split(counts)
# +     inputs, weights = [], gather()
#       grad, parts = loss(x), [None] * len(shards)
# +     if reshard:
# +         del weights
# +         weights = gather()

# %% wrong: rows lie in a list, though they are gathered again => cost rows-lie-around  from: gather, use, forget
#           comm.all_gather_into_tensor(row, shards[u])
# +         everything.append(row)
# ~ kept = range(len(shards)), [], {} ==> kept, everything = range(len(shards)), [], {}, []

# %% wrong: whole gradients wait until the end => cost too-much-memory  from: gather, use, forget
#           row[: counts[u]] = grad
# +         return row
# +     def reduced(u, row):
# ~ return parts ==> return [reduced(u, row) for u, row in enumerate(parts)]

# %% wrong: gradients are all-reduced, and a part kept => cost all-reduced  from: gather, use, forget
# -         mine = torch.empty_like(shards[u])
# -         comm.reduce_scatter_tensor(mine, row, op="AVG")
# -         return mine
# +         comm.all_reduce(row, op="AVG")
# +         return row.chunk(comm.size)[comm.rank].clone()

# %% wrong: sums, not means => values sum  from: gather, use, forget
# ~ reduce_scatter_tensor(mine, row, op="AVG") ==> reduce_scatter_tensor(mine, row)
# -         if not reshard:
# -             kept[u] = weights
# ~ (u) if reshard else kept.pop(u) ==> (u)

# %% wrong: nothing is reduced => values own-gradient  from: sums, not means
# -         mine = torch.empty_like(shards[u])
# -         comm.reduce_scatter_tensor(mine, row)
# -         return mine
# +         return row.chunk(comm.size)[comm.rank].clone()

# %% wrong: gradients stay whole => values whole-gradient  from: sums, not means
# ~ reduce_scatter_tensor(mine, row) ==> reduce_scatter_tensor(mine, row, op="AVG")
# -         parts[u] = part_of(u, own)
# +         comm.all_reduce(own, op="AVG")
# +         parts[u] = own

# %% wrong: in the order of the backward pass => values backwards  from: sums, not means
# ~ reduce_scatter_tensor(mine, row) ==> reduce_scatter_tensor(mine, row, op="AVG")
# ~ return parts ==> return parts[::-1]

# %% wrong: the padding is taken for weights => values raised  from: sums, not means
# ~ return row[: counts[u]] ==> return row
# -         row = grad.new_zeros(comm.size * len(shards[u]))
# -         row[: counts[u]] = grad
# +         row = grad
# ~ reduce_scatter_tensor(mine, row) ==> reduce_scatter_tensor(mine, row, op="AVG")

# %% wrong: something in the padding => values padding-not-zero  from: gather, use, forget
# ~ new_zeros(comm.size * len(shards[u])) ==> new_full((comm.size * len(shards[u]),), 3.0)

# %% wrong: reshard is ignored => generality not-kept  from: sums, not means
# ~ reduce_scatter_tensor(mine, row) ==> reduce_scatter_tensor(mine, row, op="AVG")

# %% wrong: it does not wait for the row => values ~  from: gather, use, forget
# -         row = shards[u].new_empty(comm.size * len(shards[u]))
# -         comm.all_gather_into_tensor(row, shards[u])
# +         row = shards[u].new_zeros(comm.size * len(shards[u]))
# +         works.append(comm.all_gather_into_tensor(row, shards[u], async_op=True))
# ~ kept = range(len(shards)), [], {} ==> works = range(len(shards)), [], []
# -         if not reshard:
# -             kept[u] = weights
# ~ (u) if reshard else kept.pop(u) ==> (u)
#           parts[u] = part_of(u, own)
# +     for work in works:
# +         work.wait()

# %% wrong: two units gathered ahead => cost too-far-ahead  from: the next unit is gathered ahead, gradients leave behind the next unit
#           start(u + 1)
# +         start(u + 2)
#           start(u - 1)
# +         start(u - 2)

# %% wrong: weights gathered in 32 bits => cost narrow  from: gather, use, forget
# ~ shards[u].new_empty ==> torch.empty
# ~ (row, shards[u]) ==> (row, shards[u].float())
# ~ return row[: counts[u]] ==> return row[: counts[u]].double()

# %% wrong: gradients cut as evenly as they can be => values uneven-cut  from: gather, use, forget
# -         row = grad.new_zeros(comm.size * len(shards[u]))
# -         row[: counts[u]] = grad
# +         row = grad.new_zeros(comm.size, len(shards[u]))
# +         for r, piece in enumerate(grad.tensor_split(comm.size)):
# +             row[r, : len(piece)] = piece
# ~ comm.reduce_scatter_tensor(mine, row, op="AVG") ==> comm.reduce_scatter_tensor(mine, row.view(-1), op="AVG")

# %% wrong: the backward pass gathers the next unit of the forward pass ahead => cost too-many-bytes  from: the next unit is gathered ahead, gradients leave behind the next unit
# -         start(u - 1)
# +         if reshard:
# +             start(u + 1)


# %% wrong: recursion, in which every frame holds a row => cost rows-lie-around
def sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True):
    n, parts = comm.size, [None] * len(shards)

    def gather(u):
        row = shards[u].new_empty(n * len(shards[u]))
        comm.all_gather_into_tensor(row, shards[u])
        return row[: counts[u]]

    def through(u, x):
        if u == len(shards):
            return loss(x)
        weights = gather(u)
        grad = through(u + 1, forward(u, weights, x))
        if reshard:
            weights = gather(u)
        grad, own = backward(u, weights, x, grad)
        row = own.new_zeros(n * len(shards[u]))
        row[: counts[u]] = own
        parts[u] = torch.empty_like(shards[u])
        comm.reduce_scatter_tensor(parts[u], row, op="AVG")
        return grad

    through(0, x)
    return parts


# %% wrong: copies of the rows, with the second gather for show => cost rows-lie-around  from: gather, use, forget
# -         if not reshard:
# -             kept[u] = weights
# +         kept[u] = weights.clone()
# -         weights = gather(u) if reshard else kept.pop(u)
# -         grad, own = backward(u, weights, inputs.pop(), grad)
# +         if reshard:
# +             gather(u)
# +         grad, own = backward(u, kept[u], inputs.pop(), grad)
