"""Lists of tensors on every rank, such as gradients, against those of one process."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from course_grader.judging.mistakes import Fault, Wrong
from course_grader.judging.tensors import all_close, close, factor, kind_fault, largest, off_text
from course_grader.records import Case
from course_lib.cluster.parity import tolerance

Tensors = list[Tensor | None]
REL = tolerance(torch.float32, 2000)  # of the largest number; the named mistakes are off by far more
CANCELLED = 0.05  # of the largest number in the list: the least scale for a tensor whose numbers cancel out


def scaled(tensors: Sequence[Tensor | None], by: float) -> Tensors:
    """Each tensor times a number, computed in float64."""
    return [None if tensor is None else (tensor.double() * by).to(tensor.dtype) for tensor in tensors]


def alike(got: object, want: Tensor) -> bool:
    """Whether this is the right tensor up to rounding."""
    return close(got, want, REL)


def all_alike(got: Sequence[object], want: Sequence[Tensor | None]) -> bool:
    """Whether these are the right tensors up to rounding, and None where None is right."""
    return all_close(list(got), want, REL, CANCELLED * largest(want))


def in_flight(case: Case, rank: int) -> Fault:
    """The fault of a result that is right under the plain run and wrong under an adversary."""
    return "in-flight", (
        f"With {case.adversary}, rank {rank}'s result changes: a tensor is used while it is under way. Between the "
        "start of an asynchronous operation and its `wait()` do not read or write its tensor."
    )


def gradients_fault(
    case: Case,
    results: Sequence[Sequence[Tensor | None]],
    want: Sequence[Tensor | None] | Callable[[int], Sequence[Tensor | None]],
    what: str = "gradient",
    where: tuple[object, ...] = (),
) -> Fault | None:
    """The first rank whose list of tensors is wrong, and how.

    `want` is the right list, or a function of the rank. `where` is the place of the list in what a rank returns.
    """
    for rank, got in enumerate(results):
        right = want(rank) if callable(want) else want
        if len(got) != len(right):
            return "wrong-shape", f"Rank {rank} returned {len(got)} entries; return a list of {len(right)} tensors."
        if not all_alike(got, right):
            if case.adversary is not None:
                return in_flight(case, rank)
            return Wrong(*_first_wrong(rank, list(got), right, what)[:2], f"Rank {rank}: ", where)
    return None


def _first_wrong(rank: int, got: Tensors, want: Sequence[Tensor | None], what: str) -> Fault:
    top = CANCELLED * largest(want)
    wrong: list[tuple[str, Tensor, Tensor]] = []
    for place, (one, two) in enumerate(zip(got, want, strict=True)):
        where = f"Rank {rank}, {what} {place} of {len(want)}"
        if two is None and one is not None:
            return "frozen-touched", f"{where}: the parameter is frozen, and its {what} must stay None."
        if two is None:
            continue
        if one is None:
            return "no-gradient", f"{where}: there is none; its `.grad` is None."
        if fault := kind_fault(where, one, two):
            return fault
        if not torch.isfinite(one).all():
            return (
                "not-finite",
                f"{where} holds NaN or infinity, as from 0/0, ∞ − ∞, 0 · ∞, an overflow or a tensor that was "
                f"never filled.",
            )
        if not close(one, two, REL, top):
            wrong.append((where, one, two))
    where, one, two = wrong[0]
    if close(one, two, 0.01):
        return "rounded", f"{where} {off_text(one, two)}"
    by = factor(one, two)
    told = f"is {by:.4g} times the right one" if by is not None else "holds wrong numbers"
    return "other-numbers", f"{where} {told}; {len(want) - len(wrong)} of {len(want)} are right."
