"""Buckets behind a backward pass, and what is left of many GPUs' speed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_chapters.ch06.exercises.numbers import break_even_tokens
from course_lib.cluster import collectives
from course_lib.cluster.overlap import BACKWARD, bucket_times, exposed_seconds, step
from course_lib.estimate.facts import device
from course_lib.estimate.units import GB, US
from tests.tables import each_of

LAYERS = [(1e-3, 4e6)] * 12


def test_one_bucket_leaves_when_the_backward_pass_is_over():
    (only,) = bucket_times(LAYERS, 1e9, 8, 10 * US, 50 * GB)
    assert only.ready == only.start == pytest.approx(12e-3) and only.nbytes == 48e6
    assert exposed_seconds([only], 12e-3) == pytest.approx(collectives.ring_cost(48e6, 8, 10 * US, 50 * GB).seconds)


def test_a_tensor_larger_than_a_bucket_is_one_by_itself_and_the_last_layer_leaves_first():
    sent = bucket_times([(1.0, 5.0), (2.0, 50.0), (4.0, 3.0), (8.0, 4.0)], 8, 2, 0.0, 1e9)
    assert [each.nbytes for each in sent] == [7.0, 50.0, 5.0] and [each.ready for each in sent] == [12.0, 14.0, 15.0]


@given(
    tensors=st.lists(st.tuples(st.floats(0, 1), st.floats(1, 1e8)), min_size=1, max_size=20),
    room=st.floats(1, 1e9),
    ranks=st.integers(2, 100),
    latency=st.floats(0, 1e-3),
)
def test_every_byte_leaves_once_no_two_at_a_time_and_none_before_it_is_there(tensors, room, ranks, latency):
    sent, backward = bucket_times(tensors, room, ranks, latency, 50 * GB), sum(seconds for seconds, _ in tensors)
    assert sum(each.nbytes for each in sent) == pytest.approx(sum(nbytes for _, nbytes in tensors))
    assert all(each.start >= each.ready and each.end > each.start for each in sent)
    assert all(before.end <= after.start for before, after in zip(sent, sent[1:], strict=False))
    talk = sum(collectives.ring_cost(each.nbytes, ranks, latency, 50 * GB).seconds for each in sent)
    last = sent[-1].end - sent[-1].start
    assert max(last, talk - backward) <= exposed_seconds(sent, backward) * (1 + 1e-9) + 1e-9 <= talk * (1 + 1e-6) + 1e-8


def test_too_small_pays_latencies_and_too_large_starts_late():
    times = [exposed_seconds(bucket_times(LAYERS, size, 64, 10 * US, 50 * GB), 12e-3) for size in (1e6, 8e6, 48e6)]
    assert times[1] < times[0] and times[1] < times[2]


@each_of("ranks", [2, 64, 4096])
def test_at_the_break_even_nothing_is_exposed_and_just_below_something_is(ranks):
    chip = device("H100 SXM")
    tokens, real = break_even_tokens(50 * GB, ranks), chip.dense_flops * 0.4
    assert step(70e9, tokens * 1.0001, ranks, real, 50 * GB).exposed == 0
    assert step(70e9, tokens * 0.99, ranks, real, 50 * GB).exposed > 0


def test_efficiency_is_the_computing_share_and_one_gpu_sends_nothing():
    alone = step(1e9, 1000, 1, 4e14, 50 * GB)
    assert alone.talk == 0 and alone.efficiency == 1 and alone.seconds == pytest.approx(6e12 / 4e14)
    plain = step(1e9, 1000, 8, 4e14, 50 * GB, overlap=False)
    assert plain.exposed == plain.talk
    assert plain.efficiency == pytest.approx(plain.compute / (plain.compute + plain.talk))
    hidden = step(1e9, 1000, 8, 4e14, 50 * GB)
    assert hidden.exposed == pytest.approx(plain.talk - BACKWARD * plain.compute)
    assert step(1e9, 1000, 8, 4e14, 50 * GB, grad_bytes=4, overlap=False).talk == pytest.approx(2 * plain.talk)


@each_of("wrong", [{"tokens": 0}, {"ranks": 1.5}, {"flops_per_s": 0}])
def test_what_makes_no_step_is_refused(wrong):
    given_ = {"params": 1e9, "tokens": 1000, "ranks": 8, "flops_per_s": 4e14, "bandwidth": 50 * GB}
    with pytest.raises(ValueError, match=next(iter(wrong))):
        step(**{**given_, **wrong})
