"""Judge of hours-between-failures: from a log to your own cluster."""

import math
import random

from course_lib.exercises.ch14.judges.shared import HOURS_A_DAY, chance, hours_between
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import FINE, Column, shares, table
from course_lib.judging.draws import draw_rows, each_changed, logarithmic, plain, unseen
from course_lib.records import Case
from course_lib.units import count_text

BETWEEN = Column(
    part="between",
    unit="hours",
    want=hours_between,
    words=lambda f, d, n, s: (
        f"{count_text(f, 'failure')} in {count_text(d, 'day')} on {count_text(n, 'GPU')}, scaled to {s:,}"
    ),
    rel=FINE,
    mistakes=(
        Mistake("same-size", lambda f, d, n, s: d * HOURS_A_DAY / f, "this is for as many GPUs as in the log."),
        Mistake(
            "upside-down",
            lambda f, d, n, s: d * HOURS_A_DAY * s / (f * n),
            "a job on more GPUs fails more often, not less.",
        ),
        Mistake("one-gpu", lambda f, d, n, s: d * HOURS_A_DAY * n / f, "this is for one GPU."),
        Mistake("days", lambda f, d, n, s: d * n / (f * s), "these are days; hours are asked for."),
        Mistake("rate", lambda f, d, n, s: f * s / (d * HOURS_A_DAY * n), "these are failures an hour; invert them."),
    ),
)
CHANCE = Column(
    part="chance",
    unit="probability",
    want=chance,
    words=lambda h, m: f"{count_text(h, 'hour')} with a failure every {count_text(m, 'hour')}",
    rel=FINE,
    mistakes=(
        Mistake("expected-number", lambda h, m: h / m, "this is the expected number of failures; it can exceed 1."),
        Mistake("capped", lambda h, m: min(1.0, h / m), "this is the expected number of failures, cut at 1."),
        Mistake("survives", lambda h, m: math.exp(-h / m), "this is the probability that nothing fails."),
        Mistake(
            "power-of-two", lambda h, m: 1 - 2 ** (-h / m), "the time between failures is a mean, not a half-life."
        ),
        Mistake(
            "hour-by-hour",
            lambda h, m: 1 - max(0.0, 1 - 1 / m) ** h if m > 1 else None,
            "this lets failures strike on the hour only; let the steps become short.",
        ),
    ),
)


def _log_cases(params: Params, rng: random.Random) -> list[Case]:
    failures, days, gpus, size, hours = (params[name] for name in ("failures", "days", "gpus", "size", "hours"))
    logs = draw_rows(rng, 6, (3, 40, 112, 700), (7, 30.5, 54, 90), (384, 992, 2048, 16384), (1, 100, 3000, 100_000))
    logs += each_changed((40, 31.5, 992, 3000), (44, 54, 1024, 2000))
    runs = draw_rows(rng, 5, logarithmic(0.5, 300.0), logarithmic(5.0, 200.0)) + each_changed(
        (30.0, 90.0), (50.0, 70.0)
    )
    runs += draw_rows(rng, 1, logarithmic(100.0, 300.0), logarithmic(20.0, 80.0))  # more than one failure is expected
    return [
        shown("the log", "values:between", 0, [(failures, days, gpus, size)]),
        shown(f"a run of {count_text(hours, 'hour')}", "values:chance", 1, [(hours, 50.0)]),
        plain("between", 0, "other logs", logs),
        plain("chance", 1, "other runs", runs),
        unseen(rng, "between", 0, "one GPU, and very many", [(5, 12.5, 64, 1), (1, 1, 1, 1), (8, 365, 8, 200_000)]),
        unseen(
            rng, "chance", 1, "no time, a short run, and a long one", [(0.0, 3.0), (1e-6, 10.0), (900.0, 3.0), (4, 4.0)]
        ),
    ]


JUDGING = Judging(
    shares=shares(between=(0.25, 0.25), chance=(0.25, 0.25)),
    cases=_log_cases,
    verdicts=table(BETWEEN, CHANCE),
    why="""Rates add up: each GPU fails at the same rate, so twice the GPUs fail twice as often. Nothing fails in t hours with probability
e^(−t/M). The expected number of failures, t/M, is close to the chance of one only while it is small.""",
    pytorch="`torchrun --max-restarts` bounds the restarts of a job. Choose it from the expected number of failures, hours / hours between them.",
)

ANSWERS = r"""import math


# %% right: as written
def hours_between(failures, days, gpus, size):
    return days * 24 * gpus / failures / size


def chance(hours, between):
    return 1 - math.exp(-hours / between)


# %% right: by rates  from: as written
# ~ days * 24 * gpus / failures / size ==> 1 / (failures / (days * 24.0 * gpus) * size)
# ~ 1 - math.exp(-hours / between) ==> -math.expm1(-hours / between)

# %% wrong: for the size of the log => values same-size  from: as written
# ~ 24 * gpus / failures / size ==> 24 / failures

# %% wrong: in proportion => values upside-down  from: as written
# ~ gpus / failures / size ==> size / failures / gpus

# %% wrong: in days => values days  from: as written
# ~ 24 * gpus ==> gpus

# %% wrong: for one GPU => values one-gpu  from: as written
# ~ failures / size ==> failures

# %% wrong: whole hours => values rounded  from: as written
# ~ days * 24 * gpus / failures / size ==> round(days * 24 * gpus / failures / size, 3)

# %% wrong: the expected number => values expected-number  from: as written
# ~ 1 - math.exp(-hours / between) ==> hours / between

# %% wrong: the expected number, cut at 1 => values capped  from: as written
# ~ return 1 - math.exp(-hours / between) ==> return min(1, hours / between)

# %% wrong: nothing fails => values survives  from: as written
# ~ 1 - math ==> math

# %% wrong: a half-life => values power-of-two  from: as written
# ~ return 1 - math.exp(-hours / between) ==> return 1 - 2 ** (-hours / between)

# %% wrong: hour by hour => values hour-by-hour  from: as written
# ~ math.exp(-hours / between) ==> (1 - 1 / between) ** hours

# %% wrong: the example's numbers => values -  from: as written
# ~ days * 24 * gpus / failures / size ==> 54 * 24 * 16384 / 419 / size

# %% wrong: remembers a chance by its hours => values -  from: as written
# ~ def chance(hours, between): ==> def chance(hours, between, kept={}):
# ~ (-hours / between) ==> (-hours / kept.setdefault(hours, between))
"""
