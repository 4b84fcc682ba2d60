"""Answers to chapter 20's drills."""

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
}
