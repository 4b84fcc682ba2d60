"""Key of chapter 07's audit: the truth about each statement, and the number that each known mistake gives."""

from course_lib import collectives, compute
from course_lib.exercises.ch07.cards.audits import CAUSES, ITEMS
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


AUDITS = {
    "audit-data-parallel": audit(
        ITEMS,
        KEYS,
        CAUSES,
        why=f"The step takes {_STEP:.2f} s, not 8 ms. The all-reduce is {_RATIO:.2f} of it and can hide in the backward pass, which "
        f"reverses the conclusion. FSDP gathers the weights twice and sends {_FSDP:.3g} times the bytes: it saves memory, not traffic. "
        f"The average of averages is {_SHARDS * _WHOLE:.3g} while the average is {_WHOLE:.3g}: linearity needs equal parts, or weights. "
        f"The other three statements are right as printed.",
        pytorch="`torch.profiler` shows the all-reduce next to the backward kernels; read the exposed time there before trusting a ratio.",
    )
}
