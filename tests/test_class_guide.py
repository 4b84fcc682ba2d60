"""The instructor's guide: every command in it, run in order on a fresh folder, as a new instructor would."""

import re
from pathlib import Path

import pytest

from course_app.cli import run
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.roster import key_of
from course_lib.folders import ROOT
from tests.class_kit import archive, as_bytes, work
from tests.guide_kit import GUIDE, Instructor, blocks

pytestmark = pytest.mark.rotates("course_grader/", "course_app/cli/", "docs/", "README.md", together="term")


def hand_in_all(root: Path) -> None:
    """What the LMS's download holds: five of the six, one of them late, and one that comes by mail."""
    folder, files = ClassFolder.open(root), {}
    for number, student in enumerate(folder.roster.students()):
        wrong = (
            {"train-days-7b": "def train_days(*_):\n    return 1.0\n\ndef gpus_for_deadline(*_):\n    return 1"}
            if number % 3 == 0
            else {}
        )
        data = as_bytes(work(folder, student.id, wrong=wrong, blank=("mfu-waste",) if number % 2 else ()))
        late = "LATE_" if student.id == "zoe" else ""
        if student.id == "leslie":
            (root / "late.ipynb").write_bytes(data)
        else:
            files[
                f"{key_of(student.last_name + student.first_name)}_{late}{student.lms_id}_{70 + number}_01_small.ipynb"
            ] = data
    (root / "submissions.zip").write_bytes(archive(files))


@pytest.fixture(scope="module")
def term(tmp_path_factory) -> tuple[ClassFolder, dict[str, str]]:
    """The class after all commands of the guide, and what each of them said."""
    instructor, said = Instructor(tmp_path_factory.mktemp("hour")), {}
    for line in blocks():
        if "class collect submissions.zip" in line:
            hand_in_all(instructor.at)
        if "class formgrader" in line:
            instructor.opens(line)
        else:
            said[line] = instructor.types(line)
    return ClassFolder.open(instructor.at), said


def test_the_first_hour_ends_with_grades_pages_and_files_for_the_lms(term):
    folder, said = term
    assert len(said) >= 14 and all("Traceback" not in text for text in said.values())
    assert [path.name for path in sorted((folder.root / "exports").iterdir())][:2] == [
        "autumn-26-01-canvas.csv",
        "feedback-01-canvas.zip",
    ]
    assert len(list((folder.root / "feedback").glob("*/*/*.html"))) == 6
    assert "6 students, chapters 01" in said[next(line for line in said if "class init" in line)]
    assert "5 graded" in said["./course class grade"] and "1 graded" in said["./course class grade --student leslie"]
    rows = (folder.root / "exports" / "autumn-26-01-canvas.csv").read_text(encoding="utf-8-sig").splitlines()
    assert rows[0].startswith("Student,ID,SIS User ID,SIS Login ID,Section")


def test_what_the_guide_shows_is_what_is_said(term):
    _, said = term
    shown = re.findall(r"^```text\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    everything = "\n".join(said.values())
    missing = [
        line
        for text in shown
        for line in text.splitlines()
        if line.split() and " ".join(line.split()) not in " ".join(everything.split())
    ]
    assert shown and not missing


def test_commands_and_files_that_the_guide_names_in_passing_are_there(term):
    folder, _ = term
    text = GUIDE.read_text(encoding="utf-8")
    for command in sorted(set(re.findall(r"`\./course ((?:class )?[a-z-]+)", text))):
        assert run([*command.split(), "--help"]) == 0, command
    for name in re.findall(
        r"^\| ((?:`[^`]+`(?:, )?)+) \|", text[text.index("## What is in the class folder") :], re.MULTILINE
    ):
        for each in re.findall(r"`([^`]+)`", name):
            assert (folder.root / each).exists(), each
    for picture in re.findall(r'src="([^"]+)"', text):
        assert (GUIDE.parent / picture).stat().st_size <= 200_000
    assert "docs/instructors.md" in (ROOT / "README.md").read_text(encoding="utf-8")
