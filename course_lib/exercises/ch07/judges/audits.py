"""Key of chapter 07's audit: the truth about each statement, and what slips come to."""

from course_lib import collectives, compute
from course_lib.exercises.ch07.cards.audits import CAUSES, ITEMS
from course_lib.judging import Mistake
from course_lib.judging.audit import Key, audit
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
    "all-reduce-350x": Key(
        _RATIO,
        "another unit",
        mistakes=(
            Mistake("as-printed", 350.0, "that is the printed ratio. How long does a step of so many FLOPs take?"),
            Mistake("upside-down", 1 / _RATIO, "this is the step over the all-reduce."),
            Mistake("peak", _RATIO / 0.4, "the GPU does 40 % of its peak."),
            Mistake("backward", _RATIO * 1.5, "this compares with the backward pass; the step is asked for."),
        ),
    ),
    "fsdp-cuts-all-reduce": Key(
        _FSDP,
        "memory for traffic",
        mistakes=(
            Mistake(
                "one-gather",
                1.0,
                "one all-gather and one reduce-scatter are an all-reduce. The conditions name one more.",
            ),
            Mistake("three", 3.0, "three operations, but each is half of an all-reduce."),
            Mistake("upside-down", 1 / _FSDP, "this is the all-reduce over FSDP."),
        ),
    ),
    "mean-of-shards-exact": Key(
        _SHARDS,
        "unequal parts",
        mistakes=(
            Mistake("as-printed", 1.0, "that is what was printed. Work out both averages."),
            Mistake(
                "not-over", _SHARDS * _WHOLE, "this is the average of averages; what is it over the average of all?"
            ),
            Mistake("upside-down", 1 / _SHARDS, "this is the average of all over the average of averages."),
        ),
    ),
    "six-months-1024": Key(
        _MONTHS,
        mistakes=(
            Mistake("one-gpu", _MONTHS * 1024, "this is one GPU's time."),
            Mistake("peak", _MONTHS * 0.4, "the GPUs do 40 % of their peak."),
            Mistake("years", _MONTHS / 12, "these are years; months are asked for."),
        ),
    ),
    "v5p-2550-tokens": Key(
        _V5P,
        mistakes=(
            Mistake(
                "whole-step", _V5P * 4 / 6, "this hides behind the whole step; the conditions say what to hide behind."
            ),
            Mistake("one-half", _V5P / 2, "a ring all-reduce has two halves."),
            Mistake("one-direction", _V5P * 2, "the bytes per second are those of both neighbours already."),
        ),
    ),
    "resnet-8-to-256": Key(
        _EFFICIENCY,
        mistakes=(
            Mistake("speed-up", 29.0, "this is the speed-up; how much more hardware was it?"),
            Mistake("upside-down", 1 / _EFFICIENCY, "upside down: efficiency above 1 would be a gift."),
        ),
    ),
}


AUDITS = {
    "audit-data-parallel": audit(
        ITEMS,
        KEYS,
        CAUSES,
        why=f"The step takes {_STEP:.2f} s, not 8 ms: the all-reduce is {_RATIO:.2f} of it and can hide in the backward pass; the "
        f"conclusion is reversed. FSDP gathers the weights twice and sends {_FSDP:.3g} times the bytes: it makes room, not silence. The "
        f"average of averages is {_SHARDS * _WHOLE:.3g} where the average is {_WHOLE:.3g}: linearity needs equal parts, or weights. The "
        f"other three are right as printed.",
        pytorch="`torch.profiler` shows the all-reduce beside the backward kernels: read there what sticks out before believing a ratio.",
    )
}
