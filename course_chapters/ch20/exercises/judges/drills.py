"""Answers to chapter 20's drills."""

import math

from course_grader.judging import drill_key

DRILLS = {
    "healthy-rejected": drill_key(
        lambda p: (p["nodes"] - p["weak"]) * p["alarms"],
        "{{alarms}} · ({{nodes:int}} − {{weak}}) = {{answer}}.",
        (lambda p: p["nodes"] * p["alarms"] + p["weak"], "That counts weak nodes, too."),
        rel=1e-3,
    ),
    "known-answers": drill_key(
        lambda p: (1 - p["chance"]) ** p["tests"],
        "(1 − {{chance}})^{{tests}} = {{answer}}.",
        (lambda p: 1 - (1 - p["chance"]) ** p["tests"], "That is the chance that it is found."),
        rel=0.01,
    ),
    "outer-traffic": drill_key(
        lambda p: 2 * (p["workers"] - 1) / p["workers"] * 4 * p["params"],
        "2 · ({{workers}} − 1) / {{workers}} · 4 · {{params}} GB = {{answer}} GB.",
        (lambda p: 4 * p["params"], "That is the size of the weights; a ring sends almost twice that."),
        rel=0.01,
    ),
    "taking-part": drill_key(
        lambda p: p["total"] / (p["group"] - p["healing"]),
        "{{total}} / ({{group}} − {{healing}}) = {{answer}}.",
        (lambda p: p["total"] / p["group"], "Replicas that heal do not count."),
        rel=0.01,
    ),
    "token-bandwidth": drill_key(
        lambda p: p["tokens"] * p["size"] / 1e6,
        "{{tokens:int}} · {{size}} / 10⁶ = {{answer}} MB/s.",
        (lambda p: p["tokens"] / 1e6, "These are the tokens."),
        rel=0.01,
    ),
    "hidden-pause": drill_key(
        lambda p: math.ceil((p["read"] + p["pause"]) / p["step"]),
        "({{read}} + {{pause}}) / {{step}}, rounded up, is {{answer}}.",
        (lambda p: math.floor((p["read"] + p["pause"]) / p["step"]), "Round up."),
        rel=1e-3,
    ),
    "late-report": drill_key(
        lambda p: p["every"] * p["step"] / 2 + p["check"],
        "{{every}} · {{step}} / 2 + {{check}} = {{answer}}.",
        (lambda p: p["every"] * p["step"] + p["check"], "A fault begins in the middle of an interval on average."),
        (lambda p: p["every"] * p["step"] / 2, "The validation takes time, too."),
        rel=0.01,
    ),
    "run-energy": drill_key(
        lambda p: p["gpus"] * p["days"] * 24 * p["pue"] / 1000,
        "{{gpus}} · 1 kW · {{days}} · 24 h · {{pue}} / 1,000 = {{answer}} MWh.",
        (lambda p: p["gpus"] * p["days"] * 24 / 1000, "The building uses more: multiply by the PUE."),
        rel=0.01,
    ),
}
