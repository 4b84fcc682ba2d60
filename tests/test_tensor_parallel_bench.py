"""The benchmark of tensor parallelism at small sizes: parity and bytes hold, and a wrong one is told."""

import pytest

from bench import parallel_tp
from course_lib.cluster import simulate
from course_lib.model.transformer import Config


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(parallel_tp, "LOSSES", 2)
    monkeypatch.setattr(parallel_tp, "WEIGHTS", 2)
    monkeypatch.setattr(parallel_tp, "LARGE", Config(layers=1, hidden=128, heads=4, seq_len=32))


def test_parity_on_a_grid_holds_and_is_in_units_of_what_is_allowed():
    rows = parallel_tp.parity_rows("grid:", simulate, 4, parallel_tp.over_ranks, 2, True)
    assert [row.ok for row in rows] == [True] * 3 and all(0 <= row.value <= 1 for row in rows)


def without_the_sum(comm, *given):
    """Partial gradients left as they are."""
    parallel_tp.TensorParallel.finish = lambda model: None
    return parallel_tp.over_ranks(comm, *given)


def test_a_training_that_forgets_partial_gradients_misses(monkeypatch):
    monkeypatch.setattr(parallel_tp.TensorParallel, "finish", parallel_tp.TensorParallel.finish)  # set back afterwards
    rows = parallel_tp.parity_rows("grid:", simulate, 2, without_the_sum, 2, True)
    assert [row.ok for row in rows] == [False] * 3


def test_predicted_metered_and_real_bytes_agree():
    rows = parallel_tp.byte_rows(2, True)
    assert len(rows) == 6 and all(row.ok is not False for row in rows)
    assert rows[0].value == rows[1].value and rows[3].value == rows[4].value > 0


def test_bytes_that_are_not_the_predicted_ones_miss():
    assert [row.ok for row in parallel_tp._three("step", 1000, 1001, 999.0, 0.0, 10)] == [None, False, False]
    assert [row.ok for row in parallel_tp._three("step", 1000, 1000, 1020.0, 5.0, 10)][2] is False
    assert [row.ok for row in parallel_tp._three("step", 1000, 1000, None, 5.0, 10)][2] is None


def test_torchs_own_is_timed_beside_ours():
    rows = parallel_tp.time_rows(2, repeats=2)
    assert [row.unit for row in rows] == ["ms", "ms", "times"] and all(row.value > 0 for row in rows)
