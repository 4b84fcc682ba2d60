"""Ranks in another process, which nobody trusts: the judge holds the kernel, the worker runs the rank threads.

    worker   serve_ranks(sock, fn)                        runs fn(comm, *args) for each rank until the judge ends the run
    judge    judge_ranks(sock, ranks, args=…, per_rank=…) -> Run     as `attempt` gives it: results, meter, error, waits

`sock` is a connected stream socket (a socketpair across a fork). For a process per rank the judge gives a list of sockets,
one per rank, and each worker calls `serve_ranks(sock, fn)` likewise: the judge tells it which ranks are its own. A rank's
arguments come to it over the socket, when it starts and not before.

Frames are four bytes of length and a value in `codec`, in strict turns: the judge names a rank and its reply, the worker
answers with that rank's next request, or with several where it knew the answers to all but the last (those of sends). Anything else (a rank out of turn, an unknown operation, a group or peer that is not
its own, a tensor of a size that was not said, too many requests or bytes, too much time) ends the run with `Refused` or
`Unfinished`. Sizes are those of the tensors that came, never what the worker says of them; no byte count, clock or match
is the worker's. Memory, FLOPs and the seconds of computing that a rank charges itself are the worker's own claims.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import struct
import time
import unicodedata
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.accounting import ROLES
from course_lib.cluster import codec
from course_lib.cluster.collective import OPS, Call
from course_lib.cluster.errors import RankError, Refused, Unfinished
from course_lib.cluster.hosts import ThreadHost, one_core
from course_lib.cluster.isolate import Blueprint
from course_lib.cluster.kernel import ANY, Adversary, Fault, Finished, Kernel, Reply, Request, Stuck
from course_lib.cluster.lines import line_text
from course_lib.cluster.simulation import Body, Run, check_ranks, own_arguments
from course_lib.cluster.topology import Topology

_LENGTH = struct.Struct("<I")
_POINT = {"send", "recv", "isend", "irecv"}
_COLLECTIVES = {
    "barrier",
    "new_group",
    "broadcast",
    "reduce",
    "all_reduce",
    "gather",
    "scatter",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter_tensor",
    "all_to_all_single",
}
_LEDGER = {"peak_bytes", "live_bytes", "peak_roles", "roles", "flops"}
_END = -1
_ROOM = 64 * 2**10  # bytes that a first read takes


@dataclass(frozen=True, slots=True)
class Caps:
    """How much a worker may ask for in one run."""

    requests: int = 200_000
    total_bytes: int = 2**30  # of all frames together
    frame_bytes: int = 256 * 2**20
    seconds: float = 30.0  # wall time of the whole run
    answer_seconds: float = 20.0  # wall time between two requests


class Gone(Exception):
    """The other end closed the socket."""


# --- frames


def _send(sock: socket.socket, value: Any) -> None:
    data = codec.encode(value)
    try:
        sock.sendall(_LENGTH.pack(len(data)) + data)
    except (BlockingIOError, TimeoutError):
        raise TimeoutError from None
    except OSError as error:
        raise Gone(str(error)) from None


def _exactly(sock: socket.socket, count: int, deadline: float | None) -> bytearray:
    data = bytearray(count)
    view, got = memoryview(data), 0
    while got < count:
        got += _some(sock, view[got:], deadline)
    return data


def _some(sock: socket.socket, view: memoryview, deadline: float | None) -> int:
    if deadline is not None and time.monotonic() > deadline:
        raise TimeoutError
    try:
        read = sock.recv_into(view)
    except (BlockingIOError, TimeoutError):
        raise TimeoutError from None
    except OSError as error:
        raise Gone(str(error)) from None
    if not read:
        raise Gone("closed")
    return read


def _receive(sock: socket.socket, most: int) -> Any:
    """The next frame's value. Reads no byte beyond it: the socket may serve others afterwards."""
    size = _LENGTH.unpack(_exactly(sock, 4, None))[0]
    return codec.decode(_exactly(sock, size, None), codec.Limits(nbytes=most, items=10**8))


def _limit(sock: socket.socket, seconds: float) -> None:
    """Let each wait on the socket take so long at most. The system's own limit costs no extra call on every read."""
    if os.name == "posix":
        sock.settimeout(None)
        value = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6) or int(seconds < 1))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            sock.setsockopt(socket.SOL_SOCKET, option, value)
    else:
        sock.settimeout(seconds)


def _unlimit(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.settimeout(None)
        if os.name == "posix":
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", 0, 0))


class _Wire:
    """The judge's end of a socket: whole frames, in turns, within limits."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._room = memoryview(bytearray(_ROOM))

    def receive(self, most: int, deadline: float) -> tuple[Any, int]:
        """A frame's value, and its size in bytes. Nothing is allocated for a length above `most`."""
        got = _some(self.sock, self._room, deadline)
        while got < 4:
            got += _some(self.sock, self._room[got:], deadline)
        size = _LENGTH.unpack(self._room[:4])[0]
        if size > most:
            raise codec.BadFrame(f"a frame of {size} bytes; {most} are left to it")
        if got > size + 4:
            raise codec.BadFrame("more than one frame came where one was asked for")
        data = bytearray(size)
        view = memoryview(data)
        view[: got - 4] = self._room[4:got]
        got -= 4
        while got < size:
            got += _some(self.sock, view[got:], deadline)
        return codec.decode(data, codec.Limits(nbytes=most)), size


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
            frame = self._frame(request)
            before = self._deferred.pop(request.rank, None)
            _send(self.sock, (request.rank, "several", (), (), (*before, frame)) if before else frame)
        rank, value, writes = _receive(self.sock, 2**31)
        return (rank, Reply(value, writes)) if rank != _END else Finished()

    def defer(self, request: Request) -> None:
        """Let a request travel with the rank's next: its answer is known."""
        self._deferred.setdefault(request.rank, []).append(self._frame(request))

    def _frame(self, request: Request) -> tuple[Any, ...]:
        op, more = request.op, request.more
        if op == "raised":
            error: RankError = request.data
            return (
                request.rank,
                op,
                request.work,
                (),
                (error.kind, str(error.args[0]), error.line, error.trace),
            )
        if op == "done":
            return request.rank, op, request.work, (), (request.data, self.ledgers.get(request.rank))
        line = self._line(request.line)
        if op in ("wait", "test"):
            body: Any = (request.handle, line)
        elif op == "batch":
            body = tuple((half.op, *self._half(half)) for half in more)
        elif op == "collective":
            body = (
                more.name, more.reduce, more.root, more.inputs, more.takes, more.splits, more.ranks, more.async_op,
                request.group, line,
            )  # fmt: skip
        else:
            body = self._half(request)
        if not request.work and not request.reads:
            return request.rank, op, None, *body  # most requests: nothing computed, nothing renewed
        return request.rank, op, request.work, request.reads, body

    def _half(self, request: Request) -> tuple[Any, ...]:
        if request.data is not None:
            return request.peer, request.tag, request.group, self._line(request.line), request.data
        return (
            request.peer,
            request.tag,
            request.group,
            self._line(request.line),
            request.dtype,
            request.shape,
        )

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
    hello = _receive(sock, 2**20)
    mine: tuple[int, ...] = hello["mine"]
    try:
        copies = Blueprint(fn)
    except ValueError as error:
        return _decline(sock, error)
    door = _Door(sock)
    host = ThreadHost(
        door,
        {rank: _body(copies) for rank in mine},
        hello["ranks"],
        late=hello["late"],
        away=True,
        seed=hello["seed"],
        capture=hello["capture"],
        speed=hello["speed"],
        finish=_plain_result,
        account=hello["account"],
        core=hello["core"],
    )
    door.ledgers = host.ledgers
    with contextlib.suppress(Gone):
        host.run()
    return host.output


def _decline(sock: socket.socket, error: ValueError) -> str:
    """Tell the judge, at the first turn, that the function cannot run."""
    with contextlib.suppress(Gone):
        rank = _receive(sock, 2**31)[0]
        if rank != _END:
            _send(sock, (rank, "raised", (), (), ("ValueError", str(error), "", "")))
            _receive(sock, 2**31)
    return ""


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
        raise ValueError(
            f"There are {len(socks)} sockets for {ranks} ranks; give one for all, or one for each."
        )
    kernel = Kernel(ranks, topology, adversary)
    judge = _Judge(kernel, socks, caps, [(*args, *own) for own in own_arguments(per_rank, ranks)])
    start = time.perf_counter()
    with one_core() as core:
        error = judge.run(
            {
                "late": kernel.adversary.late,
                "seed": seed,
                "capture": capture,
                "speed": kernel.topology.flops,
                "account": account,
                "core": core,
            }
        )
    return Run(kernel, error, "", time.perf_counter() - start, judge.reads.ledgers)


class _Judge:
    def __init__(
        self, kernel: Kernel, socks: list[socket.socket], caps: Caps, arguments: list[tuple[Any, ...]]
    ) -> None:
        self.kernel, self.socks, self.caps, self.arguments = kernel, socks, caps, arguments
        self.wires = {id(sock): _Wire(sock) for sock in socks}
        self.queues: list[deque[Any]] = [deque() for _ in socks]  # requests that came with an earlier one
        self.requests = self.bytes = 0
        self.deadline = time.monotonic() + caps.seconds
        self.reads = _Frames(kernel)

    def run(self, hello: dict[str, Any]) -> BaseException | None:
        """Play the run to its end; its error, or None."""
        ranks = self.kernel.ranks
        try:
            try:
                for one in dict.fromkeys(self.socks):
                    _limit(one, min(self.caps.answer_seconds, self.caps.seconds))
                    mine = tuple(rank for rank in range(ranks) if self.socks[rank] is one)
                    _send(one, {**hello, "ranks": ranks, "mine": mine})
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
                error = (
                    refusal
                    if isinstance(refusal, Refused)
                    else Refused(f"What came cannot be read: {refusal}")
                )
            except (
                Exception
            ) as fault:  # what an honest communicator never sends can upset the kernel; it gains nothing
                error = Refused(f"What came makes no sense: {type(fault).__name__}: {fault}")
        finally:
            self._farewell()
        return error

    def _turns(self) -> BaseException | None:
        while True:
            turn = self.kernel.next()
            if isinstance(turn, (Stuck, Fault, Finished)):
                return turn.error
            rank, reply = turn
            if self.queues[rank]:
                _need(not reply.writes, "a rank went on before it heard what it received")
                frame = self.queues[rank].popleft()
            else:
                writes = self.arguments[rank] if reply.value == "start" else reply.writes
                frame = self._ask(rank, (rank, reply.value, writes))
            self.requests += 1
            if self.requests > self.caps.requests:
                raise Unfinished(
                    f"The ranks made more than {self.caps.requests} calls; that is more than a run may."
                )
            self.kernel.submit(self.reads.request(frame, rank))

    def _ask(self, rank: int, reply: tuple[Any, ...]) -> Any:
        sock = self.socks[rank]
        _send(sock, reply)
        left = self.caps.total_bytes - self.bytes
        frame, size = self.wires[id(sock)].receive(min(self.caps.frame_bytes, left), self.deadline)
        self.bytes += size
        if type(frame) is tuple and len(frame) == 5 and frame[1] == "several":
            _need(type(frame[4]) is tuple and len(frame[4]) > 1, "several requests are at least two")
            frame, *later = frame[4]
            self.queues[rank].extend(later)
        return frame

    def _farewell(self) -> None:
        for one in dict.fromkeys(self.socks):
            try:
                _limit(one, 1.0)
                _send(one, (_END, None, ()))
            except (Gone, TimeoutError):
                pass
            finally:
                _unlimit(one)


def clean(text: str, most: int) -> str:
    """Text without control codes and the like, at most so long: it goes to terminals and pages."""
    kept = "".join(
        c
        if c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Co", "Cs", "Cn")
        else "\N{REPLACEMENT CHARACTER}"
        for c in text[:most]
    )
    return kept + (" …" if len(text) > most else "")


def _need(ok: bool, what: str) -> None:
    if not ok:
        raise Refused(f"The worker broke the rules: {what}.")


class _Frames:
    """Reads requests, taking nothing on trust."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.ledgers: dict[int, dict[str, Any]] = {}  # the worker's own claims
        self._lines: dict[str, str] = {}

    def request(self, frame: Any, rank: int) -> Request:
        """The request in a frame that rank `rank` was asked for."""
        _need(type(frame) is tuple and len(frame) > 3, "a frame has its parts")
        if frame[2] is None:
            who, op, work, reads, body = *frame[:2], (), (), frame[3:]
        else:
            _need(len(frame) == 5, "a frame has five parts")
            who, op, work, reads, body = frame
        _need(type(who) is int and who == rank, "a rank spoke out of turn")
        _need(type(op) is str, "an operation is a word")
        work = self._work(work) if work != () else ()
        if op == "done":
            _need(type(body) is tuple and len(body) == 2, "a result comes with its ledger")
            if body[1] is not None:
                self.ledgers[rank] = self._ledger(body[1])
            return Request(rank, op, data=body[0], work=work)
        if op == "raised":
            return Request(rank, op, data=self._raised(rank, body), work=work)
        _need(type(body) is tuple, "a request is a tuple")
        if op in ("wait", "test"):
            _need(len(body) == 2 and type(body[0]) is int, "wait and test name a call")
            request = Request(rank, op, handle=body[0], line=self._line(body[1]))
        elif op in _POINT:
            request = self._half(rank, op, body)
        elif op == "batch":
            _need(0 < len(body) <= 10_000, "a batch has parts")
            parts = [self._part(rank, part) for part in body]
            request = Request(rank, op, line=parts[0].line, more=parts)
        else:
            _need(op == "collective" and len(body) == 10, f"there is no operation {op!r:.40}")
            request = self._collective(rank, body)
        request.work, request.reads = work, self._renewals(rank, reads) if reads != () else ()
        return request

    def _work(self, work: Any) -> tuple[tuple[str, str, float], ...]:
        _need(type(work) is tuple and len(work) <= 10_000, "work is a tuple")
        for item in work:
            _need(
                type(item) is tuple and len(item) == 3 and type(item[2]) is float,
                "work is kind, label and seconds",
            )
            _need(
                type(item[0]) is str and type(item[1]) is str and 0 <= item[2] < 1e12,
                "work has a kind and a length",
            )
        return tuple((clean(kind, 40), clean(label, 80), seconds) for kind, label, seconds in work)

    def _raised(self, rank: int, body: Any) -> RankError:
        _need(
            type(body) is tuple and len(body) == 4 and all(type(text) is str for text in body),
            "an error is four texts",
        )
        kind, text, line, trace = body
        error = RankError(rank, clean(kind, 80), "", clean(line, 300), clean(trace, 8000))
        error.args = (clean(text, 2000),)
        return error

    def _ledger(self, ledger: Any) -> dict[str, Any]:
        _need(type(ledger) is dict and set(ledger) == _LEDGER, "a ledger has its entries")
        for value in ledger.values():
            entries = list(value.values()) if type(value) is dict else [value]
            _need(all(type(n) is int and 0 <= n < 2**62 for n in entries), "a ledger counts")
        for name in ("peak_roles", "roles"):
            _need(type(ledger[name]) is dict and set(ledger[name]) <= set(ROLES), "a ledger has roles")
        return ledger

    def _line(self, line: Any) -> str:
        _need(type(line) is str, "a line is text")
        text = self._lines.get(line)
        if text is None:
            text = clean(line, 200)
            if len(self._lines) < 1000:
                self._lines[line] = text
        return text

    def _group(self, rank: int, group: Any) -> tuple[int, ...]:
        _need(type(group) is int and 0 <= group < len(self.kernel.groups), "the group exists")
        _need(rank in self.kernel.groups[group], "a rank speaks in its own groups")
        return self.kernel.groups[group]

    def _part(self, rank: int, part: Any) -> Request:
        _need(
            type(part) is tuple and len(part) > 1 and part[0] in ("isend", "irecv"),
            "a batch is of isend and irecv",
        )
        return self._half(rank, part[0], part[1:])

    def _half(self, rank: int, op: str, body: tuple[Any, ...]) -> Request:
        sends = op in ("send", "isend")
        _need(len(body) == (5 if sends else 6), "a message has its parts")
        peer, tag, group, line = body[:4]
        members = self._group(rank, group)
        _need(
            type(peer) is int and peer != rank and (peer in members or (not sends and peer == ANY)),
            "the other rank is in the group",
        )
        _need(type(tag) is int and 0 <= tag < 2**31, "a tag is a small number")
        if sends:
            data = body[4]
            _need(type(data) is torch.Tensor, "what is sent is a tensor")
            dtype, shape, nbytes = str(data.dtype).removeprefix("torch."), tuple(data.shape), data.nbytes
        else:
            data, nbytes = None, 0
            dtype, shape = self._meta(body[4:])
        return Request(rank, op, peer, tag, data, None, dtype, shape, nbytes, group, self._line(line))

    def _meta(self, meta: Any) -> tuple[str, tuple[int, ...]]:
        _need(type(meta) is tuple and len(meta) == 2, "a buffer has a dtype and a shape")
        dtype, shape = meta
        _need(type(dtype) is str and dtype in codec.DTYPES, "the dtype is known")
        _need(
            type(shape) is tuple and len(shape) <= 32 and all(type(n) is int and n >= 0 for n in shape),
            "a shape is of sizes",
        )
        _need(math.prod(shape) < 2**40, "a shape has a sensible size")
        return dtype, shape

    def _renewals(self, rank: int, reads: Any) -> tuple[tuple[int, Any], ...]:
        _need(type(reads) is tuple, "renewals are a tuple")
        for item in reads:
            _need(type(item) is tuple and len(item) == 2 and type(item[0]) is int, "a renewal names a call")
            old = self.kernel.in_flight(rank, item[0])
            _need(type(item[1]) is torch.Tensor, "a renewal is a tensor")
            if old is not None:
                _need(
                    old.dtype == item[1].dtype and old.shape == item[1].shape, "a renewal is of the same size"
                )
        return reads

    def _collective(self, rank: int, body: tuple[Any, ...]) -> Request:
        name, reduce, root, inputs, takes, splits, ranks, async_op, group, line = body
        members = self._group(rank, group)
        _need(type(name) is str and name in _COLLECTIVES and type(async_op) is bool, "the collective exists")
        _need(
            type(reduce) is str and (not reduce or reduce in OPS) and type(root) is int,
            "op and root are a word and a rank",
        )
        _need(root == -1 or root in members, "the root is in the group")
        _need(
            type(inputs) is tuple and all(type(one) is torch.Tensor for one in inputs), "inputs are tensors"
        )
        _need(type(takes) is tuple and len(takes) <= len(members), "outputs are described")
        metas = tuple(self._meta(meta) for meta in takes)
        _need(type(splits) is tuple and len(splits) == 2, "splits are two")
        for half in splits:
            _need(type(half) is tuple and all(type(n) is int and n >= 0 for n in half), "splits are counts")
            _need(
                len(half) == (len(members) if name == "all_to_all_single" else 0),
                "there is a split for every rank",
            )
        _need(
            type(ranks) is tuple and all(type(r) is int and 0 <= r < self.kernel.ranks for r in ranks),
            "groups are of ranks",
        )
        _need(
            len(set(ranks)) == len(ranks) and (name != "new_group" or bool(ranks)),
            "a group names each rank once",
        )
        gives = tuple((str(one.dtype).removeprefix("torch."), tuple(one.shape)) for one in inputs)
        call = Call(name, reduce, root, inputs, (None,) * len(metas), gives, metas, splits, ranks, async_op)
        return Request(rank, "collective", group=group, line=self._line(line), more=call)
