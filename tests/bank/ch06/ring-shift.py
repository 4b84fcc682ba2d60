import torch
from course_lib.cluster import P2POp


# %% right: isend, recv, wait
def ring_shift(comm, x):
    if comm.size == 1:
        return x
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    got = torch.empty_like(x)
    work = comm.isend(x, after)
    comm.recv(got, before)
    work.wait()
    return got


# %% right: even ranks send first
def ring_shift(comm, x):
    if comm.size == 1:
        return x.clone()
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    got = torch.zeros(x.shape, dtype=x.dtype)
    if comm.rank % 2 == 0:
        comm.send(x, after)
        comm.recv(got, before)
    else:
        comm.recv(got, before)
        comm.send(x, after)
    return got


# %% right: any variant  from: isend, recv, wait
# - def ring_shift(comm, x):
# + from course_lib import params
# + VARIANT = params("ring-shift")
# + def ring_shift(comm, x):
# -     after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
# +     after, before = (comm.rank + VARIANT.direction) % comm.size, (comm.rank - VARIANT.direction) % comm.size


# %% wrong: everyone sends first => protocol deadlock
def ring_shift(comm, x):
    got = torch.empty_like(x)
    comm.send(x, (comm.rank + 1) % comm.size)
    comm.recv(got, (comm.rank - 1) % comm.size)
    return got


# %% wrong: rank 0 alone listens first => cost in-a-row
def ring_shift(comm, x):
    if comm.size == 1:
        return x
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    got = torch.empty_like(x)
    if comm.rank == 0:
        comm.recv(got, before)
        comm.send(x, after)
    else:
        comm.send(x, after)
        comm.recv(got, before)
    return got


# %% wrong: the other way round => values wrong-direction unless direction=-1
def ring_shift(comm, x):
    if comm.size == 1:
        return x
    got = torch.empty_like(x)
    work = comm.isend(x, (comm.rank - 1) % comm.size)
    comm.recv(got, (comm.rank + 1) % comm.size)
    work.wait()
    return got


# %% wrong: no modulo => values raised  from: alone, it sends to itself
# ~ (comm.rank + 1) % comm.size ==> comm.rank + 1
# ~ (comm.rank - 1) % comm.size ==> comm.rank - 1

# %% wrong: clears what is under way => protocol -  from: the other way round
# -     work = comm.isend(x, (comm.rank - 1) % comm.size)
# -     comm.recv(got, (comm.rank + 1) % comm.size)
# +     work = comm.isend(x, (comm.rank + 1) % comm.size)
# +     comm.recv(got, (comm.rank - 1) % comm.size)
# +     x.zero_()


# %% wrong: reads before wait => values -
def ring_shift(comm, x):
    if comm.size == 1:
        return x
    got = torch.zeros_like(x)
    works = [comm.isend(x, (comm.rank + 1) % comm.size), comm.irecv(got, (comm.rank - 1) % comm.size)]
    answer = got.clone()
    for work in works:
        work.wait()
    return answer


# %% wrong: alone, it sends to itself => generality raised  from: everyone sends first
# ~ comm.send ==> work = comm.isend
#       comm.recv(got, (comm.rank - 1) % comm.size)
# +     work.wait()


# %% wrong: everyone gets everything and picks one => cost told-everyone
def ring_shift(comm, x):
    seen = {rank: torch.empty_like(x) for rank in range(comm.size) if rank != comm.rank}
    works = [comm.isend(x, rank) for rank in seen]
    for rank, into in seen.items():
        comm.recv(into, rank)
    for work in works:
        work.wait()
    return seen[(comm.rank - 1) % comm.size] if seen else x


# %% wrong: all the way round, and one back => cost sent-again
def ring_shift(comm, x):
    for _ in range(comm.size + 1 if comm.size > 1 else 0):
        got = torch.empty_like(x)
        work = comm.isend(x, (comm.rank + 1) % comm.size)
        comm.recv(got, (comm.rank - 1) % comm.size)
        work.wait()
        x = got
    return x


# %% wrong: through the two neighbors => protocol not-a-neighbor
def ring_shift(comm, x):
    n, me = comm.size, comm.rank
    if n == 1:
        return x
    nothing, got = torch.empty(0), torch.empty_like(x)
    if n > 2:  # asks the rank before to send: no bytes, but a message the wrong way
        ask = comm.isend(nothing, (me - 1) % n, tag=7)
        comm.recv(torch.empty(0), (me + 1) % n, tag=7)
        ask.wait()
    work = comm.isend(x, (me + 1) % n)
    comm.recv(got, (me - 1) % n)
    work.wait()
    return got


# %% wrong: a row of floats whatever comes => generality raised  from: clears what is under way
# ~ empty_like(x) ==> empty(x.numel())
# -     x.zero_()


# %% right: one batch
def ring_shift(comm, x):
    if comm.size == 1:
        return x
    got = torch.empty_like(x)
    halves = [P2POp(comm.irecv, got, (comm.rank - 1) % comm.size), P2POp(comm.isend, x, (comm.rank + 1) % comm.size)]
    for work in comm.batch_isend_irecv(halves):
        work.wait()
    return got


# %% half: right, but one after another => 4.25  from: rank 0 alone listens first
