"""Chapter 09's exercises: floors and ceilings are those of real runs, and oracles those of the library."""

import pytest
import torch
from torch.nn import functional as F

from course_lib.cluster import simulate
from course_lib.exercises.ch09.judges.largest_tp import largest, product_seconds, seconds_of
from course_lib.exercises.ch09.judges.parallel_attention import _attend, _attention_piece
from course_lib.exercises.ch09.judges.regions import ring_most, traffic, whole_gradients
from course_lib.exercises.ch09.judges.verify_plan import complaints
from course_lib.tensor_parallel.traffic import tp_bytes_per_layer
from course_lib.transformer import Config, attend

# --- oracles against the real thing


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("elements", [1, 7, 24, 101])
def test_floor_and_ceiling_fit_a_real_all_reduce(n, elements):
    run = simulate(lambda comm, x: comm.all_reduce(x), n, (torch.ones(elements),))
    meter = run.meter.as_dict()
    assert traffic(meter, 2 * (n - 1) * elements * 4, ring_most(elements, 4, n)) is None
    assert sum(meter["bytes_sent"]) == 2 * (n - 1) * elements * 4


def test_attention_in_whole_is_that_of_the_transformer_and_falls_apart_into_heads():
    coin, d = torch.Generator().manual_seed(1), 4
    config = Config(hidden=16, heads=4, kv_heads=2)
    whole = {
        name: torch.randn(rows, 16, generator=coin, dtype=torch.float64)
        for name, rows in (("wq", 16), ("wk", 8), ("wv", 8), ("wo", 16))
    }
    x = torch.randn(2, 5, 16, generator=coin, dtype=torch.float64)
    q, k, v = (F.linear(x, whole[w]).unflatten(-1, (-1, d)).transpose(1, 2) for w in ("wq", "wk", "wv"))
    theirs = F.linear(attend(q, k, v, "manual").transpose(1, 2).flatten(2), whole["wo"])
    ours = _attend(d)({"x": x, **whole})
    assert config.head_dim == d and torch.allclose(ours, theirs)
    parts = sum(_attend(d)({"x": x, **_attention_piece(whole, 4, 2, rank)}) for rank in range(4))
    assert torch.allclose(parts, ours)


def test_whole_gradients_leave_the_inputs_alone():
    x = torch.ones(3, dtype=torch.float64)
    y, grads = whole_gradients(lambda w: w["x"].square(), {"x": x}, torch.ones(3))
    assert not x.requires_grad and torch.equal(grads["x"], 2 * x) and torch.equal(y, x)


def test_complaints_about_a_plan_by_hand():
    plan = {"a.*": "column", "b": "row", "c": "row"}
    whole = {"a.0": (8, 4), "a.1": (8, 4), "b": (4, 8), "d": (8, 8)}
    held = {"a.0": (4, 4), "a.1": (8, 4), "b": (2, 8), "d": (8, 8)}
    assert complaints(plan, whole, held, 2) == [("unused", "c"), ("whole", "a.1"), ("wrong side", "b")]


@pytest.mark.parametrize("ranks", [2, 8, 64])
def test_seconds_of_a_layer_are_its_bytes_over_the_bandwidth(ranks):
    want = tp_bytes_per_layer(512, 256, ranks, recompute="full") / 1e9
    assert seconds_of(512, 256, ranks, 1e9, "full") == pytest.approx(want)


def test_the_largest_number_of_ranks_meets_its_share_and_its_double_does_not():
    row = (4096, 8192, 28672, 4e14, 4.5e11, 5e10, 8, 0.2)
    best = largest(row, "none")

    def share(n):
        bandwidth = row[4] if n <= row[6] else row[5]
        return seconds_of(4096, 8192, n, bandwidth, "none") / product_seconds(4096, 8192, 28672, n, 4e14, "none")

    assert share(best) <= 0.2 < share(2 * best)
