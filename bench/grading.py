"""`course bench grading`: the class grader and plain `nbgrader autograde` on the same submissions, in one run.

A figure per submission leaves out the start of the program, for both.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.grading_class import KINDS, made, submission
from bench.rows import Row, show
from course_grader import exercises
from course_grader.classroom.folder import ClassFolder
from course_grader.dependencies import needed
from course_grader.intake import load
from course_grader.judge import decide, resolve
from course_grader.judge.confirmed_memory import weighed_case
from course_grader.notebooks import render, write_whole
from course_grader.service.events import Event
from course_grader.service.grading import grade_class
from course_grader.service.pool import Markers
from course_grader.service.report_cache import all_latest
from course_grader.submission import rebuild
from course_grader.worker.imports import imports_of
from course_grader.worker.in_worker import run_cell
from course_grader.worker.runners import InProcess
from course_grader.worker.worker_pool import WorkerPool
from course_lib.folders import ROOT
from course_runs.processes import descendants

VALUE_SECONDS = 0.15  # a submission of value questions, on one core
TIMES_PLAIN = 15.0
BARE = 2.0  # cluster exercises, against the same checks in one process
EXERCISE_SECONDS = 0.5  # one cluster exercise
PEAK_BYTES = 500e6  # a marker and its fork server, whatever a submission prints
FLAT = 1.2  # the last tenth of many submissions against the first: time, and memory
_LOUD = "for _ in range(1000): print('x' * 1_000_000)"


# ------------------------------------------------------------------------------------------------ memory


class Memory(threading.Thread):
    """Samples the memory of everything below this process: bytes, shared pages counted once."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.over = 0, threading.Event()

    def run(self) -> None:
        """Sample until told to stop."""
        while not self.over.wait(0.1):
            now = sum(own_bytes(pid) for pid in descendants(os.getpid()))
            self.peak = max(self.peak, now)

    def __enter__(self) -> "Memory":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()


def own_bytes(pid: int) -> int:
    """A process's proportional share of memory, in bytes; 0 once it is gone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


# ------------------------------------------------------------------------------------------------ the two ways


def ours(
    folder: ClassFolder, jobs: int, when_done: Callable[[int], None] = lambda _: None
) -> tuple[list[float], float]:
    """When each submission was done, in seconds from the first, and the seconds up to the first one."""
    times: list[float] = []

    def say(event: Event) -> None:
        if event.kind == "done":
            times.append(time.perf_counter())
            when_done(event.done)

    start = time.perf_counter()
    summary = grade_class(folder, crew=Markers(jobs), say=say)
    if summary.exit_code:
        raise RuntimeError(f"the bench's own class was not graded: {summary}")
    return [each - times[0] for each in times], times[0] - start


def each_of(times: Sequence[float], jobs: int) -> float:
    """Seconds of one submission and core, the first ones left out."""
    return (times[-1] - times[jobs - 1]) * jobs / max(1, len(times) - jobs)


def plain(folder: ClassFolder, chapter: str) -> float:
    """Seconds that `nbgrader autograde` takes for the class, in a copy of it."""
    with tempfile.TemporaryDirectory(prefix="course-bench-nbgrader-", ignore_cleanup_errors=True) as scratch:
        copy = Path(shutil.copytree(folder.root, Path(scratch) / "class", symlinks=True))
        # a class turns nbgrader's autograder away
        own = "--Autograde.exporter_class=nbconvert.exporters.NotebookExporter"
        command = [sys.executable, "-m", "nbgrader", "autograde", folder.settings.assignment(chapter), own]
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        shutil.rmtree(copy / "autograded", ignore_errors=True)  # ours
        start = time.perf_counter()
        done = subprocess.run(
            command, cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        seconds = time.perf_counter() - start
        handed_in = len(list((copy / "submitted").glob(f"*/{folder.settings.assignment(chapter)}")))
        graded = len(list((copy / "autograded").glob(f"*/{folder.settings.assignment(chapter)}/*.ipynb")))
        if graded < handed_in - handed_in // len(KINDS):  # it drops work that crashes; without more it would seem fast
            raise RuntimeError(
                f"nbgrader graded {graded} of {handed_in}: {' | '.join(done.stdout.splitlines()[-5:])[:2000]}"
            )
        return seconds


def floor(folder: ClassFolder, chapter: str, count: int) -> float:
    """Seconds that forking from a fork server and running a solved notebook's cells takes: nothing is judged or
    written."""
    source = load(folder.sources.path(chapter))
    whole = needed(rebuild(source, source, folder.exercises.cards(chapter)), source)
    with WorkerPool(torch=True, chapters=exercises.chapters(), imports=imports_of(source), many=True) as workers:
        for turn in range(count + 1):
            if turn == 1:
                start = time.perf_counter()
            with workers.worker(folder.root) as worker:
                for step in whole.steps:
                    if step.do == "run":
                        run_cell(worker, step.source)
    return (time.perf_counter() - start) / count


def bare_seconds(folder: ClassFolder, chapter: str) -> float:
    """Seconds that the checks of a solved chapter take in this one process, without worker or sandbox; the cases that a
    class weighs are run, too."""
    source = load(folder.sources.path(chapter))
    space: dict[str, object] = {"__name__": "__main__"}
    cards, total = {card.id: card for card in folder.exercises.cards(chapter)}, 0.0
    for step in needed(rebuild(source, source, tuple(cards.values())), source).steps:
        if step.do == "run":
            exec(compile(step.source, "<cell>", "exec"), space)
            continue
        card = cards[step.exercise]
        exercise = resolve(card, secret=folder.secret)
        weighed = weighed_case(exercise) if exercise.contract.weighed is not None else None
        start = time.perf_counter()
        here = InProcess(*(space[name] for name in card.answers))
        decide(resolve(card, secret=folder.secret), here)
        for case in (weighed.warm, weighed.case) if weighed is not None else ():
            here.run(card, case)
        total += time.perf_counter() - start
    return total


# ------------------------------------------------------------------------------------------------ rows


def speed_rows(chapter: str, count: int, jobs: int, with_plain: bool, with_memory: bool) -> Iterator[Row]:
    """One chapter: ours, plain, the ratio, the floor, and the memory of a marker with its fork server."""
    cluster = chapter == "06"
    with made(chapter, count) as (folder, number):
        times, first = ours(folder, jobs)
        _require_fair(folder, number)
        each = each_of(times, jobs)
        ok = None if cluster else each <= VALUE_SECONDS
        yield Row(
            f"{chapter}: a submission, ours",
            each,
            "s",
            ok,
            f"{count} submissions, {jobs} at a time; the first after {first:.1f} s",
        )
        if cluster:
            yield from _cluster_rows(folder, number)
        if with_plain:
            took = plain(folder, number) / count
            wanted = 1.0 if cluster else TIMES_PLAIN
            yield Row(f"{chapter}: a submission, nbgrader autograde", took, "s", None, "its start of 1 to 2 s in it")
            yield Row(f"{chapter}: nbgrader / ours", took / each, "times", took / each >= wanted)
        lowest = floor(folder, number, max(2, count // 4))
        yield Row(f"{chapter}: fork and run the cells", lowest, "s", None, "a solved notebook, nothing judged")
    if with_memory:
        yield Row(
            f"{chapter}: a marker's memory at most",
            _peak(chapter, jobs),
            "bytes",
            None,
            "in a run of its own: to look takes time",
        )


def _peak(chapter: str, jobs: int) -> float:
    """Bytes of a marker and its fork server at most, on a few submissions of each kind."""
    with made(chapter, len(KINDS) * jobs) as (folder, _), Memory() as memory:
        ours(folder, jobs)
    return memory.peak / jobs


def _require_fair(folder: ClassFolder, number: str) -> None:
    """RuntimeError unless right work has full points, blank work none, and the others lose what is wrong and no
    more."""
    for student, report in all_latest(folder, number).items():
        kind = KINDS[int(student[1:]) % len(KINDS)]
        lost = sum(each["points"] < each["maximum"] for each in report["reports"])
        least, most = {
            "right": (0, 0),
            "crashing": (1, 1),
            "blank": (len(report["reports"]),) * 2,
            "wrong": (1, len(report["reports"]) - 1),
        }[kind]
        if not least <= lost <= most:
            raise RuntimeError(f"{kind} work of the bench lost points in {lost} exercises: {report['reports']}")


def _cluster_rows(folder: ClassFolder, number: str) -> Iterator[Row]:
    solved = [report for report in all_latest(folder, number).values() if report["points"] == report["maximum"]][:5]
    sums = sorted(sum(each["seconds"] for each in report["reports"]) for report in solved)
    bare = min(bare_seconds(folder, number) for _ in range(3))
    yield Row(
        "06: checks, ours / bare",
        sums[0] / bare,
        "times",
        sums[0] / bare <= BARE,
        f"best of {len(sums)}; bare {bare:.2f} s",
    )
    exercise = max(
        min(report["reports"][place]["seconds"] for report in solved) for place in range(len(solved[0]["reports"]))
    )
    yield Row("06: the slowest exercise", exercise, "s", exercise <= EXERCISE_SECONDS)


def growth_rows(count: int) -> Iterator[Row]:
    """Many submissions: the last tenth takes as long as the first, and as much memory."""
    held: dict[int, int] = {}

    def look(done: int) -> None:
        if done in (tenth, count):
            held[done] = own_bytes(os.getpid()) + sum(own_bytes(pid) for pid in descendants(os.getpid()))

    tenth = max(2, count // 10)
    with made("five", count) as (folder, _):
        times, _ = ours(folder, 1, look)
    early, late = times[tenth] - times[0], times[-1] - times[-1 - tenth]
    yield Row(f"{count} submissions: last tenth / first, seconds", late / early, "times", late / early <= FLAT)
    yield Row(
        f"{count} submissions: memory then / after the first tenth",
        held[count] / held[tenth],
        "times",
        held[count] / held[tenth] <= FLAT,
        f"{held[count] / 1e6:,.0f} MB, the service itself in it",
    )


def loud_rows() -> Iterator[Row]:
    """A submission that prints a gigabyte, and hands in 40 MB of outputs."""
    with made("five", 3) as (folder, number):
        solved = load(folder.sources.path(number))
        release = load(
            folder.root / "release" / folder.settings.assignment(number) / f"{folder.settings.assignment(number)}.ipynb"
        )
        loud = submission(solved, release, "right", 0, _LOUD)
        loud["cells"][0] = {
            **loud["cells"][0],
            "outputs": [{"output_type": "stream", "name": "stdout", "text": "x" * 40_000_000}],
        }
        write_whole(
            folder.submissions.folder("s0000", number) / f"{folder.settings.assignment(number)}.ipynb", render(loud)
        )
        with Memory() as memory:
            ours(folder, 1)
        points = all_latest(folder, number)["s0000"]["points"]
    yield Row(
        "a gigabyte of output: marker and fork server",
        memory.peak,
        "bytes",
        memory.peak <= PEAK_BYTES,
        f"{points:g} points kept",
    )


# ------------------------------------------------------------------------------------------------ the command


def main(arguments: Sequence[str]) -> int:
    """Print the table, or JSON with `--json`; 1 where a figure misses what it is held to."""
    parser = argparse.ArgumentParser(prog="course bench grading", description=__doc__)
    parser.add_argument(
        "--chapters", nargs="*", default=["five", "01", "06"], help="five: a notebook of five questions on tensors"
    )
    parser.add_argument("--submissions", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--growth", type=int, default=1000, help="submissions for growth; 0 leaves it out")
    parser.add_argument(
        "--no-plain", action="store_true", help="without nbgrader's own autograde, which takes most of the time"
    )
    parser.add_argument(
        "--quick", action="store_true", help="few submissions, to see that it works: the figures mean nothing"
    )
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(list(arguments))
    if given.quick:
        given.chapters, given.submissions, given.growth, given.no_plain = ["five"], 4, 0, True
    rows: list[Row] = []
    for chapter in given.chapters:
        print(f"{chapter} …", file=sys.stderr, flush=True)
        rows += speed_rows(chapter, given.submissions, given.jobs, not given.no_plain, not given.quick)
    if given.growth:
        print("growth …", file=sys.stderr, flush=True)
        rows += growth_rows(given.growth)
    if not given.quick:
        rows += loud_rows()
    return show(rows, given.json)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
