"""Judge of a predicted step: an interval, and what the recorded run shows."""

from course_lib.judging import Params, prediction
from course_lib.runs.reading import recorded
from course_lib.units import duration_text


def measured_seconds(params: Params) -> float:
    """Seconds of a step of the recorded run, the median of its timed steps."""
    return float(recorded(params["run"])["measured"]["step_seconds"])


def _reveal(params: Params) -> str:
    predicted, took = recorded(params["run"])["predicted"], measured_seconds(params)
    parts = ", ".join(f"{name} {duration_text(seconds)}" for name, seconds in predicted["seconds"].items() if seconds)
    return (
        f"{duration_text(took)} at the median. The course's own tools predicted "
        f"{duration_text(predicted['step_seconds'])} ({parts}) from the same rates: measured over predicted is "
        f"{took / predicted['step_seconds']:.2f}."
    )


PREDICTION = prediction(
    unit="seconds",
    why="A roofline is not a forecast. Large matmuls alone give a floor. Everything that is not a matmul, waiting for "
    "the slowest process, library calls and shared cores come on top, and on a small model they dominate. The ratio of "
    "measured to predicted says how much remains to be explained.",
    pytorch="`torch.utils.flop_counter.FlopCounterMode` counts a step's FLOPs; `torch.utils.benchmark.Timer` times it.",
    reveal=_reveal,
    truth=measured_seconds,
)
PREDICTED = {"predict-real-step": PREDICTION}
