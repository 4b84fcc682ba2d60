"""Chapter 15's judges of steps, memory and money: a prediction beside a recorded run, traces, parts of a step, peaks, the bill."""

from __future__ import annotations

from course_lib.exercises.ch15.judges.steps_memory import PEAKS
from course_lib.exercises.ch15.judges.steps_money import MONEY
from course_lib.exercises.ch15.judges.steps_parts import PARTS
from course_lib.exercises.ch15.judges.steps_traces import TRACES
from course_lib.judging import Judging, Params, prediction
from course_lib.runs.reading import recorded
from course_lib.units import duration_text


def measured_seconds(params: Params) -> float:
    """Seconds of a step of the recorded run, the median of its timed steps."""
    return float(recorded(params["run"])["measured"]["step_seconds"])


def _reveal(params: Params) -> str:
    run = recorded(params["run"])
    said, took = run["predicted"]["step_seconds"], measured_seconds(params)
    parts = ", ".join(
        f"{name} {duration_text(seconds)}" for name, seconds in run["predicted"]["seconds"].items() if seconds
    )
    return (
        f"{duration_text(took)} at the median. The course's own tools had predicted {duration_text(said)} ({parts}) from the same rates: "
        f"measured over predicted is {took / said:.2f}."
    )


PREDICTED = {
    "predict-real-step": prediction(
        unit="seconds",
        why="A roof is not a forecast. Large matmuls alone give a floor; everything that is no matmul, waiting for the slowest process, calls of the library and sharing cores "
        "come on top, and on a small model they are the most of it. What a prediction is good for is the ratio: it says how much there is to explain.",
        pytorch="`torch.utils.flop_counter.FlopCounterMode` counts the FLOPs of a step; `torch.utils.benchmark.Timer` times it.",
        reveal=_reveal,
        truth=measured_seconds,
    )
}
JUDGINGS: dict[str, Judging] = {**PREDICTED, **TRACES, **PARTS, **PEAKS, **MONEY}
