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


# %% right: messages started together  from: blocking messages, all pairs in one order
#       mine = torch.zeros(fresh if me < new else 0, dtype=part.dtype)
# +     works = []
# ~ comm.send(piece, b) ==> works.append(comm.isend(piece, b))
# ~ comm.recv(box, a) ==> works.append(comm.irecv(box, a))
# +     for work in works:
# +         work.wait()

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


# %% wrong: sends first, each waiting for its receiver => protocol deadlock  from: blocking messages, all pairs in one order
#       mine = torch.zeros(fresh if me < new else 0, dtype=part.dtype)
# +     boxes = []
# ~ comm.recv(box, a) ==> boxes.append((box, a))
# +     for box, a in boxes:
# +         comm.recv(box, a)

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

# %% wrong: it returns before the messages have come => values ~  from: blocking messages, all pairs in one order
#       mine = torch.zeros(fresh if me < new else 0, dtype=part.dtype)
# +     scratch = []
# ~ comm.send(piece, b) ==> comm.isend(piece, b).wait()
# -                 comm.recv(box, a)
# +                 scratch.append((box, torch.zeros_like(box)))
# +                 comm.irecv(scratch[-1][1], a)
# +     for box, came in scratch:
# +         box.copy_(came)


# %% wrong: round a ring until it is home => cost whole-row-moved  from: one all-to-all of what overlaps
# -     send, take = [overlap(me, b) for b in ranks], [overlap(a, me) for a in ranks]
# +     row = part.new_zeros(-(-elements // old))
# +     row[: len(part)] = part
# -     comm.all_to_all_single(mine[: sum(take)], part[: sum(send)].contiguous(), take, send)
# +     for source in [(me - step) % comm.size for step in ranks]:
# +         start, home = stretch(old, source)[0], stretch(new, me)[0]
# +         if count := overlap(source, me):
# +             low = max(start, home)
# +             mine[low - home : low - home + count] = row[low - start : low - start + count]
# +         came = torch.empty_like(row)
# +         works = comm.isend(row, (me + 1) % comm.size), comm.irecv(came, (me - 1) % comm.size)
# +         for work in works:
# +             work.wait()
# +         row = came

# %% wrong: ranks without a part return zeros => values other-length  from: one all-to-all of what overlaps
# ~ (-elements // new) if me < new else 0 ==> (-elements // new)

# %% wrong: counts are remembered by ranks => values -  from: one all-to-all of what overlaps
# ~ def reshard(comm, part, elements, old, new): ==> def reshard(comm, part, elements, old, new, kept={}):
# ~ [overlap(a, me) for a in ranks] ==> [overlap(a, me) for a in ranks]; send, take = kept.setdefault((me, old, new), (send, take))
