"""Lock a class for one grading run: no second run, waiting for a locked gradebook, and a way to stop."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from course_grader.classroom.folder import ClassFolder
from course_grader.service.events import Event, Say
from course_lib.messages import Trouble

if TYPE_CHECKING:
    from course_grader.service.gradebook_writer import Writer

Made = TypeVar("Made")
LOCK = ".grading.lock"
PATIENCE = 300.0  # s that a gradebook may be locked by another program before we give up
TRY_AGAIN = 1.0  # s between two tries at a locked gradebook
WAITING = "The gradebook is locked by another program (formgrader, a backup?): waiting for it."


class Interrupts:
    """Ctrl-C and SIGTERM as a request to stop, which the run checks between two steps; the second one stops at once."""

    def __init__(self) -> None:
        self.asked = False
        self.before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _ask(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextlib.contextmanager
def held(folder: ClassFolder, say: Say) -> Iterator["tuple[Writer, Interrupts]"]:
    """The class, locked for this run: its gradebook's writer, and whether a stop was requested."""
    with _only_one(folder.root / LOCK), patiently(lambda: _writer(folder), say) as writer, Interrupts() as interrupts:
        yield writer, interrupts


def patiently(work: Callable[[], Made], say: Say) -> Made:
    """The result of `work`, retried while another program locks the gradebook; Trouble if that lasts."""
    from course_grader.service.gradebook_errors import Locked

    began = time.monotonic()
    said = False
    while True:
        try:
            return work()
        except Locked as error:
            if time.monotonic() - began > PATIENCE:
                raise Trouble(
                    f"The gradebook has been locked by another program for {PATIENCE:g} s.",
                    "end that program, then the same command again",
                ) from error
            if not said:
                say(Event("line", WAITING))
            said = True
            time.sleep(TRY_AGAIN)


def _writer(folder: ClassFolder) -> "Writer":
    from course_grader.classroom.config import load
    from course_grader.service.gradebook_writer import Writer

    return Writer(folder.settings.db_url, folder.settings.name, load(folder))


@contextlib.contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Lock the class for this run; Trouble if another run holds it. The lock ends with the process."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise Trouble(
                f"This class is being graded already (by process {file.read().strip() or 'unknown'}).",
                "wait for it, or stop it with Ctrl-C where it runs",
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
