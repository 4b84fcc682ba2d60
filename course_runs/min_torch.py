"""The oldest torch on which every layout of the runs trains the same model, and the refusal of an older one.

Before 2.8 the runs would start and be wrong, or never make a step. With 2.6, a pipeline does not divide its gradients
by the number of micro-batches, and `fully_shard` fails on a CPU. With 2.6 and 2.7, pipelines with 1F1B or interleaved
1F1B make no step on gloo.
"""

from __future__ import annotations

import re

from course_lib.messages import Trouble

OLDEST = (2, 8)


def require(version: str) -> None:
    """Trouble where torch is older than `OLDEST`. `version`: as torch gives it, such as "2.8.0+cu128"."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        least = ".".join(map(str, OLDEST))
        raise Trouble(
            f"This is torch {version}, and the runs need {least} or newer: older pipelines and FSDP train another "
            f"model or stop.",
            f'pip install "torch>={least}", or rent an image with a newer PyTorch',
        )
