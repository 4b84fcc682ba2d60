"""Runners: each runs an answer on one case and returns an `Outcome`. `InProcess` runs it here; `in_worker.InWorker`
uses a worker.
"""

import contextlib
import functools
import importlib
import io
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import CodeType, FunctionType, TracebackType
from typing import Protocol

from course_grader.arithmetic import same_everywhere
from course_grader.exercises import Card
from course_grader.exercises.values import copied
from course_grader.records import Case, Outcome, State
from course_grader.worker.plain_values import NOT_ANSWERED, OUTPUT_CAP, Given, NotPlain, plain
from course_grader.worker.process_state import seeded
from course_grader.worker.second_call import called_again, first_changed
from course_grader.worker.time_limit import OutOfTime, limited
from course_lib.cluster.advice import without_group
from course_lib.folders import PACKAGES


class Runner(Protocol):
    """Runs an answer on one case and reports what happened, without judging it."""

    def run(self, card: Card, case: Case) -> Outcome:
        """The outcome of one case. Never raises because of the answer."""


class SwitchedOff(RuntimeError):
    """Raised by a library function that an exercise asks the learner to write."""


@contextlib.contextmanager
def switched_off(names: tuple[str, ...]) -> Iterator[None]:
    """Inside this context, the library functions named "module:function" raise SwitchedOff, under any name they were
    imported by.

    In a notebook this is a reminder, not a barrier: the learner controls the process.
    """
    saved: list[tuple[FunctionType, CodeType, tuple[object, ...] | None, dict[str, object] | None]] = []
    try:
        for name in names:
            module, _, attribute = name.partition(":")
            function = getattr(importlib.import_module(module), attribute)
            saved.append((function, function.__code__, function.__defaults__, function.__kwdefaults__))
            function.__code__, function.__defaults__, function.__kwdefaults__ = code_of(attribute), None, None
        yield
    finally:
        for function, code, defaults, keywords in reversed(saved):
            function.__code__, function.__defaults__, function.__kwdefaults__ = code, defaults, keywords


@functools.cache  # a fork server makes them for all that it forks
def code_of(name: str) -> CodeType:
    """The code of a function of that name that is switched off."""
    text = f"{name} is what this exercise asks you to write, so it is switched off during the check."
    namespace: dict[str, object] = {}
    exec(
        f"def off(*_, **__):\n    from course_grader.worker.runners import SwitchedOff\n    raise "
        f"SwitchedOff({text!r})",
        namespace,
    )
    off = namespace["off"]
    assert isinstance(off, FunctionType)
    return off.__code__


def learner_frames(trace: TracebackType | None) -> list[traceback.FrameSummary]:
    """The frames of the learner's own code, without this library and installed packages."""
    frames = traceback.extract_tb(trace)
    others = (*PACKAGES, "site-packages", "lib/python", "<frozen")
    return [frame for frame in frames if not any(part in frame.filename for part in others)]


def describe_error(error: BaseException) -> tuple[str, str]:
    """One line with the learner's line, and the learner's part of the traceback."""
    frames = learner_frames(error.__traceback__)
    kind = type(error).__name__
    nothing = "it asked for more memory than there is for it" if isinstance(error, MemoryError) else "no message"
    text = str(error).strip().splitlines()[0] if str(error).strip() else nothing
    where = ""
    if frames:
        last = frames[-1]
        cell = "your cell" if "ipykernel" in last.filename or last.filename.startswith("<") else last.filename
        where = f" (line {last.lineno} of {cell}{': ' + last.line if last.line else ''})"
    trace = "".join(traceback.format_list(frames)) + f"{kind}: {text}\n"
    return f"{kind}: {text}{where} {without_group(error)}".rstrip()[:600], trace[:4000]


class Capped(io.StringIO):
    """A stream that keeps the first `OUTPUT_CAP` characters and accepts the rest."""

    def write(self, text: str) -> int:
        """The length of `text`, as for any stream."""
        room = OUTPUT_CAP - self.tell()
        if room > 0:
            super().write(text[:room])
        return len(text)


def guarded(work: Callable[[], object], case: Case, watched: bool) -> Outcome:
    """Call `work()` and turn everything that can happen into an Outcome, except the learner's own Ctrl-C. Where it is
    `watched`, it ends after the case's seconds.
    """
    start = time.perf_counter()
    out = Capped()

    def outcome(state: State, value: object = None, error: str = "", trace: str = "") -> Outcome:
        seconds, output = time.perf_counter() - start, out.getvalue()[:OUTPUT_CAP]
        return Outcome(state=state, value=value, error=error, trace=trace, output=output, seconds=seconds)

    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = limited(lambda: plain(work()), case.seconds) if watched else plain(work())
        return outcome("answered", value=value)
    except KeyboardInterrupt:
        raise
    except OutOfTime:
        words = (
            f"Your code ran longer than {case.seconds:g} s on “{case.name}” and was ended. Does a loop never end, "
            f"or grow too fast?"
        )
        return outcome("timed out", error=words)
    except NotImplementedError:
        return outcome("not answered", error=NOT_ANSWERED)
    except NotPlain as error:
        return outcome("raised", error=str(error))
    except BaseException as error:  # SystemExit and similar come from the answer too
        line, trace = describe_error(error)
        return outcome("raised", error=line, trace=trace)


class InProcess:
    """Runs answers in this process: a notebook's kernel, or a test. Ranks are threads, of which one runs at a time."""

    def __init__(self, *answers: object) -> None:
        self.answers = answers

    def run(self, card: Card, case: Case) -> Outcome:
        """The outcome of one case; the answer gets its own copy of the arguments."""
        if len(self.answers) != len(card.answers):
            names = ", ".join(card.answers)
            return Outcome(
                state="raised", error=f"check({card.id!r}, …) takes {names}; it was given {len(self.answers)}."
            )
        answer = self.answers[0] if len(self.answers) == 1 else self.answers
        with seeded(), switched_off(card.hides):
            return run_probe(card.probe, case, answer, watched=True)


@same_everywhere()
def run_probe(probe: Callable[..., object], case: Case, answer: object, watched: bool = False) -> Outcome:
    """The probe on one case in this process: a call, or a metered run over ranks. A worker is watched from outside."""
    if case.ranks is None and case.twice:
        own, *earlier = (Given(*copied((args, dict(case.kwargs)))) for args in case.args)
        again = lambda: called_again(lambda given: probe(answer, given), answer, own, earlier)  # noqa: E731
        return guarded(again, case, watched)
    if case.ranks is None:
        given = Given(case.args, dict(case.kwargs))
        mine = Given(*copied((given.args, given.kwargs)))
        changed = ""

        def work() -> object:
            nonlocal changed
            value = probe(answer, mine)
            changed = first_changed(given, mine)
            return value

        return replace(guarded(work, case, watched), changed=changed)
    from course_grader.worker.ranks_in_process import run_here

    return run_here(probe, case, answer)
