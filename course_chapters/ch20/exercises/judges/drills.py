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
}
