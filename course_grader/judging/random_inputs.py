"""How judges draw unseen rows of arguments."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from course_grader.exercises.values import is_number, is_row
from course_grader.records import Case

Field = Sequence[object] | Callable[[random.Random], object]  # choices, or a function that draws


def unseen(rng: random.Random, part: str, index: int, name: str, rows: Sequence[tuple[object, ...]]) -> Case:
    """One batch of unseen rows for function `index`, in an order that shows nothing."""
    rows = list(rows)
    rng.shuffle(rows)
    return Case(name=name, args=(index, rows), kind="generality", part=part, visible=False)


def plain(part: str, index: int, name: str, rows: Sequence[tuple[object, ...]]) -> Case:
    """A few unseen rows of the shown kind: the shown numbers, written down, are no answer, and earn nothing once these
    are asked."""
    return Case(name=name, args=(index, list(rows)), part=part, visible=False)


def generality(part: str, index: int, name: str, rows: Sequence[tuple[object, ...]]) -> Case:
    """Unseen rows of another kind, in the order given."""
    return Case(name=name, args=(index, list(rows)), kind="generality", part=part, visible=False)


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
    rng: random.Random, count: int, *fields: Field, keep: Callable[[tuple[Any, ...]], bool] | None = None
) -> list[tuple[Any, ...]]:
    """Rows drawn field by field; a field is a tuple of choices or a function of the generator. Rows that `keep` refuses
    go."""
    rows: list[tuple[object, ...]] = []
    while len(rows) < count:
        row = tuple(each(rng) if callable(each) else rng.choice(each) for each in fields)
        rows += [row] if keep is None or keep(row) else []
    return rows


def each_changed(row: tuple[Any, ...], other: Sequence[object]) -> list[tuple[Any, ...]]:
    """A row, then copies of it that each take one value from `other`, or one entry of a dictionary there.

    A cache keyed by too few of the arguments mixes up two of them.
    """
    rows = [row]
    for at, value in enumerate(other):
        tables = [{**row[at], key: one} for key, one in value.items()] if isinstance(value, Mapping) else [value]
        rows += [(*row[:at], each, *row[at + 1 :]) for each in tables]
    return rows


def one_apart(
    rows: Sequence[tuple[object, ...]], want: Callable[..., object], keep: Callable[..., bool] = lambda *row: True
) -> list[tuple[Any, ...]]:
    """For each argument, or each key of a dictionary argument, a row that differs from one of `rows` in it alone.

    The right result differs too, if it depends on that argument: a cache keyed by too few of the arguments gives a
    wrong result.
    """
    found: list[tuple[object, ...]] = []
    right = [want(*row) for row in rows]
    for place in _places(rows):
        others = (
            zip(right, [*rows[shift:], *rows[:shift]], rows, strict=True) for shift in range(1, min(len(rows), 9))
        )
        pairs = ((value, _swapped(row, other, *place)) for value, other, row in chain.from_iterable(others))
        found += next(([new] for value, new in pairs if keep(*new) and _apart(value, want(*new))), [])
    return found


def _places(rows: Sequence[tuple[object, ...]]) -> list[tuple[int, object]]:
    """(number of an argument, None), or (its number, key) where it is a dictionary with the same keys in all rows."""
    found: list[tuple[int, object]] = []
    for at, given in enumerate(rows[0]):
        keys = given.keys() if type(given) is dict else None
        keyed = all(isinstance(each := row[at], dict) and each.keys() == keys for row in rows)
        found += [(at, key) for key in keys] if keys is not None and keyed else [(at, None)]
    return found


def _swapped(row: tuple[object, ...], other: tuple[object, ...], at: int, key: object) -> tuple[object, ...]:
    mine, value = row[at], other[at]
    if key is not None and isinstance(mine, dict) and isinstance(value, dict):
        value = {**mine, key: value[key]}
    return (*row[:at], value, *row[at + 1 :])


def _apart(one: object, two: object) -> bool:
    """Whether two right values differ by more than any tolerance."""
    if is_row(one) and is_row(two) and type(two) is type(one) and len(one) == len(two):
        return any(map(_apart, one, two))
    if is_number(one) and is_number(two):
        return not math.isclose(one, two, rel_tol=0.02)
    return bool(one != two)


def safely_off_whole(value: float) -> bool:
    """Whether rounding noise cannot move this across a whole number."""
    return abs(value - round(value)) > 1e-6 * max(1.0, abs(value))
