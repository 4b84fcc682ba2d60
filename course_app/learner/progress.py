"""What a learner has done: one JSON file in the work folder, written whole, safe from crashes and from other
kernels."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar, cast

from course_app.learner.work import find_work
from course_grader.notebooks import write_whole

if TYPE_CHECKING:
    from course_grader.judge.report import ProgressEntry

FILE = Path(".course") / "progress.json"
Store = TypeVar("Store", bound=Mapping[str, object])


class Entry(TypedDict, total=False):
    """What is recorded of one exercise; the last three of a prediction."""

    chapter: str
    kind: str
    state: str
    points: float
    maximum: float
    passed: bool
    tries: int
    first_pass: str | None
    last: str
    interval: list[float]
    truth: float
    held: bool


class Progress(TypedDict):
    """All that is recorded."""

    exercises: dict[str, Entry]


_EMPTY: Progress = {"exercises": {}}


def record(report: "ProgressEntry", work: Path | None = None) -> None:
    """Add one judged exercise. Does nothing outside a work folder.

    `report` has id, state, points, maximum, passed, and where known chapter and kind; a prediction has interval, truth
    and held. The best points and the first pass stay; the state is that of the last check. A prediction counts for
    calibration once, the first time: a second guess knows the answer.
    """
    work = work or find_work()
    if work is None or not report.get("id"):
        return

    def add(store: Progress) -> None:
        old = store["exercises"].get(report["id"], {})
        entry = {
            "chapter": report.get("chapter", old.get("chapter", "")),
            "kind": report.get("kind", old.get("kind", "core")),
            "state": report.get("state", ""),
            "points": max(float(report.get("points", 0)), old.get("points", 0.0)),
            "maximum": float(report.get("maximum", 0)),
            "passed": bool(report.get("passed")) or old.get("passed", False),
            "tries": old.get("tries", 0) + 1,
            "first_pass": old.get("first_pass") or (_now() if report.get("passed") else None),
            "last": _now(),
        }
        guess: dict[str, object] = {name: report[name] for name in ("interval", "truth", "held") if name in report}
        first: dict[str, object] = {name: old[name] for name in ("interval", "truth", "held") if name in old}
        entry |= first or guess
        store["exercises"][report["id"]] = cast(Entry, entry)

    change(work / FILE, add, _EMPTY)


def load(work: Path | None = None) -> Progress:
    """Everything recorded; empty outside a work folder."""
    work = work or find_work()
    return read_store(work / FILE, _EMPTY) if work else {"exercises": {}}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


# ---------------------------------------------------------------------------------------------- a store of one file


def read_store(path: Path, empty: Store) -> Store:
    """The JSON object at `path`, with the keys of `empty`. A damaged file is moved aside, never thrown away."""
    fresh: Store = json.loads(json.dumps(empty))
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return fresh
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or not all(isinstance(data.get(name), type(fresh[name])) for name in fresh):
        with suppress(OSError):
            os.replace(path, path.with_name(f"{path.name}.damaged-{time.time_ns()}"))
        return fresh
    return cast(Store, data)


def change(path: Path, edit: Callable[[Store], None], empty: Store) -> None:
    """Read the store, let `edit` change it, write it whole; other processes wait their turn."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path.with_suffix(".lock")):
        store = read_store(path, empty)
        edit(store)
        write_whole(path, json.dumps(store, indent=1, sort_keys=True) + "\n")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a lock that the system releases however this process ends."""
    with open(path, "a+b") as lock:
        if sys.platform == "win32":
            import msvcrt

            lock.seek(0)
            msvcrt.locking(lock.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# ---------------------------------------------------------------------------------------------- what it comes to


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """What the table needs to know of one exercise of the course."""

    id: str
    chapter: str
    core: bool
    points: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One chapter's line."""

    chapter: str
    core_done: int
    core: int
    more_done: int
    more: int
    points: float
    maximum: float
    next: str  # id of the first core exercise that is not done, "" if all are

    @property
    def passed(self) -> bool:
        """Whether all core exercises are done."""
        return self.core > 0 and self.core_done == self.core


def table(course: list[Exercise], store: Progress) -> list[Row]:
    """A line for each chapter, in order, from the course's exercises and what is recorded."""
    done = store["exercises"]

    def passed(exercise: Exercise) -> bool:
        return bool(done.get(exercise.id, {}).get("passed"))

    def line(chapter: str) -> Row:
        mine = [exercise for exercise in course if exercise.chapter == chapter]
        core, more = [e for e in mine if e.core], [e for e in mine if not e.core]
        return Row(
            chapter=chapter,
            core_done=sum(map(passed, core)),
            core=len(core),
            more_done=sum(map(passed, more)),
            more=len(more),
            points=sum(min(done.get(e.id, {}).get("points", 0.0), e.points) for e in mine),
            maximum=sum(e.points for e in mine),
            next=next((e.id for e in core if not passed(e)), ""),
        )

    return [line(chapter) for chapter in sorted({exercise.chapter for exercise in course})]


def latest_chapter(store: Progress) -> str | None:
    """The chapter of the exercise that was checked last; None before the first check."""
    entries = sorted(store["exercises"].values(), key=lambda entry: entry.get("last") or "")
    return entries[-1]["chapter"] if entries else None


def where_one_was(rows: Sequence[Row], store: Progress) -> Row | None:
    """The chapter to go on with: the first with an unfinished core from the one last worked on, else the first of all
    that has one; None where all core exercises are done."""
    at = latest_chapter(store) or ""
    unfinished = [row for row in rows if row.next]
    return next((row for row in unfinished if row.chapter >= at), unfinished[0] if unfinished else None)


def calibration(store: Progress) -> tuple[int, int]:
    """(predictions whose interval held the truth, predictions made), first guesses only."""
    held = [entry["held"] for entry in store["exercises"].values() if "held" in entry]
    return sum(map(bool, held)), len(held)
