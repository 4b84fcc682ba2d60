import torch
from course_lib.cluster import P2POp


# %% right: both halves in one batch
def pair_reduce(comm, x):
    partner = comm.rank ^ 1
    if partner >= comm.size:
        return x
    theirs = torch.empty_like(x)
    halves = [P2POp(comm.isend, x, partner), P2POp(comm.irecv, theirs, partner)]
    for work in comm.batch_isend_irecv(halves):
        work.wait()
    return x + theirs


# %% right: the even rank sends first
def pair_reduce(comm, x):
    partner, theirs = comm.rank ^ 1, torch.empty_like(x)
    if partner >= comm.size:
        return x.clone()
    halves = [(comm.send, x), (comm.recv, theirs)]
    for half, tensor in halves if comm.rank < partner else reversed(halves):
        half(tensor, partner)
    return theirs + x


# %% right: any variant  from: both halves in one batch
# - def pair_reduce(comm, x):
# + from course_lib import params
# + COMBINED = {"sum": torch.add, "max": torch.maximum, "min": torch.minimum}[params("pair-exchange").op]
# + def pair_reduce(comm, x):
# ~ x + theirs ==> COMBINED(x, theirs)

# %% wrong: both send first => protocol deadlock  from: both halves in one batch
# -     halves = [P2POp(comm.isend, x, partner), P2POp(comm.irecv, theirs, partner)]
# -     for work in comm.batch_isend_irecv(halves):
# -         work.wait()
# +     comm.send(x, partner)
# +     comm.recv(theirs, partner)

# %% wrong: the last of an odd number looks for a partner => generality raised  from: both halves in one batch
# -     if partner >= comm.size:
# -         return x

# %% wrong: another name for x is no copy of it => values overwritten  from: both halves in one batch
#           work.wait()
# +     mine = x
# +     x.copy_(theirs)
# ~ return x + theirs ==> return x + mine

# %% wrong: adds before the send is over => protocol raised  from: both halves in one batch
# -     halves = [P2POp(comm.isend, x, partner), P2POp(comm.irecv, theirs, partner)]
# -     for work in comm.batch_isend_irecv(halves):
# -         work.wait()
# -     return x + theirs
# +     work = comm.isend(x, partner)
# +     comm.recv(theirs, partner)
# +     x += theirs
# +     work.wait()
# +     return x

# %% wrong: reads before wait => values -  from: both halves in one batch
# ~ empty_like ==> zeros_like
# -     for work in comm.batch_isend_irecv(halves):
# +     works = comm.batch_isend_irecv(halves)
# +     total = x + theirs
# +     for work in works:
# ~ return x + theirs ==> return total

# %% wrong: returns its own => values returned-input  from: doubles what it has
# ~ 2 * x ==> x


# %% wrong: doubles what it has => values counted-twice
def pair_reduce(comm, x):
    return 2 * x


# %% wrong: returns what came => values only-theirs  from: both halves in one batch
# ~ return x + theirs ==> return theirs


# %% wrong: sends to everyone => cost told-everyone
def pair_reduce(comm, x):
    seen = {rank: torch.empty_like(x) for rank in range(comm.size) if rank != comm.rank}
    works = [comm.isend(x, rank) for rank in seen]
    for rank, into in seen.items():
        comm.recv(into, rank)
    for work in works:
        work.wait()
    return x + seen[comm.rank ^ 1] if comm.rank ^ 1 in seen else x


# %% wrong: a box that all ranks should see => values raised
box = {}


def pair_reduce(comm, x):
    box[comm.rank] = x
    token, partner = torch.zeros(1), comm.rank ^ 1
    if comm.rank % 2:
        comm.recv(token, partner)
    else:
        comm.send(token, partner)
    return box[partner] + x


# %% wrong: floats whatever comes => generality raised  from: both halves in one batch
# ~ empty_like(x) ==> empty(x.shape)

# %% wrong: eight ranks at most => generality returned-input  from: both halves in one batch
# ~ if partner >= comm.size: ==> if partner >= comm.size or comm.rank > 7:

# %% half: right for pairs of floats, not for an odd number of ranks => 3.4  from: the last of an odd number looks for a partner
