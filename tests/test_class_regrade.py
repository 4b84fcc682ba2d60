"""An exercise judged anew when a term is under way: points that changed, work that came since, and runs that end
early."""

import errno
import json

import pytest
from nbgrader.api import Gradebook

from course_app.cli import run
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.release import release_chapter
from course_grader.classroom.report import chapter_report
from course_grader.service import regrade
from course_grader.service.grading import grade_class
from course_grader.service.regrade import Stopped, regrade_exercise
from course_grader.service.report_cache import latest
from course_lib.messages import Trouble
from tests.class_kit import NAME, as_bytes, at, class_at, copy_of, course_at, saved, work
from tests.crash_kit import Made

THREE = ("ada", "grace", "zoe")


@pytest.fixture(scope="module")
def released(tmp_path_factory) -> ClassFolder:
    root = tmp_path_factory.mktemp("class")
    folder = class_at(root, course_at(root / "course"))
    release_chapter(folder, "01")
    return folder


def hand_in(folder: ClassFolder, student: str, **how) -> None:
    saved(folder.submissions.folder(student, "01") / f"{NAME}.ipynb", as_bytes(work(folder, student, **how)))
    folder.submissions.remember_arrival(student, "01", {"at": at("2026-10-12 12:00").isoformat(), "by": "canvas"})
    folder.submissions.save_arrivals()


@pytest.fixture(scope="module")
def graded_once(released, tmp_path_factory) -> ClassFolder:
    folder = copy_of(released, tmp_path_factory.mktemp("graded") / "class")
    for student in THREE:
        hand_in(folder, student)
    assert grade(folder).graded == 3
    return folder


@pytest.fixture
def graded(graded_once, tmp_path) -> ClassFolder:
    """A graded class of three, to change."""
    return copy_of(graded_once, tmp_path / "class")


def grade(folder, **more):
    return grade_class(ClassFolder.open(folder.root), no_sandbox=True, crew=Made(0.0), **more)


def anew(folder, exercise="mfu-waste", **more):
    return regrade_exercise(ClassFolder.open(folder.root), exercise, no_sandbox=True, crew=Made(0.0), **more)


def of(folder, student, exercise="mfu-waste"):
    return next(each for each in latest(folder, student, "01")["reports"] if each["id"] == exercise)


def as_if(folder, student, points, exercise="mfu-waste"):
    """Other points in the report that counts."""
    report = latest(folder, student, "01")
    next(each for each in report["reports"] if each["id"] == exercise)["points"] = points
    (folder.submissions.reports(student, "01") / f"{report['key']}.json").write_text(
        json.dumps(report), encoding="utf-8"
    )


def in_gradebook(folder, student, exercise="mfu-waste"):
    with Gradebook(folder.settings.db_url, folder.settings.name) as book:
        return book.find_grade(f"{exercise}-check", NAME, NAME, student).auto_score


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_nobody_loses_points_or_their_share_when_the_class_gives_others_and_the_next_grading_takes_none_away(
    graded, factor
):
    most = of(graded, "ada")["maximum"]
    as_if(graded, "ada", most)  # more than judging anew will give
    release_chapter(ClassFolder.open(graded.root), "01", points={"mfu-waste": most * factor})
    change = next(each for each in anew(graded) if each.student == "ada")
    kept = max(most, most * factor)
    assert change.kept_by == "higher before" and change.old == most and change.new < kept
    assert of(graded, "ada")["points"] == in_gradebook(graded, "ada") == kept
    assert of(graded, "ada")["maximum"] == most * factor
    assert grade(graded).already == 3  # what is regraded is graded
    assert of(graded, "ada")["points"] == kept
    assert next(each for each in anew(graded, lower=True) if each.student == "ada").kept_by == ""
    assert of(graded, "ada")["points"] == change.new


def test_an_exercise_that_counts_only_now_is_added(graded):
    release_chapter(ClassFolder.open(graded.root), "01", exercises=["train-days-7b"])
    grade(graded)
    release_chapter(ClassFolder.open(graded.root), "01", exercises=["train-days-7b", "mfu-waste"])
    change = next(each for each in anew(graded) if each.student == "ada")
    assert change.old == 0 and of(graded, "ada")["points"] == in_gradebook(graded, "ada") == change.new
    assert grade(graded).already == 3


def test_work_that_came_since_is_left_to_grading(graded):
    hand_in(graded, "ada", blank=("mfu-waste",))
    before, said = latest(graded, "ada", "01"), []
    changes = anew(graded, say=said.append)
    assert {each.student for each in changes} == {"grace", "zoe"} and latest(graded, "ada", "01") == before
    assert any(event.student == "ada" and "class grade" in event.text for event in said)
    assert grade(graded).graded == 1


def test_a_run_that_ends_early_says_what_it_changed(graded, monkeypatch, capsys):
    for student in THREE:
        as_if(graded, student, -1.0)  # whatever is judged now is another
    kept, keep = [], regrade.keep

    def full(folder, report):
        if len(kept) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        kept.append(report["student"])
        return keep(folder, report)

    monkeypatch.setattr(regrade, "keep", full)
    with pytest.raises(Stopped, match="no room left") as stopped:
        anew(graded)
    changed = [each.student for each in stopped.value.changes if each.student in kept]
    assert changed == sorted(kept) and all(of(graded, student)["points"] >= 0 for student in kept)

    monkeypatch.setattr(
        regrade,
        "regrade_exercise",
        lambda *_, **__: (_ for _ in ()).throw(Stopped("Interrupted.", "again", stopped.value.changes, 130)),
    )
    assert run(["class", "regrade", "--exercise", "mfu-waste", "-C", str(graded.root)]) == 130
    said = capsys.readouterr()
    assert all(student in said.out for student in kept) and "Interrupted" in said.err


def test_an_exercise_or_student_that_is_not_there_is_told(graded):
    for exercise, near in (("mfu-wast", "did you mean mfu-waste"), ("softmax", "it has state-13b, ")):
        with pytest.raises(Trouble, match="no exercise that counts") as told:
            anew(graded, exercise)
        assert near in told.value.way_out
    with pytest.raises(Trouble, match="no student 'adda'"):
        anew(graded, students=["adda"])


def test_what_lateness_costs_is_looked_at_again_when_the_class_says_otherwise(graded):
    folder = ClassFolder.open(graded.root)
    release_chapter(folder, "01", due=at("2026-10-11 12:00"))
    folder = ClassFolder.open(graded.root)
    folder.settings.data["late_points_per_day"] = 1.5
    folder.settings.save()
    summary = grade(graded)
    with Gradebook(graded.settings.db_url, graded.settings.name) as book:
        costs = {each.student_id: each.late_submission_penalty for each in book.find_assignment(NAME).submissions}
        scores = {each.student_id: each.score for each in book.find_assignment(NAME).submissions}
    assert costs == {student: min(1.5, scores[student]) for student in THREE}
    assert summary.graded == sum(score > 0 for score in scores.values())
    assert grade(graded).already == 3


def test_a_report_names_the_exercise_of_what_is_to_be_looked_at_and_answers_that_are_alike(graded, monkeypatch):
    from course_grader.service import grading

    report = latest(graded, "zoe", "01")
    report["anomalies"] = [{"kind": "crashed", "exercise": "mfu-waste", "text": "Your code ended the process."}]
    (graded.submissions.reports("zoe", "01") / f"{report['key']}.json").write_text(json.dumps(report), encoding="utf-8")
    monkeypatch.setattr(grading, "alike_in", lambda *_: [{"text": "ada and grace gave the same answer"}])
    assert chapter_report(graded, "01").anomalies == (
        "zoe: mfu-waste: Your code ended the process.",
        "ada and grace gave the same answer",
    )
