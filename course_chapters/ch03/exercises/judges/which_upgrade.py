"""Judge of which-upgrade: which upgrade helps?"""

import random
from collections.abc import Mapping
from typing import Any

from course_chapters.ch03.exercises.which_upgrade import PARTS
from course_grader.judging import Judging, Mistake, Params
from course_grader.judging.per_row import Column, Word, table
from course_grader.judging.random_inputs import generality, log_uniform, one_apart
from course_grader.records import Case
from course_lib.estimate.units import duration_text

Amounts = Mapping[str, float]


def step_time(overlap: str, work: Amounts, rates: Amounts) -> float:
    """Seconds of a step."""
    times = {part: work[part] / rates[part] for part in PARTS}
    if overlap == "everything":
        return max(times.values())
    return max(times["compute"], times["memory"]) + times["link"] + times["network"]


def gains(overlap: str, work: Amounts, rates: Amounts, factor: float) -> dict[str, float]:
    """Speed-up by each upgrade alone."""
    before = step_time(overlap, work, rates)
    return {part: before / step_time(overlap, work, {**rates, part: rates[part] * factor}) for part in PARTS}


def _words(work: Amounts, rates: Amounts, factor: float) -> str:
    times = {part: work[part] / rates[part] for part in PARTS}
    return ", ".join(f"{part} {duration_text(each) if each else 'nothing'}" for part, each in times.items())


def _busiest(work: Amounts, rates: Amounts, factor: float) -> str:
    return max(PARTS, key=lambda part: work[part] / rates[part])


def _upgrade_columns(overlap: str) -> tuple[Word, Column]:
    other, overlaps = {
        "everything": ("wires wait", "everything overlaps here."),
        "wires wait": ("everything", "the wires do not overlap here."),
    }[overlap]

    def best(*row: Any, overlap: str = overlap) -> str:
        return max(speedups := gains(overlap, *row), key=speedups.__getitem__)

    def gain(*row: Any, overlap: str = overlap) -> float:
        return max(gains(overlap, *row).values())

    part_mistakes = (
        Mistake("most-bytes", lambda work, *_: max(PARTS, key=work.get), "this is the largest amount, not time."),
        Mistake("slowest-rate", lambda work, rates, _: min(PARTS, key=rates.get), "this is the slowest rate."),
        Mistake("other-overlap", lambda *row: best(*row, overlap=other), overlaps),
        Mistake("busiest-part", _busiest, "upgrading the busiest part does not always shorten the step most."),
    )
    return (
        Word(part="part", choices=PARTS, want=best, words=_words, mistakes=part_mistakes),
        Column(
            part="speed-up",
            unit="times",
            want=gain,
            words=_words,
            hint="Divide the time before by the time after, with the new rates.",
            mistakes=(
                Mistake("the-factor", lambda work, rates, factor: factor, "only one part becomes that much faster."),
                Mistake("upside-down", lambda *row: 1 / gain(*row), "this is after over before."),
                Mistake("other-overlap", lambda *row: gain(*row, overlap=other), overlaps),
                Mistake("nothing", lambda *row: 1.0, "this means that no upgrade helps, but one does."),
                Mistake("percent", lambda *row: 100 * (gain(*row) - 1), "this is a percentage; give a ratio."),
                Mistake("saved-share", lambda *row: 1 - 1 / gain(*row), "this is the time saved; give a ratio."),
            ),
        ),
    )


def _steps(overlap: str, rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    """Random steps with one upgrade that is clearly the best."""
    steps: list[tuple[Any, ...]] = []
    while len(steps) < count:
        rates = {
            "compute": rng.choice((312e12, 989e12, 2250e12)),
            "memory": rng.choice((0.3e12, 2.039e12, 3.35e12, 8e12)),
            "link": rng.choice((31e9, 300e9, 450e9, 4e12)),
            "network": rng.choice((12.5e9, 50e9, 900e9)),
        }
        busy = {part: log_uniform(rng, 1e-3, 1e-1) for part in PARTS}
        work = {part: float(f"{busy[part] * rates[part]:.4g}") for part in PARTS}
        if rng.random() < 0.3:
            work[rng.choice(PARTS)] = 0.0
        row = (work, rates, rng.choice((1.1, 1.5, 2.0, 4.0, 30.0)))
        steps += [row] if _clear(overlap, *row) else []
    return steps


def _clear(overlap: str, *row: Any) -> bool:
    """Whether one upgrade is clearly the best."""
    first, second = sorted(gains(overlap, *row).values(), reverse=True)[:2]
    return first > 1.02 * second


def _upgrade_cases(params: Params, rng: random.Random) -> list[Case]:
    shown = [(case["work"], params["rates"], params["factor"]) for case in params["cases"]]
    others = _steps(overlap := params["overlap"], rng, 60)
    others += one_apart(others, lambda *row: [*gains(overlap, *row).values()], lambda *row: _clear(overlap, *row))
    return [Case(name="the five steps", args=(0, shown)), generality("", 0, "other steps", others)]


JUDGING = Judging(
    shares={"values:part": 0.2, "values:speed-up": 0.2, "generality:part": 0.3, "generality:speed-up": 0.3},
    cases=_upgrade_cases,
    verdicts=lambda params, *given: table(_upgrade_columns(params["overlap"]))(params, *given),
    why="If everything overlaps, only the busiest part can help, and only until the next one is the busiest: a factor of two "
    "gains at most two. If the wires do not overlap, every part on the critical path helps a little (Amdahl), and the best is "
    "the one with the most exposed seconds. Neither the largest amount nor the slowest wire decides.",
    pytorch="A trace of `torch.profiler` gives the four busy times of a real step.",
)

ANSWERS = r"""# %% right: every upgrade tried
def best_upgrade(work, rates, factor):
    def step(speeds):
        return max(work[part] / speeds[part] for part in work)

    gains = {part: step(rates) / step({**rates, part: rates[part] * factor}) for part in rates}
    best = max(gains, key=gains.get)
    return best, gains[best]


# %% right: the busiest and the next, a list
def best_upgrade(work, rates, factor):
    times = sorted(((work[part] / rates[part], part) for part in work), reverse=True)
    (longest, name), (second, _) = times[:2]
    return [name, longest / max(second, longest / factor)]


# %% right: any variant  from: every upgrade tried
# - def best_upgrade(work, rates, factor):
# + from course_lib import params
# + WAIT = params("which-upgrade").overlap == "wires wait"
# + def best_upgrade(work, rates, factor):
# -         return max(work[part] / speeds[part] for part in work)
# +         times = {part: work[part] / speeds[part] for part in work}
# +         if WAIT:
# +             return max(times["compute"], times["memory"]) + times["link"] + times["network"]
# +         return max(times.values())

# %% wrong: the factor itself => values the-factor  from: every upgrade tried
# ~ max(gains, key=gains.get) ==> max(work, key=lambda part: work[part] / rates[part])
# ~ best, gains[best] ==> best, factor

# %% wrong: the most bytes => values always-the-same  from: every upgrade tried
# ~ max(gains, key=gains.get) ==> max(work, key=work.get)

# %% wrong: the slowest wire => values always-the-same  from: the most bytes
# ~ max(work, key=work.get) ==> min(rates, key=rates.get)

# %% wrong: the wires wait => values other-overlap unless overlap=wires wait  from: every upgrade tried
# -         return max(work[part] / speeds[part] for part in work)
# +         times = {part: work[part] / speeds[part] for part in work}
# +         return max(times["compute"], times["memory"]) + times["link"] + times["network"]

# %% wrong: after over before => values upside-down  from: the busiest and the next, a list
# ~ [name, longest / max(second, longest / factor)] ==> name, max(second, longest / factor) / longest

# %% wrong: a name of its own => values no-such-word  from: only the name
# ~ "compute" ==> "HBM", 2.0

# %% wrong: twice by heart => values -  from: the busiest and the next, a list
# ~ [name, longest / max(second, longest / factor)] ==> name, longest / max(second, longest / 2)


# %% wrong: only the name => values wrong-shape
def best_upgrade(work, rates, factor):
    return "compute"


# %% wrong: says nothing helps => values nothing  from: the factor itself
# ~ best, factor ==> best, 1.0

# %% wrong: asks the library => raised  from: every upgrade tried
# - def best_upgrade(work, rates, factor):
# + from course_lib.estimate import roofline
# + def best_upgrade(work, rates, factor):
# -     gains = {part: step(rates) / step({**rates, part: rates[part] * factor}) for part in rates}
# +     mine = roofline.Work(work["compute"], work["memory"], work["network"])
# +     machine = roofline.Machine("mine", rates["compute"], rates["memory"], rates["network"])
# +     gains = roofline.speedups(mine, machine, factor)

# %% half: the part, not yet the speed-up => 3  from: the factor itself
# ~ best, factor ==> best, 0.0
"""
