"""How judges draw unseen rows of arguments, and the length of a run on one GPU."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from course_lib.records import Case
from course_lib.units import DAY

FLOP_PER_TOKEN = 6  # per parameter: 2 forward, 4 backward


def unseen(rng: random.Random, part: str, index: int, name: str, rows: Sequence[tuple[Any, ...]]) -> Case:
    """One batch of unseen rows for function `index`, in an order that shows nothing."""
    rows = list(rows)
    rng.shuffle(rows)
    return Case(name=name, args=(index, rows), kind="generality", part=part, visible=False)


def plain(part: str, index: int, name: str, rows: Sequence[tuple[Any, ...]]) -> Case:
    """A few unseen rows of the shown kind: the shown numbers, written down, are no answer, and earn nothing once these are asked."""
    return Case(name=name, args=(index, list(rows)), part=part, visible=False)


def generality(part: str, index: int, name: str, rows: Sequence[tuple[Any, ...]], secret: Any = None) -> Case:
    """Unseen rows of another kind, in the order given."""
    return Case(name=name, args=(index, list(rows)), kind="generality", part=part, visible=False, secret=secret)


def log_uniform(rng: random.Random, low: float, high: float) -> float:
    """A number between two others, even on a logarithmic scale, to three digits."""
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.3g}")


def logarithmic(low: float, high: float) -> Callable[[random.Random], float]:
    """A field of `draw_rows`: a number as `log_uniform` draws it."""
    return lambda rng: log_uniform(rng, low, high)


def rounded(low: float, high: float, digits: int) -> Callable[[random.Random], float]:
    """A field of `draw_rows`: an evenly drawn number with so many digits after the point."""
    return lambda rng: round(rng.uniform(low, high), digits)


def draw_rows(
    rng: random.Random, count: int, *fields: Any, keep: Callable[[tuple[Any, ...]], bool] | None = None
) -> list[tuple[Any, ...]]:
    """Rows drawn field by field; a field is a tuple of choices or a function of the generator. Rows that `keep` refuses go."""
    rows: list[tuple[Any, ...]] = []
    while len(rows) < count:
        row = tuple(each(rng) if callable(each) else rng.choice(each) for each in fields)
        rows += [row] if keep is None or keep(row) else []
    return rows


def one_apart(row: Sequence[Any], other: Sequence[Any]) -> list[tuple[Any, ...]]:
    """A row, and the rows that differ from it in one place: what remembers results by fewer arguments gives one of them another's."""
    return [tuple(row), *((*row[:at], new, *row[at + 1 :]) for at, new in enumerate(other))]


def safely_off_whole(value: float) -> bool:
    """Whether rounding noise cannot move this across a whole number."""
    return abs(value - round(value)) > 1e-6 * max(1.0, abs(value))


def days_alone(params: float, tokens: float, gpu_flops: float, utilization: float) -> float:
    """Days of the run on one GPU."""
    return FLOP_PER_TOKEN * params * tokens / (gpu_flops * utilization) / DAY
