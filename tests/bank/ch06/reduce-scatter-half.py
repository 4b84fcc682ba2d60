import torch
from course_lib.cluster import P2POp


# %% right: the half-written function, finished
def ring_reduce_scatter(comm, x):
    n, me = comm.size, comm.rank
    chunks = list(torch.tensor_split(x.clone(), n))
    after, before = (me + 1) % n, (me - 1) % n
    for step in range(n - 1):
        outgoing = chunks[(me - step - 1) % n]
        arrived = torch.empty_like(chunks[(me - step - 2) % n])
        work = comm.isend(outgoing, after)
        comm.recv(arrived, before)
        work.wait()
        chunks[(me - step - 2) % n] += arrived
    return chunks[me]


# %% right: even ranks send first  from: the half-written function, finished
# -         work = comm.isend(outgoing, after)
# +         if me % 2 == 0:
# +             comm.send(outgoing, after)
#           comm.recv(arrived, before)
# -         work.wait()
# +         if me % 2:
# +             comm.send(outgoing, after)

# %% right: any variant  from: the half-written function, finished
# - def ring_reduce_scatter(comm, x):
# + from course_lib import params
# + VARIANT = params("reduce-scatter-half")
# + def ring_reduce_scatter(comm, x):
#       after, before = (me + 1) % n, (me - 1) % n
# +     me = (me + VARIANT.owner) % n

# %% wrong: begins with its own chunk, so the next rank owns it => values wrong-owner unless owner=1  from: the half-written function, finished
# ~ outgoing = chunks[(me - step - 1) % n] ==> outgoing = chunks[(me - step) % n]
# ~ empty_like(chunks[(me - step - 2) % n]) ==> empty_like(chunks[(me - step - 1) % n])
# ~ chunks[(me - step - 2) % n] += ==> chunks[(me - step - 1) % n] +=
# ~ return chunks[me] ==> return chunks[(me + 1) % n]


# %% wrong: whole tensors at every hop => cost whole-tensors
def ring_reduce_scatter(comm, x):
    n, me = comm.size, comm.rank
    total, passing = x.clone(), x.clone()
    for _ in range(n - 1):
        arrived = torch.empty_like(x)
        work = comm.isend(passing, (me + 1) % n)
        comm.recv(arrived, (me - 1) % n)
        work.wait()
        total += arrived
        passing = arrived
    return total.tensor_split(n)[me].clone()


# %% wrong: one step too few => values missing-rank  from: the half-written function, finished
# ~ range(n - 1) ==> range(1, n - 1)

# %% wrong: replaces instead of adding => values missing-rank  from: the half-written function, finished
# ~ += arrived ==> = arrived

# %% wrong: divides, as for a mean => values mean  from: the half-written function, finished
# ~ return chunks[me] ==> return chunks[me] / n

# %% wrong: chunks of equal length, and the rest is lost => generality another-kind  from: the half-written function, finished
# -     chunks = list(torch.tensor_split(x.clone(), n))
# +     size = len(x) // n
# +     chunks = list(x[: size * n].clone().reshape(n, size))

# %% wrong: everyone sends first => protocol deadlock  from: the half-written function, finished
# ~ work = comm.isend ==> comm.send
# -         work.wait()

# %% wrong: straight to the owner => protocol not-a-neighbor  from: the half-written function, finished
# ~ range(n - 1) ==> range(1, n)
# ~ outgoing = chunks[(me - step - 1) % n] ==> outgoing = chunks[(me + step) % n]
# ~ empty_like(chunks[(me - step - 2) % n]) ==> empty_like(chunks[me])
# ~ isend(outgoing, after) ==> isend(outgoing, (me + step) % n)
# ~ recv(arrived, before) ==> recv(arrived, (me - step) % n)
# ~ chunks[(me - step - 2) % n] += ==> chunks[me] +=

# %% wrong: adds to the chunk that is still under way => protocol -  from: the half-written function, finished
#           comm.recv(arrived, before)
# +         outgoing += arrived.sum()

# %% wrong: the whole tensor comes back => values whole-tensor  from: the half-written function, finished
# -     chunks = list(torch.tensor_split(x.clone(), n))
# +     flat = x.clone()
# +     chunks = list(torch.tensor_split(flat, n))
# ~ return chunks[me] ==> return flat


# %% wrong: N times its own chunk => values counted-twice
def ring_reduce_scatter(comm, x):
    return comm.size * x.tensor_split(comm.size)[comm.rank]


# %% wrong: eight ranks at most => generality -  from: the half-written function, finished
# ~ range(n - 1) ==> range(min(n - 1, 7))

# %% half: right where N divides the length => 7.2  from: chunks of equal length, and the rest is lost
