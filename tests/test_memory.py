"""Memory: the conventions' table, ZeRO's published numbers, and the laws that any state must obey."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib.estimate import facts, memory
from course_lib.estimate.memory import CONVENTIONS
from course_lib.estimate.units import GB, TB
from tests.tables import each_of

letters = st.sampled_from(sorted(CONVENTIONS))
params_of = st.floats(1e6, 1e13)

# letter, weights, grads + main grads, master, moments, total, 7 B in GB, 70 B in GB, 405 B in TB, 80 GB cards
TABLE = [
    ("A", 2, 2, 0, 8, 12, 84, 840, 4.86, 61),
    ("B", 2, 2, 4, 8, 16, 112, 1120, 6.48, 81),
    ("C", 2, 4, 4, 8, 18, 126, 1260, 7.29, 92),
    ("D", 4, 4, 0, 8, 16, 112, 1120, 6.48, 81),
    ("E", 2, 6, 4, 8, 20, 140, 1400, 8.10, 102),
    ("F", 2, 2, 0, 4, 8, 56, 560, 3.24, 41),
    ("G", 2, 2, 4, 2, 10, 70, 700, 4.05, 51),
]


@each_of("letter, weights, grads, master, moments, total, gb_7, gb_70, tb_405, cards", TABLE)
def test_every_number_of_the_conventions_table(
    letter, weights, grads, master, moments, total, gb_7, gb_70, tb_405, cards
):
    one = CONVENTIONS[letter]
    assert (one.weights, one.grads + one.main_grads, one.master, one.moments) == (weights, grads, master, moments)
    assert memory.bytes_per_param(letter) == total
    assert memory.state_bytes(7e9, letter) / GB == pytest.approx(gb_7)
    assert memory.state_bytes(70e9, letter) / GB == pytest.approx(gb_70)
    assert memory.state_bytes(405e9, letter) / TB == pytest.approx(tb_405)
    assert memory.fewest_devices(memory.state_bytes(405e9, letter), 80 * GB) == cards


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_table_1_for_seven_and_a_half_billion_on_64(stage, gigabytes):
    assert memory.zero_bytes(7.5e9, stage, 64) / GB == pytest.approx(gigabytes, abs=0.05)


@each_of(
    "letter, stage, expected",
    ("A", 1, 4.125),
    ("A", 2, 2.15625),
    ("A", 3, 0.1875),
    ("B", 1, 4.1875),
    ("B", 2, 2.21875),
    ("B", 3, 0.25),
    ("C", 1, 6.1875),
    ("C", 2, 2.25),
    ("C", 3, 0.28125),
    ("D", 1, 8 + 8 / 64),
    ("E", 1, 4 + 16 / 64),
)
def test_zero_under_other_conventions_on_64_ranks(letter, stage, expected):
    # C, D and E are also what NVIDIA's documentation prints: 6+12/d, 8+8/d, 4+16/d
    assert memory.zero_bytes_per_param(stage, 64, letter) == expected


def test_thirteen_billion_leave_the_published_headroom():
    state = memory.state_bytes(13e9)
    assert state == 208 * GB
    assert memory.fewest_devices(state, 80 * GB) == 3
    left = [memory.headroom_bytes(state, 80 * GB, devices) / GB for devices in (3, 4, 8)]
    assert left == pytest.approx([10.7, 28.0, 54.0], abs=0.05)


def test_largest_models_of_three_cards():
    fits = [memory.largest_model(facts.device(name).memory) / 1e9 for name in ("H100 SXM", "H200 SXM", "B200 SXM")]
    assert fits == pytest.approx([5.0, 8.8, 11.25], abs=0.05)
    assert memory.largest_model(192 * GB) == 12e9


@each_of("dtype, gigabytes", [("bf16", 140), ("fp32", 280), ("int8", 70), ("int4", 35)])
def test_weights_of_seventy_billion(dtype, gigabytes):
    assert memory.weights_bytes(70e9, dtype) == gigabytes * GB


def test_a_checkpoint_leaves_gradients_out():
    assert [CONVENTIONS[letter].checkpoint for letter in "ABCD"] == [10, 12, 12, 12]


# --- laws ------------------------------------------------------------------------------------------


@given(letter=letters, params=params_of, ranks=st.integers(1, 4096))
def test_more_sharding_never_holds_more(letter, params, ranks):
    stages = [memory.zero_bytes(params, stage, ranks, letter) for stage in range(4)]
    assert all(after <= before * (1 + 1e-12) for before, after in zip(stages, stages[1:], strict=False))
    assert stages[0] == pytest.approx(memory.state_bytes(params, letter))
    assert stages[3] * ranks == pytest.approx(stages[0])


@given(letter=letters, params=params_of, stage=st.integers(0, 3))
def test_one_rank_shards_nothing(letter, params, stage):
    assert memory.zero_bytes(params, stage, 1, letter) == pytest.approx(memory.state_bytes(params, letter))


@given(letter=letters, params=params_of)
def test_the_buckets_add_up_to_the_state(letter, params):
    assert sum(memory.state_by_bucket(params, letter).values()) == pytest.approx(memory.state_bytes(params, letter))


@given(cards=st.integers(1, 10_000), size=st.floats(1e9, 1e12))
def test_what_fits_exactly_needs_no_further_device(cards, size):
    assert memory.fewest_devices(cards * size, size) == cards
    assert memory.fewest_devices(cards * size * 1.0001, size) == cards + 1


@given(letter=letters, memory_bytes=st.floats(1e9, 1e13))
def test_the_largest_model_just_fits_one_device(letter, memory_bytes):
    most = memory.largest_model(memory_bytes, letter)
    assert memory.fewest_devices(memory.state_bytes(most, letter), memory_bytes) == 1
    assert memory.fewest_devices(memory.state_bytes(1.01 * most, letter), memory_bytes) == 2


def test_a_reserve_leaves_less_room():
    assert memory.fewest_devices(160 * GB, 80 * GB) == 2
    assert memory.fewest_devices(160 * GB, 80 * GB, reserve=0.25) == 3


def test_arrays_are_answered_with_arrays():
    models = np.array([7e9, 70e9])
    assert memory.state_bytes(models).tolist() == [112 * GB, 1120 * GB]
    assert memory.fewest_devices(memory.state_bytes(models), 80 * GB).tolist() == [2, 14]


# --- what it refuses -------------------------------------------------------------------------------


@each_of(
    "call, words",
    (lambda: memory.bytes_per_param("Z"), "B = mixed precision as in ZeRO"),
    (lambda: memory.state_bytes(-1), "params is -1"),
    (lambda: memory.weights_bytes(70e9, "float16"), "choose from fp64"),
    (lambda: memory.zero_bytes(7e9, 4, 8), "stages 1, 2 and 3"),
    (lambda: memory.zero_bytes(7e9, 1, 0), "ranks is 0"),
    (lambda: memory.fewest_devices(1e9, 80e9, reserve=25), "fraction of one"),
)
def test_a_wrong_request_is_answered_with_the_way_out(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_one_gathered_layer_of_405_billion_fits_easily():
    assert memory.gathered_layer_bytes(facts.model("llama3-405b")) / GB == pytest.approx(6.4, abs=0.05)
    assert memory.gathered_layer_bytes(facts.model("llama3-70b")) / GB == pytest.approx(1.75, abs=0.05)
    assert math.isclose(
        memory.gathered_layer_bytes(facts.model("llama3-70b"), "fp32"),
        2 * memory.gathered_layer_bytes(facts.model("llama3-70b")),
    )
