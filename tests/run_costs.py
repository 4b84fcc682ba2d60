"""A pytest plugin: how far a run is, and what it costs by test file.

`python -m tests.run_costs REPORT.xml …` updates weights.json, the durations of tests, from runs with `--junitxml`. The
suite starts long tests first and estimates the time left from these weights.
"""

import contextlib
import ctypes
import gc
import json
import os
import resource
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

SHOWN = 10  # files
GROWN = 100e6  # bytes after which a test process gives back what it no longer uses
_spent = 0.0  # CPU seconds at the last report
_kept = 0.0  # bytes held after memory was last given back
EVERY = 10.0  # seconds between two lines of progress
USUAL = 0.1  # s of CPU that a usual test takes
SHARE = 1e-4  # of a run that a usual test takes
LONG = 1e-3  # of a run: a test or function this slow gets its own entry
NOTED = Path(__file__).with_name("weights.json")
# in units of a usual test; the entry of a file holds for each of its tests
WEIGHTS: dict[str, int] = json.loads(NOTED.read_text(encoding="utf-8"))


def note_weights(reports: Sequence[str]) -> None:
    """Update weights.json from pytest's reports (`--junitxml`). Tests that did not run keep their weights.

    A long test is recorded by its name, other slow ones by their function, the rest as a mean per file.
    """
    found: dict[str, list[float]] = {}
    for report in reports:
        cases = [(case.attrib, float(case.attrib["time"])) for case in ElementTree.parse(report).iter("testcase")]
        total = sum(took for _, took in cases)
        for case, took in cases:
            file, name = case["classname"].replace(".", "/") + ".py", case["name"]
            found.setdefault(f"{file}::{name.split('[')[0]}", []).append(took / total)
            if took > LONG * total:
                found[f"{file}::{name}"] = [took / total]
    means = {name: sum(each) / len(each) for name, each in found.items()}
    for name in [name for name in means if means[name] < LONG]:
        found.setdefault(name.split("::")[0], []).extend(found.pop(name))
    ran = {name.split("[")[0] for name in means} | set(found)
    gone = {name for name in WEIGHTS if not (NOTED.parent.parent / name.split("::")[0]).exists()}
    for name in [name for name in WEIGHTS if name.split("[")[0] in ran or name in gone]:
        del WEIGHTS[name]
    WEIGHTS.update({name: size for name, each in found.items() if (size := round(sum(each) / len(each) / SHARE)) > 1})
    NOTED.write_text(json.dumps(dict(sorted(WEIGHTS.items())), indent=0) + "\n", encoding="utf-8")


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
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
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
    """How long a test takes, in units of a usual test."""
    function, file = nodeid.split("[")[0], nodeid.split("::")[0]
    return WEIGHTS.get(nodeid) or WEIGHTS.get(function) or WEIGHTS.get(file, 1)


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
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


if __name__ == "__main__":
    note_weights(sys.argv[1:])
