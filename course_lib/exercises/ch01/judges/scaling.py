"""Judge of the run on GPUs that slow each other down."""

import math
import random
from typing import Any

from course_lib.judging import Judging, Mistake, Params, describe
from course_lib.judging.draws import days_alone, log_uniform, plain, unseen
from course_lib.judging.old_columns import EXACT, Column, gpus_text, judge_column, pairs, table
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import DAY, WEEK, number_text


def slowdown(law: str, keep: float, gpus: float) -> float:
    """The time on `gpus` GPUs as a fraction of the time on one."""
    if law == "doubling":
        return 1 / (gpus * keep ** math.log2(gpus))
    return (1 - keep) + keep / gpus


def _alone(p: float, d: float, f: float, m: float) -> float:
    """Weeks on one GPU."""
    return days_alone(p, d, f, m) * DAY / WEEK


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


def _ideal(alone: float, weeks: float) -> int:
    return max(1, math.ceil(alone / weeks))


def _plan_columns(law: str) -> tuple[Column, Column]:
    def weeks_on(p: float, d: float, f: float, m: float, k: float, n: float, w: float) -> float:
        return _alone(p, d, f, m) * slowdown(law, k, n)

    def fewest(p: float, d: float, f: float, m: float, k: float, n: float, w: float) -> int:
        return fewest_for(law, _alone(p, d, f, m), k, w) or 0

    def one_pass(p: float, d: float, f: float, m: float, k: float, n: float, w: float) -> float:
        ideal = _ideal(_alone(p, d, f, m), w)
        return math.ceil(ideal * (slowdown(law, k, ideal) * ideal))

    def power_of_two(*row: float) -> float | None:
        right = fewest(*row)
        power = 2 ** math.ceil(math.log2(right)) if right else None
        return None if power == right else power

    def words(p: float, d: float, f: float, m: float, k: float, n: float, w: float) -> str:
        return f"{number_text(p)} parameters, {number_text(d)} tokens, keep {k:g}, {gpus_text(n)} or {w:g} weeks"

    doubling = law == "doubling"
    return (
        Column(
            part="weeks",
            unit="weeks",
            want=weeks_on,
            words=words,
            slips=(
                Mistake(
                    "perfect-scaling", lambda p, d, f, m, k, n, w: _alone(p, d, f, m) / n, "this is perfect scaling."
                ),
                Mistake(
                    "keep-once",
                    lambda p, d, f, m, k, n, w: _alone(p, d, f, m) / n / k if doubling else None,
                    "the loss comes with every doubling, not once.",
                ),
                Mistake(
                    "keep-per-gpu",
                    lambda p, d, f, m, k, n, w: _alone(p, d, f, m) / n / max(k**n, 1e-300) if doubling else None,
                    "the loss comes with every doubling, not with every GPU.",
                ),
                Mistake(
                    "speed-up",
                    lambda p, d, f, m, k, n, w: _alone(p, d, f, m) / n * k ** math.log2(n) if doubling else None,
                    "the GPUs got faster; they lose speed with every doubling.",
                ),
                Mistake(
                    "natural-logarithm",
                    lambda p, d, f, m, k, n, w: _alone(p, d, f, m) / n / k ** math.log(n) if doubling else None,
                    "doublings are counted by a logarithm to base 2.",
                ),
                Mistake("days", lambda *row: 7 * weeks_on(*row), "these are days."),
                Mistake("one-gpu", lambda p, d, f, m, k, n, w: _alone(p, d, f, m), "this is the time on one GPU."),
            ),
        ),
        Column(
            part="gpus",
            unit="GPUs",
            want=fewest,
            words=words,
            rel=EXACT,
            slips=(
                Mistake(
                    "perfect-scaling",
                    lambda p, d, f, m, k, n, w: _ideal(_alone(p, d, f, m), w),
                    "this many suffice only with perfect scaling.",
                ),
                Mistake(
                    "one-pass",
                    one_pass,
                    "these were corrected for the loss of the first guess; the added GPUs lose too.",
                ),
                Mistake("power-of-two", power_of_two, "that is the next power of two; fewer finish in time."),
                Mistake("one-too-many", lambda *row: fewest(*row) + 1, "one GPU fewer is in time too."),
                Mistake("one-too-few", lambda *row: fewest(*row) - 1, "so few are late, if only a little."),
            ),
        ),
    )


def _plan_rows(law: str, rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    """Runs whose GPU count stays the same when the deadline moves by a millionth."""
    rows: list[tuple[Any, ...]] = []
    while len(rows) < count:
        keep = rng.choice((0.9, 0.94, 0.97, 0.99, 1.0) if law == "doubling" else (0.99, 0.999, 0.9995, 1.0))
        p, d, f = log_uniform(rng, 1e9, 3e11), log_uniform(rng, 5e10, 2e13), rng.choice((312e12, 989e12, 2250e12))
        alone = _alone(p, d, f, 0.4)
        top = 3000 if law == "doubling" else min(3000, 0.8 / (1 - keep) if keep < 1 else 3000)
        weeks = float(f"{alone * slowdown(law, keep, log_uniform(rng, 1.2, top)):.4g}")
        rows.append((p, d, f, 0.4, keep, rng.choice((1, 2, 3, 24, 100, 1000, 4096)), weeks))
        if fewest_for(law, alone, keep, weeks * (1 + 1e-6)) != fewest_for(law, alone, keep, weeks * (1 - 1e-6)):
            rows.pop()
    return rows


def _plan_cases(params: Params, rng: random.Random) -> list[Case]:
    law = params["law"]
    names = ("params", "tokens", "flops", "mfu", "keep", "gpus", "weeks")
    easy = [(1e8, 1e9, 989e12, 0.4, 0.97, 1, 4), (1e9, 1e10, 989e12, 0.5, 0.999, 8, 1)]
    late = [(70e9, 15e12, 989e12, 0.4, 0.99, 1000, 26), (7e9, 2e12, 989e12, 0.5, 0.9, 64, 4)] if law == "serial" else []
    # Perfect scaling, powers of two and a multiple of a week's seconds: exact in whatever order one multiplies.
    powers = (2.0**30, WEEK * 2**20, 6 * 2.0**44, 0.5)
    exact = [(*powers, 1.0, 4, _alone(*powers) / n) for n in (1, 2, 8, 64)]
    return [
        Case(name="the run", args=(0, [tuple(params[name] for name in names)])),
        plain("", 0, "three more runs", _plan_rows(law, rng, 3)),
        unseen(rng, "", 0, "other runs", [*_plan_rows(law, rng, 24), *easy, *exact]),
        *([unseen(rng, "gpus", 0, "deadlines out of reach", late)] if late else []),
    ]


def _plan_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    law = params["law"]
    parts = [case.part] if case.part else ["weeks", "gpus"]
    got = table(outcome.value, case, "weeks", case.kind)
    if not isinstance(got, Verdict):
        got = pairs(got, "a pair (weeks, GPUs)", case, "weeks", case.kind)
    if isinstance(got, Verdict):
        return [
            Verdict(kind=case.kind, part=part, ok=False, case=case.name, mistake=got.mistake, message=got.message)
            for part in parts
        ]
    weeks, gpus = _plan_columns(law)
    if case.part:  # no number of GPUs is enough for these
        bad = next((value for _, value in got if value is not None), None)
        return [
            Verdict(
                kind=case.kind,
                part="gpus",
                ok=bad is None,
                case=case.name,
                mistake="" if bad is None else "out-of-reach",
                message=""
                if bad is None
                else f"{case.name}: no number of GPUs gets below the part of the time that "
                f"never gets shorter, so the second value is None; got {describe(bad)}.",
            )
        ]
    return [
        judge_column(column, case, [row[i] for row in got], case.kind, inside=True)
        for i, column in enumerate((weeks, gpus))
    ]


YEARS_TO_WEEKS = Judging(
    shares={"values:weeks": 0.2, "values:gpus": 0.2, "generality:weeks": 0.25, "generality:gpus": 0.35},
    cases=_plan_cases,
    verdicts=_plan_verdicts,
    why="Speed-up is N × efficiency(N), not N. The inverse cannot be read off the one-GPU time, because the GPUs that make "
    "up for the loss lose speed themselves: search for the least N whose own time is short enough, or solve for N. With a "
    "loss per doubling the speed-up is N^(1 + log₂ keep), so more GPUs always help, at a falling rate; with a part that "
    "never gets shorter (Amdahl, 1967) the deadline itself may be out of reach.",
    pytorch="torchtitan logs tokens per second and MFU; plotted over the world size they give `keep` for your own cluster.",
)
