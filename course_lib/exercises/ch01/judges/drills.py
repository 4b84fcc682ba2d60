"""Answers to chapter 01's drills."""

import math

from course_lib.judging import Mistake, Params, drill_key
from course_lib.judging.mistakes import scaled
from course_lib.units import BILLION, DAY, GB, HOUR, MILLION, GiB

EXACT = 1e-9  # relative tolerance of whole numbers


def _state(p: Params) -> float:
    """Bytes of training state at 16 bytes per parameter."""
    return p["params"] * 16


def _headroom_gb(p: Params) -> float:
    return (p["memory"] - _state(p) / p["gpus"]) / GB


def _run_flops(p: Params) -> float:
    return 6 * p["params"] * p["tokens"]


def _step_seconds(p: Params) -> float:
    return _run_flops(p) / (p["flops"] * p["mfu"])


def _run_days(p: Params) -> float:
    return _step_seconds(p) / p["gpus"] / DAY


def _cost(p: Params) -> float:
    return p["gpus"] * p["days"] * 24 * p["usd_per_hour"] / MILLION


def _mfu_percent(p: Params) -> float:
    return 100 * 6 * p["params"] * p["tokens_s"] / (p["gpus"] * p["flops"])


def _bought(p: Params) -> float:
    """Billions of tokens."""
    return p["usd"] / p["usd_per_hour"] * HOUR * p["flops"] * p["mfu"] / (6 * p["params"]) / BILLION


def _attention_percent(p: Params) -> float:
    return 200 * p["layers"] * p["hidden"] * p["seq"] / p["params"]


_NO_MASTER = "12 bytes leave out the fp32 master copy."
_FULL_SPEED = "That is at 100 % of the peak."
_POINTS = "Percentage points of MFU are not a share of the money."

DRILLS = {
    "state-gb": drill_key(
        lambda p: _state(p) / GB,
        "{{params:count}} × 16 bytes = {{answer}} GB.",
        Mistake("no-master", lambda p: p["params"] * 12 / GB, _NO_MASTER),
        Mistake("weights-only", lambda p: p["params"] * 2 / GB, "Those are the 16-bit weights alone."),
        Mistake("gibibytes", lambda p: _state(p) / GiB, "Those are GiB."),
        rel=0.005,
    ),
    "fewest-cards": drill_key(
        lambda p: math.ceil(_state(p) / p["memory"]),
        "{{params:count}} × 16 bytes over {{memory:gb}}, rounded up: {{answer:int}}.",
        Mistake("rounded-down", lambda p: _state(p) // p["memory"], "Rounded down, part of the state does not fit."),
        Mistake("not-whole", lambda p: _state(p) / p["memory"], "GPUs come in whole numbers."),
        rel=EXACT,
    ),
    "largest-model": drill_key(
        lambda p: p["memory"] / 16 / BILLION,
        "{{memory:gb}} over 16 bytes = {{answer}} billion parameters, with nothing left for activations.",
        Mistake("weights-only", lambda p: p["memory"] / 2 / BILLION, "The weights alone would fit, not the state."),
        Mistake("no-master", lambda p: p["memory"] / 12 / BILLION, _NO_MASTER),
    ),
    "gib": drill_key(
        lambda p: p["gib"] * GiB / GB,
        "{{gib:int}} × 2³⁰ bytes = {{answer}} × 10⁹ bytes.",
        Mistake("same", lambda p: p["gib"], "A GiB is 7 % more than a GB."),
        Mistake("other-way", lambda p: p["gib"] * GB / GiB, "That is the other direction."),
        rel=0.002,
    ),
    "train-flops": drill_key(
        lambda p: _run_flops(p) / 1e21,
        "6 × {{params:count}} × {{tokens:count}} = {{answer}} × 10²¹ FLOP.",
        Mistake("forward-only", lambda p: _run_flops(p) / 3e21, "2 is the forward pass alone."),
        Mistake("recompute", lambda p: _run_flops(p) * 8 / 6e21, "8 counts a second forward pass."),
    ),
    "step-time": drill_key(
        _step_seconds,
        "6 × parameters × tokens over {{flops:tflops}} × {{mfu:percent}} = {{answer}} s.",
        Mistake("milliseconds", scaled(_step_seconds, 1e3), "Those are milliseconds."),
        Mistake("full-speed", lambda p: _step_seconds(p) * p["mfu"], _FULL_SPEED),
        Mistake("forward-only", scaled(_step_seconds, 1 / 3), "The backward pass is missing."),
    ),
    "run-days": drill_key(
        _run_days,
        "6 × parameters × tokens over {{gpus:int}} × {{flops:tflops}} × {{mfu:percent}}, in days: {{answer}}.",
        Mistake("one-gpu", lambda p: _step_seconds(p) / DAY, "That is one GPU."),
        Mistake("full-speed", lambda p: _run_days(p) * p["mfu"], _FULL_SPEED),
        Mistake("hours", scaled(_run_days, DAY / HOUR), "Those are hours."),
    ),
    "run-cost": drill_key(
        _cost,
        "{{gpus:int}} × {{days:int}} × 24 h × {{usd_per_hour:usd}} = {{answer}} million USD.",
        Mistake("one-hour-a-day", scaled(_cost, 1 / 24), "A day has 24 hours."),
        Mistake("dollars", scaled(_cost, MILLION), "Those are dollars."),
    ),
    "mfu-percent": drill_key(
        _mfu_percent,
        "6 × {{params:count}} × {{tokens_s:int}} over {{gpus:int}} × {{flops:tflops}} = {{answer}} %.",
        Mistake("one-gpu", lambda p: _mfu_percent(p) * p["gpus"], "The tokens of all GPUs need the peak of all."),
        Mistake("fraction", scaled(_mfu_percent, 0.01), "Give a percentage."),
        Mistake("sparse", scaled(_mfu_percent, 0.5), "The peak given is dense already."),
    ),
    "waste": drill_key(
        lambda p: p["usd"] * (1 - p["mfu"] / p["baseline"]) / MILLION,
        "1 − {{mfu:percent}} over {{baseline:percent}} is the share lost: {{answer}} million USD.",
        Mistake("against-the-peak", lambda p: p["usd"] * (1 - p["mfu"]) / MILLION, "That is against the whole peak."),
        Mistake("points-for-share", lambda p: p["usd"] * (p["baseline"] - p["mfu"]) / MILLION, _POINTS),
        Mistake(
            "more-for-lost",
            lambda p: p["usd"] * (p["baseline"] / p["mfu"] - 1) / MILLION,
            "That values the extra work.",
        ),
    ),
    "tokens-for-money": drill_key(
        _bought,
        "GPU-hours × 3,600 × {{flops:tflops}} × {{mfu:percent}} over 6 × parameters = {{answer}} billion tokens.",
        Mistake("full-speed", lambda p: _bought(p) / p["mfu"], _FULL_SPEED),
        Mistake("hours-as-seconds", scaled(_bought, 1 / HOUR), "An hour has 3,600 seconds."),
    ),
    "headroom-gb": drill_key(
        _headroom_gb,
        "{{memory:gb}} − {{params:count}} × 16 bytes over {{gpus:int}} = {{answer}} GB.",
        Mistake("the-share", lambda p: _state(p) / p["gpus"] / GB, "That is the memory in use."),
        Mistake("all-gpus", lambda p: _headroom_gb(p) * p["gpus"], "That is all GPUs together."),
    ),
    "attention-share": drill_key(
        _attention_percent,
        "12 × layers × width × context over 6 × parameters = {{answer}} %.",
        Mistake("causal", scaled(_attention_percent, 0.5), "With a causal mask a token attends to half of it."),
        Mistake("forward-only", scaled(_attention_percent, 1 / 3), "4 × layers × width × context is one forward."),
        Mistake("fraction", scaled(_attention_percent, 0.01), "Give a percentage."),
    ),
    "overlap": drill_key(
        lambda p: max(p["compute"], p["comm"], p["data"]),
        "With perfect overlap a step takes its longest part, {{answer}} s; without any it takes the sum.",
        Mistake("sum", lambda p: p["compute"] + p["comm"] + p["data"], "That is without any overlap."),
        rel=1e-6,
    ),
}
