"""Chapter 08's tables: state per rank in every convention, and steps with offloaded optimizer state."""

import math
from collections.abc import Sequence

from IPython.display import Markdown

from course_chapters.ch08.exercises import numbers
from course_chapters.running_example import GPUS, PARAMS
from course_chapters.table import table
from course_lib.estimate import compute, memory
from course_lib.estimate.units import bytes_text, duration_text

STAGES = ("replica", "stage 1", "stage 2", "stage 3")


def by_convention() -> Markdown:
    """Bytes of state per GPU of the course's job in each stage, a row for each convention of chapter 02."""
    rows = []
    for letter, convention in memory.CONVENTIONS.items():
        held = [memory.zero_bytes(PARAMS, stage, GPUS, letter) for stage in range(len(STAGES))]
        per_stage = {name: bytes_text(nbytes) for name, nbytes in zip(STAGES, held, strict=True)}
        name = {"convention": f"{letter}: {convention.name}", "bytes per parameter": f"{convention.bytes_per_param:g}"}
        rows.append({**name, **per_stage})
    return table(rows)


def offload(tokens: Sequence[int]) -> Markdown:
    """Time of a step with optimizer state in host memory or on NVMe, for several numbers of tokens per GPU."""
    rows = []
    for name, (moved, bandwidth) in numbers.OFFLOAD.items():
        transfer = moved * PARAMS / GPUS / bandwidth
        row = {"": name, "moved per step": bytes_text(moved * PARAMS / GPUS), "takes": duration_text(transfer)}
        for count in tokens:
            computing = compute.train_seconds(PARAMS, count, numbers.REAL)
            bound = "link" if transfer > computing else "GPU"
            row[f"step of {count:,} tokens"] = f"{duration_text(max(transfer, computing))} ({bound})"
        rows.append({**row, "hidden from": f"{math.ceil(numbers.offload_tokens(moved, bandwidth)):,} tokens"})
    return table(rows)
