import torch

from course_chapters.ch06.exercises.judges.shared import ADVERSE
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, hidden, judged, shown
from course_grader.judging.cases import MoreOnRanks
from course_grader.judging.ranks import secret, sum_fault
from course_grader.judging.tensors import coin_of, nbytes
from course_grader.judging.traffic import Meter, ready_made, too_few_bytes, too_many_bytes


def node_of(rank: int, n: int, per_node: int, placement: str) -> int:
    return rank // per_node if placement == "block" else rank % (n // per_node)


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, length = coin_of(rng), params["numbers"]

    def data(nodes: int, per_node: int, *shape: int, dtype: torch.dtype = torch.float32) -> MoreOnRanks:
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
        given = data(3, 2, 12)
        given["adversary"] = unkind
        cases.append(hidden(f"three nodes of two, {unkind}", "protocol:safe", **given))
    return cases


def _sent_across(case: Case, meter: Meter, placement: str) -> list[int]:
    """Bytes that each node sent to other nodes, if ranks are placed so."""
    n, per_node = case.ranks or 1, case.secret
    sent = [0] * (n // per_node)
    for src, dst, moved, _ in meter["pairs"]:
        home = node_of(src, n, per_node, placement)
        sent[home] += moved * (node_of(dst, n, per_node, placement) != home)
    return sent


def _across(params: Params, case: Case, meter: Meter) -> Fault | None:
    assert case.per_rank
    per_node, x = case.secret, case.per_rank[0][0]
    sent = _sent_across(case, meter, params["placement"])
    spare = sum(len(chunk) // len(sent) for chunk in torch.empty(x.numel()).tensor_split(per_node))
    size, most = nbytes(x), 2 * (nbytes(x) - spare * x.element_size())
    worst = max(range(len(sent)), key=sent.__getitem__)
    if sent[worst] <= most or not size:
        return None
    text = f"Node {worst} sends {sent[worst] / size:.3g}·S bytes to other nodes; {most / size:.3g}·S are enough."
    if params["placement"] != "block" and max(_sent_across(case, meter, "block")) <= most:
        return "public-form", f"This solves the public form of the exercise: {text} {params['where']}."
    first = "What can the ranks of a node do among themselves first?"
    if sent[worst] >= per_node * size:
        return "everyone-across", f"Every rank sends to other nodes: {text} {first}"
    return "too-much-across", f"{text} {first}"


def _bytes(case: Case, meter: Meter) -> Fault | None:
    assert case.per_rank
    x = case.per_rank[0][0]
    size, n = nbytes(x), case.ranks or 1
    least = [size if n > 1 else 0] * n
    over = too_many_bytes(meter, size, 2 * (case.secret + 1) * size, "the task allows") if size else None
    return over or too_few_bytes(meter, least, least)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter = sum_fault(case, [x for x, _ in case.per_rank or ()], outcome.value), outcome.meter
    if case.adversary is not None:
        return judged(case, fault)
    costs = ("cost", "across", _across(params, case, meter)), ("cost", "inside", _bytes(case, meter))
    return judged(case, fault, *costs, ("protocol", "by-hand", ready_made(meter)))


JUDGING = Judging(
    point=("cost:across",),
    shares="values:sum 0.25, cost:across 0.3, cost:inside 0.1, protocol:by-hand 0.05, protocol:safe 0.1, "
    "generality:shapes 0.1, generality:sizes 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="A node has to send one sum, not one tensor per rank. After a reduce-scatter inside the node, rank i holds "
    "chunk i of the node's sum. Then the i-th ranks of all nodes all-reduce chunk i, so all adapters of a node "
    "carry an equal share.",
    pytorch="HSDP: reduce-scatter inside `dp_shard`, all-reduce across `dp_replicate`. Each of NCCL's rings enters "
    "and leaves a node once.",
)

ANSWERS = r'''# %% right: worked
placement = params("hierarchical-bytes").placement  # leave as is: "block" or "round-robin"


def hierarchical_all_reduce(comm, x, per_node):
    """The sum of all ranks' `x`. Budget: 2·S·(1 − 1/nodes) bytes from a node to other nodes."""

    def half_ring(ring, chunks, adding):  # one half of a ring over a list of ranks
        n, me = len(ring), ring.index(comm.rank)
        for step in range(n - 1):
            outgoing, incoming = chunks[(me - step - adding) % n], chunks[(me - step - adding - 1) % n]
            arrived = torch.empty_like(incoming)
            after, before = ring[(me + 1) % n], ring[(me - 1) % n]
            halves = [P2POp(comm.isend, outgoing, after), P2POp(comm.irecv, arrived, before)]
            for work in comm.batch_isend_irecv(halves):
                work.wait()
            incoming.copy_(incoming + arrived if adding else arrived)

    nodes = comm.size // per_node
    if placement == "block":
        node, place = divmod(comm.rank, per_node)
        inside = [node * per_node + i for i in range(per_node)]
        across = list(range(place, comm.size, per_node))
    else:
        place, node = divmod(comm.rank, nodes)
        inside = list(range(node, comm.size, nodes))
        across = [place * nodes + i for i in range(nodes)]
    flat = x.reshape(-1).clone()
    chunks = list(flat.tensor_split(per_node))
    pieces = list(chunks[place].tensor_split(nodes))
    half_ring(inside, chunks, 1)
    half_ring(across, pieces, 1)
    half_ring(across, pieces, 0)
    half_ring(inside, chunks, 0)
    return flat.reshape(x.shape)
# %% right: leaders
# -     chunks = list(flat.tensor_split(per_node))
# -     pieces = list(chunks[place].tensor_split(nodes))
# -     half_ring(inside, chunks, 1)
# +     if place:
# +         comm.send(flat, inside[0])
# +         comm.recv(flat, inside[0])
# +         return flat.reshape(x.shape)
# +     arrived, pieces = torch.empty_like(flat), list(flat.tensor_split(nodes))
# +     for other in inside[1:]:
# +         comm.recv(arrived, other)
# +         flat += arrived
# -     half_ring(inside, chunks, 0)
# +     for other in inside[1:]:
# +         comm.send(flat, other)
# %% wrong: a flat ring crosses at every border => cost too-much-across
# -     chunks = list(flat.tensor_split(per_node))
# -     pieces = list(chunks[place].tensor_split(nodes))
# -     half_ring(inside, chunks, 1)
# -     half_ring(across, pieces, 1)
# -     half_ring(across, pieces, 0)
# -     half_ring(inside, chunks, 0)
# +     everyone = sorted(range(comm.size), key=lambda rank: rank // per_node if placement == "block" else rank % nodes)
# +     chunks = list(flat.tensor_split(comm.size))
# +     half_ring(everyone, chunks, 1)
# +     half_ring(everyone, chunks, 0)
# %% wrong: every rank speaks across about its whole tensor => cost everyone-across
# -     pieces = list(chunks[place].tensor_split(nodes))
# -     half_ring(inside, chunks, 1)
# +     pieces = list(flat.tensor_split(nodes))
#       half_ring(across, pieces, 0)
# +     half_ring(inside, chunks, 1)
# %% wrong: leaders send whole tensors round => cost everyone-across  from: leaders
# -     half_ring(across, pieces, 1)
# -     half_ring(across, pieces, 0)
# +     passing = flat.clone()
# +     for hop in range(nodes + 1 if nodes > 1 else 0):  # two more than the sum needs
# +         work = comm.isend(passing, across[(node + 1) % nodes])
# +         arrived = torch.empty_like(flat)
# +         comm.recv(arrived, across[(node - 1) % nodes])
# +         work.wait()
# +         flat += arrived * (hop < nodes - 1)
# +         passing = arrived
# %% wrong: forgets the way back inside => values other-numbers
# -     half_ring(inside, chunks, 0)
# %% wrong: never leaves its node => values missing-rank
# -     half_ring(across, pieces, 1)
# -     half_ring(across, pieces, 0)
# %% wrong: takes the nodes for other ones => cost everyone-across
# ~ if placement == "block": ==> if placement != "block":
# %% wrong: two nodes only => generality raised
#       flat = x.reshape(-1).clone()
# +     if comm.size != 6:  # as seen in the examples
# +         across = across[:2]
# %% wrong: everyone inside a node tells everyone, whole tensors, many times => cost too-many-bytes
# -     half_ring(inside, chunks, 0)
# +     for _ in range(20):
# +         half_ring(inside, chunks, 0)
# %% wrong: at most eight ranks => generality returned-input
#       nodes = comm.size // per_node
# +     if comm.size > 8:
# +         return x
# %% half: a flat ring is right, but not cheap across => 5  from: a flat ring crosses at every border
'''
