"""The course's schedules at twenty sizes and more against torch.distributed.pipelining: what it plans, and what it
runs."""

from torch.distributed.pipelining import schedules as torchs

from bench import torch_schedules
from course_lib.parallel.schedules import Op, gpipe, one_f_one_b
from tests.tables import each_of

SIZES = [(ranks, ranks * rounds) for ranks in (2, 3, 4, 6, 8) for rounds in (2, 3, 4, 7)]
ODD_SIZES = [(ranks, ranks * rounds + 1) for ranks in (3, 4, 8) for rounds in (1, 2, 4)]  # no whole rounds of the ranks
CASES = [(pair, chunks) for pair in torch_schedules.PAIRS for chunks in pair.chunks]
IN_ROUNDS = {"Interleaved1F1B", "InterleavedZeroBubble", "DualPipeV"}


def name_of(value):
    return getattr(value, "torch_name", None)


def planned(pair, ranks, microbatches, chunks):
    """torch's rows; those of its 1F1B with the last rank's forwards numbered from 0, as its step() runs them."""
    rows = torch_schedules.torch_rows(pair.torch_name, ranks, microbatches, chunks)
    if pair.torch_name == "1F1B":
        rows = (*rows[:-1], tuple(op._replace(microbatch=op.microbatch - (op.kind == "F")) for op in rows[-1]))
    return rows


def test_every_schedule_of_torch_is_compared_at_twenty_sizes():
    known = {name.removeprefix("Schedule") for name in dir(torchs) if name.startswith("Schedule")}
    assert known <= {pair.torch_name for pair in torch_schedules.PAIRS}
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
        with torch_schedules._quiet():
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
