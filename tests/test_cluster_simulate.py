"""simulate: ranks as threads that share nothing, whose ends are clean and whose errors say what to do."""

import math
import os
import random
import signal
import threading
import time

import numpy as np
import pytest
import torch
from cluster_programs import ring_all_reduce

from course_grader.records import Outcome
from course_grader.remote_ranks.codec import encode
from course_lib.cluster import Deadlock, Mismatch, RankError, Topology, attempt, simulate
from course_lib.cluster.comm import P2POp
from tests.tables import each_alone

BOX = {}
LOCK = threading.Lock()


class Shelf:
    """A class whose attribute would be shared, were classes not copied."""

    things: list = []


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def test_a_token_goes_round():
    def token(comm):
        x = torch.tensor([comm.rank])
        if comm.rank == 0:
            comm.send(x, 1)
            comm.recv(x, comm.size - 1)
        else:
            comm.recv(x, comm.rank - 1)
            comm.send(x + 1, (comm.rank + 1) % comm.size)
        return int(x)

    run = simulate(token, ranks=4)
    assert run.results == [3, 0, 1, 2]
    assert run.meter.bytes_sent == [8] * 4 and run.meter.messages_sent == [1] * 4
    assert run.meter.pairs == {(r, (r + 1) % 4): (8, 1) for r in range(4)}


def test_arguments_come_common_first_then_the_ranks_own():
    run = simulate(lambda comm, a, b, c: (a, b, c), 2, args=(1,), per_rank=[(2, 3), (4, 5)])
    assert run.results == [(1, 2, 3), (1, 4, 5)]
    assert simulate(lambda comm, a: a, 2, per_rank=[[1], [2]]).results == [[1], [2]]


# --- ranks share nothing


def test_globals_are_each_ranks_own():
    def cheat(comm, x):
        BOX[comm.rank] = x
        Shelf.things.append(x)
        comm.barrier()
        return sorted(BOX), len(Shelf.things)

    assert simulate(cheat, 4, per_rank=[1, 2, 3, 4]).results == [([r], 1) for r in range(4)]
    assert BOX == {} and Shelf.things == []


def test_closures_defaults_and_arguments_are_each_ranks_own():
    shelf, given = [], {"x": torch.zeros(2)}

    def cheat(comm, box, mine=[]):  # noqa: B006 - the point
        shelf.append(comm.rank)
        mine.append(comm.rank)
        box["x"] += comm.rank + 1
        comm.barrier()
        return list(shelf), list(mine), box["x"].tolist()

    results = simulate(cheat, 3, args=(given,)).results
    assert results == [([r], [r], [r + 1.0, r + 1.0]) for r in range(3)]
    assert shelf == [] and given["x"].tolist() == [0.0, 0.0]


def test_views_stay_views_of_one_memory_within_a_rank_and_are_not_shared_between():
    whole = torch.zeros(4)

    def write(comm, whole, part):
        part += comm.rank + 1
        comm.barrier()
        return whole.tolist()

    results = simulate(write, 2, args=(whole, whole[1:3])).results
    assert results == [[0, 1, 1, 0], [0, 2, 2, 0]] and whole.tolist() == [0] * 4
    assert simulate(lambda comm, one, two: one is two[0], 2, args=(whole, [whole])).results == [True, True]


@pytest.mark.parametrize("name", ["bfloat16", "bool", "complex64", "uint16", "uint64", "float8_e4m3fn", "int8"])
def test_tensors_of_every_dtype_are_copied_to_ranks(name):
    tensor = torch.ones(6, dtype=torch.uint8).to(getattr(torch, name))[::2]
    results = simulate(lambda comm, x: x, 2, args=(tensor,)).results
    assert all(x.dtype == tensor.dtype and x.stride() == (2,) and encode(x) == encode(tensor) for x in results)


def test_what_cannot_be_copied_is_named():
    lock = threading.Lock()

    def uses(comm):
        with lock:
            return comm.rank

    with pytest.raises(ValueError, match=r"outer variable 'lock' cannot be copied"):
        simulate(uses, 2)
    with pytest.raises(ValueError, match=r"the global 'LOCK' cannot be copied"):
        simulate(lambda comm: LOCK.locked(), 2)
    with pytest.raises(ValueError, match=r"args\[1\] cannot be copied"):
        simulate(lambda comm, a, b: None, 2, args=(1, lock))
    with pytest.raises(ValueError, match=r"per_rank\[1\]\[0\] cannot be copied"):
        simulate(lambda comm, a: None, 2, per_rank=[1, lock])


def test_the_communicator_leads_to_no_kernel():
    def look(comm):
        seen, todo = [], [(comm, 0)]
        while todo:
            thing, depth = todo.pop()
            for name in dir(type(thing)) if depth < 3 else ():
                if name.startswith("__"):
                    continue
                value = getattr(thing, name, None)
                seen.append(type(value).__module__ + "." + type(value).__name__)
                if type(value).__module__.startswith("course_lib"):
                    todo.append((value, depth + 1))
        return [name for name in seen if "kernel" in name.lower() or "host" in name.lower() or "Port" in name]

    assert simulate(look, 2).results == [[], []]


# --- generators


def draws(comm, seed_first):
    if seed_first:
        torch.manual_seed(comm.rank)
        np.random.seed(comm.rank)
        random.seed(comm.rank)
    out = []
    for _ in range(3):
        out += [torch.rand(1).item(), float(np.random.rand()), float(np.random.randn()), random.random()]
        comm.barrier()
        x = torch.zeros(1)
        sent = comm.isend(x, (comm.rank + 1) % comm.size)
        comm.recv(torch.empty(1), (comm.rank - 1) % comm.size)
        sent.wait()
    return out


def test_each_rank_draws_as_if_it_were_alone():
    results = simulate(draws, 3, args=(True,)).results
    for rank in range(3):
        coin = torch.Generator().manual_seed(rank)
        python = random.Random(rank)
        assert results[rank][0::4] == [torch.rand(1, generator=coin).item() for _ in range(3)]
        assert results[rank][3::4] == [python.random() for _ in range(3)]
        assert results[rank][1] == float(np.random.RandomState(rank).rand())


def test_unseeded_torch_starts_alike_on_all_ranks_and_runs_repeat():
    one, two = simulate(draws, 3, args=(False,)).results, simulate(draws, 3, args=(False,)).results
    assert one == two
    assert one[0][0] == one[1][0] == one[2][0]
    assert len({result[1] for result in one}) == len({result[3] for result in one}) == 3
    assert simulate(draws, 3, args=(False,), seed=1).results != one


def test_the_callers_generators_are_untouched():
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    want = torch.rand(1).item(), np.random.rand(), np.random.randn(), random.random()
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    simulate(draws, 2, args=(True,))
    assert (torch.rand(1).item(), np.random.rand(), np.random.randn(), random.random()) == want
    assert random.random.__self__ is random._inst


# --- errors


def send_first(comm):
    x = torch.ones(4)
    comm.send(x, (comm.rank + 1) % comm.size)
    comm.recv(x, (comm.rank - 1) % comm.size)


def test_a_deadlock_says_who_waits_for_whom_where_and_what_to_do():
    with pytest.raises(Deadlock) as told:
        simulate(send_first, 3)
    text = str(told.value)
    assert told.value.cycle == (0, 1, 2)
    assert "rank 0 waits for rank 1: call 1, send of 4 float32" in text and "0 → 1 → 2 → 0" in text
    assert f"test_cluster_simulate.py, line {send_first.__code__.co_firstlineno + 2}: comm.send(x" in text
    assert "Let one of them receive first" in text


def test_a_deadlock_of_many_ranks_is_told_of_all_and_shown_of_few():
    run = attempt(send_first, 64)
    assert isinstance(run.error, Deadlock) and len(run.waits) == 64 and len(run.error.cycle) == 64
    assert "56 more waiting ranks" in str(run.error)


def test_a_rank_that_raises_ends_the_run_with_the_learners_line_first():
    def fails(comm):
        if comm.rank == 2:
            comm.recv(torch.zeros(1), 0)
            return 1 / (comm.rank - 2)
        if comm.rank == 0:
            comm.send(torch.zeros(1), 2)
        comm.barrier()

    with pytest.raises(RankError) as told:
        simulate(fails, 4)
    error = told.value
    line = fails.__code__.co_firstlineno + 3
    assert str(error).startswith(
        f"test_cluster_simulate.py, line {line}: return 1 / (comm.rank - 2): rank 2 raised ZeroDivisionError"
    )
    assert error.rank == 2 and isinstance(error.__cause__, ZeroDivisionError)
    assert error.trace.count("File ") == 1 and "hosts.py" not in error.trace


@each_alone(
    "peer, word",
    (0, "itself"),
    (7, "does not exist"),
    (-1, "does not exist"),
    ("1", "must be an integer"),
    (True, "must be an integer"),
    (None, "must be"),
    ids=str,
)
def test_a_rank_that_cannot_be_reached_is_named(peer, word):
    with pytest.raises(RankError, match=word):
        simulate(lambda comm: comm.send(torch.zeros(1), peer) if comm.rank == 0 else None, 3)


@each_alone(
    "value, word",
    (3.0, "wrap numbers"),
    ([1.0], "takes a tensor"),
    (torch.eye(2).to_sparse(), "layout"),
    (np.array(["a"]), "cannot travel"),
    (torch.ones(2).to(torch.float8_e4m3fn), "send their bytes"),
    ids=["float", "list", "sparse", "text", "float8"],
)
def test_what_cannot_travel_is_refused_in_words(value, word):
    with pytest.raises(RankError, match=word):
        simulate(lambda comm, v: comm.send(v, 1) if comm.rank == 0 else None, 2, args=(value,))


def test_a_message_that_nobody_receives_is_an_error():
    def leaves(comm):
        if comm.rank == 0:
            comm.isend(torch.zeros(3), 1)

    with pytest.raises(Mismatch, match="never received: rank 0, call 1, isend of 3 float32"):
        simulate(leaves, 2)
    with pytest.raises(Mismatch, match="never filled"):
        simulate(lambda comm: comm.irecv(torch.zeros(3), 1) and None if comm.rank == 0 else None, 2)


def test_other_tags_are_pointed_out():
    def tags(comm):
        x = torch.zeros(1)
        if comm.rank == 0:
            comm.send(x, 1, tag=3)
        else:
            comm.recv(x, 0, tag=4)

    with pytest.raises(Deadlock, match="the tags differ"):
        simulate(tags, 2)


def test_waiting_for_a_rank_that_has_finished_says_so():
    with pytest.raises(Deadlock, match="rank 1 has finished after 0 calls"):
        simulate(lambda comm: comm.recv(torch.zeros(1), 1) and None if comm.rank == 0 else None, 2)


@pytest.mark.parametrize("ranks", [0, -3, 1.5, True, "4"], ids=str)
def test_numbers_of_ranks_that_make_no_sense(ranks):
    with pytest.raises(ValueError, match="1 or more"):
        simulate(send_first, ranks)


def test_a_polling_loop_that_cannot_end_is_a_deadlock():
    def polls(comm):
        if comm.rank == 0:
            work = comm.irecv(torch.zeros(1), 1)
            while not work.is_completed():
                pass

    with pytest.raises(Deadlock, match="is_completed"):
        simulate(polls, 2)


def test_polling_sees_the_end_of_a_transfer():
    def polls(comm):
        x = torch.full((4,), float(comm.rank))
        if comm.rank == 0:
            comm.compute(1.0)
            comm.send(x, 1)
            return 0
        work, looks = comm.irecv(x, 0), 0
        while not work.is_completed():
            looks += 1
        return looks, x.tolist()

    looks, values = simulate(polls, 2).results[1]
    assert looks > 0 and values == [0.0] * 4


def test_a_receive_from_any_rank_returns_where_it_came_from():
    def any_source(comm):
        if comm.rank:
            comm.compute(3.0 - comm.rank)
            comm.send(torch.tensor([comm.rank]), 0)
            return None
        x = torch.zeros(1, dtype=torch.int64)
        return [(comm.recv(x), int(x)) for _ in range(2)]

    run = simulate(any_source, 3)
    assert run.results[0] == [(2, 2), (1, 1)] and run.by_chance


# --- the door


def test_numpy_arrays_and_strided_tensors_are_filled_in_place():
    def swap(comm):
        if comm.rank == 0:
            comm.send(np.arange(6, dtype=np.float32).reshape(2, 3), 1)
            comm.send(torch.arange(6.0).reshape(2, 3).t(), 1)
            return None
        here, there = np.zeros((2, 3), dtype=np.float32), torch.zeros(3, 4)
        comm.recv(here, 0)
        comm.recv(there[:, ::2], 0)
        return here.tolist(), there.tolist()

    here, there = simulate(swap, 2).results[1]
    assert here == [[0, 1, 2], [3, 4, 5]]
    assert there == [[0, 0, 3, 0], [1, 0, 4, 0], [2, 0, 5, 0]]


def test_a_batch_starts_all_halves_at_once():
    def exchange(comm):
        other = 1 - comm.rank
        mine, theirs = torch.full((2,), float(comm.rank)), torch.zeros(2)
        works = comm.batch_isend_irecv([P2POp(comm.isend, mine, other), P2POp(comm.irecv, theirs, other)])
        for work in works:
            work.wait()
        return theirs.tolist()

    assert simulate(exchange, 2).results == [[1, 1], [0, 0]]


def test_virtual_time_is_spent_and_overlaps():
    def overlap(comm):
        x = torch.zeros(1000)
        if comm.rank == 0:
            work = comm.isend(x, 1)
            comm.compute(5.0, kind="forward", label="F0")
            work.wait()
        else:
            comm.recv(x, 0)

    run = simulate(overlap, 2, topology=Topology.flat(1.0, 4000.0))
    assert run.clock == [5.0, 2.0]
    assert [(s.kind, s.label) for s in run.spans if s.rank == 0] == [("forward", "F0")]


# --- endings


def test_prints_carry_the_rank(capsys):
    def talk(comm):
        print("a", end="")
        comm.barrier()
        print("b\nc")

    simulate(talk, 2)
    assert sorted(capsys.readouterr().out.splitlines()) == ["[rank 0] ab", "[rank 0] c", "[rank 1] ab", "[rank 1] c"]
    run = attempt(talk, 2, capture=10)
    assert run.output.startswith("[rank 0] a") and "left out" in run.output and capsys.readouterr().out == ""


@pytest.mark.parametrize("stubborn", [False, True], ids=["plain loop", "loop that catches everything"])
def test_an_endless_loop_is_ended_by_the_time_limit(stubborn):
    def endless(comm):
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                comm.barrier() if comm.rank else None
                sum(range(100))
            except BaseException:
                if not stubborn or time.monotonic() > until:
                    raise

    run = attempt(endless, 2, timeout=0.2)
    assert run.state == "timed out" and run.wall_seconds < 15


def test_ctrl_c_ends_every_rank():
    def endless(comm):
        if comm.rank == 0:
            while True:
                pass
        comm.barrier()

    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        simulate(endless, 4)
    timer.join()
    assert simulate(lambda comm: comm.rank, 2).results == [0, 1]


def test_a_rank_to_debug_runs_on_the_callers_thread():
    def who(comm):
        comm.barrier()
        return threading.current_thread() is threading.main_thread()

    assert simulate(who, 3, debug=1).results == [False, True, False]
    with pytest.raises(RankError):
        simulate(lambda comm: 1 / comm.rank, 2, debug=1)
    with pytest.raises(Deadlock):
        simulate(send_first, 2, debug=0)
    with pytest.raises(ValueError, match="no such rank"):
        simulate(who, 3, debug=3)


def test_ctrl_c_in_the_rank_to_debug_is_the_callers():
    def interrupted(comm):
        if comm.rank == 0:
            raise KeyboardInterrupt
        comm.barrier()

    with pytest.raises(KeyboardInterrupt):
        simulate(interrupted, 3, debug=0)


def test_a_run_inside_a_rank_is_refused():
    with pytest.raises(RankError, match="inside a rank"):
        simulate(lambda comm: simulate(lambda c: 0, 1), 2)


def test_times_do_not_depend_on_chance():
    inputs = [torch.arange(100.0) for _ in range(8)]
    one, two = (simulate(ring_all_reduce, 8, per_rank=inputs, topology=Topology.nodes(4)) for _ in range(2))
    assert one.clock == two.clock and one.spans == two.spans and one.messages == two.messages


def test_an_outcome_is_plain_data():
    from course_grader.remote_ranks.codec import decode

    outcome = Outcome.of(attempt(send_first, 2))
    assert outcome.state == "deadlock" and outcome.meter["waits"][0][:2] == (0, (1,))
    assert decode(encode(outcome.meter)) == outcome.meter
    assert Outcome.of(attempt(lambda comm: comm.rank, 2)).value == [0, 1]
    assert Outcome.of(attempt(send_first, 2, buffering=math.inf)).state == "answered"


def swap_in_place(comm, x):
    work = comm.isend(x, comm.rank ^ 1)
    comm.recv(x, comm.rank ^ 1)
    work.wait()


def test_receiving_into_a_tensor_that_is_still_being_sent_is_refused():
    with pytest.raises(RankError, match="still being sent.*wait"):
        simulate(swap_in_place, 2, per_rank=[torch.ones(3), torch.zeros(3)])


def test_halves_and_interleaved_views_of_one_tensor_may_be_sent_and_received_at_once():
    def swap(comm, x, ours, theirs):
        work = comm.isend(x[ours], comm.rank ^ 1)
        comm.recv(x[theirs], comm.rank ^ 1)
        work.wait()
        return x

    for ours, theirs in ((slice(0, 3), slice(3, 6)), (slice(0, 6, 2), slice(1, 6, 2))):
        run = simulate(swap, 2, args=(torch.arange(6.0), ours, theirs))
        assert all(torch.equal(run.results[rank][theirs], torch.arange(6.0)[ours]) for rank in (0, 1))


def test_ranks_take_turns_on_one_core_and_the_caller_may_use_all_again():
    cores = getattr(os, "sched_getaffinity", lambda thread: {0})  # a system without it leaves every thread as it is
    before = cores(0)
    found = simulate(lambda comm: sorted(cores(0)), 3).results
    assert len(found[0]) == 1 and found == [found[0]] * 3
    assert cores(0) == before


class _WithoutWords(Exception):
    def __str__(self):
        raise RuntimeError("no words for it")


def test_an_error_that_cannot_be_described_ends_the_run():
    """The other rank waits for one that is gone; the limit of time is not what ends it."""

    def program(comm):
        if comm.rank:
            raise _WithoutWords
        comm.barrier()

    with pytest.raises(RuntimeError, match="no words for it"):
        simulate(program, 2, timeout=60)
