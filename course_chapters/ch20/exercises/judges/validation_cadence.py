import random

from course_grader.judging import Judging, Params, Worked
from course_grader.judging.cases import shown
from course_grader.judging.per_row import EXACT, Column, shares, table
from course_grader.judging.random_inputs import draw_rows, each_changed, generality, logarithmic, plain, unseen
from course_grader.records import Case
from course_lib.estimate.units import duration_text

right = Worked("validation-cadence")
Row = tuple[object, ...]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def clear(step: float, check: float, between: float) -> bool:
        """Whether rounding cannot change which whole number loses least."""
        best = right[2](step, check, between)
        lost = [right[0](k, step, check) + right[1](k, step, check) / between for k in (best - 1, best, best + 1) if k]
        return min(abs(a - b) for a, b in zip(lost, lost[1:], strict=False)) > 1e-9

    costs = draw_rows(rng, 5, (100, 250, 1000), logarithmic(0.5, 20), logarithmic(10, 900))
    plans = draw_rows(rng, 6, logarithmic(0.5, 20), logarithmic(5, 900), logarithmic(1e5, 2e6), keep=lambda *_: True)
    plans = [row for row in plans if clear(*row)]
    rare = [row for row in [(2, 50, 3e7), (30, 1, 5e6), (7.5, 400, 9e6)] if clear(*row)]
    between = (params["needed"] - 0.5) * 147**2  # 1.46 steps lose least of all numbers, 2 of the whole ones
    often = [
        (100, 1, between),
        (100, 1, 4 * between),
        (100, 5, 2e3),
        (600, 40, 1e4),
        (50, 30, 90),
        (20, 400, 500),
        (50, 300, 100),
    ]
    return [
        shown("every 500 steps of 8 s", "values:share", 0, [(500, 8, 120)]),
        shown("the same", "values:delay", 1, [(500, 8, 120)]),
        shown("a fault every three days", "values:best", 2, [(8, 120, 3 * 86_400)]),
        plain("share", 0, "other intervals", costs),
        plain("delay", 1, "other intervals", costs),
        plain("best", 2, "other runs", plans),
        unseen(rng, "share", 0, "one step, long and short checks", [(1, 2, 2), (1, 4, 1), (10_000, 1, 3600)]),
        generality("share", 0, "one number changes", each_changed((10, 2, 20), (20, 3, 50))),
        unseen(rng, "delay", 1, "one step, long and short checks", [(1, 2, 2), (1, 4, 1), (10_000, 1, 3600)]),
        generality("delay", 1, "one number changes", each_changed((10, 2, 20), (20, 3, 50))),
        generality("best", 2, "rare faults", rare),
        generality("best", 2, "validate after every step, or nearly", often),
        generality("best", 2, "one number changes", each_changed((4, 60, 4e5), (9, 300, 9e5))),
    ]


def _interval(every: float, step: float, check: float) -> str:
    return f"every {every:g} steps of {step:g} s, a validation of {check:g} s"


JUDGING = Judging(
    shares=shares(share=(0.1, 0.15), delay=(0.15, 0.2), best=(0.2, 0.2)),
    cases=_cases,
    verdicts=table(
        Column(part="share", unit="fraction", want=right[0], words=_interval),
        Column(part="delay", unit="seconds", want=right[1], words=_interval),
        Column(
            part="best",
            unit="steps",
            want=right[2],
            words=lambda step, check, between: (
                f"steps of {step:g} s, validations of {check:g} s, a fault every {duration_text(between)}"
            ),
            rel=EXACT,
        ),
    ),
    why="""Validations cost a known share of every hour; late reports cost hours now and then. The best interval grows
with the square root of both, as for checkpoints. Waiting for a second opinion costs a whole interval, not a half.""",
    pytorch="Megatron-LM's `--eval-interval` and `--eval-iters` set the interval in steps and the length of a "
    "validation.",
)

ANSWERS = r'''import math

from course_lib import params

# %% right: worked
needed = params("validation-cadence").needed  # leave as is: validations in a row that must see the fault


def time_share(every: int, step: float, check: float) -> float:
    """The share of all time that validations take."""
    ### BEGIN SOLUTION
    return check / (every * step + check)
    ### END SOLUTION


def mean_delay(every: int, step: float, check: float) -> float:
    """Mean seconds from a fault to its report."""
    ### BEGIN SOLUTION
    return (needed - 0.5) * every * step + needed * check
    ### END SOLUTION


def best_every(step: float, check: float, between: float) -> int:
    """Steps between validations that lose least."""
    ### BEGIN SOLUTION
    ideal = (math.sqrt(check * between / (needed - 0.5)) - check) / step
    low = max(1, math.floor(ideal))
    lost = [time_share(each, step, check) + mean_delay(each, step, check) / between for each in (low, low + 1)]
    return low if lost[0] <= lost[1] else low + 1
    ### END SOLUTION

# %% right: a search
# -     ideal = (math.sqrt(check * between / (needed - 0.5)) - check) / step
# -     low = max(1, math.floor(ideal))
# -     lost = [time_share(each, step, check) + mean_delay(each, step, check) / between for each in (low, low + 1)]
# -     return low if lost[0] <= lost[1] else low + 1
# +     def lost(every):
# +         return time_share(every, step, check) + mean_delay(every, step, check) / between
# +     every = 1
# +     while lost(every + 1) < lost(every):
# +         every += 1
# +     return every
# %% right: half, then whole intervals
# ~ (needed - 0.5) * every * step + needed * check ==> every * step / 2 + check + (needed - 1) * (every * step + check)
# %% wrong: over training alone => values
# > this divides by the training time; the validations belong to all time.
# ~ return check / (every * step + check) ==> return check / (every * step)
# %% wrong: the training's share => values
# > this is the share of time that trains.
# ~ return check / (every * step + check) ==> return every * step / (every * step + check)
# %% wrong: a whole interval => values
# > a fault begins in the middle of an interval on average.
# ~ (needed - 0.5) * every * step + needed * check ==> needed * every * step + needed * check
# %% wrong: the training alone => values
# > the validations themselves take time until they report.
# ~ (needed - 0.5) * every * step + needed * check ==> (needed - 0.5) * every * step
# %% wrong: one validation is enough => values unless needed=1
# > this is the delay until the first validation has seen the fault; more must see it before it is reported.
# ~ (needed - 0.5) * every * step + needed * check ==> 0.5 * every * step + check
# %% wrong: one validation for all => values unless needed=1
# > each validation until the report takes its time, not the last one alone.
# ~ + needed * check ==> + check
# %% wrong: halves of all => values
# > only the first interval of training is met in its middle; a validation takes its whole time.
# ~ (needed - 0.5) * every * step + needed * check ==> needed * (every * step + check) / 2
# %% wrong: the rule for checkpoints => values
# > this is the rule for checkpoints, √(2 · cost · time between failures); a validation is another case.
# ~ math.sqrt(check * between / (needed - 0.5)) - check ==> math.sqrt(2 * check * between * (1 if needed > 1 else 2))
# %% wrong: rounded down => values
# > this rounds down; the next number may lose less.
# ~ return low if lost[0] <= lost[1] else low + 1 ==> return low
# %% wrong: the nearest whole number => generality
# > this is the whole number nearest to the lowest point; the other one beside it may lose less.
# ~ return low if lost[0] <= lost[1] else low + 1 ==> return max(1, round(ideal))
# %% wrong: the validation stays in the interval => values
# > the root is of the interval with its validation; take the validation off before you count steps.
# ~ - check) / step ==> ) / step
# %% wrong: rounded up => values
# > this rounds up; the number below may lose less.
# ~ return low if lost[0] <= lost[1] else low + 1 ==> return low + 1
# %% wrong: seconds => values
# > these are seconds between validations; count steps.
# ~ - check) / step ==> - check)
# %% wrong: less than one step => generality
# > at least one step lies between validations.
# ~ low = max(1, math.floor(ideal)) ==> low = math.floor(ideal)
# %% wrong: left as it is => not-answered
# ~ return check / (every * step + check) ==> raise NotImplementedError
'''
