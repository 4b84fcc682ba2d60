"""What all tests share: a browser, one thread, no skipping in CI, and no writing into a learner's work folder."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.pop("COURSE_WORK", None)
os.environ.pop("COURSE_ROOT", None)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from course_app.learner.environment import chromium
from course_app.learner.work import Folders
from course_grader.notebooks import Cell, Notebook
from tests import run_costs, tiers
from tests.patience import patience
from tests.rotation import CHAPTERS, REPOSITORY, Rotation, chosen, everything, quick, rotation, single
from tests.run_costs import weight

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

settings.register_profile("course", deadline=None)  # machines are shared: no test may depend on time
settings.load_profile("course")
# Else every process reads the constants of all 1,100 modules into its strategies: 1 s of CPU, and 5 s in a new clone.
providers.is_local_module_file = lambda path: False

NO_SKIP = "COURSE_NO_SKIP"
NO_BROWSER = "no Chromium here (python -m playwright install chromium brings one, COURSE_CHROMIUM names one)"
NO_POSTGRES = (
    "no PostgreSQL here (apt-get install postgresql brings one; its programs are found in "
    "/usr/lib/postgresql or on the path)"
)


def postgres_programs() -> Path | None:
    """The folder of PostgreSQL's own programs, the newest; None where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]), reverse=True)
    path = found[0] if found else shutil.which("initdb")
    return Path(path).resolve().parent if path else None


ROTATION = pytest.StashKey[Rotation]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("course")
    group.addoption("--everything", action="store_true", help="both tiers, and leave no slow check to rotation")
    group.addoption("--slower", action="store_true", help="the slower tier, as CI runs it after the quick one")
    group.addoption("--since", metavar="COMMIT", help="take what changed since this commit as changed")
    group.addoption("--chapter", action="append", metavar="NN", choices=CHAPTERS, help="only the tests of this chapter")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(run_costs)
    chosen[:] = config.option.chapter or CHAPTERS
    if handed := getattr(config, "workerinput", {}).get("rotation"):
        config.stash[ROTATION] = Rotation(**handed)
    elif config.option.everything or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        config.stash[ROTATION] = everything("everything or single files were asked for")
    elif config.option.chapter:
        config.stash[ROTATION] = single(config.option.chapter, "slower" if config.option.slower else "quick")
    elif not config.option.slower:
        config.stash[ROTATION] = quick()
    else:
        config.stash[ROTATION] = rotation(config.option.since)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: "WorkerController") -> None:
    """xdist: every test process works with the rotation that the run began with."""
    node.workerinput["rotation"] = node.config.stash[ROTATION].plain()


def pytest_report_header(config: pytest.Config) -> list[str]:
    return config.stash[ROTATION].said()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files with no test of the tier or of the chapters that were asked for: loading them takes seconds."""
    return tiers.has_none(collection_path, config.stash[ROTATION].tier, config.option.chapter or ()) or None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `rotating_chapter` or `rotating_exercise` runs once for each of them in the rotation, one that
    takes `solved_chapter` once for each chapter that was chosen."""
    if "rotating_chapter" in metafunc.fixturenames:
        metafunc.parametrize("rotating_chapter", metafunc.config.stash[ROTATION].chapters)
    if "solved_chapter" in metafunc.fixturenames:
        metafunc.parametrize("solved_chapter", chosen)
    if "rotating_exercise" in metafunc.fixturenames:
        tables = {path.stem[2:] for path in (Path(__file__).parent / "mutants").glob("ch*.toml")}
        names = [name for name, chapter in chapter_of_exercise().items() if chapter in tables.intersection(chosen)]
        metafunc.parametrize("rotating_exercise", metafunc.config.stash[ROTATION].exercises(names))


@pytest.fixture(scope="session")
def the_rotation(pytestconfig: pytest.Config) -> Rotation:
    """Which slow checks this run makes."""
    return pytestconfig.stash[ROTATION]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only the tests of the chapters that were asked for; of those marked `rotates` the ones whose turn it is; and
    those marked `whole` only where nothing is left out. Files with the slowest tests come first."""
    if asked := set(config.option.chapter or ()):
        of_them = [item for item in items if asked & chapters_of(item)]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(of_them)])
        items[:] = of_them
    if config.stash[ROTATION].tier:
        of_tier = [item for item in items if tiers.is_slower(item) == (config.stash[ROTATION].tier == "slower")]
        config.hook.pytest_deselected(items=list(set(items).difference(of_tier)))
        items[:] = of_tier
    turns: dict[object, int] = {}
    in_turn = {
        item: turns.setdefault(turn_of(item), len(turns)) for item in items if item.get_closest_marker("rotates")
    }
    has_turn = config.stash[ROTATION].has_turn
    left = {item for item, place in in_turn.items() if not has_turn(place, code_of(item), chapters_of(item))}
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    if config.stash[ROTATION].chapters != CHAPTERS:
        whole = [item for item in items if item.get_closest_marker("whole")]
        config.hook.pytest_deselected(items=whole)
        items[:] = [item for item in items if item not in set(whole)]
    items[:] = soonest(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    skip_where_programs_are_missing(items)


def soonest(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """The tests in the order in which they run: what takes long, and fails most often, at the beginning of each
    process's share.

    The tests of a file of the slower tier stay together, since each process starts the servers of a file for itself.
    """
    units: dict[object, list[pytest.Item]] = {}
    for item in items:
        together = item.nodeid.startswith(tuple(tiers.FILES)) or item.get_closest_marker("browser")
        if together or weight(item.nodeid) > 1:
            units.setdefault(item.path if together else item, []).append(item)
    light = [item for item in items if item.path not in units and item not in units]
    shares: list[list[pytest.Item]] = [[] for _ in range(processes)]
    costs = [0] * processes
    for cost, unit in sorted(((_cost(unit), unit) for unit in units.values()), key=lambda each: -each[0]):
        at = costs.index(min(costs))
        shares[at] += unit
        costs[at] += cost
    for at, share in enumerate(shares):  # xdist gives each process as many tests
        size = len(items) * (at + 1) // processes - len(items) * at // processes
        share += light[: max(size - len(share), 0)]
        del light[: max(size - len(share), 0)]
    return [item for share in shares for item in share] + light


def _cost(unit: Sequence[pytest.Item]) -> int:
    return sum(weight(item.nodeid) for item in unit)


def turn_of(item: pytest.Item) -> object:
    """What has its turn with the test: itself, or all tests of its file whose mark `rotates` has the same `together`,
    the fixture that takes their time."""
    together = next((mark.kwargs["together"] for mark in item.iter_markers("rotates") if mark.kwargs), None)
    return (item.path, together) if together else item


def code_of(item: pytest.Item) -> set[str]:
    """Its own file, the files and folders that its marks `rotates` name, and those of the chapter that it solves: it
    runs whenever one of them changed."""
    named = {path for mark in item.iter_markers("rotates") for path in mark.args}
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if chapter := params.get("solved_chapter"):
        named |= {f"solutions/{chapter}_", f"course_chapters/ch{chapter}/"}
    return named | {item.path.relative_to(REPOSITORY).as_posix()}


def chapters_of(item: pytest.Item) -> set[str]:
    """The chapters that a test is about: by the name of its file, or by a parameter (a number, a card, an exercise, a
    folder)."""
    found = set(re.findall(r"ch(\d\d)", item.nodeid.split("::")[0]))
    params = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = [getattr(value, "chapter", getattr(value, "exercise", value)) for value in params]
    return found | {chapter_of_exercise().get(name, name[:2]) for name in names if isinstance(name, str)}


@cache
def chapter_of_exercise() -> dict[str, str]:
    from course_grader import exercises

    return {card.id: chapter for chapter in CHAPTERS for card in exercises.cards(chapter)}


def skip_where_programs_are_missing(items: list[pytest.Item]) -> None:
    """Tests that need a browser or a database skip where there is none; a CI run then fails, see below."""
    missing = {"browser": (chromium(), NO_BROWSER), "postgres": (postgres_programs(), NO_POSTGRES)}
    for item in items:
        for marker, (there, why) in missing.items():
            if not there and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=why))


def _skipped(config: pytest.Config) -> list[pytest.TestReport]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter.stats.get("skipped", []) if reporter else []


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a skipped test is a failure."""
    if os.environ.get(NO_SKIP) and _skipped(session.config) and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One line for all skipped tests of a kind."""
    reasons: dict[str, int] = {}
    for report in _skipped(config):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[reason.removeprefix("Skipped: ")] = reasons.get(reason.removeprefix("Skipped: "), 0) + 1
    for reason, count in reasons.items():
        terminalreporter.write_line(f"{count} test{'s' if count > 1 else ''} skipped: {reason}", yellow=True)
    if reasons and os.environ.get(NO_SKIP):
        terminalreporter.write_line("Nothing may be skipped here: the run has failed.", red=True)


@pytest.fixture(scope="session")
def warm() -> Iterator[object]:
    """One warm process for all chapters, as `./course check --all` has it, in a class's sandbox where there is one:
    each notebook and each answer is judged in a fork of its own."""
    from course_grader.sandbox import Wall, best_level
    from course_grader.worker.imports import TRAINING
    from course_grader.worker.worker_pool import WorkerPool

    wall = Wall() if best_level() == "namespaces" else None
    with WorkerPool(torch=True, chapters=chosen, imports=TRAINING, many=True, wall=wall) as workers:
        yield workers


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """A Chromium driven by playwright, for the tests of a file that are marked `browser`.

    While it is there playwright's event loop runs in this thread, so no other file's tests could run one of their own.
    """
    from playwright.sync_api import expect, sync_playwright

    from bench.lab import PATIENCE, launch

    expect.set_options(timeout=1000 * patience(PATIENCE))
    with sync_playwright() as play:
        engine = launch(play)
        yield engine
        engine.close()


# ------------------------------------------------------------------------------------------- a course in miniature


def cell(text: str, id: str, kind: str = "markdown", **grade: object) -> Cell:
    """A cell; `grade` is nbgrader's metadata (solution=True, or grade=True, points=2), its grade_id the cell's id."""
    metadata: dict[str, object] = {}
    if grade:
        plain = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
        metadata = {"nbgrader": {**plain, "grade_id": id, **grade}}
    made = {"cell_type": kind, "id": id, "metadata": metadata, "source": text}
    return {**made, "outputs": [], "execution_count": None} if kind == "code" else made


def notebook(*cells: Cell, chapter: str = "01") -> Notebook:
    """A notebook of a chapter."""
    return {"cells": list(cells), "metadata": {"course": {"chapter": chapter}}, "nbformat": 4, "nbformat_minor": 5}


def small_chapter(chapter: str = "01", intro: str = "A chapter.") -> dict[str, object]:
    """A chapter with one answer and its check."""
    return notebook(
        cell(f"# Chapter {chapter}", "title"),
        cell(intro, "intro"),
        cell("from course_lib import check", "imports", "code"),
        cell("def f():\n    raise NotImplementedError", "answer-f", "code", solution=True),
        cell("check('answer-f', f)", "answer-f-check", "code", grade=True, points=2, locked=True),
        cell("The end.", "end"),
        chapter=chapter,
    )


@pytest.fixture
def release(tmp_path: Path) -> Callable[..., Path]:
    """A function that releases a chapter into a course in `tmp_path`; the value is the notebook's path."""

    def write(name: str, content: dict[str, object], figure: str = "<svg/>") -> Path:
        folder = tmp_path / "course" / "notebooks" / name
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        (folder / "figures" / "one.svg").write_text(figure, encoding="utf-8")
        path = folder / f"{name}.ipynb"
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")
        return path

    return write


@pytest.fixture
def where(tmp_path: Path, release: Callable[..., Path]) -> Folders:
    """A course with two small chapters, nothing copied yet."""
    release("00_start_here", small_chapter("00"))
    release("01_three_walls", small_chapter("01"))
    return Folders(root=tmp_path / "course", work=tmp_path / "course" / "work")


def printed(program: str, cwd: Path = REPOSITORY, **env: str) -> str:
    """What a program prints in a Python of its own."""
    command, given = [sys.executable, "-c", program], {**os.environ, **env}
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=cwd, env=given, check=True).stdout


TRIED = """import contextlib, io, json, sys
from course_app import cli
told = {}
for command in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        code = cli.run(command.split())
    told[command] = [code, " ".join(said.getvalue().split())]
print(json.dumps(told))"""


def tried(folder: Path, commands: list[str]) -> dict[str, tuple[int, str]]:
    """Exit code and words of each command in the copy of the course in `folder`."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", TRIED, json.dumps(commands)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COURSE_ROOT": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
