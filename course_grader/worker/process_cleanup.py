"""Cleanup after a worker: the processes that it started become children of the fork server, which ends and reaps
them."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Collection

from course_grader.worker.process_state import CHILD_SUBREAPER, PARENT_DEATH_SIGNAL, prctl
from course_runs.processes import descendants, ended


def wait_for(pid: int, seconds: float) -> int | None:
    """The wait status of a child; None if it is still alive after `seconds`."""
    done = threading.Event()
    for _ in range(int(seconds / 0.002) + 1):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        done.wait(0.002)
    return None


def end_descendants(keep: Collection[int] = (), of: int | None = None) -> None:
    """Kill all descendants of the worker `of`, and all processes whose worker has gone, until none is left; reap them.

    Workers in `keep` and their processes are spared, except those of `of`.
    """
    for turn in range(1000):
        if turn > 20:  # killed threads take a moment to disappear
            time.sleep(0.001)
        orphans = [pid for pid in _children_of_ours() if pid not in keep and not ended(pid)]
        alive = [*orphans, *(below for orphan in orphans for below in descendants(orphan))]
        alive += descendants(of) if of is not None else []
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _reap(keep)
        if not alive:
            return


def _reap(keep: Collection[int]) -> None:
    """Reap our dead children, except those in `keep`, whose status is still wanted."""
    for pid in _children_of_ours():
        if pid not in keep:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _children_of_ours() -> list[int]:
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def pair() -> None:
    """Continue in a child. If either process is killed, the other ends everything it started. A PID namespace does this
    by itself.
    """
    prctl(CHILD_SUBREAPER, 1)
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        end_descendants()
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)
    signal.signal(signal.SIGTERM, _end_everything)
    prctl(PARENT_DEATH_SIGNAL, signal.SIGTERM)


def _end_everything(*_: object) -> None:
    end_descendants()
    os._exit(0)
