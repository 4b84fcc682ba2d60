"""Results of several ranks: secret input data for each, and which ranks' numbers a result contains.

Every rank's data are secret integers, different on each rank. So sums are exact in any order, and a wrong sum can be
decomposed into how often it contains each rank's numbers.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from course_grader.exercises.layouts import COLUMNS
from course_grader.judging.mistakes import Fault, Wrong
from course_grader.judging.tensors import not_like, same
from course_grader.records import Case, Outcome
from course_lib.cluster.adversary import Adversary

Wanted = TypeVar("Wanted")
PerRank = tuple[tuple[object, ...], ...]

# Adverse machines that the semantics allow. The plain run is one more: no buffer, early delivery.
LATE, BUFFER, BUFFERS_LATE = Adversary(0, True), Adversary(1), Adversary(math.inf, True)
STREAM, STREAM_LATE = Adversary(0, order="stream"), Adversary(0, True, "stream")
UNKIND = (LATE, BUFFER, BUFFERS_LATE, STREAM_LATE)


def secret(coin: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random integers, small enough that sums over sixteen ranks are exact in the dtype."""
    top = {torch.float32: 2**19, torch.float64: 2**40, torch.int64: 2**40, torch.bfloat16: 8, torch.int16: 999}[dtype]
    return torch.randint(-top, top, shape, generator=coin).to(dtype)


def on_ranks(outcome: Outcome, wants: Sequence[Wanted], right: Callable[[Any, Wanted], bool]) -> bool:
    """Whether a run returned a list with one value per rank, and each is `right` for what its rank should return."""
    got = outcome.value
    return type(got) is list and len(got) == len(wants) and all(map(right, got, wants))


def plain_sum(given: Sequence[Tensor]) -> Tensor:
    """The sum of the ranks' tensors, in their dtype; exact for secret data."""
    wide = torch.float64 if given[0].dtype.is_floating_point else torch.int64
    return torch.stack([x.to(wide) for x in given]).sum(0).to(given[0].dtype)


def moved_early(case: Case, rank: int) -> Fault:
    """A result that is right in the plain run and wrong on an adverse machine."""
    return "in-flight", (
        f"With {case.adversary}, rank {rank}'s result changes, because a tensor is used while it is in flight. Between "
        "`isend` or `irecv` and its `wait()`, do not read or write it."
    )


def counts(got: Tensor, given: Sequence[Tensor]) -> list[float] | None:
    """How often `got` contains each rank's numbers; None if it is no such combination, or if sizes differ or are too
    small."""
    if any(x.numel() != got.numel() for x in given):
        return None
    table = torch.stack([x.double().reshape(-1) for x in given], 1)
    row = got.double().reshape(-1)
    if len(row) <= len(given) or not torch.isfinite(row).all():
        return None
    found = torch.linalg.lstsq(table, row.unsqueeze(1)).solution.squeeze(1)
    scale = table.abs().max().item() or 1.0
    if (table @ found - row).abs().max().item() > 1e-6 * scale:
        return None
    return [round(value, 6) + 0.0 for value in found.tolist()]


def counted_wrong(got: Tensor, given: Sequence[Tensor], where: str) -> Fault | None:
    """A sum that omits a rank or counts it twice, as (mistake, message); None for any other result."""
    times = counts(got, given)
    if times is None or any(value != round(value) or abs(value) > 99 for value in times):
        return None
    twice = [rank for rank, value in enumerate(times) if value > 1]
    missing = [rank for rank, value in enumerate(times) if value == 0]
    if twice:
        return (
            "counted-twice",
            f"{where} contains rank {twice[0]}'s numbers {times[twice[0]]:g} times; count each rank once.",
        )
    if missing:
        plural = "s" if len(missing) > 1 else ""
        return "missing-rank", f"{where} lacks the numbers of rank{plural} {', '.join(map(str, missing))}."
    return None


def over_ranks(
    case: Case,
    results: Sequence[Any],
    wants: Sequence[Tensor],
    wrong: Callable[[int, Tensor], Fault | None] | None = None,
    where: tuple[object, ...] = (),
) -> Fault | None:
    """The first rank whose tensor differs from the one in `wants`: its shape or dtype, its use in flight, or what
    `wrong` reports.

    Without `wrong` that is how many of its numbers differ. `where` is the place of the tensor in what a rank returns.
    """
    for rank, (got, want) in enumerate(zip(results, wants, strict=True)):
        if same(got, want):
            continue
        fault = not_like(got, want, rank)
        if fault is None and case.adversary is not None:
            return moved_early(case, rank)
        fault = fault or (wrong(rank, got) if wrong else _numbers_differ(got, want, rank))
        if fault:
            return Wrong(*fault[:2], lead=f"Rank {rank} of {len(wants)}: ", where=where)
    return None


def _numbers_differ(got: Tensor, want: Tensor, rank: int) -> Fault:
    """How many numbers of a rank's tensor are not the right ones."""
    off = int((got != want).sum())
    many = "its number is" if want.numel() == 1 else f"{off:,} of its {want.numel():,} numbers are"
    return "other-numbers", f"Rank {rank}'s result has the right shape, but {many} not the right ones."


def sum_fault(case: Case, given: Sequence[Tensor], results: Sequence[object]) -> Fault | None:
    """The first rank whose result is not the sum of all ranks' tensors, and what it is instead."""
    want = plain_sum(given)
    return over_ranks(case, results, [want] * len(given), lambda rank, got: _slip(case, given, got, want, rank))


def _slip(case: Case, given: Sequence[Tensor], got: Tensor, want: Tensor, rank: int) -> Fault:
    n = len(given)
    if same(got, given[rank]):
        why = (
            ""
            if type((case.per_rank or ((),))[rank][-1]) is not str
            else (" `reshape(-1)` of a non-contiguous tensor makes a copy, so changes to the copy do not reach `x`.")
        )
        return "returned-input", f"Rank {rank} returned its own `x` unchanged.{why}"
    if torch.equal(got, (given[rank] * n).to(got.dtype)):
        return "own-times-n", f"Rank {rank} returned {n} times its own numbers; the other ranks hold different ones."
    if got.dtype.is_floating_point:
        for power, name in ((1, "mean"), (2, "mean-twice")):
            if n > 1 and torch.allclose(
                got.double() * n**power, want.double(), rtol=1e-2 if got.dtype == torch.bfloat16 else 1e-5
            ):
                return name, f"Rank {rank} returned the sum divided by {n**power}; return the sum, not the mean."
        if got.numel() and torch.allclose(
            got.double(), want.double(), rtol=1e-2, atol=want.double().abs().max().item() * 1e-2
        ):
            return (
                "rounded",
                f"Rank {rank}'s sum is close but not exact. Were numbers sent or added in another dtype?",
            )
    got_chunks, want_chunks = got.reshape(-1).tensor_split(n), want.reshape(-1).tensor_split(n)
    right = [
        c
        for c, (one, two) in enumerate(zip(got_chunks, want_chunks, strict=True))
        if torch.equal(one, two) and one.numel()
    ]
    if len(right) == 1 and n > 2:
        return "one-chunk-only", (
            f"Rank {rank} has the sum only in chunk {right[0]}, as after the first half; the finished chunks must "
            "still be passed around."
        )
    own = [x.reshape(-1).tensor_split(n)[c] for c, x in enumerate(given)]
    if n > 1 and all(torch.equal(one, two) for one, two in zip(got_chunks, own, strict=True)):
        return "wrong-owner", (
            f"On rank {rank}, chunk c holds only rank c's own numbers. Which chunk did each rank finish in the first "
            "half, and which chunk did it pass on as finished in the second?"
        )
    wrong = next(
        c for c, (one, two) in enumerate(zip(got_chunks, want_chunks, strict=True)) if not torch.equal(one, two)
    )
    parts = [x.reshape(-1).tensor_split(n)[wrong] for x in given]
    found = counted_wrong(got, given, f"Rank {rank}'s result") or counted_wrong(
        got_chunks[wrong], parts, f"Rank {rank}, chunk {wrong} of {n},"
    )
    if found:
        return found
    held = f" Chunks {', '.join(map(str, right))} are right." if right else ""
    return "other-numbers", (
        f"Rank {rank} of {n} did not return the sum; chunk {wrong} is the first wrong one.{held} Is each chunk that "
        "arrives stored at its own index?"
    )


def world(n: int, make: Callable[[], object], layout: str = "") -> PerRank:
    """Arguments of `n` ranks, drawn one rank after another; `layout` names the memory layout in which the probe passes
    them."""
    return tuple((make(), layout) if layout else (make(),) for _ in range(n))


def layouts(coin: torch.Generator, n: int) -> dict[str, PerRank]:
    """Tensors that a solution written for a contiguous row of floats may not handle."""
    return {
        "a transposed matrix": world(n, lambda: secret(coin, 4, 5), COLUMNS),
        "64-bit integers": world(n, lambda: secret(coin, 7, dtype=torch.int64)),
        "bfloat16 in two dimensions": world(n, lambda: secret(coin, 3, 3, dtype=torch.bfloat16)),
        "a scalar tensor": world(n, lambda: secret(coin)),
    }


def tensors(case: Case) -> list[Tensor]:
    """Each rank's tensor."""
    return [own[0] for own in case.per_rank or ()]
