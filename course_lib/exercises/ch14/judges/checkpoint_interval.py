"""Judge of checkpoint-interval: how often to save."""

import math
import random

from course_lib.exercises.ch14.judges.shared import best_interval, goodput
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import FINE, Column, shares, table
from course_lib.judging.draws import draw_rows, each_changed, generality, logarithmic, plain
from course_lib.records import Case


def _young(save: float, mtbf: float) -> float:
    return math.sqrt(2 * save * mtbf)


def _daly(save: float, mtbf: float) -> float:
    part = save / (2 * mtbf)
    return _young(save, mtbf) * (1 + math.sqrt(part) / 3 + part / 9) - save


def _goodput_columns(restarts: str) -> Column:
    other = "exposed" if restarts == "safe" else "safe"
    message = "a failure can strike during a restart here." if restarts == "exposed" else "restarts cannot fail here."
    return Column(
        part="goodput",
        unit="of the time",
        want=lambda *row: goodput(restarts, *row),
        words=lambda t, s, r, m: f"{t:,g} s of work, {s:,g} s of saving, {r:,g} s of restart, a failure every {m:,g} s",
        rel=FINE,
        mistakes=(
            Mistake(
                "public-form" if restarts == "exposed" else "exposed-restart",
                lambda *row: goodput(other, *row),
                message,
            ),
            Mistake("no-failures", lambda t, s, r, m: t / (t + s), "this leaves the failures out."),
            Mistake(
                "saves-count", lambda t, s, r, m: goodput(restarts, t, s, r, m) * (t + s) / t, "saving is no work."
            ),
            Mistake("no-restart", lambda t, s, r, m: t / (m * math.expm1((t + s) / m)), "the restarts are left out."),
            Mistake(
                "save-is-safe",
                lambda t, s, r, m: t / (math.expm1(t / m) * (m + r) + s),
                "a failure can strike during a save too.",
            ),
            Mistake(
                "first-order",
                lambda t, s, r, m: 1 - s / t - t / (2 * m) - r / m,
                "this adds up small losses; where they are not small, it is off.",
            ),
            Mistake(
                "half-lost",
                lambda t, s, r, m: t / ((t + s) * (1 + ((t + s) / 2 + r) / m)),
                "this loses half a segment a failure, and lets no try fail twice.",
            ),
        ),
    )


INTERVAL = Column(
    part="interval",
    unit="seconds",
    want=best_interval,
    words=lambda s, m: f"{s:,g} s of saving, a failure every {m:,g} s",
    rel=5e-3,
    mistakes=(
        Mistake("young", _young, "this is √(2 · save · mtbf), which holds for short saves only."),
        Mistake(
            "young-minus-save",
            lambda s, m: _young(s, m) - s,
            "this is √(2 · save · mtbf) − save, still a rule for short saves.",
        ),
        Mistake("series", _daly, "this is the first terms of a series in save / mtbf; here they are not enough."),
        Mistake("whole-segment", lambda s, m: best_interval(s, m) + s, "this is work and save together."),
        Mistake(
            "no-two", lambda s, m: math.sqrt(s * m), "a failure loses half an interval on average: a 2 is missing."
        ),
        Mistake("one-hour", lambda s, m: 3600.0, "an hour, whatever the save costs."),
    ),
)


def _interval_cases(params: Params, rng: random.Random) -> list[Case]:
    usual = draw_rows(
        rng, 5, logarithmic(600, 5000), logarithmic(10, 120), logarithmic(120, 900), logarithmic(7e3, 5e4)
    )
    hard = draw_rows(rng, 4, logarithmic(300, 3e3), logarithmic(200, 900), logarithmic(900, 3e3), logarithmic(1e3, 2e3))
    usual += each_changed((3e3, 60.0, 300.0, 2e4), (900.0, 20.0, 500.0, 4e4))
    hard.append((5e3, 100.0, 60.0, 1e3))
    saves = draw_rows(rng, 5, logarithmic(1, 100), logarithmic(2e4, 2e5)) + each_changed((60.0, 2e4), (5.0, 9e4))
    long = draw_rows(rng, 4, logarithmic(100, 900), logarithmic(1e3, 2e3))
    long += [(0.05, 1e5), (3e4, 1e7), (999.0, 1000.0), (5.0, 6.0)]
    return [
        shown("ten minutes of work", "values:goodput", 0, [(600.0, 60.0, 300.0, 10_000.0)]),
        shown("a save of a minute", "values:interval", 1, [(60.0, 10_000.0)]),
        plain("goodput", 0, "other segments", usual),
        plain("interval", 1, "short saves", saves),
        generality("goodput", 0, "failures as often as segments", hard),
        generality("interval", 1, "long saves, and a very short one", long),
    ]


JUDGING = Judging(
    shares=shares(goodput=(0.25, 0.25), interval=(0.25, 0.25)),
    cases=_interval_cases,
    verdicts=lambda params, case, outcome: table(_goodput_columns(params["restarts"]), INTERVAL)(params, case, outcome),
    why="""A segment of t seconds succeeds with probability e^(−t/M), so it fails e^(t/M) − 1 times on average. The tries take
M · (e^(t/M) − 1) seconds in all, and each failure costs a restart on top. Goodput divides by both, and the restart is a factor that does
not depend on the interval. For short saves the best interval is √(2 · save · M), Young's rule.""",
    pytorch="`torch.distributed.checkpoint.async_save` makes `save` short: only the copy out of GPU memory stops the job.",
)

ANSWERS = r"""import math


# %% right: as written
def goodput(interval, save, restart, mtbf):
    failures = math.exp((interval + save) / mtbf) - 1
    return interval / (failures * (mtbf + restart))


def best_interval(save, mtbf):
    low, high = 0.0, 1.0
    for _ in range(100):
        x = (low + high) / 2
        if (1 - x) * math.exp(x) > math.exp(-save / mtbf):
            low = x
        else:
            high = x
    return low * mtbf


# %% right: by search  from: as written
def best_interval(save, mtbf):
    low, high = 1e-4 * mtbf, 2.0 * mtbf
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(80):
        a, b = high - golden * (high - low), low + golden * (high - low)
        if goodput(a, save, 1, mtbf) > goodput(b, save, 1, mtbf):
            high = b
        else:
            low = a
    return (low + high) / 2


# %% right: any variant  from: as written
# - def goodput(interval, save, restart, mtbf):
# + from course_lib import params
# + RESTARTS = params("checkpoint-interval").restarts
# + def goodput(interval, save, restart, mtbf):
#       failures = math.exp((interval + save) / mtbf) - 1
# +     if RESTARTS == "exposed":
# +         restart = mtbf * (math.exp(restart / mtbf) - 1)

# %% wrong: restarts that can fail => values exposed-restart unless restarts=exposed  from: as written
# ~ (mtbf + restart) ==> mtbf * math.exp(restart / mtbf)

# %% wrong: without failures => values no-failures  from: as written
# ~ failures * (mtbf + restart) ==> interval + save

# %% wrong: saving counts as work => values saves-count  from: as written
# ~ return interval / (failures * (mtbf + restart)) ==> return (interval + save) / (failures * (mtbf + restart))

# %% wrong: without restarts => values no-restart  from: as written
# ~ (mtbf + restart) ==> mtbf

# %% wrong: saves cannot fail => values save-is-safe  from: as written
# ~ (interval + save) ==> interval
# ~ (failures * (mtbf + restart)) ==> (failures * (mtbf + restart) + save)

# %% wrong: small losses added up => values first-order  from: as written
# ~ interval / (failures * (mtbf + restart)) ==> 1 - save / interval - interval / 2 / mtbf - restart / mtbf

# %% wrong: half a segment a failure => values half-lost  from: as written
# -     return interval / (failures * (mtbf + restart))
# +     length = interval + save
# +     return interval / (length + length / mtbf * (length / 2 + restart))

# %% wrong: Young's rule => values young  from: as written
# ~ low * mtbf ==> math.sqrt(2 * save * mtbf)

# %% wrong: the series => generality series  from: as written
# -     return low * mtbf
# +     half = save / mtbf / 2
# +     return math.sqrt(2 * save * mtbf) * (1 + math.sqrt(half) / 3 + half / 9) - save

# %% wrong: work and save => values whole-segment  from: as written
# ~ * mtbf ==> * mtbf + save

# %% wrong: without the 2 => values no-two  from: as written
# ~ low * mtbf ==> math.sqrt(save * mtbf)

# %% wrong: Young's rule less the save => values young-minus-save  from: as written
# ~ low * mtbf ==> math.sqrt(2 * save * mtbf) - save

# %% wrong: every hour => values one-hour  from: as written
# ~ low * mtbf ==> 3600

# %% wrong: remembers an interval by its save => values -  from: as written
# ~ best_interval(save, mtbf): ==> best_interval(save, mtbf, kept={}):
# ~ low * mtbf ==> low * kept.setdefault(save, mtbf)
"""
