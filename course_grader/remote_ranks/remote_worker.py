"""The worker's side of a run across a process boundary: it runs the rank threads and sends their requests to the
judge's kernel."""

import contextlib
import socket
from collections.abc import Callable, Sequence

import torch

from course_grader.remote_ranks.remote_endpoint import RemoteHost
from course_grader.remote_ranks.wire import Gone, hear, send
from course_lib.cluster.errors import RankError
from course_lib.cluster.isolate import Blueprint
from course_lib.cluster.process_tuning import on_core
from course_lib.cluster.program import Body
from course_lib.cluster.protocol import End, Reply, Request
from course_lib.cluster.source_lines import Line, line_text

END = -1  # the judge names this rank when the run is over


class SocketLink:
    """The worker's connection to the kernel: a socket to the judge."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.host: RemoteHost  # what each rank's endpoint counted and how it used tensors in flight
        self._lines: dict[Line, str] = {}
        self._deferred: dict[int, list[tuple[object, ...]]] = {}

    def step(self, request: Request | None) -> tuple[int, Reply] | End:
        """Pass a request to the judge; return the rank that runs next, or that the run has ended."""
        if request is not None:
            frames = self._deferred.pop(request.rank, [])
            if request.op != "flush":
                frames.append(self._frame(request))
            send(self.sock, frames[0] if len(frames) == 1 else (request.rank, "several", (), (), tuple(frames)))
        rank, value, writes = hear(self.sock)
        return (rank, Reply(value, writes)) if rank != END else End()

    def defer(self, request: Request) -> None:
        """Send a request whose reply is known together with the rank's next one."""
        self._deferred.setdefault(request.rank, []).append(self._frame(request))

    def _frame(self, request: Request) -> tuple[object, ...]:
        op, more = request.op, request.more
        if op == "raised":
            error: RankError = request.data
            return (request.rank, op, request.work, (), (error.kind, str(error.args[0]), error.line, error.trace))
        if op == "done":
            end = self.host.endpoints[request.rank]
            hazards = tuple(hazard.plain() for hazard in end.watch.hazards)
            return request.rank, op, request.work, (), (request.data, end.ledger, hazards)
        line = self._line(request.line)
        if op in ("wait", "test"):
            body: tuple[object, ...] = (request.handle, line)
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
            return request.rank, op, None, *body  # most requests: no computing and no renewals
        return request.rank, op, request.work, request.reads, body

    def _half(self, request: Request) -> tuple[object, ...]:
        if request.data is not None:
            return request.peer, request.tag, request.group, self._line(request.line), request.data
        return (request.peer, request.tag, request.group, self._line(request.line), request.dtype, request.shape)

    def _line(self, line: Line) -> str:
        text = self._lines.get(line)
        if text is None:
            text = self._lines[line] = line_text(line)[:200]
        return text


def serve_ranks(sock: socket.socket, fn: Callable[..., object]) -> str:
    """Run `fn(comm, *args)` on the ranks that the judge names, until it ends the run; return their output.

    A rank's result must be plain data. Any other result becomes that rank's error.
    """
    sock.settimeout(None)
    hello = hear(sock)
    mine: tuple[int, ...] = hello["mine"]
    try:
        # a rank that is alone in its process need not share the function, with another rank or a later run
        alone = len(mine) == 1 < hello["ranks"] and not hello["account"]
        bodies = {mine[0]: Body(fn)} if alone else _bodies(Blueprint(fn), mine)
    except ValueError as error:
        return _decline(sock, error)
    link = SocketLink(sock)
    host = link.host = RemoteHost(
        link,
        bodies,
        hello["ranks"],
        late=hello["late"],
        seed=hello["seed"],
        capture=hello["capture"],
        speed=hello["speed"],
        account=hello["account"],
        debug=mine[0] if alone else None,
    )
    host.meeting = hello["core"]
    with contextlib.suppress(Gone), on_core(hello["core"] if alone else None):
        host.run()
    return host.output


def _decline(sock: socket.socket, error: ValueError) -> str:
    """Report to the judge, at the first turn, that the function cannot run."""
    with contextlib.suppress(Gone):
        rank = hear(sock)[0]
        if rank != END:
            send(sock, (rank, "raised", (), (), ("ValueError", str(error), "", "")))
            hear(sock)
    return ""


def _bodies(copies: Blueprint[Callable[..., object]], ranks: Sequence[int]) -> dict[int, Callable[..., object]]:
    return {rank: _body(copies) for rank in ranks}


def _body(copies: Blueprint[Callable[..., object]]) -> Body:
    memory: dict[int, torch.UntypedStorage] = {}
    return Body(copies.copy(memory), (), list(memory.values()))
