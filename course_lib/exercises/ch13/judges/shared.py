"""What several of chapter 13's judges use."""

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_lib.exercises.ch13.probes import CHANGED
from course_lib.exercises.returns import PerRank
from course_lib.judging import Fault, describe, is_number
from course_lib.records import Case, Outcome

Sizes = Mapping[str, int]
NAMES = ("dp", "pp", "cp", "tp", "ep", "dp_replicate", "dp_shard", "x", "rows")


def strides(sizes: Sizes, fastest: str = "last") -> dict[str, int]:
    """The distance in ranks between neighbors on each axis."""
    order = list(sizes) if fastest == "first" else list(sizes)[::-1]
    steps = itertools.accumulate([1, *(sizes[axis] for axis in order[:-1])], lambda one, other: one * other)
    found = dict(zip(order, steps, strict=True)) if order else {}
    return {axis: found[axis] for axis in sizes}


def coordinates(rank: int, sizes: Sizes, fastest: str = "last") -> dict[str, int]:
    """A rank's coordinate on each axis."""
    steps = strides(sizes, fastest)
    return {axis: rank // steps[axis] % size for axis, size in sizes.items()}


def groups(sizes: Sizes, axis: str, fastest: str = "last") -> list[list[int]]:
    """All groups of an axis, each in the order of its coordinate."""
    step, size = strides(sizes, fastest)[axis], sizes[axis]
    ranks = range(math.prod(sizes.values()))
    return [[rank + step * k for k in range(size)] for rank in ranks if rank // step % size == 0]


def mesh(rng: random.Random, axes: int, most: int = 120, choices: Sequence[int] = (1, 2, 3, 4, 5, 6, 8)) -> Sizes:
    """A mesh with this many axes, of names and sizes in any order."""
    while True:
        sizes = {name: rng.choice(choices) for name in rng.sample(NAMES, axes)}
        if math.prod(sizes.values()) <= most:
            return sizes


def same_plain(got: Any, right: Any) -> bool:
    """Whether what came back, which may be anything, equals a plain number, text, None or dictionary of numbers."""
    if type(right) is dict:
        same_keys = type(got) is dict and got.keys() == right.keys()
        return same_keys and all(same_plain(got[key], value) for key, value in right.items())
    return is_number(got) and got == right if is_number(right) else type(got) is type(right) and got == right


def row_fault(
    case: Case,
    values: Sequence[Any],
    want: Callable[..., Any],
    words: Callable[..., str],
    known: Mapping[str, tuple[Callable[..., Any], str]],
    same: Callable[[Any, Any], bool] = same_plain,
) -> Fault | None:
    """The first wrong row, named by a mistake only if it gives what came back on every row."""
    rows = case.args[1]
    for row, got in zip(rows, values, strict=True):
        if same(got, want(*row)):
            continue
        for name, (wrong, message) in known.items():
            if all(same(value, wrong(*each)) for each, value in zip(rows, values, strict=True)):
                return name, f"{words(*row)}: {message}"
        return "", f"{words(*row)}: {describe(got)} is not right."
    return None


def mesh_words(sizes: Sizes) -> str:
    return "mesh {" + ", ".join(f"{axis}: {size}" for axis, size in sizes.items()) + "}"


def refused(shape: Any, case: Case, outcome: Outcome) -> Fault | None:
    """An argument that was changed, or a value of another shape than the card asks for."""
    if any(type(value) is str and value == CHANGED for value in outcome.value):
        return "changed", f"{case.name}: a tensor that was passed in was changed; clone it first."
    return PerRank(shape).find(outcome.value, case.name, case)
