"""Speed on this machine: threads that take turns share a core, and garbage collection stays short."""

import gc
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

PIN_AFTER = 20  # requests after which a run is worth keeping on one core
_frozen_by = ""  # who has frozen the older objects, so that the collector skips them: "us", "another" or ""


@contextmanager
def young_garbage() -> Iterator[None]:
    """A context in which the garbage collector visits only new objects; visiting all of torch takes a tenth of a
    second."""
    global _frozen_by
    if not _frozen_by and gc.get_freeze_count() > 1000:  # counting is slow, so once only
        _frozen_by = "another"
    if _frozen_by:
        yield
        return
    _frozen_by = "us"
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        _frozen_by = ""


def this_core() -> int | None:
    """The core that this thread runs on, or None if the system does not report it."""
    try:
        with open("/proc/thread-self/stat") as file:
            return int(file.read().rsplit(")", 1)[1].split()[36])
    except (OSError, ValueError, IndexError):
        return None


def pin(core: int | None, threads: Iterable[int]) -> None:
    """Keep these threads on one core. Only one rank runs at a time, and handing over within a core takes a third of the
    time of handing over between two; it pays in runs that hand over often."""
    with suppress(AttributeError, OSError):
        if core in os.sched_getaffinity(0):
            for thread in threads:
                os.sched_setaffinity(thread, {core})


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """A context in which this thread stays on one core; no effect for None or on systems without support."""
    if core is None or not hasattr(os, "sched_getaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    pin(core, [0])
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, cores)
