"""Across a boundary: the same run as in one process, and nothing to gain for a worker that cheats."""

import os
import socket
import struct
import time

import pytest
import torch
from cluster_programs import (
    at_random,
    computes_while_it_passes_on,
    looks_before_wait,
    many_at_once,
    needs_buffering,
    overwrites_after_posted_receives,
    overwrites_in_flight,
    passes_on_before_wait,
    polls,
    reads_before_wait,
    reduces_before_wait,
    ring_all_reduce,
    shift,
    sums_before_wait,
    under_modes_of_its_own,
)

from course_grader.remote_ranks import remote_judge
from course_grader.remote_ranks.codec import encode
from course_grader.remote_ranks.remote_judge import Caps, judge_ranks
from course_grader.remote_ranks.remote_worker import serve_ranks
from course_grader.remote_ranks.wire import limit, tell
from course_lib.cluster import P2POp, Refused, Topology, adversaries, attempt
from course_lib.cluster.adversarial_delivery import same
from course_lib.cluster.process_tuning import on_core
from tests.patience import patience
from tests.tables import each_of


def fork(work):
    """A child that does `work(sock)` and ends; our end of the socket, and its id."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        try:
            work(theirs)
        finally:
            os._exit(0)
    theirs.close()
    return ours, pid


def across(work, ranks, apart=False, **options):
    """A run whose ranks are in one other process, or in one each."""
    forks = [fork(work) for _ in range(ranks if apart else 1)]
    try:
        socks = [sock for sock, _ in forks]
        return judge_ranks(socks if apart else socks[0], ranks, **options)
    finally:
        for sock, pid in forks:
            sock.close()
            os.waitpid(pid, 0)


def serving(program):
    return lambda sock: serve_ranks(sock, program)


def inputs(ranks):
    return [torch.arange(5.0) + 10 * rank for rank in range(ranks)]


PROGRAMS = [
    ring_all_reduce, shift, needs_buffering, overwrites_in_flight, overwrites_after_posted_receives, reads_before_wait,
    sums_before_wait, looks_before_wait, passes_on_before_wait, computes_while_it_passes_on, reduces_before_wait,
    under_modes_of_its_own, polls, many_at_once,
]  # fmt: skip


@pytest.mark.rotates("course_lib/cluster/")
@pytest.mark.parametrize("apart", [False, True], ids=["one process", "a process per rank"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_the_same_run_on_both_sides_of_a_boundary(program, apart):
    for adversary in adversaries()[:2] if apart else adversaries():
        here = attempt(program, 4, per_rank=inputs(4), topology=Topology.nodes(2), adversary=adversary)
        there = across(serving(program), 4, apart, per_rank=inputs(4), topology=Topology.nodes(2), adversary=adversary)
        assert there.state == here.state and str(there.error) == str(here.error)
        assert there.meter.as_dict() == here.meter.as_dict() and there.clock == here.clock
        assert there.spans == here.spans and there.messages == here.messages
        assert here.error is not None or all(map(same, here.results, there.results))


@pytest.mark.rotates("course_lib/cluster/")
@pytest.mark.parametrize("seed", range(60))
def test_a_run_of_halves_at_random_is_the_same_on_both_sides(seed):
    adversary = adversaries()[seed % len(adversaries())]
    here = attempt(at_random, 3, args=(seed,), adversary=adversary)
    there = across(serving(at_random), 3, True, args=(seed,), adversary=adversary)
    assert str(there.error) == str(here.error) and there.clock == here.clock
    assert there.meter.as_dict() == here.meter.as_dict()
    assert here.error is not None or all(map(same, here.results, there.results))


def rounds(comm, x, by_batch):
    """Five rounds of a ring."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for _ in range(5):
        y = torch.empty_like(x)
        halves = [P2POp(comm.isend, x, right), P2POp(comm.irecv, y, left)]
        for work in (
            comm.batch_isend_irecv(halves) if by_batch else [half.op(half.tensor, half.peer) for half in halves]
        ):
            work.wait()
        x = x + y
    return x


@pytest.mark.parametrize("by_batch", [False, True], ids=["one by one", "batch"])
@pytest.mark.parametrize("adversary", adversaries()[:4], ids=str)
def test_a_round_of_a_ring_is_one_exchange(monkeypatch, by_batch, adversary):
    asked = []
    ask = remote_judge._Judge._ask
    monkeypatch.setattr(
        remote_judge._Judge, "_ask", lambda judge, rank, reply: asked.append(rank) or ask(judge, rank, reply)
    )
    run = across(serving(lambda comm, x: rounds(comm, x, by_batch)), 4, True, per_rank=inputs(4), adversary=adversary)
    assert run.error is None
    assert (
        run.meter.as_dict() == attempt(lambda comm, x: rounds(comm, x, by_batch), 4, per_rank=inputs(4)).meter.as_dict()
    )
    assert len(asked) == 4 * (5 + 1)  # and the first, with which a rank begins


def leaves_all_open(comm, x):
    """Ends with halves under way, and with a mode of its own."""
    y = torch.zeros_like(x)
    _halves = comm.isend(x, (comm.rank + 1) % comm.size), comm.irecv(y, (comm.rank - 1) % comm.size)
    torch.device("meta").__enter__()
    return "over"


def test_nothing_that_a_rank_leaves_on_its_thread_is_there_in_the_next_run():
    modes = lambda comm: torch._C._len_torch_function_stack()  # noqa: E731
    forks = [fork(lambda sock: (serve_ranks(sock, leaves_all_open), serve_ranks(sock, modes))) for _ in range(2)]
    socks = [sock for sock, _ in forks]
    first, second = judge_ranks(socks, 2, per_rank=inputs(2)), judge_ranks(socks, 2)
    for sock, pid in forks:
        sock.close()
        os.waitpid(pid, 0)
    assert first.results == ["over", "over"] and second.results == [0, 0]


def everything(comm, x):
    other = comm.rank ^ 1
    y = torch.zeros(5)
    comm.batch_isend_irecv([])  # raises
    return x, y, other


def test_a_ranks_error_comes_over_with_its_line():
    run = across(serving(everything), 2, per_rank=inputs(2))
    assert run.state == "raised" and "empty list" in str(run.error) and "test_cluster_remote.py, line" in str(run.error)


def without_comm(comm):
    torch.distributed.all_reduce(torch.ones(1))


def test_a_rank_of_a_class_that_calls_torch_distributed_is_told_to_call_comm():
    run = across(serving(without_comm), 2)
    assert run.state == "raised" and "have no torch.distributed: call the same method of comm." in str(run.error)


def test_results_that_are_not_plain_are_that_ranks_error():
    run = across(serving(lambda comm: object()), 2)
    assert run.state == "raised" and "cross" in str(run.error)


def test_a_function_that_cannot_be_copied_is_told_to_the_judge():
    import threading

    lock = threading.Lock()
    run = across(serving(lambda comm: lock.locked()), 2)
    assert run.state == "raised" and "'lock' cannot be copied" in str(run.error)


def test_arguments_reach_only_their_own_rank():
    def peek(comm, secret):
        import gc

        mine = [
            t.tolist()
            for t in gc.get_objects()
            if isinstance(t, torch.Tensor) and t.numel() == 3 and t.dtype == torch.int16
        ]
        return sorted({tuple(t) for t in mine})

    forks = [fork(serving(peek)) for _ in range(3)]
    secrets = [torch.tensor([rank, 7, 7], dtype=torch.int16) for rank in range(3)]  # made after the forks
    run = judge_ranks([sock for sock, _ in forks], 3, per_rank=secrets)
    for sock, pid in forks:
        sock.close(), os.waitpid(pid, 0)
    assert run.results == [[(rank, 7, 7)] for rank in range(3)]


def test_a_worker_that_dies_is_crashed_and_one_that_hangs_is_timed_out():
    assert across(serving(lambda comm: os._exit(3)), 2).state == "crashed"

    def endless(comm):
        while True:
            pass

    sock, pid = fork(serving(endless))
    run = judge_ranks(sock, 2, caps=Caps(seconds=0.3))
    os.kill(pid, 9), os.waitpid(pid, 0), sock.close()
    assert run.state == "timed out"


def flood_of_batches(comm):
    x = torch.zeros(1)
    comm.batch_isend_irecv([P2POp(comm.isend, x, 1 - comm.rank)] * 1000)


@each_of(
    "program, caps, word",
    (lambda comm: [comm.barrier() for _ in range(1000)] and None, Caps(requests=100), "calls"),
    (flood_of_batches, Caps(requests=100), "calls"),
    (lambda comm: shift(comm, torch.zeros(100_000)).tolist() and None, Caps(total_bytes=10_000), "frame"),
    (lambda comm: [0] * 200_000, Caps(frame_bytes=1000), "frame"),
)
def test_floods_are_cut_off(program, caps, word):
    run = across(serving(program), 2, caps=caps)
    assert run.error is not None and word in str(run.error)


# --- a worker that speaks for itself


def speak(*frames):
    """A worker that answers the hello and each turn with given bytes, or values to encode."""

    def work(sock):
        try:
            for frame in (None, *frames):
                if frame is not None:
                    raw = frame if isinstance(frame, bytes) else encode(frame)
                    sock.sendall(struct.pack("<I", len(raw)) + raw)
                size = struct.unpack("<I", sock.recv(4, socket.MSG_WAITALL))[0]
                sock.recv(size, socket.MSG_WAITALL)
                if frame is None:
                    size = struct.unpack("<I", sock.recv(4, socket.MSG_WAITALL))[0]
                    sock.recv(size, socket.MSG_WAITALL)
        except (OSError, struct.error):
            pass

    return work


X = torch.zeros(4)
META = ("float32", (4,))
HOSTILE = {
    "no tuple": 3,
    "another rank": (1, "done", (), (), (0, None, ())),
    "bool as rank": (False, "done", (), (), (0, None, ())),
    "result without a ledger": (0, "done", (), (), 0),
    "result without hazards": (0, "done", (), (), (0, None)),
    "hazard of no kind": (0, "done", (), (), (0, None, ((0, "danced", 1, "isend", "here", "there"),))),
    "hazard of no call": (0, "done", (), (), (0, None, ((0, "read", -1, "isend", "here", "there"),))),
    "hazard without words": (0, "done", (), (), (0, None, ((0, "read", 1, "isend", 3, "there"),))),
    "more hazards than are told": (0, "done", (), (), (0, None, ((0, "read", 1, "isend", "", ""),) * 21)),
    "ledger of text": (0, "done", (), (), (0, {"peak_bytes": "0"}, ())),
    "unknown operation": (0, "bytes_sent=0", (), (), ()),
    "negative work": (0, "done", (("compute", "", -5.0),), (), (0, None, ())),
    "infinite work": (0, "done", (("compute", "", float("inf")),), (), (0, None, ())),
    "NaN work": (0, "done", (("compute", "", float("nan")),), (), (0, None, ())),
    "to itself": (0, "send", (), (), (0, 0, 0, "l", X)),
    "to nobody": (0, "send", (), (), (9, 0, 0, "l", X)),
    "to anyone": (0, "send", (), (), (-1, 0, 0, "l", X)),
    "in no group": (0, "send", (), (), (1, 0, 5, "l", X)),
    "no tensor": (0, "send", (), (), (1, 0, 0, "l", [0.0])),
    "a shape of 2**80": (0, "recv", (), (), (1, 0, 0, "l", "float32", (2**40, 2**40))),
    "unknown dtype": (0, "recv", (), (), (1, 0, 0, "l", "__class__", (4,))),
    "line that is no text": (0, "recv", (), (), (1, 0, 0, 5, "float32", (4,))),
    "wait for text": (0, "wait", (), (), ("x", "l")),
    "empty batch": (0, "batch", (), (), ()),
    "batch of sends": (0, "batch", (), (), (("send", 1, 0, 0, "l", X),)),
    "unknown collective": (0, "collective", (), (), ("rm", "", -1, (), (), ((), ()), (), False, 0, "l")),
    "collective of nothing": (
        0,
        "collective",
        (),
        (),
        ("all_reduce", "SUM", -1, (), (META,), ((), ()), (), False, 0, "l"),
    ),
    "unknown op": (0, "collective", (), (), ("all_reduce", "EVAL", -1, (X,), (META,), ((), ()), (), False, 0, "l")),
    "splits that lie": (
        0,
        "collective",
        (),
        (),
        ("all_to_all_single", "", -1, (X,), (META,), ((9,), (9,)), (), False, 0, "l"),
    ),
    "bytes that are no frame": b"\x80\x04pickle",
    "a frame of 4 GB": b"",
}


@each_of("frame", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_worker_that_breaks_the_rules_is_refused(frame):
    if frame == b"":

        def work(sock):
            sock.recv(4096)
            sock.sendall(struct.pack("<I", 2**32 - 1))
            sock.recv(1)

        run = across(work, 1)
    else:
        run = across(speak(frame), 1 if isinstance(frame, tuple) and frame[1] == "collective" else 3)
    assert isinstance(run.error, Refused) and run.state == "refused", run.error
    assert run.meter.total_bytes == 0


def test_text_of_the_worker_carries_no_control_codes():
    run = across(speak((0, "raised", (), (), ("Evil\x1b[2J", "a\x00b‮c", "l", "t\r\n"))), 1)
    assert run.state == "raised" and not set(str(run.error) + run.error.trace + run.error.kind) & set("\x1b\x00\r‮")


def test_a_renewal_cannot_change_the_size_of_what_was_sent():
    first = (0, "isend", (), (), (1, 0, 0, "l", torch.zeros(1)))
    run = across(speak(first, (0, "wait", (), ((1, torch.zeros(10**6)),), (1, "l"))), 2)
    assert run.state == "refused"


AFFINITY = getattr(os, "sched_getaffinity", lambda thread: {0})  # a system without it leaves every thread as it is


@each_of("which", [min, max])
def test_a_thread_stays_on_one_core_within_and_is_where_it_was_after(which):
    cores = AFFINITY(0)
    with pytest.raises(ZeroDivisionError), on_core(which(cores)):
        assert AFFINITY(0) == {which(cores)}
        _ = 1 / 0
    assert AFFINITY(0) == cores


def test_a_thread_without_a_core_of_its_own_is_left_where_it_is():
    cores = AFFINITY(0)
    with on_core(min(cores)), on_core(None):
        assert AFFINITY(0) == {min(cores)}
    with on_core(None):
        assert AFFINITY(0) == cores


def test_a_worker_that_takes_a_frame_a_little_at_a_time_has_no_longer_than_any_other():
    def sips(sock):
        for _ in range(100):
            time.sleep(0.05)
            sock.recv(20_000)

    ours, pid = fork(sips)
    limit(ours, 1.0)
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        tell(ours, torch.zeros(4_000_000), start + 0.5)
    assert time.monotonic() - start < patience(3)  # all of it would have taken 40 s
    ours.close()
    os.waitpid(pid, 0)
