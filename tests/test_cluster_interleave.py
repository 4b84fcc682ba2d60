"""interleavings: wrong programs are caught by the machine meant for them, right ones pass on all."""

import pytest
import torch
from cluster_programs import (
    needs_buffering,
    overwrites_after_posted_receives,
    overwrites_in_flight,
    reads_before_wait,
    ring_all_reduce,
    shift,
)

from course_lib.cluster import Adversary, adversaries, attempt, interleavings
from course_lib.cluster.comm import P2POp
from tests.tables import each_of


def inputs(ranks):
    return [torch.arange(4.0) + 10 * rank for rank in range(ranks)]


def batched_shift(comm, x):
    y = torch.empty_like(x)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for work in comm.batch_isend_irecv([P2POp(comm.isend, x, right), P2POp(comm.irecv, y, left)]):
        work.wait()
    return y


def test_there_are_eight_adversaries_without_chance():
    assert len(adversaries()) == len(set(adversaries())) == 8 and len(adversaries(streams=False)) == 6


@each_of("wrong", [{"order": "strict"}, {"depth": -1}, {"depth": float("nan")}])
def test_a_machine_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="Adversary"):
        Adversary(**wrong)


@each_of("program", [ring_all_reduce, shift])
def test_right_programs_pass(program):
    assert interleavings(program, [1, 3, 4, 5] if program is shift else [3, 4, 5], per_rank=inputs) is None


def test_a_batched_exchange_passes_even_between_two():
    assert interleavings(batched_shift, [2, 3], per_rank=inputs) is None


WRONG = [
    (overwrites_in_flight, "changed a tensor between its isend and wait()", "late"),
    (overwrites_after_posted_receives, "changed a tensor between its isend and wait()", "late"),
    (reads_before_wait, "rank 0 returns something else", "late"),
    (needs_buffering, "All of these ranks send first", "no buffering"),
]


@each_of("program, says, machine", WRONG)
def test_wrong_programs_are_caught_and_named(program, says, machine):
    case = interleavings(program, [3, 4], per_rank=inputs)
    assert case is not None and case.ranks == 3
    assert says in str(case) and machine in str(case)


def test_early_delivery_alone_does_not_catch_what_late_delivery_does():
    for program in (overwrites_after_posted_receives, reads_before_wait):
        early = [attempt(program, 3, per_rank=inputs(3), adversary=a) for a in adversaries(streams=False) if not a.late]
        assert all(run.error is None for run in early)
        assert all(torch.equal(a, b) for run in early for a, b in zip(run.results, early[0].results, strict=True))


def test_late_delivery_gives_wrong_values_even_without_the_guard_that_names_it(monkeypatch):
    from course_lib.cluster import adversary

    monkeypatch.setattr(adversary, "_identical", lambda one, two: True)
    case = interleavings(overwrites_after_posted_receives, 3, per_rank=inputs)
    assert case is not None and case.adversary.late and "returns something else" in str(case)


def test_unbatched_operations_of_one_pair_in_the_order_of_issue_lock_up():
    case = interleavings(ring_all_reduce, 2, per_rank=inputs)
    assert case is not None and case.adversary.order == "stream" and "batch_isend_irecv" in str(case)
    assert interleavings(ring_all_reduce, 2, per_rank=inputs, streams=False) is None


def first_come(comm):
    if comm.rank:
        comm.send(torch.tensor([comm.rank]), 0)
        return 0
    x = torch.zeros(1, dtype=torch.int64)
    return [comm.recv(x) for _ in range(comm.size - 1)]


def test_random_orders_are_added_only_where_order_can_matter():
    case = interleavings(first_come, 4)
    assert case is not None and case.rank == 0
    assert interleavings(lambda comm: sorted(first_come(comm)) if comm.rank == 0 else first_come(comm), 4) is None


def test_a_check_of_ones_own_decides():
    assert interleavings(shift, 3, per_rank=inputs, check=lambda run: False).message == "the result is wrong."


def test_the_smallest_number_of_ranks_that_fails_is_returned():
    def wrong_from_four(comm, x):
        return needs_buffering(comm, x) if comm.size >= 4 else shift(comm, x)

    assert interleavings(wrong_from_four, range(3, 9), per_rank=inputs).ranks == 4


def polls_a_collective(comm, x):
    """Right: computes while a reduction is under way, and looks whether it is over."""
    work, looks = comm.all_reduce(x, async_op=True), 0
    while not work.is_completed():
        looks += 1
    return x


def polls_while_another_waits(comm, x):
    """Right: rank 1 waits for what rank 0 has sent and not waited for, and rank 0 looks for rank 1's answer."""
    y = torch.empty_like(x)
    if comm.rank == 0:
        sent, answer = comm.isend(x, 1), comm.irecv(y, 1)
        while not answer.is_completed():
            pass
        sent.wait()
    elif comm.rank == 1:
        comm.recv(y, 0)
        comm.send(y + 1, 0)
    return y if comm.rank < 2 else x


@each_of("program", [polls_a_collective, polls_while_another_waits])
def test_programs_that_poll_end_on_every_machine(program):
    assert interleavings(program, [2, 3], per_rank=inputs, streams=False) is None


def test_many_looks_at_what_is_over_are_no_deadlock():
    def looks(comm):
        works = [comm.isend(torch.zeros(1), 1) if comm.rank == 0 else comm.irecv(torch.zeros(1), 0) for _ in range(50)]
        comm.barrier()
        comm.compute(1.0)
        comm.barrier()
        return sum(work.is_completed() for _ in range(100) for work in works)

    assert attempt(looks, 2).results == [5000, 5000]
