"""The kernel alone: no threads, no sockets; requests in, replies out."""

import math

import torch

from course_lib.cluster.adversary import Adversary
from course_lib.cluster.errors import Deadlock
from course_lib.cluster.kernel import Kernel
from course_lib.cluster.protocol import End, Request
from course_lib.cluster.simulation import simulate
from course_lib.cluster.thread_host import ThreadHost, move
from course_lib.cluster.topology import Level, Topology
from tests.tables import each_of

LINK = Topology.flat(latency=1.0, bandwidth=4.0)  # 1 s a message, 4 bytes/s: times are small whole numbers


def half(rank, op, peer, tensor, tag=0, line="here"):
    sends = op in ("send", "isend")
    return Request(
        rank,
        op,
        peer,
        tag,
        tensor if sends else None,
        None if sends else tensor,
        str(tensor.dtype).removeprefix("torch."),
        tuple(tensor.shape),
        tensor.nbytes,
        line=line,
    )


def play(kernel, scripts):
    """Feed each rank's list of requests in the order in which the kernel names ranks; how it ended, and who ran
    when."""
    queues = {rank: list(script) for rank, script in enumerate(scripts)}
    order = []
    while True:
        turn = kernel.next()
        if not isinstance(turn, tuple):
            return turn, order
        rank, _ = turn
        order.append(rank)
        queue = queues[rank]
        kernel.submit(queue.pop(0) if queue else Request(rank, "done", data=rank))


def kernel_of(ranks, adversary=None, topology=LINK):
    return Kernel(ranks, topology, adversary, move, torch.clone)


def test_a_blocking_message_moves_its_bytes_and_takes_latency_plus_bytes_over_bandwidth():
    kernel, x, y = kernel_of(2), torch.arange(4.0), torch.zeros(4)
    end, _ = play(kernel, [[half(0, "send", 1, x)], [half(1, "recv", 0, y)]])
    assert end == End() and torch.equal(x, y)
    assert kernel.meter.bytes_sent == [16, 0] and kernel.meter.bytes_received == [0, 16]
    assert kernel.meter.pairs == {(0, 1): (16, 1)}
    assert kernel.state.clock.times == [5.0, 5.0] and max(kernel.state.clock.times) == 5.0


def test_a_rendezvous_starts_when_the_later_of_the_two_is_there():
    kernel, x, y = kernel_of(2), torch.zeros(1), torch.zeros(1)
    late = half(1, "recv", 0, y)
    late.work = (("compute", "", 10.0),)
    play(kernel, [[half(0, "send", 1, x)], [late]])
    assert kernel.state.clock.times == [12.0, 12.0]
    spans = {(rank, kind): (start, end) for rank, start, end, kind, _ in kernel.state.spans}
    assert spans == {(0, "send"): (0.0, 12.0), (1, "compute"): (0.0, 10.0), (1, "recv"): (10.0, 12.0)}


def test_the_rank_with_the_smallest_clock_runs_next_and_ties_go_by_rank():
    kernel = kernel_of(3)
    order = []
    spend = {0: [3.0, 3.0], 1: [2.0, 2.0], 2: [2.0, 5.0]}
    while isinstance(turn := kernel.next(), tuple):
        rank = turn[0]
        order.append(rank)
        script = spend[rank]
        request = Request(rank, "wait", handle=99) if script else Request(rank, "done")
        request.work = (("compute", "", script.pop(0)),) if script else ()
        kernel.submit(request)
    assert order == [0, 1, 2, 1, 2, 0, 1, 0, 2]


def test_two_messages_into_one_port_come_one_after_the_other():
    x = torch.zeros(4)  # 16 bytes: 4 s on the port
    kernel = kernel_of(3)
    script = [
        half(2, "irecv", 0, x.clone()),
        half(2, "irecv", 1, x.clone()),
        Request(2, "wait", handle=1),
        Request(2, "wait", handle=2),
    ]
    play(kernel, [[half(0, "send", 2, x)], [half(1, "send", 2, x)], script])
    assert kernel.state.clock.times == [5.0, 9.0, 9.0]


def test_a_shared_port_of_a_node_is_a_bottleneck_and_an_own_one_is_not():
    def time_with(shared):
        levels = (Level("node", 2, 0.0, 100.0), Level("network", None, 1.0, 4.0, shared))
        kernel, x = kernel_of(4, topology=Topology(levels)), torch.zeros(4)
        play(
            kernel,
            [
                [half(0, "send", 2, x)],
                [half(1, "send", 3, x)],
                [half(2, "recv", 0, x.clone())],
                [half(3, "recv", 1, x.clone())],
            ],
        )
        assert kernel.meter.levels == {"node": (0, 0), "network": (32, 2)}
        return max(kernel.state.clock.times)

    assert (time_with(False), time_with(True)) == (5.0, 9.0)


@each_of("depth, sent", [(0, 0), (1, 1), (2, 2), (math.inf, 5)])
def test_buffering_lets_a_sender_leave_as_many_messages_behind(depth, sent):
    kernel, x = kernel_of(2, Adversary(depth)), torch.zeros(1)
    end, order = play(kernel, [[half(0, "send", 1, x) for _ in range(5)], [Request(1, "done")]])
    assert order.count(0) == 1 + sent
    assert isinstance(end.error, Deadlock) if sent < 5 else isinstance(end, End)


@each_of("busy, ends", [(0.0, 5.0), (2.0, 5.0), (30.0, 30.0)])
@each_of("late", [False, True])
def test_a_buffered_message_travels_while_the_sender_goes_on(busy, ends, late):
    kernel, x = kernel_of(2, Adversary(math.inf, late)), torch.zeros(4)
    recv = half(1, "recv", 0, x.clone())
    recv.work = (("compute", "", busy),)
    play(kernel, [[half(0, "send", 1, x)], [recv]])
    assert kernel.state.clock.times == [0.0, ends]  # 1 s of latency and 4 s of bytes, from when it was sent


def test_an_early_buffered_message_is_read_when_it_is_sent():
    kernel, x, y = kernel_of(2, Adversary(math.inf)), torch.ones(2), torch.zeros(2)
    assert kernel.next()[0] == 0
    kernel.submit(half(0, "isend", 1, x))
    assert kernel.next()[0] == 0
    x.zero_()
    kernel.submit(Request(0, "done"))
    assert kernel.next()[0] == 1
    kernel.submit(half(1, "recv", 0, y))
    assert kernel.next()[0] == 1 and y.tolist() == [1.0, 1.0]


@each_of("late, seen", [(False, 1.0), (True, 0.0)])
def test_when_the_senders_buffer_is_read_with_the_receive_already_posted(late, seen):
    kernel, x, y = kernel_of(2, Adversary(late=late)), torch.ones(1), torch.full((1,), 7.0)
    send = half(0, "isend", 1, x)
    send.work = (("compute", "", 1.0),)  # so that the receive is there first
    play_order = {0: [send], 1: [half(1, "irecv", 0, y), Request(1, "wait", handle=1)]}
    while isinstance(turn := kernel.next(), tuple):
        rank = turn[0]
        if rank == 0 and not play_order[0]:
            x.zero_()  # after the match, before its own wait
            play_order[0] = [Request(0, "wait", handle=1)] if 1 in kernel.state.operations[0] else []
        kernel.submit(play_order[rank].pop(0) if play_order[rank] else Request(rank, "done"))
    assert y[0] == seen


def test_late_delivery_writes_the_receivers_buffer_only_at_its_own_wait():
    kernel, x, y = kernel_of(2, Adversary(late=True)), torch.ones(1), torch.full((1,), 7.0)
    # call 99 does not exist: its wait returns at once
    scripts = {
        0: [half(0, "send", 1, x)],
        1: [half(1, "irecv", 0, y), Request(1, "wait", handle=99), Request(1, "wait", handle=1)],
    }
    seen = []
    while isinstance(turn := kernel.next(), tuple):
        rank = turn[0]
        if rank == 1:
            seen.append(float(y[0]))
        kernel.submit(scripts[rank].pop(0) if scripts[rank] else Request(rank, "done"))
    assert seen == [7.0, 7.0, 7.0, 1.0]


def test_under_stream_order_a_pairs_second_operation_waits_for_its_first():
    x = torch.zeros(1)

    def exchange(rank):
        parts = [half(rank, "isend", 1 - rank, x), half(rank, "irecv", 1 - rank, x.clone())]
        return [*parts, Request(rank, "wait", handle=1), Request(rank, "wait", handle=2)]

    assert play(kernel_of(2), [exchange(0), exchange(1)])[0] == End()
    end, _ = play(kernel_of(2, Adversary(order="stream")), [exchange(0), exchange(1)])
    assert isinstance(end.error, Deadlock) and {wait.rank for wait in end.error.waits} == {0, 1}
    batched = [[Request(rank, "batch", more=exchange(rank)[:2]), *exchange(rank)[2:]] for rank in (0, 1)]
    assert play(kernel_of(2, Adversary(order="stream")), batched)[0] == End()


def test_messages_match_by_pair_and_tag_in_the_order_of_posting():
    kernel = kernel_of(2)
    one, two, three = (torch.full((1,), float(n)) for n in (1, 2, 3))
    got = [torch.zeros(1) for _ in range(3)]
    sends = [half(0, "isend", 1, one), half(0, "isend", 1, two, tag=5), half(0, "isend", 1, three)]
    recvs = [half(1, "recv", 0, got[0], tag=5), half(1, "recv", 0, got[1]), half(1, "recv", 0, got[2])]
    end, _ = play(kernel, [sends, recvs])
    assert end == End() and [float(x) for x in got] == [2.0, 1.0, 3.0]


@each_of(
    "sent, into, word",
    (torch.zeros(4), torch.zeros(3), "size"),
    (torch.zeros(4), torch.zeros(4, dtype=torch.float64), "dtype"),
    (torch.zeros(2, 3), torch.zeros(3, 2), "shape"),
)
def test_the_two_ends_of_a_message_must_agree(sent, into, word):
    end, _ = play(kernel_of(2), [[half(0, "send", 1, sent, line="A")], [half(1, "recv", 0, into, line="B")]])
    assert isinstance(end, End) and str(end.error).startswith(word)
    assert "rank 0" in str(end.error) and "A" in str(end.error) and "B" in str(end.error)


@each_of("shapes", [((4,), (2, 2)), ((2, 1, 2), (2, 2)), ((), (1,))])
def test_shapes_that_hold_the_same_row_of_numbers_agree(shapes):
    end, _ = play(
        kernel_of(2), [[half(0, "send", 1, torch.ones(shapes[0]))], [half(1, "recv", 0, torch.ones(shapes[1]))]]
    )
    assert end == End()


def test_rounds_count_the_longest_chain_of_messages():
    x = torch.zeros(1)
    chain = [
        [half(0, "send", 1, x)],
        [half(1, "recv", 0, x.clone()), half(1, "send", 2, x)],
        [half(2, "recv", 1, x.clone())],
    ]
    kernel = kernel_of(3)
    play(kernel, chain)
    assert kernel.meter.steps == [1, 2, 2]
    fan = [
        [half(0, "send", 1, x), half(0, "send", 2, x)],
        [half(1, "recv", 0, x.clone())],
        [half(2, "recv", 0, x.clone())],
    ]
    kernel = kernel_of(3)
    play(kernel, fan)
    assert kernel.meter.steps == [2, 1, 2]


def pass_around(comm):
    x = torch.full((2,), float(comm.rank))
    work = comm.isend(x, (comm.rank + 1) % comm.size)
    got = torch.empty(2)
    comm.recv(got, (comm.rank - 1) % comm.size)
    work.wait()
    return float(got.sum())


def test_the_bare_host_runs_ranks_without_anything_that_observes_them():
    kernel = Kernel(3, None, None, move)
    end = ThreadHost(kernel, dict.fromkeys(range(3), pass_around), 3).run()
    run = simulate(pass_around, 3)
    assert end == End() and kernel.state.results == run.results == [4.0, 0.0, 2.0]
    assert kernel.meter.as_dict() == run.meter.as_dict() and kernel.state.clock.times == run.clock
