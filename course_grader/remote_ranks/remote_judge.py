"""The judge's side of a run across a process boundary: it holds the kernel and trusts nothing that the worker sends.

    worker   serve_ranks(sock, fn)                                   runs fn(comm, *args) on each of its ranks
    judge    judge_ranks(sock, ranks, args=…, per_rank=…) -> Run     the Run that `attempt` would give

`sock` is a connected stream socket (a socketpair across a fork). For one process per rank, the judge passes a list of
sockets, one per rank, and tells each worker which ranks it has. A rank receives its arguments over the socket when it
starts, not before.

A frame is four bytes of length and a value (see `wire`). The two sides take strict turns: the judge names a rank and
its reply, and the worker answers with that rank's next request, or with several if it knew the replies to all but the
last. Anything else ends the run with `Refused` or `Unfinished`: a rank out of turn, an unknown operation, a group or
peer that is not the rank's own, a tensor of another size than announced, or too many requests, bytes or seconds. Sizes
are measured on the tensors that arrive. No byte count, clock or match comes from the worker; memory, FLOPs and the
seconds of compute that a rank charges itself are the worker's own claims.
"""

import os
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from course_grader.remote_ranks import codec
from course_grader.remote_ranks.remote_worker import END
from course_grader.remote_ranks.request_validation import RequestReader, need
from course_grader.remote_ranks.wire import Gone, Wire, limit, tell, unlimit
from course_lib.cluster.errors import Refused, Unfinished, Unreadable
from course_lib.cluster.kernel import Kernel, Machine
from course_lib.cluster.process_tuning import PIN_AFTER, pin, this_core, young_garbage
from course_lib.cluster.program import check_ranks, own_arguments
from course_lib.cluster.protocol import End
from course_lib.cluster.run import Run
from course_lib.cluster.topology import Topology


@dataclass(frozen=True, slots=True)
class Caps:
    """How much a worker may ask for in one run."""

    requests: int = 200_000
    total_bytes: int = 2**30  # of all frames together
    frame_bytes: int = 256 * 2**20
    seconds: float = 30.0  # wall time of the whole run
    answer_seconds: float = 20.0  # wall time between two requests


def judge_ranks(
    sock: socket.socket | Sequence[socket.socket],
    ranks: int,
    args: Sequence[object] = (),
    per_rank: Sequence[object] | None = None,
    topology: Topology | None = None,
    adversary: Machine | None = None,
    *,
    seed: int = 0,
    caps: Caps = Caps(),  # noqa: B008 - frozen
    capture: int = 4000,
    account: bool = False,
) -> Run:
    """Run the worker's function on `ranks` ranks with the judge's kernel; never raises the errors of ranks."""
    check_ranks(ranks)
    socks = [sock] * ranks if isinstance(sock, socket.socket) else list(sock)
    if len(socks) != ranks:
        raise ValueError(f"There are {len(socks)} sockets for {ranks} ranks; give one for all, or one for each.")
    kernel = Kernel(ranks, topology, adversary)
    judge = _Judge(kernel, socks, caps, [(*args, *own) for own in own_arguments(per_rank, ranks)])
    start = time.perf_counter()
    with young_garbage():
        error = judge.run(
            {
                "late": kernel.machine.late,
                "seed": seed,
                "capture": capture,
                "speed": kernel.topology.flops,
                "account": account,
                "core": judge.core,
            }
        )
    return Run(kernel, error, "", time.perf_counter() - start, judge.reads.ledgers, judge.reads.hazards)


class _Judge:
    def __init__(
        self, kernel: Kernel, socks: list[socket.socket], caps: Caps, arguments: list[tuple[object, ...]]
    ) -> None:
        self.kernel, self.socks, self.caps, self.arguments = kernel, socks, caps, arguments
        self.wires = {id(sock): Wire(sock) for sock in socks}
        self.queues: list[deque[object]] = [deque() for _ in socks]  # requests that came with an earlier one
        self.held: list[list[tuple[int, object]]] = [[] for _ in socks]  # what came for a rank that has not asked yet
        self.requests = self.bytes = 0
        self.core = this_core()  # where judge and worker meet, if ranks are processes or the run is long
        self.cores: set[int] | None = None  # those that this thread might use before it was kept on one
        self.exchanges = 0
        self.deadline = time.monotonic() + caps.seconds
        self.reads = RequestReader(kernel)

    def run(self, hello: dict[str, object]) -> BaseException | None:
        """Run to the end; return the error, or None."""
        ranks = self.kernel.ranks
        try:
            try:
                if len(self.wires) > 1:
                    self._stay()
                for one in dict.fromkeys(self.socks):
                    limit(one, min(self.caps.answer_seconds, self.caps.seconds))
                    mine = tuple(rank for rank in range(ranks) if self.socks[rank] is one)
                    tell(one, {**hello, "ranks": ranks, "mine": mine}, self.deadline)
                error = self._turns()
            except TimeoutError:
                error = Unfinished(
                    f"The run took too long: {self.caps.seconds:g} s in all and {self.caps.answer_seconds:g} s "
                    "between two calls are allowed. Does a loop never end, or grow too fast?"
                )
            except Gone:
                error = Unfinished("The process of the ranks ended before the run did.")
                error.state = "crashed"
            except (Refused, codec.BadFrame) as refusal:
                unread = Unreadable(f"What came cannot be read: {refusal}")
                error = refusal if isinstance(refusal, Refused) else unread
            except Exception as fault:  # what an honest communicator never sends may upset the kernel; it gains nothing
                error = Refused(f"What came makes no sense: {type(fault).__name__}: {fault}")
        finally:
            self._farewell()
            if self.cores is not None:
                os.sched_setaffinity(0, self.cores)
        return error

    def _turns(self) -> BaseException | None:
        while True:
            turn = self.kernel.next()
            if isinstance(turn, End):
                return turn.error
            rank, reply = turn
            if self.queues[rank]:
                self.held[rank] += reply.writes  # what it received before it asked
                frame = self.queues[rank].popleft()
            else:
                writes = self.arguments[rank] if reply.value == "start" else (*self.held[rank], *reply.writes)
                self.held[rank].clear()
                frame = self._ask(rank, (rank, reply.value, writes))
            request = self.reads.request(frame, rank)
            self.requests += len(request.more) if request.op == "batch" else 1
            if self.requests > self.caps.requests:
                raise Unfinished(f"The ranks made more than {self.caps.requests} calls; that is more than a run may.")
            self.kernel.submit(request)

    def _ask(self, rank: int, reply: tuple[object, ...]) -> object:
        sock = self.socks[rank]
        self.exchanges += 1
        if self.exchanges == PIN_AFTER:
            self._stay()
        tell(sock, reply, self.deadline)
        left = self.caps.total_bytes - self.bytes
        frame, size = self.wires[id(sock)].receive(min(self.caps.frame_bytes, left), self.deadline)
        self.bytes += size
        if type(frame) is tuple and len(frame) == 5 and frame[1] == "several":
            need(type(frame[4]) is tuple and len(frame[4]) > 1, "several requests are at least two")
            frame, *later = frame[4]
            self.queues[rank].extend(later)
        return frame

    def _stay(self) -> None:
        """Keep this thread on the core that the ranks are told to use."""
        if self.cores is None and hasattr(os, "sched_getaffinity"):
            self.cores = os.sched_getaffinity(0)
            pin(self.core, [0])

    def _farewell(self) -> None:
        for one in dict.fromkeys(self.socks):
            try:
                limit(one, 1.0)
                tell(one, (END, None, ()))
            except (Gone, TimeoutError):
                pass
            finally:
                unlimit(one)
