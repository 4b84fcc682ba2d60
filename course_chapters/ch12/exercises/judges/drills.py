"""Answers to chapter 12's drills."""

import math

from course_grader.judging import Times, drill_key

BF16 = 2  # bytes
MB = 1e6


DRILLS = {
    "mean-load": drill_key(
        lambda p: p["tokens"] * p["k"] / p["experts"],
        "{{tokens}} · {{k}} / {{experts}} = {{answer}}.",
        (Times(lambda p: 1 / p["k"]), "Every token has k copies."),
    ),
    "step-of-the-busiest": drill_key(
        lambda p: 1 - 1 / p["times"],
        "An average rank works 1/{{times}} of the time: 1 − 1/{{times}} = {{answer}}.",
        (lambda p: p["times"] - 1, "That is relative to the mean; the step lasts as long as the busiest rank."),
        (lambda p: 1 / p["times"], "That is the share in which it works."),
    ),
    "dispatch-megabytes": drill_key(
        lambda p: p["tokens"] * p["k"] * p["width"] * BF16 * (1 - 1 / p["ranks"]) / MB,
        "tokens · k · width · 2 bytes, less the copies for its own experts: {{answer}} MB.",
        (Times(lambda p: 1 / (1 - 1 / p["ranks"])), "Copies for its own experts stay."),
        (Times(lambda p: 1 / p["k"]), "Every token has k copies."),
        (Times(2), "That is dispatch and combine."),
    ),
    "exchanges-per-step": drill_key(
        lambda p: 4 * p["layers"],
        "Dispatch and combine, forward and backward: 4 · {{layers}} = {{answer:int}}.",
        (Times(1 / 2), "The backward pass makes two as well."),
        (Times(1 / 4), "A layer dispatches and combines, forward and backward."),
        rel=1e-6,
    ),
    "experts-per-rank": drill_key(
        lambda p: p["experts"] / p["group"],
        "{{experts}} experts over {{group}} ranks: {{answer:int}}.",
        (lambda p: p["experts"] / p["ranks"], "One group already holds all experts; the groups are copies."),
        rel=1e-6,
    ),
    "copies-of-a-set": drill_key(
        lambda p: p["ranks"] / p["group"],
        "{{ranks}} / {{group}} ranks hold the same expert: {{answer:int}}.",
        (lambda p: p["group"], "The ranks of a group hold different experts."),
        (lambda p: p["ranks"], "Only ranks with the same expert share its gradient."),
        rel=1e-6,
    ),
    "balanced-loss": drill_key(
        lambda p: p["experts"] * p["probability"],
        "f is 1 for this expert and 0 for all others: {{experts}} · {{probability}} = {{answer}}.",
        (lambda p: 1.0, "That is the loss of a balanced router."),
        (lambda p: p["probability"], "The factor E is missing."),
    ),
    "steps-to-steer": drill_key(
        lambda p: math.ceil(p["gap"] / p["rate"]),
        "{{gap}} / {{rate}}, rounded up: {{answer:int}}.",
        (lambda p: math.floor(p["gap"] / p["rate"]), "There it is still short of being chosen."),
        rel=1e-6,
    ),
}
