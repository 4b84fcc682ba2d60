"""The processes below one, as Linux tells them, and ending them. Standard library only."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

GRACE = 5.0  # s between asking and killing
TERMINATED = 128 + signal.SIGTERM  # exit code of a command that SIGTERM ended, as a shell gives it
_THREADS = 16  # place of the number of threads behind the state in /proc/PID/stat


def descendants(root: int) -> list[int]:
    """The living processes below `root`, nearest first; none on systems without /proc."""
    found, front = [], [root]
    while front:
        children = []
        for pid in front:
            for thread in threads(pid):
                with (
                    suppress(OSError, ValueError),
                    open(f"/proc/{pid}/task/{thread}/children") as file,
                ):  # of one that goes meanwhile, the next has them
                    children += [int(child) for child in file.read().split()]
        front = [child for child in children if not ended(child)]
        found += front
    return found


def ended(pid: int) -> bool:
    """Whether a process is gone, or is only waiting to be reaped: one whose first thread has ended may go on in
    others."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, *rest = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return True
    return state == "X" or (state == "Z" and int(rest[_THREADS]) <= 1)


def threads(pid: int) -> list[str]:
    """The threads of a process; none of one that has gone."""
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def memory_lines(pid: int, file: str) -> list[str]:
    """The lines of a process's /proc file about its memory, which its other threads have where the first has ended; []
    of one that has gone."""
    for path in _files(pid, file):
        try:
            with open(path, encoding="ascii", errors="replace") as lines:
                found = lines.readlines()
        except OSError:
            continue
        if any("Rss" in line for line in found):
            return found
    return []


def _files(pid: int, file: str) -> Iterator[str]:
    yield f"/proc/{pid}/{file}"
    yield from (f"/proc/{pid}/task/{thread}/{file}" for thread in threads(pid))


def end(process: subprocess.Popen[str] | subprocess.Popen[bytes], grace: float = GRACE) -> None:
    """End a process and everything below it, `grace` seconds after asking: workers may live in sessions of their
    own."""
    below = descendants(process.pid)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)
        below = sorted({*below, *descendants(process.pid)})
    kill((*below, *([process.pid] if process.poll() is None else [])))
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)


def kill(pids: Iterable[int]) -> None:
    """Kill processes; those that have gone are passed over."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def call(command: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None) -> int:
    """Exit code of a command; if this process is stopped meanwhile, the command and everything below it end too."""
    process = subprocess.Popen(command, cwd=cwd, env=env)
    try:
        return process.wait()
    except BaseException:
        end(process)
        raise


@contextmanager
def sigterm_as_exit() -> Iterator[None]:
    """Make SIGTERM a SystemExit, so that whatever ends processes and removes files at the end of a block does so."""
    before = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or before is _leave:
        yield
        return
    signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


class Terminated(SystemExit):
    """SIGTERM, once `sigterm_as_exit` hears it."""


def _leave(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not break off what ends the processes
    raise Terminated(TERMINATED)
