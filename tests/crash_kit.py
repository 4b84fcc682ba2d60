"""A grading service that is killed, interrupted, and left without room: what the tests of crashes start as a process.

`python -m tests.crash_kit serve` does what lines of JSON on its input say, each in a fork of itself; `full FOLDER ROOM`
grades a copy of the class in a file system that is too small, and again once there is room. Markers are of no process:
they make up their reports.
"""

import base64
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TypedDict

from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.roster import Student
from course_grader.notebooks import parse
from course_grader.records import Report
from course_grader.service.events import Say, Summary
from course_grader.service.gradebook_writer import Writer
from course_grader.service.grading import grade_class
from course_grader.service.pool import Done
from course_grader.service.results import Result, Task
from course_grader.service.task import cards_of, judged_as

AT_MOST = 10  # runs that are killed in one class


class Made:
    """Markers of no process: reports that follow from a task's key, after a short while."""

    size = 2

    def __init__(self, seconds: float = 0.002) -> None:
        self.seconds, self.at_work = seconds, []

    def free(self) -> int:
        return self.size - len(self.at_work)

    def start(self, task: Task) -> None:
        self.at_work.append(task)

    def wait(self, seconds: float) -> list[Done]:
        time.sleep(min(self.seconds, seconds))
        done = [Done(task["key"], made_up(task)) for task in self.at_work[:1]]
        self.at_work = self.at_work[1:]
        return done

    def close(self, seconds: float = 0.0) -> list[Done]:
        done = [each for _ in range(len(self.at_work)) for each in self.wait(self.seconds)] if seconds else []
        self.at_work = []
        return done


def made_up(task: Task) -> Result:
    """A result whose points follow from the student's name."""
    coin = random.Random(task["student"])
    reports = [
        Report(
            exercise=card.id,
            state="answered",
            points=float(coin.randint(0, int(card.points))),
            maximum=float(card.points),
        )
        for card in cards_of(task)
    ]
    source = parse(task["source"])
    learner = parse(base64.b64decode(task["notebook"]).decode())
    return judged_as(task, "graded", "", source, learner, reports)


def many(folder: ClassFolder, count: int) -> ClassFolder:
    """The class with `count` students more, each with a submission of the first chapter."""
    roster = (folder.root / "roster.csv").read_text(encoding="utf-8").splitlines()
    columns = roster[0].split(",")
    new = [f"made-{number:03d}" for number in range(count)]
    rows = [",".join(name if column == "student_id" else "" for column in columns) for name in new]
    (folder.root / "roster.csv").write_text("\n".join([*roster, *rows]) + "\n", encoding="utf-8")
    chapter = folder.settings.chapters()[0]
    text = (
        folder.root / "release" / folder.settings.assignment(chapter) / f"{folder.settings.assignment(chapter)}.ipynb"
    ).read_text(encoding="utf-8")
    for name in new:
        place = folder.submissions.folder(Student(id=name), chapter)
        place.mkdir(parents=True)
        (place / f"{folder.settings.assignment(chapter)}.ipynb").write_text(text, encoding="utf-8")
        (place / "mine.txt").write_text(name, encoding="utf-8")
    return ClassFolder.open(folder.root)


class ClassState(TypedDict):
    """What is on disk and in the gradebook; by student's number."""

    times: dict[str, int]
    sound: str
    scores: dict[str, float]
    reports: dict[str, int]
    parts: list[str]


def state_of(folder: ClassFolder) -> ClassState:
    """What is on disk and in the gradebook, as plain data that two runs can be compared by."""
    chapter = folder.settings.chapters()[0]
    with Writer(folder.settings.db_url, folder.settings.name) as writer:
        times = Counter(student for student, _, _ in writer.journal())
        sound = writer.sound()
        scores = {
            each.student.id: each.score
            for each in writer.book.assignment_submissions(folder.settings.assignment(chapter))
        }
    reports = {
        student.id: len(
            [path for path in folder.submissions.reports(student, chapter).glob("*.json") if path.name != "latest.json"]
        )
        for student in folder.roster.students()
    }
    parts = [str(path) for path in folder.root.rglob("*.part")]
    return {
        "times": dict(times),
        "sound": sound,
        "scores": scores,
        "reports": {name: count for name, count in reports.items() if count},
        "parts": parts,
    }


def grade(place: Path, seconds: float = 0.002, say: Say | None = None) -> Summary:
    """One run over the class there."""
    return grade_class(ClassFolder.open(place), no_sandbox=True, crew=Made(seconds), say=say)


def storm(place: Path, kills: int, seed: int) -> dict[str, object]:
    """Kill `kills` runs at random instants, each going on where the one before was; whole classes one after the other.

    The `AT_MOST`th kill in a class is its last, so that a machine that becomes busy has no class in which every run is
    killed.
    """
    coin = random.Random(seed)
    killed, rounds, ends = 0, [], 0
    whole = time.monotonic()
    first = _fresh(place, 0)
    grade(first)
    whole = time.monotonic() - whole
    wanted = state_of(ClassFolder.open(first))
    while killed < kills:
        copy, last = _fresh(place, len(rounds) + 1), min(kills, killed + AT_MOST)
        while True:
            pid = os.fork()
            if pid == 0:
                os._exit(grade(copy).exit_code)
            time.sleep(coin.uniform(0.0, whole / 4) if killed < last else 0.0)
            if killed < last:
                os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            killed += os.WIFSIGNALED(status)
            if os.WIFEXITED(status):
                ends += 1
                break
        rounds.append(state_of(ClassFolder.open(copy)))
    return {
        "killed": killed,
        "rounds": len(rounds),
        "alike": all(each == wanted for each in rounds),
        "wanted": wanted,
        "rounds_seen": rounds,
    }


def _fresh(place: Path, number: int) -> Path:
    target = place.parent / f"{place.name}-{number}"
    shutil.copytree(place, target, symlinks=True)
    return target


def forked(place: Path, log: Path, seconds: float) -> int:
    """The process of a run over the class there, which writes what it says into `log`."""
    log.touch()
    pid = os.fork()
    if pid == 0:
        with log.open("a", buffering=1) as file:
            os._exit(
                grade(place, seconds, lambda event: print(event.kind, event.done, event.text, file=file)).exit_code
            )
    return pid


def serve() -> int:
    """Answer requests until there are no more."""
    for line in sys.stdin:
        match json.loads(line):
            case ["storm", place, kills, seed]:
                answer = storm(Path(place), kills, seed)
            case ["grade", place, log, seconds]:
                answer = forked(Path(place), Path(log), seconds)
            case ["wait", pid]:
                answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(json.dumps(answer), flush=True)
    return 0


def full(place: Path, room: Path) -> int:
    """Grade in `room`, which gets too small, and again when it is not; both exit codes and states."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,nr_inodes=4000", "none", room], check=True)
    copy = Path(shutil.copytree(place, room / "class", symlinks=True))
    (room / "filler").write_bytes(bytes(shutil.disk_usage(room).free - 160_000))
    said: list[str] = []
    first = grade(copy, say=lambda event: said.append(event.text))
    (room / "filler").unlink()
    second = grade(copy)
    codes = [first.exit_code, second.exit_code]
    print(
        json.dumps(
            {
                "codes": codes,
                "said": said,
                "graded": [first.graded, second.graded],
                "state": state_of(ClassFolder.open(copy)),
            }
        )
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(serve() if sys.argv[1] == "serve" else full(Path(sys.argv[2]), Path(sys.argv[3])))
