"""A small course for the tests of grading: four exercises of chapter 01, without the chapter's pictures and timings."""

import copy
import json
import os
import shutil
import time
from pathlib import Path

from course_app.learner.work import Folders
from course_grader import exercises
from course_grader.blank_notebook import blank
from course_grader.course_notebooks import sources
from course_grader.exercises import Card
from course_grader.judge.grade_notebook import GradedNotebook, grade_notebook
from course_grader.notebooks import Cell, Notebook, grade_meta, parse, render
from course_grader.records import Report
from course_grader.release import released
from course_grader.submission import rebuild
from course_grader.worker.worker_pool import WorkerPool
from tests.patience import patience

REPOSITORY = Path(__file__).resolve().parent.parent
SMALL = ("state-13b", "predict-weeks", "train-days-7b", "mfu-waste")
ANYTHING = Card(  # an exercise that asks for a function `f`, for answers that nobody judges
    id="anything", chapter="00", title="Anything", text="", points=1, minutes=1, difficulty=1, importance=1,
    hints=("", "", ""), answers=("f",),
)  # fmt: skip
IMPORTS = """import math

from course_lib import check, params, predict, use
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.units import BILLION, DAY, EFLOP, HOUR, TFLOP, WEEK, YEAR"""


def small_source() -> Notebook:
    """The source of a small chapter 01: its imports, and for each exercise heading, answer and check."""
    whole = parse(sources(REPOSITORY)["01"].read_text(encoding="utf-8"))
    cells: list[Cell] = [
        {"cell_type": "markdown", "id": "c01-title", "metadata": {}, "source": "# 01 · Small\n\n## The exercises"},
        {
            "cell_type": "code",
            "id": "c01-imports",
            "metadata": {},
            "source": IMPORTS,
            "outputs": [],
            "execution_count": None,
        },
    ]
    for exercise in SMALL:
        text = f"{{{{{exercise}.card}}}}"
        cells.append({"cell_type": "markdown", "id": f"c01-{exercise}-card", "metadata": {}, "source": text})
        cells += [
            cell for cell in whole["cells"] if grade_meta(cell).get("grade_id") in (exercise, f"{exercise}-check")
        ]
    return {**whole, "cells": copy.deepcopy(cells)}


def small_course(root: Path) -> Folders:
    """A course below `root` with the small chapter, released, and the learner's solved copy of it in work/."""
    for folder in ("solutions", "work"):
        (root / folder / "01_small").mkdir(parents=True)
    shutil.copy(REPOSITORY / "nbgrader_config.py", root)
    (root / "solutions/01_small/01_small.ipynb").write_text(render(small_source()), encoding="utf-8")
    for name, data in released(root).items():
        path = root / "notebooks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    where = Folders(root=root, work=root / "work")
    solved = solved_copy(
        parse((root / "notebooks/01_small/01_small.ipynb").read_text(encoding="utf-8")), small_source()
    )
    mine(where).write_text(render(solved), encoding="utf-8")
    return where


def mine(where: Folders) -> Path:
    """The learner's copy."""
    return where.work / "01_small" / "01_small.ipynb"


def solved_copy(release: Notebook, source: Notebook) -> Notebook:
    """A release with the source's answers in it: what a learner who knows everything hands in."""
    answers = {
        grade_meta(cell)["grade_id"]: cell["source"] for cell in source["cells"] if grade_meta(cell).get("solution")
    }
    cells = [
        {**cell, "source": answers[grade_meta(cell)["grade_id"]]}
        if grade_meta(cell).get("grade_id") in answers
        else cell
        for cell in release["cells"]
    ]
    return {**release, "cells": cells}


def cell_of(notebook: Notebook, grade_id: str) -> Cell:
    """The first cell with this grade_id."""
    return next(cell for cell in notebook["cells"] if grade_meta(cell).get("grade_id") == grade_id)


def own(source: str, ident: str = "mine") -> Cell:
    """A code cell of the learner's own."""
    return {"cell_type": "code", "id": ident, "metadata": {}, "source": source, "outputs": [], "execution_count": None}


def marked(
    learner: Notebook, workers: WorkerPool, source: Notebook | None = None
) -> tuple[dict[str, Report], list[str]]:
    """Reports by exercise, and all notes, of a learner's small chapter."""
    source = source or small_source()
    cards = exercises.cards("01")
    submission = rebuild(source, learner, cards)
    done: GradedNotebook = grade_notebook(submission, cards, workers)
    return {report.exercise: report for report in done.reports}, [*submission.notes, *done.notes]


def as_released() -> Notebook:
    """The small chapter as an untouched copy."""
    return blank(small_source())


def points(reports: dict[str, Report]) -> dict[str, float]:
    """Points by exercise."""
    return {name: report.points for name, report in reports.items()}


def full(*without: str) -> dict[str, float]:
    """Every exercise's full points, but 0 for those named."""
    return {name: 0.0 if name in without else float(exercises.card(name).points) for name in SMALL}


def digest(notebook: Notebook) -> str:
    """A notebook as text, for comparison."""
    return json.dumps(notebook, sort_keys=True)


def alive(marker: str) -> list[int]:
    """Processes whose environment holds `marker`, but for this one and those that have ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if (
                    marker.encode() in (entry / "environ").read_bytes()
                    and (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
                ):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def left_of(marker: str, seconds: float = 30) -> list[int]:
    """Those processes that have not ended in that time."""
    until = time.monotonic() + patience(seconds)
    while (found := alive(marker)) and time.monotonic() < until:
        time.sleep(0.02)
    return found
