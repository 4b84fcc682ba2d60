"""Chapter 15's exercises on steps: oracles are the library's, and recorded runs bear them out."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import exercises
from course_lib.exercises.ch15 import work
from course_lib.exercises.ch15.judges.steps import WHERE, step_times, where_it_goes
from course_lib.exercises.ch15.judges.steps_memory import SHOWN, fullest, ledger, peaks, stop_by
from course_lib.judging import judging
from course_lib.runs import intervals, money
from course_lib.runs.reading import recorded

SEEDS = [f"student-{n}" for n in range(3)]


# --- the prediction


@pytest.mark.parametrize("seed", [None, *SEEDS])
def test_what_a_prediction_is_asked_from_was_known_before_and_the_truth_is_the_recording(seed):
    card = exercises.card("predict-real-step")
    params = card.variant(seed)
    run = recorded(params["run"])
    assert all(run[of]["step_seconds"] not in params.values() for of in ("measured", "predicted"))
    contract = judging(card.id)
    assert contract.truth(params) == run["measured"]["step_seconds"]
    assert f"{contract.truth(params) / run['predicted']['step_seconds']:.2f}" in contract.reveal(params)
    floor = 6 * params["params"] * params["tokens"] / params["ranks"] / params["flops"]
    assert floor < 1.05 * contract.truth(params)  # a step is never quicker than its matmuls at their best


# --- exposed seconds

ends = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda pair: (min(pair) / 4, max(pair) / 4))
spans = st.lists(ends, max_size=8)


@given(compute=spans, talk=spans)
def test_exposed_communication_is_the_librarys(compute, talk):
    kernels = [("compute", 0, *span) for span in compute] + [("communication", 1, *span) for span in talk]
    found = step_times(kernels, 0.0, 3.0)
    assert found["exposed"] == pytest.approx(intervals.exposed({"compute": compute, "communication": talk}))
    assert found["compute"] == pytest.approx(intervals.length(intervals.union(compute)))
    assert found["exposed"] + found["hidden"] == pytest.approx(intervals.length(intervals.union(talk)))


# --- parts of a step


@pytest.mark.parametrize("warm_up", [2, 3, 4, 5])
@pytest.mark.parametrize("every", [4, 5, 8, 10])
def test_the_shown_log_tells_all_slips_apart(warm_up, every):
    card = exercises.card("where-it-goes")
    case = judging(card.id).cases({**card.params, "warm_up": warm_up, "every": every}, random.Random(1))[0]
    row = case.args[1][0]
    want = where_it_goes(*row)
    for slip in WHERE.mistakes:
        value = slip.value(*row)
        if slip.name != "only-where-present":  # the shown log has every part in every row
            assert any(not math.isclose(value[name], want[name], rel_tol=1e-3) for name in value), slip.name
    assert len([each for each in row[0][warm_up:] if "checkpoint" in each["parts"]]) == 3


def test_recorded_steps_that_tell_their_parts_leave_little_over():
    logs = work.parted()
    assert logs
    for name, rows in logs.items():
        found = where_it_goes(rows, min(3, len(rows) - 1), 8)
        assert found["other"] < 0.5 * sum(found.values()), name


# --- fullest moments


@pytest.mark.parametrize("which", work.sets_with("fsdp", "fsdp-kept"))
@pytest.mark.parametrize("name", ["fsdp", "fsdp-kept"])
def test_the_walk_comes_within_a_tenth_of_what_fsdp_really_held(which, name):
    run = recorded(f"{which}/{name}")
    parts = fullest(work.fsdp_job(run))
    assert sum(parts.values()) == pytest.approx(run["measured"]["memory_bytes"], rel=0.1)
    assert parts["gradients"] == 0  # activations are the most of it, so the peak is where the backward pass begins


def test_a_recorded_job_is_the_models():
    run = recorded("cpu4/fsdp")
    one = work.fsdp_job(run)
    assert sum(one["units"]) + one["rest"] == run["setup"]["parameters"]
    assert one["width"] * (2 * one["units"][0] + one["rest"]) == run["predicted"]["memory"]["gathered"]
    assert 4 * run["setup"]["parameters"] / one["ranks"] == run["predicted"]["memory"]["weights"]


@pytest.mark.parametrize("which", work.sets_with("pp-gpipe", "pp-1f1b"))
def test_the_formula_comes_within_a_tenth_of_a_recorded_first_stage_and_1f1b_holds_less(which):
    seen = {}
    for schedule in ("gpipe", "1f1b"):
        run = recorded(f"{which}/pp-{schedule}")
        said = peaks(work.pipeline_job(run), schedule, run["setup"]["layout"]["micro_batches"])[0]
        seen[schedule] = run["measured"]["memory_bytes"]
        assert said == pytest.approx(seen[schedule], rel=0.1), schedule
    assert seen["1f1b"] < seen["gpipe"]


# --- the bill


def test_a_ledger_adds_up_and_its_bill_is_the_librarys():
    found = ledger(SHOWN, 45.0, 8, 2.5, 15)
    assert found["total"] == pytest.approx(sum(value for name, value in found.items() if name != "total"))
    assert found["total"] == pytest.approx(money.dollars(45 * 60, 8, 2.5)) and found["rounding"] == pytest.approx(0)
    assert found["useful"] == pytest.approx(money.dollars((3 + 10 + 8) * 60, 8, 2.5))
    assert found["failed"] == pytest.approx(money.dollars(4 * 60, 8, 2.5))


@given(st.integers(1, 400), st.sampled_from([1, 4, 8]), st.sampled_from([1, 10, 60]), st.sampled_from([0, 2.5, 40]))
def test_a_stop_ordered_in_time_stays_within_the_budget_and_a_minute_later_it_does_not(budget, gpus, increment, grace):
    last = stop_by(budget, gpus, 3.0, increment, grace)
    if last is None:
        assert ledger([], max(grace, 1e-3), gpus, 3.0, increment)["total"] > budget - 1e-9
    else:
        assert last + grace == 0 or ledger([], last + grace, gpus, 3.0, increment)["total"] <= budget + 1e-9
        assert ledger([], last + grace + 1, gpus, 3.0, increment)["total"] > budget
