"""The worker's side: a process that runs a notebook's cells, and one case at a time, for a judge in another process.

Nothing here decides anything. The learner's code shares this process and may break all of it; it can then only fail to
answer. Requests are dictionaries with a "do" key; see `Worker.answer_to`.
"""

import contextlib
import io
import os
import socket
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from course_grader.arithmetic import leave_unwritten
from course_grader.intake import read_hostile
from course_grader.records import Outcome
from course_grader.remote_ranks.codec import OF_A_TENSOR, Limits, decode
from course_grader.worker.process_state import (
    CLOSED_BY_ITSELF,
    DUMPABLE,
    end_with_parent,
    exact_memory,
    prctl,
    seed_everything,
)
from course_grader.worker.protocol import Channel, Garbled, Gone, Request, WorkerChannel
from course_grader.worker.rank_worker import RankWorker, case_of, files_around, hidden, keep_apart, probe_of
from course_grader.worker.runners import describe_error, run_probe

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_LARGE = 50_000  # bytes; for larger answers we check whether the judge could read them


class _Nowhere(io.TextIOBase):
    """Discards what cells print."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        return len(text)

    def writable(self) -> bool:
        return True


class Worker:
    """Serves requests on one channel until the judge closes it."""

    def __init__(self, channel: Channel, shell: "InteractiveShell") -> None:
        self.channel = channel
        self.shell = shell
        self.ranks = RankWorker(channel)
        self.files: object = None  # what lies around a process that is kept apart

    def serve(self) -> NoReturn:
        """Answer requests. Ends the process, without its exit handlers, when the judge closes the connection."""
        sys.stdout = sys.stderr = _Nowhere()
        sys.path.append("")  # modules of the learner's own beside the notebook; last, so that they hide nothing
        seed_everything()
        while True:
            try:
                token, request = self.channel.receive()
                answer = _whatever_happens(self.answer_to, request)
                if request["do"] != "load":  # after which the run itself tells how it went
                    self.channel.send_written(token, self._within_limits(answer))
                if self.ranks.program is not None and answer.get("state") == "answered":
                    self.channel.send(token, _whatever_happens(self.ranks.serve))
            except Gone as gone:
                os._exit(CLOSED_BY_ITSELF if isinstance(gone.__cause__, OSError) else 0)
            except Garbled:
                os._exit(CLOSED_BY_ITSELF)

    def answer_to(self, request: Request) -> dict[str, object]:
        """The reply to one request: "cell" runs a cell, "names" looks up names, "probe" runs an answer, "clone"
        forks."""
        match request["do"]:
            case "cell":
                return self.run_cell(request["source"])
            case "names":
                return self.names(request["names"])
            case "probe":
                return self.probe(request)
            case "ranks":
                return self.ranks.ready(request, lambda: self._answer(request))
            case "intake":
                return read_hostile(self.channel.receive_raw(request["bytes"]), request["name"])
            case "pack":
                return self.ranks.pack(lambda: self._answer(request))
            case "load":
                return self.ranks.load(request)
            case "apart":
                keep_apart()
                self.files = files_around()
            case "left":
                return {"left": self.files != files_around()}
            case "clone":
                return self.clone()
            case "exact":
                exact_memory()
                leave_unwritten()
        return {}  # "settle": a reply before which nothing else was sent

    def run_cell(self, source: str) -> dict[str, object]:
        """State and error of one cell; its output is dropped."""
        try:
            result = self.shell.run_cell(source, store_history=False, silent=True)
            error = result.error_before_exec or result.error_in_exec
        except BaseException as raised:  # what IPython itself lets through
            error = raised
        if error is None:
            return {"state": "answered", "error": "", "trace": ""}
        line, trace = _described(error)
        return {
            "state": "not answered" if isinstance(error, NotImplementedError) else "raised",
            "error": line,
            "trace": trace,
        }

    def names(self, names: Sequence[str]) -> dict[str, object]:
        """The names that the notebook has, and which of them are functions that it defines itself."""
        space = self.shell.user_ns
        return {
            "there": [name in space for name in names],
            "own": [getattr(space.get(name), "__module__", None) == "__main__" for name in names],
        }

    def probe(self, request: Request) -> dict[str, object]:
        """The outcome of one case as plain data."""
        seed_everything()
        try:
            with hidden(tuple(request["hides"])):
                return run_probe(probe_of(request), case_of(request), self._answer(request)).fields()
        except KeyError as error:
            return Outcome(state="raised", error=f"`{error.args[0]}` is not defined where the check stands.").fields()
        except BaseException as error:  # a KeyboardInterrupt that the answer raised itself
            return Outcome(state="raised", error=_described(error)[0]).fields()

    def _answer(self, request: Request) -> object:
        answers = tuple(self.shell.user_ns[name] for name in request["names"])
        return answers[0] if len(answers) == 1 else answers

    def clone(self) -> dict[str, object]:
        """Fork a copy that serves the socket sent with this request. Returns its exit status once it has ended."""
        if os.getpid() == 1:  # in a process space of its own: the orphans are ours
            _bury_orphans()
        _, (fd, *_), _, _ = socket.recv_fds(self.channel.sock, 1, 1)
        pid = os.fork()
        if pid == 0:
            end_with_parent()
            self.channel.close()
            if self.files is not None:
                prctl(DUMPABLE, 1)  # its own /proc is its own
            Worker(WorkerChannel(socket.socket(fileno=fd)), self.shell).serve()
        os.close(fd)
        return {"status": os.waitpid(pid, 0)[1]}

    def _within_limits(self, answer: dict[str, object]) -> bytes:
        """The answer as sent to the judge, or the reason why it cannot be sent."""
        limits = Limits(nbytes=self.channel.limit)
        said = "What your code returned cannot be handed to the judge"
        try:
            data = self.channel.written(answer)
        except (TypeError, ValueError, RecursionError, OverflowError, MemoryError) as error:
            return self.channel.written(Outcome(state="raised", error=f"{said}: {error}").fields())
        try:
            if len(data) > _LARGE:
                decode(data, limits)
        except ValueError as error:
            most = (
                f"At most {limits.nbytes / 1e6:,.0f} MB and {limits.items:,} values can be, and each tensor counts "
                f"as {OF_A_TENSOR}"
            )
            data = self.channel.written(
                Outcome(state="raised", error=f"{said}: it has {len(data) / 1e6:,.1f} MB. {error} {most}.").fields()
            )
        return data


def _bury_orphans() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _whatever_happens(work: Callable[..., dict[str, object]], *given: object) -> dict[str, object]:
    """The result of `work`. If it fails because an answer broke what it depends on, an outcome that says so."""
    try:
        return work(*given)
    except (Gone, Garbled):
        raise
    except BaseException as error:
        kind = type(error).__name__
        return Outcome(
            state="raised", error=f"Your code left its process in a state that nothing runs in ({kind}: {error})."
        ).fields()


def _described(error: BaseException) -> tuple[str, str]:
    """`describe_error`, for errors that cannot be described too."""
    try:
        return describe_error(error)
    except BaseException:
        return "An error that cannot even be shown.", ""
