"""DualPipe: micro-batches enter at both ends, and forwards of one direction run together with backwards of the other.

DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 3.2.1, and the order published with it
(github.com/deepseek-ai/ DualPipe). The overlap hides communication inside a stage; the timeline takes the joint
duration as given.
"""

from course_lib.parallel.schedules.fused_backward import _sizes
from course_lib.parallel.schedules.ops import Op, Schedule, v_shaped
from course_lib.parallel.schedules.rows_builder import Row


def dualpipe(stages: int, microbatches: int) -> Schedule:
    """Half of the micro-batches from either end; every rank holds two stages, so all weights exist twice."""
    _sizes(stages, microbatches)
    if stages % 2:
        raise ValueError(f"DualPipe pairs ranks from both ends, and {stages} is odd; {_even(stages)} stages would fit.")
    if microbatches % 2 or microbatches < 2 * stages:
        fits = max(2 * stages, microbatches + microbatches % 2)
        raise ValueError(
            f"DualPipe on {stages} stages needs an even number of micro-batches, at least {2 * stages}; "
            f"with {microbatches} asked for, {fits} would fit."
        )
    down, half = tuple(range(stages)), microbatches // 2
    rows = []
    for rank in down:
        near, far = (rank, 0), (stages - 1 - rank, half)  # (stage, its first micro-batch) in either direction
        if rank >= stages // 2:
            near, far = far, near
        rows.append(_row(min(rank, stages - 1 - rank), stages // 2, half, near, far))
    return Schedule("DualPipe", tuple(rows), microbatches, (down, down[::-1]))


def dualpipe_v(stages: int, microbatches: int) -> Schedule:
    """DualPipe folded at its middle: two chunks per rank on a V, and one copy of the weights. `stages` counts ranks."""
    _sizes(stages, microbatches)
    if microbatches < 2 * stages:
        raise ValueError(
            f"DualPipeV on {stages} ranks needs {2 * stages} micro-batches at least, not {microbatches}; "
            f"{2 * stages} would fit."
        )
    rows = tuple(_row(rank, stages, microbatches, (rank, 0), (2 * stages - 1 - rank, 0)) for rank in range(stages))
    return Schedule("DualPipeV", rows, microbatches, (v_shaped(stages),))


def _even(stages: int) -> str:
    return " or ".join(str(each) for each in (stages - 1, stages + 1) if each > 1)


def _row(depth: int, depths: int, microbatches: int, near: tuple[int, int], far: tuple[int, int]) -> tuple[Op, ...]:
    """The row of the rank `depth` ranks away from its end of the pipeline, with its near and its far stage.

    Each stage is given as (number, its first micro-batch). `microbatches` counts those of one direction.
    """
    row, left = Row(), depths - 1 - depth

    def do(kind: str, which: tuple[int, int], joins: bool = False) -> None:
        row.add(kind, which[0], which[1], joins)

    def together(forward: tuple[int, int], backward: tuple[int, int]) -> None:
        do("F", forward)
        do("B", backward, joins=True)

    for _ in range(2 * left):
        do("F", near)
    for _ in range(depth + 1):
        do("F", near)
        do("F", far)
    for _ in range(left):  # the first backwards arrive; weight gradients fill the wait for the next forward
        do("I", far)
        row.oldest_weight_gradient()
        do("F", far)
    for turn in range(microbatches - 2 * depths + depth + 1):
        if turn == 0 and left == 0:  # the innermost rank has nothing to overlap yet and would only wait for both
            do("F", near)
            do("B", far)
        else:
            together(near, far)
        together(far, near)
    for _ in range(left):
        do("B", far)
        together(far, near)
    for half_turn in range(2 * (depth + 1)):  # from the middle on, weight gradients are kept for the end
        late = half_turn > depth
        do("I" if late else "B", near if half_turn % 2 else far)
    for _ in range(left):
        row.oldest_weight_gradient()
        do("I", near)
    row.all_weight_gradients()
    return row.ops()
