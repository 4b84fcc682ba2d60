"""The capstone's library: tasks and changes, what a plan costs, the rubric, the tables of parallelisms, remedies and
conflicts."""

from dataclasses import replace

import numpy as np
import pytest

from course_lib.estimate.memory import Layout
from course_lib.estimate.units import DAY
from course_lib.operate import capstone
from course_lib.operate.capstone import CHANGES, COURSE, assess, best, changed, grade
from course_lib.parallel import planner
from tests.tables import each_of

GOOD = {"tp": 8, "pp": 4, "dp": 2, "microbatches": 256}


def test_a_plan_costs_what_the_planner_says_and_failures_add_to_it():
    found = assess(GOOD, COURSE)
    layout = Layout(**GOOD, sp=True, zero=1)
    wanted = planner.estimate(COURSE.job(), planner.cluster("64xH100"), layout)
    assert found.seconds == pytest.approx(float(wanted.seconds)) and found.memory == pytest.approx(float(wanted.memory))
    alone = COURSE.tokens / float(wanted.tokens_per_second) / DAY
    assert found.days == pytest.approx(alone / found.goodput) and 0.98 < found.goodput < 1
    assert found.usd == pytest.approx(found.days * 24 * 64 * 2.0) and found.ok
    assert sum(found.parts.values()) == pytest.approx(found.seconds)


@each_of(
    "change, problem",
    [
        ({"dp": 4}, "devices"),
        ({"dp": 1, "pp": 3}, "layout"),
        ({"tp": 4, "dp": 4, "microbatches": 128}, "memory"),
        ({"recompute": "full"}, "deadline"),
        ({"recompute": "full"}, "budget"),
        ({"tokens": 0.99 * COURSE.tokens}, "tokens"),
        ({"sequences": 480, "microbatches": 240}, "batch"),
        ({"zero": 7}, "layout"),
        ({"recompute": "some"}, "layout"),
    ],
)
def test_each_bound_is_found_broken(change, problem):
    found = assess({**GOOD, **change}, COURSE)
    assert problem in found.problems and not found.ok
    assert bool(found.reasons) == (problem in ("devices", "layout"))


def test_bounds_hold_at_the_boundary():
    found = assess(GOOD, COURSE)
    exact = replace(COURSE, days=found.days, usd=found.usd)
    assert assess(GOOD, exact).ok
    assert assess(GOOD, replace(exact, days=found.days * (1 - 1e-9))).problems == ("deadline",)
    assert assess(GOOD, replace(exact, usd=found.usd * (1 - 1e-9))).problems == ("budget",)
    fewer = {**GOOD, "sequences": 488, "microbatches": 244}  # 4.7 % fewer
    assert "batch" not in assess(fewer, COURSE).problems


def test_an_unknown_key_is_refused():
    with pytest.raises(ValueError, match="no 'sp'"):
        assess({"sp": True}, COURSE)


@each_of("seed", ["course", 0, 1, 2, 3])
def test_every_task_and_every_change_can_be_met(seed):
    task = COURSE if seed == "course" else capstone.task_of(seed)
    assert assess(best(task), task).ok and task == (COURSE if seed == "course" else capstone.task_of(seed))
    for name in CHANGES:
        now = changed(task, name)
        plan = best(now)
        found = assess({**plan, "tokens": capstone.affordable(plan, now)}, now)
        assert found.ok, (name, found.problems)


def test_changes_change_what_they_say():
    slow, half, long, lost = (changed(COURSE, name) for name in list(CHANGES)[:4])
    assert slow.hardware().across.bandwidth == COURSE.hardware().across.bandwidth / 4
    assert slow.hardware().inside == COURSE.hardware().inside and half.usd == COURSE.usd / 2
    assert long.seq * long.sequences == COURSE.seq * COURSE.sequences and lost.gpus == 56
    with pytest.raises(ValueError, match="no change"):
        changed(COURSE, "more money")


def test_the_three_exemplars_fail_the_lines_that_they_should():
    failed = {}
    for name, one in capstone.exemplars().items():
        lines = grade(COURSE, one.plan, one.claims)
        assert list(lines) == list(capstone.LINES) and len(one.notes) == 3
        failed[name] = {line for line, each in lines.items() if not each.holds}
    assert failed == {
        "good": set(),
        "broken": {"fits", "defended"},
        "wasteful": {"in time", "in budget", "no needless work"},
    }


def test_defended_numbers_need_every_claim_and_the_right_cause():
    one = capstone.exemplars()["good"]
    for change in ({"memory": 1.06 * one.claims["memory"]}, {"binding": "bubble"}, {"binding": "luck"}):
        assert not grade(COURSE, one.plan, {**one.claims, **change})["defended"].holds
    assert not grade(COURSE, one.plan)["defended"].holds
    assert grade(COURSE, one.plan, {**one.claims, "usd": 1.04 * one.claims["usd"]})["defended"].holds


def test_messages_between_servers_are_found():
    assert capstone.crossing(GOOD, COURSE) == ("dp", "pp")
    assert capstone.crossing({"tp": 16, "pp": 4, "microbatches": 512}, COURSE) == ("tp", "pp")
    assert capstone.crossing({"tp": 8, "microbatches": 512}, COURSE) == ()
    assert not grade(COURSE, {"tp": 16, "pp": 4, "microbatches": 512})["wires"].holds
    assert not grade(COURSE, {"tp": 8, "pp": 4, "dp": 2, "microbatches": 8})["bubble"].holds
    assert not any(line.holds for line in grade(COURSE, {"tp": 3}).values())


def test_the_table_of_parallelisms_agrees_with_the_closed_forms():
    rows = {row.name: row for row in capstone.parallelisms()}
    job, n = planner.Job(model="llama3-70b", seq=8192, sequences=8), 8
    params = float(planner.traffic(job, Layout(dp=n), gradient=2)["dp"]) / (2 * 2 * (n - 1) / n)
    assert rows["DP"].sent == rows["ZeRO-1"].sent == pytest.approx(2 * (n - 1) / n * 2 * params)
    assert rows["FSDP"].sent == pytest.approx(1.5 * rows["DP"].sent)  # not three times
    one = job.shape
    assert rows["TP"].sent == pytest.approx(n * one.layers * 8 * (n - 1) / n * 2 * 8192 * one.hidden)
    keys = n * one.layers * 3 * (n - 1) / n * 2 * 2 * 8192 * one.kv_width
    assert rows["CP"].sent == pytest.approx(keys + rows["DP"].sent)  # context ranks hold the same weights
    assert rows["FSDP"].state == pytest.approx(rows["DP"].state / n)
    assert rows["TP"].activations == pytest.approx(rows["DP"].activations / n, rel=0.01)
    assert min(rows.values(), key=lambda row: row.sent).name == "PP"


def test_remedies_are_ranked_by_time_and_each_frees_memory():
    found = capstone.remedies()
    assert [each.cost for each in found] == sorted(each.cost for each in found)
    assert all(each.freed > 0 for each in found) and found[-1].cost > 0.2 > found[0].cost
    assert next(each for each in found if each.name == "recompute layers").cost == pytest.approx(1 / 3, abs=0.03)


def test_the_matrix_of_conflicts_has_a_number_in_every_cell():
    cells = capstone.matrix()
    assert len(cells) == 18 and all(
        np.isfinite([cell.before, cell.after]).all() and cell.before > 0 for cell in cells.values()
    )
    times = {key: cell.times for key, cell in cells.items()}
    assert times["ZeRO-3", "data"] == pytest.approx(1.5)
    assert times["ZeRO-3", "pipeline"] == pytest.approx(1.5 * 32)  # three passes in 32 micro-batches, against two
    assert times["recomputation", "tensor"] == times["recomputation", "expert"] == pytest.approx(1.5)
    assert times["accumulation", "data"] == times["accumulation", "expert"] == pytest.approx(8)
    helped = {key for key, cell in cells.items() if not cell.fights}
    assert helped == {
        ("ZeRO-3", "expert"),
        ("recomputation", "data"),
        ("recomputation", "replicas"),
        ("accumulation", "pipeline"),
    }
    with pytest.raises(ValueError, match="no cell"):
        capstone.conflict("offload", "data")
