"""`course bench grading`: that it measures what it says; what the figures are is not a test's matter."""

import json

import pytest

from bench.grading import main, own_bytes


@pytest.mark.rotates("bench/", "course_grader/")
def test_it_grades_a_small_class_fairly_and_says_what_it_took(capsys):
    main(["--quick", "--json"])
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == ["five: a submission, ours", "five: fork and run the cells"]
    assert all(row["value"] > 0 for row in rows.values())
    assert rows["five: a submission, ours"]["unit"] == "s"
    assert "4 submissions" in rows["five: a submission, ours"]["note"]


def test_a_process_that_is_gone_has_no_memory():
    assert own_bytes(2**22 - 1) == 0
