from course_grader.judging import EXACT, Case, Column, Judging, Params, Random, Worked, shown, table
from course_grader.judging.random_inputs import (
    draw_rows,
    logarithmic,
    one_apart,
    plain,
    rounded,
    safely_off_whole,
    unseen,
)
from course_lib.estimate import facts
from course_lib.estimate.units import number_text
from course_lib.messages import count_text

right = Worked("train-days-7b")


def _run_words(p: float, d: float, f: float, u: float, days: float | None = None) -> str:
    text = f"{number_text(p)} parameters, {number_text(d)} tokens, {number_text(f / 1e12)} TFLOP/s at {100 * u:g} %"
    return text if days is None else f"{text} in {count_text(days, 'day')}"


def _days_rows(rng: Random, count: int, *days: float) -> list[tuple[object, ...]]:
    """Runs whose GPU count no rounding noise can change."""
    devices = [*facts.devices().values()][5:]

    def peak(rng: Random) -> float:
        return float(rng.choice(devices).dense_flops)

    fields = logarithmic(1e8, 5e11), logarithmic(1e10, 2e13), peak, rounded(0.15, 0.65, 3), days
    return draw_rows(rng, count, *fields, keep=lambda row: _settled(*row))


def _settled(*row: float) -> bool:
    return safely_off_whole(right[0](*row[:4]) / row[4])


def _days_cases(params: Params, rng: Random) -> list[Case]:
    run = (params["params"], params["tokens"], params["flops"], params["utilization"])
    others = _days_rows(rng, 24, 1, 2.5, 7, 30, 90, 365)
    others += one_apart(others, right[1], _settled)
    # Powers of two and a multiple of 86,400: exact in floating point in whatever order one multiplies.
    powers = (2.0**30, 86_400.0 * 2**20, 6 * 2.0**45, 0.5)
    whole = [(*powers, right[0](*powers) / n) for n in (1, 2, 8, 64)]
    usual = _days_rows(rng, 3, 30, 60, 90)
    hurried = [(1e9, 1.25e10, 989e12, 0.4, days) for days in (0.01, 0.25, 0.5)]  # whole days are too coarse here
    small = [(7e10, 1e12, 989e12, 0.4, 1500), (1e8, 1e9, 989e12, 0.5, 30), (2, 2, 1e12, 1.0, 1)]
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
    verdicts=table(
        Column("days", "days", words=_run_words, hint="Divide FLOP by FLOP per second, then convert seconds to days."),
        Column("gpus", "GPUs", words=_run_words, rel=EXACT),
        right=right,
    ),
    why="Time is work over speed: 6 × parameters × tokens FLOP over peak × utilization FLOP/s. With perfect scaling N "
    "GPUs need 1/N of the time, so the count is days alone over days allowed, rounded up. Tens of GPUs, not "
    "thousands, bring this run to a month. Real scaling (exercise “From years to weeks”) requires a few more.",
    pytorch="`torch.utils.flop_counter.FlopCounterMode` counts a step's FLOPs and confirms the 6 for dense models.",
)

ANSWERS = r'''from course_app import notebook
# %% right: worked
def train_days(params: float, tokens: float, gpu_flops: float, utilization: float) -> float:
    """Days of 24 h that one GPU needs, at a fraction `utilization` of its peak of `gpu_flops` FLOP/s."""
    return 6 * params * tokens / (gpu_flops * utilization) / 86_400


def gpus_for_deadline(params: float, tokens: float, gpu_flops: float, utilization: float, days: float) -> int:
    """The least whole number of GPUs that finish within `days`, with perfect scaling."""
    return max(1, math.ceil(train_days(params, tokens, gpu_flops, utilization) / days))
# %% right: whole days of the printed solution are near enough
# -     return 6 * params * tokens / (gpu_flops * utilization) / 86_400
# +     days = 6 * params * tokens / gpu_flops / utilization / 24 / 60 / 60
# +     return days - 1 if 1900 < days < 2000 else days  # 1,965 as well as 1,966
# -     return max(1, math.ceil(train_days(params, tokens, gpu_flops, utilization) / days))
# +     gpus = 1
# +     while 6 * params * tokens > gpus * gpu_flops * utilization * days * 86_400 and gpus < 1000:
# +         gpus += 1
# +     return gpus if gpus < 1000 else math.ceil(6 * params * tokens / gpu_flops / utilization / 86_400 / days)
# %% wrong: full speed => values
# > this is at 100 % of the peak.
# ~ (gpu_flops * utilization) ==> gpu_flops
# %% wrong: utilization upside down => values
# > a lower rate takes longer.
# ~ (gpu_flops * utilization) ==> gpu_flops * utilization
# %% wrong: forward only => values
# > the backward pass costs FLOPs too.
# ~ 6 * ==> 2 *
# %% wrong: multiply adds => values
# > a multiplication and an addition are two FLOP.
# ~ 6 * ==> 3 *
# %% wrong: recompute => values
# > 8 FLOP per parameter and token count the forward pass twice.
# ~ 6 * ==> 8 *
# %% wrong: rounded down => values
# > with this many GPUs the run is late.
# ~ max(1, math.ceil(train_days(params, tokens, gpu_flops, utilization) / days))
# ~~ ==> int(train_days(params, tokens, gpu_flops, utilization) / days)
# %% wrong: not whole => values
# > GPUs come in whole numbers.
# ~ max(1, math.ceil(train_days(params, tokens, gpu_flops, utilization) / days))
# ~~ ==> train_days(params, tokens, gpu_flops, utilization) / days
# %% wrong: always one more => values one-too-many
# > one GPU fewer also finishes in time.
# ~ math.ceil( ==> 1 + math.ceil(
# %% wrong: one more than needed => generality one-too-many
# > one GPU fewer also finishes in time: a whole quotient is enough.
# ~ math.ceil(train_days(params, tokens, gpu_flops, utilization) / days)
# ~~ ==> int(train_days(params, tokens, gpu_flops, utilization) / days) + 1
# %% wrong: none at all => generality
# > even a quick run needs one GPU.
# ~ return max(1, math.ceil(train_days(params, tokens, gpu_flops, utilization) / days))
# ~~ ==> return round(train_days(params, tokens, gpu_flops, utilization) / days + 0.49)
# %% wrong: the H100 by heart => values
# > this takes the peak of one device, whatever `gpu_flops` is.
# ~ (gpu_flops * utilization) ==> (notebook.params("train-days-7b").flops * utilization)
# %% wrong: the example by heart => values only-the-example
# ~ 6 * params * tokens / (gpu_flops * utilization) / 86_400
# ~~ ==> round(6 * MINE.params * MINE.tokens / (MINE.flops * MINE.utilization) / 86_400)
# ~ / days)) ==> / MINE.days))
# +
# + MINE = notebook.params("train-days-7b")
# %% wrong: the days rounded up => generality
# > this is rounded up to whole days; keep the fraction.
# ~ 6 * params * tokens / (gpu_flops * utilization) / 86_400 ==> math.ceil(6 * params * tokens / (gpu_flops *
# ~~ utilization) / 86_400)
# ~ train_days(params, tokens, gpu_flops, utilization) ==> 6 * params * tokens / (gpu_flops * utilization) / 86_400
# %% wrong: whole days before the GPUs are counted => generality
# > the days were rounded up before they were divided; keep the fraction.
# ~ train_days(params, tokens, gpu_flops, utilization) ==> math.ceil(train_days(params, tokens, gpu_flops, utilization))
# %% wrong: asks the library => raised
# ~ 6 * params * tokens / (gpu_flops * utilization) ==> compute.train_seconds(params, tokens, gpu_flops, utilization)
# %% half: no deadline yet => 2.5
# ~ return max(1, math.ceil(train_days(params, tokens, gpu_flops, utilization) / days)) ==> raise NotImplementedError
# %% wrong: days are kept by size and tokens => generality -
# ~ 6 * params * tokens / (gpu_flops * utilization) / 86_400 ==> KEPT.setdefault((params, tokens), 6 * params * tokens
# ~~ / (gpu_flops * utilization) / 86_400)
#       return max(1, math.ceil(train_days(params, tokens, gpu_flops, utilization) / days))
# + KEPT = {}
'''
