"""What several of chapter 13's judges use."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_chapters.ch13.exercises.probes import CHANGED
from course_grader.exercises.result_schema import PerRank
from course_grader.judging import Case, Fault, Outcome, Random, Wrong, describe, is_number

Sizes = Mapping[str, int]
NAMES = ("dp", "pp", "cp", "tp", "ep", "dp_replicate", "dp_shard", "x", "rows")


def strides(sizes: Sizes) -> dict[str, int]:
    """The distance in ranks between neighbors on each axis, where the last one changes fastest."""
    names = list(sizes)
    return {axis: math.prod(sizes[name] for name in names[at + 1 :]) for at, axis in enumerate(names)}


def mesh(rng: Random, axes: int, most: int = 120, choices: Sequence[int] = (1, 2, 3, 4, 5, 6, 8)) -> Sizes:
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
    same: Callable[[Any, Any], bool] = same_plain,
) -> Fault | None:
    for row, got in zip(case.args[1], values, strict=True):
        if not same(got, want(*row)):
            lead = f"{words(*row)}: "
            return Wrong("", f"{lead}{describe(got)} is not right.", lead)
    return None


def mesh_words(sizes: Sizes) -> str:
    return "mesh {" + ", ".join(f"{axis}: {size}" for axis, size in sizes.items()) + "}"


def refused(shape: Any, case: Case, outcome: Outcome) -> Fault | None:
    """An argument that was changed, or a value of another shape than the card asks for."""
    if any(type(value) is str and value == CHANGED for value in outcome.value):
        return "changed", f"{case.name}: a tensor that was passed in was changed; clone it first."
    return PerRank(shape).find(outcome.value, case.name, case)
