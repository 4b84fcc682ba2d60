"""The capstone's library: tasks and changes, what a plan costs, the rubric, the tables of parallelisms, remedies and
conflicts."""

import json
from dataclasses import replace

import numpy as np
import pytest

from course_chapters.ch17 import mechanisms, rubric
from course_lib.estimate.memory import Layout
from course_lib.estimate.units import DAY
from course_lib.operate import capstone, faults
from course_lib.operate.capstone import CHANGES, COURSE, assess, best, changed
from course_lib.operate.capstone.failure_log import weak_part
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
    ({"dp": 4}, "devices"),
    ({"dp": 1, "pp": 3}, "layout"),
    ({"tp": 4, "dp": 4, "microbatches": 128}, "memory"),
    ({"recompute": "full"}, "deadline"),
    ({"recompute": "full"}, "budget"),
    ({"tokens": 0.99 * COURSE.tokens}, "tokens"),
    ({"sequences": 480, "microbatches": 240}, "batch"),
    ({"zero": 7}, "layout"),
    ({"recompute": "some"}, "layout"),
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


def test_every_change_of_the_course_s_job_can_be_met():
    assert assess(best(COURSE), COURSE).ok
    for name in CHANGES:
        now = changed(COURSE, name)
        plan = best(now)
        found = assess({**plan, "tokens": capstone.affordable(plan, now)}, now)
        assert found.ok, (name, found.problems)


def test_a_config_of_one_s_own_is_a_job_whose_best_plan_just_fits(tmp_path):
    shape = {"num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32}
    config = {"model_type": "llama", "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(shape | config))
    task = capstone.own_task(str(path), "24xH100", seq=8192, sequences=96, billions=40)
    found = assess(best(task), task)
    assert found.ok and task.days == pytest.approx(1.05 * found.days) and task.usd == pytest.approx(1.05 * found.usd)


def test_a_log_shows_its_weak_part_and_whoever_keeps_it_fails_more_often():
    for servers, seed, part, count in ((13, 12, "server 7", 1), (16, 5, "switch 2", 4), (12, 1, "none", 0)):
        log = capstone.drawn_log(servers, seed)
        assert weak_part(log)[0] == part and len(weak_part(log)[1]) == count
        kept, left = set(range(servers)), set(range(servers)) - set(weak_part(log)[1])
        assert log.seconds_between(kept) * (5 if count else 1) <= log.seconds_between(left)
        assert str(log).count("server") == len(log.failures)
    assert capstone.drawn_log(2, 0).failures


def test_a_plan_leaves_servers_out_and_loses_time_to_failures_and_checkpoints():
    task = replace(COURSE, cluster="72xH100", log=capstone.drawn_log(9, 3))
    [weak] = weak_part(task.log)[1]
    kept, left = assess(GOOD, task), assess({**GOOD, "without": [weak]}, task)
    assert kept.seconds == left.seconds and kept.days > 1.05 * left.days
    assert assess({**GOOD, "without": [weak, 0 if weak else 1]}, task).problems == ("devices",)
    gone = assess({**GOOD, "without": [weak, 9]}, task)
    assert gone.problems == ("servers",) and gone.reasons == ("there is no server 9; the servers are 0 to 8",)
    for odd in (7, "7", [True], None):
        with pytest.raises(ValueError, match=r"without is .*; it is a list of numbers of servers"):
            assess({**GOOD, "without": odd}, task)
    minutes = faults.best_interval(left.saving, left.between) / 60
    often = [assess({**GOOD, "without": [weak], "checkpoint_minutes": by * minutes}, task).days for by in (0.1, 1, 10)]
    assert often[1] < min(often[0], often[2])


def test_a_reason_is_what_the_neighbor_breaks_and_an_axis_that_earns_nothing_has_none():
    assert capstone.neighbor(GOOD, "tp", COURSE) | {"dp": 16, "microbatches": 32, "tp": 1} == capstone.neighbor(
        GOOD, "tp", COURSE
    )
    assert capstone.neighbor(GOOD, "cp", COURSE)["dp"] == 1 and capstone.neighbor(GOOD, "dp", COURSE)["dp"] == 1
    found = {axis: capstone.reason(GOOD, axis, COURSE) for axis in capstone.AXES}
    assert found["tp"].breaks == "memory" and found["tp"].number > 76 and all(each.earned for each in found.values())
    assert found["dp"].breaks == "deadline" and found["pp"].stops == 8
    assert capstone.stopped(GOOD, COURSE) == 32 and capstone.stopped({"tp": 2, "cp": 8, "dp": 4}, COURSE) == 16
    roomy = replace(COURSE, model="llama3-8b", days=1e3, usd=1e9)
    assert not capstone.reason({"tp": 8, "dp": 8, "zero": 3, "microbatches": 64}, "tp", roomy).earned


def test_changes_change_what_they_say():
    slow, half, long, lost = (changed(COURSE, name) for name in list(CHANGES)[:4])
    assert slow.hardware().across.bandwidth == COURSE.hardware().across.bandwidth / 4
    assert slow.hardware().inside == COURSE.hardware().inside and half.usd == COURSE.usd / 2
    assert long.seq * long.sequences == COURSE.seq * COURSE.sequences and lost.gpus == 56
    with pytest.raises(ValueError, match="no change"):
        changed(COURSE, "more money")


def test_the_three_exemplars_fail_the_lines_that_they_should():
    failed = {}
    for name, one in rubric.exemplars().items():
        lines = rubric.grade(COURSE, one.plan, one.claims)
        assert list(lines) == list(rubric.LINES) and len(one.notes) == 3
        failed[name] = {line for line, each in lines.items() if not each.holds}
    assert failed == {
        "good": set(),
        "broken": {"fits", "defended"},
        "wasteful": {"in time", "in budget", "no needless work"},
    }


def test_defended_numbers_need_every_claim_and_the_right_cause():
    one = rubric.exemplars()["good"]
    for change in ({"memory": 1.06 * one.claims["memory"]}, {"binding": "bubble"}, {"binding": "luck"}):
        assert not rubric.grade(COURSE, one.plan, {**one.claims, **change})["defended"].holds
    assert not rubric.grade(COURSE, one.plan)["defended"].holds
    assert rubric.grade(COURSE, one.plan, {**one.claims, "usd": 1.04 * one.claims["usd"]})["defended"].holds


def test_messages_between_servers_are_found():
    assert rubric.crossing(GOOD, COURSE) == ("dp", "pp")
    assert rubric.crossing({"tp": 16, "pp": 4, "microbatches": 512}, COURSE) == ("tp", "pp")
    assert rubric.crossing({"tp": 8, "microbatches": 512}, COURSE) == ()
    assert not rubric.grade(COURSE, {"tp": 16, "pp": 4, "microbatches": 512})["wires"].holds
    assert not rubric.grade(COURSE, {"tp": 8, "pp": 4, "dp": 2, "microbatches": 8})["bubble"].holds
    assert not any(line.holds for line in rubric.grade(COURSE, {"tp": 3}).values())


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
    cells = mechanisms.matrix()
    assert len(cells) == 18
    assert all(np.isfinite([cell.before, cell.after]).all() and cell.before > 0 for cell in cells.values())
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
        mechanisms.conflict("offload", "data")
