"""Judge of the levels: every printed rate brought to one device and one direction, and a buffer over several wires."""

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.exercises.ch03.cards.wires import sheet_levels
from course_lib.judging import Judging, Mistake, Params, describe, is_number, near
from course_lib.judging.draws import unseen
from course_lib.judging.old_columns import CLOSE, Column, columns, table
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import GB, number_text

Levels = Sequence[Mapping[str, Any]]


def passes(
    levels: Levels, *, halve: bool = True, share: bool = True, thin: bool = True, narrow: bool = True, over: float = 1.0
) -> list[float]:
    """Bytes a second for one device in one direction, level by level; the keywords leave a step out."""
    found, passed = [], math.inf
    for level in levels:
        own = float(level["rate"])
        own /= level["shared_by"] if share else 1
        own /= level["directions"] if halve else 1
        own /= level["oversubscription"] if thin else 1
        passed = min(passed, own) if narrow else own
        found.append(passed * over)
    return found


def chained(levels: Levels) -> list[float]:
    """The slip that divides by every oversubscription met so far, on top of what the level itself lets pass."""
    product, found, passed = 1.0, [], math.inf
    for level in levels:
        product *= level["oversubscription"]
        passed = min(passed, level["rate"] / level["shared_by"] / level["directions"])
        found.append(passed / product)
    return found


_CROSS_SLIPS: tuple[tuple[str, Any, str], ...] = (
    ("both-directions", lambda levels: passes(levels, halve=False), "both directions are still added somewhere."),
    (
        "whole-server",
        lambda levels: passes(levels, share=False),
        "a rate that several devices share is not one device's.",
    ),
    (
        "full-bisection",
        lambda levels: passes(levels, thin=False),
        "where a level is oversubscribed not everything passes.",
    ),
    (
        "grows-again",
        lambda levels: passes(levels, narrow=False),
        "a wide level further out does not widen what a narrow one lets pass.",
    ),
    ("as-printed", lambda levels: [float(level["rate"]) for level in levels], "these are the printed rates."),
    ("gigabytes", lambda levels: passes(levels, over=1 / GB), "these are in GB/s; give bytes/s."),
    (
        "chained",
        chained,
        "each level's oversubscription is against what enters it; dividing again and again counts it twice.",
    ),
)


def _cross_fault(levels: Levels, value: Any) -> tuple[str, str] | None:
    want = passes(levels)
    words = f"{len(levels)} levels"
    if value is None:
        return "returned-none", "The function returned None: is a `return` missing?"
    if type(value) not in (list, tuple) or len(value) != len(want):
        return "not-a-list", f"{words}: return a list with one number a level; got {describe(value)}."
    if not all(is_number(each) for each in value):
        return "not-a-number", f"{words}: every level needs a number of bytes/s; got {describe(value)}."

    def same(other: Sequence[float]) -> bool:
        return all(near(got, wanted, CLOSE) for got, wanted in zip(value, other, strict=True))

    if same(want):
        return None
    for name, way, message in _CROSS_SLIPS:
        if same(way(levels)) and not all(near(a, b, CLOSE) for a, b in zip(way(levels), want, strict=True)):
            return name, f"{words}: {message}"
    if same(want[::-1]):
        return "turned-round", f"{words}: from the inside out, please."
    first = next(i for i, (got, wanted) in enumerate(zip(value, want, strict=True)) if not near(got, wanted, CLOSE))
    level = levels[first]
    return "", (
        f"level {level['name']!r} ({number_text(level['rate'] / GB)} GB/s, shared by {level['shared_by']}, {level['directions']} "
        f"direction(s), {level['oversubscription']:g} : 1): {value[first] / want[first]:.3g} times the right value."
    )


def _effective(phases: str, shares: Sequence[float], rates: Sequence[float]) -> float:
    times = [share / rate for share, rate in zip(shares, rates, strict=True)]
    return 1 / (sum(times) if phases == "in turn" else max(times))


def _effective_column(phases: str) -> Column:
    other = "at once" if phases == "in turn" else "in turn"
    return Column(
        part="effective",
        unit="bytes/s",
        want=lambda *row: _effective(phases, *row),
        words=lambda shares, rates: ", ".join(
            f"{100 * s:.3g} % at {number_text(r / GB)} GB/s" for s, r in zip(shares, rates, strict=True)
        ),
        hint="How many seconds does each part of one byte take?",
        slips=(
            Mistake(
                "sum-of-bandwidths",
                lambda shares, rates: sum(rates),
                "bandwidths were added; bytes wait in turn, or for the last.",
            ),
            Mistake(
                "weighted-mean",
                lambda shares, rates: sum(s * r for s, r in zip(shares, rates, strict=True)),
                "this weighs the bandwidths; what adds up is seconds.",
            ),
            Mistake(
                "slowest", lambda shares, rates: min(rates), "only a share of the bytes goes over the slowest wire."
            ),
            Mistake(
                "fastest", lambda shares, rates: max(rates), "only a share of the bytes goes over the fastest wire."
            ),
            Mistake("plain-mean", lambda shares, rates: statistics.fmean(rates), "this is the mean of the bandwidths."),
            Mistake(
                "other-order",
                lambda *row: _effective(other, *row),
                "the levels take turns here." if phases == "in turn" else "all levels are busy at the same time here.",
            ),
            Mistake("seconds-per-byte", lambda *row: 1 / _effective(phases, *row), "these are seconds per byte."),
        ),
    )


def _levels(rng: random.Random) -> list[dict[str, Any]]:
    """Levels that are narrower further out, but for a wide one now and then."""
    found = []
    for index in range(rng.randint(1, 6)):
        devices = rng.choice((1, 1, 4, 8, 16))
        directions = rng.choice((1, 2))
        rate = rng.choice((25e9, 50e9, 64e9, 100e9, 200e9, 450e9)) * devices * directions / (1 + index * rng.random())
        found.append(
            {
                "name": f"level {index + 1}",
                "rate": float(f"{rate:.4g}"),
                "shared_by": devices,
                "directions": directions,
                "oversubscription": rng.choice((1, 1, 1.5, 2, 3, 7)),
            }
        )
    return found


def _hierarchy_cases(params: Params, rng: random.Random) -> list[Case]:
    shown = passes(params["levels"])
    mixes = []
    for _ in range(16):
        parts = [rng.randint(0, 8) for _ in range(rng.randint(2, 5))]
        parts[rng.randrange(len(parts))] += 1
        mixes.append(
            (
                [part / sum(parts) for part in parts],
                [rng.choice((7e9, 25e9, 50e9, 300e9, 450e9, 3.35e12)) for _ in parts],
            )
        )
    clusters = [(_levels(rng),) for _ in range(16)] + [
        (sheet_levels(name, 4.0),) for name in ("A100 SXM 80GB", "B200 SXM")
    ]
    return [
        Case(name="the four documents", args=(0, [(params["levels"],)]), part="levels"),
        Case(name="a quarter leaves the server", args=(1, [([3 / 4, 1 / 4], shown[:2])]), part="effective"),
        unseen(rng, "levels", 0, "other clusters", clusters),
        unseen(rng, "effective", 1, "other shares", [*mixes, ([1.0], [50e9]), ([0.0, 1.0], [450e9, 50e9])]),
    ]


def _hierarchy_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    if case.args[0] == 1:
        return columns(_effective_column(params["phases"]), _effective_column(params["phases"]))(params, case, outcome)
    got = table(outcome.value, case, "levels", case.kind)
    if isinstance(got, Verdict):
        return [got]
    faults = (_cross_fault(row[0], value) for row, value in zip(case.args[1], got, strict=True))
    mistake, message = next((fault for fault in faults if fault), ("", ""))
    return [Verdict(kind=case.kind, part="levels", ok=not message, mistake=mistake, message=message, case=case.name)]


HIERARCHY = Judging(
    shares={"values:levels": 0.25, "values:effective": 0.2, "generality:levels": 0.3, "generality:effective": 0.25},
    cases=_hierarchy_cases,
    verdicts=_hierarchy_verdicts,
    why="Bring every printed rate to one device and one direction first: then leaving the server costs a factor of 9 on an H100, "
    "not 18, a rack's 400 GB/s are the same 50 per device, and between pods a seventh of them is left. Of a mixed buffer the "
    "seconds add up (or the longest wins), never the bandwidths: a quarter over the slow wire is enough to take two thirds of the speed.",
    pytorch="`torch.distributed.init_device_mesh` is where one says which ranks talk inside a server and which across (chapter 13).",
)
