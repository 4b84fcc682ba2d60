"""The whole grading service, real markers and all, killed at random instants and started again: what is lost or done
twice."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.grading_class import made
from bench.rows import Row
from course_grader.classroom.folder import ClassFolder
from course_grader.service.gradebook_writer import Writer
from course_grader.service.report_cache import all_latest
from course_lib.folders import ROOT
from course_runs.processes import descendants

_GRADE = (
    "import sys; from course_grader.service.grading import grade_class; from course_grader.classroom.folder import "
    "ClassFolder; sys.exit(grade_class(ClassFolder.open(sys.argv[1]), jobs=2).exit_code)"
)
LEFT_SECONDS = 5.0  # that processes may take to end with the one that was killed


def crash_rows(kills: int, count: int) -> Iterator[Row]:
    """Kill the service `kills` times while it grades classes of `count`, and compare with one that nobody disturbed."""
    coin = random.Random(0)
    with made("five", count) as (folder, chapter):
        start = time.monotonic()
        _started(folder.root).wait()
        whole, wanted = time.monotonic() - start, _state(folder, chapter)
    killed = twice = missing = other = left = unsound = classes = 0
    while killed < kills:
        with made("five", count) as (folder, chapter):
            classes += 1
            while True:
                running = _started(folder.root)
                if killed >= kills:
                    running.wait()
                    break
                try:
                    running.wait(coin.uniform(0.0, 1.3 * whole))
                    break
                except subprocess.TimeoutExpired:
                    below = descendants(running.pid)
                    os.kill(running.pid, signal.SIGKILL)
                    running.wait()
                    killed += 1
                    left += _left(below)
                    print(f"killed {killed} of {kills} times", file=sys.stderr, flush=True)
            with Writer(folder.settings.db_url, folder.settings.name) as writer:
                times = Counter(key for _, _, key in writer.journal())
                unsound += bool(writer.sound())
            twice += sum(number > 1 for number in times.values())
            missing += count - len(times)
            other += _state(folder, chapter) != wanted
    yield Row(
        "service killed",
        killed,
        "times",
        None,
        f"{classes} classes of {count}, 0 to {1.3 * whole:.0f} s after it began",
    )
    for what, value in (
        ("graded twice", twice),
        ("not graded", missing),
        ("gradebooks that are not sound", unsound),
        ("classes with other scores", other),
        ("processes left behind", left),
    ):
        yield Row(what, value, "", value == 0)


def _started(root: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _GRADE, str(root)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _state(folder: ClassFolder, chapter: str) -> dict[str, list[tuple[str, str, float]]]:
    """Student -> (exercise, state, points): what two runs are compared by."""
    return {
        student: [(each["id"], each["state"], each["points"]) for each in report["reports"]]
        for student, report in all_latest(folder, chapter).items()
    }


def _left(pids: list[int]) -> int:
    until = time.monotonic() + LEFT_SECONDS
    while time.monotonic() < until and any(Path(f"/proc/{pid}").exists() for pid in pids):
        time.sleep(0.05)
    return sum(Path(f"/proc/{pid}").exists() for pid in pids)
