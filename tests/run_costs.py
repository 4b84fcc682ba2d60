"""A pytest plugin: how far a run is, and what it costs by test file."""

import contextlib
import ctypes
import gc
import os
import resource
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

SHOWN = 10  # files
GROWN = 100e6  # bytes after which a test process gives back what it no longer uses
_spent = 0.0  # CPU seconds at the last report
_kept = 0.0  # bytes held after memory was last given back
EVERY = 10.0  # seconds between two lines of progress
USUAL = 0.1  # s of CPU that a usual test takes
WEIGHTS = {  # the beginning of a test's name -> as many usual tests as it takes
    "tests/test_browser.py::test_a_chapter": 400,
    "tests/test_runs_real.py::test_every_layout": 600,
    "tests/test_grading_attacks.py::test_no": 300,
    "tests/test_runs_disk.py::test_a_run_that_was_killed": 300,
    "tests/test_course.py::test_plain_nbgrader": 250,
    "tests/test_whole_course.py": 600,
    "tests/test_slurm.py::test_a_training": 150,
    "tests/test_meter.py::test_a_program": 130,
    "tests/test_class_term.py": 110,
    "tests/test_own_trainer.py::test_torchrun": 90,
    "tests/test_course.py::test_solved": 70,
    "tests/test_course.py::test_untouched": 60,
    "tests/test_class_scale.py": 60,
    "tests/contract/test_answers.py::test_a_right_answer_passes": 50,
    "tests/test_mutants.py::test_every_change": 33,
    "tests/contract/test_answers.py::test_an_answer_to_the_public": 26,
    "tests/contract/test_answers.py::test_wrong_answers": 23,
    "tests/test_class_browser.py": 15,
    "tests/test_grading_scales.py": 15,
    "tests/test_kill_matrix.py::test_answers_come_out": 6,
    "tests/test_kill_matrix.py": 20,
}


class Progress:
    """How many tests are done, and about how long the others take: a line every few seconds where tests run in
    processes."""

    def __init__(self, processes: int) -> None:
        self.usual = USUAL / processes  # s that a usual test takes until more is known
        self.started = time.monotonic()
        self.total = self.done = self.whole = self.share = 0  # tests, and their weights
        self.over = threading.Event()
        threading.Thread(target=self._tell, daemon=True).start()

    def _tell(self) -> None:
        self._say("collecting the tests, about 10 s")
        while not self.over.wait(EVERY):
            if self.total:
                took = time.monotonic() - self.started
                self._say(f"{self.done:,} of {self.total:,} tests in {took:.0f} s; about {self.left(took):.0f} s left")

    def left(self, took: float) -> float:
        """About how many seconds the other tests take, `took` seconds after the first one began."""
        known = self.whole / 20  # as if so many had been run at the usual speed
        return (self.whole - self.share) * (took + known * self.usual) / (self.share + known)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """A test process knows all tests."""
        if not self.total:
            self.total, self.whole, self.started = len(ids), sum(map(weight, ids)), time.monotonic()
            self._say(f"{self.total:,} tests, about {self.left(0):.0f} s")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has ended."""
        self.done += report.when == "teardown"
        self.share += weight(report.nodeid) * (report.when == "teardown")

    def pytest_sessionfinish(self) -> None:
        """Nothing is left."""
        self.over.set()

    def _say(self, text: str) -> None:
        print(f"\n[{text}]", file=sys.stderr, flush=True)


def weight(nodeid: str) -> int:
    """How long a test takes, in usual tests."""
    return next((times for beginning, times in WEIGHTS.items() if nodeid.startswith(beginning)), 1)


def pytest_configure(config: pytest.Config) -> None:
    """Begin to tell how far the run is, at once: collecting takes seconds, and less while nothing looks for garbage."""
    gc.disable()
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        return
    config.pluginmanager.register(Progress(min(config.getoption("numprocesses"), os.cpu_count() or 1)))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Everything loaded and collected stays to the end: the garbage collector need not visit two million objects each
    time."""
    global _spent
    gc.freeze()
    gc.enable()
    _spent = _cpu()


def _cpu() -> float:
    """CPU seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Each report says how much CPU time passed since the one before it."""
    global _spent
    report = yield
    now = _cpu()
    report.cpu, _spent = now - _spent, now
    return report


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish() -> None:
    give_back_memory()


def give_back_memory() -> None:
    """Free what is no longer used, if this process has grown since the last time.

    Models with hooks are cycles that wait for a collection. Ranks are threads, and the C library keeps what each of
    them has freed.
    """
    global _kept
    if _held() > _kept + GROWN:
        gc.collect()
        gc.freeze()  # what is left is in use, by caches mostly: later collections need not visit it
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
        _kept = _held()


def _held() -> float:
    """Bytes of memory that this process holds; 0 where the system has no /proc."""
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
    return 0


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The files that took longest."""
    wall, cpu, tests = defaultdict(float), defaultdict(float), defaultdict(set)
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if isinstance(report, pytest.TestReport):
            part = report.nodeid.split("::")[0]
            wall[part] += report.duration
            cpu[part] += getattr(report, "cpu", 0.0)
            tests[part].add(report.nodeid)
    if len(wall) > 1:
        terminalreporter.section(f"the {min(SHOWN, len(wall))} slowest parts")
        for part in sorted(wall, key=wall.__getitem__, reverse=True)[:SHOWN]:
            line = f"{wall[part]:7.1f} s, {cpu[part]:7.1f} s of CPU, {len(tests[part]):5} tests  {part}"
            terminalreporter.write_line(line)
        total = (
            f"{sum(wall.values()):7.1f} s, {sum(cpu.values()):7.1f} s of CPU, {sum(map(len, tests.values())):5} "
            f"tests  in all"
        )
        terminalreporter.write_line(total)
