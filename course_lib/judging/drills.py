"""What the keys of drills share: slips as a table of wrong formulas, of which only those count that lead elsewhere."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from course_lib.judging import DrillKey, Mistake, Params, near


def slips(*known: tuple[str, Callable[[Params], float], str]) -> Callable[[Params], list[Mistake]]:
    """Slips from (name, the wrong formula, what to say)."""
    return lambda params: [Mistake(name, value(params), message) for name, value, message in known]


def distinct(keys: Mapping[str, DrillKey]) -> dict[str, DrillKey]:
    """The keys without slips that lead to the right number or to an earlier slip's, as some draws of the numbers make them."""
    return {name: replace(key, slips=partial(_distinct, key)) for name, key in keys.items()}


def _distinct(key: DrillKey, params: Params) -> list[Mistake]:
    right, kept = key.answer(params), list[Mistake]()
    for slip in key.slips(params):
        if near(slip.value, right, 2 * key.rel) or any(near(slip.value, other.value, key.rel) for other in kept):
            continue
        kept.append(slip)
    return kept
