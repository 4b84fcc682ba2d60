"""Answers to chapter 10's drills."""

from collections.abc import Callable

from course_grader.judging import Params, Times, drill_key
from course_lib.parallel.planner.bubbles import idle, idle_over_work
from course_lib.parallel.schedules import zb_h1
from course_lib.parallel.timeline import Durations, play

COUNT = 1e-6  # relative tolerance of whole numbers


def _of_all(p: Params) -> float:
    return 100 * idle(p["stages"], p["microbatches"])


def _over_work(p: Params) -> float:
    return 100 * idle_over_work(p["stages"], p["microbatches"])


def _fewest(bubble: Callable[[int, int], float], p: Params) -> int:
    return next(m for m in range(1, 10_000) if bubble(p["stages"], m) <= p["percent"] / 100 * (1 + 1e-12))


def _held(p: Params) -> int:
    return min(p["stages"] - p["stage"], p["microbatches"])


def _slot(p: Params) -> float:
    return p["forward"] + p["backward"]


def _zb_idle(p: Params) -> float:
    schedule = zb_h1(p["stages"], 2 * p["stages"])
    return max(play(schedule, Durations(forward=p["ms"], backward=2 * p["ms"])).idle)


_ONE_LESS = "A rank waits p − 1 slots."

DRILLS = {
    "naive-idle": drill_key(
        lambda p: 100 * (1 - 1 / p["stages"]),
        "One of p ranks works at a time: 1 − 1/p = {{answer}} %.",
        (lambda p: 100 / p["stages"], "That is the share that works."),
    ),
    "bubble-of-all": drill_key(
        _of_all,
        "(p − 1)/(m + p − 1) = {{answer}} %.",
        (_over_work, "That is idle time over working time."),
        (lambda p: 100 * p["stages"] / (p["microbatches"] + p["stages"]), _ONE_LESS),
    ),
    "bubble-over-work": drill_key(
        _over_work,
        "(p − 1)/m = {{answer}} %.",
        (_of_all, "That is a share of all time."),
        (lambda p: 100 * p["stages"] / p["microbatches"], _ONE_LESS),
    ),
    "enough-microbatches": drill_key(
        lambda p: _fewest(idle, p),
        "(p − 1)(1 − x)/x, rounded up: {{answer:int}}.",
        (lambda p: _fewest(idle_over_work, p), "That is over working time."),
        rel=COUNT,
    ),
    "held-by-1f1b": drill_key(
        _held,
        "min(p − s, m) = {{answer:int}}.",
        (lambda p: p["microbatches"], "That is GPipe's."),
        (lambda p: _held(p) - 1, "The micro-batch at work counts too."),
        (lambda p: p["stage"] + 1, "The last stage holds one; the first holds the most."),
        rel=COUNT,
    ),
    "held-by-gpipe": drill_key(
        lambda p: p["microbatches"],
        "All of them, since no backward comes before the last forward: {{answer:int}}.",
        (lambda p: p["stages"], "That is 1F1B's first stage."),
        rel=COUNT,
    ),
    "step-time": drill_key(
        lambda p: (p["microbatches"] + p["stages"] - 1) * _slot(p),
        "(m + p − 1)(t_F + t_B) = {{answer}} ms.",
        (lambda p: p["microbatches"] * _slot(p), "That leaves out the bubble."),
        (lambda p: p["microbatches"] * p["stages"] * _slot(p), "That is one micro-batch at a time."),
    ),
    "interleaved-bubble": drill_key(
        lambda p: _over_work(p) / p["chunks"],
        "(p − 1)/m, divided by the chunks: {{answer}} %.",
        (_over_work, "That is with one stage per rank."),
        (lambda p: _of_all(p) / p["chunks"], "That is not a share of working time."),
    ),
    "pipeline-messages": drill_key(
        lambda p: 2 * (p["stages"] * p["chunks"] - 1) * p["microbatches"],
        "Stages − 1 boundaries, forward and back, for each micro-batch: {{answer:int}}.",
        (Times(1 / 2), "Gradients are sent back as well."),
        (lambda p: 2 * p["stages"] * p["chunks"] * p["microbatches"], "p stages have p − 1 boundaries."),
        rel=COUNT,
    ),
    "boundary-megabytes": drill_key(
        lambda p: p["sequences"] * p["tokens"] * p["hidden"] * 2 / 1e6,
        "batch · sequence · hidden · 2 bytes = {{answer}} MB.",
        (Times(1 / 2), "An element takes two bytes."),
        (Times(2), "16 bits are two bytes."),
    ),
    "zero-bubble-idle": drill_key(
        _zb_idle,
        "(p − 1)(t_F + t_B − 2 t_W), where t_B is both halves: {{answer}} ms.",
        (Times(3), "That is 1F1B's."),
        (0.0, "It comes near zero only if the ranks need not end together."),
    ),
}
