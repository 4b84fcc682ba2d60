"""Answers to chapter 01's drills."""

import math

from course_grader.judging import Times, drill_key
from course_lib.estimate.units import BILLION, DAY, GB, HOUR, MILLION, GiB

EXACT = 1e-9  # relative tolerance of whole numbers

_NO_MASTER = "12 bytes leave out the fp32 master copy."
_FULL_SPEED = "That is at 100 % of the peak."
_POINTS = "Percentage points of MFU are not a share of the money."

DRILLS = {
    "state-gb": drill_key(
        lambda p: p["params"] * 16 / GB,
        "{{params:count}} × 16 bytes = {{answer}} GB.",
        (Times(12 / 16), _NO_MASTER),
        (Times(2 / 16), "Those are the 16-bit weights alone."),
        (Times(GB / GiB), "Those are GiB."),
        rel=0.005,
    ),
    "fewest-cards": drill_key(
        lambda p: math.ceil(p["params"] * 16 / p["memory"]),
        "{{params:count}} × 16 bytes over {{memory:gb}}, rounded up: {{answer:int}}.",
        (lambda p: p["params"] * 16 // p["memory"], "Rounded down, part of the state does not fit."),
        (lambda p: p["params"] * 16 / p["memory"], "GPUs come in whole numbers."),
        rel=EXACT,
    ),
    "largest-model": drill_key(
        lambda p: p["memory"] / 16 / BILLION,
        "{{memory:gb}} over 16 bytes = {{answer}} billion parameters, with nothing left for activations.",
        (Times(16 / 2), "The weights alone would fit, not the state."),
        (Times(16 / 12), _NO_MASTER),
    ),
    "gib": drill_key(
        lambda p: p["gib"] * GiB / GB,
        "{{gib:int}} × 2³⁰ bytes = {{answer}} × 10⁹ bytes.",
        (Times(GB / GiB), "A GiB is 7 % more than a GB."),
        (Times((GB / GiB) ** 2), "That is the other direction."),
        rel=0.002,
    ),
    "train-flops": drill_key(
        lambda p: 6 * p["params"] * p["tokens"] / 1e21,
        "6 × {{params:count}} × {{tokens:count}} = {{answer}} × 10²¹ FLOP.",
        (Times(2 / 6), "2 is the forward pass alone."),
        (Times(8 / 6), "8 counts a second forward pass."),
    ),
    "step-time": drill_key(
        lambda p: 6 * p["params"] * p["tokens"] / (p["flops"] * p["mfu"]),
        "6 × parameters × tokens over {{flops:tflops}} × {{mfu:percent}} = {{answer}} s.",
        (Times(1e3), "Those are milliseconds."),
        (Times(lambda p: p["mfu"]), _FULL_SPEED),
        (Times(1 / 3), "The backward pass is missing."),
    ),
    "run-days": drill_key(
        lambda p: 6 * p["params"] * p["tokens"] / (p["gpus"] * p["flops"] * p["mfu"]) / DAY,
        "6 × parameters × tokens over {{gpus:int}} × {{flops:tflops}} × {{mfu:percent}}, in days: {{answer}}.",
        (Times(lambda p: p["gpus"]), "That is one GPU."),
        (Times(lambda p: p["mfu"]), _FULL_SPEED),
        (Times(DAY / HOUR), "Those are hours."),
    ),
    "run-cost": drill_key(
        lambda p: p["gpus"] * p["days"] * 24 * p["usd_per_hour"] / MILLION,
        "{{gpus:int}} × {{days:int}} × 24 h × {{usd_per_hour:usd}} = {{answer}} million USD.",
        (Times(1 / 24), "A day has 24 hours."),
        (Times(MILLION), "Those are dollars."),
    ),
    "mfu-percent": drill_key(
        lambda p: 100 * 6 * p["params"] * p["tokens_s"] / (p["gpus"] * p["flops"]),
        "6 × {{params:count}} × {{tokens_s:int}} over {{gpus:int}} × {{flops:tflops}} = {{answer}} %.",
        (Times(lambda p: p["gpus"]), "The tokens of all GPUs need the peak of all."),
        (Times(0.01), "Give a percentage."),
        (Times(0.5), "The peak given is dense already."),
        (Times(1 / 3), "Forward and backward take 6 FLOPs per parameter and token, not 2."),
        (Times(8 / 6), "Recomputed work does not count in an MFU."),
    ),
    "waste": drill_key(
        lambda p: p["usd"] * (1 - p["mfu"] / p["baseline"]) / MILLION,
        "1 − {{mfu:percent}} over {{baseline:percent}} is the share lost: {{answer}} million USD.",
        (lambda p: p["usd"] * (1 - p["mfu"]) / MILLION, "That is against the whole peak."),
        (Times(lambda p: p["baseline"]), _POINTS),
        (Times(lambda p: p["baseline"] / p["mfu"]), "That values the extra work."),
    ),
    "tokens-for-money": drill_key(
        lambda p: p["usd"] / p["usd_per_hour"] * HOUR * p["flops"] * p["mfu"] / (6 * p["params"]) / BILLION,
        "GPU-hours × 3,600 × {{flops:tflops}} × {{mfu:percent}} over 6 × parameters = {{answer}} billion tokens.",
        (Times(lambda p: 1 / p["mfu"]), _FULL_SPEED),
        (Times(1 / HOUR), "An hour has 3,600 seconds."),
    ),
    "headroom-gb": drill_key(
        lambda p: (p["memory"] - p["params"] * 16 / p["gpus"]) / GB,
        "{{memory:gb}} − {{params:count}} × 16 bytes over {{gpus:int}} = {{answer}} GB.",
        (lambda p: p["params"] * 16 / p["gpus"] / GB, "That is the memory in use."),
        (Times(lambda p: p["gpus"]), "That is all GPUs together."),
    ),
    "attention-share": drill_key(
        lambda p: 200 * p["layers"] * p["hidden"] * p["seq"] / p["params"],
        "12 × layers × width × context over 6 × parameters = {{answer}} %.",
        (Times(0.5), "With a causal mask a token attends to half of it."),
        (Times(1 / 3), "4 × layers × width × context is one forward."),
        (Times(0.01), "Give a percentage."),
    ),
    "overlap": drill_key(
        lambda p: max(p["compute"], p["comm"], p["data"]),
        "With perfect overlap a step takes its longest part, {{answer}} s; without any it takes the sum.",
        (lambda p: p["compute"] + p["comm"] + p["data"], "That is without any overlap."),
        rel=1e-6,
    ),
}
