"""Answers to chapter 14's drills."""

import math

from course_grader.judging import Times, drill_key
from course_lib.estimate.units import GB, HOUR, MINUTE

DRILLS = {
    "mtbf-at-size": drill_key(
        lambda p: p["hours"] / p["gpus"],
        "{{hours:int}} / {{gpus:int}} = {{answer}} hours: the rates of all GPUs add up.",
        (lambda p: p["hours"], "That is one GPU alone."),
        (lambda p: p["gpus"] / p["hours"], "Those are failures an hour."),
        (Times(8), "That counts nodes of eight GPUs, not GPUs."),
    ),
    "young-interval": drill_key(
        lambda p: math.sqrt(2 * p["save"] * p["hours"] * HOUR) / MINUTE,
        "√(2 · {{save}} s · {{hours}} · 3,600 s) = {{answer}} minutes.",
        (Times(60), "Those are seconds."),
        (Times(1 / math.sqrt(2)), "There is a 2 under the root."),
        (Times(1 / math.sqrt(60)), "Those hours were turned into minutes, not seconds."),
    ),
    "four-times-gpus": drill_key(
        lambda p: math.sqrt(p["times"]),
        "The time between failures falls {{times}} times, and the interval by its root: {{answer}}.",
        (lambda p: p["times"], "The interval goes with the root of the time between failures."),
        (lambda p: 1 / math.sqrt(p["times"]), "That is the new interval over the old one."),
    ),
    "save-seconds": drill_key(
        lambda p: p["params"] * p["bytes"] / (p["rate"] * GB),
        "{{params:count}} · {{bytes}} bytes / ({{rate}} GB/s) = {{answer}} s.",
        (Times(lambda p: 2 / p["bytes"]), "That saves 16-bit weights alone."),
        (Times(8), "Both are in bytes; there is no 8."),
    ),
    "rework": drill_key(
        lambda p: p["minutes"] / 2,
        "A failure comes halfway through the interval on average: {{answer}} minutes.",
        (Times(2), "That is the worst case; on average it is half."),
    ),
    "restart-share": drill_key(
        lambda p: 100 * p["minutes"] * MINUTE / (p["hours"] * HOUR),
        "{{minutes}} min / {{hours}} h = {{answer}} %.",
        (Times(0.01), "That is the fraction; a percentage is asked for."),
        (lambda p: 100 * p["minutes"] / p["hours"], "Minutes over hours: convert one of them."),
    ),
    "no-failure": drill_key(
        lambda p: math.exp(-p["hours"] / p["between"]),
        "e^(−{{hours}} / {{between}}) = {{answer}}.",
        (lambda p: 1 - math.exp(-p["hours"] / p["between"]), "That is the probability of at least one failure."),
        (lambda p: 1 - p["hours"] / p["between"], "That is the first term only; it can be negative."),
    ),
    "expected-slowest": drill_key(
        lambda p: 1 + p["mean"] * sum(1 / k for k in range(1, p["ranks"] + 1)),
        "The longest of {{ranks}} exponential delays is {{mean}} s · (1 + 1/2 + … + 1/{{ranks}}) on average, so a "
        "step takes {{answer}} s.",
        (lambda p: 1 + p["mean"], "That is one rank alone; all wait for the slowest."),
        (lambda p: 1 + p["mean"] * p["ranks"], "The delays run side by side; they do not add up."),
        rel=0.005,
    ),
}
