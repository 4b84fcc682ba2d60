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
# ~ after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size ==> after, before = (comm.rank + VARIANT.direction) % comm.size, (comm.rank - VARIANT.direction) % comm.size

# %% wrong: everyone sends first => protocol deadlock  from: isend, recv, wait
# -     if comm.size == 1:
# -         return x
# ~ work = comm.isend ==> comm.send
# -     work.wait()

# %% wrong: rank 0 alone listens first => cost in-a-row  from: even ranks send first
# ~ comm.rank % 2 == 0 ==> comm.rank

# %% wrong: the other way round => values wrong-direction unless direction=-1  from: isend, recv, wait
# ~ after, before = ==> before, after =

# %% wrong: no modulo => values raised  from: isend, recv, wait
# -     if comm.size == 1:
# -         return x
# ~ (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size ==> comm.rank + 1, comm.rank - 1

# %% wrong: clears what is under way => protocol -  from: isend, recv, wait
#       comm.recv(got, before)
# +     x.zero_()

# %% wrong: reads before wait => values -  from: one batch
# ~ empty_like ==> zeros_like
# -     for work in comm.batch_isend_irecv(halves):
# +     works = comm.batch_isend_irecv(halves)
# +     answer = got.clone()
# +     for work in works:
# ~ return got ==> return answer

# %% wrong: alone, it sends to itself => generality raised  from: isend, recv, wait
# -     if comm.size == 1:
# -         return x


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


# %% wrong: through the two neighbors => protocol not-a-neighbor  from: isend, recv, wait
#       got = torch.empty_like(x)
# +     if comm.size > 2:  # asks the rank before to send: no bytes, but a message the wrong way
# +         ask = comm.isend(torch.empty(0), before, tag=7)
# +         comm.recv(torch.empty(0), after, tag=7)
# +         ask.wait()

# %% wrong: a row of floats whatever comes => generality raised  from: isend, recv, wait
# ~ empty_like(x) ==> empty(x.numel())


# %% right: one batch
def ring_shift(comm, x):
    if comm.size == 1:
        return x
    got = torch.empty_like(x)
    halves = [P2POp(comm.irecv, got, (comm.rank - 1) % comm.size), P2POp(comm.isend, x, (comm.rank + 1) % comm.size)]
    for work in comm.batch_isend_irecv(halves):
        work.wait()
    return got


# %% wrong: alone, whole numbers become floats => generality another-kind  from: even ranks send first
# ~ return x.clone() ==> return x.float()

# %% wrong: more than eight ranks act in a row => cost in-a-row  from: even ranks send first
# ~ comm.rank % 2 == 0 ==> comm.rank % (2 if comm.size < 9 else comm.size)

# %% half: right, but one after another => 4.25  from: rank 0 alone listens first
