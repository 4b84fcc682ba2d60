"""Answers to chapter 10's drills."""

from collections.abc import Mapping

from course_lib.exercises.ch10.judges.core import fewest, share
from course_lib.judging import DrillKey, Mistake, Params
from course_lib.schedules import zb_h1
from course_lib.timeline import Durations, play

EXACT = 1e-6


def _all(p: Params) -> float:
    return 100 * share("all", p["stages"], p["microbatches"])


def _work(p: Params) -> float:
    return 100 * share("work", p["stages"], p["microbatches"])


def _held(p: Params) -> int:
    return min(p["stages"] - p["stage"], p["microbatches"])


def _step(p: Params) -> float:
    return (p["microbatches"] + p["stages"] - 1) * (p["forward"] + p["backward"])


def _messages(p: Params) -> int:
    return 2 * (p["stages"] * p["chunks"] - 1) * p["microbatches"]


def _boundary(p: Params) -> float:
    return p["sequences"] * p["tokens"] * p["hidden"] * 2 / 1e6


def _zero(p: Params) -> float:
    schedule = zb_h1(p["stages"], 2 * p["stages"])
    return max(play(schedule, Durations(forward=p["ms"], backward=2 * p["ms"])).idle)


DRILLS: Mapping[str, DrillKey] = {
    "naive-idle": DrillKey(
        answer=lambda p: 100 * (1 - 1 / p["stages"]),
        how="One of p works: 1 − 1/p = {{answer}} %.",
        mistakes=(Mistake("useful-part", lambda p: 100 / p["stages"], "That is the part that works."),),
    ),
    "bubble-of-all": DrillKey(
        answer=_all,
        how="(p − 1)/(m + p − 1) = {{answer}} %.",
        mistakes=(
            Mistake("over-work", _work, "That is over working time."),
            Mistake(
                "off-by-one",
                lambda p: 100 * p["stages"] / (p["microbatches"] + p["stages"]),
                "A rank waits p − 1 slots.",
            ),
        ),
    ),
    "bubble-over-work": DrillKey(
        answer=_work,
        how="(p − 1)/m = {{answer}} %.",
        mistakes=(
            Mistake("of-all", _all, "That is a share of all time."),
            Mistake("off-by-one", lambda p: 100 * p["stages"] / p["microbatches"], "A rank waits p − 1 slots."),
        ),
    ),
    "enough-microbatches": DrillKey(
        answer=lambda p: fewest("all", p["stages"], p["percent"] / 100),
        rel=EXACT,
        how="(p − 1)(1 − x)/x, rounded up: {{answer:int}}.",
        mistakes=(
            Mistake(
                "over-work",
                lambda p: fewest("work", p["stages"], p["percent"] / 100),
                "That is for idle time over working time.",
            ),
        ),
    ),
    "held-by-1f1b": DrillKey(
        answer=_held,
        rel=EXACT,
        how="min(p − s, m) = {{answer:int}}.",
        mistakes=(
            Mistake("gpipe", lambda p: p["microbatches"], "That is GPipe's."),
            Mistake("off-by-one", lambda p: _held(p) - 1, "The one at work counts too."),
            Mistake("other-end", lambda p: p["stage"] + 1, "The last stage holds one, the first the most."),
        ),
    ),
    "held-by-gpipe": DrillKey(
        answer=lambda p: p["microbatches"],
        rel=EXACT,
        how="All of them, since no backward comes before the last forward: {{answer:int}}.",
        mistakes=(Mistake("1f1b", lambda p: p["stages"], "That is 1F1B's first stage."),),
    ),
    "step-time": DrillKey(
        answer=_step,
        how="(m + p − 1)(F + B) = {{answer}} ms.",
        mistakes=(
            Mistake(
                "no-bubble", lambda p: p["microbatches"] * (p["forward"] + p["backward"]), "That is without the bubble."
            ),
            Mistake(
                "naive",
                lambda p: p["microbatches"] * p["stages"] * (p["forward"] + p["backward"]),
                "That is one micro-batch at a time.",
            ),
        ),
    ),
    "interleaved-bubble": DrillKey(
        answer=lambda p: _work(p) / p["chunks"],
        how="(p − 1)/m, divided by the chunks: {{answer}} %.",
        mistakes=(
            Mistake("one-chunk", _work, "That is with one stage a rank."),
            Mistake("of-all", lambda p: _all(p) / p["chunks"], "That is no share of working time."),
        ),
    ),
    "pipeline-messages": DrillKey(
        answer=_messages,
        rel=EXACT,
        how="Stages − 1 boundaries, forward and back, for each micro-batch: {{answer:int}}.",
        mistakes=(
            Mistake("one-way", lambda p: _messages(p) / 2, "Gradients go back as well."),
            Mistake(
                "no-end",
                lambda p: 2 * p["stages"] * p["chunks"] * p["microbatches"],
                "There is one boundary less than there are stages.",
            ),
        ),
    ),
    "boundary-megabytes": DrillKey(
        answer=_boundary,
        how="batch · sequence · hidden · 2 bytes = {{answer}} MB.",
        mistakes=(
            Mistake("elements", lambda p: _boundary(p) / 2, "An element has two bytes."),
            Mistake("fp32", lambda p: 2 * _boundary(p), "16 bits are two bytes."),
        ),
    ),
    "zero-bubble-idle": DrillKey(
        answer=_zero,
        how="(p − 1)(F + B − 2W), B being both halves: {{answer}} ms.",
        mistakes=(
            Mistake("1f1b", lambda p: 3 * _zero(p), "That is 1F1B's."),
            Mistake("zero", 0.0, "Only without a common end does it come near zero."),
        ),
    ),
}
