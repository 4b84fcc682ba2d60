"""Chapter 17's tables say what the library computes, and its widgets show it."""

import re

import pytest

from course_chapters.ch17 import cases as ch17_cases
from course_chapters.ch17 import debrief, diagnosis, mechanisms, rubric, tables
from course_chapters.ch17 import plan_widgets as ch17
from course_chapters.ch17.debates import DEBATES
from course_chapters.ch17.exercises.numbers import NUMBERS
from course_grader import exercises
from course_lib.estimate.units import bytes_text
from course_lib.operate import capstone
from course_lib.operate.capstone import COURSE, assess
from tests.tables import each_of

GOOD = rubric.exemplars()["good"].plan


def cells(said: str) -> list[list[str]]:
    """The rows of a Markdown table without its rule and what stands below."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in said.splitlines() if line.startswith("|")]
    return [row for row in rows if row[0] != "---"]


def test_the_page_of_a_budget_agrees_with_the_assessment():
    found, said = assess(GOOD, COURSE), tables.budget(GOOD).data
    lines = {row[0]: row for row in cells(said)}
    assert set(lines) > {
        "parameters",
        "tokens",
        "precision",
        "batch",
        "parallelism",
        "optimizer",
        "checkpoint",
        "validation",
    }
    assert bytes_text(found.memory) in lines["parallelism"][2] and f"{found.days:.1f} days" in lines["the run"][1]
    assert "tp 8 × pp 4 × dp 2" in said


def test_the_tables_have_a_row_for_each_thing():
    assert [row[0] for row in cells(tables.parallelisms().data)][1:] == ["DP", "ZeRO-1", "FSDP", "TP", "PP", "CP", "EP"]
    assert [row[0] for row in cells(tables.remedies().data)][1:] == [each.name for each in capstone.remedies()]
    matrix = cells(tables.conflicts().data)
    assert matrix[0][1:] == list(mechanisms.COORDINATION) and [row[0] for row in matrix[1:]] == list(mechanisms.MEMORY)
    assert matrix[1][1] == "**× 1.5**" and "helps" in matrix[3][4]
    assert sum(len(cells(tables.faults(family).data)) - 1 for family in diagnosis.FAMILIES) == 40


def test_exemplars_are_graded_line_by_line():
    rows = {row[0]: row[2:] for row in cells(tables.graded().data)[1:]}
    assert [mark[0] for mark in rows["runs"]] == ["✓"] * 3
    assert ["✗" in mark for mark in rows["fits"]] == [False, True, False]
    assert ["✗" in mark for mark in rows["no needless work"]] == [False, False, True]
    assert tables.notes().data.count("**") == 6 and len(cells(tables.exemplars().data)) == 4


def test_debates_show_two_sides_a_source_each_and_a_number():
    said = tables.debates().data
    assert len(DEBATES) == 5 and all(len({side.source for side in each.sides}) == 2 for each in DEBATES)
    assert said.count("](http") == 10 and said.count("*What would settle it:*") == 5
    assert all(re.search(r"\d", each.number) for each in DEBATES)


def test_my_plan_quotes_the_numbers_of_the_chapters():
    rows = cells(tables.my_plan().data)[1:]
    assert [row[0] for row in rows] == sorted(row[0] for row in rows) and len(rows) >= 12
    assert rows[-2][1] == f"{exercises.numbers('13')['plan_step']()} a step"


def test_surprises_are_computed():
    rows = dict(cells(tables.surprises().data)[1:])
    assert rows["FSDP sends three times as much as DP"].startswith("1.5 times")
    assert len(rows) == 6


@each_of("name", ["tp_near", "slow_cp", "good_days", "pipeline_times", "state"])
def test_numbers_of_the_prose_are_texts(name):
    assert re.match(r"[\d.]+", NUMBERS[name]())


def test_the_launch_command_has_the_degrees(capsys):
    tables.launch(GOOD)
    said = capsys.readouterr().out
    assert "tensor_parallel_degree 8" in said and "pipeline_parallel_degree 4" in said and "--nnodes 8" in said


def test_a_slower_network_moves_the_plans_apart():
    assert ch17.days_of("FSDP × cp 8", 4.0) > 3 * ch17.days_of("FSDP × cp 8", 1.0)
    assert ch17.days_of("FSDP, recomputed", 4.0) == pytest.approx(ch17.days_of("FSDP, recomputed", 1.0), rel=0.01)
    assert ch17.days_of("FSDP, recomputed", 16.0) > 2 * ch17.days_of(
        "FSDP, recomputed", 1.0
    )  # hidden, and then all at once
    assert (
        "cannot run" in ch17.draw_change("lost server").alt and "searched again" in ch17.draw_change("lost server").alt
    )


def test_an_exam_hides_the_names_of_its_faults():
    explorer = ch17_cases.diagnose(3)
    shown = " ".join(explorer.draw(case=case).alt for case in (1, 12))
    assert "case 1:" in shown and not any(name in shown for name in diagnosis.FAULTS)


def test_a_debrief_sets_a_plan_beside_the_planner_s_and_a_published_one():
    plan = {"tp": 8, "pp": 4, "dp": 2, "microbatches": 256}
    rows = cells(debrief.compared(plan, COURSE).data)[1:]
    assert [row[0] for row in rows[:2]] == ["your plan", "the planner's"] and rows[2][0].startswith("llama3-70b")
    assert rows[0][1].startswith("tp 8 × pp 4 × dp 2, ZeRO-1") and "](https://" in rows[2][-1]
    assert "not published" in debrief.picture(plan, COURSE).alt
    assert debrief.debrief(lambda: (plan, {}), COURSE).alt and debrief.debrief(lambda: ({"dp": 64}, {}), COURSE) is None

    def unanswered():
        raise NotImplementedError

    assert debrief.debrief(unanswered, COURSE) is None
