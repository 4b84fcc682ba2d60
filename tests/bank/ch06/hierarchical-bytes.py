import torch


def scatter(comm, ring, chunks):
    """Ring reduce-scatter over a list of ranks: the one at place i completes chunk i."""
    n, me = len(ring), ring.index(comm.rank)
    for step in range(n - 1):
        into = chunks[(me - step - 2) % n]
        arrived = torch.empty_like(into)
        work = comm.isend(chunks[(me - step - 1) % n], ring[(me + 1) % n])
        comm.recv(arrived, ring[(me - 1) % n])
        work.wait()
        into += arrived


def gather(comm, ring, chunks):
    """Ring all-gather over a list of ranks."""
    n, me = len(ring), ring.index(comm.rank)
    for step in range(n - 1):
        work = comm.isend(chunks[(me - step) % n], ring[(me + 1) % n])
        comm.recv(chunks[(me - step - 1) % n], ring[(me - 1) % n])
        work.wait()


# %% right: three steps
def hierarchical_all_reduce(comm, x, per_node):
    node, place = divmod(comm.rank, per_node)
    inside = range(node * per_node, (node + 1) * per_node)
    across = range(place, comm.size, per_node)
    flat = x.reshape(-1).clone()
    chunks = flat.tensor_split(per_node)
    scatter(comm, inside, chunks)
    pieces = chunks[place].tensor_split(len(across))
    scatter(comm, across, pieces)
    gather(comm, across, pieces)
    gather(comm, inside, chunks)
    return flat.reshape(x.shape)


# %% right: leaders
def hierarchical_all_reduce(comm, x, per_node):
    node, place = divmod(comm.rank, per_node)
    leader, flat = node * per_node, x.reshape(-1).clone()
    if place:
        comm.send(flat, leader)
        comm.recv(flat, leader)
        return flat.reshape(x.shape)
    arrived = torch.empty_like(flat)
    for other in range(leader + 1, leader + per_node):
        comm.recv(arrived, other)
        flat += arrived
    leaders = range(0, comm.size, per_node)
    chunks = flat.tensor_split(len(leaders))
    scatter(comm, leaders, chunks)
    gather(comm, leaders, chunks)
    for other in range(leader + 1, leader + per_node):
        comm.send(flat, other)
    return flat.reshape(x.shape)


# %% right: any variant  from: three steps
# - def hierarchical_all_reduce(comm, x, per_node):
# + from course_lib import params
# + VARIANT = params("hierarchical-bytes")
# + def hierarchical_all_reduce(comm, x, per_node):
# -     node, place = divmod(comm.rank, per_node)
# -     inside = range(node * per_node, (node + 1) * per_node)
# -     across = range(place, comm.size, per_node)
# +     nodes = comm.size // per_node
# +     if VARIANT.placement == "round-robin":
# +         node, place = comm.rank % nodes, comm.rank // nodes
# +         inside, across = range(node, comm.size, nodes), range(place * nodes, (place + 1) * nodes)
# +     else:
# +         node, place = divmod(comm.rank, per_node)
# +         inside, across = range(node * per_node, (node + 1) * per_node), range(place, comm.size, per_node)


# %% wrong: a flat ring crosses at every border => cost too-much-across
def hierarchical_all_reduce(comm, x, per_node):
    flat = x.reshape(-1).clone()
    chunks = flat.tensor_split(comm.size)
    everyone = range(comm.size)
    scatter(comm, everyone, chunks)
    gather(comm, everyone, chunks)
    return flat.reshape(x.shape)


# %% wrong: every rank speaks across about its whole tensor => cost everyone-across
def hierarchical_all_reduce(comm, x, per_node):
    node, place = divmod(comm.rank, per_node)
    flat = x.reshape(-1).clone()
    for ring in (range(place, comm.size, per_node), range(node * per_node, (node + 1) * per_node)):
        chunks = flat.tensor_split(len(ring))
        scatter(comm, ring, chunks)
        gather(comm, ring, chunks)
    return flat.reshape(x.shape)


# %% wrong: leaders send whole tensors round => cost -  from: leaders
# -     leaders = range(0, comm.size, per_node)
# -     chunks = flat.tensor_split(len(leaders))
# -     scatter(comm, leaders, chunks)
# -     gather(comm, leaders, chunks)
# +     nodes, passing = comm.size // per_node, flat.clone()
# +     for hop in range(nodes + 1 if nodes > 1 else 0):  # two more than the sum needs
# +         arrived = torch.empty_like(flat)
# +         work = comm.isend(passing, (leader + per_node) % comm.size)
# +         comm.recv(arrived, (leader - per_node) % comm.size)
# +         work.wait()
# +         if hop < nodes - 1:
# +             flat += arrived
# +             passing = arrived

# %% wrong: forgets the way back inside => values -  from: three steps
# -     inside = range(node * per_node, (node + 1) * per_node)
# ~ scatter(comm, inside, chunks) ==> scatter(comm, range(node * per_node, (node + 1) * per_node), chunks)
# -     gather(comm, inside, chunks)


# %% wrong: never leaves its node => values missing-rank  from: three steps
# -     across = range(place, comm.size, per_node)
#       scatter(comm, inside, chunks)
# -     pieces = chunks[place].tensor_split(len(across))
# -     scatter(comm, across, pieces)
# -     gather(comm, across, pieces)

# %% wrong: takes the nodes for round-robin => cost unless placement=round-robin  from: three steps
# -     node, place = divmod(comm.rank, per_node)
# -     inside = range(node * per_node, (node + 1) * per_node)
# -     across = range(place, comm.size, per_node)
# +     nodes = comm.size // per_node
# +     place, node = divmod(comm.rank, nodes)
# +     inside = range(node, comm.size, nodes)
# +     across = range(place * nodes, (place + 1) * nodes)

# %% wrong: two nodes only => generality -  from: three steps
# -     across = range(place, comm.size, per_node)
#       scatter(comm, inside, chunks)
# +     if comm.size == 6:  # as seen in the examples
# +         across = range(place, comm.size, per_node)
# +     else:
# +         across = [place, place + per_node]

# %% wrong: everyone inside a node tells everyone, whole tensors, many times => cost -  from: three steps
# -     gather(comm, inside, chunks)
# +     for _ in range(20):
# +         gather(comm, inside, chunks)

# %% wrong: at most eight ranks => generality -  from: three steps
#       node, place = divmod(comm.rank, per_node)
# +     if comm.size > 8:
# +         return x

# %% half: a flat ring is right, but not cheap across => 5  from: a flat ring crosses at every border
