"""A value in another unit is called by its unit, whatever the exercise, and only if every wrong value is off by that
factor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_grader.judging.unit_slips import unit_slip

KNOWN = [
    ("bytes", 1e-9, "gigabytes"),
    ("bytes", 2.0**-30, "gibibytes"),
    ("bytes", 2**30 / 1e9, "gib-for-gb"),
    ("bytes", 1e9 / 2**30, "gib-for-gb"),
    ("bytes", 8, "bits"),
    ("days", 86_400, "seconds"),
    ("days", 24, "hours"),
    ("weeks", 7, "days"),
    ("years", 365.25, "days"),
    ("FLOP/s", 1e-12, "teraflops"),
    ("(a fraction of one)", 100, "percent"),
    ("GPUs", -1, "sign"),
]
WANTS = st.lists(st.floats(1e-3, 1e15), min_size=1, max_size=5)


@pytest.mark.parametrize(("unit", "factor", "name"), KNOWN)
@given(wants=WANTS)
def test_each_slip_is_named(unit, factor, name, wants):
    found = unit_slip(unit, [want * factor for want in wants], wants)
    assert found and found[0] == name and found[1].endswith(".")


@given(wants=WANTS, factor=st.sampled_from([1e-9, 24, 100, -1]), apart=st.floats(1.01, 1.9))
def test_a_value_that_is_off_by_anything_else_is_not(wants, factor, apart):
    values = [want * factor for want in wants]
    assert unit_slip("GPUs", [abs(each) * apart for each in values], wants) is None
    assert unit_slip("bytes", [*values, wants[0] * 3.21], [*wants, wants[0]]) is None
    assert unit_slip("bytes", [None], wants[:1]) is None and unit_slip("bytes", wants, wants) is None
