"""Cleanup after a worker: the processes that it started become children of the fork server, which ends and reaps them."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Collection

from course_lib.grading.worker.process_state import CHILD_SUBREAPER, PARENT_DEATH_SIGNAL, prctl
from course_lib.install.processes import descendants, ended


def wait_for(pid: int, seconds: float) -> int | None:
    """The wait status of a child, None if it still lives after `seconds`."""
    done = threading.Event()
    for _ in range(int(seconds / 0.002) + 1):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        done.wait(0.002)
    return None


def end_descendants(keep: Collection[int] = (), of: int | None = None) -> None:
    """Kill everything below the worker `of`, and all that has lost its worker, again until nothing is left; reap it.

    The workers in `keep` are spared, and so is what they have started, but for `of`'s.
    """
    for turn in range(1000):
        if turn > 20:  # threads that are killed in one call take a moment to be gone
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
    """Bury our dead children, but leave the status of those in `keep` to be asked for."""
    for pid in _children_of_ours():
        if pid not in keep:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _children_of_ours() -> list[int]:
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def pair() -> None:
    """Continue in a child; whichever of the two is killed, the other ends all that it has started. A process space does that by itself."""
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
