"""The worker's side of a cluster exercise: the answer is copied, passed by value, and run as ranks for the judge's
kernel.

Also `card_of`, `case_of` and `hidden`: what a request says about an exercise, for runs with and without ranks.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from course_grader import exercises
from course_grader.arithmetic import same_everywhere
from course_grader.records import Case, Outcome
from course_grader.worker.process_state import DUMPABLE, prctl, seed_everything
from course_grader.worker.protocol import Channel
from course_grader.worker.runners import switched_off


class RankWorker:
    """One exercise's answer as the program of ranks, in a worker's process."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.packed: Any = None
        self.program: tuple[Any, tuple[str, ...]] | None = None  # what is loaded, and what is switched off for it

    def ready(self, request: dict[str, Any], find: Callable[[], object]) -> dict[str, Any]:
        """Whether the answer given by `find` can be copied to ranks. If so, the next message on the socket is a cluster
        run.
        """
        from course_lib.cluster.isolate import Blueprint

        self.program = None
        program, trouble = self._copied(lambda: self._ranked(request, find()), Blueprint)
        if trouble is None:
            self.program = program, tuple(request["hides"])
        return (trouble or Outcome(state="answered")).fields()

    def pack(self, find: Callable[[], object]) -> dict[str, Any]:
        """The answer given by `find`, by value, as a tensor of bytes for processes that `load` it."""
        import torch

        from course_lib.cluster.isolate import pack

        _, trouble = self._copied(find, pack)
        if trouble is not None:
            return trouble.fields()
        with same_everywhere():
            data = torch.frombuffer(bytearray(self.packed), dtype=torch.uint8)
        return Outcome(state="answered").fields() | {"value": data}

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
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

    def serve(self) -> dict[str, Any]:
        """Run the loaded program for the judge's kernel. Returns what the ranks printed."""
        from course_grader.remote_ranks.remote_worker import serve_ranks

        program, hides = self.program or (None, ())
        self.program = None
        assert program is not None  # loaded just before
        with same_everywhere(), hidden(hides):
            return Outcome(state="answered", output=serve_ranks(self.channel.sock, program)).fields()

    def _ranked(self, request: dict[str, Any], answer: object) -> Any:
        """An answer as the program that each rank runs."""
        from course_grader.worker.ranks_in_process import rank_program

        return rank_program(card_of(request), case_of(request), answer)

    @same_everywhere()
    def _copied(self, find: Callable[[], object], copy: Callable[[Any], object]) -> tuple[Any, Outcome | None]:
        """What is found if it can be copied, the copy kept in `packed`; or why not."""
        seed_everything()
        try:
            thing = find()
            self.packed = copy(thing)
        except KeyError as error:
            return None, Outcome(state="raised", error=f"`{error.args[0]}` is not defined where the check stands.")
        except ValueError as error:
            return None, Outcome(state="raised", error=str(error))
        return thing, None


def _unmade(words: str) -> Callable[..., Any]:
    """A stand-in for an answer that could not be made; it says why."""

    def unmade(*_: object, **__: object) -> Any:
        raise ValueError(words)

    return unmade


def card_of(request: dict[str, Any]) -> Any:
    """The card whose probe a request is for. If it names none, a card that only calls the answer."""
    return exercises.card(request["probe"]) if request["probe"] else SimpleNamespace(probe=exercises.call)


def case_of(request: dict[str, Any]) -> Case:
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


def files_around() -> list[tuple[Any, ...]]:
    """Everything in the folder above the current one, such that any change to a file or folder shows."""
    found = []
    for where, _, names in os.walk(os.path.dirname(os.getcwd())):
        for path in (where, *(os.path.join(where, name) for name in names)):
            with contextlib.suppress(OSError):  # without a wall others' files come and go there
                seen = os.lstat(path)
                found.append((path, seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns))
    return sorted(found)
