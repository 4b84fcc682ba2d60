"""Where workers come from: a fork server that forks one on request, or a fresh process for each.

`WorkerPool` starts the fork server once. `WorkerPool.worker(folder)` is one worker: a fork, or a fresh process where
forking is missing or unsafe (macOS, Windows). Both use the same protocol over the same kind of socket. Nothing is left
behind.
"""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from course_grader import intake
from course_grader.intake import MAX_BYTES, MAX_CELLS
from course_grader.notebooks import Notebook
from course_grader.sandbox.policy import Wall
from course_grader.worker.fork_server_process import ForkServerProcess
from course_grader.worker.process_state import CLOSED_BY_ITSELF
from course_grader.worker.protocol import PATIENCE, Channel, Garbled, Gone, Late
from course_lib.messages import Trouble

ENTER_SECONDS = 30.0  # on a machine under load, behind a wall


def can_fork() -> bool:
    """Whether workers are forked: on Linux, where it is safe with one thread and descendants can be found."""
    return sys.platform == "linux" and Path("/proc/self/task").is_dir() and not os.environ.get("COURSE_NO_FORK")


def end_in_words(status: int | None, code: int | None = None) -> str:
    """How a process ended, in words for the author: from a wait status, or a return code as `subprocess` gives it."""
    if code is None:
        if status is None:
            return "Your code closed its connection to the judge."
        code = os.waitstatus_to_exitcode(status)
    if code == CLOSED_BY_ITSELF:
        return "Your code closed its connection to the judge."
    if code >= 0xC0000000:
        return f"Your code was ended by Windows: error {code:#x}, a crash in native code."
    if code >= 0:
        return f"Your code ended the process: exit({code})."
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    why = {
        "SIGSEGV": ", a crash in native code (or recursion without end)",
        "SIGBUS": ", a crash in native code",
        "SIGFPE": ", a crash in native code",
        "SIGILL": ", a crash in native code",
        "SIGABRT": ": native code gave up",
        "SIGKILL": ": your code sent it, or the machine ran out of memory",
    }.get(name, "")
    return f"Your code's process was killed by signal {-code} ({name}){why}."


class WorkerHandle(Protocol):
    """One worker."""

    channel: Channel
    forks: bool
    over: str  # the limit that it broke, in words; "" for none
    apart: bool  # whether it only forks ranks

    def beside(self, place: int) -> "WorkerHandle":
        """Another worker, at this index, which shares nothing with this one and ends with it. Only where workers are
        forked.
        """

    def gauge(self, on: bool) -> int:
        """Begin to measure the memory of everything that the fork server has forked, or end it and return the growth in
        bytes. Only where workers are forked.
        """

    def ended(self) -> str:
        """How the worker ended, in words. Ends it if it is still running."""

    def sweep(self) -> None:
        """End what the worker has started, but not the worker."""

    def close(self) -> None:
        """End the worker and everything it started."""


class WorkerPool:
    """Starts workers. A context manager: on leaving, nothing that it started is left.

    `imports` are modules that the fork server loads beforehand. For `many` notebooks it spends time to make forks
    cheap. With a `wall` every worker enters the sandbox before it runs anything; Trouble if this machine does not
    support that level.
    """

    def __init__(
        self,
        *,
        torch: bool = False,
        chapters: Sequence[str] = (),
        fork: bool | None = None,
        wall: Wall | None = None,
        imports: Sequence[str] = (),
        many: bool = False,
    ) -> None:
        self.options = [
            *(["--torch"] if torch else []),
            *(["--many"] if many else []),
            *(part for name in chapters for part in ("--chapter", name)),
            *(part for name in imports for part in ("--import", name)),
        ]
        self.forks = can_fork() if fork is None else fork
        self.wall = wall
        self._server: ForkServerProcess | None = None
        if wall is not None and not self.forks:
            raise Trouble(
                "Untrusted work can be graded only where processes can be forked and sandboxed.", "grade on Linux"
            )

    def __enter__(self) -> "WorkerPool":
        if self.forks:
            self._server = ForkServerProcess(self.options, self.wall)  # it loads while the judge reads the notebook
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    def wait_ready(self) -> None:
        """Return once the fork server, if any, has loaded; Trouble says why it did not."""
        if self._server is not None:
            self._server.wait_ready()

    @contextlib.contextmanager
    def worker(self, folder: Path) -> Iterator[WorkerHandle]:
        """One worker whose current folder is `folder`, or in a sandbox a copy of it."""
        worker: WorkerHandle = self._forked(folder) if self.forks else _Fresh(self.options, folder)
        try:
            yield worker
        finally:
            worker.close()

    def intake(self, data: bytes, name: str = "the notebook") -> Notebook:
        """A stranger's notebook, parsed in a worker of its own; Trouble, in words, if it is not a notebook or too
        large.
        """
        if len(data) > MAX_BYTES:
            size = f"{len(data) / 1e6:,.0f} MB; a notebook may have {MAX_BYTES / 1e6:.0f} MB"
            raise Trouble(
                f"{name} has {size}.", "clear its outputs (JupyterLab: Edit → Clear Outputs of All Cells) and save"
            )
        with tempfile.TemporaryDirectory(prefix="course-intake-") as scratch, self.worker(Path(scratch)) as worker:
            token = secrets.token_bytes(16)
            try:
                worker.channel.send(token, {"do": "intake", "bytes": len(data), "name": name}, PATIENCE)
                worker.channel.send_raw(data, intake.SECONDS)
                del data  # it may be large, and the child has it
                _, answer = worker.channel.receive(intake.SECONDS)
            except Late as error:
                raise Trouble(
                    f"{name} could not be read within {intake.SECONDS:g} s.", "start from a fresh copy"
                ) from error
            except (Gone, Garbled) as error:
                raise Trouble(
                    f"{name} is too large to read.", "clear its outputs and save, or start from a fresh copy"
                ) from error
        if "notebook" not in answer:
            raise Trouble(str(answer.get("problem")), str(answer.get("way_out", "")))
        if len(answer["notebook"]["cells"]) > MAX_CELLS:
            count = len(answer["notebook"]["cells"])
            raise Trouble(
                f"{name} has {count:,} cells; at most {MAX_CELLS:,} are graded.",
                "delete the cells that you do not need",
            )
        return answer["notebook"]

    def _forked(self, folder: Path) -> "_Forked":
        """A fork of the fork server, or of a new one if a worker has killed the old one."""
        if self._server is not None:
            try:
                self._server.wait_ready()
                return _Forked(self._server, folder)
            except (Gone, Late, Garbled):
                self._server.close()
        self._server = ForkServerProcess(self.options, self.wall)
        self._server.wait_ready()
        return _Forked(self._server, folder)


def pass_socket(channel: Channel, request: dict[str, object]) -> tuple[bytes, Channel]:
    """Send a request together with one end of a new channel. Returns its token and our end."""
    mine, theirs = socket.socketpair()
    token = secrets.token_bytes(16)
    try:
        channel.send(token, request, PATIENCE)
        socket.send_fds(channel.sock, [b"F"], [theirs.fileno()])
    except OSError as error:
        raise Gone(str(error)) from error
    finally:
        theirs.close()
    return token, Channel(mine)


class _Forked:
    """A fork of the fork server."""

    forks = True

    def __init__(self, server: ForkServerProcess, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.over = ""  # why the fork server ended something here; "" if it did not
        self.apart = False
        self.others: dict[int, _Forked] = {}
        token, self.channel = pass_socket(server.channel, {"do": "fork", "folder": str(folder)})
        back, answer = server.channel.receive(ENTER_SECONDS)
        if back != token:
            raise Garbled("an answer to nothing that was asked")
        self.pid: int | None = answer["pid"]
        if answer["trouble"]:
            self.close()
            raise Trouble(
                f"A worker could not enter the sandbox ({answer['trouble']}).",
                "`./course doctor` shows what this machine allows",
            )

    def beside(self, place: int) -> "_Forked":
        """Another worker of the same kind, which shares nothing with this one; a new one if the one at that index has
        ended.
        """
        found = self.others.get(place)
        if found is None or found.pid is None:
            found = self.others[place] = _Forked(self.server, self.folder)
        return found

    def gauge(self, on: bool) -> int:
        return int(self.server.channel.ask({"do": "gauge", "on": on}, PATIENCE)["grown"])

    def ended(self) -> str:
        status = self._end(grace=0.5)
        return f"Your code {self.over}." if self.over else end_in_words(status)

    def sweep(self) -> None:
        with contextlib.suppress(Gone, Late, Garbled):
            self.over = self.server.channel.ask({"do": "sweep", "pid": self.pid}, PATIENCE)["over"] or self.over

    def close(self) -> None:
        self.channel.close()
        if self.pid is not None:
            self._end(grace=0.0)

    def _end(self, grace: float) -> int | None:
        pid, self.pid = self.pid, None
        for other in self.others.values():
            other.close()
        if pid is not None:
            with contextlib.suppress(
                Gone, Late, Garbled
            ):  # a worker may have killed the fork server, and itself with it
                answer = self.server.channel.ask({"do": "end", "pid": pid, "grace": grace}, 4 * PATIENCE)
                self.over = answer["over"] or self.over
                return answer["status"]
        return None


class _Fresh:
    """A separate process for one notebook. It cannot be cloned, so whatever ends an exercise ends the worker."""

    forks = False
    over = ""
    apart = False

    def __init__(self, options: Sequence[str], folder: Path) -> None:
        self.process = ForkServerProcess([*options, "--fresh", "--folder", str(folder)])
        self.process.wait_ready()
        self.channel = self.process.channel

    def beside(self, place: int) -> "WorkerHandle":
        raise NotImplementedError("a fresh process for each rank would take seconds")

    def gauge(self, on: bool) -> int:
        raise NotImplementedError("nobody watches a fresh process from outside")

    def ended(self) -> str:
        try:
            code: int | None = self.process.process.wait(0.5)
        except subprocess.TimeoutExpired:
            code = None
        self.process.kill()
        return end_in_words(None, code)

    def sweep(self) -> None:
        """Nothing to do: what a fresh worker started ends with it."""

    def close(self) -> None:
        self.process.ready = False  # no grace: it may be in the learner's code
        self.process.close()
