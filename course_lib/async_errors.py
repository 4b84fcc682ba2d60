"""Errors that one thread raises in another to end it."""

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager


def raise_in(ident: int, kind: type[BaseException]) -> None:
    """Raise `kind` in the thread `ident` at its next Python instruction. Does nothing if the thread has ended."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(kind))


def settle(kind: type[BaseException]) -> None:
    """Discard every `kind` still pending in this thread, or in a thread that ended before it could be raised there.

    Otherwise CPython 3.11 and 3.12 keep looking for a pending error: every call is slower, and code under a tracer,
    such as a debugger or coverage, hangs at its first call.
    """
    try:
        raise_in(threading.get_ident(), kind)
        while True:
            pass
    except kind:
        pass


def end_threads(
    threads: Mapping[int, threading.Thread], wake: Callable[[int], None], kind: type[BaseException], seconds: float
) -> list[int]:
    """Raise `kind` in these threads until they end. Return the keys of those that did not within `seconds`.

    `wake(key)` releases the lock that a thread may be waiting for.
    """
    deadline, alive = time.monotonic() + seconds, dict(threads)
    with unreported(kind):
        while alive and time.monotonic() < deadline:
            for key, thread in threads.items():
                if key in alive and thread.ident is not None:
                    wake(key)
                    raise_in(thread.ident, kind)
                    thread.join(0.05)
                    if not thread.is_alive():
                        del alive[key]
        settle(kind)
    return list(alive)


@contextmanager
def unreported(kind: type[BaseException]) -> Iterator[None]:
    """Do not report a `kind` that cannot be propagated, in any thread.

    Raised in a garbage collector's callback or in `__del__`, the error is lost, and whoever raised it tries again.
    Raised in a thread that is just ending, it is not needed.
    """
    unraisable, unhandled = sys.unraisablehook, threading.excepthook

    def report_unraisable(lost: "sys.UnraisableHookArgs") -> None:
        if not issubclass(lost.exc_type, kind):
            unraisable(lost)

    def report_unhandled(lost: threading.ExceptHookArgs) -> None:
        if not issubclass(lost.exc_type, kind):
            unhandled(lost)

    sys.unraisablehook, threading.excepthook = report_unraisable, report_unhandled
    try:
        yield
    finally:
        if sys.unraisablehook is report_unraisable:
            sys.unraisablehook = unraisable
        if threading.excepthook is report_unhandled:
            threading.excepthook = unhandled
