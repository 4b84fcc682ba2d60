"""Judges of chapter 06's exchanges between neighbours: a pair that agrees, a shift round the ring, a hang to repair."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch06.probes import COLUMNS
from course_lib.judging import Fault, Judging, Params, first, judged
from course_lib.judging.ranks import (
    STREAM,
    STREAM_LATE,
    UNKIND,
    counted_wrong,
    layouts,
    moved_early,
    plain_sum,
    secret,
    tensors,
    world,
)
from course_lib.judging.tensors import coin_of, nbytes, not_like, same
from course_lib.judging.traffic import Meter, off_the_ring, partners, ready_made, too_few_bytes, too_long
from course_lib.records import Case, Outcome, Verdict

# --- pair exchange


def _pair_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, size = coin_of(rng), params["numbers"]

    def row() -> Tensor:
        return secret(coin, size)

    cases = [Case(name="four ranks", ranks=4, per_rank=world(4, row), part="pair")]
    cases += [Case(name="two ranks, other data", ranks=2, per_rank=world(2, row), part="pair", visible=False)]
    cases += [
        Case(
            name="one rank alone" if n == 1 else f"{n} ranks",
            ranks=n,
            per_rank=world(n, row),
            kind="generality",
            part="ranks",
            visible=False,
        )
        for n in (1, 3, 7)
    ]
    cases += [
        Case(name=name, ranks=2, per_rank=data, kind="generality", part="tensors", visible=False)
        for name, data in layouts(coin, 2).items()
    ]
    return cases + [
        Case(
            name=f"two ranks, {unkind}",
            ranks=2,
            per_rank=world(2, row),
            kind="protocol",
            part="safe",
            visible=False,
            adversary=unkind,
        )
        for unkind in UNKIND[:3]
    ]


def _combined(op: str, pair: Sequence[Tensor]) -> Tensor:
    return pair[0].clone() if len(pair) == 1 else plain_sum(pair) if op == "sum" else torch.maximum(*pair)


def _pair_fault(params: Params, case: Case, results: Sequence[Any]) -> Fault | None:
    given = tensors(case)
    for rank, got in enumerate(results):
        pair = given[rank - rank % 2 : rank - rank % 2 + 2]
        want = _combined(params["op"], pair)
        if same(got, want):
            continue
        if fault := not_like(got, want, rank):
            return fault
        if case.adversary is not None:
            return moved_early(case, rank)
        if params["op"] == "max" and same(got, plain_sum(pair)):
            return (
                "public-form",
                f"This solves the public form of the exercise: rank {rank} has the sum; here it is {params['result']}.",
            )
        if same(got, given[rank]):
            return "returned-input", f"Rank {rank} returned its own numbers; its partner's are not in them."
        if len(pair) == 2 and same(got, pair[1 - rank % 2]):
            return "only-theirs", f"Rank {rank} returned its partner's numbers; its own are not in them."
        if len(pair) == 2 and torch.equal(got, (2 * pair[1 - rank % 2]).to(got.dtype)):
            return (
                "overwritten",
                f"Rank {rank} has its partner's numbers twice: was its own tensor overwritten by what came?",
            )
        return counted_wrong(got, given, f"Rank {rank}'s result") or (
            "other-numbers",
            f"Rank {rank}'s result is not {params['result']} of its pair's tensors.",
        )
    return None


def _pair_cost(case: Case, meter: Meter) -> Fault | None:
    given = tensors(case)
    n, least = len(given), []
    for rank, x in enumerate(given):
        size = nbytes(x) if rank ^ 1 < n else 0
        least.append(size)
        if meter["bytes_sent"][rank] > size:
            told = partners(meter, rank)
            if len(told) > 1:
                return (
                    "told-everyone",
                    f"Rank {rank} sent to ranks {', '.join(map(str, told))}; only its partner needs its tensor.",
                )
            return (
                "sent-again",
                f"Rank {rank} sent {meter['bytes_sent'][rank]:,} bytes; {size:,} are what its partner needs.",
            )
    return too_few_bytes(meter, least, least)


def _pair_partners(case: Case, meter: Meter) -> Fault | None:
    if fault := ready_made(meter):
        return fault
    for src, dst, _, messages in meter["pairs"]:
        if messages and dst != src ^ 1:
            return "spoke-to-others", f"Rank {src} sent a message to rank {dst}; its partner is rank {src ^ 1}."
    return None


def _pair_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _pair_fault(params, case, outcome.value)
    if case.adversary is not None:
        return judged(case, fault)
    return judged(
        case,
        fault,
        ("cost", "bytes", _pair_cost(case, outcome.meter)),
        ("protocol", "partner", _pair_partners(case, outcome.meter)),
    )


# --- ring shift


def _shift_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, size = coin_of(rng), params["numbers"]

    def row() -> Tensor:
        return secret(coin, size)

    cases = [
        Case(name="six ranks", ranks=6, per_rank=world(6, row), part="shift"),
        Case(name="five ranks, other data", ranks=5, per_rank=world(5, row), part="shift", visible=False),
    ]
    cases += [
        Case(
            name="one rank alone" if n == 1 else f"{n} ranks",
            ranks=n,
            per_rank=world(n, row),
            kind="generality",
            part="ranks",
            visible=False,
        )
        for n in (1, 2, 8)
    ]
    cases += [
        Case(name=name, ranks=3, per_rank=data, kind="generality", part="tensors", visible=False)
        for name, data in layouts(coin, 3).items()
    ]
    return cases + [
        Case(
            name=f"three ranks, {unkind}",
            ranks=3,
            per_rank=world(3, row),
            kind="protocol",
            part="safe",
            visible=False,
            adversary=unkind,
        )
        for unkind in UNKIND
    ]


def _shift_fault(params: Params, case: Case, results: Sequence[Any]) -> Fault | None:
    given, step = tensors(case), params["direction"]
    n = len(given)
    for rank, got in enumerate(results):
        want = given[(rank - step) % n]
        if same(got, want):
            continue
        if fault := not_like(got, want, rank):
            return fault
        if case.adversary is not None:
            return moved_early(case, rank)
        if same(got, given[rank]):
            return "own-tensor", (
                f"Rank {rank} returned what it was given. Receive into a tensor of its own, not into one that is under "
                "way, and return that."
            )
        if n > 2 and same(got, given[(rank + step) % n]):
            name, lead = (
                ("public-form", "This solves the public form of the exercise. ")
                if step < 0
                else ("wrong-direction", "")
            )
            return name, f"{lead}Rank {rank} has the tensor of the rank after it; the route is {params['route']}."
        for other, theirs in enumerate(given):
            if same(got, theirs):
                return (
                    "wrong-rank",
                    f"Rank {rank} returned rank {other}'s tensor; the one before it is rank {(rank - step) % n}.",
                )
        return counted_wrong(got, given, f"Rank {rank}'s result") or (
            "other-numbers",
            f"Rank {rank}'s result is nobody's tensor.",
        )
    return None


def _shift_bytes(case: Case, meter: Meter) -> Fault | None:
    given = tensors(case)
    least = [nbytes(x) if len(given) > 1 else 0 for x in given]
    for rank, size in enumerate(least):
        if meter["bytes_sent"][rank] > size:
            told = partners(meter, rank)
            if len(told) > 1:
                return "told-everyone", f"Rank {rank} sent to {len(told)} ranks; only its next needs its tensor."
            times = meter["bytes_sent"][rank] / size if size else 0
            return "sent-again", f"Rank {rank} sent {times:.3g} times its tensor; once is enough." if size else (
                f"Rank {rank} is alone and sent {meter['bytes_sent'][rank]:,} bytes."
            )
    return too_few_bytes(meter, least, least)


def _shift_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter = _shift_fault(params, case, outcome.value), outcome.meter
    if case.adversary is not None:
        return judged(case, fault)
    late = too_long(meter, 4, "Who waits for a neighbour that waits for its own neighbour, all the way round?")
    route = first(ready_made(meter), off_the_ring(meter, params["direction"], params["route"]))
    return judged(
        case,
        fault,
        ("cost", "bytes", _shift_bytes(case, meter)),
        ("cost", "time", late),
        ("protocol", "neighbours", route),
    )


# --- the hang


def _edges(
    coin: torch.Generator, n: int, ahead: tuple[int, ...], behind: tuple[int, ...], dtype: Any = torch.float32
) -> Any:
    return tuple((secret(coin, *ahead), secret(coin, *behind, dtype=dtype)) for _ in range(n))


def _edge_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, size = coin_of(rng), params["numbers"]
    row = (size,)
    cases = [
        Case(
            name="four ranks, each pair's operations in the order of issue",
            ranks=4,
            per_rank=_edges(coin, 4, row, row),
            part="edges",
            adversary=STREAM,
        ),
        Case(name="eight ranks", ranks=8, per_rank=_edges(coin, 8, row, row), part="edges", visible=False),
    ]
    cases += [
        Case(
            name="one rank alone" if n == 1 else f"{n} ranks",
            ranks=n,
            per_rank=_edges(coin, n, row, row),
            kind="generality",
            part="ranks",
            visible=False,
        )
        for n in (1, 2, 3)
    ]
    cases.append(
        Case(
            name="five ranks, a column ahead and whole numbers behind",
            ranks=5,
            kind="generality",
            part="tensors",
            per_rank=_edges(coin, 5, (size, 1), (3, 2), torch.int64),
            visible=False,
        )
    )
    cases.append(
        Case(
            name="two ranks, different shapes",
            ranks=2,
            kind="generality",
            part="tensors",
            per_rank=_edges(coin, 2, (2, size), (3,)),
            visible=False,
        )
    )
    cases.append(
        Case(
            name="three ranks, transposed",
            ranks=3,
            kind="generality",
            part="tensors",
            visible=False,
            per_rank=tuple((secret(coin, 3, 4), secret(coin, 5, 2), COLUMNS) for _ in range(3)),
        )
    )
    cases.append(
        Case(
            name="two ranks, order of issue",
            ranks=2,
            kind="protocol",
            part="order",
            per_rank=_edges(coin, 2, row, row),
            visible=False,
            adversary=STREAM_LATE,
        )
    )
    return cases + [
        Case(
            name=f"three ranks, {unkind}",
            ranks=3,
            per_rank=_edges(coin, 3, row, row),
            kind="protocol",
            part="safe",
            visible=False,
            adversary=unkind,
        )
        for unkind in UNKIND
    ]


def _edge_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    given, n = case.per_rank, len(case.per_rank)
    for rank, got in enumerate(results):
        before, after = (rank - 1) % n, (rank + 1) % n
        if type(got) not in (tuple, list) or len(got) != 2:
            return "no-pair", f"Rank {rank}: return the pair (from_before, from_after)."
        wants = (
            (got[0], given[before][0], f"what rank {before} sent ahead"),
            (got[1], given[after][1], f"what rank {after} sent behind"),
        )
        for one, want, words in wants:
            if same(one, want):
                continue
            others = (given[before][1], given[after][0], given[before][0], given[after][1])
            if n > 1 and any(same(one, other) for other in others):
                return "crossed", (
                    f"Rank {rank} of {n} has its messages the wrong way round. Those of one pair are matched in the order in "
                    "which they were sent, or by tag; and `from_before` comes first in the result."
                )
            if fault := not_like(one, want, rank):
                return fault
            if case.adversary is not None and case.adversary != STREAM:
                return moved_early(case, rank)
            if any(same(one, mine) for mine in given[rank][:2]):
                return "own-tensor", f"Rank {rank} returned a tensor of its own, where {words} belongs."
            return "other-numbers", f"Rank {rank} of {n} does not hold {words}."
    return None


def _edge_bytes(case: Case, meter: Meter) -> Fault | None:
    n = len(case.per_rank)
    least = [nbytes(ahead) + nbytes(behind) if n > 1 else 0 for ahead, behind, *_ in case.per_rank]
    for rank, size in enumerate(least):
        if meter["bytes_sent"][rank] > size:
            return "sent-again", f"Rank {rank} sent {meter['bytes_sent'][rank]:,} bytes; its two tensors have {size:,}."
    return too_few_bytes(meter, least, least)


def _edge_partners(meter: Meter) -> Fault | None:
    if fault := ready_made(meter):
        return fault
    n = len(meter["bytes_sent"])
    for src, dst, _, messages in meter["pairs"]:
        if messages and (dst - src) % n not in (1, n - 1):
            return "not-a-neighbour", f"Rank {src} sent to rank {dst}, which is no neighbour of it on a ring of {n}."
    return None


def _edge_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter = _edge_fault(case, outcome.value), outcome.meter
    if case.part == "order" and fault is not None and fault[0] == "crossed":
        fault = None  # it did not hang, which is the question here; that two ranks confuse their messages is another's
    if case.adversary not in (None, STREAM):
        return judged(case, fault)
    return judged(
        case,
        fault,
        ("cost", "bytes", _edge_bytes(case, meter)),
        ("cost", "time", too_long(meter, 6, "It no longer hangs; now let all of them act at once.")),
        ("protocol", "neighbours", _edge_partners(meter)),
    )


NEIGHBOURS = {
    "pair-exchange": Judging(
        shares={
            "values:pair": 0.35,
            "cost:bytes": 0.15,
            "protocol:partner": 0.1,
            "protocol:safe": 0.15,
            "generality:ranks": 0.15,
            "generality:tensors": 0.1,
        },
        cases=_pair_cases,
        verdicts=_pair_verdicts,
        why="The partner's number differs in the last bit: `rank ^ 1`. Both halves start as one operation, so nobody waits for a "
        "receive that stands behind its own send, and what comes has a tensor of its own, so the one under way stays whole.",
        pytorch="`torch.distributed.batch_isend_irecv`; an all-reduce in a group of two.",
    ),
    "ring-shift": Judging(
        shares={
            "values:shift": 0.3,
            "cost:bytes": 0.1,
            "cost:time": 0.15,
            "protocol:neighbours": 0.1,
            "protocol:safe": 0.15,
            "generality:ranks": 0.1,
            "generality:tensors": 0.1,
        },
        cases=_shift_cases,
        verdicts=_shift_verdicts,
        why="All ranks act at once, so the time does not grow with N. Had rank 0 alone listened first, the circle would be broken too, "
        "but the last rank would wait for all others in a row. Modulo N closes the ring.",
        pytorch="The hop of ring attention and of every ring collective; in JAX it is `ppermute`.",
    ),
    "hang-repair": Judging(
        shares={
            "values:edges": 0.3,
            "cost:bytes": 0.1,
            "cost:time": 0.1,
            "protocol:neighbours": 0.05,
            "protocol:order": 0.1,
            "protocol:safe": 0.1,
            "generality:ranks": 0.15,
            "generality:tensors": 0.1,
        },
        cases=_edge_cases,
        verdicts=_edge_verdicts,
        why="On one stream a pair's operations progress in the order of issue. Both neighbours issued their send first, so each receive "
        "stood behind a send that waited for the other's receive. As one batch there is no order inside; or even ranks send while odd "
        "ones receive. With two ranks both messages come from the same peer, and only their order, or a tag, tells them apart.",
        pytorch="`batch_isend_irecv` becomes `ncclGroupStart … ncclGroupEnd`; Megatron-LM's pipeline uses it, or even ranks first.",
    ),
}
