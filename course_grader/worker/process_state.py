"""The state of a worker's process: its random generators, memory and streams, and when it must end."""

import contextlib
import ctypes
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

PARENT_DEATH_SIGNAL, DUMPABLE, CHILD_SUBREAPER = 1, 4, 36  # PR_SET_…
_MMAP_THRESHOLD = -3  # glibc's M_MMAP_THRESHOLD; it moves by itself unless it is set
CLOSED_BY_ITSELF = 76  # exit status of a worker whose code broke the connection

_prctl = (
    getattr(ctypes.CDLL(None), "prctl", None) if os.name == "posix" else None
)  # looking it up takes longer than calling it


def seed_everything() -> None:
    """Seed every generator the same way, so that a repeat gives the same points."""
    random.seed(0)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(0)
        if torch.cuda.is_initialized() or torch.backends.mps.is_available():
            torch.manual_seed(0)  # of every device: a hundred times as long


_kept: ContextVar[bool] = ContextVar("kept", default=False)  # whether a context around this one puts them back


@contextlib.contextmanager
def seeded() -> Iterator[None]:
    """Generators seeded as in a worker; afterwards they go on as if nothing had been drawn.

    Within another such context they are only seeded: putting them back takes ten times as long, and is left to it.
    """
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    states: list[tuple[Callable[..., object], object]] = []
    if not _kept.get():
        states.append((random.setstate, random.getstate()))
        states += [(numpy.random.set_state, numpy.random.get_state())] if numpy else []
        states += [(torch.set_rng_state, torch.get_rng_state())] if torch else []
    random.seed(0)
    if numpy:
        numpy.random.seed(0)
    if torch:
        torch.default_generator.manual_seed(0)
    token = _kept.set(True)
    try:
        yield
    finally:
        _kept.reset(token)
        for put_back, state in states:
            put_back(state)


def exact_memory() -> None:
    """Make the C library return free memory now, and large blocks as soon as they are free, so that the system's figure
    is what is in use.
    """
    library = ctypes.CDLL(None)
    library.mallopt(_MMAP_THRESHOLD, 2**17)
    library.malloc_trim(0)


def prctl(option: int, value: int) -> None:
    """Linux's prctl; does nothing elsewhere."""
    if _prctl is not None:
        _prctl(option, value, 0, 0, 0)


def end_with_parent() -> None:
    """Have this process killed when its parent ends, for whatever reason."""
    prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)


def end_with_judge(judge: int) -> None:
    """End this process once its parent is no longer `judge`. In a learner's loop it might not notice a closed
    socket."""
    while os.getppid() == judge:
        time.sleep(0.5)
    os._exit(0)


def silence() -> None:
    """No input, and output discarded, for this process and everything it starts."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)
