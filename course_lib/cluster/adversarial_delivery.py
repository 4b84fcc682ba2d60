"""`interleavings`: is a program right whenever its bytes move?

With named sources and without polling, a program's outcome cannot depend on the order in which ranks run (Kahn, 1974).
It can depend only on how many messages fit in buffers, and on when bytes leave and reach memory. So the same program
runs once under each of a few adversaries. Random orders are added only for programs that receive from any source or
poll.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import torch

from course_lib.cluster.adversary import Adversary
from course_lib.cluster.program import Program
from course_lib.cluster.run import Run
from course_lib.cluster.simulation import Options, attempt

SEEDS = 10  # random orders for programs whose outcome may depend on order


@dataclass(frozen=True, slots=True)
class Case:
    """A failing run: the adversary, the number of ranks, and the failure."""

    adversary: Adversary
    ranks: int
    message: str
    run: Run
    rank: int | None = None  # the first rank whose result is wrong, if results differ

    def __str__(self) -> str:
        return f"With {self.adversary}, on {self.ranks} ranks: {self.message}"


def adversaries(streams: bool = True) -> list[Adversary]:
    """The adversaries under which a program must be right, simplest first; `streams` adds NCCL's order of issue."""
    plain = [Adversary(depth, late) for depth in (0, 1, math.inf) for late in (False, True)]
    return plain + ([Adversary(0, late, "stream") for late in (False, True)] if streams else [])


def interleavings(
    fn: Callable[..., object],
    ranks: int | Iterable[int],
    args: Sequence[object] = (),
    per_rank: Sequence[object] | Callable[[int], Sequence[object]] | None = None,
    *,
    check: Callable[[Run], bool] | None = None,
    streams: bool = True,
    **options: Unpack[Options],
) -> Case | None:
    """The smallest failing case under all adversaries, or None.

    `ranks` may be several numbers, tried in order; `per_rank` may be a function of the number of ranks. A run fails if
    it raises, if `check(run)` is false, or if its results differ from those under the most lenient adversary. A program
    whose results never differ still fails if it used a tensor in flight (`run.hazards`).
    """
    for number in sorted({ranks} if isinstance(ranks, int) else set(ranks)):
        own = per_rank(number) if callable(per_rank) else per_rank
        case = _on(fn, number, args, own, check, streams, options)
        if case is not None:
            return case
    return None


def _on(
    fn: Callable[..., object],
    ranks: int,
    args: Sequence[object],
    own: Sequence[object] | None,
    check: Callable[[Run], bool] | None,
    streams: bool,
    options: Options,
) -> Case | None:
    program = Program(fn, ranks, args, own)

    def run(adversary: Adversary) -> Run:
        chosen: Options = {"capture": 0, **options, "adversary": adversary, "program": program}
        return attempt(fn, ranks, **chosen)

    lenient = run(Adversary(math.inf))
    todo = adversaries(streams)
    for adversary in todo:
        result = run(adversary)
        case = _judge(result, lenient, adversary, check)
        if case is not None:
            return case
        if result.by_chance and len(todo) < 8 + SEEDS and todo[-1].seed is None:
            todo += [Adversary(0, bool(seed % 2), seed=seed) for seed in range(SEEDS)]
    if lenient.hazards:
        return Case(Adversary(math.inf), ranks, str(lenient.hazards[0]), lenient, lenient.hazards[0].rank)
    return None


def _judge(run: Run, lenient: Run, adversary: Adversary, check: Callable[[Run], bool] | None) -> Case | None:
    if run.error is not None:
        return Case(adversary, run.ranks, str(run.error), run)
    if check is not None and not check(run):
        return Case(adversary, run.ranks, "the result is wrong.", run)
    if lenient.error is None:
        for rank, (one, two) in enumerate(zip(run.results, lenient.results, strict=True)):
            if not same(one, two):
                text = (
                    f"rank {rank} returns something else than with unlimited buffering and early delivery. "
                    "A tensor is used while it is in flight: between isend or irecv and wait()."
                )
                text += f" In this run, {run.hazards[0]}" if run.hazards else ""
                return Case(adversary, run.ranks, text, run, rank)
    return None


def same(one: object, two: object) -> bool:
    """Whether two results are equal bit for bit, with NaN equal to NaN."""
    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
        if one.dtype != two.dtype or one.shape != two.shape:
            return False
        return bool(torch.all((one == two) | ((one != one) & (two != two))))
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
    if isinstance(one, dict) and isinstance(two, dict):
        return list(one) == list(two) and all(same(one[key], two[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(two, (list, tuple)):
        return len(one) == len(two) and all(map(same, one, two))
    try:
        return bool(one == two) or (one != one and two != two) or type(one).__eq__ is object.__eq__
    except Exception:
        return True  # results that cannot be compared prove nothing
