from course_grader.judging import Params, prediction
from course_lib.cluster import collectives
from course_lib.estimate.units import duration_text


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
    why="Both times grow with the number of parameters, so tokens per GPU and bandwidth decide which is longer. The "
    "exposed time is the difference, and it is zero once a GPU has enough tokens.",
    pytorch="A profiler's trace shows it as the gap between the last backward kernel and the optimizer's first kernel.",
    reveal=_exposed_reveal,
    truth=exposed_seconds,
)

ANSWERS = r'''# %% right: worked
def exposed_interval() -> tuple[float, float]:
    """Your interval for the exposed time in seconds: (low, high), with high at most 4 × low."""
    asked = params("predict-exposed")
    ring = 2 * (asked.gpus - 1) / asked.gpus * 2 * asked.params / asked.bandwidth
    exposed = ring - 4 * asked.params * asked.tokens / asked.rate
    return exposed / 1.8, exposed * 1.8
# %% right: far off, but an interval
# ~ exposed / 1.8, exposed * 1.8 ==> 10, 30
# %% right: one number believed
# ~ exposed / 1.8, exposed * 1.8 ==> [exposed, exposed]
# %% wrong: too wide => values too-wide
# ~ exposed / 1.8, exposed * 1.8 ==> exposed / 100, exposed * 100
# %% wrong: upside down => values reversed
# ~ exposed / 1.8, exposed * 1.8 ==> exposed * 1.8, exposed / 1.8
# %% wrong: nothing sticks out => values not-positive
# ~ exposed / 1.8, exposed * 1.8 ==> 0.0, 0.0
# %% wrong: one number => values not-a-pair
# ~ exposed / 1.8, exposed * 1.8 ==> exposed
'''
