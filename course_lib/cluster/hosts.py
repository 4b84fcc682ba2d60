"""ThreadHost: the ranks as threads of this process, of which one runs at a time.

The host owns the loop: what a rank asks goes to the kernel, and whoever the kernel names runs next. Every rank has its
own copy of the function and its arguments, and its own generators. When the run ends, for whatever reason, no thread stays.
"""

from __future__ import annotations

import ctypes
import gc
import io
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch

from course_lib.accounting import Accounting, here
from course_lib.cluster import port as port_module
from course_lib.cluster.comm import Comm
from course_lib.cluster.errors import RankError, Unfinished
from course_lib.cluster.isolate import Chance, own_generators
from course_lib.cluster.kernel import Kernel
from course_lib.cluster.lines import line_text, traceback_lines
from course_lib.cluster.port import Port
from course_lib.cluster.protocol import Fault, Finished, Reply, Request, Stuck

PIN_AFTER = 300  # requests
PATIENCE = 5.0  # s to wait for a thread to end
End = Stuck | Fault | Finished


class _Stop(BaseException):
    """Ends a rank's thread; not an Exception, so that `except Exception` does not hold it."""


def move(into: torch.Tensor, data: torch.Tensor) -> None:
    """Copy between two ranks' tensors; a communicator hands over tensors without autograd."""
    into.copy_(data if data.shape == into.shape else data.reshape(into.shape))


def keep(data: torch.Tensor) -> torch.Tensor:
    """A copy of what is in flight."""
    return data.clone()


class InProcess:
    """The kernel in this process, as a host sees it."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def step(self, request: Request | None) -> tuple[int, Reply] | End:
        """Hand in a request; who runs next."""
        if request is not None:
            self.kernel.submit(request)
        return self.kernel.next()


class ThreadHost:
    """Runs `bodies[rank](comm)` for every rank against `door`; `run()` returns how the run ended."""

    def __init__(
        self,
        door: Any,
        bodies: dict[int, Callable[[Comm], Any]],
        ranks: int,
        *,
        late: bool = False,
        away: bool = False,
        seed: int = 0,
        debug: int | None = None,
        capture: int | None = None,
        speed: float = 1e12,
        account: bool = False,
        core: int | None = None,
        finish: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        self.door, self.bodies, self.ranks, self.finish = door, bodies, ranks, finish
        self.debug, self.capture = debug, capture
        self.error: BaseException | None = None  # what the door raised
        self.output = ""
        self.ledgers: dict[int, dict[str, Any]] = {}  # what each rank's account counted
        self._locks = {rank: threading.Lock() for rank in bodies}
        self._inbox: dict[int, Reply] = {}
        self._chance = {rank: Chance(rank, seed) for rank in bodies}
        self._ports = {rank: Port(rank, ranks, self._ask, late, self._later if away else None) for rank in bodies}
        for port in self._ports.values():
            port.speed = speed
            port.account = Accounting() if account else None
        self._counted, self._core, self._asked = account, core, 0
        self._dead = False
        self._end: End | None = None
        self._over = threading.Lock()
        self._threads: dict[int, threading.Thread] = {}

    # --- the loop, on whichever thread runs

    def _ask(self, request: Request) -> Reply:
        me = request.rank
        if self._dead:
            raise _Stop
        self._chance[me].leave()
        self._asked += 1
        if self._asked == PIN_AFTER:
            pin(
                this_core() if self._core is None else self._core,
                [thread.native_id or 0 for thread in self._threads.values()],
            )
        turn = self._step(request)
        if self._dead:
            raise _Stop
        if type(turn) is not tuple:
            self._close(turn)
            raise _Stop
        rank, reply = turn
        if rank != me:
            self._inbox[rank] = reply
            self._locks[rank].release()
            self._locks[me].acquire()
            if self._dead:
                raise _Stop
            reply = self._inbox[me]
        self._chance[me].enter()
        return reply

    def _later(self, request: Request) -> None:
        """Let a request whose answer is known wait for the rank's next."""
        if self._dead:
            raise _Stop
        self.door.defer(request)

    def _step(self, request: Request | None) -> tuple[int, Reply] | End:
        """The door's answer; if the door itself fails, that ends the run and is raised where the run was asked for."""
        try:
            if not self._counted and here() is None:
                return self.door.step(request)
            with torch._C._DisableTorchDispatch():  # what the kernel copies is nobody's operation, whoever counts
                return self.door.step(request)
        except BaseException as error:
            if not self._dead and not isinstance(error, _Stop):
                self.error = error
                self._close(Fault(error))
            raise _Stop from error

    def _hand_over(self, turn: tuple[int, Reply] | End) -> None:
        if type(turn) is not tuple:
            self._close(turn)
            return
        rank, reply = turn
        self._inbox[rank] = reply
        self._locks[rank].release()

    def _close(self, end: End) -> None:
        self._end, self._dead = end, True
        if self.debug is not None:  # the caller's thread may be waiting as that rank
            _release(self._locks[self.debug])
        _release(self._over)

    def _rank(self, rank: int) -> None:
        """The life of one rank."""
        port = self._ports[rank]
        try:
            self._locks[rank].acquire()
            if self._dead:
                return
            port_module.here.port = port
            self._chance[rank].bind()
            self._chance[rank].enter()
            try:
                request = Request(rank, "done", data=self._body(rank, port))
            except _Stop:
                return
            except KeyboardInterrupt:
                if rank == self.debug:  # the caller's own thread
                    raise
                return
            except BaseException as error:
                request = Request(rank, "raised", data=self._told(rank, error))
            self._chance[rank].leave()
            request.work = port.spent()
            if not self._dead:
                self._hand_over(self._step(request))
        except _Stop:
            pass
        finally:
            port.leave()
            port_module.here.port = None

    def _body(self, rank: int, port: Port) -> Any:
        comm = Comm(range(self.ranks))
        start = self._inbox[rank].writes
        body = self.bodies[rank]
        account = port.account
        if account is None:
            return self.finish(body(comm, *start))
        with account:
            account.adopt([getattr(body, "given", ()), start])
            try:
                return self.finish(body(comm, *start))
            finally:
                self.ledgers[rank] = account.ledger()

    def _told(self, rank: int, error: BaseException) -> RankError:
        line, frames, first = traceback_lines(error)
        if first is not None:
            error = error.with_traceback(first)
        trace = (
            "".join(traceback.format_exception(error)) if frames else "".join(traceback.format_exception_only(error))
        )
        told = RankError(rank, type(error).__name__, str(error), line_text(line) if line[0] else "", trace)
        told.original = error
        return told

    # --- starting and ending

    def run(self, timeout: float | None = None) -> End:
        """Run every rank to its end."""
        if getattr(port_module.here, "port", None) is not None:
            raise RuntimeError("simulate was called inside a rank; call it outside, in a cell.")
        for lock in (*self._locks.values(), self._over):
            lock.acquire()
        threads = torch.get_num_threads()
        with own_generators(), young_garbage(), self._prints():
            try:
                self._start()
                self._wait(timeout)
            finally:
                self._dead = True
                left = self._stop()
                torch.set_num_threads(threads)
        if not left:
            for chance in self._chance.values():
                chance.give_back()
        if self.error is not None:
            raise self.error
        if left:
            raise RuntimeError(
                f"ranks {left} did not stop within {PATIENCE:g} s: they are inside a long call of a library."
            )
        return self._end

    def _start(self) -> None:
        small = len(self.bodies) > 64
        before = threading.stack_size(2**20 if small else 0)
        try:
            for rank in self.bodies:
                if rank != self.debug:
                    thread = threading.Thread(target=self._thread, args=(rank,), daemon=True, name=f"rank {rank}")
                    self._threads[rank] = thread
                    thread.start()
        finally:
            threading.stack_size(before)
        self._hand_over(self.door.step(None))

    def _thread(self, rank: int) -> None:
        torch.set_num_threads(1)
        self._rank(rank)

    def _wait(self, timeout: float | None) -> None:
        if self.debug is not None and not self._dead:
            self._rank(self.debug)
        if not self._over.acquire(timeout=-1 if timeout is None else timeout):
            self._dead = True
            self._end = Fault(
                Unfinished(f"The run took longer than {timeout:g} s and was ended. Look for a loop that does not end.")
            )

    def _stop(self) -> list[int]:
        """End every thread; the ranks that could not be ended."""
        deadline = time.monotonic() + PATIENCE
        alive = dict(self._threads)
        first = True
        while alive and time.monotonic() < deadline:
            for rank, thread in list(alive.items()):
                if thread.ident is None:
                    del alive[rank]
                    continue
                _release(self._locks[rank])
                thread.join(0.02 if first else 0.001)
                if thread.is_alive():
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Stop))
                    thread.join(0.05)
                if not thread.is_alive():
                    del alive[rank]
            first = False
        return list(alive)

    @contextmanager
    def _prints(self) -> Iterator[None]:
        real = sys.stdout
        proxy = _RankPrints(real, self.capture)
        sys.stdout = proxy
        try:
            yield
        finally:
            proxy.close_lines()
            if sys.stdout is proxy:
                sys.stdout = real
            self.output = proxy.captured()


class _RankPrints(io.TextIOBase):
    """Stands for stdout: what a rank prints gets its name in front, line by line."""

    def __init__(self, real: Any, capture: int | None) -> None:
        self._real, self._room = real, capture
        self._parts: dict[int, str] = {}
        self._kept: list[str] = []

    def write(self, text: str) -> int:
        port = getattr(port_module.here, "port", None)
        if port is None:
            return self._real.write(text)
        whole = self._parts.get(port.rank, "") + str(text)
        *lines, rest = whole.split("\n")
        self._parts[port.rank] = rest
        for line in lines:
            self._say(f"[rank {port.rank}] {line}\n")
        return len(text)

    def _say(self, text: str) -> None:
        if self._room is None:
            self._real.write(text)
        elif self._room > 0:
            self._kept.append(text[: self._room])
            self._room -= len(text)
            if self._room <= 0:
                self._kept.append("\n… more was printed, and is left out\n")

    def close_lines(self) -> None:
        for rank, rest in self._parts.items():
            if rest:
                self._say(f"[rank {rank}] {rest}\n")

    def captured(self) -> str:
        return "".join(self._kept)

    def flush(self) -> None:
        self._real.flush()

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._real, "encoding", "utf-8") or "utf-8"


def _release(lock: Any) -> None:
    with suppress(RuntimeError):
        lock.release()


_set_aside = ""  # whose the old things are that the collector leaves out: "ours", "another's", or nobody's


@contextmanager
def young_garbage() -> Iterator[None]:
    """Within: garbage is sought among what is new; looking through all of torch again takes a tenth of a second."""
    global _set_aside
    if not _set_aside and gc.get_freeze_count() > 1000:  # counting is slow, so once only
        _set_aside = "another's"
    if _set_aside:
        yield
        return
    _set_aside = "ours"
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        _set_aside = ""


def this_core() -> int | None:
    """The core that this thread is on; None where the system does not say."""
    try:
        with open("/proc/thread-self/stat") as file:
            return int(file.read().rsplit(")", 1)[1].split()[36])
    except (OSError, ValueError, IndexError):
        return None


def pin(core: int | None, threads: Iterable[int]) -> None:
    """Keep these threads on one core. Of the ranks one runs at a time, and handing over within a core costs a third
    of handing over between two; it pays in runs that hand over often."""
    with suppress(AttributeError, OSError):
        if core in os.sched_getaffinity(0):
            for thread in threads:
                os.sched_setaffinity(thread, {core})


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """Within: this thread stays on one core; on whichever it likes where that is None, or the system has no such thing."""
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
