"""Walls: loads, first wall and cheapest fix against brute force, and triage by its three questions."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_chapters.ch01 import walls
from course_chapters.ch01.walls import FIXES, WALLS, Job, cheapest_fix, triage
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.units import DAY, GB
from tests.tables import each_of

H100 = facts.device("H100 SXM")
BASE = Job(
    params=13e9,
    tokens=300e9,
    step_tokens=5e5,
    device_memory=80 * GB,
    flops_per_s=H100.dense_flops,
    target_step_s=10,
    deadline_s=90 * DAY,
    devices=8,
)

jobs = st.builds(
    Job,
    params=st.floats(1e8, 1e12),
    tokens=st.floats(1e9, 2e13),
    step_tokens=st.floats(1e5, 1e7),
    device_memory=st.sampled_from([40 * GB, 80 * GB, 192 * GB]),
    flops_per_s=st.sampled_from([312e12, 989e12, 2250e12]),
    target_step_s=st.floats(0.5, 100),
    deadline_s=st.floats(1 * DAY, 400 * DAY),
    devices=st.integers(1, 5000),
    mfu=st.floats(0.1, 0.6),
    sharded=st.booleans(),
    reserve=st.sampled_from([0.0, 0.25]),
)


def test_loads_of_thirteen_billion_on_eight_gpus():
    loads = walls.walls(BASE)
    assert loads.memory == pytest.approx(208 / 80)
    assert loads.compute == pytest.approx(6 * 13e9 * 5e5 / (8 * 989e12 * 0.4) / 10)
    assert loads.deadline == pytest.approx(6 * 13e9 * 300e9 / (8 * 989e12 * 0.4) / (90 * DAY))
    assert loads.first == "memory"


def test_a_load_of_exactly_one_is_a_full_budget_and_no_wall():
    full = replace(BASE, params=5e9)
    assert walls.walls(full).memory == pytest.approx(1.0)
    assert "memory" not in walls.walls(full).hit


@given(job=jobs)
def test_a_growing_model_meets_the_first_wall_first(job):
    first = walls.walls(replace(job, params=1e15)).first  # large enough to meet all three
    small = replace(job, params=1e15 / walls.walls(replace(job, params=1e15)).loads[first])
    grown = walls.walls(replace(small, params=small.params * 1.001))
    assert first in grown.hit
    assert all(grown.loads[wall] <= grown.loads[first] for wall in WALLS)


@given(job=jobs)
def test_loads_are_proportional_to_the_model(job):
    one, two = walls.walls(job).loads, walls.walls(replace(job, params=2 * job.params)).loads
    assert [two[wall] / one[wall] for wall in WALLS] == pytest.approx([2, 2, 2])


def no_wall(job: Job) -> bool:
    return max(walls.walls(job).loads.values()) <= 1 + 1e-12


@given(job=jobs, longer=st.none() | st.floats(1, 20))
def test_the_cheapest_fix_leaves_no_wall_and_nothing_cheaper_does(job, longer):
    job = replace(job, latest_s=None if longer is None else job.deadline_s * longer)
    later = replace(job, deadline_s=job.latest_s or job.deadline_s)
    tried = {"nothing": job, "shard state": replace(job, sharded=True), "longer deadline": later}
    fix = cheapest_fix(job)
    assert fix.wall == walls.walls(job).first
    assert fix.name == next((name for name, changed in tried.items() if no_wall(changed)), "more GPUs")
    assert no_wall(fix.job)
    if fix.name != "more GPUs":
        assert fix.devices == job.devices
    elif fix.devices > job.devices:
        assert not no_wall(replace(fix.job, devices=fix.devices - 1))


@each_of(
    "change, fix",
    ({"params": 1e9}, "nothing"),
    ({"target_step_s": 20}, "shard state"),
    ({"target_step_s": 20, "tokens": 5e12, "sharded": True, "latest_s": 2000 * DAY}, "longer deadline"),
    ({"target_step_s": 20, "tokens": 5e12, "sharded": True}, "more GPUs"),
    ({}, "more GPUs"),
    ({"params": 70e9}, "more GPUs"),
)
def test_each_fix_has_its_case(change, fix):
    assert cheapest_fix(replace(BASE, **change)).name == fix


def test_no_wall_means_nothing_to_do():
    done = cheapest_fix(replace(BASE, params=1e9))
    assert (done.wall, done.job.devices) == (None, 8)
    assert FIXES[0] == "nothing"


@each_of(
    "change, words",
    ({"mfu": 40}, "40 % is 0.4"),
    ({"devices": 0}, "devices is 0"),
    ({"convention": "Q"}, "No convention"),
    ({"latest_s": 1.0}, "before the deadline"),
    ({"reserve": 1.0}, "reserve is 1.0"),
)
def test_an_impossible_job_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        replace(BASE, **change)


def test_an_unknown_fix_is_refused():
    with pytest.raises(ValueError, match="choose from nothing"):
        walls.apply_fix(BASE, "buy")


# --- triage ----------------------------------------------------------------------------------------


@each_of(
    "asked, hit, first",
    ({"params": 1e9, "tokens": 1e9, "deadline_s": 30 * DAY}, (), None),
    ({"params": 70e9, "tokens": 1e9, "deadline_s": 365 * DAY}, ("memory",), "08_sharded_data_parallel"),
    ({"params": 1e9, "tokens": 2e12, "deadline_s": 7 * DAY}, ("deadline",), "07_data_parallel"),
    ({"params": 70e9, "tokens": 15e12, "deadline_s": 90 * DAY}, ("memory", "deadline"), "08_sharded_data_parallel"),
    ({"params": 8e9, "qps": 1000.0}, ("traffic",), "16_serving"),
    ({"params": 70e9, "qps": 0.1}, ("latency",), "16_serving"),
    ({"params": 8e9, "qps": 0.1, "tokens_per_s_per_user": 50.0}, (), None),
    ({"params": 8e9, "qps": 0.1, "tokens_per_s_per_user": 500.0}, ("latency",), "16_serving"),
    ({"params": 8e9}, (), None),
)
def test_triage_asks_its_questions_in_order(asked, hit, first):
    found = triage(asked.pop("params"), H100, **asked)
    assert found.hit == hit
    assert (found.first.chapter if found.first else None) == first
    assert found.advice.startswith("No wall is hit" if first is None else f"The {hit[0]} wall")


def test_triage_counts_devices_for_memory_and_deadline_together():
    found = triage(70e9, H100, tokens=15e12, deadline_s=90 * DAY)
    by_state = memory.fewest_devices(memory.state_bytes(70e9), H100.memory)
    by_time = compute.devices_for_deadline(70e9, 15e12, H100.dense_flops, 0.4, 90 * DAY)
    assert (by_state, found.devices) == (14, by_time)
    assert by_time > by_state


def test_training_without_a_deadline_is_refused():
    with pytest.raises(ValueError, match="deadline_s is 0"):
        triage(7e9, H100, tokens=1e12)
