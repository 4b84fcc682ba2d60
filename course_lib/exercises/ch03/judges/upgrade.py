"""Judge of the upgrades: every part made faster alone, by the rule of what overlaps."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises.ch03.cards.wires import PARTS
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.draws import log_uniform
from course_lib.judging.named_columns import Name, together
from course_lib.judging.old_columns import Column
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import duration_text


def step_time(overlap: str, work: Mapping[str, float], rates: Mapping[str, float]) -> float:
    """Seconds of a step."""
    times = {part: work[part] / rates[part] for part in PARTS}
    if overlap == "everything":
        return max(times.values())
    return max(times["compute"], times["memory"]) + times["link"] + times["network"]


def gains(overlap: str, work: Mapping[str, float], rates: Mapping[str, float], factor: float) -> dict[str, float]:
    """Speed-up by each upgrade alone."""
    before = step_time(overlap, work, rates)
    return {part: before / step_time(overlap, work, {**rates, part: rates[part] * factor}) for part in PARTS}


def _upgrade_columns(overlap: str) -> tuple[Name, Column]:
    other = "wires wait" if overlap == "everything" else "everything"

    def best(work: Any, rates: Any, factor: float) -> str:
        found = gains(overlap, work, rates, factor)
        return max(found, key=found.__getitem__)

    def words(work: Any, rates: Any, factor: float) -> str:
        times = {part: work[part] / rates[part] for part in PARTS}
        return ", ".join(f"{part} {duration_text(each) if each else 'nothing'}" for part, each in times.items())

    def busiest(work: Any, rates: Any, factor: float) -> str:
        return max(PARTS, key=lambda part: work[part] / rates[part])

    def gain(work: Any, rates: Any, factor: float) -> float:
        return max(gains(overlap, work, rates, factor).values())

    return (
        Name(
            part="part",
            known=PARTS,
            want=best,
            words=words,
            slips={
                "most-bytes": (
                    lambda work, rates, factor: max(PARTS, key=lambda part: work[part]),
                    "this takes the largest amount; what counts is amounts over rates.",
                ),
                "slowest-rate": (
                    lambda work, rates, factor: min(PARTS, key=lambda part: rates[part]),
                    "this takes the slowest wire, however little goes over it.",
                ),
                "other-overlap": (
                    lambda *row: max(found := gains(other, *row), key=found.__getitem__),
                    "everything overlaps here." if overlap == "everything" else "the wires do not overlap here.",
                ),
                "busiest-part": (busiest, "the busiest part is not always where an upgrade shortens the step most."),
            },
        ),
        Column(
            part="speed-up",
            unit="times",
            want=gain,
            words=words,
            hint="Time before over time after, with the new rates.",
            slips=(
                Mistake(
                    "the-factor",
                    lambda work, rates, factor: factor,
                    "the part gets so much faster, not the step: another "
                    "part becomes the busiest, or the rest stays as long as it was.",
                ),
                Mistake("upside-down", lambda *row: 1 / gain(*row), "this is after over before."),
                Mistake(
                    "other-overlap",
                    lambda *row: max(gains(other, *row).values()),
                    "other parts overlap here than those.",
                ),
                Mistake("nothing", lambda *row: 1.0, "this says that no upgrade helps; one does."),
                Mistake(
                    "percent", lambda *row: 100 * (gain(*row) - 1), "this is per cent more; give before over after."
                ),
                Mistake(
                    "saved-share",
                    lambda *row: 1 - 1 / gain(*row),
                    "this is the share of time saved; give before over after.",
                ),
            ),
        ),
    )


def _steps(overlap: str, rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    """Random steps with one upgrade that is clearly the best."""
    found: list[tuple[Any, ...]] = []
    while len(found) < count:
        rates = {
            "compute": rng.choice((312e12, 989e12, 2250e12)),
            "memory": rng.choice((0.3e12, 2.039e12, 3.35e12, 8e12)),
            "link": rng.choice((31e9, 300e9, 450e9, 4e12)),
            "network": rng.choice((12.5e9, 50e9, 900e9)),
        }
        busy = {part: log_uniform(rng, 1e-3, 1e-1) for part in PARTS}
        work = {part: float(f"{busy[part] * rates[part]:.4g}") for part in PARTS}
        if rng.random() < 0.3:
            work[rng.choice(("link", "network"))] = 0.0
        row = (work, rates, rng.choice((1.25, 1.5, 2.0, 4.0, 10.0)))
        first, second = sorted(gains(overlap, *row).values(), reverse=True)[:2]
        if first > 1.02 * second:
            found.append(row)
    return found


def _upgrade_cases(params: Params, rng: random.Random) -> list[Case]:
    shown = [(case["work"], params["rates"], params["factor"]) for case in params["cases"]]
    return [
        Case(name="the five steps", args=(0, shown)),
        Case(name="other steps", args=(0, _steps(params["overlap"], rng, 60)), kind="generality", visible=False),
    ]


def _upgrade_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return together(_upgrade_columns(params["overlap"]), "a pair (part, speed-up)")(case, outcome)


WHICH_UPGRADE = Judging(
    shares={"values:part": 0.2, "values:speed-up": 0.2, "generality:part": 0.3, "generality:speed-up": 0.3},
    cases=_upgrade_cases,
    verdicts=_upgrade_verdicts,
    why="Where everything overlaps only the busiest part can help, and only until the next one is the busiest: a factor of two buys "
    "two at best. Where the wires wait, every part on the critical path helps a little (Amdahl), and the best is the one with the "
    "most seconds that nothing hides. Neither the largest amount nor the slowest wire decides.",
    pytorch="A trace of `torch.profiler` gives the four busy times of a real step.",
)
