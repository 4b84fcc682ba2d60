"""Chapter 07's tables, plots and runs compute what the library computes."""

import pytest
import torch

from course_chapters.ch07 import plots, runs, tables
from course_chapters.ch07.exercises import numbers
from course_lib.cluster import simulate


def test_every_rank_holds_the_same_sixteen_bytes():
    held = simulate(runs.bytes_held, 2).results
    assert held[0] == held[1] == {"weights": 4.0, "grads": 4.0, "moments": 8.0}
    assert "2 replicas" in plots.replicas(held).alt


def test_hooks_that_overlap_beat_averaging_afterwards():
    late, early = runs.timed_step(False, 4_000), runs.timed_step(True, 4_000)
    assert early.seconds < late.seconds and early.meter.bytes_sent == late.meter.bytes_sent
    assert runs.timed_hooks(runs.library_hooks).seconds == pytest.approx(early.seconds, rel=0.05)
    assert runs.forward_seconds() < early.seconds
    assert "94 % of the all-reduce hidden" in plots.computing_and_communicating({"early": early}).alt
    table = tables.bucket_sizes(late, (48_000, 10**9)).data.splitlines()
    assert len(table) == 4 and table[-1].endswith("| 1.00 | 0 % |")


def test_a_split_that_is_not_rounding_is_refused_where_it_should_be_exact():
    def gradient(dtype, sizes, weights):
        return torch.ones(4, dtype=dtype) * sum(weights)

    assert len(tables.split_batches(gradient, 16, terms=16).data.splitlines()) == 2 + 8
    with pytest.raises(AssertionError):
        tables.split_batches(lambda *given: gradient(*given) * len(given[1]), 16, terms=16)


def test_the_first_global_batch_is_the_same_on_two_and_four_ranks():
    lines = tables.samples_of_a_step(16, 8).data.splitlines()[2:]
    assert lines[0].split("|")[-2] == lines[1].split("|")[-2] != lines[2].split("|")[-2]


def test_the_scaling_tables_agree_with_the_prose():
    text = tables.strong_scaling(64, numbers.most_gpus()).data
    assert "| 100 % |" in text and "| 90 % |" in text
    assert tables.remedies().data.splitlines()[-2].endswith("| none | 100 % |")
    assert len(tables.tensor_scaling().data.splitlines()) == 2 + 6
    assert tables.plan()[0]["fits one GPU"] == "no" and tables.seconds_text(0.0) == "none"


def test_curves_that_differ_are_not_called_the_same_loss():
    losses = [4.0, 3.0, 2.0]
    same = dict.fromkeys((1, 2, 4, 8), losses)
    assert plots.same_loss(same, [4.0, 3.5, 3.0], terms=512).alt.startswith("Four curves in one")
    with pytest.raises(AssertionError):
        plots.same_loss({**same, 8: [4.0, 3.1, 2.0]}, losses, terms=512)
