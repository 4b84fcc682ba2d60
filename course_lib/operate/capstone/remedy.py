"""Remedies against a full memory, ranked by what they cost: time first, then how much code and configuration has to
change."""

from dataclasses import dataclass
from functools import partial

from course_lib.estimate.memory.layout import Layout
from course_lib.operate.capstone.task import COURSE, Task
from course_lib.parallel import planner

MICRO = 2  # sequences of a micro-batch before any remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One change of a layout that frees memory."""

    name: str
    change: str  # what has to change in a training script
    freed: float  # bytes of the fullest GPU
    memory: float  # bytes that are left on it
    added: float  # seconds that a step takes longer; negative where it gets shorter
    cost: float  # `added` as a share of the step before


def remedies(task: Task = COURSE) -> list[Remedy]:
    """Each remedy alone, applied to plain data parallelism with ZeRO-1 over all GPUs and `MICRO` sequences a
    micro-batch, cheapest first.

    The start need not fit: its time is what the step would take if it did. A group of eight lies within a server.
    """
    gpus = task.gpus
    group, m = task.hardware().per_node, max(task.sequences // gpus // MICRO, 1)
    few = partial(Layout, dp=gpus, zero=1)
    many = partial(Layout, dp=gpus // group, zero=1, microbatches=m * group)
    layouts = {
        "smaller micro-batch": (few(microbatches=m * MICRO), "none", "one argument"),
        "ZeRO-3": (Layout(dp=gpus, zero=3, microbatches=m), "none", "wrap the model"),
        "recompute layers": (few(microbatches=m), "full", "wrap each layer"),
        "tensor parallel": (many(tp=group, sp=True), "none", "a plan for every matrix"),
        "context parallel": (many(cp=group), "none", "every function that uses positions"),
        "pipeline": (many(pp=group), "none", "cut the model, schedule micro-batches"),
    }
    cluster = task.hardware()
    before = planner.estimate(task.job(), cluster, few(microbatches=m))
    memory, seconds = float(before.memory), float(before.seconds)
    found = []
    for name, (layout, recompute, change) in layouts.items():
        after = planner.estimate(task.job(recompute), cluster, layout)
        found.append(
            Remedy(
                name=name,
                change=change,
                freed=memory - float(after.memory),
                memory=float(after.memory),
                added=float(after.seconds) - seconds,
                cost=float(after.seconds) / seconds - 1,
            )
        )
    return sorted(found, key=lambda each: each.cost)
