import torch


# %% right: one all-to-all of what overlaps
def reshard(comm, part, elements, old, new):
    def stretch(ranks, rank):
        size = -(-elements // ranks)
        return (min(rank * size, elements), min((rank + 1) * size, elements)) if rank < ranks else (0, 0)

    def overlap(a, b):
        return max(0, min(stretch(old, a)[1], stretch(new, b)[1]) - max(stretch(old, a)[0], stretch(new, b)[0]))

    me, ranks = comm.rank, range(comm.size)
    send, take = [overlap(me, b) for b in ranks], [overlap(a, me) for a in ranks]
    mine = part.new_zeros(-(-elements // new) if me < new else 0)
    comm.all_to_all_single(mine[: sum(take)], part[: sum(send)].contiguous(), take, send)
    return mine


# %% right: messages from number to number, started together
def reshard(comm, part, elements, old, new):
    def bounds(ranks, rank):
        size = (elements + ranks - 1) // ranks
        if rank >= ranks:
            return range(0)
        return range(min(rank * size, elements), min(rank * size + size, elements))

    me = comm.rank
    have, want = bounds(old, me), bounds(new, me)
    out = torch.zeros((elements + new - 1) // new if me < new else 0, dtype=part.dtype)
    works = []
    for other in range(comm.size):
        theirs = bounds(old, other)
        low, high = max(theirs.start, want.start), min(theirs.stop, want.stop)
        if low < high and other != me:
            works.append(comm.irecv(out[low - want.start : high - want.start], other))
        elif low < high:
            out[low - want.start : high - want.start] = part[low - have.start : high - have.start]
    for other in range(comm.size):
        theirs = bounds(new, other)
        low, high = max(have.start, theirs.start), min(have.stop, theirs.stop)
        if low < high and other != me:
            works.append(comm.isend(part[low - have.start : high - have.start], other))
    for work in works:
        work.wait()
    return out


# %% right: blocking messages, all pairs in one order
def reshard(comm, part, elements, old, new):
    size, fresh, me = -(-elements // old), -(-elements // new), comm.rank
    mine = torch.zeros(fresh if me < new else 0, dtype=part.dtype)
    for a in range(old):
        for b in range(new):
            low, high = max(a * size, b * fresh), min((a + 1) * size, (b + 1) * fresh, elements)
            if low >= high or me not in (a, b):
                continue
            piece, box = part[low - a * size : high - a * size], mine[low - b * fresh : high - b * fresh]
            if a == b:
                box.copy_(piece)
            elif me == a:
                comm.send(piece, b)
            else:
                comm.recv(box, a)
    return mine


# %% wrong: a table with an owner for every number => cost full-copy  from: one all-to-all of what overlaps
# -     send, take = [overlap(me, b) for b in ranks], [overlap(a, me) for a in ranks]
# +     place = torch.arange(elements)
# +     of_old, of_new = place // -(-elements // old), place // -(-elements // new)
# +     send = torch.bincount(of_new[of_old == me], minlength=comm.size).tolist()
# +     take = torch.bincount(of_old[of_new == me], minlength=comm.size).tolist()
# +     del place, of_old, of_new


# %% wrong: the whole row on every rank => cost ~
def reshard(comm, part, elements, old, new):
    size = -(-elements // old)
    padded = part if len(part) else part.new_zeros(size)
    row = part.new_empty(comm.size * size)
    comm.all_gather_into_tensor(row, padded)
    row = row[:elements]
    if comm.rank >= new:
        return part.new_empty(0)
    mine = row.new_zeros(-(-elements // new))
    own = row[comm.rank * len(mine) : (comm.rank + 1) * len(mine)]
    mine[: len(own)] = own
    return mine


# %% wrong: sends first, each waiting for its receiver => protocol deadlock  from: messages from number to number, started together
# -             works.append(comm.irecv(out[low - want.start : high - want.start], other))
# +             works.append((out[low - want.start : high - want.start], other))
# -             works.append(comm.isend(part[low - have.start : high - have.start], other))
# -     for work in works:
# -         work.wait()
# +             comm.send(part[low - have.start : high - have.start], other)
# +     for box, other in works:
# +         comm.recv(box, other)

# %% wrong: the padding is moved as numbers => values padding-moved  from: the whole row on every rank
# ~ row[:elements] ==> row[: size * old]
# ~ row.new_zeros(-(-elements // new)) ==> row.new_zeros(-(-len(row) // new))

# %% wrong: parts of different lengths, without padding => values no-padding  from: one all-to-all of what overlaps
# ~ new_zeros(-(-elements // new) if me < new else 0) ==> new_empty(sum(take))
# ~ mine[: sum(take)], ==> mine,

# %% wrong: the padding is whatever lay there => values padding-not-zero  from: one all-to-all of what overlaps
# ~ new_zeros(-(-elements // new) if me < new else 0) ==> new_full((-(-elements // new) if me < new else 0,), 7)


# %% wrong: the old part comes back => values old-part
def reshard(comm, part, elements, old, new):
    return part


# %% wrong: dealt out like tensor_split, the larger parts first => values -  from: the whole row on every rank
# ~ row[comm.rank * len(mine) : (comm.rank + 1) * len(mine)] ==> row.tensor_split(new)[comm.rank]

# %% wrong: the ranks that have nothing stay out of it => deadlock  from: the whole row on every rank
#       size = -(-elements // old)
# +     if not len(part):
# +         return part.new_zeros(-(-elements // new))
# -     if comm.rank >= new:
# -         return part.new_empty(0)

# %% wrong: always float32 => generality ~  from: one all-to-all of what overlaps
# ~ part.new_zeros ==> torch.zeros
# ~ contiguous ==> float

# %% wrong: it returns before the messages have come => values ~  from: messages from number to number, started together
# ~ works = [] ==> scratch, works = [], []
# -             works.append(comm.irecv(out[low - want.start : high - want.start], other))
# +             box = part.new_zeros(high - low)
# +             scratch.append((box, low, high))
# +             works.append(comm.irecv(box, other))
# -             works.append(comm.isend(part[low - have.start : high - have.start], other))
# +             comm.isend(part[low - have.start : high - have.start], other).wait()
# +     for box, low, high in scratch:
# +         out[low - want.start : high - want.start] = box


# %% wrong: round a ring until it is home => cost whole-row-moved
import torch


def reshard(comm, part, elements, old, new):
    n, r = comm.size, comm.rank
    po, pn = -(-elements // old), -(-elements // new)
    out = torch.zeros(pn if r < new else 0, dtype=part.dtype)
    row = torch.zeros(po, dtype=part.dtype)
    if r < old:
        row.copy_(part)
    for k in range(n):
        s = (r - k) % n
        lo, hi = (min(s * po, elements), min((s + 1) * po, elements)) if s < old else (0, 0)
        a, b = (min(r * pn, elements), min((r + 1) * pn, elements)) if r < new else (0, 0)
        u, v = max(lo, a), min(hi, b)
        if u < v:
            out[u - a : v - a] = row[u - lo : v - lo]
        if n > 1:
            got = torch.empty_like(row)
            w, z = comm.isend(row, (r + 1) % n), comm.irecv(got, (r - 1) % n)
            w.wait()
            z.wait()
            row = got
    return out


# %% wrong: ranks without a part return zeros => values other-length  from: one all-to-all of what overlaps
# ~ (-elements // new) if me < new else 0 ==> (-elements // new)
