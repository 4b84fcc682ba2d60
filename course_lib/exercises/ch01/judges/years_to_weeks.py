"""Judge of years-to-weeks: from years to weeks, with GPUs that slow each other down."""

import math
import random
from functools import partial
from typing import Any

from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.columns import EXACT, Column, gpus_text, table
from course_lib.judging.draws import days_alone, log_uniform, one_apart, plain, unseen
from course_lib.judging.mistakes import scaled, shifted
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import DAY, WEEK, number_text

_OUT_OF_REACH = "the part that never gets shorter already takes too long, so no number of GPUs is enough; return None"
FIELDS = ("params", "tokens", "flops", "mfu", "keep", "gpus", "weeks")  # of a row


def slowdown(law: str, keep: float, gpus: float) -> float:
    """The time on `gpus` GPUs as a fraction of the time on one."""
    if law == "doubling":
        return 1 / (gpus * keep ** math.log2(gpus))
    return (1 - keep) + keep / gpus


def _alone(*row: float) -> float:
    """Weeks on one GPU."""
    return days_alone(*row[:4]) * DAY / WEEK


def fewest_for(law: str, alone: float, keep: float, weeks: float) -> int | None:
    """The least number of GPUs that finish in time, by bisection on whole numbers; None if none does."""
    if law == "serial" and alone * (1 - keep) >= weeks:
        return None
    high = 1
    while alone * slowdown(law, keep, high) > weeks:
        high *= 2
    low = high // 2  # too few, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if alone * slowdown(law, keep, middle) <= weeks else (middle, high)
    return high


def _ideal(*row: float) -> int:
    """The least number of GPUs that finish in time with perfect scaling."""
    return max(1, math.ceil(_alone(*row) / row[6]))


def _plan_columns(law: str) -> tuple[Column, Column]:
    def weeks_on(p: float, d: float, f: float, m: float, k: float, n: float, w: float) -> float:
        return _alone(p, d, f, m) * slowdown(law, k, n)

    def fewest(p: float, d: float, f: float, m: float, k: float, n: float, w: float) -> int | None:
        return fewest_for(law, _alone(p, d, f, m), k, w)

    def one_pass(*row: float) -> float:
        ideal = _ideal(*row)
        return math.ceil(ideal * (slowdown(law, row[4], ideal) * ideal))

    def power_of_two(*row: float) -> int | None:
        return 2 ** math.ceil(math.log2(right)) if (right := fewest(*row)) else None

    def words(p: float, d: float, f: float, m: float, k: float, n: float, w: float) -> str:
        return f"{number_text(p)} parameters, {number_text(d)} tokens, keep {k:g}, {gpus_text(n)} or {w:g} weeks"

    def slowed(speed: Any) -> Any:
        """The weeks if the loss multiplied the speed by `speed(keep, gpus)`, a mistake only if it is per doubling."""
        return lambda *row: _alone(*row) / row[5] / speed(row[4], row[5]) if law == "doubling" else None

    weeks_mistakes = (
        Mistake("perfect-scaling", lambda *row: _alone(*row) / row[5], "this assumes perfect scaling."),
        Mistake("keep-once", slowed(lambda k, n: k), "the loss comes with every doubling, not once."),
        Mistake("keep-per-gpu", slowed(lambda k, n: max(k**n, 1e-300)), "the loss is per doubling, not per GPU."),
        Mistake("speed-up", slowed(lambda k, n: k ** -math.log2(n)), "the GPUs lose speed with every doubling."),
        Mistake("natural-logarithm", slowed(lambda k, n: k ** math.log(n)), "count doublings with a base-2 logarithm."),
        Mistake("days", scaled(weeks_on, 7), "these are days."),
        Mistake("one-gpu", _alone, "this is the time on one GPU."),
    )
    gpus_mistakes = (
        Mistake("perfect-scaling", _ideal, "this many suffice only with perfect scaling."),
        Mistake("one-pass", one_pass, "this corrects the first guess once; the added GPUs lose speed too."),
        Mistake("power-of-two", power_of_two, "that is the next power of two; fewer finish in time."),
        Mistake("one-too-many", shifted(fewest, 1), "one GPU fewer also finishes in time."),
        Mistake("one-too-few", shifted(fewest, -1), "with this many GPUs the run is late, if only by a little."),
    )
    return (
        Column(part="weeks", unit="weeks", want=weeks_on, words=words, mistakes=weeks_mistakes),
        Column(
            part="gpus", unit="GPUs", want=fewest, words=words, rel=EXACT, none=_OUT_OF_REACH, mistakes=gpus_mistakes
        ),
    )


def _plan_rows(law: str, rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    """Runs whose GPU count stays the same when the deadline moves by a millionth."""
    rows: list[tuple[Any, ...]] = []
    while len(rows) < count:
        keep = rng.choice((0.6, 0.9, 0.94, 0.97, 0.99, 1.0) if law == "doubling" else (0.99, 0.999, 0.9995, 1.0))
        p, d, f = log_uniform(rng, 1e9, 3e11), log_uniform(rng, 5e10, 2e13), rng.choice((312e12, 989e12, 2250e12))
        alone = _alone(p, d, f, mfu := rng.choice((0.3, 0.4, 0.55)))
        top = 3000 if law == "doubling" else min(3000, 0.8 / (1 - keep) if keep < 1 else 3000)
        weeks = float(f"{alone * slowdown(law, keep, log_uniform(rng, 1.2, top)):.4g}")
        row = (p, d, f, mfu, keep, rng.choice((1, 2, 3, 24, 100, 1000, 4096, 50_000)), weeks)
        rows += [row] if _settled(law, *row) else []
    return rows


def _settled(law: str, *row: float) -> bool:
    few, many = (fewest_for(law, _alone(*row), row[4], row[6] * factor) for factor in (1 + 1e-6, 1 - 1e-6))
    return few == many


def _plan_cases(params: Params, rng: random.Random) -> list[Case]:
    law = params["law"]
    easy = [(1e8, 1e9, 989e12, 0.4, 0.97, 1, 4), (1e9, 1e10, 989e12, 0.5, 0.999, 8, 1)]
    late = [(70e9, 15e12, 989e12, 0.4, 0.99, 1000, 26), (7e9, 2e12, 989e12, 0.5, 0.9, 64, 4)] if law == "serial" else []
    others = _plan_rows(law, rng, 24)
    others += one_apart(
        others, lambda *row: [column.want(*row) for column in _plan_columns(law)], partial(_settled, law)
    )
    # Perfect scaling, powers of two and a multiple of a week's seconds: exact in whatever order one multiplies.
    powers = (2.0**30, WEEK * 2**20, 6 * 2.0**44, 0.5)
    exact = [(*powers, 1.0, 4, _alone(*powers) / n) for n in (1, 2, 8, 64)]
    return [
        Case(name="the run", args=(0, [tuple(params[name] for name in FIELDS)])),
        plain("", 0, "three more runs", _plan_rows(law, rng, 3)),
        unseen(rng, "", 0, "other runs", [*others, *easy, *exact]),
        *([unseen(rng, "gpus", 0, "deadlines out of reach", late)] if late else []),
    ]


def _plan_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    """The verdicts on both columns, or on the one that the case is about."""
    both = table(_plan_columns(params["law"]))(params, case, outcome)
    return [each for each in both if case.part in ("", each.part)]


JUDGING = Judging(
    shares={"values:weeks": 0.2, "values:gpus": 0.2, "generality:weeks": 0.25, "generality:gpus": 0.35},
    cases=_plan_cases,
    verdicts=_plan_verdicts,
    why="Speed-up is N × efficiency(N), not N. You cannot derive the inverse from the one-GPU time, because the GPUs that make "
    "up for the loss lose speed themselves: search for the least N whose own time is short enough, or solve for N. With a "
    "loss per doubling the speed-up is N^(1 + log₂ keep), so more GPUs always help, at a falling rate. With a part that "
    "never gets shorter (Amdahl, 1967) the deadline itself may be out of reach.",
    pytorch="torchtitan logs tokens per second and MFU; plotted over the world size they give `keep` for your own cluster.",
)

ANSWERS = r"""import math

WEEK = 7 * 86_400


# %% right: doubles, then bisects
def plan_run(params, tokens, gpu_flops, mfu, keep, gpus, weeks):
    def weeks_on(n):
        return 6 * params * tokens / (n * gpu_flops * mfu * keep ** math.log2(n)) / WEEK

    high = 1
    while weeks_on(high) > weeks:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if weeks_on(middle) <= weeks else (middle, high)
    return weeks_on(gpus), high


# %% right: solved for N
import numpy as np


def plan_run(params, tokens, gpu_flops, mfu, keep, gpus, weeks):
    alone = 6 * params * tokens / (gpu_flops * mfu) / WEEK
    power = 1 + np.log2(keep)
    return [alone / gpus**power, max(1, np.ceil((alone / weeks) ** (1 / power)))]


# %% right: any variant
from course_lib import params

LAW = params("years-to-weeks").law


def plan_run(params, tokens, gpu_flops, mfu, keep, gpus, weeks):
    alone = 6 * params * tokens / (gpu_flops * mfu) / WEEK

    def weeks_on(n):
        if LAW == "serial":
            return alone * ((1 - keep) + keep / n)
        return alone / n / keep ** math.log2(n)

    if LAW == "serial":
        spare = weeks / alone - (1 - keep)
        return weeks_on(gpus), (max(1, math.ceil(keep / spare)) if spare > 0 else None)
    return weeks_on(gpus), max(1, math.ceil((alone / weeks) ** (1 / (1 + math.log2(keep)))))


# %% wrong: perfect scaling => values perfect-scaling  from: solved for N
# ~ 1 + np.log2(keep) ==> 1

# %% wrong: corrected once => values one-pass  from: solved for N
# ~ max(1, np.ceil((alone / weeks) ** (1 / power))) ==> np.ceil(np.ceil(alone / weeks) ** (2 - power))

# %% wrong: a power of two => values power-of-two  from: doubles, then bisects
# ~ while high - low > 1: ==> while False:

# %% wrong: the loss once => values keep-once  from: solved for N
# ~ / (gpu_flops * mfu) / WEEK ==> / (gpu_flops * mfu * keep) / WEEK
# ~ 1 + np.log2(keep) ==> 1

# %% wrong: natural logarithm => values natural-logarithm  from: solved for N
# ~ np.log2 ==> np.log

# %% wrong: faster with every doubling => values speed-up  from: natural logarithm
# ~ + np.log ==> - np.log2

# %% wrong: rounded down => values one-too-few  from: solved for N
# ~ np.ceil ==> int

# %% wrong: the example's keep by heart => values -  from: natural logarithm
# ~ log(keep) ==> log2(0.97)


# %% wrong: one more where it fits exactly => generality one-too-many  from: solved for N
# ~ max(1, np.ceil((alone / weeks) ** (1 / power))) ==> int((alone / weeks) ** (1 / power)) + 1


# %% wrong: whole doublings only => values one-pass  from: doubles, then bisects
# ~ keep ** math.log2(n) ==> keep ** int(math.log2(n))

# %% half: one direction only => 3  from: solved for N
# ~ max(1, np.ceil((alone / weeks) ** (1 / power))) ==> None

# %% wrong: 4,096 GPUs at most => values -  from: doubles, then bisects
# ~ weeks_on(gpus), high ==> weeks_on(min(gpus, 4096)), high
"""
