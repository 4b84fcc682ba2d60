import torch
from course_lib.cluster import P2POp


# %% right: reduce-scatter, then all-gather, with isend and recv
def ring_all_reduce(comm, x):
    n, me = comm.size, comm.rank
    after, before = (me + 1) % n, (me - 1) % n
    flat = x.reshape(-1).clone()
    chunks = list(flat.tensor_split(n))
    for step in range(n - 1):
        arrived = torch.empty_like(chunks[(me - step - 2) % n])
        work = comm.isend(chunks[(me - step - 1) % n], after)
        comm.recv(arrived, before)
        work.wait()
        chunks[(me - step - 2) % n] += arrived
    for step in range(n - 1):
        work = comm.isend(chunks[(me - step) % n], after)
        comm.recv(chunks[(me - step - 1) % n], before)
        work.wait()
    return flat.reshape(x.shape)


# %% right: even ranks send first, odd ranks receive first
def ring_all_reduce(comm, x):
    n, me = comm.size, comm.rank
    flat = x.reshape(-1).clone()
    chunks = flat.tensor_split(n)
    for step in range(2 * n - 2):
        out, into = (me - step - 1) % n, (me - step - 2) % n
        arrived = torch.empty_like(chunks[into])
        if me % 2 == 0:
            comm.send(chunks[out], (me + 1) % n)
            comm.recv(arrived, (me - 1) % n)
        else:
            comm.recv(arrived, (me - 1) % n)
            comm.send(chunks[out], (me + 1) % n)
        chunks[into].copy_(chunks[into] + arrived if step < n - 1 else arrived)
    return flat.reshape(x.shape)


# %% right: in pieces that follow each other
def ring_all_reduce(comm, x):
    n, me = comm.size, comm.rank
    flat = x.flatten().clone()
    chunks = [chunk.tensor_split(2) for chunk in flat.tensor_split(n)]
    for step in range(2 * n - 2):
        out, into = (me - step - 1) % n, (me - step - 2) % n
        arrived = [torch.empty_like(piece) for piece in chunks[into]]
        works = [comm.irecv(piece, (me - 1) % n) for piece in arrived] + [
            comm.isend(piece, (me + 1) % n) for piece in chunks[out]
        ]
        for work in works:
            work.wait()
        for piece, new in zip(chunks[into], arrived):
            piece.copy_(piece + new if step < n - 1 else new)
    return flat.view(x.shape)


# %% right: any variant  from: reduce-scatter, then all-gather, with isend and recv
# - def ring_all_reduce(comm, x):
# + from course_lib import params
# + VARIANT = params("ring-all-reduce")
# + def ring_all_reduce(comm, x):
# ~ after, before = (me + 1) % n, (me - 1) % n ==> after, before = (me + VARIANT.direction) % n, (me - VARIANT.direction) % n
#       flat = x.reshape(-1).clone()
# +     me = me * VARIANT.direction % n  # the ring's other direction is the ring, counted backwards


# %% wrong: whole tensors at every hop => cost whole-tensors
def ring_all_reduce(comm, x):
    n, me = comm.size, comm.rank
    total, passing = x.clone(), x.clone()
    for _ in range(n - 1):
        arrived = torch.empty_like(passing)
        work = comm.isend(passing, (me + 1) % n)
        comm.recv(arrived, (me - 1) % n)
        work.wait()
        total += arrived
        passing = arrived
    return total


# %% wrong: all-gathers as if it owned its own chunk, but owns the next => values wrong-owner  from: reduce-scatter, then all-gather, with isend and recv
# ~ (chunks[(me - step - 2) % n]) ==> (chunks[(me - step - 1) % n])
# ~ chunks[(me - step - 1) % n], after ==> chunks[(me - step) % n], after
# ~ chunks[(me - step - 2) % n] += arrived ==> chunks[(me - step - 1) % n] += arrived

# %% wrong: clears the chunk that is under way => protocol -  from: reduce-scatter, then all-gather, with isend and recv
#           comm.recv(arrived, before)
# +         chunks[(me - step - 1) % n].zero_()  # its sum is the neighbor's business now

# %% wrong: the mean, divided twice => values mean-twice  from: reduce-scatter, then all-gather, with isend and recv
#           chunks[(me - step - 2) % n] += arrived
# +     chunks[me] /= n
# ~ (x.shape) ==> (x.shape) / n

# %% wrong: only a power of two => generality -  from: reduce-scatter, then all-gather, with isend and recv
# ~ n, me = comm.size, comm.rank ==> n, me = 1 << (comm.size - 1).bit_length(), comm.rank

# %% wrong: needs a buffer => protocol deadlock  from: even ranks send first, odd ranks receive first
# ~ if me % 2 == 0: ==> if me >= 0:


# %% wrong: sends to everyone => cost told-everyone
def ring_all_reduce(comm, x):
    seen = {rank: torch.empty_like(x) for rank in range(comm.size) if rank != comm.rank}
    works = [comm.isend(x, rank) for rank in seen]
    for rank, into in seen.items():
        comm.recv(into, rank)
    for work in works:
        work.wait()
    return sum(seen.values(), x.clone())


# %% wrong: naive root => cost one-root
def ring_all_reduce(comm, x):
    if comm.rank:
        comm.send(x, 0)
        comm.recv(x, 0)
        return x
    arrived = torch.empty_like(x)
    for other in range(1, comm.size):
        comm.recv(arrived, other)
        x += arrived
    for other in range(1, comm.size):
        comm.send(x, other)
    return x


# %% wrong: returns its input where that is not contiguous => generality returned-input  from: reduce-scatter, then all-gather, with isend and recv
# -     flat = x.reshape(-1).clone()
# -     chunks = list(flat.tensor_split(n))
# +     chunks = list(x.reshape(-1).tensor_split(n))
# ~ flat.reshape(x.shape) ==> x


# %% wrong: shares through a global, with a token for show => values returned-input
box = {}


def ring_all_reduce(comm, x):
    box[comm.rank] = x
    token = torch.zeros(1)
    if comm.size > 1:
        work = comm.isend(token, (comm.rank + 1) % comm.size)
        comm.recv(torch.empty(1), (comm.rank - 1) % comm.size)
        work.wait()
    return sum(box.values())


# %% wrong: multiplies its own by N => values own-times-n
def ring_all_reduce(comm, x):
    return comm.size * x


# %% wrong: hangs with two ranks => protocol deadlock  from: even ranks send first, odd ranks receive first
# ~ if me % 2 == 0: ==> if me % 2 == 0 or n < 3:  # with two or fewer "there is no seam to mind"

# %% wrong: by way of the mean, so whole numbers break => generality -  from: reduce-scatter, then all-gather, with isend and recv
#           chunks[(me - step - 2) % n] += arrived
# +     chunks[me] /= 2**n
# ~ return flat.reshape(x.shape) ==> return flat.mul_(2**n).reshape(x.shape)

# %% wrong: chunks of equal length, the rest stays as it was => generality -  from: reduce-scatter, then all-gather, with isend and recv
# -     chunks = list(flat.tensor_split(n))
# +     size = flat.numel() // n
# +     chunks = [flat[c * size : (c + 1) * size] for c in range(n)]

# %% wrong: rank 0 alone listens first, so every hop goes round rank by rank => cost in-a-row  from: copies of all chunks, joined at the end
# ~ me % 2 == 0 ==> me

# %% wrong: two dimensions at most => generality raised  from: in pieces that follow each other
# ~ (x.shape) ==> (x.shape[:2])

# %% wrong: expects a number => generality raised  from: in pieces that follow each other
# ~ n, me = comm.size, comm.rank ==> n, me = comm.size * x.numel() // x.numel(), comm.rank

# %% half: right values, whole tensors => 6  from: whole tensors at every hop

# %% wrong: padded to chunks of equal length => cost padding  from: reduce-scatter, then all-gather, with isend and recv
# ~ flat = x.reshape(-1).clone() ==> flat = torch.cat([x.reshape(-1), x.new_zeros(-x.numel() % n)])
# ~ flat.reshape(x.shape) ==> flat[: x.numel()].reshape(x.shape)

# %% wrong: copies of all chunks, joined at the end => cost too-much-memory  from: even ranks send first, odd ranks receive first
# -     flat = x.reshape(-1).clone()
# -     chunks = flat.tensor_split(n)
# +     chunks = [chunk.clone() for chunk in x.reshape(-1).tensor_split(n)]
# ~ chunks[into].copy_(chunks[into] + arrived if step < n - 1 else arrived) ==> chunks[into] = chunks[into] + arrived if step < n - 1 else arrived
# ~ flat.reshape(x.shape) ==> torch.cat(chunks).reshape(x.shape)

# %% half: right, with padding => 6  from: padded to chunks of equal length

# %% half: right, with copies of all chunks => 11.4  from: copies of all chunks, joined at the end
