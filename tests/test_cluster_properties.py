"""Random programs: with named sources and no polling, neither order nor buffers nor lateness changes what a program
computes."""

import math

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from course_lib.cluster import Adversary, Deadlock, Topology, adversaries, attempt
from course_lib.cluster.adversarial_delivery import same

CALM = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def programs(draw):
    """For each rank a list of steps: ("send" | "isend" | "recv" | "irecv", message) and ("wait", message).

    Messages are (number, src, dst, tag, size). Every rank has its halves in an order of its own, so that some lock up.
    """
    ranks = draw(st.integers(2, 4))
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=6))
    messages = [(i, *pair, draw(st.integers(0, 1)), draw(st.integers(0, 3))) for i, pair in enumerate(chosen)]
    steps = []
    for rank in range(ranks):
        mine = [m for m in messages if rank in m[1:3]]
        if draw(st.integers(0, 3)) == 0:
            mine = draw(st.permutations(mine))
        list_, open_ = [], []
        for message in mine:
            blocking = draw(st.booleans())
            half = ("" if blocking else "i") + ("send" if message[1] == rank else "recv")
            list_.append((half, message))
            if not blocking:
                open_.append(message)
            while open_ and draw(st.booleans()):
                list_.append(("wait", open_.pop(draw(st.integers(0, len(open_) - 1)))))
        steps.append(list_ + [("wait", message) for message in open_])
    # two ends of a pair and tag must name the sizes in one order: let all messages of a pair have one size
    sizes = {}
    fixed = [[(op, (*m[:4], sizes.setdefault((m[1], m[2], m[3]), m[4]))) for op, m in row] for row in steps]
    return fixed


def play(comm, steps):
    """Run a rank's steps; what it received, which depends on what it had received before it sent."""
    total = torch.full((1,), float(comm.rank + 1))
    got, works = [], {}
    for op, (number, src, dst, tag, size) in steps[comm.rank]:
        if op in ("send", "isend"):
            x = total.repeat(size + 1) + number
            work = getattr(comm, op)(x, dst, tag=tag)
            works[number] = (work, None)
        elif op in ("recv", "irecv"):
            y = torch.zeros(size + 1)
            work = getattr(comm, op)(y, src, tag=tag)
            works[number] = (work, y)
        if op == "wait":
            works[number][0].wait()
        if op in ("recv", "wait") and works[number][1] is not None:
            y = works[number][1]
            got.append((number, y.tolist()))
            total = total * 2 + y.sum()
    return got


def outcome(steps, adversary):
    run = attempt(play, len(steps), args=(steps,), adversary=adversary)
    assert run.error is None or isinstance(run.error, Deadlock), run.error
    return run


@CALM
@given(programs())
def test_the_order_in_which_ranks_run_never_decides(steps):
    runs = [outcome(steps, Adversary(0, seed=seed)) for seed in range(4)] + [outcome(steps, Adversary(0))]
    assert len({run.state for run in runs}) == 1
    if runs[0].error is None:
        assert all(same(run.results, runs[0].results) and run.meter.pairs == runs[0].meter.pairs for run in runs)


@CALM
@given(programs())
def test_what_ends_without_buffers_ends_the_same_with_them_early_or_late(steps):
    strict = outcome(steps, Adversary(0))
    for adversary in adversaries(streams=False):
        run = outcome(steps, adversary)
        if strict.error is None:
            assert run.error is None and same(run.results, strict.results)
    lenient = outcome(steps, Adversary(math.inf))
    for adversary in adversaries():
        run = outcome(steps, adversary)
        assert run.error is not None or same(run.results, lenient.results)


@CALM
@given(programs())
def test_clock_and_meter_keep_their_books(steps):
    run = attempt(play, len(steps), args=(steps,), topology=Topology.nodes(2))
    if run.error is not None:
        return
    meter, times = run.meter, run.topology
    assert sum(meter.bytes_sent) == sum(meter.bytes_received) == sum(m.nbytes for m in run.messages)
    assert len(run.messages) == sum(meter.messages_sent) == sum(n for _, n in meter.levels.values())
    for message in run.messages:
        level = times.levels[times.level_of(message.src, message.dst)]
        least = level.latency + message.nbytes / level.bandwidth
        assert message.arrived - message.sent >= least * (1 - 1e-9) and message.arrived <= run.seconds * (1 + 1e-9)
    for rank in range(run.ranks):
        spans = sorted((s.start, s.end) for s in run.spans if s.rank == rank)
        assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))  # a rank does one thing at a time
        assert not spans or spans[-1][1] <= run.clock[rank]


@settings(max_examples=8, deadline=None)
@given(programs())
def test_a_boundary_changes_nothing(steps):
    from test_cluster_remote import across, serving

    for adversary in (Adversary(0), Adversary(1, late=True)):
        here = attempt(play, len(steps), args=(steps,), adversary=adversary)
        there = across(serving(play), len(steps), args=(steps,), adversary=adversary)
        assert there.state == here.state and str(there.error) == str(here.error)
        assert there.clock == here.clock and there.meter.as_dict() == here.meter.as_dict()
        assert here.error is not None or same(there.results, here.results)
