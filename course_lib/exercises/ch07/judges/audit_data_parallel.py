"""Judge of audit-data-parallel: audit: is the average free, and is it an average?"""

from course_lib import collectives, compute
from course_lib.exercises.ch07.audit_data_parallel import CAUSES, ITEMS
from course_lib.judging import Mistake
from course_lib.judging.audit import Key, audit, right, wrong
from course_lib.units import GB, YEAR

_RATE = 0.4e15
_STEP = compute.train_seconds(70e9, 8192, _RATE)
_RATIO = 280 * GB / (100 * GB) / _STEP
_MONTHS = compute.train_seconds(70e9, 15e12, _RATE, devices=1024) / (YEAR / 12)
_FSDP = (
    2 * collectives.BUS_FACTORS["all_gather"](64) + collectives.BUS_FACTORS["reduce_scatter"](64)
) / collectives.BUS_FACTORS["all_reduce"](64)
_PARTS = ((1.0, 2.0), (3.0, 4.0, 10.0))
_WHOLE = sum(map(sum, _PARTS)) / sum(map(len, _PARTS))
_SHARDS = sum(sum(part) / len(part) for part in _PARTS) / len(_PARTS) / _WHOLE
_V5P = 4.6e14 / 1.8e11
_EFFICIENCY = 29 * 8 / (1 * 256)

KEYS: dict[str, Key] = {
    "all-reduce-350x": wrong(
        _RATIO,
        "another unit",
        Mistake("as-printed", 350.0, "that is the printed ratio. How long does a step with that many FLOPs take?"),
        Mistake("upside-down", 1 / _RATIO, "this is the step divided by the all-reduce."),
        Mistake("peak", _RATIO / 0.4, "the GPU achieves 40 % of its peak."),
        Mistake("backward", _RATIO * 1.5, "this compares with the backward pass; compare with the whole step."),
    ),
    "fsdp-cuts-all-reduce": wrong(
        _FSDP,
        "memory for traffic",
        Mistake("one-gather", 1.0, "one gather and one scatter are an all-reduce; the conditions name one more."),
        Mistake("three", 3.0, "three operations, but each is half of an all-reduce."),
        Mistake("upside-down", 1 / _FSDP, "this is the all-reduce divided by FSDP."),
    ),
    "mean-of-shards-exact": wrong(
        _SHARDS,
        "unequal parts",
        Mistake("as-printed", 1.0, "that is what was printed. Compute both averages."),
        Mistake("not-over", _SHARDS * _WHOLE, "this is the average of averages; divide it by the average of all."),
        Mistake("upside-down", 1 / _SHARDS, "this is the average of all divided by the average of averages."),
    ),
    "six-months-1024": right(
        _MONTHS,
        Mistake("one-gpu", _MONTHS * 1024, "this is one GPU's time."),
        Mistake("peak", _MONTHS * 0.4, "the GPUs achieve 40 % of their peak."),
        Mistake("years", _MONTHS / 12, "these are years; give months."),
    ),
    "v5p-2550-tokens": right(
        _V5P,
        Mistake("whole-step", _V5P * 4 / 6, "this compares with the whole step; the conditions name another."),
        Mistake("one-half", _V5P / 2, "a ring all-reduce has two halves."),
        Mistake("one-direction", _V5P * 2, "the bytes per second already include both neighbors."),
    ),
    "resnet-8-to-256": right(
        _EFFICIENCY,
        Mistake("speed-up", 29.0, "this is the speed-up; divide it by the growth in hardware."),
        Mistake("upside-down", 1 / _EFFICIENCY, "this is the reciprocal; efficiency is at most 1."),
    ),
}


JUDGING = audit(
    ITEMS,
    KEYS,
    CAUSES,
    why=f"The step takes {_STEP:.2f} s, not 8 ms. The all-reduce is {_RATIO:.2f} of it and can hide in the backward pass, which "
    f"reverses the conclusion. FSDP gathers the weights twice and sends {_FSDP:.3g} times the bytes: it saves memory, not traffic. "
    f"The average of averages is {_SHARDS * _WHOLE:.3g} while the average is {_WHOLE:.3g}: linearity needs equal parts, or weights. "
    f"The other three statements are right as printed.",
    pytorch="`torch.profiler` shows the all-reduce next to the backward kernels; read the exposed time there before trusting a ratio.",
)

ANSWERS = r"""GOOD = {
    "all-reduce-350x": (0.3255, "wrong", "another unit"),
    "fsdp-cuts-all-reduce": (1.5, "wrong", "memory for traffic"),
    "mean-of-shards-exact": (0.896, "wrong", "unequal parts"),
    "six-months-1024": (5.85, "right", "as printed"),
    "v5p-2550-tokens": (2556, "right", "as printed"),
    "resnet-8-to-256": (0.906, "right", "as printed"),
}


# %% right: recomputed
def audit_dp():
    step = 6 * 70e9 * 8192 / 0.4e15
    averages = ((1 + 2) / 2 + (3 + 4 + 10) / 3) / 2
    months = 6 * 70e9 * 15e12 / 0.4e15 / 1024 / (365.25 * 86400 / 12)
    return {
        "all-reduce-350x": (2.8 / step, "wrong", "another unit"),
        "fsdp-cuts-all-reduce": (3 / 2, "wrong", "memory for traffic"),
        "mean-of-shards-exact": (averages / 4, "wrong", "unequal parts"),
        "six-months-1024": (months, "right", "as printed"),
        "v5p-2550-tokens": (4.6e14 / 1.8e11, "right", "as printed"),
        "resnet-8-to-256": (29 * 8 / 256, "right", "as printed"),
    }


# %% right: a table, in other letters
def audit_dp():
    return {name: [number, said.upper(), cause.capitalize()] for name, (number, said, cause) in GOOD.items()}


# %% wrong: believes the ratio => values as-printed  from: step at the peak
# ~ 0.81, "wrong", "another unit" ==> 350, "right", "as printed"

# %% wrong: step at the peak => values peak  from: the average itself
# ~ "mean-of-shards-exact": (3.58, "wrong", "unequal parts") ==> "all-reduce-350x": (0.81, "wrong", "another unit")


# %% wrong: the average itself => values not-over
def audit_dp():
    return GOOD | {"mean-of-shards-exact": (3.58, "wrong", "unequal parts")}


# %% wrong: an all-gather counted as an all-reduce => values three  from: one all-gather forgotten
# ~ 1.0, "right", "as printed" ==> 3.0, "wrong", "memory for traffic"

# %% wrong: one all-gather forgotten => values one-gather  from: the average itself
# ~ "mean-of-shards-exact": (3.58, "wrong", "unequal parts") ==> "fsdp-cuts-all-reduce": (1.0, "right", "as printed")

# %% wrong: hides behind the whole step => values whole-step  from: the average itself
# ~ "mean-of-shards-exact": (3.58, "wrong", "unequal parts") ==> "v5p-2550-tokens": (1704, "wrong", "another baseline")

# %% wrong: a speed-up => values speed-up  from: the average itself
# ~ "mean-of-shards-exact": (3.58, "wrong", "unequal parts") ==> "resnet-8-to-256": (29, "wrong", "another baseline")


# %% wrong: all wrong => values blind
def audit_dp():
    return {name: (row[0], "wrong", row[2] if row[1] == "wrong" else "another unit") for name, row in GOOD.items()}


# %% half: two of six missed => 4
def audit_dp():
    return GOOD | {
        "all-reduce-350x": (350, "right", "as printed"),
        "v5p-2550-tokens": (1704, "wrong", "another baseline"),
    }
"""
