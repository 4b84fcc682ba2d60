"""The course's schedules at twenty sizes and more against torch.distributed.pipelining: what it plans, and what it
runs.

torch builds a schedule for a stage that it asks for a few numbers only, so no process group and no model is needed. Its
rows are compared without their idle moments, communication and gradient bookkeeping, which torch derives from the
order.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch.distributed.pipelining import schedules as torchs

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
from tests.tables import each_of


@dataclass(frozen=True)
class Pair:
    """A schedule that both sides have. `chunks` are stages on each rank."""

    torch_name: str
    ours: Callable[[int, int, int], Schedule]  # of ranks, micro-batches, chunks
    chunks: tuple[int, ...]


PAIRS = (
    Pair("GPipe", lambda p, m, v: gpipe(p, m), (1,)),
    Pair("1F1B", lambda p, m, v: one_f_one_b(p, m), (1,)),
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
    made = torchs.get_schedule_class(name)
    stages = [_Stage(at * ranks, ranks * chunks, 0, ranks) for at in range(chunks)]
    single = issubclass(made, torchs.PipelineScheduleSingle)
    with _quiet():
        order = made(stages[0] if single else stages, n_microbatches=microbatches).pipeline_order
    return tuple(tuple(op for action in order[rank] if action for op in _ops(action)) for rank in range(ranks))


def _ops(action: torchs._Action) -> tuple[Op, ...]:
    if getattr(action, "sub_actions", None):
        return tuple(
            Op(each.computation_type.value, each.stage_index, each.microbatch_index, joins=at > 0)
            for at, each in enumerate(action.sub_actions)
        )
    if action.computation_type.value not in "FBIW":
        return ()
    return (Op(action.computation_type.value, action.stage_index, action.microbatch_index),)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the log lines of building a schedule for a stage that has no loss."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


SIZES = [(ranks, ranks * rounds) for ranks in (2, 3, 4, 6, 8) for rounds in (2, 3, 4, 7)]
ODD_SIZES = [(ranks, ranks * rounds + 1) for ranks in (3, 4, 8) for rounds in (1, 2, 4)]  # no whole rounds of the ranks
CASES = [(pair, chunks) for pair in PAIRS for chunks in pair.chunks]
IN_ROUNDS = {"Interleaved1F1B", "InterleavedZeroBubble", "DualPipeV"}


def name_of(value):
    return getattr(value, "torch_name", None)


def planned(pair, ranks, microbatches, chunks):
    """torch's rows; those of its 1F1B with the last rank's forwards numbered from 0, as its step() runs them."""
    rows = torch_rows(pair.torch_name, ranks, microbatches, chunks)
    if pair.torch_name == "1F1B":
        rows = (*rows[:-1], tuple(op._replace(microbatch=op.microbatch - (op.kind == "F")) for op in rows[-1]))
    return rows


def test_every_schedule_of_torch_is_compared_at_twenty_sizes():
    known = {name.removeprefix("Schedule") for name in dir(torchs) if name.startswith("Schedule")}
    assert known <= {pair.torch_name for pair in PAIRS}
    assert len(set(SIZES)) == 20


@each_of("pair, chunks", CASES, ids=name_of)
def test_each_rank_does_the_same_in_the_same_order(pair, chunks):
    for ranks, microbatches in SIZES:
        mine, theirs = pair.ours(ranks, microbatches, chunks).rows, planned(pair, ranks, microbatches, chunks)
        assert len(mine) == ranks and all(mine)
        for rank in range(ranks):
            assert mine[rank] == theirs[rank], (ranks, microbatches, rank)


@each_of("pair, chunks", [case for case in CASES if case[0].torch_name not in IN_ROUNDS], ids=name_of)
def test_micro_batches_that_fill_no_whole_round_come_in_the_same_order_too(pair, chunks):
    for ranks, microbatches in ODD_SIZES:
        assert pair.ours(ranks, microbatches, chunks).rows == planned(pair, ranks, microbatches, chunks)


class Recorded:
    """A stage that computes and sends nothing, and keeps the order of what torch's step() asks of it."""

    has_backward, is_last, submod = True, False, None

    def __init__(self, index, stages):
        self.stage_index, self.num_stages, self.is_first = index, stages, index == 0
        self.group_rank, self.group_size, self.done = index, stages, []

    def forward_one_chunk(self, microbatch, *args, **more):
        self.done.append(Op("F", self.stage_index, microbatch))

    def backward_one_chunk(self, microbatch, **more):
        self.done.append(Op("B", self.stage_index, microbatch))

    def perform_reduce_grad(self, *args):
        """Nothing was computed."""

    def nothing(self, *args):
        return []

    get_fwd_recv_ops = get_fwd_send_ops = get_bwd_recv_ops = get_bwd_send_ops = nothing


def stepped(made, ranks, microbatches):
    """The rows that a schedule's own step() runs, one stage at a time: nothing is sent, so no stage waits."""
    rows = []
    for rank in range(ranks):
        stage = Recorded(rank, ranks)
        with _quiet():
            schedule = made(stage, n_microbatches=microbatches)
        for name in ("_initialize_stage", "_maybe_compute_loss", "_maybe_get_loss", "_update_losses"):
            assert hasattr(schedule, name), name
            setattr(schedule, name, lambda *args, **more: None)
        schedule._step_microbatches([()] * microbatches, [{}] * microbatches)
        rows.append(tuple(stage.done))
    return tuple(rows)


@each_of("made, ours", [(torchs.ScheduleGPipe, gpipe), (torchs.Schedule1F1B, one_f_one_b)])
def test_the_step_of_torch_runs_the_order_that_the_course_prints(made, ours):
    for ranks, microbatches in (*SIZES, *ODD_SIZES):
        assert stepped(made, ranks, microbatches) == ours(ranks, microbatches).rows
