"""The grader without the course: a small package of exercises of its own, judged by name, by bank and with named
mistakes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.folders import ROOT

CARD = """
from course_grader.exercises import Card
from course_grader.exercises.probes import rows
from course_grader.exercises.result_schema import Number, Rows

CARD = Card(
    id="double", chapter="01", title="Twice", points=2, minutes=1, difficulty=1, importance=1,
    text="Write `double(x)`, which returns twice {{factor}}.", params={"factor": 2.0}, answers=("double",),
    hints=("What is twice?", "Add it to itself.", "x + x"), probe=rows, returns=Rows(Number()),
)
"""
JUDGE = """
from course_grader.judging import Judging, Worked
from course_grader.judging.cases import shown
from course_grader.judging.per_row import Column, shares, table
from course_grader.judging.random_inputs import unseen

right = Worked("double")


def _cases(params, rng):
    return [
        shown("three", "values:double", 0, [(3.0,)]),
        unseen(rng, "double", 0, "other numbers", [(rng.uniform(1, 9),) for _ in range(4)]),
    ]


JUDGING = Judging(
    shares=shares(double=(0.5, 0.5)),
    cases=_cases,
    verdicts=table(Column(part="double", unit="", want=right[0], words=lambda x: f"{x}")),
    why="Twice is a sum.",
)
ANSWERS = r'''
# %% right: worked
def double(x):
    return 2 * x

# %% wrong: squared => values
# > this is the square; twice is the sum of a number with itself.
# ~ 2 * x ==> x * x
'''
"""
PROGRAM = """
import json, sys
from course_grader import exercises
from course_grader.bank.kill_matrix import matrix
from course_grader.judge import grade
from course_grader.worker.runners import InProcess

reports = [grade(exercises.card("double"), InProcess(answer)) for answer in (lambda x: 2 * x, lambda x: x**2,
    lambda x: 7.0)]
print(json.dumps({
    "points": [report.points for report in reports],
    "messages": [next((v.message for v in report.verdicts if not v.ok), "") for report in reports],
    "matrix": [row.ok for row in matrix(workers=1)],
    "loaded": sorted({name.split(".")[0] for name in sys.modules if name.startswith(("course_chapters",
        "course_app"))}),
}))
"""


@pytest.fixture
def small_course(tmp_path: Path) -> Path:
    chapter = tmp_path / "my_course" / "ch01" / "exercises"
    (chapter / "judges").mkdir(parents=True)
    for folder in (tmp_path / "my_course", chapter.parent):
        (folder / "__init__.py").touch()
    (chapter / "__init__.py").write_text(
        "from course_grader.exercises import gather\n\nCARDS, DRILLS, NUMBERS = gather(__name__, 'double'), (), {}\n"
    )
    (chapter / "double.py").write_text(CARD)
    (chapter / "judges" / "__init__.py").write_text("DRILLS = {}\n")
    (chapter / "judges" / "double.py").write_text(JUDGE)
    return tmp_path


@pytest.mark.slower
def test_exercises_of_another_course_are_judged_without_this_one(small_course):
    environment = {
        **os.environ,
        "COURSE_PACKAGE": "my_course",
        "PYTHONPATH": os.pathsep.join([str(small_course), str(ROOT)]),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=small_course, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["points"] == [2, 0, 0] and told["matrix"] == [True, True] and told["loaded"] == []
    assert "this is the square" in told["messages"][1] and "square" not in told["messages"][2]


def test_a_package_that_is_not_there_is_named(tmp_path):
    program = "from course_grader import exercises; exercises.chapters()"
    environment = {**os.environ, "COURSE_PACKAGE": "no_such_course", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert "There is no package 'no_such_course'" in done.stderr
