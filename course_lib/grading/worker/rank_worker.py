"""The worker's side of a cluster exercise: an answer copied, handed on by value, and run as ranks for the judge's kernel.

With `card_of`, `case_of` and `hidden`, what a request says of an exercise, for runs with ranks and without.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from course_lib import exercises
from course_lib.grading.worker.process_state import DUMPABLE, prctl, seed_everything
from course_lib.grading.worker.protocol import Channel
from course_lib.grading.worker.runners import switched_off
from course_lib.records import Case, Outcome


class RankWorker:
    """One exercise's answer as the program of ranks, in a worker's process."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.packed: Any = None
        self.dtype = "float32"  # torch's default where the answer was packed
        self.program: tuple[Any, tuple[str, ...]] | None = None  # what is ready to run, and what it must do without

    def ready(self, request: dict[str, Any], find: Callable[[], Any]) -> dict[str, Any]:
        """Whether the answer that `find` gives can be copied to ranks; if so, the next thing on the socket is a run of the cluster."""
        from course_lib.cluster.isolate import Blueprint

        self.program = None
        program, trouble = self._copied(lambda: self._ranked(request, find()), Blueprint)
        if trouble is None:
            self.program = program, tuple(request["hides"])
        return (trouble or Outcome(state="answered")).fields()

    def pack(self, find: Callable[[], Any]) -> dict[str, Any]:
        """The answer that `find` gives by value, as a tensor of bytes, for processes that `load` it."""
        import torch

        from course_lib.cluster.isolate import pack

        _, trouble = self._copied(find, pack)
        if trouble is not None:
            return trouble.fields()
        data = torch.frombuffer(bytearray(self.packed), dtype=torch.uint8)
        return Outcome(state="answered").fields() | {
            "value": [data, str(torch.get_default_dtype()).removeprefix("torch.")]
        }

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """An answer from another worker, of the same submission and as little trusted, afresh; the next thing is a run of it.

        The answer's bytes come with the first request only. Of one that cannot be made from them, each rank's run says so.
        """
        import pickle

        import torch

        if request["answer"] is not None:
            data, self.dtype = request["answer"]
            self.packed = data.numpy().tobytes()
        seed_everything()
        torch.set_default_dtype(getattr(torch, self.dtype))
        try:
            answer = pickle.loads(self.packed)
        except BaseException as error:
            answer = _unmade(
                f"Every rank gets its own copy of the answer, and it cannot be made ({type(error).__name__}: {error})."
            )
        self.program = self._ranked(request, answer), tuple(request["hides"])
        return Outcome(state="answered").fields()

    def serve(self) -> dict[str, Any]:
        """Run the ready program for the judge's kernel; what the ranks printed."""
        from course_lib.cluster.remote_worker import serve_ranks

        program, hides = self.program or (None, ())
        self.program = None
        with hidden(hides):
            return Outcome(state="answered", output=serve_ranks(self.channel.sock, program)).fields()

    def _ranked(self, request: dict[str, Any], answer: Any) -> Any:
        """An answer as the program of a run of ranks."""
        from course_lib.grading.worker.ranks_in_process import rank_program

        return rank_program(card_of(request), case_of(request), answer)

    def _copied(self, find: Callable[[], Any], copy: Callable[[Any], Any]) -> tuple[Any, Outcome | None]:
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
    """An answer that only says why there is none."""

    def unmade(*_: Any, **__: Any) -> Any:
        raise ValueError(words)

    return unmade


def card_of(request: dict[str, Any]) -> Any:
    """The card whose probe a request is for; one that only calls the answer where it names none."""
    return exercises.card(request["probe"]) if request["probe"] else SimpleNamespace(probe=exercises.call)


def case_of(request: dict[str, Any]) -> Case:
    """The arguments that a request brings, as a case."""
    return Case(name="", args=tuple(request["args"]), kwargs=request["kwargs"], twice=request["twice"])


@contextlib.contextmanager
def hidden(names: tuple[str, ...]) -> Iterator[None]:
    """`switched_off`, also where the learner's code has moved what is to be switched off."""
    try:
        with switched_off(names):
            yield
    except (ImportError, AttributeError):
        yield


def keep_apart() -> None:
    """From now on only copies of this process run anything, each as one rank of several; none can look into it or write to it."""
    if filters := sys.modules.get("course_lib.grading.sandbox.filters"):
        filters.install(filters.without_locks())  # of files that other ranks have open too
    if landlock := sys.modules.get("course_lib.grading.sandbox.landlock"):
        landlock.leave("/proc")  # where the system counts what all of its processes do
    prctl(DUMPABLE, 0)


def files_around() -> list[tuple[Any, ...]]:
    """Everything in the folder that holds the current one, such that whatever is done to a file or folder shows."""
    found = []
    for where, _, names in os.walk(os.path.dirname(os.getcwd())):
        for path in (where, *(os.path.join(where, name) for name in names)):
            with contextlib.suppress(OSError):  # without a wall others' files come and go there
                seen = os.lstat(path)
                found.append((path, seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns))
    return sorted(found)
