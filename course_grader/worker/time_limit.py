"""Ends code of this process that runs too long, as a loop that never ends does. Nothing outside watches a notebook's
kernel."""

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from course_lib.async_errors import raise_in, settle, unreported

WAITING = 6  # times its seconds may pass while code waits, or while others use the processor
_TIDYING = 1.0  # s to end in once it was raised; where code has caught it, it is raised again
_AGAIN = 0.05  # s from then on
_LINES = 5  # at the next lines, as many
Made = TypeVar("Made")


class OutOfTime(BaseException):
    """Raised in code that runs too long; not an Exception, so that `except Exception` does not catch it."""


def limited(work: Callable[[], Made], seconds: float) -> Made:
    """The result of `work()`. OutOfTime is raised in it once the process has computed for `seconds`, or after `WAITING`
    times as long."""
    here = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
    handled = sys.exception()
    try:
        with unreported(OutOfTime):
            return (_by_signal if here else _by_thread)(work, _left(seconds))
    except OutOfTime as error:
        ended = error
    # raised at an `except` itself, it leaves Python in the state of handling it: each later error would name it as well
    ctypes.pythonapi.PyErr_SetHandledException(ctypes.py_object(handled))
    raise ended


def _left(seconds: float) -> Callable[[], float]:
    """How much longer it may run at least, in seconds: a function to ask."""
    computed, start = time.process_time(), time.monotonic()
    return lambda: min(seconds - (time.process_time() - computed), WAITING * seconds - (time.monotonic() - start))


def _by_signal(work: Callable[[], Made], left: Callable[[], float]) -> Made:
    """In the main thread: a signal ends waiting too."""
    own, over, raised, traced = sys._getframe(), False, 0, sys.gettrace()

    def ring(_: int, frame: FrameType | None) -> None:
        nonlocal raised
        if over:
            return
        if (more := left()) > 0 or frame is None or frame is own:  # not yet; or the work has just ended
            signal.setitimer(signal.ITIMER_REAL, max(more, _AGAIN))
            return
        signal.setitimer(signal.ITIMER_REAL, _AGAIN if raised else _TIDYING)
        if raised:
            _raise_at_a_line(frame, own, raised)
        raised += 1
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    others = signal.setitimer(signal.ITIMER_REAL, max(left(), _AGAIN))
    try:
        return work()
    finally:
        over = True
        signal.setitimer(signal.ITIMER_REAL, *others)
        signal.signal(signal.SIGALRM, before)
        if raised > 1:
            sys.settrace(traced)


def _raise_at_a_line(frame: FrameType, top: FrameType, attempt: int) -> None:
    """Raise it at one of the next lines of one of the functions below `top` too: each attempt another line, until one
    is outside of a `try`."""
    below = [frame]
    while below[-1].f_back not in (None, top):
        below.append(below[-1].f_back)
    lines = attempt // len(below) % _LINES

    def at_line(_: FrameType, event: str, __: object) -> object:
        nonlocal lines
        if event == "line":
            lines -= 1
            if lines < 0:
                raise OutOfTime
        return at_line

    below[attempt % len(below)].f_trace = at_line
    sys.settrace(lambda *_: None)


def _by_thread(work: Callable[[], Made], left: Callable[[], float]) -> Made:
    """In any other thread, and on Windows: what waits notices only when it goes on."""
    me, over = threading.get_ident(), threading.Event()

    def watch() -> None:
        pause = _TIDYING
        while not over.wait(max(left(), _AGAIN)):
            if left() <= 0:
                raise_in(me, OutOfTime)
                over.wait(pause)
                pause = _AGAIN

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        return work()
    finally:
        ended = False
        while not ended:
            try:
                over.set()
                watcher.join()
                settle(OutOfTime)
                ended = True
            except OutOfTime:  # too late: the work has just ended
                pass
