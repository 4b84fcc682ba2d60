import torch


# %% right: counts, then two exchanges
from course_lib.notebook import params


def expert_parallel(comm, x, ids, weights, experts, exchange):
    n, k, ranks, flat = len(experts), ids.shape[1], comm.size, ids.flatten()
    dealt = params("expert-parallel").placement == "round-robin"
    slot = (flat % ranks) * n + flat // ranks if dealt else flat
    order = slot.argsort()
    counts = torch.bincount(slot, minlength=ranks * n)
    arriving = torch.empty_like(counts)
    comm.all_to_all_single(arriving, counts)
    send, receive = counts.view(ranks, n).sum(1).tolist(), arriving.view(ranks, n).sum(1).tolist()
    rows = exchange(x[order // k], send, receive)
    which = torch.arange(n).repeat(ranks).repeat_interleave(arriving)
    sort = which.argsort()
    parts = rows[sort].split(arriving.view(ranks, n).sum(0).tolist())
    made = torch.cat([expert(part) for expert, part in zip(experts, parts)])
    back = exchange(made[sort.argsort()], receive, send)
    return torch.zeros_like(x).index_add(0, order // k, back * weights.flatten()[order, None])


# %% right: with lists
def expert_parallel(comm, x, ids, weights, experts, exchange):
    mine = len(experts)
    copies = [(ids == expert).nonzero() for expert in range(comm.size * mine)]
    counts = torch.tensor([len(each) for each in copies])
    others = torch.zeros_like(counts)
    comm.all_to_all_single(others, counts)
    send, receive = (sizes.view(comm.size, mine).sum(1).tolist() for sizes in (counts, others))
    tokens, places = torch.cat(copies).unbind(1)
    results = list(exchange(x[tokens], send, receive).split(others.tolist()))
    for local, expert in enumerate(experts):
        pieces = results[local::mine]
        rows = torch.cat(pieces)
        if len(rows):
            results[local::mine] = expert(rows).split([len(piece) for piece in pieces])
    back = exchange(torch.cat(results), receive, send)
    return torch.zeros_like(x).index_add(0, tokens, back * weights[tokens, places, None])


# %% wrong: a rank without rows leaves the graph => generality deadlock  from: counts, then two exchanges
# -     made = torch.cat([expert(part) for expert, part in zip(experts, parts)])
# +     filled = [expert(part) for expert, part in zip(experts, parts) if len(part)]
# +     made = torch.cat(filled) if filled else torch.zeros(0, x.shape[1])

# %% wrong: an idle rank does not exchange => generality deadlock  from: counts, then two exchanges
# ~ (x[order // k], send, receive) ==> (x[order // k], send, receive) if sum(send) + sum(receive) else x[order // k]
# ~ (made[sort.argsort()], receive, send) ==> (made[sort.argsort()], receive, send) if sum(send) + sum(receive) else made

# %% wrong: arrivals keep their order by source => values -  from: counts, then two exchanges
# ~ rows[sort].split ==> rows.split

# %% wrong: results go back sorted by expert => values -  from: counts, then two exchanges
# ~ made[sort.argsort()], ==> made,

# %% wrong: results stay sorted => values -  from: counts, then two exchanges
# ~ torch.zeros_like(x).index_add(0, order // k, back * weights.flatten()[order, None] ==> (back.view(-1, k, x.shape[1]) * weights[..., None]).sum(1

# %% wrong: the weights are missing => values unweighted  from: counts, then two exchanges
# ~ (0, order // k, back * weights.flatten()[order, None]) ==> (0, order // k, back)

# %% wrong: the other placement => values other-placement unless placement=round-robin  from: with lists
# ~ ids == expert ==> ids == expert % mine * comm.size + expert // mine

# %% wrong: everything is gathered => cost too-many-bytes  from: counts, then two exchanges
# -     rows = exchange(x[order // k], send, receive)
# +     sizes = torch.zeros(ranks, dtype=torch.int64)
# +     comm.all_gather_into_tensor(sizes, torch.tensor([len(x)]))
# +     tokens = torch.zeros(sum(receive), dtype=torch.int64)
# +     comm.all_to_all_single(tokens, order // k, receive, send)
# +     starts = (sizes.cumsum(0) - sizes).repeat_interleave(torch.tensor(receive))
# +     rows = exchange(x.repeat(ranks, 1), [len(x)] * ranks, sizes.tolist())[starts + tokens]

# %% wrong: an expert for every source => cost called-often  from: with lists
# ~ expert(rows).split([len(piece) for piece in pieces]) ==> [expert(piece) for piece in pieces]

# %% wrong: the experts learn nothing => values other-gradient  from: counts, then two exchanges
# ~ expert(part) ==> expert(part).detach() + 0 * part

# %% wrong: the same number of rows for every rank => values raised  from: counts, then two exchanges
# ~ send, receive = counts.view(ranks, n).sum(1).tolist(), arriving.view ==> send = receive = counts.view

# %% wrong: nothing moves on one rank => generality -  from: counts, then two exchanges
#       n, k, ranks, flat = len(experts), ids.shape[1], comm.size, ids.flatten()
# +     if ranks == 1:
# +         return x

# %% wrong: copies of weight zero stay at home => generality -  from: counts, then two exchanges
# -     counts = torch.bincount(slot, minlength=ranks * n)
# +     order = order[weights.flatten()[order] != 0]
# +     counts = torch.bincount(slot[order], minlength=ranks * n)

# %% wrong: a width of four => generality ~  from: counts, then two exchanges
# ~ torch.zeros_like(x) ==> torch.zeros(len(x), 4)

# %% wrong: counts in eight bits => generality ~  from: counts, then two exchanges
# ~ minlength=ranks * n) ==> minlength=ranks * n).to(torch.int8)
# ~ repeat_interleave(arriving) ==> repeat_interleave(arriving.long())

# %% half: an idle rank does not exchange => 9.6  from: an idle rank does not exchange

# %% half: a rank without rows leaves the graph => 9.6  from: a rank without rows leaves the graph
