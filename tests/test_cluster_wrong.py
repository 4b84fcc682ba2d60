"""Wrong programs, most of them from real bug reports, and what the cluster says of each."""

import torch

from course_lib.cluster import Deadlock, Mismatch, P2POp, RankError, attempt, interleavings
from tests.tables import each_of

T = torch.ones


def even_odd_swapped(comm):
    """Both neighbors of a pair receive first."""
    other = comm.rank ^ 1
    x = T(2)
    comm.recv(x, other)
    comm.send(x, other)


def ring_of_blocking_sends(comm):
    x = T(2)
    comm.send(x, (comm.rank + 1) % comm.size)
    comm.recv(x, (comm.rank - 1) % comm.size)


def ring_without_modulo(comm):
    comm.isend(T(1), comm.rank + 1)
    comm.recv(T(1), comm.rank - 1)


def rank_zero_only_collective(comm):
    """A collective under `if rank == 0`: logging the loss."""
    if comm.rank == 0:
        comm.all_reduce(T(1))
    comm.barrier()


def early_return_on_one_rank(comm):
    """Uneven inputs: one rank runs out of batches."""
    for _ in range(3 if comm.rank else 2):
        comm.all_reduce(T(1))


def collectives_in_another_order(comm):
    if comm.rank == 0:
        comm.all_reduce(T(4))
        comm.broadcast(T(4), 0)
    else:
        comm.broadcast(T(4), 0)
        comm.all_reduce(T(4))


def other_shape(comm):
    comm.all_reduce(T(4 if comm.rank == 0 else 5))


def other_dtype(comm):
    comm.all_reduce(T(4, dtype=torch.float64 if comm.rank == 1 else torch.float32))


def other_root(comm):
    comm.broadcast(T(4), comm.rank)


def other_op(comm):
    comm.all_reduce(T(4), op="SUM" if comm.rank else "MAX")


def groups_in_another_order(comm):
    orders = ([0, 1], [1, 2]) if comm.rank < 2 else ([1, 2], [0, 1])
    for ranks in orders:
        comm.new_group(ranks)


def group_made_by_members_only(comm):
    if comm.rank < 2:
        comm.new_group([0, 1])
    comm.barrier()


def collective_outside_the_group(comm):
    comm.new_group([0, 1]).all_reduce(T(1))


def short_message(comm):
    """gloo accepts it silently."""
    if comm.rank == 0:
        comm.send(T(3), 1)
    elif comm.rank == 1:
        comm.recv(T(5), 0)


def wrong_tag(comm):
    if comm.rank == 0:
        comm.send(T(3), 1, tag=1)
    elif comm.rank == 1:
        comm.recv(T(3), 0, tag=2)


def wrong_source(comm):
    if comm.rank == 0:
        comm.send(T(3), 2)
    elif comm.rank == 2:
        comm.recv(T(3), 1)


def one_send_too_many(comm):
    if comm.rank == 0:
        [comm.isend(T(1), 1) for _ in range(3)]
    elif comm.rank == 1:
        [comm.recv(T(1), 0) for _ in range(2)]


def receive_never_filled(comm):
    if comm.rank == 1:
        comm.irecv(T(1), 0)


def send_to_itself(comm):
    comm.send(T(1), comm.rank)


def transposed_block(comm):
    if comm.rank == 0:
        comm.send(T(2, 3), 1)
    elif comm.rank == 1:
        comm.recv(T(3, 2), 0)


def python_number(comm):
    comm.all_reduce(0.5)


def result_is_none(comm):
    """all_reduce works in place and returns None."""
    loss = comm.all_reduce(T(1))
    return loss / comm.size


def ragged_all_gather(comm):
    parts = [T(1 + r) for r in range(comm.size)]
    comm.all_gather(parts, T(1 + comm.rank))


def reduce_scatter_that_does_not_divide(comm):
    comm.reduce_scatter_tensor(T(3), T(10))


def counts_not_exchanged(comm):
    n = comm.size
    rows = T(n * (comm.rank + 1), 2)
    comm.all_to_all_single(T(n * (comm.rank + 1), 2), rows)


def split_sizes_of_one_rank_missing(comm):
    comm.all_to_all_single(T(3), T(3), [3], [1, 1, 1])


def pipeline_sends_both_ways(comm):
    """1F1B steady state with send forward before receive backward on every stage."""
    x = T(4)
    if comm.rank + 1 < comm.size:
        comm.send(x, comm.rank + 1)
        comm.recv(x, comm.rank + 1)
    if comm.rank:
        comm.send(x, comm.rank - 1)
        comm.recv(x, comm.rank - 1)


def last_stage_skips_its_backward(comm):
    if comm.rank == 2:
        return
    comm.recv(T(1), comm.rank + 1)


def barrier_against_receive(comm):
    if comm.rank == 0:
        comm.recv(T(1), 1)
    comm.barrier()
    if comm.rank == 1:
        comm.send(T(1), 0)


def exchange_in_order_of_issue(comm):
    """Fine on gloo, locks up on NCCL."""
    if comm.rank == 2:
        return
    other, x = 1 - comm.rank, T(1)
    sent, got = comm.isend(x, other), comm.irecv(T(1), other)
    got.wait(), sent.wait()


def each_exchanges_with_the_next(comm):
    """A batch whose halves name no common pair: 0 exchanges with 1, 1 with 2, 2 with 0."""
    other, x = (comm.rank + 1) % comm.size, T(1)
    for work in comm.batch_isend_irecv([P2POp(comm.isend, x, other), P2POp(comm.irecv, T(1), other)]):
        work.wait()


def receives_ahead_of_sends(comm):
    """Each send is queued behind a receive of the same pair."""
    if comm.rank == 2:
        return
    got, sent = comm.irecv(T(1), 1 - comm.rank), comm.isend(T(1), 1 - comm.rank)
    got.wait(), sent.wait()


def polls_for_ever(comm):
    if comm.rank == 0:
        work = comm.irecv(T(1), 1)
        while not work.is_completed():
            pass


def batch_of_calls(comm):
    comm.batch_isend_irecv([comm.isend(T(1), (comm.rank + 1) % comm.size)])


def expanded_buffer(comm):
    comm.all_reduce(T(1).expand(4))


def unknown_operation(comm):
    comm.all_reduce(T(1), op="MEAN")


def average_of_integers(comm):
    comm.all_reduce(T(4, dtype=torch.int64), op="AVG")


def list_on_every_rank(comm):
    comm.scatter(T(1), [T(1)] * comm.size, src=0)


WRONG = [
    (
        even_odd_swapped,
        Deadlock,
        "rank 0 waits for rank 1: call 1, recv of 2 float32",
        "All of these ranks wait to receive",
    ),
    (ring_of_blocking_sends, Deadlock, "0 → 1 → 2 → 0", "All of these ranks send first"),
    (ring_without_modulo, RankError, "rank -1 does not exist among 3 ranks", "count modulo comm.size"),
    (rank_zero_only_collective, Mismatch, "rank 0 calls all_reduce(1 float32", "rank 1 calls barrier()"),
    (
        early_return_on_one_rank,
        Deadlock,
        "rank 1 waits for rank 0: call 3, all_reduce",
        "rank 0 has finished after 2 calls",
    ),
    (collectives_in_another_order, Mismatch, "collective differs in collective number 1", "in the same order"),
    (other_shape, Mismatch, "shape differs", "5 float32 in shape (5,)"),
    (other_dtype, Mismatch, "dtype differs", "rank 1 calls all_reduce(4 float64"),
    (other_root, Mismatch, "root differs", "root rank 1"),
    (other_op, Mismatch, "op differs", "MAX"),
    (groups_in_another_order, Mismatch, "ranks differs", "new_group([1, 2])"),
    (group_made_by_members_only, Mismatch, "new_group([0, 1])", "rank 2 calls barrier()"),
    (collective_outside_the_group, RankError, "rank 2 is not in the group [0, 1]", "call it only on the group's ranks"),
    (short_message, Mismatch, "size differs", "rank 1 receives into 5 float32"),
    (wrong_tag, Deadlock, "tag 2", "the tags differ"),
    (wrong_source, Deadlock, "rank 2 waits for rank 1", "rank 1 has finished after 0 calls"),
    (one_send_too_many, Mismatch, "never received: rank 0, call 3", "give it a matching recv"),
    (receive_never_filled, Mismatch, "never filled: rank 1", "wait() is missing"),
    (send_to_itself, RankError, "rank 0 is this rank itself", "copy the tensor"),
    (transposed_block, Mismatch, "shape differs", "shape (2, 3)"),
    (python_number, RankError, "not float 0.5", "wrap numbers: torch.tensor"),
    (result_is_none, RankError, "rank 0 raised TypeError", "return loss / comm.size"),
    (ragged_all_gather, RankError, "all must be alike", "use all_to_all_single, or pad"),
    (reduce_scatter_that_does_not_divide, RankError, "3 times the elements", "Pad where it does not divide"),
    (counts_not_exchanged, Mismatch, "split sizes differ", "Exchange the counts first"),
    (split_sizes_of_one_rank_missing, RankError, "output_split_sizes=[3]", "must be 3 counts"),
    (pipeline_sends_both_ways, Deadlock, "1 → 2 → 1", "Let one of them receive first"),
    (last_stage_skips_its_backward, Deadlock, "rank 2 has finished", "The other half is never posted"),
    (barrier_against_receive, Deadlock, "rank 1 waits for rank 0: call 1, barrier()", "every rank of its group"),
    (exchange_in_order_of_issue, Deadlock, "behind call 1", "batch_isend_irecv"),
    (receives_ahead_of_sends, Deadlock, "its other half is behind call 1 of rank 1", "batch_isend_irecv"),
    (each_exchanges_with_the_next, Deadlock, "0 → 1 → 2 → 0", "receive from the rank that sends to it"),
    (polls_for_ever, Deadlock, "is_completed() of irecv", "the other half is never posted"),
    (batch_of_calls, RankError, "takes P2POp(comm.isend or comm.irecv", "not <"),
    (expanded_buffer, RankError, "share memory", "receive into a full one"),
    (unknown_operation, RankError, "op='MEAN' is not one of SUM", "AVG"),
    (average_of_integers, RankError, "would round", "use SUM and divide"),
    (list_on_every_rank, RankError, "only the root passes scatter_list", "omit it"),
]


@each_of("program, kind, fault, way_out", WRONG)
def test_a_wrong_program_is_told_what_is_wrong_and_the_way_out(program, kind, fault, way_out):
    if program in (exchange_in_order_of_issue, receives_ahead_of_sends):
        assert attempt(program, 3).error is None
        error = interleavings(program, 3).run.error
    else:
        error = attempt(program, 4 if program is even_odd_swapped else 3).error
    assert type(error) is kind, error
    assert fault in str(error) and way_out in str(error), str(error)
    assert "test_cluster_wrong.py, line" in str(error)  # the learner's own line


def test_there_are_enough_of_them():
    assert len(WRONG) >= 25 and len({row[0] for row in WRONG}) == len(WRONG)
