"""Judge of predict-real-step: prediction: a real step."""

from course_grader.judging import Params, prediction
from course_lib.estimate.units import duration_text
from course_runs.reading import recorded


def measured_seconds(params: Params) -> float:
    return float(recorded(params["run"])["measured"]["step_seconds"])


def _reveal(params: Params) -> str:
    predicted, took = recorded(params["run"])["predicted"], measured_seconds(params)
    parts = ", ".join(f"{name} {duration_text(seconds)}" for name, seconds in predicted["seconds"].items() if seconds)
    return (
        f"{duration_text(took)} at the median. The course's own tools predicted "
        f"{duration_text(predicted['step_seconds'])} ({parts}) from the same rates: measured over predicted is "
        f"{took / predicted['step_seconds']:.2f}."
    )


JUDGING = prediction(
    unit="seconds",
    why="""A roofline is not a forecast. Large matmuls alone give a floor. Everything that is not a matmul, waiting for the slowest process, library calls and
shared cores come on top, and on a small model they dominate. The ratio of measured to predicted says how much remains to be explained.""",
    pytorch="`torch.utils.flop_counter.FlopCounterMode` counts a step's FLOPs; `torch.utils.benchmark.Timer` times it.",
    reveal=_reveal,
    truth=measured_seconds,
)

ANSWERS = r"""# %% right: from a floor to four times it
def step_interval():
    floor = 6 * 932_112 * 2048 / 4 / 1e11
    return floor, 4 * floor


# %% right: far off, and committed
def step_interval():
    return [10, 40]


# %% wrong: too wide => values too-wide  from: far off, and committed
# ~ [10, 40] ==> 0.01, 1

# %% wrong: turned round => values reversed  from: far off, and committed
# ~ [10, 40] ==> 0.2, 0.1

# %% wrong: one number => values not-a-pair  from: far off, and committed
# ~ [10, 40] ==> 0.1


# %% wrong: from zero => values not-positive
def step_interval():
    return 0, 0.3
"""
