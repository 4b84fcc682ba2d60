"""Chapter 07's widgets and pictures say what the library computes, at every setting of their controls."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from course_chapters import running_example as numbers
from course_chapters.ch07 import bucket_film
from course_chapters.ch07 import widgets as ch07
from course_chapters.ch07.exercises import numbers as prose
from course_chapters.ch07.split_batch import PARTS, mean, split_batch
from course_lib.cluster import overlap
from course_lib.cluster.records import Message, Span
from course_lib.draw import lanes, panels
from course_lib.estimate.facts import device
from course_lib.estimate.units import GB, US
from tests.tables import each_alone, each_of

# --- the life of a bucket ------------------------------------------------------------------------


@each_of("way", bucket_film.WAYS)
def test_the_film_shows_each_gradient_as_the_run_had_it(way):
    run, buckets, times = bucket_film.film(way)
    computed = run.results[0]
    assert [place for bucket in buckets for place in bucket.places] == list(range(len(computed.ready)))
    assert (
        times.end == pytest.approx(run.seconds)
        and times.exposed == ()
        or (sum(stop - start for start, stop in times.exposed) == pytest.approx(run.exposed()[0]))
    )
    for now in [run.seconds * share / 7 for share in range(9)]:
        states = bucket_film.state_of(computed, buckets, now)
        for state, each in zip(states, computed.ready, strict=True):
            assert (state == "no gradient yet") == (each.seconds > now)
        arrived = {message.tag for message in run.messages} - {one.tag for one in run.messages if one.arrived > now}
        done = sum(each.nbytes for state, each in zip(states, computed.ready, strict=True) if state == "averaged")
        moved = sum(message.nbytes for message in run.messages if message.tag in arrived)
        assert moved == 2 * (run.ranks - 1) * done  # of all-reduces that are complete, each byte of a ring
    for bucket in buckets:  # it starts once its last gradient is complete, up to the rounding of a sum of times
        assert computed.ready[bucket.places[-1]].seconds <= bucket.start + 1e-12 < bucket.end


# --- buckets -------------------------------------------------------------------------------------


@each_of("ranks", [2, 64, 1024])
@each_of("bucket", [ch07.BUCKETS[0], 25 * ch07.MIB, ch07.BUCKETS[-1]])
def test_the_bucket_picture_says_count_and_exposed_time(bucket, ranks):
    tensors = ch07.matrices(24, 8192)
    sent = overlap.bucket_times(tensors, bucket, ranks, 2 * US, 50 * GB)
    exposed = overlap.exposed_seconds(sent, sum(seconds for seconds, _ in tensors))
    said = ch07.draw_buckets(bucket, ranks=ranks).alt
    assert said.startswith(f"{len(sent):,} bucket") and f"{ch07.duration_text(exposed)} of " in said


def test_the_curve_has_its_least_between_the_ends_and_the_picture_names_it():
    exposed = ch07.exposed_by_size(24, 8192, 64, 2 * US, 50 * GB)
    best = int(np.argmin(exposed))
    assert 0 < best < len(exposed) - 1 and exposed[best] < min(exposed[0], exposed[-1]) / 2
    assert f"near {ch07._size(ch07._SIZES[best])}" in ch07.draw_buckets().alt


def test_without_latency_no_bucket_is_too_small():
    exposed = ch07.exposed_by_size(24, 8192, 64, 0.0, 50 * GB)
    assert list(exposed) == sorted(exposed)


def test_a_layer_has_its_bytes_and_its_share_of_the_backward_pass():
    tensors = ch07.matrices(6, 1024)
    params = 12 * 6 * ch07.WIDTH**2
    assert sum(nbytes for _, nbytes in tensors) == 2 * params
    real = device("H100 SXM").dense_flops * numbers.MFU
    assert sum(seconds for seconds, _ in tensors) == pytest.approx(4 * params * 1024 / real)


# --- how many GPUs a batch can feed --------------------------------------------------------------


@each_of("batch", [1 * ch07.MI, 16 * ch07.MI])
@each_of("hide", [True, False])
def test_the_last_count_above_the_line_is_the_last(batch, hide):
    most = prose.most_gpus(0.9, batch, hide=hide)
    assert (
        prose.step_on(most, batch, hide=hide).efficiency >= 0.9 > prose.step_on(most + 1, batch, hide=hide).efficiency
    )


def test_the_scaling_picture_says_share_length_and_limit():
    said = ch07.draw_scaling(1024).alt
    share = prose.step_on(1024).efficiency
    assert ch07.percent_text(share, 2) in said and f"up to {prose.most_gpus():,} GPUs" in said
    shorter, run = prose.run_seconds(1024, share), prose.run_seconds(1024)
    assert f"{ch07.duration_text(shorter)} instead of {ch07.duration_text(run)}" in said


def test_wider_gradients_and_no_hiding_never_help_and_larger_batches_do():
    base = prose.step_on(2048, 8 * ch07.MI)
    assert prose.step_on(2048, 8 * ch07.MI, grad_bytes=4.0).efficiency < base.efficiency
    assert prose.step_on(2048, 8 * ch07.MI, hide=False).efficiency < base.efficiency
    assert base.efficiency < prose.step_on(2048, 16 * ch07.MI).efficiency


# --- computing beside talking --------------------------------------------------------------------


def run_of(work, travels):
    spans = [Span(0, a, b, "compute") for a, b in work] + [Span(1, 0.0, 9.0, "compute"), Span(0, 5.0, 6.0, "wait")]
    return SimpleNamespace(spans=spans, messages=[Message(0, 1, 8, 0, a, b) for a, b in travels])


@each_alone(
    "travels, exposed, share",
    pytest.param([(1.0, 3.0)], (), 1.0, id="all hidden"),
    pytest.param([(4.0, 6.0)], ((4.0, 6.0),), 0.0, id="all afterwards"),
    pytest.param([(3.0, 5.0), (1.0, 2.0)], ((4.0, 5.0),), 2 / 3, id="half of the last"),
    pytest.param([], (), 1.0, id="nothing sent"),
    pytest.param([(1.0, 2.5), (2.0, 3.0), (3.0, 3.5)], (), 1.0, id="two at a time count once"),
)
def test_what_sticks_out_of_computing_is_exposed(travels, exposed, share):
    shown = lanes.lanes_of(run_of([(0.0, 2.0), (2.0, 4.0)], travels), forward=1.0)
    assert shown.exposed == exposed and shown.hidden_share == pytest.approx(share)
    assert shown.work == ((0.0, 1.0, "forward"), (1.0, 4.0, "backward"))


def test_a_gap_in_computing_exposes_what_the_wire_carries_then():
    shown = lanes.lanes_of(run_of([(0.0, 1.0), (2.0, 4.0)], [(0.5, 3.0)]))
    assert shown.exposed == ((1.0, 2.0),) and shown.hidden_share == pytest.approx(0.6)


def test_the_picture_says_name_length_and_share():
    hidden, late = (
        lanes.lanes_of(run_of([(0.0, 4.0)], [way]), name=name) for name, way in (("early", (1, 3)), ("late", (4, 6)))
    )
    said = lanes.computing_beside_talking([hidden, late], "Two").alt
    assert "early: 4 s, 100 % of the all-reduce hidden" in said and "late: 6 s, 0 %" in said
    with pytest.raises(ValueError, match="nothing to show"):
        lanes.computing_beside_talking([])


# --- panels, and the still picture ---------------------------------------------------------------


def test_a_panel_puts_the_ends_of_its_ranges_into_its_corners_and_cuts_off_what_passes():
    panel = panels.Panel(1.0, 2.0, 4.0, 3.0, (0, 10), (5, 1))
    assert panel.at(0, 5).tolist() == [1.0, 2.0] and panel.at(10, 1).tolist() == [5.0, 5.0]
    assert panel.at([-3, 99], 5).tolist() == [[1.0, 2.0], [5.0, 2.0]]


@each_of("top", [0.7, 1, 3.2, 49, 50, 1234.5])
def test_marks_are_round_few_and_within(top):
    found = panels.marks(top, 5)
    assert found[0.0] == "0" and max(found) <= top * (1 + 1e-9) and 2 <= len(found) <= 6
    step = sorted(found)[1]
    assert round(step / 10 ** math.floor(math.log10(step) + 1e-9), 6) in (1, 2, 5)


def test_the_still_picture_is_the_property():
    whole = tuple(number for part in PARTS for number in part)
    assert mean(tuple(mean(part) for part in PARTS)) == mean(whole)
    assert f"the mean of their gradients is {mean(whole):g}" in split_batch().alt


# --- numbers in the prose ------------------------------------------------------------------------


@each_of(
    "name, text",
    ("state", "1.12 TB"),
    ("one_gpu", "505 years"),
    ("ideal", "180 days"),
    ("plan_tokens", "65,536 tokens"),
    ("too_much", "14"),
    ("seen_kept", "39 %"),
)
def test_numbers_that_were_worked_out_by_hand(name, text):
    assert prose.NUMBERS[name]() == text
