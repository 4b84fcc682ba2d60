"""One submission as a task of plain JSON data, and grading it, with the same result in any process on any machine.

A task carries the submission's bytes and everything that decides its points. Its key is a hash of both, so the same
work under the same rules has the same key everywhere.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath

from course_grader import exercises
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.variants import others
from course_grader.clean_text import clean
from course_grader.dependencies import grade_needed_cells
from course_grader.exercises import Card, class_exercises
from course_grader.files_beside import files_beside
from course_grader.intake import MAX_BYTES, MAX_CELLS, slim
from course_grader.judge.exercise import CONTRACT_VERSION
from course_grader.judge.report import lost_report, report_dict
from course_grader.notebooks import Notebook, salvaged
from course_grader.records import Report, State
from course_grader.sandbox.policy import Wall
from course_grader.service.anomalies import anomalies_of, answers_of
from course_grader.service.autograded import autograded, text_of
from course_grader.service.pool_cache import pool_of, source_of
from course_grader.service.results import Result, Task
from course_grader.submission import Submission, rebuild
from course_grader.worker.worker_pool import WorkerPool
from course_lib.messages import Trouble

SMALL = 1_000_000  # bytes of a notebook that is read where it is
_NOT_SENT = ("timestamp.txt",)  # nbgrader's: says when, and nothing that decides points


# ------------------------------------------------------------------------------------------------ making a task


def make_task(
    folder: ClassFolder, student: str, chapter: str, *, wall: Wall | None = None, only: Sequence[str] = ()
) -> Task:
    """The task of a student's submission of a chapter; `wall` is the sandbox's, None for none.

    For a notebook that must not be read (a link, too large), the task carries the reason instead. `only` names the
    exercises to judge.
    """
    path = folder.submissions.notebook(student, chapter)
    data, refused = _bytes_of(path)
    beside = files_beside(path.parent) if path is not None else {}
    files = {name: each.read_bytes() for name, each in beside.items() if name not in _NOT_SENT}
    cards = folder.exercises.cards(chapter)
    task: Task = {
        "student": student,
        "chapter": chapter,
        "assignment": folder.settings.assignment(chapter),
        "contract": CONTRACT_VERSION,
        "source": folder.sources.path(chapter).read_text(encoding="utf-8"),
        "points": {card.id: card.points for card in cards},
        "drawn": folder.variants.of(student, chapter).get("exercises", {}),
        "secret": _hand_in_secret(folder.secret, student, data, files),
        "others": {card.id: others(folder.variants.of_everybody(chapter), student, card.id) for card in cards},
        "overlay": str(folder.exercises.overlay) if any(folder.exercises.overlay.glob("*/card.py")) else "",
        "wall": asdict(wall) if wall is not None else None,
        "only": list(only),
        "closed_words": True,
        "refused": refused,
        "notebook": _text(data),
        "files": {name: _text(each) for name, each in files.items()},
    }
    return {**task, "key": key_of(task, data, files), "notebook_sha256": hashlib.sha256(data).hexdigest()}


def _hand_in_secret(secret: str, student: str, notebook: bytes, files: Mapping[str, bytes]) -> str:
    """The seed of one submission's hidden cases, in hex: the same each time it is judged.

    A changed notebook, changed files next to it and another student's get other cases, so what a feedback page reveals
    about them is worthless later.
    """
    said = f"hidden-cases:{student}:{hashlib.sha256(notebook).hexdigest()}"
    if files:
        beside = {name: hashlib.sha256(each).hexdigest() for name, each in files.items()}
        said += f":{json.dumps(beside, sort_keys=True)}"
    return hmac.new(secret.encode(), said.encode(), hashlib.sha256).hexdigest()


def key_of(task: Task, data: bytes, files: Mapping[str, bytes]) -> str:
    """A hash of the student, the work, and everything that decides its points."""
    said = {
        "notebook": hashlib.sha256(data).hexdigest(),
        "files": {name: hashlib.sha256(each).hexdigest() for name, each in files.items()},
        "source": hashlib.sha256(task["source"].encode()).hexdigest(),
        **{name: task[name] for name in ("student", "chapter", "contract", "points", "drawn", "refused", "only")},
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _bytes_of(path: Path | None) -> tuple[bytes, str]:
    """A notebook's bytes, or the reason why there are none."""
    if path is None or path.is_symlink() or not path.is_file():
        return b"", "The notebook is a link or no file."
    if path.stat().st_size > MAX_BYTES:
        return (
            b"",
            f"The notebook has {path.stat().st_size / 1e6:,.0f} MB; it may have {MAX_BYTES / 1e6:.0f} MB. Clear its "
            f"outputs and hand it in again.",
        )
    return path.read_bytes(), ""


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


# ------------------------------------------------------------------------------------------------ marking one


def run_task(task: Task) -> Result:
    """Grade the submission: points, reports, notes, anomalies, and the notebook for graders.

    `state` is "graded", "refused" (it cannot be read; `why` says so) or "failed" (not the submission's fault: nothing
    is decided). The notebook is removed from the task, because it may be large and is not needed twice.
    """
    clock = _Clock()
    try:
        result = _marked(task, clock)
    except Trouble as trouble:
        result = {"state": "failed", "why": f"{trouble.problem} Way out: {trouble.way_out}."}
    except OSError as error:
        result = {"state": "failed", "why": f"{type(error).__name__}: {error}"}
    return {**_named(task), **result, "seconds": clock.laps}


def judged_as(
    task: Task, state: str, why: str, source: Notebook, learner: Notebook, reports: Sequence[Report]
) -> Result:
    """The result of a task whose reports are known without grading it."""
    shown = autograded(source, learner, cards_of(task), reports, task["key"])
    anomalies = [] if state == "graded" else [{"kind": state, "exercise": "", "text": clean(why, 1000)}]
    return {
        **_named(task),
        **_result(state, why, reports, []),
        "anomalies": anomalies,
        "autograded": text_of(shown),
        "seconds": {},
    }


def _named(task: Task) -> Result:
    """The student and chapter of a result."""
    level = str(task["wall"]["level"]) if task["wall"] else "none"
    return {
        "student": task["student"],
        "chapter": task["chapter"],
        "assignment": task["assignment"],
        "key": task["key"],
        "notebook_sha256": task["notebook_sha256"],
        "contract": task["contract"],
        "level": level,
    }


def lost(task: Task, state: State, why: str) -> Result:
    """The result of a submission that could not be judged: every exercise in `state`, with the reason."""
    source = source_of(task["source"], frozenset(task["points"]))
    reports = [lost_report(card, state, clean(why)) for card in cards_of(task)]
    return judged_as(task, state, why, source, {**source, "cells": []}, reports)


def cards_of(task: Task) -> tuple[Card, ...]:
    """The exercises that count, with the class's points; Trouble if the class's own are not on this machine."""
    if task["overlay"]:
        if not Path(task["overlay"]).is_dir():
            raise Trouble(
                f"This class has exercises of its own in {task['overlay']}; on {socket.gethostname()}, where this was "
                "to be graded, there is no such folder.",
                "let every worker see the class folder under the same path, on a shared drive for one",
            )
        class_exercises.use(Path(task["overlay"]))
    points = task["points"]
    return tuple(
        replace(card, points=points[card.id]) for card in exercises.cards(task["chapter"]) if card.id in points
    )


def _marked(task: Task, clock: "_Clock") -> Result:
    cards = cards_of(task)
    source = source_of(task["source"], frozenset(task["points"]))
    workers = pool_of(task, source)
    clock.lap("ready")
    try:
        if task["refused"]:
            raise Trouble(task["refused"], "hand in the notebook itself")
        learner = _intake(workers, task, f"{task['assignment']}.ipynb")
    except Trouble as trouble:
        _require_working(workers)
        return lost(task, "refused", trouble.problem)
    clock.lap("intake")
    whole = rebuild(source, learner, cards)
    if task["only"]:
        whole = _only(whole, task["only"])
    clock.lap("rebuild")
    with _beside(task["files"]) as folder:
        params = {card.id: {**card.params, **task["drawn"].get(card.id, {})} for card in cards}
        done = grade_needed_cells(
            whole,
            source,
            cards,
            workers,
            beside=folder,
            params=params,
            secret=task["secret"],
            others=task["others"],
            deciding_ranks=True,
            closed_words=task["closed_words"],
        )
    clock.lap("mark")
    shown = autograded(source, learner, cards, done.reports, task["key"])
    result = _result("graded", "", done.reports, [*whole.notes, *done.notes])
    result |= {
        "anomalies": anomalies_of(
            source, learner, cards, replace(whole, signs=(*whole.signs, *done.signs)), done.reports
        ),
        "answers": answers_of(whole),
        "autograded": text_of(shown),
    }
    clock.lap("show")
    return result


def _result(state: str, why: str, reports: Sequence[Report], notes: Sequence[str]) -> Result:
    return {
        "state": state,
        "why": clean(why, 1000),
        "points": round(sum(report.points for report in reports), 2),
        "maximum": sum(report.maximum for report in reports),
        "reports": [report_dict(report) for report in reports],
        "notes": [clean(note, 1000) for note in notes],
        "anomalies": [],
        "answers": {},
        "autograded": "",
    }


def _only(submission: Submission, wanted: Sequence[str]) -> Submission:
    steps = tuple(step for step in submission.steps if step.do == "run" or step.exercise in wanted)
    kept = tuple(name for name in submission.exercises if name in wanted)
    return replace(
        submission,
        steps=steps,
        exercises=kept,
        missing={name: why for name, why in submission.missing.items() if name in kept},
    )


def _intake(workers: WorkerPool, task: Task, name: str) -> Notebook:
    """The learner's notebook. A large one is read in a child process; a small one takes at most a few dozen MB
    anywhere.
    """
    if 3 * len(task["notebook"]) > 4 * SMALL:  # which is in base64
        return workers.intake(base64.b64decode(task.pop("notebook")), name)
    data = base64.b64decode(task.pop("notebook"))
    try:
        notebook = slim(salvaged(data, name))
    except (MemoryError, RecursionError) as error:
        raise Trouble(f"{name} holds more than can be read.", "start from a fresh copy") from error
    if len(notebook["cells"]) > MAX_CELLS:
        raise Trouble(
            f"{name} has {len(notebook['cells']):,} cells; at most {MAX_CELLS:,} are graded.",
            "delete the cells that you do not need",
        )
    return notebook


def _require_working(workers: WorkerPool) -> None:
    """Trouble if no worker can be started: then the notebook is not to blame."""
    with tempfile.TemporaryDirectory(prefix="course-working-") as scratch, workers.worker(Path(scratch)):
        pass


@contextlib.contextmanager
def _beside(files: Mapping[str, str]) -> Iterator[Path]:
    """A folder with the files that came with the notebook."""
    with tempfile.TemporaryDirectory(prefix="course-beside-", ignore_cleanup_errors=True) as scratch:
        for name, data in files.items():
            inside = PurePosixPath(name)
            if inside.is_absolute() or ".." in inside.parts:
                continue
            path = Path(scratch) / inside
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(base64.b64decode(data))
        yield Path(scratch)


class _Clock:
    """Seconds spent in each part of a task."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = round(now - self.last, 4)
        self.last = now
