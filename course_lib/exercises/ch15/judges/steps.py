"""Chapter 15's judges of steps, memory and money, among them the prediction of a step."""

from course_lib.exercises.ch15.judges.steps_fsdp import PEAKS
from course_lib.exercises.ch15.judges.steps_money import MONEY
from course_lib.exercises.ch15.judges.steps_parts import PARTS
from course_lib.exercises.ch15.judges.steps_pipeline import PIPELINES
from course_lib.exercises.ch15.judges.steps_traces import TRACES
from course_lib.judging import Judging, Params, prediction
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


PREDICTED = prediction(
    unit="seconds",
    why="A roofline is not a forecast. Large matmuls alone give a floor. Everything that is not a matmul, waiting for "
    "the slowest process, library calls and shared cores come on top, and on a small model they dominate. The ratio of "
    "measured to predicted says how much remains to be explained.",
    pytorch="`torch.utils.flop_counter.FlopCounterMode` counts a step's FLOPs; `torch.utils.benchmark.Timer` times it.",
    reveal=_reveal,
    truth=measured_seconds,
)
JUDGINGS: dict[str, Judging] = {"predict-real-step": PREDICTED, **TRACES, **PARTS, **PEAKS, **PIPELINES, **MONEY}
