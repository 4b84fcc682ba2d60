"""A grading run that is killed, interrupted, locked out or left without room loses nothing and does nothing twice."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.release import release_chapter
from course_grader.service import class_lock, gradebook_queue, grading
from course_grader.service.pool import Done
from course_lib.folders import ROOT
from course_lib.messages import Trouble
from tests.class_kit import class_at, copy_of, course_at
from tests.crash_kit import Made, grade, many, state_of

STUDENTS = 20


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory) -> ClassFolder:
    """A class of which everybody has handed in and nobody is graded."""
    root = tmp_path_factory.mktemp("crash")
    folder = class_at(root, course_at(root / "course"))
    release_chapter(folder, "01")
    return many(ClassFolder.open(folder.root), STUDENTS)


@pytest.fixture
def place(handed_in, tmp_path) -> ClassFolder:
    return copy_of(handed_in, tmp_path / "class")


@pytest.fixture(scope="module")
def wanted(handed_in, tmp_path_factory) -> dict:
    """What an uninterrupted run gives."""
    copy = copy_of(handed_in, tmp_path_factory.mktemp("wanted") / "class")
    assert grade(copy.root).exit_code == 0
    return state_of(copy)


class Kit:
    """A process that has loaded everything once, and runs what it is told in forks of itself."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.crash_kit", "serve"]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def ask(self, *request: object) -> object:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request, default=str) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def until(self, log, what: str) -> str:
        """The log of a run once it says that."""
        while what not in log.read_text():
            time.sleep(0.01)
        return log.read_text()


@pytest.fixture(scope="module")
def kit():
    made = Kit()
    yield made
    made.process.communicate()


def test_the_whole_of_it(wanted):
    assert wanted["times"] == {f"made-{number:03d}": 1 for number in range(STUDENTS)}
    assert wanted["reports"] == wanted["times"] and wanted["sound"] == "" and len(set(wanted["scores"].values())) > 5


def test_killed_at_fifty_instants_everything_is_graded_exactly_once(kit, place):
    told = kit.ask("storm", place.root, 50, 7)
    assert told["killed"] == 50 and told["rounds"] >= 5 and told["alike"], [
        each for each in told["rounds_seen"] if each != told["wanted"]
    ]


def test_interrupted_it_keeps_all_says_how_to_go_on_and_goes_on(kit, place, wanted, tmp_path):
    pid = kit.ask("grade", place.root, tmp_path / "log", 0.1)
    kit.until(tmp_path / "log", "done 3")
    os.kill(pid, signal.SIGINT)
    assert kit.ask("wait", pid) == 130
    said = (tmp_path / "log").read_text()
    assert "Stopping" in said and "the same command continues" in said
    before = state_of(place)
    assert 3 <= len(before["times"]) < STUDENTS and before["times"] == before["reports"]
    summary = grade(place.root)
    assert summary.exit_code == 0 and summary.already == len(before["times"]) and state_of(place) == wanted


def test_a_second_run_at_the_same_time_is_refused_and_the_first_goes_on(kit, place, wanted, tmp_path):
    pid = kit.ask("grade", place.root, tmp_path / "log", 0.1)
    kit.until(tmp_path / "log", "start")
    with pytest.raises(Trouble, match=f"being graded already .by process {pid}"):
        grade(place.root)
    assert kit.ask("wait", pid) == 0 and state_of(place) == wanted


def test_a_run_with_nothing_left_to_do_changes_no_byte(place):
    grade(place.root)
    files = {
        path: path.read_bytes()
        for path in sorted(place.root.rglob("*"))
        if path.is_file() and path.name != class_lock.LOCK
    }
    summary = grade(place.root)
    assert summary.exit_code == 0 and summary.already == STUDENTS and summary.graded == 0
    assert files == {
        path: path.read_bytes()
        for path in sorted(place.root.rglob("*"))
        if path.is_file() and path.name != class_lock.LOCK
    }


def test_a_full_disk_stops_it_in_words_and_what_is_there_stays(place, wanted, tmp_path):
    room = tmp_path / "room"
    room.mkdir()
    command = [
        "unshare", "--user", "--map-root-user", "--mount", sys.executable, "-m", "tests.crash_kit", "full", place.root,
        room,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["codes"] == [1, 0] and told["state"] == wanted
    assert 0 < told["graded"][0] < STUDENTS
    assert any("There is no room left" in each and "free some room" in each for each in told["said"])


def test_a_locked_gradebook_is_waited_for_and_said(place, wanted):
    lines = []
    gradebook = sqlite3.connect(place.root / "gradebook.db")

    def say(event):
        if event.kind == "line":
            lines.append(event.text)
            gradebook.rollback()  # once somebody waits
        if event.kind == "done" and event.done == 2:
            gradebook.execute("BEGIN EXCLUSIVE")

    summary = grade(place.root, say=say)
    gradebook.close()
    assert lines == [class_lock.WAITING, "The gradebook is free again."]
    assert summary.exit_code == 0 and state_of(place) == wanted


def test_a_gradebook_that_stays_locked_ends_it_in_words_and_nothing_is_judged_twice(place, wanted, monkeypatch):
    class All(Made):
        """They judge all before the gradebook has been locked for too long."""

        judged = 0

        def wait(self, seconds):
            done = super().wait(seconds)
            self.judged += len(done)
            if self.judged == STUDENTS:
                monkeypatch.setattr(gradebook_queue, "PATIENCE", 0.0)
            return done

    gradebook = sqlite3.connect(place.root / "gradebook.db")
    summary = grading.grade_class(
        ClassFolder.open(place.root),
        no_sandbox=True,
        crew=All(),
        say=lambda event: gradebook.execute("BEGIN EXCLUSIVE") if event.kind == "done" and event.done == 2 else None,
    )
    assert summary.exit_code == 1 and "judged and not in it" in summary.problem
    assert "nothing is judged twice" in summary.way_out
    gradebook.rollback()
    gradebook.close()

    class Nobody(Made):
        def start(self, task):
            raise AssertionError(f"{task['student']} is judged again")

    again = grading.grade_class(place, no_sandbox=True, crew=Nobody())
    assert again.graded == STUDENTS - 2 and state_of(place) == wanted


class Dying(Made):
    """Markers that die of one submission, `times` times."""

    def __init__(self, times: int) -> None:
        super().__init__(0.0)
        self.left, self.alone = times, []

    def wait(self, seconds):
        if self.left and self.at_work and self.at_work[0]["student"] == "made-004":
            self.left -= 1
            self.alone.append(len(self.at_work) == 1)
            return [Done(self.at_work.pop(0)["key"], None, "the marker was killed by signal 9 (SIGKILL)")]
        return super().wait(seconds)


def test_a_submission_whose_marker_dies_is_tried_once_more_alone(place, wanted):
    crew, lines = Dying(1), []
    summary = grading.grade_class(
        place, no_sandbox=True, crew=crew, say=lambda event: lines.append(event.text) if event.kind == "line" else None
    )
    assert summary.exit_code == 0 and not summary.crashed and state_of(place) == wanted
    assert ["tried once more, alone" in line for line in lines] == [True]


def test_one_that_kills_its_marker_twice_is_crashed_and_the_others_are_graded(place, wanted):
    crew = Dying(2)
    summary = grading.grade_class(place, no_sandbox=True, crew=crew)
    assert crew.alone == [False, True] and [line.student for line in summary.crashed] == ["made-004"]
    found = state_of(place)
    assert found["times"] == wanted["times"] and found["scores"] == {**wanted["scores"], "made-004": 0.0}


@pytest.mark.rotates("course_grader/")
def test_where_nothing_can_be_graded_it_stops_soon_and_no_score_is_made_up(place, wanted):
    class Broken(Made):
        def wait(self, seconds):
            done = super().wait(seconds)
            return [Done(each.key, {"key": each.key, "state": "failed", "why": "no sandbox today"}) for each in done]

    summary = grading.grade_class(place, no_sandbox=True, crew=Broken())
    assert summary.exit_code == 1 and len(summary.not_graded) == grading.IN_A_ROW
    assert "no sandbox today" in summary.problem
    assert not state_of(place)["times"] and not state_of(place)["reports"]
    assert grade(place.root).exit_code == 0 and state_of(place) == wanted
