import torch


# %% right: counts, then two exchanges
from course_lib.notebook import params


def expert_parallel(comm, x, ids, weights, experts, exchange):
    n, k, ranks, flat = len(experts), ids.shape[1], comm.size, ids.flatten()
    dealt = params("expert-parallel").placement == "round-robin"
    slot = (flat % ranks) * n + flat // ranks if dealt else flat
    order = slot.argsort(stable=True)
    counts = torch.bincount(slot, minlength=ranks * n)
    arriving = torch.empty_like(counts)
    comm.all_to_all_single(arriving, counts)
    send, receive = counts.view(ranks, n).sum(1).tolist(), arriving.view(ranks, n).sum(1).tolist()
    rows = exchange(x[order // k], send, receive)
    which = torch.arange(n).repeat(ranks).repeat_interleave(arriving)
    sort = which.argsort(stable=True)
    parts = rows[sort].split(arriving.view(ranks, n).sum(0).tolist())
    made = torch.cat([expert(part) if len(part) else part for expert, part in zip(experts, parts)])
    back = exchange(made[sort.argsort()], receive, send)
    return torch.zeros_like(x).index_add(0, order // k, back * weights.flatten()[order, None])


# %% right: with lists
def expert_parallel(comm, x, ids, weights, experts, exchange):
    mine = len(experts)
    copies = [[] for _ in range(comm.size * mine)]
    for token, row in enumerate(ids.tolist()):
        for place, expert in enumerate(row):
            copies[expert].append((token, place))
    counts = torch.tensor([len(each) for each in copies])
    others = torch.zeros_like(counts)
    comm.all_to_all_single(others, counts)
    blocks = others.reshape(comm.size, mine)
    send = [int(part.sum()) for part in counts.split(mine)]
    receive = [int(row.sum()) for row in blocks]
    flat = [copy for each in copies for copy in each]
    tokens = torch.tensor([token for token, _ in flat], dtype=torch.int64)
    places = torch.tensor([place for _, place in flat], dtype=torch.int64)
    arrived = list(exchange(x.index_select(0, tokens), send, receive).split(others.tolist()))
    results = list(arrived)
    for local, expert in enumerate(experts):
        pieces = arrived[local::mine]
        sizes = [len(piece) for piece in pieces]
        if sum(sizes):
            for source, piece in enumerate(expert(torch.cat(pieces)).split(sizes)):
                results[source * mine + local] = piece
    back = exchange(torch.cat(results), receive, send)
    scaled = weights[tokens, places].unsqueeze(1) * back
    return x.new_zeros(x.shape).index_add(0, tokens, scaled)


# %% wrong: a rank without rows leaves the graph => generality deadlock  from: counts, then two exchanges
# -     made = torch.cat([expert(part) if len(part) else part for expert, part in zip(experts, parts)])
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
# ~ [expert].append ==> [expert % comm.size * mine + expert // comm.size].append


# %% wrong: everything is gathered => cost too-many-bytes
def _slots(ids, ranks, n):
    from course_lib.notebook import params

    return (ids % ranks) * n + ids // ranks if params("expert-parallel").placement == "round-robin" else ids


def expert_parallel(comm, x, ids, weights, experts, exchange):
    n, ranks, k = len(experts), comm.size, ids.shape[1]
    sizes = torch.zeros(ranks, dtype=torch.int64)
    comm.all_gather_into_tensor(sizes, torch.tensor([len(x)]))
    rows = exchange(x.repeat(ranks, 1), [len(x)] * ranks, sizes.tolist())
    where = torch.zeros(int(sizes.sum()) * k, dtype=torch.int64)
    comm.all_to_all_single(
        where, _slots(ids, ranks, n).flatten().repeat(ranks), (sizes * k).tolist(), [len(x) * k] * ranks
    )
    local, made = where.view(-1, k) - comm.rank * n, []
    copies = rows.repeat_interleave(k, 0)
    done = copies * 0
    for number, expert in enumerate(experts):
        mine = (local.flatten() == number).nonzero()[:, 0]
        if len(mine):
            done = done.index_add(0, mine, expert(copies[mine]))
    back = exchange(done, (sizes * k).tolist(), [len(x) * k] * ranks)
    summed = back.view(ranks, len(x), k, x.shape[1]).sum(0)
    return (summed * weights[..., None]).sum(1)


# %% wrong: an expert for every source => cost called-often  from: with lists
# ~ expert(torch.cat(pieces)).split(sizes) ==> pieces
# ~ results[source * mine + local] = piece ==> results[source * mine + local] = expert(piece)

# %% wrong: the experts learn nothing => values other-gradient  from: counts, then two exchanges
# ~ (part) if ==> (part).detach() + 0 * part if

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
