from course_grader.judging import FINE, Case, Column, Judging, Params, Random, Worked, shares, shown, table
from course_grader.judging.random_inputs import draw_rows, each_changed, logarithmic, plain, unseen
from course_lib.estimate.units import count_text

right = Worked("hours-between-failures")
BETWEEN = Column(
    "between",
    "hours",
    words=lambda f, d, n, s: (
        f"{count_text(f, 'failure')} in {count_text(d, 'day')} on {count_text(n, 'GPU')}, scaled to {s:,}"
    ),
    rel=FINE,
)
CHANCE = Column(
    "chance",
    "probability",
    words=lambda h, m: f"{count_text(h, 'hour')} with a failure every {count_text(m, 'hour')}",
    rel=FINE,
)


def _log_cases(params: Params, rng: Random) -> list[Case]:
    failures, days, gpus, size, hours = (params[name] for name in ("failures", "days", "gpus", "size", "hours"))
    logs = draw_rows(rng, 6, (3, 40, 112, 700), (7, 30.5, 54, 90), (384, 992, 2048, 16384), (1, 100, 3000, 100_000))
    logs += each_changed((40, 31.5, 992, 3000), (44, 54, 1024, 2000))
    runs = draw_rows(rng, 5, logarithmic(0.5, 300.0), logarithmic(5.0, 200.0))
    runs += each_changed((30.0, 90.0), (50.0, 70.0))
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
    verdicts=table(BETWEEN, CHANCE, right=right),
    why="""Rates add up: each GPU fails at the same rate, so twice the GPUs fail twice as often. Nothing fails in t
hours with probability e^(−t/M). The expected number of failures, t/M, is close to the chance of one only while it is
small.""",
    pytorch="`torchrun --max-restarts` bounds the restarts of a job. Choose it from the expected number of failures, "
    "hours / hours between them.",
)

ANSWERS = r'''# %% right: worked
def hours_between(failures: float, days: float, gpus: float, size: float) -> float:
    """Mean hours between failures of a job on `size` GPUs."""
    return days * 24 * gpus / failures / size


def chance(hours: float, between: float) -> float:
    """The probability of at least one failure in a run of `hours` hours."""
    return 1 - math.exp(-hours / between)
# %% right: by rates
# ~ days * 24 * gpus / failures / size ==> 1 / (failures / (days * 24.0 * gpus) * size)
# ~ 1 - math.exp(-hours / between) ==> -math.expm1(-hours / between)
# %% wrong: same size => values
# > this is for the number of GPUs in the log.
# ~ 24 * gpus / failures / size ==> 24 / failures
# %% wrong: upside down => values
# > a job on more GPUs fails more often, not less.
# ~ gpus / failures / size ==> size / failures / gpus
# %% wrong: days => values
# > these are days; return hours.
# ~ 24 * gpus ==> gpus
# %% wrong: one gpu => values
# > this is for one GPU.
# ~ failures / size ==> failures
# %% wrong: rate => values
# > these are failures an hour; invert them.
# ~ days * 24 * gpus / failures / size ==> failures * size / (days * 24 * gpus)
# %% wrong: whole hours => values rounded
# ~ days * 24 * gpus / failures / size ==> round(days * 24 * gpus / failures / size, 3)
# %% wrong: expected number => values
# > this is the expected number of failures; it can exceed 1.
# ~ 1 - math.exp(-hours / between) ==> hours / between
# %% wrong: capped => values
# > this is the expected number of failures, cut at 1.
# ~ 1 - math.exp(-hours / between) ==> min(1, hours / between)
# %% wrong: survives => values
# > this is the probability that nothing fails.
# ~ 1 - math ==> math
# %% wrong: power of two => values
# > the time between failures is a mean, not a half-life.
# ~ math.exp(-hours / between) ==> 2 ** (-hours / between)
# %% wrong: hour by hour => values
# > this lets failures strike only once an hour; they can strike at any time.
# ~ math.exp(-hours / between) ==> (1 - 1 / between) ** hours
# %% wrong: the example's numbers => values -
# ~ days * 24 * gpus / failures / size ==> 54 * 24 * 16384 / 419 / size
'''
