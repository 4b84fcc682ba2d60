"""What a teacher is told: once, without false alarms, and the same points everywhere."""

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI

from course_app.cli import run
from course_grader import exercises
from course_grader.blank_notebook import TEXT_STUB, blank, rubric
from course_grader.classroom.collect import collect
from course_grader.classroom.config import load
from course_grader.classroom.export import export, waiting
from course_grader.classroom.feedback import make_feedback, page_of
from course_grader.classroom.feedback_page import Exercise, Page, render
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.lms import Who
from course_grader.classroom.release import release_chapter
from course_grader.classroom.report import chapter_report
from course_grader.classroom.roster import Student
from course_grader.classroom.status import status
from course_grader.course_notebooks import sources
from course_grader.notebooks import grade_meta, parse, read
from course_grader.notebooks import render as rendered
from course_grader.records import Report
from course_grader.service import anomalies
from course_grader.service.grading import grade_class
from course_grader.service.progress_view import progress, show
from course_grader.service.report_cache import autograded_path
from course_grader.submission import rebuild
from course_grader.worker.in_worker import Lost, ask
from course_grader.worker.plain_values import NotPlain, plain
from course_grader.worker.protocol import Garbled, Unreadable
from course_lib.messages import Trouble
from tests.class_kit import NAME, archive, as_bytes, at, class_at, course_at, parse_here, saved, tiny, work
from tests.conftest import cell
from tests.grading_kit import REPOSITORY, SMALL, cell_of
from tests.tables import each_of

ESSAY = cell("Say why.\n\n### BEGIN SOLUTION\nBecause.\n### END SOLUTION", "essay", grade=True, points=5, solution=True)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return course_at(tmp_path_factory.mktemp("course"))


@pytest.fixture
def folder(course, tmp_path) -> ClassFolder:
    return ClassFolder.open(class_at(tmp_path, course).root)


def with_essay(folder: ClassFolder) -> ClassFolder:
    source = parse(folder.sources.path("01").read_text(encoding="utf-8"))
    folder.sources.path("01").write_text(rendered({**source, "cells": [*source["cells"], ESSAY]}), encoding="utf-8")
    return ClassFolder.open(folder.root)


def hand_in(folder: ClassFolder, student: str, data: bytes) -> None:
    saved(folder.submissions.folder(student, "01") / f"{NAME}.ipynb", data)
    folder.submissions.remember_arrival(student, "01", {"at": "2026-10-12T12:00:00+00:00", "by": "canvas"})
    folder.submissions.save_arrivals()


def test_a_cell_graded_by_hand_counts_the_same_everywhere(folder):
    folder = with_essay(folder)
    points = sum(exercises.card(name).points for name in SMALL) + 5
    assert release_chapter(folder, "01").points == points
    folder = graded_essay(folder)
    with pytest.raises(Trouble, match="No student has a grade") as found:
        export(folder, "canvas", ["01"])
    assert "formgrader" in found.value.way_out and make_feedback(folder).waiting == (("ada", "01"),)
    with Gradebook(folder.settings.db_url, folder.settings.name) as book, Gradebook(book.db.bind.url, "two") as other:
        book.find_grade("essay", NAME, NAME, "ada").manual_score = 4  # two graders at once
        other.find_comment("essay", NAME, NAME, "ada").manual_comment = "Which number?"
        book.db.commit()
        other.db.commit()
    source = folder.sources.path("01")  # a rubric that was changed since is told to nobody either
    source.write_text(source.read_text(encoding="utf-8").replace("Because.", "Since."), encoding="utf-8")
    make_feedback(folder)
    page = (folder.root / "feedback" / "ada" / NAME / f"{NAME}.html").read_text(encoding="utf-8")
    shown = [cell["source"] for cell in read(autograded_path(folder, "ada", "01"))["cells"]]
    assert "4 of 5 points" in page and "Which number?" in page and "Because." not in page
    assert shown[shown.index("Mine.") + 1] == "Because."  # the rubric, for those who grade
    formgrader = NbGraderAPI(config=load(folder)).get_assignment(NAME)
    (now,), made = status(folder), chapter_report(folder, "01")
    canvas = export(folder, "canvas", ["01"]).path.read_text().splitlines()
    assert formgrader["max_score"] == now.maximum == made.maximum == float(canvas[1].rpartition(",")[2]) == points
    assert now.mean is None  # its arrival has no hash, so it counts as waiting
    assert made.mean == float(canvas[2].rpartition(",")[2]) == points - 1


def graded_essay(folder: ClassFolder) -> ClassFolder:
    solved = work(folder, "ada")
    cell_of(solved, "essay")["source"] = "Mine."
    hand_in(folder, "ada", as_bytes(solved))
    folder = ClassFolder.open(folder.root)
    grade_class(folder, students=["ada"], no_sandbox=True, jobs=1)
    return folder


def test_a_cell_graded_by_hand_can_be_left_out_and_given_other_points(folder, capsys):
    folder, own = with_essay(folder), sum(exercises.card(name).points for name in SMALL)
    for points, words in (
        (2, "essay: 2 points, a person grades it. --points essay=0 leaves it out."),
        (0, "not count"),
    ):
        assert run(["class", "release", "01", "--points", f"essay={points}", "-C", str(folder.root)]) == 0
        assert words in capsys.readouterr().out
        folder = ClassFolder.open(folder.root)
        assert folder.exercises.maximum("01") == own + points
    folder = graded_essay(folder)
    cells = read(autograded_path(folder, "ada", "01"))["cells"]
    assert waiting(folder, "01") == () and not page_of(folder, "ada", "01", cells).written
    with pytest.raises(Trouble, match="(?s)no exercise 'essay'.*essay=0"):
        release_chapter(folder, "01", exercises=["essay"])


def test_one_cell_of_the_course_is_graded_by_a_person_with_rubric_and_comments():
    found = [cell for path in sources(REPOSITORY).values() for cell in read(path)["cells"] if rubric(cell)]
    (cell,) = found
    assert grade_meta(cell)["grade_id"] == "plan-defense" and "Comments to copy" in rubric(cell)
    released = blank({"cells": found, "metadata": {}})["cells"][0]["source"]
    assert released.endswith(TEXT_STUB) and "graders" not in released


def test_feedback_of_nothing_says_so_and_fails(folder, capsys):
    release_chapter(folder, "01")
    assert run(["class", "feedback", "01", "-C", str(folder.root)]) == 1
    assert "Nothing is graded yet, so there is no feedback" in " ".join(capsys.readouterr().err.split())


def test_points_that_a_person_took_off_are_nothing_to_look_at_first():
    card = exercises.card("mfu-waste")
    passed = Report(exercise=card.id, state="answered", points=float(card.points), maximum=float(card.points))
    lowered = Exercise(card=card, report=passed, score=1.0, by_hand=True, comment="Not your own words.")
    page = Page(title="", student="", course="", exercises=[lowered])
    assert page.first() == [] and lowered.open
    text = render(page)
    first = text[text.index('id="first"') : text.index('id="all"')]
    assert "your grader set them by hand" in first and "Passed" not in first and "Nothing is missing" not in first
    assert "To mend it" not in text


@each_of(
    "first, last, said, theirs",
    ("Иван", "Иванов", "ивановиван", True),
    ("Иван", "Иванов", "ivanovivan", True),  # Canvas wrote it in Latin letters
    ("Иван", "Иванов", "петровапётр", False),
    ("Zoë", "Núñez", "nunezzoe", True),
    ("Zoë", "Núñez", "team_blue", False),  # a group's name
)
def test_a_name_in_other_letters_gives_no_hint_of_a_group(first, last, said, theirs):
    student = Student(id="one", first_name=first, last_name=last, lms_id="1")
    assert Who([student]).is_called(student, said) is theirs


def test_only_a_groups_name_gives_a_hint_of_a_group(folder, tmp_path):
    release_chapter(folder, "01")
    students = [*folder.roster.students(), Student(id="ivan", first_name="Иван", last_name="Иванов", lms_id="1007")]
    folder.roster.save(students)
    names = ("ivanovivan_1007_1_01_small.ipynb", "team_blue_1005_2_01_small.ipynb")
    done = collect(
        folder, saved(tmp_path / "s.zip", archive(dict.fromkeys(names, tiny()))), parse=parse_here, now=at("2026-10-12")
    )
    assert (
        [note for note in done.notes if "group" in note] == [note for note in done.notes if "team_blue" in note] != []
    )


# ------------------------------------------------------------------------------------------------ alarms


@pytest.mark.parametrize("chapter", sorted(sources(REPOSITORY)))
def test_an_untouched_chapter_raises_no_alarm(chapter):
    source = read(sources(REPOSITORY)[chapter])
    cards = exercises.cards(chapter)
    untouched = blank(source)
    submission = rebuild(source, untouched, cards)
    assert anomalies.anomalies_of(source, untouched, cards, submission, ()) == []
    answers = anomalies.answers_of(submission)
    two = {name: {"answers": answers} for name in ("ada", "zoe")}
    assert anomalies.alike(two, anomalies.answers_in(source)) == []


def test_each_student_has_one_line_of_each_kind_and_it_is_printed_once(folder, capsys):
    release_chapter(folder, "01")
    broken = work(folder, "ada")
    for name in SMALL:
        cell_of(broken, f"{name}-check")["source"] += "\n# looked"
        cell_of(broken, name)["cell_type"] = "raw"
    hand_in(folder, "ada", as_bytes(broken))
    hand_in(folder, "zoe", b"")
    folder = ClassFolder.open(folder.root)
    with progress() as say:
        summary = grade_class(folder, students=["ada", "zoe"], no_sandbox=True, jobs=1, say=say)
    show(summary)
    kinds = [line.text for line in summary.anomalies if line.student == "ada"]
    assert len(kinds) == 2 and sorted(line.exercise.count(",") for line in summary.anomalies) == [3, 3]
    out, err = capsys.readouterr()
    everything = " ".join((out + err).split())
    assert everything.count("is a raw cell now") == anomalies.SHOWN and "1 more such lines" in everything
    assert everything.count("is empty") == 1 and everything.count("were edited") + everything.count("was edited") == 3


def test_a_result_that_cannot_be_read_is_no_writing_into_the_connection():
    class Says:
        def __init__(self, error):
            self.error = error

        def ask(self, *_):
            raise self.error

    with pytest.raises(Lost, match="The judge could not read what your code returned .BadFrame"):
        ask(Says(Unreadable("BadFrame while decoding it")), {}, 1.0, "")
    with pytest.raises(Lost, match="wrote into the connection"):
        ask(Says(Garbled("bytes that are no message")), {}, 1.0, "")


def test_a_sparse_tensor_is_not_an_open_exercise():
    import torch

    with pytest.raises(NotPlain, match="torch.sparse_coo; return a dense tensor"):
        plain([torch.eye(2).to_sparse()])
