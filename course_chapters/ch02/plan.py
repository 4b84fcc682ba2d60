"""Chapter 02's row of the plan: what one GPU of the running example must hold, in three layouts."""

from functools import partial

from course_chapters.ch02.exercises.numbers import H100, MODEL, SEQ
from course_chapters.running_example import GPUS, PARAMS
from course_lib.estimate import memory
from course_lib.estimate.memory import Layout
from course_lib.estimate.units import bytes_text


def one_gpu() -> tuple[list[dict[str, str]], memory.Peak]:
    """The plan's row, and the peak of the second layout: sharded state with full checkpointing."""
    layouts = {
        "sharded": (Layout(dp=GPUS, zero=3), "none"),
        "and full checkpointing": (Layout(dp=GPUS, zero=3), "full"),
        "and TP 8 with SP": (Layout(tp=8, sp=True, dp=GPUS // 8, zero=3), "full"),
    }
    peak_of = partial(memory.stage_peak, MODEL, 1, SEQ, kernels="flash", dropout=False, loss="plain")
    peaks = {name: peak_of(layout=layout, checkpointing=how) for name, (layout, how) in layouts.items()}
    state = memory.state_bytes(PARAMS)
    shares = {"state": bytes_text(state), "per GPU": bytes_text(state / GPUS)}
    held = {name: bytes_text(peak.total) for name, peak in peaks.items()}
    return [{"chapter": "02", **shares, **held, "one GPU has": H100.memory.text}], peaks["and full checkpointing"]
