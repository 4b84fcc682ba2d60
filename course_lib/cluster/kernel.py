"""The cluster's kernel: it takes the requests of ranks and gives replies.

The kernel is a pure state machine: it has no threads, no sockets and no code of the user. A host calls
`submit(request)` for the one rank that runs, then `next()`. That returns `(rank, Reply)`, the rank to run next and its
reply, or the `End` of the run, with its error if it failed.

This module handles each request. `message_exchange` matches and delivers messages, `traffic` carries them over links
and counts them, and `clock` orders events. Native collectives (`collective`) and polls (`polling`) are `EXTENSIONS`.
"""

from collections.abc import Callable
from importlib import import_module

from course_lib.cluster.message_exchange import Delivery, Exchange, Keep, Move, Operation, RunState
from course_lib.cluster.meter import Meter
from course_lib.cluster.protocol import YES, End, Reply, Request
from course_lib.cluster.source_lines import Line
from course_lib.cluster.topology import Topology
from course_lib.cluster.traffic import Traffic

EXTENSIONS = {  # by `Request.op`: classes of callables that handle a request; a run loads them at the first one
    "collective": "course_lib.cluster.collective:Rendezvous",
    "test": "course_lib.cluster.polling:Polling",
    "group": "course_lib.cluster.torch_group:GroupNumbers",
}


class Machine:
    """The network: here, a send waits for its receive, and bytes move then. An `Adversary` buffers, or moves them
    later."""

    late = False  # whether bytes move later than at the match
    seed: int | None = None  # with a seed, ranks run in random order instead of by clock

    def exchange(self, state: RunState, traffic: Traffic, move: Move | None, keep: Keep) -> Exchange:
        """What matches and delivers the messages of a run; `keep` copies what is buffered."""
        return Exchange(state, Delivery(state, move), traffic)


class Kernel:
    """One run. In one process `move(into, data)` copies a message and `keep(data)` copies data in flight."""

    def __init__(
        self,
        ranks: int,
        topology: Topology | None = None,
        machine: Machine | None = None,
        move: Move | None = None,
        keep: Keep = lambda data: data,
    ) -> None:
        self.ranks = ranks
        self.topology = topology or Topology()
        self.machine = machine or Machine()
        self.state = RunState(ranks, self.machine.seed)
        self.traffic = Traffic(ranks, self.topology)
        self._exchange = self.machine.exchange(self.state, self.traffic, move, keep)
        self.delivery = self._exchange.delivery
        self._extensions: dict[str, Callable[[float, Request], Reply | None]] = {}
        for rank in range(ranks):
            self.state.clock.push(0.0, rank, Reply("start"))

    def submit(self, request: Request) -> None:
        """Submit the request of the running rank."""
        state, rank = self.state, request.rank
        time = state.clock.times[rank]
        for kind, label, seconds in request.work:
            state.record(rank, time, time + seconds, kind, label)
            time += seconds
        for call, data in request.reads:
            op = state.operations[rank].get(call)
            if op is not None and not op.kept:
                op.data = data
        state.clock.push_request(time, rank, request)

    def step(self, request: Request | None) -> tuple[int, Reply] | End:
        """Submit the request of the running rank, if there is one; return the rank that runs next."""
        if request is not None:
            self.submit(request)
        return self.next()

    def next(self) -> tuple[int, Reply] | End:
        """Advance until a rank can run; return that rank and its reply, or how the run ended."""
        state, clock, delivery = self.state, self.state.clock, self.delivery
        while state.fault is None:
            event = clock.pop()
            if event is None:
                if not delivery.force_next():
                    break
                continue
            _, rank, time, item = event
            if type(item) is Request:
                clock.times[rank] = time
                item = self._handle(time, rank, item)
                if item is None or clock.postponed(time, rank, item):
                    continue
            elif type(item) is not Reply:  # an extension's
                item(time)
                continue
            clock.times[rank] = time
            if delivery.writes[rank]:
                item = Reply(item.value, tuple(delivery.writes[rank]))
                delivery.writes[rank].clear()
            return rank, item
        if state.fault is None and (not all(state.done) or any(self._exchange.posted.values())):
            from course_lib.cluster.diagnosis import unfinished

            return End(unfinished(state, self._exchange))
        return End(state.fault)

    def _handle(self, time: float, rank: int, request: Request) -> Reply | None:
        """Handle a request; return the reply if the rank can continue at once."""
        name, state = request.op, self.state
        state.requests[rank] += 1
        if name == "wait":
            op = state.operations[rank].get(request.handle)
            return YES if op is None else self.wait(time, op, request.line)  # None: the rank has already waited
        if name == "batch":
            self._exchange.post([state.begin(time, part) for part in request.more])
            return YES
        if name == "done":
            state.done[rank], state.results[rank] = True, request.data
            return None
        if name == "raised":
            state.fault = request.data
            return None
        if name in EXTENSIONS:
            if name not in self._extensions:
                module, _, kind = EXTENSIONS[name].partition(":")
                self._extensions[name] = getattr(import_module(module), kind)(self)
            return self._extensions[name](time, request)
        op = state.begin(time, request)
        self._exchange.post((op,))
        if name == "isend" or name == "irecv":
            return YES
        op.blocking = True
        return self.wait(time, op, request.line)

    def wait(self, time: float, op: Operation, line: Line) -> Reply | None:
        """The rank waits for its operation from `time` on."""
        op.since, op.at = time, line
        if not op.done:
            self.delivery.before_wait(op)
        if not op.done:
            self.state.block(op)
            self.delivery.blocked(op)
            return None
        if op.finish <= time:
            self.state.settle(op)
            return op.reply()
        self.state.resume(op)
        return None

    @property
    def meter(self) -> Meter:
        """The traffic so far."""
        return self.traffic.meter(self.state.calls, self.state.collectives)
