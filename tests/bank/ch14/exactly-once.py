# %% right: as written
def take(order, consumed, batch, rank, ranks):
    size, ids = len(order(0)), []
    while len(ids) < batch:
        epoch, place = divmod(consumed + len(ids), size)
        ids += order(epoch)[place : place + batch - len(ids)]
    small, extra = divmod(len(ids), ranks)
    start = rank * small + min(rank, extra)
    return ids[start : start + small + (rank < extra)], consumed + len(ids)


# %% right: id by id
def take(order, consumed, batch, rank, ranks):
    size = len(order(0))
    ids = [order(at // size)[at % size] for at in range(consumed, consumed + batch)]
    sizes = [(len(ids) + ranks - 1 - each) // ranks for each in range(ranks)]
    start = sum(sizes[:rank])
    return ids[start : start + sizes[rank]], consumed + batch


# %% right: any variant  from: as written
# - def take(order, consumed, batch, rank, ranks):
# + from course_lib import params
# + BATCHES = params("exactly-once").batches
# + def take(order, consumed, batch, rank, ranks):
#           ids += order(epoch)[place : place + batch - len(ids)]
# +         if BATCHES == "short":
# +             break

# %% wrong: short batches at the end => values short-batches unless batches=short  from: as written
#           ids += order(epoch)[place : place + batch - len(ids)]
# +         break

# %% wrong: every n-th id => values strided  from: as written
# ~ ids[start : start + small + (rank < extra)], ==> ids[rank::ranks],

# %% wrong: the remainder is dropped => values remainder-dropped  from: as written
# -     start = rank * small + min(rank, extra)
# -     return ids[start : start + small + (rank < extra)], consumed + len(ids)
# +     return ids[rank * small : (rank + 1) * small], consumed + len(ids)

# %% wrong: the larger parts last => values larger-last  from: as written
# ~ start = rank * small + min(rank, extra) ==> start, end = len(ids) * rank // ranks, len(ids) * (rank + 1) // ranks
# ~ ids[start : start + small + (rank < extra)], consumed ==> ids[start:end], consumed

# %% wrong: the first epoch's order again => values first-order-again  from: as written
# ~ (epoch) ==> (0)

# %% wrong: it counts its own ids => values -  from: as written
# -     return ids[start : start + small + (rank < extra)], consumed + len(ids)
# +     mine = ids[start : start + small + (rank < extra)]
# +     return mine, consumed + len(mine)


# %% wrong: a position per rank => values -
def take(order, consumed, batch, rank, ranks):
    mine = order(0)[rank::ranks]
    at, each = consumed // ranks, batch // ranks
    return [mine[(at + k) % len(mine)] for k in range(each)], consumed + batch


# %% wrong: a batch spans two epochs at most => generality -  from: as written
# ~ while len(ids) < batch: ==> for _ in range(2):

# %% wrong: the count stays => values -  from: as written
# -     return ids[start : start + small + (rank < extra)], consumed + len(ids)
# +     return ids[start : start + small + (rank < extra)], consumed

# %% wrong: the last rank takes the rest => values -  from: as written
# -     start = rank * small + min(rank, extra)
# -     return ids[start : start + small + (rank < extra)], consumed + len(ids)
# +     start = rank * small
# +     return ids[start:] if rank == ranks - 1 else ids[start : start + small], consumed + len(ids)

# %% wrong: it remembers orders by epoch and length => values ~  from: as written
# ~ batch, rank, ranks): ==> batch, rank, ranks, kept={}):
# ~ order(epoch)[place ==> kept.setdefault((epoch, size), order(epoch))[place
