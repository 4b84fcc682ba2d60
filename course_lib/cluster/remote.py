"""Ranks in another process, which nobody trusts: the judge holds the kernel, the worker runs the rank threads.

    worker   serve_ranks(sock, fn)                        runs fn(comm, *args) for each rank until the judge ends the run
    judge    judge_ranks(sock, ranks, args=…, per_rank=…) -> Run     as `attempt` gives it: results, meter, error, waits

`sock` is a connected stream socket (a socketpair across a fork). For a process per rank the judge gives a list of sockets,
one per rank, and each worker calls `serve_ranks(sock, fn)` likewise: the judge tells it which ranks are its own. A rank's
arguments come to it over the socket, when it starts and not before.

Frames are four bytes of length and a value (see `wire`), in strict turns: the judge names a rank and its reply, the worker
answers with that rank's next request, or with several where it knew the answers to all but the last. Anything else (a rank
out of turn, an unknown operation, a group or peer that is not its own, a tensor of a size that was not said, too many requests
or bytes, too much time) ends the run with `Refused` or `Unfinished`. Sizes are those of the tensors that came, never what the worker says of them; no byte count, clock or match
is the worker's. Memory, FLOPs and the seconds of computing that a rank charges itself are the worker's own claims.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.cluster import codec
from course_lib.cluster.errors import RankError, Refused, Unfinished
from course_lib.cluster.hosts import PIN_AFTER, ThreadHost, on_core, pin, this_core, young_garbage
from course_lib.cluster.isolate import Blueprint
from course_lib.cluster.kernel import Kernel
from course_lib.cluster.lines import line_text
from course_lib.cluster.protocol import Adversary, Fault, Finished, Reply, Request, Stuck
from course_lib.cluster.rules import Rules, need
from course_lib.cluster.simulation import Body, Run, check_ranks, own_arguments
from course_lib.cluster.topology import Topology
from course_lib.cluster.wire import Gone, Wire, hear, limit, send, tell, unlimit

_END = -1


@dataclass(frozen=True, slots=True)
class Caps:
    """How much a worker may ask for in one run."""

    requests: int = 200_000
    total_bytes: int = 2**30  # of all frames together
    frame_bytes: int = 256 * 2**20
    seconds: float = 30.0  # wall time of the whole run
    answer_seconds: float = 20.0  # wall time between two requests


# --- the worker's side


class _Door:
    """The kernel as the worker's host sees it: a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.ledgers: dict[int, dict[str, Any]] = {}
        self._lines: dict[Any, str] = {}
        self._deferred: dict[int, list[tuple[Any, ...]]] = {}

    def step(self, request: Request | None) -> tuple[int, Reply] | Fault | Finished:
        """Pass a request on; who runs next, or that the run is over."""
        if request is not None:
            frames = self._deferred.pop(request.rank, [])
            if request.op != "flush":
                frames.append(self._frame(request))
            send(self.sock, frames[0] if len(frames) == 1 else (request.rank, "several", (), (), tuple(frames)))
        rank, value, writes = hear(self.sock)
        return (rank, Reply(value, writes)) if rank != _END else Finished()

    def defer(self, request: Request) -> None:
        """Let a request travel with the rank's next: its answer is known."""
        self._deferred.setdefault(request.rank, []).append(self._frame(request))

    def _frame(self, request: Request) -> tuple[Any, ...]:
        op, more = request.op, request.more
        if op == "raised":
            error: RankError = request.data
            return (request.rank, op, request.work, (), (error.kind, str(error.args[0]), error.line, error.trace))
        if op == "done":
            return request.rank, op, request.work, (), (request.data, self.ledgers.get(request.rank))
        line = self._line(request.line)
        if op in ("wait", "test"):
            body: Any = (request.handle, line)
        elif op == "batch":
            body = tuple((half.op, *self._half(half)) for half in more)
        elif op == "collective":
            body = (
                more.name,
                more.reduce,
                more.root,
                more.inputs,
                more.takes,
                more.splits,
                more.ranks,
                more.async_op,
                request.group,
                line,
            )
        else:
            body = self._half(request)
        if not request.work and not request.reads:
            return request.rank, op, None, *body  # most requests: nothing computed, nothing renewed
        return request.rank, op, request.work, request.reads, body

    def _half(self, request: Request) -> tuple[Any, ...]:
        if request.data is not None:
            return request.peer, request.tag, request.group, self._line(request.line), request.data
        return (request.peer, request.tag, request.group, self._line(request.line), request.dtype, request.shape)

    def _line(self, line: Any) -> str:
        text = self._lines.get(line)
        if text is None:
            text = self._lines[line] = line_text(line)[:200]
        return text


def serve_ranks(sock: socket.socket, fn: Callable[..., Any]) -> str:
    """Run `fn(comm, *args)` on the ranks that the judge names, until it ends the run; what the ranks printed.

    A rank's result must be plain data; what is not becomes that rank's error, in words.
    """
    sock.settimeout(None)
    hello = hear(sock)
    mine: tuple[int, ...] = hello["mine"]
    try:
        alone = (
            len(mine) == 1 < hello["ranks"] and not hello["account"]
        )  # nobody here to share the function with, nor a later run
        bodies = {mine[0]: Body(fn)} if alone else _bodies(Blueprint(fn), mine)
    except ValueError as error:
        return _decline(sock, error)
    door = _Door(sock)
    host = ThreadHost(
        door,
        bodies,
        hello["ranks"],
        late=hello["late"],
        away=True,
        seed=hello["seed"],
        capture=hello["capture"],
        speed=hello["speed"],
        finish=_plain_result,
        account=hello["account"],
        core=hello["core"],
        debug=mine[0] if alone else None,
    )
    door.ledgers = host.ledgers
    with contextlib.suppress(Gone), on_core(hello["core"] if alone else None):
        host.run()
    return host.output


def _decline(sock: socket.socket, error: ValueError) -> str:
    """Tell the judge, at the first turn, that the function cannot run."""
    with contextlib.suppress(Gone):
        rank = hear(sock)[0]
        if rank != _END:
            send(sock, (rank, "raised", (), (), ("ValueError", str(error), "", "")))
            hear(sock)
    return ""


def _bodies(copies: Blueprint, ranks: Sequence[int]) -> dict[int, Callable[..., Any]]:
    return {rank: _body(copies) for rank in ranks}


def _body(copies: Blueprint) -> Body:
    memory: dict[int, Any] = {}
    return Body(copies.copy(memory), (), list(memory.values()))


def _plain_result(value: Any) -> Any:
    value = codec.plain(value)
    codec.encode(value)
    return value


# --- the judge's side


def judge_ranks(
    sock: socket.socket | Sequence[socket.socket],
    ranks: int,
    args: Sequence[Any] = (),
    per_rank: Sequence[Any] | None = None,
    topology: Topology | None = None,
    adversary: Adversary | None = None,
    *,
    seed: int = 0,
    caps: Caps = Caps(),  # noqa: B008 - frozen
    capture: int = 4000,
    account: bool = False,
) -> Run:
    """Run the worker's function on `ranks` ranks against a kernel of our own; never raises what a rank did."""
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
                "late": kernel.adversary.late,
                "seed": seed,
                "capture": capture,
                "speed": kernel.topology.flops,
                "account": account,
                "core": judge.core,
            }
        )
    return Run(kernel, error, "", time.perf_counter() - start, judge.reads.ledgers)


class _Judge:
    def __init__(
        self, kernel: Kernel, socks: list[socket.socket], caps: Caps, arguments: list[tuple[Any, ...]]
    ) -> None:
        self.kernel, self.socks, self.caps, self.arguments = kernel, socks, caps, arguments
        self.wires = {id(sock): Wire(sock) for sock in socks}
        self.queues: list[deque[Any]] = [deque() for _ in socks]  # requests that came with an earlier one
        self.held: list[list[tuple[int, Any]]] = [[] for _ in socks]  # what came for a rank that has not asked yet
        self.requests = self.bytes = 0
        self.core = this_core()  # where judge and worker meet, if ranks are processes or the run is long
        self.cores: set[int] | None = None  # those that this thread might use before it was kept on one
        self.exchanges = 0
        self.deadline = time.monotonic() + caps.seconds
        self.reads = Rules(kernel)

    def run(self, hello: dict[str, Any]) -> BaseException | None:
        """Play the run to its end; its error, or None."""
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
                    f"The run took too long: {self.caps.seconds:g} s in all and {self.caps.answer_seconds:g} s between two calls "
                    "are allowed. Look for a loop that does not end."
                )
            except Gone:
                error = Unfinished("The process of the ranks ended before the run did.")
                error.state = "crashed"
            except (Refused, codec.BadFrame) as refusal:
                unread = Refused(f"What came cannot be read: {refusal}")
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
            if isinstance(turn, (Stuck, Fault, Finished)):
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

    def _ask(self, rank: int, reply: tuple[Any, ...]) -> Any:
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
        """Keep this thread on the core on which the ranks are told to be."""
        if self.cores is None and hasattr(os, "sched_getaffinity"):
            self.cores = os.sched_getaffinity(0)
            pin(self.core, [0])

    def _farewell(self) -> None:
        for one in dict.fromkeys(self.socks):
            try:
                limit(one, 1.0)
                tell(one, (_END, None, ()))
            except (Gone, TimeoutError):
                pass
            finally:
                unlimit(one)
