"""A term of a class of six, by the commands that an instructor types: release, collect, grade, regrade, extend, export,
report."""

import csv
import io
import json
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from course_app import cli
from course_grader.classroom.export import grades
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.release import gradebook
from course_grader.classroom.report import chapter_report, picture
from course_grader.classroom.status import current, status
from course_grader.notebooks import read, render
from course_grader.service import preparation
from course_grader.service.pool import Markers
from tests.class_kit import CANVAS_ROSTER, NAME, archive, as_bytes, at, course_at, saved, work

DUE = at("2026-10-12 23:59:59")


def command(*arguments):
    """Run a class command; its exit code."""
    return cli.run(["class", *map(str, arguments)])


class Staying:
    """A marker that outlives one command, so that the tests start it once."""

    def __init__(self):
        self.markers = Markers(1)
        self.size, self.free, self.start, self.wait = 1, self.markers.free, self.markers.start, self.markers.wait

    def close(self, seconds=0.0):
        return []


@contextmanager
def term_at(root, capsys):
    """The class after release, two collections and grading."""
    course = course_at(root / "course")
    staying = Staying()
    with pytest.MonkeyPatch.context() as patch, closing(staying.markers):
        patch.setattr(preparation, "_crew", lambda scheduler, jobs: staying)
        patch.setenv("COURSE_ROOT", str(course))
        patch.setenv("COURSE_CLASS", str(root / "autumn-26"))
        roster = saved(root / "canvas.csv", CANVAS_ROSTER.encode())
        codes = [command("init", "autumn-26", "--roster", roster, "--late", "2")]
        codes.append(command("release", "1", "--due", "2026-10-12", "--variants"))
        folder = ClassFolder.open(root / "autumn-26")
        names = next(card for card in folder.exercises.cards("01") if card.id == "state-13b").answers
        wrong = "\n\n".join(f"def {name}(*args, **kwargs):\n    return None" for name in names)
        canvas = archive(
            {
                "lovelaceada_1001_500_01_small.ipynb": as_bytes(
                    work(folder, "ada", wrong={"state-13b": "not even Python ("})
                ),
                "lovelaceada_1001_501_01_small-1.ipynb": as_bytes(work(folder, "ada")),
                "turingalan_LATE_1003_502_my walls.ipynb": as_bytes(work(folder, "alan")),
                "liskovbarbara_1006_503_01_small.ipynb": as_bytes(
                    work(folder, "barbara", wrong={"state-13b": wrong}, blank=("mfu-waste",))
                ),
                "someoneelse_7_504_01_small.ipynb": as_bytes(work(folder, "ada")),
            }
        )
        moodle = archive(
            {
                "Grace Hopper_91_assignsubmission_file_/01_small.ipynb": as_bytes(
                    work(folder, "grace", wrong={"state-13b": wrong})
                ),
                "Zoë Núñez Ångström_92_assignsubmission_file_/01_small.ipynb": b"{ this is no notebook",
            }
        )
        times = (
            "Identifier,Full name,Email address,Last modified (submission)\nParticipant 91,Grace "
            "Hopper,grace@uni.edu,2026-10-14 08:00\n"
        )
        codes.append(command("collect", saved(root / "canvas.zip", canvas)))
        codes.append(
            command(
                "collect",
                saved(root / "moodle.zip", moodle),
                "--chapter",
                "01",
                "--times",
                saved(root / "times.csv", times.encode()),
            )
        )
        codes.append(command("grade"))
        capsys.readouterr()
        yield Term(root=root, path=folder.root, codes=codes, capsys=capsys)


@dataclass(frozen=True)
class Term:
    """Where the class is, how the first commands ended, and what was said since it was last asked."""

    root: Path
    path: Path
    codes: list[int]
    capsys: pytest.CaptureFixture

    def folder(self):
        """The class as its files are now."""
        return ClassFolder.open(self.path)


def scores(folder):
    return {each.student.id: each.score for each in grades(folder, ["01"]) if each.handed_in}


def rows_of(path):
    return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"))))


@pytest.mark.rotates("course_grader/", "course_app/cli/")
def test_a_term_from_the_roster_to_the_grades(tmp_path, capsys):
    """Each step looks at, or changes, what the one before left."""
    with term_at(tmp_path, capsys) as term:
        for step in STEPS:
            step(term)
            capsys.readouterr()


# ------------------------------------------------------------------------------------------------ the steps


def a_term_goes_through_and_says_where_it_could_not(term):
    assert term.codes[:2] == [0, 0]
    assert term.codes[2] == 1  # someone who is in no roster
    assert term.codes[3:] == [0, 0]


def honest_work_has_full_points_on_numbers_of_its_own_and_the_newest_counts(term):
    folder = term.folder()
    full = sum(folder.exercises.points("01").values())
    points = {name: report["points"] for name, report in current(folder, "01").items()}
    assert points["ada"] == points["alan"] == full
    assert (
        points["barbara"]
        == full - folder.exercises.points("01")["state-13b"] - folder.exercises.points("01")["mfu-waste"]
    )
    assert points["zoe"] == 0 and current(folder, "01")["zoe"]["state"] == "refused"


def lateness_is_the_lms_record_and_costs_by_the_day(term):
    folder = term.folder()
    by = {each.student.id: each for each in grades(folder, ["01"])}
    assert folder.submissions.arrival("grace", "01") == at("2026-10-14 08:00") and by["grace"].penalty == 4.0
    assert by["alan"].penalty > 4.0 and by["ada"].penalty == by["barbara"].penalty == 0.0
    assert not by["leslie"].handed_in


def a_second_run_grades_nothing_and_status_says_where_the_class_stands(term):
    folder = term.folder()
    capsys = term.capsys
    before = scores(folder)
    assert command("grade", "--json") == 0
    assert json.loads(capsys.readouterr().out)["graded"] == 0
    assert scores(folder) == before
    (found,) = status(folder)
    assert (found.handed_in, found.late, found.graded, found.waiting, found.missing) == (5, 2, 5, (), ("leslie",))
    assert found.refused == ("zoe",)
    assert command("status", "--missing") == 0 and "leslie" in capsys.readouterr().out


def the_report_counts_misconceptions_and_shows_the_hardest_first(term):
    folder = term.folder()
    capsys = term.capsys
    made = chapter_report(folder, "01")
    assert made.graded == 4 and made.unreadable == ("zoe",) and made.exercises[0].exercise == "state-13b"
    assert (made.exercises[0].solved, made.exercises[0].wrong) == (2, 2)
    top = made.misconceptions[0]
    assert top.exercise == "state-13b" and top.students == ("barbara", "grace") and top.name == "returned-none"
    assert "state-13b" not in picture(made).alt and "4 students" in picture(made).alt
    assert command("report", "01") == 0
    assert "returned-none" in capsys.readouterr().out
    page = (term.path / "exports" / "report.html").read_text()
    assert "<svg" in page and "returned-none" in page and "<script" not in page


def exports_are_what_canvas_moodle_and_spreadsheets_import(term):
    folder = term.folder()
    points, full = scores(folder), sum(folder.exercises.points("01").values())
    for to in ("canvas", "moodle", "csv", "exercises"):
        assert command("export", "01", "--to", to, *(["--column", "Chapter 1 (77)"] if to == "canvas" else [])) == 0
        assert "no grade is in the file: zoe" in " ".join(term.capsys.readouterr().out.split())
    points.pop("zoe")  # cannot be read
    files = {path.stem.rsplit("-", 1)[1]: rows_of(path) for path in (term.path / "exports").glob("*.csv")}
    head, possible, *rest = files["canvas"]
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Chapter 1 (77)"]
    assert possible[0].strip() == "Points Possible"
    assert {row[1]: row[5] for row in rest} == {
        student.lms_id: f"{points[student.id]:g}" for student in folder.roster.students() if student.id in points
    }
    assert float(possible[5]) == full and ["Lovelace, Ada", "1001", "u1", "ada@uni.edu", "A", f"{full:g}"] in rest
    moodle = {row[0]: row[2:] for row in files["moodle"][1:]}
    assert files["moodle"][0][:2] == ["Email address", "ID number"] and "leslie@uni.edu" not in moodle
    assert moodle["grace@uni.edu"][0] == f"{points['grace']:g}" and "off for lateness" in moodle["grace@uni.edu"][1]
    plain = [dict(zip(files["csv"][0], row, strict=True)) for row in files["csv"][1:]]
    assert {row["student_id"]: float(row["score"]) for row in plain if row["student_id"] in points} == points
    by_exercise = [dict(zip(files["exercises"][0], row, strict=True)) for row in files["exercises"][1:]]
    assert next(row for row in by_exercise if row["student_id"] == "barbara")["01 state-13b"] == "0"


def an_extension_takes_the_penalty_back(term):
    folder = term.folder()
    capsys = term.capsys
    assert command("extend", "grace", "01", "--until", "2026-10-15") == 0
    assert "in time, no points off" in capsys.readouterr().out
    by = {each.student.id: each for each in grades(ClassFolder.open(folder.root), ["01"])}
    assert by["grace"].penalty == 0.0 and by["alan"].penalty > 0.0
    assert command("grade") == 0
    assert {each.student.id: each.penalty for each in grades(ClassFolder.open(folder.root), ["01"])}["grace"] == 0.0


def a_regrade_shows_old_and_new_keeps_what_was_set_by_hand_and_lowers_only_when_told(term):
    folder = term.folder()
    capsys = term.capsys
    with closing(gradebook(folder)) as book:  # formgrader: an instructor gives points by hand
        book.find_grade("state-13b-check", NAME, NAME, "barbara").manual_score = 3.0
        book.db.commit()
    own = folder.exercises.points("01")["state-13b"]
    assert command("release", "01", "--points", f"state-13b={own + 1:g}") == 0
    capsys.readouterr()
    assert command("regrade", "--exercise", "state-13b", "--student", "ada", "--student", "barbara", "--json") == 0
    changes = {each["student"]: each for each in json.loads(capsys.readouterr().out)["changes"]}
    assert (changes["ada"]["old"], changes["ada"]["new"], changes["ada"]["kept_by"]) == (own, own + 1, "")
    assert changes["barbara"]["kept_by"] == "set by hand"
    assert command("release", "01", "--points", "state-13b=1") == 0
    capsys.readouterr()
    assert command("regrade", "--exercise", "state-13b", "--student", "ada", "--student", "barbara", "--json") == 0
    kept = {each["student"]: each for each in json.loads(capsys.readouterr().out)["changes"]}
    assert kept["ada"]["kept_by"] == "higher before"
    by = {each.student.id: each for each in grades(ClassFolder.open(folder.root), ["01"])}
    assert by["ada"].by_exercise["state-13b"] == own + 1 and by["barbara"].by_exercise["state-13b"] == 3.0
    assert command("regrade", "--exercise", "state-13b", "--lower", "--student", "ada") == 0
    by = {each.student.id: each for each in grades(ClassFolder.open(folder.root), ["01"])}
    assert by["ada"].by_exercise["state-13b"] == 1.0


def a_newer_submission_is_graded_and_the_others_stay(term):
    folder = term.folder()
    better = work(folder, "barbara")
    source = archive({"liskovbarbara_1006_900_01_small-1.ipynb": as_bytes(better)})
    before = {name: report["key"] for name, report in current(folder, "01").items()}
    assert command("collect", saved(term.root / "again.zip", source), "--at", "2026-10-10 10:00") == 0
    assert status(ClassFolder.open(folder.root))[0].waiting == ("barbara",)
    assert command("grade") == 0
    after = current(ClassFolder.open(folder.root), "01")
    assert [exercise["points"] for exercise in after["barbara"]["reports"] if exercise["id"] == "mfu-waste"] == [
        folder.exercises.points("01")["mfu-waste"]
    ]
    assert {name for name in after if after[name]["key"] != before[name]} >= {"barbara"}


def another_contract_or_a_changed_source_is_not_graded_unless_meant(term):
    folder = term.folder()
    capsys = term.capsys
    toml = term.path / "class.toml"
    text = toml.read_text()
    toml.write_text(text.replace('contract = "', 'contract = "0'))
    assert command("grade") == 1 and "made under contract version 0" in capsys.readouterr().err
    toml.write_text(text)
    source = folder.sources.path("01")
    whole = source.read_text()
    notebook = read(source)
    notebook["cells"].pop(0)
    source.write_text(render(notebook))
    assert command("grade") == 1 and "has changed since it was pinned" in capsys.readouterr().err
    source.write_text(whole)
    assert command("grade") == 0


def nothing_lies_about_when_the_term_was(term):
    folder = term.folder()
    assert folder.settings.due("ada", "01") == DUE and folder.settings.due("grace", "01") == at("2026-10-15 23:59:59")
    assert folder.submissions.arrival("alan", "01") > DUE + timedelta(days=2)


STEPS = (
    a_term_goes_through_and_says_where_it_could_not,
    honest_work_has_full_points_on_numbers_of_its_own_and_the_newest_counts,
    lateness_is_the_lms_record_and_costs_by_the_day,
    a_second_run_grades_nothing_and_status_says_where_the_class_stands,
    the_report_counts_misconceptions_and_shows_the_hardest_first,
    exports_are_what_canvas_moodle_and_spreadsheets_import,
    an_extension_takes_the_penalty_back,
    a_regrade_shows_old_and_new_keeps_what_was_set_by_hand_and_lowers_only_when_told,
    a_newer_submission_is_graded_and_the_others_stay,
    another_contract_or_a_changed_source_is_not_graded_unless_meant,
    nothing_lies_about_when_the_term_was,
)
