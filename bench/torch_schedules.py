"""The course's schedules against those that torch.distributed.pipelining generates, operation by operation.

torch builds a schedule for a stage that it asks for a few numbers only, so no process group and no model is needed. Its
rows are compared without their idle moments, communication and gradient bookkeeping, which torch derives from the
order.
"""

import logging
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from course_lib.parallel.schedules import (
    Op,
    Schedule,
    breadth_first,
    dualpipe_v,
    gpipe,
    interleaved,
    one_f_one_b,
    zb_h1,
    zb_v,
)


@dataclass(frozen=True)
class Pair:
    """A schedule that both sides have. `chunks` are stages on each rank; `why` explains a difference that is known."""

    torch_name: str
    ours: Callable[[int, int, int], Schedule]  # of ranks, micro-batches, chunks
    chunks: tuple[int, ...]
    why: str = ""


PAIRS = (
    Pair("GPipe", lambda p, m, v: gpipe(p, m), (1,)),
    Pair(
        "1F1B",
        lambda p, m, v: one_f_one_b(p, m),
        (1,),
        "torch's list numbers the last rank's forwards from 1, so that it lacks micro-batch 0 and has one too many; "
        "its step() runs them from 0",
    ),
    Pair("Interleaved1F1B", interleaved, (2, 3)),
    Pair("LoopedBFS", breadth_first, (1, 2)),
    Pair("InterleavedZeroBubble", zb_h1, (1, 2)),
    Pair("ZBVZeroBubble", lambda p, m, v: zb_v(p, m), (2,)),
    Pair("DualPipeV", lambda p, m, v: dualpipe_v(p, m), (2,)),
)


class _Stage:
    """What torch asks of a stage before it builds a schedule."""

    has_backward = True
    is_last = False

    def __init__(self, index: int, stages: int, rank: int, ranks: int) -> None:
        self.stage_index, self.num_stages, self.group_rank, self.group_size = index, stages, rank, ranks
        self.is_first = index == 0
        self.submod = None


def torch_rows(name: str, ranks: int, microbatches: int, chunks: int) -> tuple[tuple[Op, ...], ...]:
    """The rows of torch's schedule of that name. ValueError, in torch's words, where it takes no such sizes."""
    from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class

    made = get_schedule_class(name)
    stages = [_Stage(at * ranks, ranks * chunks, 0, ranks) for at in range(chunks)]
    single = issubclass(made, PipelineScheduleSingle)
    with _quiet():
        order = made(stages[0] if single else stages, n_microbatches=microbatches).pipeline_order
    return tuple(tuple(op for action in order[rank] if action for op in _ops(action)) for rank in range(ranks))


def _ops(action: Any) -> tuple[Op, ...]:
    if getattr(action, "sub_actions", None):
        return tuple(
            Op(each.computation_type.value, each.stage_index, each.microbatch_index, joins=at > 0)
            for at, each in enumerate(action.sub_actions)
        )
    if action.computation_type.value not in "FBIW":
        return ()
    return (Op(action.computation_type.value, action.stage_index, action.microbatch_index),)


@contextmanager
def _quiet() -> Any:
    """Without the log lines of building a schedule for a stage that has no loss."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


@dataclass(frozen=True)
class Compared:
    """One schedule at one size on both sides."""

    torch_name: str
    ours: str
    ranks: int
    microbatches: int
    chunks: int
    operations: int
    different: int  # positions where the two rows differ
    first: str  # the first of them: rank, position, ours, torch's
    why: str  # the known reason, if there is one


def compared(pair: Pair, ranks: int, microbatches: int, chunks: int) -> Compared:
    """Both sides' rows at one size."""
    theirs, ours = (torch_rows(pair.torch_name, ranks, microbatches, chunks), pair.ours(ranks, microbatches, chunks))
    different, first = 0, ""
    for rank, (mine, other) in enumerate(zip(ours.rows, theirs, strict=True)):
        for place in range(max(len(mine), len(other))):
            here, there = (row[place] if place < len(row) else None for row in (mine, other))
            if here != there:
                different += 1
                first = first or f"rank {rank}, step {place}: {here}, torch {there}"
    total = sum(map(len, ours.rows))
    return Compared(
        pair.torch_name, ours.name, ranks, microbatches, chunks, total, different, first, pair.why if different else ""
    )


SIZES = ((2, 4), (4, 8), (4, 12), (8, 16), (8, 32))


def table() -> list[Compared]:
    """All pairs at all sizes."""
    return [compared(pair, p, m, v) for pair in PAIRS for v in pair.chunks for p, m in SIZES]
