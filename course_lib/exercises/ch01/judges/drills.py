"""Answers to the one-line questions of chapter 01, with the slips that lead elsewhere."""

import math
from typing import Any

from course_lib.judging import DrillKey, Mistake, Params
from course_lib.units import BILLION, DAY, GB, HOUR, MILLION, GiB

_STATE = 16  # bytes per parameter


def _run_seconds(p: Params, gpus: Any = 1) -> float:
    return 6 * p["params"] * p["tokens"] / (gpus * p["flops"] * p["mfu"])


DRILLS: dict[str, DrillKey] = {
    "state-gb": DrillKey(
        answer=lambda p: p["params"] * _STATE / GB,
        rel=0.005,
        how="{{params:count}} × 16 bytes = {{answer}} GB.",
        mistakes=(
            Mistake("no-master", lambda p: p["params"] * 12 / GB, "12 bytes leave the fp32 master copy out."),
            Mistake("weights-only", lambda p: p["params"] * 2 / GB, "Those are the 16-bit weights alone."),
            Mistake("gibibytes", lambda p: p["params"] * _STATE / GiB, "Those are GiB."),
        ),
    ),
    "fewest-cards": DrillKey(
        answer=lambda p: math.ceil(p["params"] * _STATE / p["memory"]),
        rel=1e-9,
        how="{{params:count}} × 16 bytes over {{memory:gb}}, rounded up: {{answer:int}}.",
        mistakes=(
            Mistake(
                "rounded-down", lambda p: p["params"] * _STATE // p["memory"], "Rounded down, a part is left over."
            ),
            Mistake("not-whole", lambda p: p["params"] * _STATE / p["memory"], "GPUs come in whole numbers."),
        ),
    ),
    "largest-model": DrillKey(
        answer=lambda p: p["memory"] / _STATE / BILLION,
        how="{{memory:gb}} over 16 bytes = {{answer}} billion parameters, and nothing left for activations.",
        mistakes=(
            Mistake(
                "weights-only",
                lambda p: p["memory"] / 2 / BILLION,
                "So many weights fit, without anything to train them.",
            ),
            Mistake("no-master", lambda p: p["memory"] / 12 / BILLION, "12 bytes leave the fp32 master copy out."),
        ),
    ),
    "gib": DrillKey(
        answer=lambda p: p["gib"] * GiB / GB,
        rel=0.002,
        how="{{gib:int}} × 2³⁰ bytes = {{answer}} × 10⁹ bytes.",
        mistakes=(
            Mistake("same", lambda p: p["gib"], "A GiB is 7 % more than a GB."),
            Mistake("other-way", lambda p: p["gib"] * GB / GiB, "That is the other direction."),
        ),
    ),
    "train-flops": DrillKey(
        answer=lambda p: 6 * p["params"] * p["tokens"] / 1e21,
        how="6 × {{params:count}} × {{tokens:count}} = {{answer}} × 10²¹ FLOP.",
        mistakes=(
            Mistake("forward-only", lambda p: 2 * p["params"] * p["tokens"] / 1e21, "2 is the forward pass alone."),
            Mistake("recompute", lambda p: 8 * p["params"] * p["tokens"] / 1e21, "8 counts a second forward pass."),
        ),
    ),
    "step-time": DrillKey(
        answer=_run_seconds,
        how="6 × parameters × tokens over {{flops:tflops}} × {{mfu:percent}} = {{answer}} s.",
        mistakes=(
            Mistake("milliseconds", lambda p: 1e3 * _run_seconds(p), "Those are milliseconds."),
            Mistake("full-speed", lambda p: _run_seconds(p) * p["mfu"], "That is at 100 % of the peak."),
            Mistake("forward-only", lambda p: _run_seconds(p) / 3, "The backward pass is missing."),
        ),
    ),
    "run-days": DrillKey(
        answer=lambda p: _run_seconds(p, p["gpus"]) / DAY,
        how="6 × parameters × tokens over {{gpus:int}} × {{flops:tflops}} × {{mfu:percent}}, in days: {{answer}}.",
        mistakes=(
            Mistake("one-gpu", lambda p: _run_seconds(p) / DAY, "That is one GPU."),
            Mistake(
                "full-speed", lambda p: _run_seconds(p, p["gpus"]) * p["mfu"] / DAY, "That is at 100 % of the peak."
            ),
            Mistake("hours", lambda p: _run_seconds(p, p["gpus"]) / HOUR, "Those are hours."),
        ),
    ),
    "run-cost": DrillKey(
        answer=lambda p: p["gpus"] * p["days"] * 24 * p["usd_per_hour"] / MILLION,
        how="{{gpus:int}} × {{days:int}} × 24 h × {{usd_per_hour:usd}} = {{answer}} million USD.",
        mistakes=(
            Mistake(
                "one-hour-a-day", lambda p: p["gpus"] * p["days"] * p["usd_per_hour"] / MILLION, "A day has 24 hours."
            ),
            Mistake("dollars", lambda p: p["gpus"] * p["days"] * 24 * p["usd_per_hour"], "Those are dollars."),
        ),
    ),
    "mfu-percent": DrillKey(
        answer=lambda p: 100 * 6 * p["params"] * p["tokens_s"] / (p["gpus"] * p["flops"]),
        how="6 × {{params:count}} × {{tokens_s:int}} over {{gpus:int}} × {{flops:tflops}} = {{answer}} %.",
        mistakes=(
            Mistake(
                "one-gpu",
                lambda p: 600 * p["params"] * p["tokens_s"] / p["flops"],
                "Tokens of all GPUs belong over the peak of all GPUs.",
            ),
            Mistake(
                "fraction", lambda p: 6 * p["params"] * p["tokens_s"] / (p["gpus"] * p["flops"]), "In per cent, please."
            ),
            Mistake(
                "sparse",
                lambda p: 300 * p["params"] * p["tokens_s"] / (p["gpus"] * p["flops"]),
                "The peak given is dense already.",
            ),
        ),
    ),
    "waste": DrillKey(
        answer=lambda p: p["usd"] * (1 - p["mfu"] / p["baseline"]) / MILLION,
        how="1 − {{mfu:percent}} over {{baseline:percent}} is the share lost: {{answer}} million USD.",
        mistakes=(
            Mistake(
                "against-the-peak", lambda p: p["usd"] * (1 - p["mfu"]) / MILLION, "That is against 100 % of the peak."
            ),
            Mistake(
                "points-for-share",
                lambda p: p["usd"] * (p["baseline"] - p["mfu"]) / MILLION,
                "Percentage points of MFU are not a share of the money.",
            ),
            Mistake(
                "more-for-lost",
                lambda p: p["usd"] * (p["baseline"] / p["mfu"] - 1) / MILLION,
                "That is the worth of the extra work.",
            ),
        ),
    ),
    "tokens-for-money": DrillKey(
        answer=lambda p: p["usd"] / p["usd_per_hour"] * HOUR * p["flops"] * p["mfu"] / (6 * p["params"]) / BILLION,
        how="GPU-hours × 3,600 × {{flops:tflops}} × {{mfu:percent}} over 6 × parameters = {{answer}} billion tokens.",
        mistakes=(
            Mistake(
                "full-speed",
                lambda p: p["usd"] / p["usd_per_hour"] * HOUR * p["flops"] / (6 * p["params"]) / BILLION,
                "That is at 100 % of the peak.",
            ),
            Mistake(
                "hours-as-seconds",
                lambda p: p["usd"] / p["usd_per_hour"] * p["flops"] * p["mfu"] / (6 * p["params"]) / BILLION,
                "An hour has 3,600 seconds.",
            ),
        ),
    ),
    "headroom-gb": DrillKey(
        answer=lambda p: (p["memory"] - p["params"] * _STATE / p["gpus"]) / GB,
        how="{{memory:gb}} − {{params:count}} × 16 bytes over {{gpus:int}} = {{answer}} GB.",
        mistakes=(
            Mistake("the-share", lambda p: p["params"] * _STATE / p["gpus"] / GB, "That is what is used."),
            Mistake(
                "all-gpus",
                lambda p: (p["memory"] * p["gpus"] - p["params"] * _STATE) / GB,
                "That is all GPUs together.",
            ),
        ),
    ),
    "attention-share": DrillKey(
        answer=lambda p: 200 * p["layers"] * p["hidden"] * p["seq"] / p["params"],
        how="12 × layers × width × context over 6 × parameters = {{answer}} %.",
        mistakes=(
            Mistake(
                "causal",
                lambda p: 100 * p["layers"] * p["hidden"] * p["seq"] / p["params"],
                "That is the causal count, where a token attends to half of it on average.",
            ),
            Mistake(
                "forward-only",
                lambda p: 200 / 3 * p["layers"] * p["hidden"] * p["seq"] / p["params"],
                "4 × layers × width × context is the forward pass; the backward pass costs twice that again.",
            ),
            Mistake(
                "fraction", lambda p: 2 * p["layers"] * p["hidden"] * p["seq"] / p["params"], "In per cent, please."
            ),
        ),
    ),
    "overlap": DrillKey(
        answer=lambda p: max(p["compute"], p["comm"], p["data"]),
        rel=1e-6,
        how="With perfect overlap a step takes its longest part, {{answer}} s; without any it takes the sum.",
        mistakes=(Mistake("sum", lambda p: p["compute"] + p["comm"] + p["data"], "That is without any overlap."),),
    ),
}
