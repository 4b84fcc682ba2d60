"""`ThreadHost` runs the ranks as threads of this process, one at a time.

The host runs the loop: it passes a rank's request to the kernel, and the rank that the kernel names runs next. Every
rank has its own copy of the function and its arguments. However the run ends, no thread remains.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Protocol

import torch

from course_lib.cluster.endpoint import Endpoint, here
from course_lib.cluster.errors import Unfinished
from course_lib.cluster.point_to_point import PointToPoint
from course_lib.cluster.protocol import End, Reply, Request

PATIENCE = 5.0  # s to wait for a thread to end


class Link(Protocol):
    """What takes requests: the kernel, or what leads to it."""

    def step(self, request: Request | None) -> tuple[int, Reply] | End:
        """Submit a rank's request, if there is one; the rank that runs next and its reply, or how the run ended."""


def move(into: torch.Tensor, data: torch.Tensor) -> None:
    """Copy between two ranks' tensors; a communicator passes tensors without autograd."""
    into.copy_(data if data.shape == into.shape else data.reshape(into.shape))


class _Stop(BaseException):
    """Ends a rank's thread; not an Exception, so that `except Exception` does not catch it."""


class ThreadHost:
    """Runs `bodies[rank](comm)` for every rank; `run()` returns how it ended. `link` is the kernel, or leads to it."""

    communicator: type[PointToPoint] = PointToPoint

    def __init__(
        self,
        link: Link,
        bodies: Mapping[int, Callable[..., object]],
        ranks: int,
        speed: float = 1e12,
        debug: int | None = None,
    ) -> None:
        """`speed` is in FLOP/s. The rank `debug` runs in the caller's thread, where `breakpoint()` works."""
        self.link, self.bodies, self.ranks, self.speed, self.debug = link, bodies, ranks, speed, debug
        self.step = link.step
        self.error: BaseException | None = None  # what the link to the kernel raised
        self.endpoints = {rank: self.endpoint(rank) for rank in bodies}
        self.threads: dict[int, threading.Thread] = {}
        self._locks = {rank: threading.Lock() for rank in bodies}
        self._inbox: dict[int, Reply] = {}
        self._dead = False
        self._end: End | None = None
        self._over = threading.Lock()

    def endpoint(self, rank: int) -> Endpoint:
        """A new endpoint for the rank."""
        return Endpoint(rank, self.ask, self.speed)

    def around(self) -> AbstractContextManager[None]:
        """What a run happens in."""
        return nullcontext()

    # --- the loop, on whichever thread runs

    def ask(self, request: Request) -> Reply:
        """Submit a rank's request from its thread; return its reply when it is this rank's turn again."""
        me = request.rank
        self.check_alive()
        turn = self._step(request)
        self.check_alive()
        if isinstance(turn, tuple) and turn[0] == me:
            return turn[1]
        self.endpoints[me].paused()
        self._hand_over(turn)
        self.check_alive()
        self._locks[me].acquire()
        self.check_alive()
        self.endpoints[me].resumed()
        return self._inbox[me]

    def check_alive(self) -> None:
        """End this rank's thread if the run is over."""
        if self._dead:
            raise _Stop

    def _step(self, request: Request | None) -> tuple[int, Reply] | End:
        """The kernel's answer. If the link itself fails, the run ends, and `run` raises that error."""
        try:
            return self.step(request)
        except BaseException as error:
            if not self._dead and not isinstance(error, _Stop):
                self.error = error
                self._close(End(error))
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
        end = self.endpoints[rank]
        try:
            self._locks[rank].acquire()
            if self._dead:
                return
            here.endpoint = end
            end.resumed()
            try:
                comm = self.communicator(range(self.ranks))
                request = Request(rank, "done", data=end.run(self.bodies[rank], comm, *self._inbox[rank].writes))
            except _Stop:
                return
            except KeyboardInterrupt:
                if rank == self.debug:  # the caller's own thread
                    raise
                return
            except BaseException as error:
                from course_lib.cluster.rank_error import rank_error

                request = Request(rank, "raised", data=rank_error(rank, error))
            end.paused()
            request.work = end.spent()
            if not self._dead:
                self._hand_over(self._step(request))
        except _Stop:
            pass
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # such as that of an error which cannot be described: nobody would run next
            if not self._dead:
                self.error = error
                self._close(End(error))
        finally:
            end.leave()
            here.endpoint = None

    # --- starting and ending

    def run(self, timeout: float | None = None) -> End:
        """Run every rank to its end."""
        if getattr(here, "endpoint", None) is not None:
            raise RuntimeError("simulate was called inside a rank; call it outside, in a cell.")
        for lock in (*self._locks.values(), self._over):
            lock.acquire()
        threads = torch.get_num_threads()
        with self.around():
            try:
                self._start()
                self._wait(timeout)
            finally:
                self._dead = True
                left = self._stop()
                torch.set_num_threads(threads)
        if self.error is not None:
            raise self.error
        if left:
            raise RuntimeError(f"ranks {left} did not stop within {PATIENCE:g} s: they are in a library's long call.")
        assert self._end is not None  # a run is over once it has ended
        return self._end

    def _start(self) -> None:
        small = len(self.bodies) > 64
        before = threading.stack_size(2**20 if small else 0)
        try:
            for rank in self.bodies:
                if rank != self.debug:
                    thread = threading.Thread(target=self._thread, args=(rank,), daemon=True, name=f"rank {rank}")
                    self.threads[rank] = thread
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
            why = f"The run took longer than {timeout:g} s and was ended. Does a loop never end, or grow too fast?"
            self._end = End(Unfinished(why))

    def _stop(self) -> list[int]:
        """End every thread; return the ranks that could not be ended."""
        for rank, thread in self.threads.items():
            _release(self._locks[rank])
            if thread.ident is not None:
                thread.join(0.02)
        alive = {rank: thread for rank, thread in self.threads.items() if thread.is_alive()}
        if not alive:
            return []
        from course_lib.async_errors import end_threads  # they compute, and do not ask whether the run is over

        return end_threads(alive, lambda rank: _release(self._locks[rank]), _Stop, PATIENCE)


def _release(lock: threading.Lock) -> None:
    with suppress(RuntimeError):
        lock.release()
