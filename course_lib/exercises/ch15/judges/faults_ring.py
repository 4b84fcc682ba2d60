"""Judge of chapter 15's ring: blocks that go round while others are visited, with what is kind on CPUs taken away."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster import Topology
from course_lib.exercises.ch15.faults_probes import VISIT
from course_lib.judging import Fault, Judging, Params, describe, first, judged
from course_lib.judging.ranks import STREAM, UNKIND, PerRank, moved_early, secret, tensors
from course_lib.judging.tensors import coin_of, nbytes, same
from course_lib.judging.traffic import Meter, off_the_ring, ready_made, too_few_bytes
from course_lib.records import Case, Outcome, Verdict


def _blocks(coin: torch.Generator, n: int, *shape: int, dtype: torch.dtype = torch.float32) -> PerRank:
    return tuple((secret(coin, *shape, dtype=dtype),) for _ in range(n))


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, size = coin_of(rng), params["numbers"]
    cases = [
        Case(
            name="four ranks, each pair's operations in the order of issue",
            ranks=4,
            per_rank=_blocks(coin, 4, size),
            part="pass",
            adversary=STREAM,
        ),
        Case(name="seven ranks", ranks=7, per_rank=_blocks(coin, 7, size), part="pass", visible=False),
    ]
    cases += [
        Case(
            name="one rank alone" if n == 1 else f"{n} ranks",
            ranks=n,
            per_rank=_blocks(coin, n, size),
            kind="generality",
            part="ranks",
            visible=False,
        )
        for n in (1, 2, 3)
    ]
    shapes = {
        "keys and values of two dimensions": ((size, 3), torch.float32),
        "whole numbers": ((size,), torch.int64),
        "bfloat16": ((2, size), torch.bfloat16),
    }
    cases += [
        Case(
            name=f"three ranks, {name}",
            ranks=3,
            per_rank=_blocks(coin, 3, *shape, dtype=dtype),
            kind="generality",
            part="tensors",
            visible=False,
        )
        for name, (shape, dtype) in shapes.items()
    ]
    cases.append(
        Case(
            name="two ranks, order of issue",
            ranks=2,
            per_rank=_blocks(coin, 2, size),
            kind="protocol",
            part="safe",
            visible=False,
            adversary=STREAM,
        )
    )
    return cases + [
        Case(
            name=f"three ranks, {unkind}",
            ranks=3,
            per_rank=_blocks(coin, 3, size),
            kind="protocol",
            part="safe",
            visible=False,
            adversary=unkind,
        )
        for unkind in UNKIND
    ]


def total(given: Sequence[Tensor]) -> Tensor:
    """What every rank's visits add up to; exact for secret data."""
    return sum(
        (block.double() * (owner + 2) for owner, block in enumerate(given)), torch.zeros((), dtype=torch.float64)
    )


def _fault(case: Case, results: Sequence[Any]) -> Fault | None:
    given = tensors(case)
    n, want = len(given), total(given)
    for rank, got in enumerate(results):
        if type(got) is not dict or type(got.get("owners")) is not list or "total" not in got:
            return "no-total", f"Rank {rank}: return the sum of what the visits give; got {describe(got)}."
        if same(got["total"], want) and same(got.get("block"), given[rank]):
            continue
        if fault := _visits(rank, n, got):
            return fault
        if same(got["total"], want):
            whose = next((other for other, block in enumerate(given) if same(got.get("block"), block)), None)
            there = f"rank {whose}'s block" if whose is not None else "something else"
            return (
                "overwritten",
                f"Rank {rank}'s own block, which the caller still needs, holds {there} afterwards. Into which tensor does each hop receive?",
            )
        if case.adversary not in (None, STREAM):
            return moved_early(case, rank)
        if not isinstance(got["total"], Tensor):
            return (
                "not-a-tensor",
                f"Rank {rank} returned {describe(got['total'])}; return the sum of the tensors that `visit` gave.",
            )
        return "wrong-sum", (
            f"Rank {rank} was visited by the right owners' numbers, {sorted(map(str, got['owners']))}, but the sum is wrong: was each block there, and its "
            "owner's, when it was visited?"
        )
    return None


def _visits(rank: int, n: int, got: Mapping[str, Any]) -> Fault | None:
    owners = got["owners"]
    missing = [owner for owner in range(n) if owner not in owners]
    if missing:
        return (
            "not-visited",
            f"Rank {rank} never visited the block of rank {missing[0]}; it visited {', '.join(map(str, owners)) or 'none'}.",
        )
    if len(owners) > n:
        return "visited-twice", f"Rank {rank} made {len(owners)} visits; there are {n} blocks."
    return None


def _bytes(case: Case, meter: Meter) -> Fault | None:
    given = tensors(case)
    n = len(given)
    least = [(n - 1) * nbytes(block) for block in given]
    for rank, size in enumerate(least):
        if size and meter["bytes_sent"][rank] >= 2 * size and n > 2:
            return (
                "wider",
                f"Rank {rank} sent {meter['bytes_sent'][rank]:,} bytes; N − 1 = {n - 1} blocks have {size:,}. Does each hop send one block, in the block's own dtype?",
            )
        if meter["bytes_sent"][rank] > size:
            return (
                "sent-again",
                f"Rank {rank} sent {meter['bytes_sent'][rank]:,} bytes; N − 1 = {n - 1} blocks have {size:,}. After the last visit nobody needs a block.",
            )
    return too_few_bytes(meter, least, least)


def _hidden(case: Case, meter: Meter) -> Fault | None:
    n = len(case.per_rank or ())
    beside = meter["seconds"] - n * VISIT
    latency = Topology().levels[0].latency
    if beside <= 0.5 * latency * max(n - 1, 1):
        return None
    return "not-hidden", (
        f"The run takes {beside * 1e6:.0f} µs more than its {n} visits. The next block should be on its way while this one is visited: start the hop, "
        "visit, then wait."
    )


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter = _fault(case, outcome.value), outcome.meter
    if case.kind == "protocol":
        return judged(case, fault)
    route = first(ready_made(meter), off_the_ring(meter, 1, "0 → 1 → … → N − 1 → 0"))
    return judged(
        case,
        fault,
        ("cost", "bytes", _bytes(case, meter)),
        ("cost", "hidden", _hidden(case, meter)),
        ("protocol", "neighbours", route),
    )


RING = {
    "ring-that-hangs": Judging(
        shares={
            "values:pass": 0.35,
            "cost:bytes": 0.1,
            "cost:hidden": 0.15,
            "protocol:neighbours": 0.05,
            "protocol:safe": 0.15,
            "generality:ranks": 0.1,
            "generality:tensors": 0.1,
        },
        cases=_cases,
        verdicts=_verdicts,
        why="On one stream operations progress in the order of issue. Every rank issued its send first, and each receive stood behind a send that waited for the neighbour's "
        "receive; a transport that buffers never shows it. One batch has no order inside. And two buffers that swap roles are three tensors too few: after the second hop the "
        "caller's own block was the one received into.",
        pytorch="`torch.distributed.batch_isend_irecv`, which becomes `ncclGroupStart … ncclGroupEnd`; `torch.distributed.tensor.experimental.context_parallel` rotates keys and "
        "values in this way.",
    )
}
