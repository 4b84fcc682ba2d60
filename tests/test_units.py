"""Units: numbers as text, arguments that teach, and quantities that refuse wrong sums."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st

from course_lib.estimate import units
from course_lib.estimate.units import GB, YEAR, GB_per_rank, GiB, Quantity, require, require_whole
from tests.tables import each_of

sizes = st.floats(1e-6, 1e20, allow_nan=False)


@each_of(
    "value, text",
    (1966.07, "1,966"),
    (0.4137, "0.414"),
    (175e9, "175 billion"),
    (3.15e23, "3.15 × 10²³"),
    (999_999, "1 million"),
    (208, "208"),
    (0, "0"),
    (-5, "−5"),
    (math.inf, "∞"),
    (math.nan, "not a number"),
)
def test_numbers_read_as_people_write_them(value, text):
    assert units.number_text(value) == text


@each_of(
    "function, value, text",
    (units.bytes_text, 1.12e12, "1.12 TB"),
    (units.bytes_text, 80e9, "80 GB"),
    (units.bytes_text, 999.99e9, "1 TB"),
    (units.bytes_text, 12, "12 B"),
    (units.duration_text, 0, "0 s"),
    (units.duration_text, 8.602, "8.6 s"),
    (units.duration_text, 8.4e-3, "8.4 ms"),
    (units.duration_text, 43.4 * units.DAY, "43.4 days"),
    (units.duration_text, 499 * YEAR, "499 years"),
    (units.money_text, 2, "$2.00"),
    (units.money_text, 3e6, "$3 million"),
    (units.money_text, -4100, "−$4,100"),
    (units.percent_text, 0.3, "30 %"),
    (units.rate_text, 989e12, "989 TFLOP/s"),
    (units.rate_text, 1979e12, "1,979 TFLOP/s"),
    (units.rate_text, 24.3e18, "24.3 EFLOP/s"),
    (units.flops_text, 3.441e15, "3.44 PFLOP"),
)
def test_a_value_is_said_in_the_unit_a_person_would_choose(function, value, text):
    assert function(value) == text


def test_gb_and_gib_differ_by_seven_per_cent():
    assert GB == 1e9
    assert GiB == 2**30
    assert Quantity(80, "GiB").to("GB").value == pytest.approx(85.9, abs=0.01)


@each_of(
    "value, words",
    (0, "more than 0"),
    (-1, "more than 0"),
    (math.nan, "more than 0"),
    ("70", "a number of parameters"),
    (True, "a number"),
    (None, "a number"),
    (Quantity(70, "GB"), "plain number in base units"),
    (np.array([1.0, -1.0]), "more than 0"),
)
def test_a_refused_argument_is_named_with_its_value_and_what_it_must_be(value, words):
    with pytest.raises(ValueError, match=words) as caught:
        require("params", value, "parameters")
    assert str(caught.value).startswith("params is")


def test_a_percentage_given_as_a_share_is_told_so():
    with pytest.raises(ValueError, match=r"40 % is 0\.4"):
        require("mfu", 40, "a fraction of one", most=1.0)


def test_whole_numbers_come_back_as_ints_and_halves_are_refused():
    assert require_whole("ranks", 8.0) == 8
    assert isinstance(require_whole("ranks", 8.0), int)
    with pytest.raises(ValueError, match="whole number of ranks"):
        require_whole("ranks", 2.5, "ranks")


# --- quantities ----------------------------------------------------------------------------------


def test_gb_per_rank_and_gb_per_step_do_not_add():
    with pytest.raises(ValueError, match="byte per rank is not byte per step"):
        Quantity(16, "GB", per="rank") + Quantity(3, "GB", per="step")


@each_of("wrong", [3, Quantity(3, "TFLOP", per="rank"), Quantity(3, "GB")])
def test_what_counts_something_else_does_not_add(wrong):
    with pytest.raises(ValueError, match="Cannot add"):
        GB_per_rank + wrong
    with pytest.raises(ValueError, match="Cannot compare"):
        _ = GB_per_rank < wrong


def test_units_of_one_dimension_add_in_the_left_unit():
    total = Quantity(1, "TB") + Quantity(500, "GB")
    assert (total.value, total.unit) == (1.5, "TB")
    assert sum([Quantity(1, "GB"), Quantity(2, "GB")]) == Quantity(3, "GB")
    assert (Quantity(3, "GB") - Quantity(1, "GB")).value == 2


def test_multiplying_by_ranks_cancels_per_rank():
    whole = 17.5 * GB_per_rank * Quantity(64, "ranks")
    assert whole == Quantity(1.12, "TB")
    assert whole / GB_per_rank == Quantity(1120, "rank")


def test_flop_over_flop_per_second_is_seconds():
    seconds = Quantity(3.15e23, "FLOP") / Quantity(989, "TFLOP/s")
    assert seconds.to("years").value == pytest.approx(10.09, abs=0.01)


def test_several_pers_are_kept_apart():
    traffic = Quantity(4, "GB", per=("rank", "step"))
    assert (traffic * Quantity(10, "steps")).dimension == Quantity(1, "GB", per="rank").dimension
    assert repr(traffic) == "4 GB per rank per step"


def test_a_quantity_needs_a_number():
    with pytest.raises(ValueError, match="must be a number"):
        Quantity("16 GB")


@each_of(
    "count, words, text",
    (1, ("GPU",), "1 GPU"),
    (1.0, ("hour",), "1 hour"),
    (0, ("group",), "0 groups"),
    (0.5, ("hour",), "0.5 hours"),
    (1024, ("server",), "1,024 servers"),
    (np.int64(1), ("micro-batch", "micro-batches"), "1 micro-batch"),
    (2, ("micro-batch", "micro-batches"), "2 micro-batches"),
)
def test_a_count_has_its_noun_in_the_right_number(count, words, text):
    assert units.count_text(count, *words) == text
