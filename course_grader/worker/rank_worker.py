"""The worker's side of a cluster exercise: the answer is copied, passed by value, and run as ranks for the judge's
kernel.

Also `probe_of`, `case_of` and `hidden`: what a request says about an exercise, for runs with and without ranks.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn, TypeVar

from course_grader import exercises
from course_grader.arithmetic import same_everywhere
from course_grader.records import Case, Outcome
from course_grader.worker.process_state import DUMPABLE, prctl, seed_everything
from course_grader.worker.protocol import Channel, Request
from course_grader.worker.runners import switched_off

Found = TypeVar("Found")
Copy = TypeVar("Copy")


class RankWorker:
    """One exercise's answer as the program of ranks, in a worker's process."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.packed = b""  # the answer by value
        # what is loaded, and what is switched off for it
        self.program: tuple[Callable[..., object], tuple[str, ...]] | None = None

    def ready(self, request: Request, find: Callable[[], object]) -> dict[str, object]:
        """Whether the answer given by `find` can be copied to ranks. If so, the next message on the socket is a cluster
        run.
        """
        from course_lib.cluster.isolate import Blueprint

        self.program = None
        found = self._copied(lambda: self._ranked(request, find()), Blueprint)
        if isinstance(found, Outcome):
            return found.fields()
        self.program = found[0], tuple(request["hides"])
        return Outcome(state="answered").fields()

    def pack(self, find: Callable[[], object]) -> dict[str, object]:
        """The answer given by `find`, by value, as a tensor of bytes for processes that `load` it."""
        import torch

        from course_lib.cluster.isolate import pack

        found = self._copied(find, pack)
        if isinstance(found, Outcome):
            return found.fields()
        self.packed = found[1]
        with same_everywhere():
            data = torch.frombuffer(bytearray(self.packed), dtype=torch.uint8)
        return Outcome(state="answered").fields() | {"value": data}

    def load(self, request: Request) -> dict[str, object]:
        """Load an answer from another worker of the same submission, which is trusted no more than this one; the next
        message is a run.

        Only the first request has the answer's bytes. If no answer can be made from them, each rank's run says so.
        """
        import pickle

        if request["answer"] is not None:
            self.packed = request["answer"].numpy().tobytes()
        seed_everything()
        try:
            answer = pickle.loads(self.packed)
        except BaseException as error:
            answer = _unmade(
                f"Every rank gets its own copy of the answer, and it cannot be made ({type(error).__name__}: {error})."
            )
        self.program = self._ranked(request, answer), tuple(request["hides"])
        return Outcome(state="answered").fields()

    def serve(self) -> dict[str, object]:
        """Run the loaded program for the judge's kernel. Returns what the ranks printed."""
        from course_grader.remote_ranks.remote_worker import serve_ranks

        program, hides = self.program or (None, ())
        self.program = None
        assert program is not None  # loaded just before
        with same_everywhere(), hidden(hides):
            return Outcome(state="answered", output=serve_ranks(self.channel.sock, program)).fields()

    def _ranked(self, request: Request, answer: object) -> Callable[..., object]:
        """An answer as the program that each rank runs."""
        from course_grader.worker.ranks_in_process import rank_program

        return rank_program(probe_of(request), case_of(request), answer)

    @same_everywhere()
    def _copied(self, find: Callable[[], Found], copy: Callable[[Found], Copy]) -> tuple[Found, Copy] | Outcome:
        """What is found, and its copy; or why it cannot be copied."""
        seed_everything()
        try:
            thing = find()
            return thing, copy(thing)
        except KeyError as error:
            return Outcome(state="raised", error=f"`{error.args[0]}` is not defined where the check stands.")
        except ValueError as error:
            return Outcome(state="raised", error=str(error))


def _unmade(words: str) -> Callable[..., NoReturn]:
    """A stand-in for an answer that could not be made; it says why."""

    def unmade(*_: object, **__: object) -> NoReturn:
        raise ValueError(words)

    return unmade


def probe_of(request: Request) -> Callable[..., object]:
    """The probe of the card that a request names. If it names none, one that only calls the answer."""
    return exercises.card(request["probe"]).probe if request["probe"] else exercises.call


def case_of(request: Request) -> Case:
    """The arguments in a request, as a case."""
    return Case(name="", args=tuple(request["args"]), kwargs=request["kwargs"], twice=request["twice"])


@contextlib.contextmanager
def hidden(names: tuple[str, ...]) -> Iterator[None]:
    """`switched_off`, also if the learner's code has moved the functions that are to be switched off."""
    try:
        with switched_off(names):
            yield
    except (ImportError, AttributeError):
        yield


def keep_apart() -> None:
    """From now on only copies of this process run anything, each as one of several ranks. None can read or write
    another's memory.
    """
    if filters := sys.modules.get("course_grader.sandbox.filters"):
        filters.install(filters.without_locks())  # of files that other ranks have open too
    if landlock := sys.modules.get("course_grader.sandbox.landlock"):
        landlock.leave("/proc")  # where the system counts what all of its processes do
    prctl(DUMPABLE, 0)


def files_around() -> list[tuple[object, ...]]:
    """Everything in the folder above the current one, such that any change to a file or folder shows."""
    found = []
    for where, _, names in os.walk(os.path.dirname(os.getcwd())):
        for path in (where, *(os.path.join(where, name) for name in names)):
            with contextlib.suppress(OSError):  # without a wall others' files come and go there
                seen = os.lstat(path)
                found.append((path, seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns))
    return sorted(found)
