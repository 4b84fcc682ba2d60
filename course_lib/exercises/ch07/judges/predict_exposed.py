"""Judge of predict-exposed: prediction: how much is exposed?"""

from __future__ import annotations

from course_lib import collectives
from course_lib.judging import Params, prediction
from course_lib.units import duration_text


def exposed_seconds(params: Params) -> float:
    """Seconds by which the all-reduce outlasts the backward pass."""
    ring = collectives.ring_cost(2 * params["params"], params["gpus"], 0.0, params["bandwidth"]).seconds
    return float(ring - 4 * params["params"] * params["tokens"] / params["rate"])


def _exposed_reveal(params: Params) -> str:
    ring = collectives.ring_cost(2 * params["params"], params["gpus"], 0.0, params["bandwidth"]).seconds
    return (
        f"{duration_text(exposed_seconds(params))}: the ring takes {duration_text(ring)}, the backward pass hides "
        f"{duration_text(ring - exposed_seconds(params))} of it."
    )


JUDGING = prediction(
    unit="seconds",
    why="Both times grow with the number of parameters, so tokens per GPU and bandwidth decide which is longer. The exposed time is the "
    "difference, and it is zero once a GPU has enough tokens.",
    pytorch="A profiler's trace shows it as the gap between the last backward kernel and the optimizer's first kernel.",
    reveal=_exposed_reveal,
    truth=exposed_seconds,
)

ANSWERS = r'''"""Answers to predict-exposed: an interval of a factor of four or less, and what is none."""


# %% right: from the two times
def exposed_interval():
    ring = 2 * 63 / 64 * 2 * 8e9 / 50e9
    backward = 4 * 8e9 * 2048 / 400e12
    return (ring - backward) / 1.8, (ring - backward) * 1.8


# %% right: far off, but an interval  from: one number believed
# ~ [0.466, 0.466] ==> 10, 30


# %% right: one number believed
def exposed_interval():
    return [0.466, 0.466]


# %% wrong: too wide => values too-wide  from: far off, but an interval
# ~ 10, 30 ==> 0.01, 100.0

# %% wrong: upside down => values reversed  from: far off, but an interval
# ~ 10, 30 ==> 1.0, 0.5

# %% wrong: nothing sticks out => values not-positive  from: far off, but an interval
# ~ 10, 30 ==> 0.0, 0.0

# %% wrong: one number => values not-a-pair  from: far off, but an interval
# ~ 10, 30 ==> 0.47
'''
