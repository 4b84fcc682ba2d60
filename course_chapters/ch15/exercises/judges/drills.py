"""Answers to chapter 15's drills."""

import math

from course_grader.judging import Params, Times, drill_key
from course_lib.cluster.intervals import exposed
from course_lib.estimate.units import GB, MINUTE
from course_runs.budget import dollars
from course_runs.ring_bytes import ring_sent

EXACT = 1e-6


def _third(p: Params, more: int = -1) -> float:
    return p["small"] + (p["asked"] + more) * (p["large"] - p["small"]) / 15


def _bill(p: Params, rounded: bool = True, more: int = 0) -> float:
    minutes = (math.ceil(p["minutes"] / p["block"]) + more) * p["block"] if rounded else p["minutes"]
    return dollars(minutes * MINUTE, p["gpus"], p["price"])


def _extra(p: Params, usual: float = 1.0, over: str = "all") -> float:
    return 100 * p["warm"] * (p["slow"] - usual) / (p["timed"] + p["warm"] * (over == "all"))


DRILLS = {
    "third-message": drill_key(
        _third,
        "15 MB more take the difference; in proportion from 1 MB on: {{answer}} µs.",
        (lambda p: p["asked"] * p["small"], "Each message pays α once, whatever its size."),
        (lambda p: p["asked"] * p["large"] / 16, "A part of the time is α, which does not shrink."),
        (lambda p: _third(p, 0), "The small message has 1 MB already."),
    ),
    "exposed-of-one": drill_key(
        lambda p: exposed({"compute": [(0.0, p["compute"])], "communication": [(p["start"], p["stop"])]}),
        "The communication after the end of computing: {{answer}} ms.",
        (lambda p: p["stop"] - p["start"], "A part of this overlaps with computing."),
        (lambda p: p["compute"] - p["start"], "This is the hidden part."),
        (lambda p: abs(p["stop"] - p["start"] - p["compute"]), "The two do not begin together."),
        rel=EXACT,
    ),
    "amdahl-of-a-part": drill_key(
        lambda p: 1 / (1 - p["share"] / 100),
        "1 / (1 − share) = {{answer}}.",
        (lambda p: 1 + p["share"] / 100, "Divide by what remains of the step."),
        (lambda p: 1 - p["share"] / 100, "This is the step's time, not its speed."),
    ),
    "dollars-of-a-session": drill_key(
        _bill,
        "Minutes rounded up to whole blocks, times GPUs, times price: {{answer}} dollars.",
        (lambda p: _bill(p, rounded=False), "A block that has begun is billed in full."),
        (Times(lambda p: 1 / p["gpus"]), "The price is that of one GPU."),
        (lambda p: _bill(p, more=-1), "The last block has begun."),
        rel=0.001,
    ),
    "minutes-for-a-budget": drill_key(
        lambda p: 60 * p["budget"] / (p["gpus"] * p["price"]),
        "The budget over GPUs times price, in minutes: {{answer}}.",
        (Times(lambda p: p["gpus"]), "All GPUs are billed at once."),
        (Times(1 / 60), "These are hours."),
    ),
    "kept-weights-sent": drill_key(
        lambda p: ring_sent("all_gather", p["params"] * p["bits"] / 8, p["ranks"]) / GB,
        "Each weight is gathered once: bytes · (N − 1)/N = {{answer}} GB.",
        (Times(2), "Weights that are kept are not gathered again for the backward pass."),
        (Times(lambda p: 8 / p["bits"]), "A number has more than one byte."),
        (Times(3), "The question is about weights, not gradients."),
    ),
    "gpipe-over-1f1b": drill_key(
        lambda p: p["micro"] / min(p["stages"], p["micro"]),
        "All micro-batches over as many as there are stages: {{answer}}.",
        (lambda p: p["stages"], "This is what 1F1B holds."),
        (lambda p: p["micro"], "This is what GPipe holds; 1F1B holds more than one."),
        (lambda p: 1 + (p["stages"] - 1) / p["micro"], "This is time: both have the same bubble."),
        rel=EXACT,
    ),
    "straggler-waits": drill_key(
        lambda p: 100 * (1 - 1 / p["times"]),
        "The step is as long as the slowest rank: 1 − 1/{{times}} = {{answer}} %.",
        (lambda p: 100 * (p["times"] - 1), "This is relative to a step without the slow rank."),
        (Times(lambda p: 1 / p["ranks"]), "All ranks wait for all of the slow one's work."),
    ),
    "warm-up-in-the-mean": drill_key(
        _extra,
        "The extra seconds over all steps: {{answer}} %.",
        (lambda p: _extra(p, over="timed"), "The mean includes the warm-up steps."),
        (lambda p: _extra(p, 0.0), "Only the seconds beyond 1 s each are extra."),
    ),
    "rate-after-resume": drill_key(
        lambda p: p["warm"] / (p["after"] + 1),
        "Planned: the peak. Actual: ({{after}} + 1)/{{warm}} of it. Ratio {{answer}}.",
        (lambda p: p["warm"] / p["after"], "The first step after the resume counts too."),
        (lambda p: p["warm"] / (p["after"] + p["stop"] + 1), "It counts from the resume."),
    ),
}
