"""Judges of chapter 06's ring exercises: its first half, the whole all-reduce, and the predicted time."""

import random
from collections.abc import Sequence
from typing import Any

import torch

from course_lib import collectives
from course_lib.exercises.layouts import COLUMNS, MEASURED, SECOND, WEIGHED
from course_lib.judging import Fault, Judging, Params, Weighed, first, is_number, judged, prediction, ranks, verdict
from course_lib.judging.cases import hidden, ranks_text, shown, under
from course_lib.judging.ranks import counted_wrong, layouts, moved_early, plain_sum, secret, sum_fault, tensors, world
from course_lib.judging.tensors import coin_of, nbytes, not_like, same
from course_lib.judging.traffic import Meter, off_the_ring, ready_made, too_few_bytes, too_long, too_many_bytes
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import duration_text

# --- reduce-scatter


def _scatter_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, size = coin_of(rng), params["numbers"]

    def data(n: int, length: int) -> ranks.PerRank:
        return world(n, lambda: secret(coin, length))

    cases = [shown("four ranks", "values:chunk", per_rank=data(4, size))]
    cases += [hidden("three ranks, other data", "values:chunk", per_rank=data(3, size // 3 * 3))]
    for n, length in ((1, size), (2, size), (7, 21), (5, 5 * 7)):
        name = ranks_text(n) if n == 1 else f"{n} ranks, {length} numbers"
        cases.append(hidden(name, "generality:ranks", per_rank=data(n, length)))
    for n, length in ((4, 10), (5, 3), (3, 0)):
        cases.append(hidden(f"{n} ranks, {length} numbers", "generality:sizes", per_rank=data(n, length)))
    for n, dtype in ((1, torch.int64), (rng.choice((9, 11)), torch.bfloat16)):
        given = world(n, lambda dtype=dtype: secret(coin, 103, dtype=dtype))  # type: ignore[misc]
        cases.append(hidden(f"{ranks_text(n)}, 103 numbers, {dtype}", "generality:sizes", per_rank=given))
    whole = world(3, lambda: secret(coin, 8, dtype=torch.int64), SECOND)
    cases += [hidden("three ranks, 64-bit integers with a stride of two", "generality:sizes", per_rank=whole)]
    return cases + under(ranks.UNKIND, "four ranks", "protocol:safe", lambda: data(4, 12))


def _owned(rank: int, params: Params, n: int) -> int:
    return (rank + params["owner"]) % n


def _scatter_fault(params: Params, case: Case, results: Sequence[Any]) -> Fault | None:
    given = tensors(case)
    n = len(given)
    chunks = plain_sum(given).tensor_split(n)
    for rank, got in enumerate(results):
        mine = _owned(rank, params, n)
        want = chunks[mine]
        if same(got, want):
            continue
        if got.dtype == want.dtype and got.shape == given[rank].shape and n > 1:
            return "whole-tensor", f"Rank {rank} returned a tensor of full length; return only chunk {mine}."
        whose = [other for other, chunk in enumerate(chunks) if same(got, chunk) and chunk.numel()]
        if whose and case.adversary is None:
            public = params["owner"] and n > 2 and whose[0] == rank
            name, lead = ("public-form", "This solves the public form. ") if public else ("wrong-owner", "")
            return name, f"{lead}Rank {rank} returned chunk {whose[0]} of the sum; it should return chunk {mine}."
        if fault := not_like(got, want, rank):
            return fault
        if case.adversary is not None:
            return moved_early(case, rank)
        for other in range(n):
            parts = [x.tensor_split(n)[other] for x in given]
            where = f"Rank {rank} returned chunk {other}, which"
            if parts[0].shape == got.shape and (counted := counted_wrong(got, parts, where)):
                return counted
        if got.dtype.is_floating_point and torch.equal(got.double() * n, want.double()):
            return "mean", f"Rank {rank} returned the sum divided by {n}; return the sum, not the mean."
        return "other-numbers", f"Rank {rank} of {n} returned no chunk of the sum. Does each chunk add to its index?"
    return None


def _scatter_bytes(params: Params, case: Case, meter: Meter) -> Fault | None:
    given = tensors(case)
    n, size, item = len(given), nbytes(given[0]), given[0].element_size()
    chunks = [c.numel() * item for c in given[0].tensor_split(n)]
    own = [chunks[_owned(rank, params, n)] for rank in range(n)]
    over = too_many_bytes(meter, size, size - min(chunks), "half a ring needs") if size else None
    needs = [size - mine if n > 1 else 0 for mine in own]
    return over or too_few_bytes(meter, needs, [mine if n > 1 else 0 for mine in own])


def _scatter_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter, n = _scatter_fault(params, case, outcome.value), outcome.meter, case.ranks or 1
    if case.adversary is not None:
        return judged(case, fault)
    late = too_long(meter, 3 * (n - 1), f"{n} ranks need {n - 1} if all send at the same time.")
    route = first(ready_made(meter), off_the_ring(meter, 1, "0 → 1 → 2 → … → 0"))
    spent = first(_scatter_bytes(params, case, meter), late)
    return judged(case, fault, ("cost", "bytes", spent), ("protocol", "neighbors", route))


# --- ring all-reduce


def _ring_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, length = coin_of(rng), params["numbers"]

    def data(n: int, size: int) -> ranks.PerRank:
        return world(n, lambda: secret(coin, size))

    cases = [shown("eight ranks", "values:sum", per_rank=data(8, 8 * length))]
    cases += [hidden("four ranks, other data", "values:sum", per_rank=data(4, 4 * length))]
    cases += [hidden(ranks_text(n), "generality:ranks", per_rank=data(n, n * length)) for n in (1, 2, 5)]
    for n, size in ((4, 10), (5, 3), (3, 0)):
        cases.append(hidden(f"{n} ranks, {size} numbers", "generality:sizes", per_rank=data(n, size)))
    cases += [hidden(name, "generality:tensors", per_rank=given) for name, given in layouts(coin, 4).items()]
    many = world(rng.choice((9, 11)), lambda: secret(coin, 2, 3, 11, dtype=torch.int64))
    turned = world(1, lambda: secret(coin, 4, 5, dtype=torch.int64), COLUMNS)
    cases += [hidden(f"{len(many)} ranks, integers in three dimensions", "generality:tensors", per_rank=many)]
    cases += [hidden("one rank alone, a transposed matrix of integers", "generality:tensors", per_rank=turned)]
    measured = world(8, lambda: secret(coin, 800), MEASURED)
    cases += [hidden("eight ranks, memory", "cost:memory", per_rank=measured)]
    return cases + under(ranks.UNKIND, "four ranks", "protocol:safe", lambda: data(4, 12))


def _ring_memory(case: Case, results: Sequence[Any]) -> Fault | None:
    """At most a copy of the tensor and four chunks beyond `x`: two that arrive, one that a sum makes, one that a worker keeps."""
    given, n = tensors(case), len(case.per_rank or ())
    if not all(type(row) in (tuple, list) and len(row) == 2 and is_number(row[1]) for row in results):
        return "not-measured", "The memory of this run could not be measured."
    if fault := sum_fault(case, given, [row[0] for row in results]):
        return fault
    size, chunk = nbytes(given[0]), nbytes(given[0]) / n
    beyond = sorted(row[1] for row in results)[n // 2] - size  # the median: one rank may hold what the machine copies
    if beyond <= size + 4 * chunk:
        return None
    return "too-much-memory", (
        f"At the peak, {beyond / size:.3g}·S bytes are live in addition to `x`; a copy and a chunk or two are enough. Work in "
        "one flat copy, and make the chunks views of it."
    )


def _ring_weighed(params: Params, rng: random.Random) -> Weighed:
    """15 MB on four ranks, created in the worker: right answers use 2 to 4.25 times that, wrong ones at least 5 times."""
    coin, ranks, length = coin_of(rng), 4, 4096

    def case(name: str, times: int) -> Case:
        places = torch.randint(times * length, (64,), generator=coin)
        per_rank = tuple((secret(coin, length), times, places, WEIGHED) for _ in range(ranks))
        return hidden(name, "cost:memory", per_rank=per_rank, seconds=30.0)

    def done(outcome: Outcome) -> bool:
        tables, places = [row[0] for row in large.per_rank or ()], (large.per_rank or ())[0][2]
        want = plain_sum(tables)[places % length]
        sent, got = outcome.meter.get("bytes_sent", [0]), outcome.value if type(outcome.value) is list else []
        return min(sent) >= size and len(got) == ranks and all(same(each, want) for each in got)

    size = 4 * length * 231
    large = case("four ranks with 3.8 MB each", 231)
    return Weighed(case=large, warm=case("four ranks, small tensors", 1), most=4 * 4.7 * size, done=done)


def _ring_bytes(case: Case, meter: Meter) -> Fault | None:
    """At most 2·(S − smallest chunk) for chunks of at most ⌈S/N⌉; at least S sent and S received."""
    given = tensors(case)
    n, item, elements = len(given), given[0].element_size(), given[0].numel()
    size = elements * item
    most = 2 * min(elements, (n - 1) * -(-elements // n)) * item
    least = [size if n > 1 else 0] * n
    padded = 2 * (n - 1) * -(-elements // n) * item
    if padded > most and all(sent == padded for sent in meter["bytes_sent"]):
        return "padding", f"Ranks also send padding: {padded:,} bytes for a tensor of {size:,}. Cut uneven chunks."
    return (too_many_bytes(meter, size, most, "a ring needs") if size else None) or too_few_bytes(meter, least, least)


def _ring_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    if case.part == "memory":
        return [verdict("cost", "memory", case, _ring_memory(case, outcome.value))]
    given, meter = tensors(case), outcome.meter
    fault, n = sum_fault(case, given, outcome.value), len(given)
    if case.adversary is not None:
        return judged(case, fault)
    think = f"A ring of {n} takes {2 * (n - 1)} if all send and receive at the same time, and twice that if they take turns."
    most = (4 if n % 2 == 0 else 6) * (n - 1)  # with an odd number of ranks, taking turns needs a third round per hop
    route = first(ready_made(meter), off_the_ring(meter, params["direction"], params["route"]))
    costs = ("cost", "bytes", _ring_bytes(case, meter)), ("cost", "time", too_long(meter, most, think))
    return judged(case, fault, *costs, ("protocol", "neighbors", route))


# --- the prediction


def ring_time(params: Params) -> float:
    """Seconds of the ring all-reduce that the learner predicts."""
    ring = collectives.ring_cost(params["nbytes"], params["ranks"], params["latency"], params["bandwidth"])
    return float(ring.seconds)


def _time_reveal(params: Params) -> str:
    cost = collectives.ring_cost(params["nbytes"], params["ranks"], params["latency"], params["bandwidth"])
    latencies = cost.steps * params["latency"]
    return (
        f"{duration_text(cost.seconds)}: {cost.steps:,} messages of {params['nbytes'] / params['ranks'] / 1e9:,.3g} GB. Latency "
        f"accounts for {duration_text(latencies)} of it."
    )


RING = {
    "predict-ring-time": prediction(
        unit="seconds",
        why="Almost twice the tensor passes through every link, whatever N is. The 2(N − 1) latencies are added to that.",
        pytorch="nccl-tests reports this time as bus bandwidth: 2(N − 1)/N of the bytes, divided by the time.",
        reveal=_time_reveal,
        truth=ring_time,
    ),
    "reduce-scatter-half": Judging(
        point=("cost:bytes",),
        shares="values:chunk 0.35, cost:bytes 0.2, protocol:neighbors 0.1, protocol:safe 0.1, generality:ranks 0.15, "
        "generality:sizes 0.1",
        cases=_scatter_cases,
        verdicts=_scatter_verdicts,
        why="Follow one chunk. It starts at the rank after its owner and visits every rank; each adds its numbers and passes it on, and "
        "the owner adds last. On every rank the index of the chunk decreases by one per step; its start determines the final owner.",
        pytorch="`torch.distributed.reduce_scatter_tensor`: rank r gets the r-th part. FSDP reduces its gradients this way.",
    ),
    "ring-all-reduce": Judging(
        point=("cost:bytes",),
        shares="values:sum 0.25, cost:bytes 0.2, cost:time 0.05, cost:memory 0.05, protocol:neighbors 0.1, "
        "protocol:safe 0.1, generality:ranks 0.1, generality:sizes 0.05, generality:tensors 0.1",
        measured_by_worker=("cost:memory",),
        weighed=_ring_weighed,
        cases=_ring_cases,
        verdicts=_ring_verdicts,
        why="Reduce-scatter leaves one finished chunk on each rank. All-gather passes the finished chunks on along the same route, "
        "without the addition. Each half sends S minus one chunk, so a rank sends almost 2·S bytes for any N, and no algorithm sends "
        "less. Only the 2(N − 1) latencies grow with N.",
        pytorch="`torch.distributed.all_reduce`; NCCL's `Ring` algorithm, in slices so that hops overlap.",
    ),
}
