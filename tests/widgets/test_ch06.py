"""Chapter 06's widgets say what the library computes, at every setting of their controls."""

import pytest

from course_chapters.ch06 import widgets as ch06
from course_chapters.ch06.exercises import numbers
from course_chapters.ch06.walk import MOST_RANKS, PHASES, fill_of, tint, walk
from course_lib.cluster import collectives
from course_lib.draw.palette import contrast
from course_lib.estimate.units import BILLION, GB, MS
from tests.tables import each_of


@each_of("ranks", [2, 5, 8, MOST_RANKS])
@each_of("algorithm", PHASES)
def test_the_stepper_says_phase_and_bytes_of_every_step(algorithm, ranks):
    frames = walk(algorithm, ranks).frames
    for step in {0, 1, len(frames) // 2, len(frames) - 1}:
        said = ch06.draw_step(algorithm, ranks, step).alt
        assert f"step {step} of {len(frames) - 1}" in said
        assert step == 0 or (frames[step].phase in said and f"Most sent: {max(frames[step].sent)} B" in said)
    said = ch06.draw_step(algorithm, ranks, len(frames) - 1).alt
    assert f"{ranks * ranks} of {ranks * ranks} chunks hold the sum" in said


def test_a_step_beyond_the_last_shows_the_last():
    assert ch06.draw_step("tree", 4, 99).alt == ch06.draw_step("tree", 4, 4).alt


def test_in_a_ring_each_rank_sends_twice_the_tensor_less_two_chunks():
    assert "Most sent: 64 B = 1.6 S (each rank)" in ch06.draw_step("ring", 5, 8).alt


def test_fuller_sums_are_told_apart_and_numbers_stay_readable():
    fills = [fill_of(held, 4) for held in range(1, 5)]
    assert len(set(fills)) == 4 and fills[0] == tint(0.0)
    assert all(max(contrast("#000000", fill), contrast("#1f2328", fill)) >= 4.5 for fill in fills)


@each_of("wire", ch06.WIRES)
@each_of("ranks", [2, 64, 1024])
@each_of("nbytes", [ch06.SIZES[0], ch06.SIZES[-1]])
def test_the_race_is_won_by_the_least_time(wire, ranks, nbytes):
    times = ch06.race_times(nbytes, ranks, wire)
    latency, bandwidth = ch06.WIRES[wire]
    assert list(times.values()) == sorted(times.values()) and set(times) == set(collectives.ALL_REDUCES)
    assert times["ring"] == collectives.ring_cost(nbytes, ranks, latency, bandwidth).seconds
    assert f"{next(iter(times))} wins" in ch06.draw_race(nbytes, ranks, wire).alt


def test_small_tensors_are_won_by_few_steps_and_large_ones_by_few_bytes():
    wire = next(iter(ch06.WIRES))
    small, large = ch06.race_times(ch06.SIZES[0], 64, wire), ch06.race_times(ch06.SIZES[-1], 64, wire)
    assert small["tree"] < small["ring"] and large["ring"] < large["tree"]


@each_of("power, text", [(10, "1 KiB"), (15, "32 KiB"), (20, "1 MiB"), (34, "16 GiB"), (36, "64 GiB")])
def test_sizes_read_with_binary_prefixes(power, text):
    assert ch06._binary(power) == text


@each_of("params", [1 * BILLION, 405 * BILLION])
@each_of("ranks", [2, 64, 4096])
def test_backward_and_ring_last_as_long_at_the_break_even_whatever_the_model(params, ranks):
    tokens = numbers.break_even_tokens(50 * GB, ranks)
    backward, talk = ch06.windows(params, tokens, ranks, 50 * GB, latency=0.0)
    assert backward == pytest.approx(talk)


def test_what_the_backward_pass_does_not_hide_stands_out():
    backward, talk = ch06.windows(70 * BILLION, 1024, 64, 50 * GB)
    assert "exposed" in ch06.draw_overlap(1024, 64, 50 * GB).alt and talk > backward
    assert "all hidden" in ch06.draw_overlap(16_384, 64, 50 * GB).alt
    assert ch06.windows(1.0, 1.0, 2, 1 * GB, latency=1 * MS)[1] == pytest.approx(2 * MS, rel=1e-6)
