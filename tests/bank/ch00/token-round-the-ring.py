import torch


# %% right: rank 0 sends first, all others receive first
def pass_token(comm, token):
    if comm.size == 1:
        return token
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    seen = torch.empty_like(token)
    if comm.rank == 0:
        comm.send(token, after)
        comm.recv(seen, before)
        return seen
    comm.recv(seen, before)
    seen += token
    comm.send(seen, after)
    return seen


# %% right: only the stamps so far travel
def pass_token(comm, token):
    n, me = comm.size, comm.rank
    if n == 1:
        return token
    if me == 0:
        comm.send(token[:1].clone(), 1)
        home = torch.empty_like(token)
        comm.recv(home, n - 1)
        return home
    book = token.clone()
    comm.recv(book[:me], me - 1)
    comm.send(book[: me + 1], (me + 1) % n)
    return book


# %% right: every receive posted at once, then one by one
def pass_token(comm, token):
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    if after == comm.rank:
        return token.clone()
    seen = torch.zeros_like(token)
    coming = comm.irecv(seen, before)
    if comm.rank == 0:
        comm.isend(token, after).wait()
        coming.wait()
        return seen
    coming.wait()
    mine = torch.where(token != 0, token, seen)
    comm.isend(mine, after).wait()
    return mine


# %% right: any variant
from course_lib import params

VARIANT = params("token-round-the-ring")


def pass_token(comm, token):
    if comm.size == 1:
        return token
    after, before = (comm.rank + VARIANT.direction) % comm.size, (comm.rank - VARIANT.direction) % comm.size
    seen = torch.empty_like(token)
    if comm.rank:
        comm.recv(seen, before)
        seen += token
        comm.send(seen, after)
    else:
        comm.send(token, after)
        comm.recv(seen, before)
    return seen


# %% wrong: everyone receives first => protocol deadlock
def pass_token(comm, token):
    seen = torch.empty_like(token)
    comm.recv(seen, (comm.rank - 1) % comm.size)
    seen += token
    comm.send(seen, (comm.rank + 1) % comm.size)
    return seen


# %% wrong: the other way round => values wrong-direction unless direction=-1  from: rank 0 sends first, all others receive first
# -     after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
# +     after, before = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size

# %% wrong: passes the token on without a stamp => values not-stamped  from: rank 0 sends first, all others receive first
# -     seen += token

# %% wrong: stamps the next rank's slot => values not-stamped  from: rank 0 sends first, all others receive first
# ~ seen += token ==> seen += token.roll(1)

# %% wrong: rank 0 stamps it once more at home => values stamped-twice  from: rank 0 sends first, all others receive first
# -         return seen
# -     comm.recv(seen, before)
# +     else:
# +         comm.recv(seen, before)
# -     comm.send(seen, after)
# +     if comm.rank:
# +         comm.send(seen, after)


# %% wrong: the token never comes home => values never-home
def pass_token(comm, token):
    seen = token.clone()
    if comm.rank > 0:
        comm.recv(seen, comm.rank - 1)
        seen += token
    if comm.rank < comm.size - 1:
        comm.send(seen, comm.rank + 1)
    return seen


# %% wrong: sends its own token on instead of the one that came => values lost-stamp  from: rank 0 sends first, all others receive first
# -     seen += token
# -     comm.send(seen, after)
# -     return seen
# +     comm.send(token, after)
# +     return token


# %% wrong: everyone gets every stamp => values knows-too-much
def pass_token(comm, token):
    works = [comm.isend(token, r) for r in range(comm.size) if r != comm.rank]
    total = token.clone()
    for r in range(comm.size):
        if r != comm.rank:
            other = torch.empty_like(token)
            comm.recv(other, r)
            total += other
    for work in works:
        work.wait()
    return total


# %% wrong: counts the stamps before it passes the token on, in a message of its own => cost sent-again  from: passes the token on without a stamp
# -     seen = torch.empty_like(token)
# +     seen, count = torch.empty_like(token), torch.zeros(1)
#       if comm.rank == 0:
# +         comm.send(count, after)
# -         comm.recv(seen, before)
# +     comm.recv(count, before)
# +     comm.recv(seen, before)
# +     if comm.rank == 0:
# -     comm.recv(seen, before)
# +     seen += token
# +     comm.send(count + 1, after)

# %% wrong: stamps after it has begun to send => protocol raised  from: rank 0 sends first, all others receive first
# -     comm.send(seen, after)
# +     sent = seen.clone()
# +     work = comm.isend(sent, after)
# +     sent.zero_()
# +     work.wait()

# %% wrong: one rank alone sends to itself => generality raised  from: rank 0 sends first, all others receive first
# -     if comm.size == 1:
# -         return token

# %% wrong: a ring of five and no other => generality raised  from: one rank alone sends to itself
# -     after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
# +     after, before = {0: (1, 4), 1: (2, 0), 2: (3, 1), 3: (4, 2), 4: (0, 3)}[comm.rank]


# %% wrong: stamps in 32 bits, half of what came => cost too-few-bytes
def pass_token(comm, token):
    n, rank, mine = comm.size, comm.rank, token.int()
    if n == 1:
        return token
    seen = torch.empty_like(mine)
    if rank == 0:
        comm.send(mine, 1)
        comm.recv(seen, n - 1)
        return seen.to(token.dtype)
    comm.recv(seen, rank - 1)
    seen += mine
    comm.send(seen, (rank + 1) % n)
    return seen.to(token.dtype)


# %% wrong: every rank reports to rank 0 besides => cost told-everyone
def pass_token(comm, token):
    n, rank = comm.size, comm.rank
    if n == 1:
        return token
    if rank == 0:
        comm.send(token, 1)
        for source in range(1, n):
            comm.recv(token, source)
        return token
    seen = torch.empty_like(token)
    comm.recv(seen, rank - 1)
    seen += token
    if rank < n - 1:
        comm.send(seen, rank + 1)
    comm.send(seen, 0)
    return seen


# %% wrong: left as it is => not-answered
def pass_token(comm, token):
    raise NotImplementedError


# %% half: right but for one rank alone => 4  from: one rank alone sends to itself

# %% wrong: stamps go through 32-bit floats => generality -  from: rank 0 sends first, all others receive first
# ~ seen += token ==> seen = (seen.float() + token.float()).to(token.dtype)
