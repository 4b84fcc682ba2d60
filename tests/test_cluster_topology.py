"""Links and their levels, stretches of time, and circles of waiting."""

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.cluster import Deadlock, Level, Topology, Wait
from course_lib.cluster.intervals import hidden_seconds, length, overlap, union
from course_lib.cluster.records import Message, Span
from course_lib.cluster.traffic import Traffic
from tests.tables import each_of

PODS = Topology(
    (Level("device pair", 2, 1e-6, 1e9), Level("node", 4, 2e-6, 1e8), Level("pod", None, 3e-6, 1e7, shared=True))
)


@each_of(
    "src, dst, name",
    [(0, 1, "device pair"), (0, 2, "node"), (3, 0, "node"), (0, 4, "pod"), (7, 3, "pod"), (5, 4, "device pair")],
)
def test_two_ranks_meet_at_their_smallest_common_unit(src, dst, name):
    assert PODS.levels[PODS.level_of(src, dst)].name == name


def test_a_shared_port_is_that_of_the_unit_below():
    assert [PODS.port_of(rank, 2) for rank in range(8)] == [0, 0, 0, 0, 4 // 4, 1, 1, 1]
    assert [PODS.port_of(rank, 1) for rank in range(4)] == [0, 1, 2, 3]


def test_a_port_sends_and_receives_at_once_but_one_message_a_direction():
    traffic = Traffic(4, Topology.flat(latency=1.0, bandwidth=10.0))
    assert traffic.transmit(0, 1, 20, 0, 0.0, "") == 3.0
    assert traffic.transmit(1, 0, 20, 0, 0.0, "") == 3.0  # the other direction is free
    assert traffic.transmit(0, 2, 20, 0, 0.0, "") == 5.0  # 0 still sends
    assert traffic.transmit(3, 1, 20, 0, 1.0, "") == 5.0  # 1 still receives
    assert traffic.transmit(0, 1, 20, 0, 9.0, "") == 12.0


@each_of(
    "make, word",
    (lambda: Level("x", 2, -1.0, 1.0), "latency"),
    (lambda: Level("x", 2, math.nan, 1.0), "latency"),
    (lambda: Level("x", 2, 0.0, 0.0), "bandwidth"),
    (lambda: Level("x", 0, 0.0, 1.0), "ranks"),
    (lambda: Topology(()), "at least one"),
    (lambda: Topology((Level("a", 4, 0, 1), Level("b", 6, 0, 1))), "multiple"),
    (lambda: Topology((Level("a", None, 0, 1), Level("b", 8, 0, 1))), "only the last"),
    (lambda: Topology(flops=0), "positive"),
    (lambda: Topology((Level("a", 2, 0, 1),)).level_of(0, 5), "largest unit"),
)
def test_links_that_make_no_sense_are_refused_in_words(make, word):
    with pytest.raises(ValueError, match=word):
        make()


times = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda t: (min(t), max(t))), max_size=8)


@given(times, times)
def test_times_are_those_of_their_seconds(one, two):
    def seconds(stretches):
        return {t for start, end in stretches for t in range(start, end)}

    assert length(union(one)) == len(seconds(one))
    assert overlap(one, two) == len(seconds(one) & seconds(two))
    assert all(a[1] < b[0] for a, b in zip(union(one), union(one)[1:], strict=False))


@given(st.dictionaries(st.integers(0, 7), st.lists(st.integers(0, 7), max_size=3), max_size=8))
def test_a_circle_of_waiting_is_found_exactly_where_there_is_one(edges):
    waits = tuple(Wait(rank, tuple(peers), 1, "recv", "here") for rank, peers in edges.items())
    error = Deadlock(waits)

    def reaches(start):
        seen, todo = set(), list(edges.get(start, ()))
        while todo:
            rank = todo.pop()
            if rank not in seen:
                seen.add(rank)
                todo += edges.get(rank, ())
        return start in seen

    assert bool(error.cycle) == any(map(reaches, edges))
    for rank, peer in zip(error.cycle, (*error.cycle[1:], *error.cycle[:1]), strict=True):
        assert peer in edges[rank]
    assert not error.cycle or error.cycle[0] == min(error.cycle)


def test_the_order_of_sums_hides_nothing():
    waits = [Span(0, 0.1, 0.2, "wait"), Span(0, 0.2, 0.3, "wait"), Span(0, 0.7, 0.8, "wait")]
    messages = [Message(0, 0, 8, 0, span.start, span.end) for span in waits[:2]]
    assert hidden_seconds(SimpleNamespace(ranks=1, truncated=False, spans=waits, messages=messages)) == [0.0]
