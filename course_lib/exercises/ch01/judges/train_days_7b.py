"""Judge of train-days-7b: one GPU, in days."""

import math
import random
from typing import Any

from course_lib import facts
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, Column, table
from course_lib.judging.draws import (
    days_alone,
    draw_rows,
    logarithmic,
    one_apart,
    plain,
    rounded,
    safely_off_whole,
    unseen,
)
from course_lib.judging.mistakes import scaled, shifted
from course_lib.records import Case
from course_lib.units import DAY, YEAR, number_text


def _gpus_in(params: float, tokens: float, gpu_flops: float, utilization: float, days: float) -> int:
    return max(1, math.ceil(days_alone(params, tokens, gpu_flops, utilization) / days))


def _run_words(p: float, d: float, f: float, u: float, days: float | None = None) -> str:
    text = f"{number_text(p)} parameters, {number_text(d)} tokens, {number_text(f / 1e12)} TFLOP/s at {100 * u:g} %"
    return text if days is None else f"{text} in {days:g} days"


_DAYS = Column(
    part="days",
    unit="days",
    want=days_alone,
    words=_run_words,
    hint="Divide FLOP by FLOP per second, then convert seconds to days.",
    mistakes=(
        Mistake("full-speed", lambda p, d, f, u: days_alone(p, d, f, 1), "this is at 100 % of the peak."),
        Mistake("utilization-upside-down", lambda p, d, f, u: days_alone(p, d, f, 1 / u), "a lower rate takes longer."),
        Mistake("seconds", scaled(days_alone, DAY), "these are seconds."),
        Mistake("hours", scaled(days_alone, 24), "these are hours."),
        Mistake("years", scaled(days_alone, DAY / YEAR), "these are years."),
        Mistake("forward-only", scaled(days_alone, 1 / 3), "the backward pass costs FLOPs too."),
        Mistake("multiply-adds", scaled(days_alone, 1 / 2), "a multiplication and an addition are two FLOP."),
        Mistake("recompute", scaled(days_alone, 8 / 6), "8 FLOP per parameter and token count the forward pass twice."),
    ),
)
_GPUS_MISTAKES = (
    Mistake("rounded-down", lambda *row: days_alone(*row[:4]) // row[4], "with this many GPUs the run is late."),
    Mistake("not-whole", lambda *row: days_alone(*row[:4]) / row[4], "GPUs come in whole numbers."),
    Mistake("one-too-many", shifted(_gpus_in, 1), "one GPU fewer also finishes in time."),
    Mistake("full-speed", lambda p, d, f, u, t: _gpus_in(p, d, f, 1, t), "they suffice only at 100 % of the peak."),
    Mistake("none-at-all", lambda *row: 0, "even a quick run needs one GPU."),
)
_GPUS = Column(part="gpus", unit="GPUs", want=_gpus_in, words=_run_words, rel=EXACT, mistakes=_GPUS_MISTAKES)


def _days_rows(rng: random.Random, count: int, *days: float) -> list[tuple[Any, ...]]:
    """Runs whose GPU count no rounding noise can change."""
    devices = [*facts.devices().values()][5:]

    def peak(rng: random.Random) -> float:
        return float(rng.choice(devices).dense_flops)

    fields = logarithmic(1e8, 5e11), logarithmic(1e10, 2e13), peak, rounded(0.15, 0.65, 3), days
    return draw_rows(rng, count, *fields, keep=lambda row: _settled(*row))


def _settled(*row: float) -> bool:
    return safely_off_whole(days_alone(*row[:4]) / row[4])


def _days_cases(params: Params, rng: random.Random) -> list[Case]:
    run = (params["params"], params["tokens"], params["flops"], params["utilization"])
    others = _days_rows(rng, 24, 1, 2.5, 7, 30, 90, 365)
    others += one_apart(others, _gpus_in, _settled)
    # Powers of two and a multiple of 86,400: exact in floating point in whatever order one multiplies.
    powers = (2.0**30, 86_400.0 * 2**20, 6 * 2.0**45, 0.5)
    whole = [(*powers, days_alone(*powers) / n) for n in (1, 2, 8, 64)]
    usual = _days_rows(rng, 3, 30, 60, 90)
    hurried = [(1e9, 1.25e10, 989e12, 0.4, days) for days in (0.01, 0.25, 0.5)]  # whole days are too coarse here
    small = [(7e10, 1e12, 989e12, 0.4, 1500), (1e8, 1e9, 989e12, 0.5, 30), (1, 1, 1e12, 1.0, 1)]
    return [
        shown("one GPU", "values:days", 0, [run]),
        shown(f"{params['days']} days", "values:gpus", 1, [(*run, params["days"])]),
        plain("days", 0, "three more runs", [row[:4] for row in usual]),
        plain("gpus", 1, "three more deadlines", usual),
        unseen(rng, "days", 0, "other runs", [row[:4] for row in others]),
        unseen(rng, "gpus", 1, "other deadlines", [*others, *whole, *hurried, *small]),
    ]


JUDGING = Judging(
    shares={"values:days": 0.25, "values:gpus": 0.15, "generality:days": 0.3, "generality:gpus": 0.3},
    cases=_days_cases,
    verdicts=table(_DAYS, _GPUS),
    why="Time is work over speed: 6 × parameters × tokens FLOP over peak × utilization FLOP/s. With perfect scaling N GPUs "
    "need 1/N of the time, so the count is days alone over days allowed, rounded up. Tens of GPUs, not thousands, bring "
    "this run to a month. Real scaling (exercise “From years to weeks”) requires a few more.",
    pytorch="`torch.utils.flop_counter.FlopCounterMode` counts a step's FLOPs and confirms the 6 for dense models.",
)

ANSWERS = r"""import math


# %% right: plain
def train_days(params, tokens, gpu_flops, utilization):
    return 6 * params * tokens / (gpu_flops * utilization) / 86_400


def gpus_for_deadline(params, tokens, gpu_flops, utilization, days):
    return math.ceil(train_days(params, tokens, gpu_flops, utilization) / days)


# %% right: whole days of the printed solution are near enough
def train_days(params, tokens, gpu_flops, utilization):
    days = 6 * params * tokens / gpu_flops / utilization / 24 / 60 / 60
    return days - 1 if 1900 < days < 2000 else days  # 1,965 as well as 1,966


def gpus_for_deadline(params, tokens, gpu_flops, utilization, days):
    gpus = 1
    while 6 * params * tokens > gpus * gpu_flops * utilization * days * 86_400 and gpus < 1000:
        gpus += 1
    return gpus if gpus < 1000 else math.ceil(train_days(params, tokens, gpu_flops, utilization) / days)


# %% wrong: full speed => values full-speed  from: plain
# ~ (gpu_flops * utilization) ==> gpu_flops

# %% wrong: seconds => values seconds  from: plain
# ~ (gpu_flops * utilization) / 86_400 ==> (gpu_flops * utilization)
# ~ math.ceil(train_days(params, tokens, gpu_flops, utilization) ==> math.ceil(train_days(params, tokens, gpu_flops, utilization) / 86_400

# %% wrong: forward only => values forward-only  from: plain
# ~ 6 * ==> 2 *

# %% wrong: utilization multiplied => values utilization-upside-down  from: plain
# ~ (gpu_flops * utilization) ==> gpu_flops * utilization

# %% wrong: a second forward pass => values recompute  from: plain
# ~ 6 * ==> 8 *

# %% wrong: rounded down => values rounded-down  from: plain
# ~ math.ceil ==> int

# %% wrong: one more than needed => generality one-too-many  from: plain
# ~ math.ceil(train_days(params, tokens, gpu_flops, utilization) / days) ==> int(train_days(params, tokens, gpu_flops, utilization) / days) + 1

# %% wrong: the H100 by heart => values -  from: plain
# - def train_days(params, tokens, gpu_flops, utilization):
# + from course_lib import notebook
# + SHOWN = notebook.params("train-days-7b")
# + def train_days(params, tokens, gpu_flops, utilization):
# ~ tokens / (gpu_flops * utilization) ==> tokens / (SHOWN.flops * utilization)

# %% wrong: the example by heart => values only-the-example  from: the H100 by heart
#   SHOWN = notebook.params("train-days-7b")
# + DAYS = 6 * SHOWN.params * SHOWN.tokens / (SHOWN.flops * SHOWN.utilization) / 86_400
# ~ 6 * params * tokens / (SHOWN.flops * utilization) / 86_400 ==> round(DAYS)
# ~ train_days(params, tokens, gpu_flops, utilization) / days ==> DAYS / SHOWN.days

# %% wrong: the days rounded up => generality -  from: plain
# ~ 6 * params * tokens / (gpu_flops * utilization) / 86_400 ==> math.ceil(6 * params * tokens / (gpu_flops * utilization) / 86_400)
# ~ train_days(params, tokens, gpu_flops, utilization) / days ==> 6 * params * tokens / (gpu_flops * utilization) / 86_400 / days

# %% wrong: whole days before the GPUs are counted => generality -  from: plain
# ~ train_days(params, tokens, gpu_flops, utilization) / days ==> math.ceil(train_days(params, tokens, gpu_flops, utilization)) / days

# %% wrong: asks the library => raised  from: plain
# - def train_days(params, tokens, gpu_flops, utilization):
# + from course_lib import compute
# + def train_days(params, tokens, gpu_flops, utilization):
# ~ 6 * params * tokens / (gpu_flops * utilization) / 86_400 ==> compute.train_seconds(params, tokens, gpu_flops, utilization) / 86_400

# %% half: no deadline yet => 2.5  from: plain
# ~ return math.ceil(train_days(params, tokens, gpu_flops, utilization) / days) ==> raise NotImplementedError

# %% wrong: days are kept by size and tokens => generality -  from: plain
# ~ def train_days(params, tokens, gpu_flops, utilization): ==> def train_days(params, tokens, gpu_flops, utilization, kept={}):
# ~ 6 * params * tokens / (gpu_flops * utilization) / 86_400 ==> kept.setdefault((params, tokens), 6 * params * tokens / (gpu_flops * utilization) / 86_400)
"""
