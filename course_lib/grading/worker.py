"""The worker's side: a process that runs a notebook's cells, and answers on one case at a time, for a judge elsewhere.

Nothing here decides anything. The learner's code shares this process and may break all of it; what it can then do is
fail to answer. Requests are dictionaries with a "do"; see `Worker.answer_to`.
"""

import contextlib
import ctypes
import io
import os
import random
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, NoReturn

from course_lib import exercises
from course_lib.cluster.codec import Limits, decode, encode
from course_lib.grading.channel import Channel, Garbled, Gone
from course_lib.grading.intake import read_hostile
from course_lib.grading.place import describe_error, run_probe, switched_off
from course_lib.records import Case, Outcome

_LARGE = 1_000_000  # bytes of an answer from which on it is worth looking whether the judge could read it
_MMAP_THRESHOLD = -3  # glibc's M_MMAP_THRESHOLD; it moves by itself unless it is set
_DUMPABLE = 4  # PR_SET_DUMPABLE
CLOSED_BY_ITSELF = 76  # exit status of a worker whose own code broke its connection


class _Nowhere(io.TextIOBase):
    """Takes what cells print and keeps none of it."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        return len(text)

    def writable(self) -> bool:
        return True


def make_shell() -> Any:
    """An IPython shell without history, files, colours or display: what a cell shows is dropped unformatted."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.sphinxify_docstring = False
    shell = InteractiveShell.instance(config=config)
    shell.display_formatter.format = lambda *_, **__: ({}, {})  # drawing every figure would cost seconds
    shell.display_pub.publish = lambda *_, **__: None
    shell._tee = lambda channel: contextlib.nullcontext()  # it would keep all that cells print, gigabytes of it
    shell.ask_exit = _leave
    shell.showtraceback = shell.showsyntaxerror = lambda *_, **__: None
    return shell


def _leave() -> NoReturn:
    """What `quit()` in a cell does here: an error of that cell."""
    raise SystemExit("quit() ends a notebook's kernel")


def seed_everything() -> None:
    """The same start for every generator, so that a repeat gives the same score."""
    random.seed(0)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(0)
        if torch.cuda.is_initialized() or torch.backends.mps.is_available():
            torch.manual_seed(0)  # of every device: a hundred times as long


_prctl = getattr(ctypes.CDLL(None), "prctl", None) if os.name == "posix" else None  # to look for it takes longer than to call it


def exact_memory() -> None:
    """Have the C library give every large block back as soon as it is free: what the system counts is then what is alive."""
    ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 2**20)


def prctl(option: int, value: int) -> None:
    """Linux's prctl, where there is one."""
    if _prctl is not None:
        _prctl(option, value, 0, 0, 0)


def end_with_parent() -> None:
    """Have this process killed when the one that forked it ends, however that ends."""
    prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Worker:
    """Serves requests on one channel until the judge closes it."""

    def __init__(self, channel: Channel, shell: Any) -> None:
        self.channel = channel
        self.shell = shell
        self.packed: Any = None
        self.dtype = "float32"  # torch's default where the answer was packed
        self.files: Any = None  # what lies around a process that is kept apart
        self.ranks: tuple[Any, tuple[str, ...]] | None = None  # a program of ranks that is ready, and what it must do without

    def serve(self) -> NoReturn:
        """Answer requests; ends the process, without its exit handlers, when the judge has gone."""
        sys.stdout = sys.stderr = _Nowhere()
        sys.path.append("")  # modules of the learner's own beside the notebook; last, so that they hide nothing
        seed_everything()
        while True:
            try:
                token, request = self.channel.receive()
                answer = self._within_limits(_whatever_happens(self.answer_to, request))
                self.channel.send(token, answer)
                if self.ranks is not None and answer.get("state") == "answered":
                    self.channel.send(token, _whatever_happens(self.serve_ranks))
            except Gone as gone:
                os._exit(CLOSED_BY_ITSELF if isinstance(gone.__cause__, OSError) else 0)
            except Garbled:
                os._exit(CLOSED_BY_ITSELF)

    def answer_to(self, request: dict[str, Any]) -> dict[str, Any]:
        """What one request gives: "cell" runs a cell, "names" looks names up, "probe" runs an answer, "clone" forks."""
        match request["do"]:
            case "cell":
                return self.run_cell(request["source"])
            case "names":
                return self.names(request["names"])
            case "probe":
                return self.probe(request)
            case "ranks":
                return self.ready_ranks(request)
            case "intake":
                return read_hostile(self.channel.receive_raw(request["bytes"]), request["name"])
            case "pack":
                return self.pack(request)
            case "load":
                return self.load(request)
            case "apart":
                return self.keep_apart()
            case "left":
                return {"left": self.files != _files_around()}
            case "clone":
                return self.clone()
            case "exact":
                exact_memory()
        return {}  # "settle": an answer that shows that nothing else was said before it

    def run_cell(self, source: str) -> dict[str, Any]:
        """State and error of one cell; what it prints and shows is dropped."""
        try:
            result = self.shell.run_cell(source, store_history=False, silent=True)
            error = result.error_before_exec or result.error_in_exec
        except BaseException as raised:  # what IPython itself lets through
            error = raised
        if error is None:
            return {"state": "answered", "error": "", "trace": ""}
        line, trace = _described(error)
        return {"state": "not answered" if isinstance(error, NotImplementedError) else "raised", "error": line, "trace": trace}

    def names(self, names: Sequence[str]) -> dict[str, Any]:
        """Which names the notebook has, and which of them are functions that the notebook itself defines."""
        space = self.shell.user_ns
        return {
            "there": [name in space for name in names],
            "own": [getattr(space.get(name), "__module__", None) == "__main__" for name in names],
        }

    def probe(self, request: dict[str, Any]) -> dict[str, Any]:
        """The outcome of one case as plain data."""
        seed_everything()
        try:
            with _switched_off(tuple(request["hides"])):
                return asdict(run_probe(self._card(request), self._case(request), self._answer(request)))
        except KeyError as error:
            return asdict(Outcome(state="raised", error=f"`{error.args[0]}` is not defined where the check stands."))
        except BaseException as error:  # a KeyboardInterrupt that the answer raised itself
            return asdict(Outcome(state="raised", error=_described(error)[0]))

    def ready_ranks(self, request: dict[str, Any]) -> dict[str, Any]:
        """Whether the answer can be copied to ranks; if so, the next thing on the socket is a run of the cluster."""
        from course_lib.cluster.isolate import Blueprint

        self.ranks = None
        program, trouble = self._copied(lambda: self._ranked(request, self._answer(request)), Blueprint)
        if trouble is None:
            self.ranks = program, tuple(request["hides"])
        return asdict(trouble or Outcome(state="answered"))

    def _ranked(self, request: dict[str, Any], answer: Any) -> Any:
        """An answer as the program of a run of ranks."""
        from course_lib.grading.ranks import rank_program

        return rank_program(self._card(request), self._case(request), answer)

    def _copied(self, found: Callable[[], Any], copy: Callable[[Any], Any]) -> tuple[Any, Outcome | None]:
        """What is found if it can be copied, the copy kept in `packed`; or why not."""
        seed_everything()
        try:
            thing = found()
            self.packed = copy(thing)
        except KeyError as error:
            return None, Outcome(state="raised", error=f"`{error.args[0]}` is not defined where the check stands.")
        except ValueError as error:
            return None, Outcome(state="raised", error=str(error))
        return thing, None

    def pack(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer by value, as a tensor of bytes, for processes that `load` it."""
        import torch

        from course_lib.cluster.isolate import pack

        _, trouble = self._copied(lambda: self._answer(request), pack)
        if trouble is not None:
            return asdict(trouble)
        data = torch.frombuffer(bytearray(self.packed), dtype=torch.uint8)
        return asdict(Outcome(state="answered")) | {"value": [data, str(torch.get_default_dtype()).removeprefix("torch.")]}

    def keep_apart(self) -> dict[str, Any]:
        """From now on only copies of this process run anything, each as one rank of several; none can look into it or write to it."""
        if filters := sys.modules.get("course_lib.grading.sandbox.filters"):
            filters.install(filters.without_locks())  # of files that other ranks have open too
        if landlock := sys.modules.get("course_lib.grading.sandbox.landlock"):
            landlock.leave("/proc")  # where the system counts what all of its processes do
        prctl(_DUMPABLE, 0)
        self.files = _files_around()
        return {}

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """An answer from another worker, of the same submission and as little trusted, afresh; the next thing is a run of it.

        The answer's bytes come with the first request only.
        """
        import pickle

        import torch

        if request["answer"] is not None:
            data, self.dtype = request["answer"]
            self.packed = data.numpy().tobytes()
        seed_everything()
        torch.set_default_dtype(getattr(torch, self.dtype))
        self.ranks = self._ranked(request, pickle.loads(self.packed)), tuple(request["hides"])
        return asdict(Outcome(state="answered"))

    def serve_ranks(self) -> dict[str, Any]:
        """Run the ready program for the judge's kernel; what the ranks printed."""
        from course_lib.cluster.remote import serve_ranks

        program, hides = self.ranks or (None, ())
        self.ranks = None
        with _switched_off(hides):
            return asdict(Outcome(state="answered", output=serve_ranks(self.channel.sock, program)))

    def _answer(self, request: dict[str, Any]) -> Any:
        answers = tuple(self.shell.user_ns[name] for name in request["names"])
        return answers[0] if len(answers) == 1 else answers

    def _card(self, request: dict[str, Any]) -> Any:
        return exercises.card(request["probe"]) if request["probe"] else SimpleNamespace(probe=exercises.call)

    def _case(self, request: dict[str, Any]) -> Case:
        return Case(name="", args=tuple(request["args"]), kwargs=request["kwargs"])

    def clone(self) -> dict[str, Any]:
        """Fork a copy that serves the socket which comes with this request; its exit status once it has ended."""
        if os.getpid() == 1:  # in a process space of its own: the orphans are ours
            _bury_orphans()
        _, (fd, *_), _, _ = socket.recv_fds(self.channel.sock, 1, 1)
        pid = os.fork()
        if pid == 0:
            end_with_parent()
            self.channel.close()
            if self.files is not None:
                prctl(_DUMPABLE, 1)  # its own /proc is its own
            Worker(Channel(socket.socket(fileno=fd)), self.shell).serve()
        os.close(fd)
        return {"status": os.waitpid(pid, 0)[1]}

    def _within_limits(self, answer: dict[str, Any]) -> dict[str, Any]:
        """The answer, or in its place the words that it cannot cross."""
        limits = Limits(nbytes=self.channel.limit)
        said = "What your code returned cannot be handed to the judge"
        try:
            data = encode(answer)
        except (TypeError, ValueError, RecursionError, OverflowError, MemoryError) as error:
            return asdict(Outcome(state="raised", error=f"{said}: {error}"))
        try:
            if len(data) > _LARGE:
                decode(data, limits)
        except ValueError:
            most = f"at most {limits.nbytes / 1e6:,.0f} MB and {limits.items:,} values can be"
            return asdict(Outcome(state="raised", error=f"{said}: it has {len(data) / 1e6:,.0f} MB; {most}."))
        return answer


def _files_around() -> list[tuple[Any, ...]]:
    """Everything in the folder that holds the current one, such that whatever is done to a file or folder shows."""
    found = []
    for where, _, names in os.walk(os.path.dirname(os.getcwd())):
        for path in (where, *(os.path.join(where, name) for name in names)):
            with contextlib.suppress(OSError):  # without a wall others' files come and go there
                seen = os.lstat(path)
                found.append((path, seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns))
    return sorted(found)


def _bury_orphans() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _whatever_happens(work: Callable[..., dict[str, Any]], *given: Any) -> dict[str, Any]:
    """What `work` gives; where it fails, which it does once an answer has broken what it stands on, that as an outcome."""
    try:
        return work(*given)
    except (Gone, Garbled):
        raise
    except BaseException as error:
        kind = type(error).__name__
        return asdict(Outcome(state="raised", error=f"Your code left its process in a state that nothing runs in ({kind}: {error})."))


@contextlib.contextmanager
def _switched_off(names: tuple[str, ...]) -> Iterator[None]:
    """`switched_off`, also where the learner's code has moved what is to be switched off."""
    try:
        with switched_off(names):
            yield
    except (ImportError, AttributeError):
        yield


def _described(error: BaseException) -> tuple[str, str]:
    """`describe_error`, also for an error that cannot be described."""
    try:
        return describe_error(error)
    except BaseException:
        return "An error that cannot even be shown.", ""
