"""A class to grade: students whose submissions are right, wrong, blank and crashing in turn."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import grading_five
from course_app.check.command import sources
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.new_class import new_class
from course_grader.classroom.release import release_chapter
from course_grader.classroom.roster import Student
from course_grader.exercises import class_exercises
from course_grader.intake import load
from course_grader.notebooks import Notebook, grade_meta, is_answer, render, write_whole
from course_lib.folders import ROOT

KINDS = ("right", "wrong", "blank", "crashing")
_REGION = re.compile(r"^([ \t]*)[^\n]*BEGIN SOLUTION.*?END SOLUTION[^\n]*$", re.DOTALL | re.MULTILINE)
_INSTEAD = {"wrong": "return -1.0", "blank": "raise NotImplementedError", "crashing": "import os; os._exit(3)"}


def class_of(place: Path, chapter: str, count: int) -> ClassFolder:
    """A class of `count` students with one chapter ("five": the notebook of five questions), which all have handed
    in."""
    course = place / "course"
    course.mkdir()
    if chapter == "five":
        grading_five.write_source(course)
    else:
        source = sources(ROOT)[chapter]
        shutil.copytree(source.parent, course / "solutions" / source.parent.name)
    students = [Student(id=f"s{number:04d}") for number in range(count)]
    folder = new_class(place / "class", "bench", roster=students, course=course)
    if chapter == "five":
        grading_five.write_exercises(folder.exercises.overlay)
        class_exercises.use(folder.exercises.overlay)
        chapter = grading_five.CHAPTER
    release_chapter(folder, chapter)
    folder = ClassFolder.open(folder.root)
    solved, release = (
        load(folder.sources.path(chapter)),
        load(
            folder.root
            / "release"
            / folder.settings.assignment(chapter)
            / f"{folder.settings.assignment(chapter)}.ipynb"
        ),
    )
    for number, student in enumerate(students):
        path = folder.submissions.folder(student, chapter) / f"{folder.settings.assignment(chapter)}.ipynb"
        write_whole(path, render(submission(solved, release, KINDS[number % len(KINDS)], number)))
    return folder


def submission(solved: Notebook, release: Notebook, kind: str, number: int, line: str = "") -> Notebook:
    """What a student hands in; in one that crashes, one answer ends the process, in a wrong one every second is wrong.

    `line` is run behind the first answer.
    """
    answers = {grade_meta(cell)["grade_id"]: cell["source"] for cell in solved["cells"] if is_answer(cell)}
    texts = {}
    for place, (exercise, text) in enumerate(answers.items()):
        spoilt = kind == "blank" or (kind == "wrong" and place % 2 == 0) or (kind == "crashing" and place == 1)
        texts[exercise] = _REGION.sub(lambda region: f"{region.group(1)}{_INSTEAD[kind]}", text) if spoilt else text
        texts[exercise] += f"\n# student {number}\n{line if place == 0 else ''}"
    cells = [
        {**cell, "source": texts[grade_meta(cell)["grade_id"]]} if is_answer(cell) else cell
        for cell in release["cells"]
    ]
    return {**release, "cells": cells}


@contextmanager
def made(chapter: str, count: int) -> Iterator[tuple[ClassFolder, str]]:
    """`class_of` in a folder of its own, and the chapter's number."""
    with tempfile.TemporaryDirectory(prefix="course-bench-grading-", ignore_cleanup_errors=True) as scratch:
        try:
            yield (
                class_of(Path(scratch).resolve(), chapter, count),
                grading_five.CHAPTER if chapter == "five" else chapter,
            )
        finally:
            class_exercises.use(None)
