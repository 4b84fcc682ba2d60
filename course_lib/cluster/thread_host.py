"""`ThreadHost` runs the ranks as threads of this process, one at a time.

The host runs the loop: it passes a rank's request to the kernel, and the rank that the kernel names runs next. Every rank has
its own copy of the function and its arguments, and its own random generators. However the run ends, no thread remains.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import torch

from course_lib.cluster.comm import Comm
from course_lib.cluster.endpoint import Endpoint, here
from course_lib.cluster.errors import RankError, Unfinished
from course_lib.cluster.in_flight import Hazard
from course_lib.cluster.isolate import Chance, own_generators
from course_lib.cluster.process_tuning import PIN_AFTER, on_core, pin, this_core, young_garbage
from course_lib.cluster.protocol import Fault, Finished, Reply, Request, Stuck
from course_lib.cluster.rank_prints import RankPrints
from course_lib.cluster.remote_endpoint import RemoteEndpoint
from course_lib.cluster.source_lines import line_text, traceback_lines
from course_lib.model.accounting import Accounting

PATIENCE = 5.0  # s to wait for a thread to end
End = Stuck | Fault | Finished


class _Stop(BaseException):
    """Ends a rank's thread; not an Exception, so that `except Exception` does not catch it."""


class ThreadHost:
    """Runs `bodies[rank](comm)` for every rank; `run()` returns how the run ended. `link` leads to the kernel."""

    def __init__(
        self,
        link: Any,
        bodies: Mapping[int, Callable[..., Any]],
        ranks: int,
        *,
        late: bool = False,
        remote: bool = False,
        seed: int = 0,
        debug: int | None = None,
        capture: int | None = None,
        speed: float = 1e12,
        account: bool = False,
        core: int | None = None,
        finish: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        """`core` is the judge's, to which the threads of a long run move; without one they stay on this thread's core."""
        self.link, self.bodies, self.ranks, self.finish = link, bodies, ranks, finish
        self.debug, self.capture = debug, capture
        self.error: BaseException | None = None  # what the link to the kernel raised
        self.output = ""
        self.ledgers: dict[int, dict[str, Any]] = {}  # what each rank's account counted
        self.hazards: dict[int, list[Hazard]] = {}  # uses of each rank's tensors in flight
        self._locks = {rank: threading.Lock() for rank in bodies}
        self._inbox: dict[int, Reply] = {}
        self._chance = {rank: Chance(rank, seed) for rank in bodies}
        self._endpoints = {rank: self._endpoint(rank, late, remote) for rank in bodies}
        for end in self._endpoints.values():
            end.speed = speed
            end.account = Accounting() if account else None
        self._counted, self._core, self._asked = account, core, 0
        self._dead = False
        self._end: End | None = None
        self._over = threading.Lock()
        self._threads: dict[int, threading.Thread] = {}

    def _endpoint(self, rank: int, late: bool, remote: bool) -> Endpoint:
        if remote:
            return RemoteEndpoint(rank, self.ranks, self._ask, late, self._later)
        return Endpoint(rank, self.ranks, self._ask, late)

    # --- the loop, on whichever thread runs

    def _ask(self, request: Request) -> Reply:
        me = request.rank
        if self._dead:
            raise _Stop
        self._asked += 1
        if self._asked == PIN_AFTER and self._core is not None:
            pin(self._core, [thread.native_id or 0 for thread in self._threads.values()])
        turn = self._step(request)
        if self._dead:
            raise _Stop
        if not isinstance(turn, tuple):
            self._close(turn)
            raise _Stop
        rank, reply = turn
        if rank != me:
            self._chance[me].leave()
            self._inbox[rank] = reply
            self._locks[rank].release()
            self._locks[me].acquire()
            if self._dead:
                raise _Stop
            reply = self._inbox[me]
            self._chance[me].enter()
        return reply

    def _later(self, request: Request) -> None:
        """Send a request whose answer is known together with the rank's next one."""
        if self._dead:
            raise _Stop
        self.link.defer(request)

    def _step(self, request: Request | None) -> tuple[int, Reply] | End:
        """The kernel's answer. If the link itself fails, the run ends, and `run` raises that error."""
        try:
            if not torch._C._len_torch_dispatch_stack():
                return self.link.step(request)
            with torch._C._DisableTorchDispatch():  # the kernel's copies are not the rank's operations
                return self.link.step(request)
        except BaseException as error:
            if not self._dead and not isinstance(error, _Stop):
                self.error = error
                self._close(Fault(error))
            raise _Stop from error

    def _hand_over(self, turn: tuple[int, Reply] | End) -> None:
        if not isinstance(turn, tuple):
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
        """Run one rank from start to end."""
        end = self._endpoints[rank]
        try:
            self._locks[rank].acquire()
            if self._dead:
                return
            here.endpoint = end
            self._chance[rank].bind()
            self._chance[rank].enter()
            try:
                request = Request(rank, "done", data=self._body(rank, end))
            except _Stop:
                return
            except KeyboardInterrupt:
                if rank == self.debug:  # the caller's own thread
                    raise
                return
            except BaseException as error:
                request = Request(rank, "raised", data=self._told(rank, error))
            self._chance[rank].leave()
            request.work = end.spent()
            if not self._dead:
                self._hand_over(self._step(request))
        except _Stop:
            pass
        finally:
            end.leave()
            here.endpoint = None

    def _body(self, rank: int, end: Endpoint) -> Any:
        comm = Comm(range(self.ranks))
        start = self._inbox[rank].writes
        body = self.bodies[rank]
        account = end.account
        with account or nullcontext():
            if account is not None:
                account.adopt([getattr(body, "given", ()), start])
            try:
                result = body(comm, *start)
                end.watch.note_open()
                return self.finish(result)
            finally:
                end.watch.leave()
                self.hazards[rank] = end.watch.hazards
                if account is not None:
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
        if getattr(here, "endpoint", None) is not None:
            raise RuntimeError("simulate was called inside a rank; call it outside, in a cell.")
        for lock in (*self._locks.values(), self._over):
            lock.acquire()
        threads = torch.get_num_threads()
        core = this_core() if self._core is None else None  # threads stay where this one is, from their start
        with own_generators(), young_garbage(), on_core(core), self._prints():
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
        assert self._end is not None  # a run is over once it has ended
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
        self._hand_over(self.link.step(None))

    def _thread(self, rank: int) -> None:
        torch.set_num_threads(1)
        self._rank(rank)

    def _wait(self, timeout: float | None) -> None:
        if self.debug is not None and not self._dead:
            self._rank(self.debug)
        if not self._over.acquire(timeout=-1 if timeout is None else timeout):
            self._dead = True
            self._end = Fault(
                Unfinished(
                    f"The run took longer than {timeout:g} s and was ended. Does a loop never end, or grow too fast?"
                )
            )

    def _stop(self) -> list[int]:
        """End every thread; return the ranks that could not be ended."""
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
        proxy = RankPrints(real, self.capture)
        sys.stdout = proxy
        try:
            yield
        finally:
            proxy.close_lines()
            if sys.stdout is proxy:
                sys.stdout = real
            self.output = proxy.captured()


def _release(lock: Any) -> None:
    with suppress(RuntimeError):
        lock.release()
