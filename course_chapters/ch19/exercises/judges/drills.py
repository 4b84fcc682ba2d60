"""Answers to chapter 19's drills."""

import math

from course_grader.judging import Times, drill_key

DRILLS = {
    "adapter-numbers": drill_key(
        lambda p: p["rank"] * (p["out"] + p["wide"]),
        "{{rank}} · ({{out:int}} + {{wide:int}}) = {{answer:int}}.",
        (lambda p: p["out"] * p["wide"], "That is the frozen matrix."),
        (lambda p: p["rank"] * p["wide"], "That is A alone."),
        rel=1e-6,
    ),
    "rows-of-b": drill_key(
        lambda p: p["rank"] * p["out"] / p["tp"],
        "{{rank}} · {{out:int}} / {{tp}} = {{answer:int}}.",
        (Times(lambda p: p["tp"]), "B is divided with the outputs."),
        rel=1e-6,
    ),
    "centered-advantage": drill_key(
        lambda p: 1 - p["right"] / p["group"],
        "1 − {{right}} / {{group}} = {{answer}}.",
        (lambda p: p["right"] / p["group"], "That is the mean reward."),
        rel=0.01,
    ),
    "scaled-advantage": drill_key(
        lambda p: math.sqrt((p["group"] - p["right"]) / p["right"] * (1 - 1 / p["group"])),
        "(1 − m) / √(m (1 − m) · {{group}} / ({{group}} − 1)) with m = {{right}} / {{group}} is {{answer}}.",
        (lambda p: math.sqrt((p["group"] - p["right"]) / p["right"]), "Divide by n − 1, not by n."),
        (lambda p: 1 - p["right"] / p["group"], "Divide by the standard deviation, too."),
        rel=0.01,
    ),
    "clipped-loss": drill_key(
        lambda p: 1.2 * p["worth"],
        "min({{ratio}}, 1.2) · {{worth}} = {{answer}}.",
        (lambda p: p["ratio"] * p["worth"], "The ratio is above the clip."),
        rel=0.01,
    ),
    "third-estimator": drill_key(
        lambda p: math.exp(-p["gap"]) - 1 + p["gap"],
        "exp(−d) − 1 + d with d = {{gap}} is {{answer}}.",
        (lambda p: p["gap"], "That is k1."),
        (lambda p: p["gap"] ** 2 / 2, "That is k2."),
        rel=0.01,
    ),
    "capped-weight": drill_key(
        lambda p: min(p["trainer"] / p["generator"], 2),
        "{{trainer}} / {{generator}} = {{answer}}, which is below the cap.",
        (lambda p: p["generator"] / p["trainer"], "The generator drew it: divide by its probability."),
        rel=0.01,
    ),
    "token-weight": drill_key(
        lambda p: p["ranks"] / p["tokens"],
        "{{ranks}} / {{tokens:int}} = {{answer}}.",
        (lambda p: 1 / p["tokens"], "DDP divides by the number of ranks once more."),
        rel=0.01,
    ),
}
