"""Schedules that split the backward: the input gradient runs as early as possible, the weight gradient fills idle time.

Qi, Wan, Huang and Lin, "Zero Bubble Pipeline Parallelism" (2023). Their bubbles hold for forward, input gradient and
weight gradient of equal length, and leave out communication. Their automatic schedules (ZB-1p, ZB-2p) are not here.
"""

from course_lib.parallel.schedules.fused_backward import _sizes, alternating, rounds_of
from course_lib.parallel.schedules.ops import Op, Schedule, looped, v_shaped
from course_lib.parallel.schedules.rows_builder import Row


def zb_h1(stages: int, microbatches: int, chunks: int = 1) -> Schedule:
    """1F1B with split backward at 1F1B's memory: the bubble shrinks to a third. Section 2.1.

    With several chunks per rank it is interleaved in the same way, and micro-batches come in rounds of the ranks.
    """
    _sizes(stages, microbatches, chunks)
    if chunks > 1:
        rounds_of(stages, microbatches, "interleaved ZB-H1")
    rows = alternating(stages, microbatches, chunks, 1, lag=1)
    return Schedule("ZB-H1" if chunks == 1 else "interleaved ZB-H1", rows, microbatches, (looped(stages, chunks),))


def zb_h2(stages: int, microbatches: int) -> Schedule:
    """Twice the forwards ahead, so nearly twice the memory: no rank is idle between its first and its last operation.

    Section 2.2. Ranks end one after the other, so the gain needs an optimizer step that does not wait for all of them.
    """
    _sizes(stages, microbatches)
    return Schedule("ZB-H2", alternating(stages, microbatches, 1, 2, lag=2), microbatches, (looped(stages),))


def zb_v(stages: int, microbatches: int) -> Schedule:
    """Two chunks per rank on a V: no idle time between first and last operation at 1F1B's memory. Section 6.

    `stages` counts ranks; rank r holds the stages r and 2·stages − 1 − r, so the first rank has both ends of the model.
    """
    _sizes(stages, microbatches)
    rows = tuple(_v_row(rank, stages, microbatches) for rank in range(stages))
    return Schedule("ZB-V", rows, microbatches, (v_shaped(stages),))


def _v_row(rank: int, ranks: int, microbatches: int) -> tuple[Op, ...]:
    down, up, row = rank, 2 * ranks - 1 - rank, Row()
    count = max(
        2 * ranks - 1, microbatches
    )  # the pattern needs that many; those beyond `microbatches` are left out below

    def forward_and_back(stage: int) -> None:
        row.add("F", stage)
        row.add("I", stage)
        row.oldest_weight_gradient(stage)

    for _ in range(2 * (ranks - rank) - 1):  # until the first micro-batch comes back up
        row.add("F", down)
    for _ in range(rank):  # both directions arrive in turn
        row.add("F", up)
        row.add("F", down)
    for _ in range(ranks - rank):  # memory is full: nothing new enters
        forward_and_back(up)
    while row.count("F", up) < count:
        if row.count("F", down) < count:
            row.add("F", down)
        row.add("I", down)
        row.oldest_weight_gradient(down)
        forward_and_back(up)
    for _ in range(rank):  # the end: input gradients first, others wait for them
        row.add("I", down)
        row.add("I", up)
    for _ in range(ranks - rank):
        row.add("I", down)
        row.oldest_weight_gradient(down)
    row.all_weight_gradients(up, down)
    return tuple(op for op in row.ops() if op.microbatch < microbatches)
