import torch
from course_lib.cluster import P2POp


def swap(comm, out, into, partner):
    halves = [P2POp(comm.isend, out, partner), P2POp(comm.irecv, into, partner)]
    for work in comm.batch_isend_irecv(halves):
        work.wait()


# %% right: bounds that halve, and the way back
def halving_doubling(comm, x):
    n, me = comm.size, comm.rank
    core = 1 << (n.bit_length() - 1)
    flat = x.reshape(-1).clone()
    if me >= core:
        comm.send(flat, me - core)
        comm.recv(flat, me - core)
        return flat.reshape(x.shape)
    if me + core < n:
        extra = torch.empty_like(flat)
        comm.recv(extra, me + core)
        flat += extra
    low, high, distance, taken = 0, flat.numel(), core // 2, []
    while distance:
        middle, partner = (low + high) // 2, me ^ distance
        keep, give = (
            (slice(low, middle), slice(middle, high)) if me < partner else (slice(middle, high), slice(low, middle))
        )
        arrived = torch.empty_like(flat[keep])
        swap(comm, flat[give], arrived, partner)
        flat[keep] += arrived
        taken.append((partner, keep, give))
        low, high, distance = keep.start, keep.stop, distance // 2
    for partner, keep, give in reversed(taken):
        swap(comm, flat[keep], flat[give], partner)
    if me + core < n:
        comm.send(flat, me + core)
    return flat.reshape(x.shape)


# %% right: recursive, isend and recv, surplus ranks paired with their left neighbors
def halving_doubling(comm, x):
    n, me = comm.size, comm.rank
    core = 1
    while core * 2 <= n:
        core *= 2
    surplus = n - core
    flat = x.flatten().clone()
    if me < 2 * surplus and me % 2:
        comm.send(flat, me - 1)
        comm.recv(flat, me - 1)
        return flat.view(x.shape)
    if me < 2 * surplus:
        other = torch.empty_like(flat)
        comm.recv(other, me + 1)
        flat += other
    place = me // 2 if me < 2 * surplus else me - surplus

    def rank_at(where):
        return 2 * where if where < surplus else where + surplus

    def reduce(part, distance):
        if not distance:
            return
        partner = rank_at(place ^ distance)
        lower, upper = part.tensor_split(2)
        mine, theirs = (upper, lower) if place & distance else (lower, upper)
        arrived = torch.empty_like(mine)
        work = comm.isend(theirs, partner)
        comm.recv(arrived, partner)
        work.wait()
        mine += arrived
        reduce(mine, distance // 2)
        work = comm.isend(mine, partner)
        comm.recv(theirs, partner)
        work.wait()

    reduce(flat, core // 2)
    if me < 2 * surplus:
        comm.send(flat, me + 1)
    return flat.view(x.shape)


# %% wrong: power of two only => generality -  from: bounds that halve, and the way back
# ~ core = 1 << (n.bit_length() - 1) ==> core = n

# %% wrong: recursive doubling with whole tensors => cost whole-tensors  from: bounds that halve, and the way back
# -         keep, give = (
# -             (slice(low, middle), slice(middle, high)) if me < partner else (slice(middle, high), slice(low, middle))
# -         )
# +         keep = give = slice(None)
# -         taken.append((partner, keep, give))
# -         low, high, distance = keep.start, keep.stop, distance // 2
# +         distance //= 2


# %% wrong: a ring, right but in 2(N - 1) rounds => cost too-many-rounds
def halving_doubling(comm, x):
    n, me = comm.size, comm.rank
    flat = x.reshape(-1).clone()
    chunks = list(flat.tensor_split(n))
    for step in range(2 * n - 2):
        out, into = (me - step - 1) % n, (me - step - 2) % n
        arrived = torch.empty_like(chunks[into])
        work = comm.isend(chunks[out], (me + 1) % n)
        comm.recv(arrived, (me - 1) % n)
        work.wait()
        chunks[into].copy_(chunks[into] + arrived if step < n - 1 else arrived)
    return flat.reshape(x.shape)


# %% wrong: halves but does not double => values -  from: power of two only
# -     for partner, keep, give in reversed(taken):
# -         swap(comm, flat[keep], flat[give], partner)

# %% wrong: both partners send first => protocol deadlock  from: bounds that halve, and the way back
#       n, me = comm.size, comm.rank
# +     def swap(comm, out, into, partner):
# +         comm.send(out, partner)
# +         comm.recv(into, partner)

# %% wrong: keeps and gives the same half on both sides => values -  from: power of two only
# -         keep, give = (
# -             (slice(low, middle), slice(middle, high)) if me < partner else (slice(middle, high), slice(low, middle))
# -         )
# +         keep, give = slice(low, middle), slice(middle, high)

# %% wrong: surplus ranks are summed but never told => generality -  from: bounds that halve, and the way back
# -         comm.recv(flat, me - core)
#           swap(comm, flat[keep], flat[give], partner)
# -     if me + core < n:
# -         comm.send(flat, me + core)

# %% wrong: at most eight ranks in the core => cost too-many-bytes  from: bounds that halve, and the way back
# ~ 1 << (n.bit_length() - 1) ==> min(8, 1 << (n.bit_length() - 1))

# %% half: right for powers of two => 10.2  from: surplus ranks are summed but never told
