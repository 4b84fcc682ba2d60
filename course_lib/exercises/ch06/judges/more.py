"""Judges of chapter 06's other collectives: halving and doubling, a hierarchy of nodes, all-to-all of unknown sizes."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.ranks import (
    BUFFERS_LATE,
    LATE,
    STREAM_LATE,
    layouts,
    moved_early,
    secret,
    sum_fault,
    tensors,
    world,
)
from course_lib.judging.tensors import coin_of, nbytes, same
from course_lib.judging.traffic import (
    Meter,
    partners,
    ready_made,
    too_few_bytes,
    too_long,
    too_many_bytes,
    too_many_rounds,
)
from course_lib.records import Case, Outcome, Verdict

ADVERSE = (LATE, BUFFERS_LATE)
COUNT = 8  # bytes in which a rank may tell another how many numbers will come


# --- halving and doubling


def _halving_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, each = coin_of(rng), params["numbers"]
    cases = [
        Case(name="eight ranks", ranks=8, per_rank=world(8, lambda: secret(coin, 8 * each)), part="sum"),
        Case(
            name="four ranks, other data",
            ranks=4,
            per_rank=world(4, lambda: secret(coin, 4 * each)),
            part="sum",
            visible=False,
        ),
    ]
    for n in (1, 2, 3, 6, 7):
        cases.append(
            Case(
                name="one rank alone" if n == 1 else f"{n} ranks",
                ranks=n,
                kind="generality",
                part="ranks",
                visible=False,
                per_rank=world(n, lambda n=n: secret(coin, n * each)),
            )
        )
    for n, size in ((4, 7), (8, 3)):
        cases.append(
            Case(
                name=f"{n} ranks, {size} numbers",
                ranks=n,
                kind="generality",
                part="tensors",
                visible=False,
                per_rank=world(n, lambda size=size: secret(coin, size)),
            )
        )
    cases += [
        Case(name=name, ranks=2, per_rank=data, kind="generality", part="tensors", visible=False)
        for name, data in layouts(coin, 2).items()
    ]
    cases += [
        Case(
            name=f"four ranks, {unkind}",
            ranks=4,
            per_rank=world(4, lambda: secret(coin, 12)),
            kind="protocol",
            part="safe",
            visible=False,
            adversary=unkind,
        )
        for unkind in ADVERSE
    ]
    return cases


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
    rounds = too_many_rounds(
        meter,
        2 * (n - 1).bit_length() + 2,
        "Are both partners sending and receiving at the same time, and do partners' distances double or halve?",
    )
    return judged(
        case,
        fault,
        ("cost", "bytes", _halving_bytes(case, meter)),
        ("cost", "rounds", rounds),
        ("protocol", "by-hand", ready_made(meter)),
    )


# --- nodes


def node_of(rank: int, n: int, per_node: int, placement: str) -> int:
    """The node that a rank is on."""
    return rank // per_node if placement == "block" else rank % (n // per_node)


def _node_case(coin: torch.Generator, name: str, nodes: int, per_node: int, size: int, **more: Any) -> Case:
    dtype = more.pop("dtype", torch.float32)
    data = tuple((secret(coin, size, dtype=dtype), per_node) for _ in range(nodes * per_node))
    return Case(name=name, ranks=nodes * per_node, per_rank=data, secret=per_node, **more)


def _node_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, each = coin_of(rng), params["numbers"]
    cases = [
        _node_case(coin, "two nodes of four ranks", 2, 4, 8 * each, part="sum"),
        _node_case(coin, "three nodes of two ranks", 3, 2, 6 * each, part="sum", visible=False),
    ]
    for nodes, per_node in ((1, 3), (4, 1), (1, 1), (2, 3)):
        cases.append(
            _node_case(
                coin,
                f"nodes: {nodes}, ranks a node: {per_node}",
                nodes,
                per_node,
                nodes * per_node * each,
                kind="generality",
                part="shapes",
                visible=False,
            )
        )
    cases.append(
        _node_case(coin, "two nodes of three, 7 numbers", 2, 3, 7, kind="generality", part="sizes", visible=False)
    )
    cases.append(
        _node_case(coin, "two nodes of two, one number", 2, 2, 1, kind="generality", part="sizes", visible=False)
    )
    cases.append(
        _node_case(
            coin,
            "two nodes of two, 64-bit whole numbers",
            2,
            2,
            8,
            kind="generality",
            part="sizes",
            visible=False,
            dtype=torch.int64,
        )
    )
    return cases + [
        _node_case(
            coin,
            f"three nodes of two, {unkind}",
            3,
            2,
            12,
            kind="protocol",
            part="safe",
            visible=False,
            adversary=unkind,
        )
        for unkind in ADVERSE
    ]


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
    if sent[worst] > most and size:
        text = (
            f"node {worst} sends {sent[worst] / size:.3g}·S bytes to other nodes, where {most / size:.3g}·S are enough."
        )
        if (
            params["placement"] == "round-robin"
            and len({dst - src for src, dst, _, _ in meter["pairs"]}) <= 4
            and nodes > 1
        ):
            return (
                "public-form",
                f"Does this solve the public form of the exercise? {text[0].upper()}{text[1:]} {params['where']}.",
            )
        if sent[worst] >= per_node * size:
            return (
                "everyone-across",
                f"Every rank speaks across: {text} What could a node's ranks do among themselves first?",
            )
        return "too-much-across", f"{text[0].upper()}{text[1:]} What could a node's ranks do among themselves first?"
    return None


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
    return judged(
        case,
        fault,
        ("cost", "across", _across(params, case, meter)),
        ("cost", "inside", _node_bytes(case, meter)),
        ("protocol", "by-hand", ready_made(meter)),
    )


# --- all-to-all


def _parts(coin: torch.Generator, counts: Sequence[Sequence[int]], dtype: torch.dtype = torch.float32) -> Any:
    return tuple(([secret(coin, count, dtype=dtype) for count in row],) for row in counts)


def _all_to_all_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, longest = coin_of(rng), params["longest"]

    def drawn(n: int) -> list[list[int]]:
        return [
            [rng.randrange(longest // 2, longest + 1) + (3 * longest if (s + d) % n == 2 else 0) for d in range(n)]
            for s in range(n)
        ]

    hot = [[longest if d == 1 else 0 for d in range(4)] for _ in range(4)]
    sparse = [[longest if (s * 3 + d * 5) % 4 == 0 else 0 for d in range(5)] for s in range(5)]
    cases = [
        Case(name="five ranks", ranks=5, per_rank=_parts(coin, drawn(5)), part="rows"),
        Case(name="four ranks, other data", ranks=4, per_rank=_parts(coin, drawn(4)), part="rows", visible=False),
        Case(
            name="everything for rank 1",
            ranks=4,
            per_rank=_parts(coin, hot),
            kind="generality",
            part="empty",
            visible=False,
        ),
        Case(
            name="many empty rows",
            ranks=5,
            per_rank=_parts(coin, sparse),
            kind="generality",
            part="empty",
            visible=False,
        ),
        Case(
            name="nothing at all",
            ranks=3,
            per_rank=_parts(coin, [[0] * 3] * 3),
            kind="generality",
            part="empty",
            visible=False,
        ),
        Case(
            name="64-bit whole numbers",
            ranks=3,
            per_rank=_parts(coin, drawn(3), torch.int64),
            kind="generality",
            part="ranks",
            visible=False,
        ),
    ]
    cases += [
        Case(
            name="one rank alone" if n == 1 else f"{n} ranks",
            ranks=n,
            per_rank=_parts(coin, drawn(n)),
            kind="generality",
            part="ranks",
            visible=False,
        )
        for n in (1, 2, 8)
    ]
    return cases + [
        Case(
            name=f"three ranks, {unkind}",
            ranks=3,
            per_rank=_parts(coin, drawn(3)),
            kind="protocol",
            part="safe",
            visible=False,
            adversary=unkind,
        )
        for unkind in (LATE, BUFFERS_LATE, STREAM_LATE)
    ]


def _rows_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    given = [parts for (parts,) in case.per_rank]
    n = len(given)
    for rank, got in enumerate(results):
        if type(got) not in (list, tuple) or len(got) != n:
            return "not-a-list", f"Rank {rank}: return a list of {n} tensors, one from each rank; got {describe(got)}."
        for source, row in enumerate(got):
            want = given[source][rank]
            if same(row, want):
                continue
            if case.adversary is not None:
                return moved_early(case, rank)
            if not isinstance(row, Tensor):
                return "not-a-tensor", f"Rank {rank} has {describe(row)} for what rank {source} sent."
            if same(row, given[rank][source]):
                return (
                    "kept-own",
                    f"Rank {rank} kept what it had for rank {source}; what rank {source} had for it belongs there.",
                )
            for other in range(n):
                if want.numel() and same(row, given[other][rank]):
                    return (
                        "wrong-place",
                        f"Rank {rank} has rank {other}'s row at place {source}; order the list by source.",
                    )
                if row.numel() and same(row, given[source][other]):
                    return "wrong-row", f"Rank {rank} has the row that rank {source} had for rank {other}."
            if row.numel() > want.numel() and torch.equal(row.reshape(-1)[: want.numel()], want.to(row.dtype)):
                return (
                    "padded",
                    f"Rank {rank}'s row from rank {source} has {row.numel()} numbers; {want.numel()} were sent.",
                )
            if row.numel() < want.numel():
                return (
                    "cut-short",
                    f"Rank {rank} has {row.numel()} of the {want.numel()} numbers that rank {source} had for it.",
                )
            return "other-numbers", f"Rank {rank}'s row from rank {source} is not what was sent."
    return None


def _row_bytes(case: Case, meter: Meter) -> Fault | None:
    given = [parts for (parts,) in case.per_rank]
    n = len(given)
    out = [sum(nbytes(row) for d, row in enumerate(parts) if d != s) for s, parts in enumerate(given)]
    into = [sum(nbytes(given[s][d]) for s in range(n) if s != d) for d in range(n)]
    for rank, size in enumerate(out):
        spare = COUNT * n * max(n - 1, 1)  # room for telling counts, whichever way
        if meter["bytes_sent"][rank] > size + spare:
            times = meter["bytes_sent"][rank] / max(size, 1)
            name = "detour" if any(len(partners(meter, each)) < n - 1 for each in range(n)) else "padded"
            return name, (
                f"Rank {rank} sent {meter['bytes_sent'][rank]:,} bytes, {times:.3g} times its rows for others. Each number "
                "crosses once, straight, and not padded."
            )
    return too_few_bytes(meter, out, into)


def _row_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter, n = _rows_fault(case, outcome.value), outcome.meter, case.ranks or 1
    if case.adversary is not None:
        return judged(case, fault)
    late = too_long(meter, 4 * n, "In each round let every rank speak to another one: rank r to r + k.")
    return judged(
        case,
        fault,
        ("cost", "bytes", _row_bytes(case, meter)),
        ("cost", "time", late),
        ("protocol", "by-hand", ready_made(meter)),
    )


MORE = {
    "halving-doubling": Judging(
        shares={
            "values:sum": 0.25,
            "cost:bytes": 0.15,
            "cost:rounds": 0.2,
            "protocol:by-hand": 0.05,
            "protocol:safe": 0.1,
            "generality:ranks": 0.15,
            "generality:tensors": 0.1,
        },
        cases=_halving_cases,
        verdicts=_halving_verdicts,
        why="Each exchange halves what a rank is responsible for, so the bytes are S/2 + S/4 + … on the way down and the same on the way "
        "back: a ring's bytes in 2·log₂ N rounds instead of 2(N − 1). The price: partners are far apart, and N that is no power of "
        "two costs two whole messages.",
        pytorch="MPICH and gloo have it; NCCL offers `Tree` and, for power-of-two groups, `PAT` for the two halves, for the same reason.",
    ),
    "hierarchical-bytes": Judging(
        shares={
            "values:sum": 0.25,
            "cost:across": 0.3,
            "cost:inside": 0.1,
            "protocol:by-hand": 0.05,
            "protocol:safe": 0.1,
            "generality:shapes": 0.1,
            "generality:sizes": 0.1,
        },
        cases=_node_cases,
        verdicts=_node_verdicts,
        why="A node has one sum to tell, not one tensor a rank. After a reduce-scatter inside, rank i holds chunk i of its node's sum, and "
        "only the i-th ranks speak across, each about its chunk; so all of a node's adapters carry an equal share.",
        pytorch="HSDP: reduce-scatter inside `dp_shard`, all-reduce across `dp_replicate`. NCCL's rings enter and leave a node once.",
    ),
    "all-to-all-sizes": Judging(
        shares={
            "values:rows": 0.35,
            "cost:bytes": 0.15,
            "cost:time": 0.1,
            "protocol:by-hand": 0.05,
            "protocol:safe": 0.1,
            "generality:empty": 0.15,
            "generality:ranks": 0.1,
        },
        cases=_all_to_all_cases,
        verdicts=_row_verdicts,
        why="Counts first, then rows. With r sending to r + k while r − k sends to r, every rank is spoken to by one other in each round. "
        "A loop that sends to 0, 1, 2 … on every rank has everyone queue at rank 0 first, and hangs without buffers.",
        pytorch="`torch.distributed.all_to_all_single` with split sizes, after an exchange of those sizes: what expert parallelism does.",
    ),
}
