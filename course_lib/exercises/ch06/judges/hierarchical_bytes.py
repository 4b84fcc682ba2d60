"""Judge of hierarchical-bytes: mind the link between nodes."""

import random
from typing import Any

import torch

from course_lib.exercises.ch06.judges.shared import ADVERSE
from course_lib.judging import Fault, Judging, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.ranks import secret, sum_fault
from course_lib.judging.tensors import coin_of, nbytes
from course_lib.judging.traffic import Meter, ready_made, too_few_bytes, too_many_bytes
from course_lib.records import Case, Outcome, Verdict


def node_of(rank: int, n: int, per_node: int, placement: str) -> int:
    """The node that a rank is on."""
    return rank // per_node if placement == "block" else rank % (n // per_node)


def _node_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, length = coin_of(rng), params["numbers"]

    def data(nodes: int, per_node: int, *shape: int, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
        ranks = range(nodes * per_node)
        return {"per_rank": tuple((secret(coin, *shape, dtype=dtype), per_node) for _ in ranks), "secret": per_node}

    cases = [shown("two nodes of four ranks", "values:sum", **data(2, 4, 8 * length))]
    cases += [hidden("three nodes of two ranks", "values:sum", **data(3, 2, 6 * length))]
    for nodes, per_node in ((1, 3), (4, 1), (1, 1), (2, 3), (5, 2), (2, 5)):
        given = data(nodes, per_node, nodes * per_node * length)
        cases.append(hidden(f"nodes: {nodes}, ranks per node: {per_node}", "generality:shapes", **given))
    cases += [hidden("two nodes of three, 7 numbers", "generality:sizes", **data(2, 3, 7))]
    cases += [hidden("two nodes of two, one number", "generality:sizes", **data(2, 2, 1))]
    cases += [hidden("two nodes of two, 64-bit integers", "generality:sizes", **data(2, 2, 8, dtype=torch.int64))]
    cases += [hidden("two nodes of two, rows of integers", "generality:sizes", **data(2, 2, 3, 5, dtype=torch.int16))]
    for unkind in ADVERSE:
        cases.append(hidden(f"three nodes of two, {unkind}", "protocol:safe", adversary=unkind, **data(3, 2, 12)))
    return cases


def _across(params: Params, case: Case, meter: Meter) -> Fault | None:
    n, per_node, placement = case.ranks or 1, case.secret, params["placement"]
    nodes = n // per_node
    x = case.per_rank[0][0]
    size, item = nbytes(x), x.element_size()
    sent = [0] * nodes
    for src, dst, moved, _ in meter["pairs"]:
        home = node_of(src, n, per_node, placement)
        if node_of(dst, n, per_node, placement) != home:
            sent[home] += moved
    spare = sum(len(chunk) // nodes for chunk in torch.empty(x.numel()).tensor_split(per_node))
    most = 2 * (size - spare * item)
    worst = max(range(nodes), key=sent.__getitem__)
    if sent[worst] <= most or not size:
        return None
    text = f"Node {worst} sends {sent[worst] / size:.3g}·S bytes to other nodes; {most / size:.3g}·S are enough."
    hops = {dst - src for src, dst, _, _ in meter["pairs"]}
    if placement == "round-robin" and len(hops) <= 4 and nodes > 1:
        return "public-form", f"Does this solve the public form of the exercise? {text} {params['where']}."
    first = "What can the ranks of a node do among themselves first?"
    if sent[worst] >= per_node * size:
        return "everyone-across", f"Every rank sends to other nodes: {text} {first}"
    return "too-much-across", f"{text} {first}"


def _node_bytes(case: Case, meter: Meter) -> Fault | None:
    x = case.per_rank[0][0]
    size, n = nbytes(x), case.ranks or 1
    least = [size if n > 1 else 0] * n
    over = too_many_bytes(meter, size, 2 * (case.secret + 1) * size, "the task allows") if size else None
    return over or too_few_bytes(meter, least, least)


def _node_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter = sum_fault(case, [x for x, _ in case.per_rank], outcome.value), outcome.meter
    if case.adversary is not None:
        return judged(case, fault)
    costs = ("cost", "across", _across(params, case, meter)), ("cost", "inside", _node_bytes(case, meter))
    return judged(case, fault, *costs, ("protocol", "by-hand", ready_made(meter)))


JUDGING = Judging(
    point=("cost:across",),
    shares="values:sum 0.25, cost:across 0.3, cost:inside 0.1, protocol:by-hand 0.05, protocol:safe 0.1, "
    "generality:shapes 0.1, generality:sizes 0.1",
    cases=_node_cases,
    verdicts=_node_verdicts,
    why="A node has to send one sum, not one tensor per rank. After a reduce-scatter inside the node, rank i holds chunk i of the node's "
    "sum. Then the i-th ranks of all nodes all-reduce chunk i, so all adapters of a node carry an equal share.",
    pytorch="HSDP: reduce-scatter inside `dp_shard`, all-reduce across `dp_replicate`. Each of NCCL's rings enters and leaves a node once.",
)

ANSWERS = r'''import torch


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
'''
