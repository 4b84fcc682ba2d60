"""Processes that grade tasks in parallel. If one dies, one task is lost; the caller decides what to do about it."""

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Protocol

from course_grader.arithmetic import ONE_THREAD
from course_grader.judge.grade_notebook import NOTEBOOK_SECONDS, QUICK_SHARE
from course_grader.service.grade_worker import receive, send
from course_grader.service.results import Result, Task
from course_grader.worker.worker_pool import end_in_words
from course_lib.folders import ROOT

SLACK = 180.0  # s for loading, reading and showing: a marker that takes longer is lost
_SET = {**ONE_THREAD, "PYTHONUTF8": "1", "PYTHONPATH": str(ROOT)}


@dataclass(frozen=True, slots=True)
class Done:
    """A finished task: its result, or None and the reason."""

    key: str
    result: Result | None
    why: str = ""


class Crew(Protocol):
    """What grades tasks: processes of this machine, or of a cluster."""

    size: int

    def free(self) -> int:
        """How many tasks can be started now."""

    def start(self, task: Task) -> None:
        """Start a task."""

    def wait(self, seconds: float) -> list[Done]:
        """The tasks that finished, waiting at most this long for one."""

    def close(self, seconds: float = 0.0) -> list[Done]:
        """End everything, after waiting this long for running tasks; returns their results."""


class Markers:
    """Marker processes on this machine, each with its own fork server. Failed tasks are reported, never repeated."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.all: list[_Marker] = []

    def free(self) -> int:
        """How many markers are idle, including those not started yet."""
        return self.size - sum(marker.key is not None for marker in self.all)

    def start(self, task: Task) -> None:
        """Give a task to an idle marker, or to a new one."""
        idle = next((marker for marker in self.all if marker.key is None), None)
        if idle is None:
            self.all.append(idle := _Marker())
        idle.start(task)

    def wait(self, seconds: float) -> list[Done]:
        """Results within `seconds`. Markers that died or took too long give None, and are replaced when needed."""
        done: list[Done] = []
        with selectors.DefaultSelector() as selector:
            for marker in self.all:
                if marker.key is not None:
                    selector.register(marker.sock, selectors.EVENT_READ, marker)
            ready = [key.data for key, _ in selector.select(seconds)]
        for marker in ready:
            done.append(marker.take())
        for marker in self.all:
            if marker.key is not None and time.monotonic() > marker.until:
                done.append(marker.give_up(f"it took longer than {marker.limit:g} s"))
        self.all = [marker for marker in self.all if marker.alive]
        return done

    def close(self, seconds: float = 0.0) -> list[Done]:
        """End the markers, after waiting this long for busy ones."""
        until, done = time.monotonic() + seconds, []
        while any(marker.key is not None for marker in self.all) and (left := until - time.monotonic()) > 0:
            done += [each for each in self.wait(min(left, 0.2)) if each.result is not None]
        for marker in self.all:
            marker.close()
        self.all = []
        return done


class _Marker:
    """One marker process, and the key of its current task."""

    def __init__(self) -> None:
        self.sock, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "course_grader.service.grade_worker", str(theirs.fileno())]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_SET},
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
            cwd=ROOT,
        )
        theirs.close()
        self.key: str | None = None
        self.until, self.limit = 0.0, 0.0
        self.alive = True

    def start(self, task: Task) -> None:
        notebook = float(str((task.get("wall") or {}).get("notebook_seconds", NOTEBOOK_SECONDS)))
        self.limit = 2 * (1 + QUICK_SHARE) * notebook + SLACK  # it may be run in part, and then whole
        self.key, self.until = task["key"], time.monotonic() + self.limit
        with contextlib.suppress(OSError):  # it has died: `take` will find out
            send(self.sock, task)

    def take(self) -> Done:
        """What the marker sent, or that it died."""
        key = self.key or ""
        try:
            result = receive(self.sock)
        except (EOFError, OSError, ValueError):
            return self.give_up("")
        self.key = None
        return Done(key, result)

    def give_up(self, why: str) -> Done:
        """End a marker that does not respond; its task has no result."""
        key = self.key or ""
        self.close()
        words = (
            end_in_words(None, self.process.returncode)
            .replace("Your code's process", "the marker")
            .replace("Your code ended the process", "the marker ended")
        )
        return Done(key, None, why or words)

    def close(self) -> None:
        """End the marker; its fork server and its processes end with it."""
        self.key, self.alive = None, False
        self.sock.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0.0 if self.until and time.monotonic() > self.until else 2.0)
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
