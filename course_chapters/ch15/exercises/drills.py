"""One-line questions of chapter 15, with other numbers every time."""

from course_grader.exercises import Params, Random, asking

BILL = {"gpus": (8, 2, 4, 16), "price": (2.5, 2.0, 4.0, 5.0)}
_drill = asking("15")


def _overlap(draw: Random) -> Params:
    start = draw.choice((30, 40, 50, 60))
    return {"compute": start + draw.choice((20, 30, 40)), "start": start, "stop": start + draw.choice((60, 70, 90))}


def _two_points(draw: Random) -> Params:
    alpha, per = draw.choice((20, 50, 200)), draw.choice((2, 5, 20))  # µs, µs per MB
    return {"small": alpha + per, "large": alpha + 16 * per, "asked": draw.choice((4, 8, 64))}


DRILLS = (
    _drill("third-message", "µs", {"small": 55, "large": 130, "asked": 8}, _two_points)(
        "A message of n bytes takes α + n/β: 1 MB takes {{small}} µs, 16 MB take {{large}} µs. What do "
        "{{asked}} MB take?"
    ),
    _drill("exposed-of-one", "ms", {"compute": 80, "start": 50, "stop": 110}, _overlap)(
        "A GPU computes from 0 to {{compute}} ms and communicates from {{start}} to {{stop}} ms. How much "
        "communication is exposed?"
    ),
    _drill("amdahl-of-a-part", "a plain factor", share=(20, 5, 10, 25, 40, 60))(
        "Communication is {{share}} % of a step, none of it hidden. Tokens per second if it cost nothing, "
        "relative to now?"
    ),
    _drill("dollars-of-a-session", "US dollars", **BILL, block=(15, 10, 60), minutes=(47, 32, 71, 95))(
        "{{gpus}} GPUs at {{price:usd}} a GPU-hour, billed in blocks of {{block}} minutes, stopped after {{minutes}} "
        "minutes. What does it cost?"
    ),
    _drill("minutes-for-a-budget", "minutes", budget=(10, 5, 20, 50), **BILL)(
        "{{budget:usd}} to spend, {{gpus}} GPUs at {{price:usd}} a GPU-hour, billed by the second. When must they "
        "stop at the latest?"
    ),
    _drill("kept-weights-sent", "GB", params=(7e9, 1e9, 13e9), bits=(16, 32), ranks=(8, 4, 64))(
        "`fully_shard`, {{params:count}} parameters, weights in {{bits}} bits, {{ranks}} ranks, "
        "`reshard_after_forward=False`: weights that a rank sends in a step?"
    ),
    _drill("gpipe-over-1f1b", "a plain factor", stages=(4, 2, 8), micro=(16, 32, 64))(
        "{{stages}} stages, {{micro}} micro-batches. Activations that the first stage holds under GPipe, over "
        "those under 1F1B?"
    ),
    _drill("straggler-waits", "%", ranks=(8, 64), times=(1.25, 1.1, 1.6, 2.0))(
        "One of {{ranks}} ranks takes {{times}} times as long as the others in every step. What share of a step do "
        "the others wait?"
    ),
    _drill("warm-up-in-the-mean", "%", timed=(17, 27, 47), warm=(3,), slow=(5, 3, 11))(
        "{{timed}} steps of 1 s after {{warm}} warm-up steps of {{slow}} s each. By how much is the mean of all steps "
        "above the median?"
    ),
    _drill("rate-after-resume", "a plain factor", warm=(100, 200, 500), stop=(5000, 1000), after=(9, 24, 49))(
        "Linear warm-up over {{warm}} steps, then constant. A run resumes at step {{stop}}, and its schedule starts "
        "again. Planned rate over actual rate, {{after}} steps later (the first step of a warm-up has 1/{{warm}} "
        "of the peak)?"
    ),
)
