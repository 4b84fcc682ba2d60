"""Judges of chapter 06's other collectives: halving and doubling, hierarchical all-reduce, all-to-all of unknown sizes."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.layouts import COLUMNS
from course_lib.judging import Fault, Judging, Params, judged, ranks, traffic
from course_lib.judging.cases import hidden, ranks_text, shown, under
from course_lib.judging.ranks import PerRank, layouts, moved_early, secret, sum_fault, tensors, world
from course_lib.judging.tensors import coin_of, nbytes, same
from course_lib.judging.traffic import Meter, partners, ready_made, too_few_bytes, too_long, too_many_bytes
from course_lib.records import Case, Outcome, Verdict

ADVERSE = (ranks.LATE, ranks.BUFFERS_LATE)
COUNT = 8  # bytes in which a rank may tell another how many numbers follow


# --- halving and doubling


def _halving_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, length = coin_of(rng), params["numbers"]

    def data(n: int, size: int) -> PerRank:
        return world(n, lambda: secret(coin, size))

    cases = [shown("eight ranks", "values:sum", per_rank=data(8, 8 * length))]
    cases += [hidden("four ranks, other data", "values:sum", per_rank=data(4, 4 * length))]
    cases += [hidden(ranks_text(n), "generality:ranks", per_rank=data(n, n * length)) for n in (1, 2, 3, 6, 7, 16)]
    many = world(rng.choice((13, 14, 15)), lambda: secret(coin, 2, 3, 7, dtype=torch.int64))
    cases += [hidden(f"{len(many)} ranks, integers in three dimensions", "generality:ranks", per_rank=many)]
    turned = world(1, lambda: secret(coin, 4, 5, dtype=torch.int64), COLUMNS)
    cases += [hidden("one rank alone, a transposed matrix of integers", "generality:tensors", per_rank=turned)]
    for n, size in ((4, 7), (8, 3), (3, 0)):
        cases.append(hidden(f"{n} ranks, {size} numbers", "generality:tensors", per_rank=data(n, size)))
    cases += [hidden(name, "generality:tensors", per_rank=given) for name, given in layouts(coin, 2).items()]
    return cases + under(ADVERSE, "four ranks", "protocol:safe", lambda: data(4, 12))


def _halving_bytes(case: Case, meter: Meter) -> Fault | None:
    given = tensors(case)
    n, elements, item = len(given), given[0].numel(), given[0].element_size()
    if not elements:
        return None
    core = 1 << (n.bit_length() - 1)
    rounds = 2 * (core.bit_length() - 1)
    most = 2 * (elements - elements // core) + (rounds if elements % core else 0) + (elements if core != n else 0)
    least = [elements * item if n > 1 else 0] * n
    over = too_many_bytes(meter, elements * item, most * item, "halving and doubling needs")
    return over or too_few_bytes(meter, least, least)


def _halving_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    given, meter = tensors(case), outcome.meter
    fault, n = sum_fault(case, given, outcome.value), len(given)
    if case.adversary is not None:
        return judged(case, fault)
    think = "Do both partners send at the same time, and does their distance halve or double each round?"
    rounds = traffic.too_many_rounds(meter, 2 * (n - 1).bit_length() + 2, think)
    costs = ("cost", "bytes", _halving_bytes(case, meter)), ("cost", "rounds", rounds)
    return judged(case, fault, *costs, ("protocol", "by-hand", ready_made(meter)))


# --- nodes


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


# --- all-to-all


def _parts(coin: torch.Generator, counts: Sequence[Sequence[int]], dtype: torch.dtype = torch.float32) -> Any:
    return tuple(([secret(coin, count, dtype=dtype) for count in row],) for row in counts)


def _all_to_all_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, longest = coin_of(rng), params["longest"]

    def drawn(n: int) -> list[list[int]]:
        def row(s: int) -> list[int]:
            return [rng.randrange(longest // 2, longest + 1) + 3 * longest * ((s + d) % n == 2) for d in range(n)]

        return [row(s) for s in range(n)]

    hot = [[longest if d == 1 else 0 for d in range(4)] for _ in range(4)]
    sparse = [[longest if (s * 3 + d * 5) % 4 == 0 else 0 for d in range(5)] for s in range(5)]
    cases = [shown("five ranks", "values:rows", per_rank=_parts(coin, drawn(5)))]
    cases += [hidden("four ranks, other data", "values:rows", per_rank=_parts(coin, drawn(4)))]
    cases += [hidden("all data for rank 1", "generality:empty", per_rank=_parts(coin, hot))]
    cases += [hidden("many empty rows", "generality:empty", per_rank=_parts(coin, sparse))]
    cases += [hidden("no data at all", "generality:empty", per_rank=_parts(coin, [[0] * 3] * 3))]
    cases += [hidden("64-bit integers", "generality:ranks", per_rank=_parts(coin, drawn(6), torch.int64))]
    long = _parts(coin, [[0, 40_001, 257], [3, 0, 0], [300, 0, 1]], torch.bfloat16)
    cases += [hidden("bfloat16, and rows of up to 40,001 numbers", "generality:empty", per_rank=long)]
    dtypes = {1: torch.float32, 2: torch.int16, 8: torch.float64, 11: torch.float32}
    cases += [
        hidden(ranks_text(n), "generality:ranks", per_rank=_parts(coin, drawn(n), each)) for n, each in dtypes.items()
    ]
    machines = (ranks.LATE, ranks.BUFFERS_LATE, ranks.STREAM_LATE)
    return cases + under(machines, "three ranks", "protocol:safe", lambda: _parts(coin, drawn(3)))


def _rows_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    given = [parts for (parts,) in case.per_rank or ()]
    n = len(given)
    for rank, got in enumerate(results):
        if len(got) != n:
            return "wrong-shape", f"Rank {rank}: return a list of {n} tensors, one from each rank; got {len(got)}."
        for source, row in enumerate(got):
            if not same(row, given[source][rank]):
                early = moved_early(case, rank) if case.adversary is not None else None
                return early or _row_fault(given, rank, source, row)
    return None


def _row_fault(given: Sequence[Sequence[Tensor]], rank: int, source: int, row: Tensor) -> Fault:
    want = given[source][rank]
    if same(row, given[rank][source]):
        return "kept-own", f"Rank {rank} kept its own row for rank {source}; return rank {source}'s row for it."
    for other in range(len(given)):
        if want.numel() and same(row, given[other][rank]):
            return "wrong-place", f"Rank {rank} has rank {other}'s row at index {source}; order the list by source."
        if row.numel() and same(row, given[source][other]):
            return "wrong-row", f"Rank {rank} returned the row that rank {source} had for rank {other}."
    sizes = f"Rank {rank}'s row from rank {source} has {row.numel()} numbers; it should have {want.numel()}."
    if row.numel() > want.numel() and torch.equal(row.reshape(-1)[: want.numel()], want.to(row.dtype)):
        return "padded", sizes
    if row.numel() < want.numel():
        return "cut-short", sizes
    return "other-numbers", f"Rank {rank}'s row from rank {source} does not hold that rank's numbers."


def _row_bytes(case: Case, meter: Meter) -> Fault | None:
    given = [parts for (parts,) in case.per_rank]
    n = len(given)
    out = [sum(nbytes(row) for d, row in enumerate(parts) if d != s) for s, parts in enumerate(given)]
    into = [sum(nbytes(given[s][d]) for s in range(n) if s != d) for d in range(n)]
    for rank, size in enumerate(out):
        spare = COUNT * n * max(n - 1, 1)  # room for counts, however they are exchanged
        if meter["bytes_sent"][rank] > size + spare:
            times = meter["bytes_sent"][rank] / max(size, 1)
            name = "detour" if any(len(partners(meter, each)) < n - 1 for each in range(n)) else "padded"
            return name, (
                f"Rank {rank} sent {meter['bytes_sent'][rank]:,} bytes, {times:.3g} times its rows for other ranks. Send each "
                "number once, directly and without padding."
            )
    return too_few_bytes(meter, out, into)


def _row_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter, n = _rows_fault(case, outcome.value), outcome.meter, case.ranks or 1
    if case.adversary is not None:
        return judged(case, fault)
    late = too_long(meter, 4 * n, "In each round, let every rank send to a different one: rank r to r + k.")
    costs = ("cost", "bytes", _row_bytes(case, meter)), ("cost", "time", late)
    return judged(case, fault, *costs, ("protocol", "by-hand", ready_made(meter)))


MORE = {
    "halving-doubling": Judging(
        shares="values:sum 0.25, cost:bytes 0.15, cost:rounds 0.2, protocol:by-hand 0.05, protocol:safe 0.1, "
        "generality:ranks 0.15, generality:tensors 0.1",
        cases=_halving_cases,
        verdicts=_halving_verdicts,
        why="Each exchange halves what a rank is responsible for, so the bytes are S/2 + S/4 + … on the way down and the same on the way "
        "back: a ring's bytes in 2·log₂ N rounds instead of 2(N − 1). The price: partners are far apart, and if N is not a power of "
        "two, it costs two whole messages more.",
        pytorch="MPICH and gloo implement it. For the same reason, NCCL offers `Tree` and, for the two halves in power-of-two groups, `PAT`.",
    ),
    "hierarchical-bytes": Judging(
        point=("cost:across",),
        shares="values:sum 0.25, cost:across 0.3, cost:inside 0.1, protocol:by-hand 0.05, protocol:safe 0.1, "
        "generality:shapes 0.1, generality:sizes 0.1",
        cases=_node_cases,
        verdicts=_node_verdicts,
        why="A node has to send one sum, not one tensor per rank. After a reduce-scatter inside the node, rank i holds chunk i of the node's "
        "sum. Then the i-th ranks of all nodes all-reduce chunk i, so all adapters of a node carry an equal share.",
        pytorch="HSDP: reduce-scatter inside `dp_shard`, all-reduce across `dp_replicate`. Each of NCCL's rings enters and leaves a node once.",
    ),
    "all-to-all-sizes": Judging(
        shares="values:rows 0.35, cost:bytes 0.15, cost:time 0.1, protocol:by-hand 0.05, protocol:safe 0.1, "
        "generality:empty 0.15, generality:ranks 0.1",
        cases=_all_to_all_cases,
        verdicts=_row_verdicts,
        why="First the counts, then the rows. If rank r sends to r + k while r − k sends to r, every rank receives from exactly one other in "
        "each round. If every rank sends to 0, 1, 2 … in that order, all queue at rank 0 first, and without buffers they deadlock.",
        pytorch="`torch.distributed.all_to_all_single` with split sizes, after an exchange of those sizes, as in expert parallelism.",
    ),
}
