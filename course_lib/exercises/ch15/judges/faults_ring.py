"""Judge of chapter 15's ring: blocks that go round while others are visited, without the buffers that CPUs provide."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster import Topology
from course_lib.exercises.ch15.faults_probes import VISIT
from course_lib.judging import Fault, Judging, Params, first, judged
from course_lib.judging.cases import hidden, ranks_text, shown, under
from course_lib.judging.ranks import STREAM, UNKIND, moved_early, secret, tensors, world
from course_lib.judging.tensors import coin_of, nbytes, same
from course_lib.judging.traffic import Meter, off_the_ring, ready_made, too_few_bytes
from course_lib.records import Case, Outcome, Verdict


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, size = coin_of(rng), params["numbers"]

    def blocks(n: int, *shape: int, dtype: torch.dtype = torch.float32) -> list[tuple[Any, ...]]:
        return world(n, lambda: secret(coin, *(shape or (size,)), dtype=dtype))

    return [
        shown(
            "four ranks, each pair's operations in the order of issue",
            "values:pass",
            per_rank=blocks(4),
            adversary=STREAM,
        ),
        hidden("seven ranks", "values:pass", per_rank=blocks(7)),
        *(hidden(ranks_text(n), "generality:ranks", per_rank=blocks(n)) for n in (1, 2, 3)),
        hidden("three ranks, keys and values of two dimensions", "generality:tensors", per_rank=blocks(3, size, 3)),
        hidden("three ranks, whole numbers", "generality:tensors", per_rank=blocks(3, dtype=torch.int64)),
        hidden("three ranks, bfloat16", "generality:tensors", per_rank=blocks(3, 2, size, dtype=torch.bfloat16)),
        hidden("two ranks, order of issue", "protocol:safe", per_rank=blocks(2), adversary=STREAM),
        *under(UNKIND, "three ranks", "protocol:safe", lambda: blocks(3)),
    ]


def total(given: Sequence[Tensor]) -> Tensor:
    """The sum over all visits, exact for secret data."""
    return torch.stack([block.double() * (owner + 2) for owner, block in enumerate(given)]).sum(0)


def _fault(case: Case, results: Sequence[Mapping[str, Any]]) -> Fault | None:
    given = tensors(case)
    n, want = len(given), total(given)
    for rank, got in enumerate(results):
        owners, right = got["owners"], same(got["total"], want)
        if right and same(got["block"], given[rank]):
            continue
        if missing := [owner for owner in range(n) if owner not in owners]:
            visited = ", ".join(map(str, owners)) or "none"
            return "not-visited", f"Rank {rank} never visited the block of rank {missing[0]}; it visited {visited}."
        if len(owners) > n:
            return "visited-twice", f"Rank {rank} made {len(owners)} visits; there are {n} blocks."
        if right:
            whose = next(
                (f"rank {other}'s block" for other in range(n) if same(got["block"], given[other])), "other data"
            )
            lead = f"Rank {rank}'s own block, which the caller still needs, holds {whose} afterwards."
            return "overwritten", f"{lead} Into which tensor does each hop receive?"
        if case.adversary not in (None, STREAM):
            return moved_early(case, rank)
        lead = f"Rank {rank} visited each owner once, but the sum is wrong."
        return "wrong-sum", f"{lead} Had each block arrived when it was visited, and was its owner right?"
    return None


def _bytes(case: Case, meter: Meter) -> Fault | None:
    n, least = case.ranks or 1, [((case.ranks or 1) - 1) * nbytes(block) for block in tensors(case)]
    for rank, (size, sent) in enumerate(zip(least, meter["bytes_sent"], strict=True)):
        lead = f"Rank {rank} sent {sent:,} bytes; N − 1 = {n - 1} blocks have {size:,}."
        if size and sent >= 2 * size and n > 2:
            return "wider", f"{lead} Does each hop send one block in its own dtype?"
        if sent > size:
            return "sent-again", f"{lead} No rank needs a block after the last visit."
    return too_few_bytes(meter, least, least)


def _hidden(case: Case, meter: Meter) -> Fault | None:
    n = case.ranks or 1
    extra, latency = meter["seconds"] - n * VISIT, Topology().levels[0].latency
    if extra <= 0.5 * latency * max(n - 1, 1):
        return None
    lead = f"The run takes {extra * 1e6:.0f} µs more than its {n} visits."
    return "not-hidden", f"{lead} The next block should travel during a visit: start the hop, visit, then wait."


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter = _fault(case, outcome.value), outcome.meter
    if case.kind == "protocol":
        return judged(case, fault)
    route = first(ready_made(meter), off_the_ring(meter, 1, "0 → 1 → … → N − 1 → 0"))
    cost = ("cost", "bytes", _bytes(case, meter)), ("cost", "hidden", _hidden(case, meter))
    return judged(case, fault, *cost, ("protocol", "neighbors", route))


RING = {
    "ring-that-hangs": Judging(
        shares="values:pass 0.35, cost:bytes 0.1, cost:hidden 0.15, protocol:neighbors 0.05, protocol:safe 0.15, "
        "generality:ranks 0.1, generality:tensors 0.1",
        cases=_cases,
        verdicts=_verdicts,
        why="On one stream, operations progress in the order of issue. Every rank issued its send first, and each receive "
        "waited behind a send that needed the neighbor's receive; a buffering transport hides this. One batch has no "
        "inner order. Two buffers that swap roles are too few: the second hop receives into the caller's own block.",
        pytorch="`torch.distributed.batch_isend_irecv` becomes `ncclGroupStart … ncclGroupEnd`; "
        "`torch.distributed.tensor.experimental.context_parallel` rotates keys and values in this way.",
    )
}
