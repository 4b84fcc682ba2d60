"""Judge of learning-rate: the learning rate of any update."""

import math
import random
from functools import cache

from course_grader.judging import Judging, Mistake, Params
from course_grader.judging.cases import shown
from course_grader.judging.per_row import FINE, Column, one_verdict, table
from course_grader.judging.random_inputs import draw_rows, each_changed, generality, logarithmic, plain
from course_grader.records import Case

TAIL = 0.2  # of all updates: how long the last phase of "wsd" is


def fall(shape: str, step: float, peak: float, floor: float, warmup: int, total: int) -> float:
    """The learning rate after the warm-up, for any step."""
    if shape == "cosine":
        return floor + (peak - floor) * (1 + math.cos(math.pi * (step - warmup) / (total - warmup))) / 2
    part = max((step - (1 - TAIL) * total) / (TAIL * total), 0.0)
    return peak + (floor - peak) * part


def rate(shape: str, step: float, peak: float, floor: float, warmup: int, total: int) -> float:
    """The learning rate of update number `step`."""
    if step < warmup:
        return peak * step / warmup
    return floor if step >= total else fall(shape, step, peak, floor, warmup, total)


@cache
def column(shape: str) -> Column:
    """The learning rate with its known mistakes."""
    other = {"cosine": "wsd", "wsd": "cosine"}[shape]
    told = ("public-form", "this solves the public form.") if shape == "wsd" else ("other-shape", "this is no cosine.")

    def late(step: int, peak: float, floor: float, warmup: int, total: int) -> float | None:
        return rate(shape, step - 1, peak, floor, warmup, total) if step else None

    def early(step: int, peak: float, floor: float, warmup: int, total: int) -> float:
        return rate(shape, step + 1, peak, floor, warmup, total)

    def long_rise(step: int, peak: float, floor: float, warmup: int, total: int) -> float | None:
        return peak * step / (warmup + 1) if 0 < step <= warmup else None

    def nothing_at_zero(step: int, peak: float, floor: float, warmup: int, total: int) -> float | None:
        return None if step else 0.0

    def line(step: int, peak: float, floor: float, warmup: int, total: int) -> float | None:
        return peak + (floor - peak) * (step - warmup) / (total - warmup) if warmup <= step < total else None

    def from_floor(step: int, peak: float, floor: float, warmup: int, total: int) -> float | None:
        return floor + (peak - floor) * step / warmup if step < warmup else None

    def whole(step: int, peak: float, floor: float, warmup: int, total: int) -> float | None:
        return fall(shape, step, peak, floor, 0, total) if warmup <= step < total and shape == "cosine" else None

    def to_zero(step: int, peak: float, floor: float, warmup: int, total: int) -> float:
        return rate(shape, step, peak, 0.0, warmup, total)

    def not_held(step: int, peak: float, floor: float, warmup: int, total: int) -> float | None:
        return fall(shape, step, peak, floor, warmup, total) if step > total else None

    def without_ramp(step: int, peak: float, floor: float, warmup: int, total: int) -> float | None:
        return peak if step < warmup else None

    def on_top(step: int, peak: float, floor: float, warmup: int, total: int) -> float | None:
        return floor + fall(shape, step, peak, 0.0, warmup, total) if warmup <= step < total else None

    def shifted(step: int, peak: float, floor: float, warmup: int, total: int) -> float | None:
        return fall(shape, step, peak, floor, warmup, total + warmup) if warmup <= step else None

    return Column(
        part="rate",
        unit="as a learning rate",
        rel=FINE,
        want=lambda *row: rate(shape, *row),
        words=lambda step, peak, floor, warmup, total: f"update {step:,}, warm-up {warmup:,}, total {total:,}",
        mistakes=(
            Mistake("long-rise", long_rise, "the rise takes `warmup` + 1 updates; the peak comes at update `warmup`."),
            Mistake("one-late", late, "this is the rate of the update before; the first update is number 1."),
            Mistake("one-early", early, "this is the rate of the update after; the first update is number 1."),
            Mistake(
                "zero-at-0", nothing_at_zero, "update 0 has a rate of 0; without a warm-up the formula gives the peak."
            ),
            Mistake("no-warm-up", without_ramp, "this is the peak; in the warm-up the rate still rises."),
            Mistake("from-the-floor", from_floor, "the warm-up rises from 0, not from the floor."),
            Mistake("from-zero", whole, "the fall starts at update 0 here; it must start at update `warmup`."),
            Mistake("to-zero", to_zero, "the rate falls to 0; it must fall to the floor."),
            Mistake("added-floor", on_top, "the floor is added to a fall from the peak to 0."),
            Mistake("warm-up-added", shifted, "the fall ends `warmup` updates late; it ends at update `total`."),
            Mistake("not-held", not_held, "after `total` the rate stays at the floor."),
            Mistake("straight-line", line, "the rate falls along one straight line from `warmup` to `total`."),
            Mistake(told[0], lambda *row: rate(other, *row), told[1]),
        ),
    )


def _cases(params: Params, rng: random.Random) -> list[Case]:
    ends = tuple(params[name] for name in ("peak", "floor", "warmup", "total"))
    warmup, total = params["warmup"], params["total"]
    steps = (1, warmup // 2, warmup, (warmup + total) // 2, round(0.9 * total), total)

    def schedule() -> tuple[float, float, int, int]:
        ((peak, part, warmup, times),) = draw_rows(
            rng, 1, logarithmic(1e-5, 1e-2), (0.01, 0.1, 0.2), (10, 400, 2000), (5, 10, 30)
        )
        return peak, peak * part, warmup, warmup * times

    def rows(*parts: float) -> list[tuple[int, float, float, int, int]]:
        """Rows of fresh schedules, each at a fraction of the warm-up (negative) or of what follows it."""
        found = []
        for part in parts:
            peak, floor, warmup, total = schedule()
            step = round(-part * warmup) if part < 0 else round(warmup + part * (total - warmup))
            found.append((step, peak, floor, warmup, total))
        return found

    bare = [(step, 3e-4, 3e-5, 0, total) for step, total in ((0, 50), (1, 50), (25, 50), (46, 50), (50, 50), (49, 50))]
    bare += [(0, 3e-4, 3e-5, 1, 50), (45, 3e-4, 0.0, 1, 50), (10_000, 3e-4, 0.0, 1, 50)]
    alike = each_changed((45, 1e-3, 1e-4, 10, 50), (47, 2e-3, 2e-4, 20, 90))
    other = schedule()
    edges = [(end + by, *other) for end in other[2:] for by in (-1, 0, 1)]
    return [
        shown("the shown schedule", "values:rate", 0, [(step, *ends) for step in steps]),
        plain("rate", 0, "other schedules", rows(-0.3, -0.7, 0.1, 0.3, 0.5, 0.7, 0.85, 0.95)),
        generality("edges", 0, "around the ends of the phases", [*edges, (other[2] // 2, *other), (0, *schedule())]),
        generality("edges", 0, "after the end", rows(1.01, 1.4, 2.0, 3.7)),
        generality("edges", 0, "no warm-up, or one update of it", bare),
        generality("edges", 0, "the same update of other schedules", alike),
    ]


JUDGING = Judging(
    shares="values:rate 0.5, generality:edges 0.5",
    cases=_cases,
    verdicts=lambda params, case, outcome: one_verdict(table(column(params["shape"])))(params, case, outcome),
    why="The schedule is a pure function of the update's number, so nothing has to be saved besides that number. Written as a chain of calls "
    "that each multiply the rate, it would drift or jump after a resume. The formula must not be continued past its end: half a cosine "
    "later the rate is back at its peak, and a run that is extended by accident diverges.",
    pytorch="`torch.optim.lr_scheduler.LambdaLR` takes such a function (as a factor of the base rate), and counts its first update as 0; "
    "`SequentialLR` joins phases.",
)

ANSWERS = r"""import math


# %% right: a rise, then a cosine
def learning_rate(step, peak, floor, warmup, total):
    if step < warmup:
        return peak * step / warmup
    s = min((step - warmup) / (total - warmup), 1)
    return floor + (peak - floor) / 2 * (1 + math.cos(math.pi * s))


# %% right: any variant
from course_lib import params

SHAPE = params("learning-rate").shape


def learning_rate(step, peak, floor, warmup, total):
    if step < warmup:
        return peak * step / warmup
    if SHAPE == "cosine":
        s = min((step - warmup) / (total - warmup), 1)
        return floor + 0.5 * (peak - floor) * (1 + math.cos(math.pi * s))
    s = min(max((step - 0.8 * total) / (0.2 * total), 0), 1)
    return peak * (1 - s) + floor * s


# %% wrong: the first update is number 0 => values one-late  from: a rise, then a cosine
#   def learning_rate(step, peak, floor, warmup, total):
# +     step = max(step - 1, 0)

# %% wrong: no warm-up => values no-warm-up  from: a rise, then a cosine
# ~ peak * step / warmup ==> peak

# %% wrong: rises from the floor => values from-the-floor  from: a rise, then a cosine
# ~ return peak * step / warmup ==> return floor + (peak - floor) * step / warmup

# %% wrong: the cosine starts at update 0 => values from-zero  from: a rise, then a cosine
# ~ (step - warmup) / (total - warmup) ==> step / total

# %% wrong: falls to 0 => values to-zero  from: a rise, then a cosine
# ~ floor + (peak - floor) ==> peak

# %% wrong: the floor on top => values added-floor  from: a rise, then a cosine
# ~ (peak - floor) ==> peak

# %% wrong: ends a warm-up late => values warm-up-added  from: a rise, then a cosine
# ~ (total - warmup) ==> total

# %% wrong: the cosine goes on => generality not-held  from: a rise, then a cosine
# ~ min((step - warmup) / (total - warmup), 1) ==> (step - warmup) / (total - warmup)

# %% wrong: divides by a warm-up of 0 => generality raised  from: a rise, then a cosine
# ~ step < warmup ==> step / warmup < 1

# %% wrong: one update ahead => values one-early  from: a rise, then a cosine
#   def learning_rate(step, peak, floor, warmup, total):
# +     step = step + 1

# %% wrong: rises for one update more => values long-rise  from: a rise, then a cosine
# ~ step < warmup ==> step <= warmup
# ~ step / warmup ==> step / (warmup + 1)

# %% wrong: a rate of 0 at update 0 in any case => generality zero-at-0  from: a rise, then a cosine
#   def learning_rate(step, peak, floor, warmup, total):
# +     if step == 0:
# +         return 0.0

# %% wrong: a straight line => values straight-line  from: a rise, then a cosine
# ~ floor + (peak - floor) / 2 * (1 + math.cos(math.pi * s)) ==> peak + (floor - peak) * s


# %% wrong: flat, then a line => values other-shape unless shape=wsd  from: a rise, then a cosine
# ~ min((step - warmup) / (total - warmup), 1) ==> min(max((step - 0.8 * total) / (0.2 * total), 0), 1)
# ~ floor + (peak - floor) / 2 * (1 + math.cos(math.pi * s)) ==> peak + (floor - peak) * s

# %% wrong: the shown peak and floor => values -  from: a rise, then a cosine
#   def learning_rate(step, peak, floor, warmup, total):
# +     peak, floor = 8e-5, 8e-7

# %% wrong: left as it is => not-answered  from: a rise, then a cosine
# ~ if step < warmup: ==> raise NotImplementedError
# -         return peak * step / warmup

# %% wrong: remembers a rate by update, peak and end => generality ~  from: a rise, then a cosine
# ~ def learning_rate(step, peak, floor, warmup, total): ==> def learning_rate(step, peak, floor, warmup, total, kept={}):
# -     if step < warmup:
# +     floor, warmup = kept.setdefault((step, peak, total), (floor, warmup))
# +     if step < warmup:

# %% wrong: a floor of zero is replaced => generality -  from: a rise, then a cosine
#           return peak * step / warmup
# +     if step >= total:
# +         return floor or peak / 100
"""
