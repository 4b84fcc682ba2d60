import torch
from course_lib.cluster import P2POp


# %% right: one batch a hop, a tensor of its own for each
def ring_pass(comm, block, visit):
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    total = 0
    for hop in range(comm.size):
        works, coming = [], None
        if hop < comm.size - 1:
            coming = torch.empty_like(block)
            works = comm.batch_isend_irecv([P2POp(comm.isend, block, after), P2POp(comm.irecv, coming, before)])
        total = total + visit(block, (comm.rank - hop) % comm.size)
        for work in works:
            work.wait()
        block = coming
    return total


# %% right: even ranks issue their send first, odd ones their receive  from: one batch a hop, a tensor of its own for each
# -             works = comm.batch_isend_irecv([P2POp(comm.isend, block, after), P2POp(comm.irecv, coming, before)])
# +             halves = [(comm.isend, block, after), (comm.irecv, coming, before)]
# +             works = [start(tensor, peer) for start, tensor, peer in halves[:: -1 if comm.rank % 2 else 1]]

# %% right: two spare tensors that swap roles  from: one batch a hop, a tensor of its own for each
# ~ total = 0 ==> spare, total = [torch.empty_like(block), torch.empty_like(block)], 0
# ~ coming = torch.empty_like(block) ==> coming = spare[hop % 2]

# %% wrong: as it was found => protocol deadlock  from: the card

# %% wrong: the receive is posted in time, but the two are issued one by one => protocol deadlock  from: one batch a hop, a tensor of its own for each
# ~ comm.batch_isend_irecv([P2POp(comm.isend, block, after), P2POp(comm.irecv, coming, before)]) ==> [comm.isend(block, after), comm.irecv(coming, before)]

# %% wrong: no hang any more, and the caller loses its block => values overwritten  from: one batch a hop, a tensor of its own for each
# ~ total = 0 ==> coming, total = torch.empty_like(block), 0
# ~ works, coming = [], None ==> works = []
# -             coming = torch.empty_like(block)
# ~ block = coming ==> block, coming = coming, block

# %% wrong: waits before it visits => cost not-hidden  from: one batch a hop, a tensor of its own for each
# -         total = total + visit(block, (comm.rank - hop) % comm.size)
#               work.wait()
# +         total = total + visit(block, (comm.rank - hop) % comm.size)

# %% wrong: one hop too many => cost sent-again  from: one batch a hop, a tensor of its own for each
# ~ hop < comm.size - 1 ==> comm.size > 1

# %% wrong: owners are counted the other way round => values wrong-sum  from: one batch a hop, a tensor of its own for each
# ~ rank - hop ==> rank + hop

# %% wrong: the other way round the ring => protocol wrong-direction  from: owners are counted the other way round
# ~ block, after), P2POp(comm.irecv, coming, before) ==> block, before), P2POp(comm.irecv, coming, after)

# %% wrong: its own block straight to everybody => protocol not-a-neighbor  from: one batch a hop, a tensor of its own for each
# ~ total = 0 ==> own, total = block, 0
# -             works = comm.batch_isend_irecv([P2POp(comm.isend, block, after), P2POp(comm.irecv, coming, before)])
# +             to, source = (comm.rank + hop + 1) % comm.size, (comm.rank - hop - 1) % comm.size
# +             works = comm.batch_isend_irecv([P2POp(comm.isend, own, to), P2POp(comm.irecv, coming, source)])

# %% wrong: visits what is still coming => values ~  from: one batch a hop, a tensor of its own for each
# ~ total = 0 ==> total = visit(block, comm.rank)
# ~ in range(comm.size) ==> in range(comm.size - 1)
# ~ empty_like ==> zeros_like
# ~ visit(block, (comm.rank - hop) % comm.size) ==> visit(coming, (comm.rank - hop - 1) % comm.size)

# %% wrong: its own block is forgotten => values not-visited  from: one batch a hop, a tensor of its own for each
# ~ visit(block, (comm.rank - hop) % comm.size) ==> (visit(block, (comm.rank - hop) % comm.size) if hop else 0)

# %% wrong: alone, it sends to itself => generality raised  from: one batch a hop, a tensor of its own for each
# ~ comm.size - 1 ==> max(comm.size - 1, 1)

# %% wrong: tensors to receive into are always rows of floats => generality raised  from: one batch a hop, a tensor of its own for each
# ~ None ==> torch.empty(len(block))
# -             coming = torch.empty_like(block)


# %% wrong: all that an all-gather would do => values raised
def ring_pass(comm, block, visit):
    rows = [torch.empty_like(block) for _ in range(comm.size)]
    comm.all_gather(rows, block)
    return sum(visit(row, owner) for owner, row in enumerate(rows))


# %% wrong: blocks sent in float64 => cost wider  from: one batch a hop, a tensor of its own for each
# ~ coming = torch.empty_like(block) ==> coming, wide = torch.empty_like(block, dtype=torch.float64), block.double()
# ~ isend, block, after ==> isend, wide, after
# ~ block = coming ==> block = block if coming is None else coming.to(block.dtype)

# %% half: right, and one hop too many => 7.2  from: one hop too many
