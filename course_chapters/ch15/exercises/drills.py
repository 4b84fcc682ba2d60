"""One-line questions of chapter 15, with other numbers every time."""

from course_grader.exercises import Params, Random, asking
from course_lib.estimate.units import GB, TFLOP

PEAKS = (312 * TFLOP, 989.5 * TFLOP, 2250 * TFLOP)
RUNS = {"params": (1.3e9, 7e9, 13e9, 70e9), "ranks": (8, 16, 64, 256), "peak": PEAKS}
STEP = {"params": 7e9, "ranks": 64, "peak": PEAKS[1], "tokens": 524288, "seconds": 0.87}
BILL = {"gpus": (8, 2, 4, 16), "price": (2.5, 2.0, 4.0, 5.0)}
_drill = asking("15")


def _step(draw: Random) -> Params:
    chosen = {name: draw.choice(choices) for name, choices in RUNS.items()}
    flops, mfu = 6 * chosen["params"] * 8192, draw.choice((0.25, 0.35, 0.45, 0.5))
    return chosen | {"tokens": 8192 * chosen["ranks"], "seconds": round(flops / (chosen["peak"] * mfu), 2)}


def _message(draw: Random) -> Params:
    """A large all-reduce at a rate between an adapter's and NVLink's."""
    nbytes, rate = draw.choice((GB, 4 * GB, 16 * GB)), draw.choice((50 * GB, 100 * GB, 200 * GB))
    return {"nbytes": nbytes, "ranks": draw.choice((4, 8, 16)), "ms": round(1000 * nbytes / rate)}


def _overlap(draw: Random) -> Params:
    start = draw.choice((30, 40, 50, 60))
    return {"compute": start + draw.choice((20, 30, 40)), "start": start, "stop": start + draw.choice((60, 70, 90))}


def _two_points(draw: Random) -> Params:
    alpha, per = draw.choice((20, 50, 200)), draw.choice((2, 5, 20))  # µs, µs per MB
    return {"small": alpha + per, "large": alpha + 16 * per, "asked": draw.choice((4, 8, 64))}


DRILLS = (
    _drill("mfu-of-a-step", "%", STEP, _step)(
        "A step of {{tokens:int}} tokens, {{params:count}} parameters, takes {{seconds}} s on {{ranks}} GPUs of "
        "{{peak:tflops}} (dense). MFU?"
    ),
    _drill("bus-of-all-reduce", "GB/s", {"nbytes": GB, "ranks": 8, "ms": 5}, _message)(
        "An all-reduce of {{nbytes:gb}} over {{ranks}} ranks takes {{ms}} ms. Bus bandwidth?"
    ),
    _drill("half-of-the-line", "MB", alpha=(20, 5, 50, 200), beta=(50 * GB, 25 * GB, 200 * GB, 450 * GB))(
        "A wire with α = {{alpha}} µs and β = {{beta:gbps}}. At which message size does it reach half of β?"
    ),
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
    _drill("strong-efficiency", "%", few_s=(3.2, 2.4), few=(8,), many_s=(0.6, 0.5), many=(64, 128))(
        "One job: a step takes {{few_s}} s on {{few}} GPUs and {{many_s}} s on {{many}}. Strong-scaling efficiency?"
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
