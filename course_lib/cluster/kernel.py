"""The cluster's kernel: requests of ranks in, replies out. It owns matching, buffers, meter and clock.

A pure state machine: no threads, no sockets, no code of the user. A host calls `submit(request)` for the one rank that
runs, then `next()`, which gives `(rank, Reply)`, the rank to run and what to tell it, or how the run ended: `Stuck`
(with the waits), `Fault` (with the error) or `Finished`. The rank with the smallest clock always runs next, ties by rank, so times do
not depend on chance.

Where bytes move. In one process a request carries the tensors themselves (`data` to send, `into` to receive) and the
kernel copies between them, at the match. Across a boundary `into` is None: `data` is the judge's own copy, what arrives
travels in `Reply.writes`, and `Request.reads` renews what is in flight, so that both give the same run.
Late delivery: what is sent is read at the sender's own wait or, where nobody else can move, when the receiver needs it;
what is received is written only at the receiver's own wait.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from course_lib.cluster.blame import Posted, Scene, left_over, message_mismatch, waits
from course_lib.cluster.collective import Collective
from course_lib.cluster.errors import ClusterError, Mismatch
from course_lib.cluster.lines import Line, line_text
from course_lib.cluster.meter import Meter
from course_lib.cluster.protocol import ANY, YES, Adversary, Fault, Finished, Reply, Request, Stuck
from course_lib.cluster.side import Side, same_layout
from course_lib.cluster.topology import Ports, Topology
from course_lib.records import Message, Span

POLL = 1e-6  # s that a first is_completed() costs; it doubles while nothing else happens
POLLS = 1000  # polls in a row, per rank, after which a loop of polls counts as stuck
BLOCKED = frozenset(("send", "recv", "wait", "collective"))  # kinds of spans in which a rank stands still
TRACED = 200_000  # spans, and messages, that are kept for pictures


class Kernel:
    """The state of one run. `move(into, data)` copies in one process, `keep(data)` takes a copy of what is in flight."""

    def __init__(
        self,
        ranks: int,
        topology: Topology | None = None,
        adversary: Adversary | None = None,
        move: Callable[[Any, Any], None] | None = None,
        keep: Callable[[Any], Any] = lambda data: data,
    ) -> None:
        self.ranks = ranks
        self.topology = topology or Topology()
        self.adversary = adversary or Adversary()
        self.calls = [0] * ranks
        self.collectives = [0] * ranks  # of the calls
        self.clock = [0.0] * ranks
        self.results: list[Any] = [None] * ranks
        self.done = [False] * ranks
        self.chance = False  # whether the outcome may depend on order: any-source receives or polling
        self.groups: list[tuple[int, ...]] = [tuple(range(ranks))]
        self._move, self._keep = move, keep
        self._depth, self._is_late = self.adversary.depth, self.adversary.late
        self._stream = self.adversary.order == "stream"
        self._by_clock = self.adversary.seed is None
        self._ports = Ports(self.topology)
        self._random = random.Random(self.adversary.seed)
        self._events: list[tuple[float, int, float, Any]] = []
        self._first: tuple[float, int, float, Any] | None = None  # a request that comes before all events
        self._sides: list[dict[int, Side]] = [{} for _ in range(ranks)]
        self._blocked: list[Side | None] = [None] * ranks
        self._posted: Posted = {}
        self._inside: dict[tuple[int, int], int] = {}  # messages of a pair that lie in buffers
        self._waiting_room: dict[tuple[int, int], deque[Side]] = {}  # sends for which buffers were full
        self._lanes: dict[tuple[int, int, int], deque[list[Side]]] = {}
        self._late: list[Side] = []
        self._writes: list[list[tuple[int, Any]]] = [[] for _ in range(ranks)]
        self._known = [0] * ranks
        self._out_step = [0] * ranks
        self._in_step = [0] * ranks
        self._open: dict[tuple[int, int], Collective] = {}
        self._turns: dict[tuple[int, int], int] = {}  # (group, rank) -> collectives called
        self._seq = 0
        self._polls = [0] * ranks
        self._poll_row = 0
        self._fault: ClusterError | None = None
        self._raw_spans: list[tuple[int, float, float, str, str]] = []
        self._raw_messages: list[tuple[int, int, int, int, float, float, Line]] = []
        for rank in range(ranks):
            self._push(0.0, rank, Reply("start"))

    # --- the two calls of a host

    def submit(self, request: Request) -> None:
        """Take what the running rank asks."""
        rank = request.rank
        time = self.clock[rank]
        for kind, label, seconds in request.work:
            if len(self._raw_spans) < TRACED:
                self._raw_spans.append((rank, time, time + seconds, kind, label))
            time += seconds
        for handle, data in request.reads:
            side = self._sides[rank].get(handle)
            if side is not None and not side.kept:
                side.data = data
        if self._by_clock and (not self._events or (time, rank) < self._events[0]):
            self._first = (time, rank, time, request)
        else:
            self._push(time, rank, request)

    def next(self) -> tuple[int, Reply] | Stuck | Fault | Finished:
        """Advance until a rank can run: who, and its reply; or how the run ended."""
        events = self._events
        while self._fault is None:
            if self._first is not None or events:
                if self._first is not None:
                    (_, rank, time, item), self._first = self._first, None
                else:
                    _, rank, time, item = heappop(events)
                if type(item) is Request:
                    self.clock[rank] = time
                    item = self._handle(time, rank, item)
                    if item is None:
                        continue
                    key = time if self._by_clock else self._random.random()
                    if events and events[0] < (key, rank):
                        heappush(events, (key, rank, time, item))
                        continue
                elif type(item) is not Reply:
                    item(time)
                    continue
                self.clock[rank] = time
                if self._writes[rank]:
                    item = Reply(item.value, tuple(self._writes[rank]))
                    self._writes[rank].clear()
                return rank, item
            if not self._late:
                break
            self._force(self._late.pop(0))
        if self._fault is None and not all(self.done):
            return Stuck(waits(self._scene()))
        if self._fault is None:
            self._fault = left_over(self._posted)
        return Fault(self._fault) if self._fault else Finished()

    def in_flight(self, rank: int, call: int) -> Any:
        """What the rank's call sends, while it is under way; else None."""
        side = self._sides[rank].get(call)
        return side.data if side is not None and side.send else None

    # --- reports

    @property
    def meter(self) -> Meter:
        """What moved so far."""
        levels = tuple(level.name for level in self.topology.levels)
        steps = list(map(max, self._out_step, self._in_step))
        return Meter(self.ranks, levels, self._ports.paths, steps, list(self.calls), list(self.collectives))

    @property
    def seconds(self) -> float:
        """Virtual time of the slowest rank, in seconds."""
        return max(self.clock, default=0.0)

    def spans(self) -> list[Span]:
        """What each rank did when."""
        return [Span(*raw) for raw in self._raw_spans]

    def messages(self) -> list[Message]:
        """What went from whom to whom, when."""
        return [Message(*raw[:6], line_text(raw[6])) for raw in self._raw_messages]

    @property
    def truncated(self) -> bool:
        """Whether there were more spans or messages than are kept."""
        return len(self._raw_spans) >= TRACED or len(self._raw_messages) >= TRACED

    def standstills(self) -> list[tuple[int, float, float]]:
        """(rank, start, end) of every wait, in s."""
        return [raw[:3] for raw in self._raw_spans if raw[3] in BLOCKED]

    def travels(self) -> list[tuple[int, int, float, float]]:
        """(src, dst, start, end) of every message, in s."""
        return [(raw[0], raw[1], raw[4], raw[5]) for raw in self._raw_messages]

    # --- the machinery

    def _push(self, time: float, rank: int, item: Any) -> None:
        heappush(self._events, (time if self._by_clock else self._random.random(), rank, time, item))

    def _handle(self, time: float, rank: int, request: Request) -> Reply | None:
        """Carry out a request; the reply where the rank can go on at once."""
        op = request.op
        if op == "test":
            return self._test(time, rank, request)
        self._poll_row = self._polls[rank] = 0
        if op == "wait":
            side = self._sides[rank].get(request.handle)
            if side is None:  # waited for before
                return YES
            return self._wait(time, side, request.line)
        if op == "batch":
            sides = [self._make(time, part) for part in request.more]
            self._enter(sides)
            return YES
        if op == "collective":
            self.collectives[rank] += 1
            return self._collective(time, rank, request)
        if op == "done":
            self.done[rank], self.results[rank] = True, request.data
            return None
        if op == "raised":
            self._fault = request.data
            return None
        side = self._make(time, request)
        if self._stream:
            self._enter([side])
        else:
            self._offer(side)
        if op == "isend" or op == "irecv":
            return YES
        side.blocking = True
        return self._wait(time, side, request.line)

    def _make(self, time: float, request: Request) -> Side:
        rank = request.rank
        calls = self.calls
        calls[rank] = call = calls[rank] + 1
        self._seq += 1
        side = self._sides[rank][call] = Side(request, call, time, self._seq, self._known[rank])
        return side

    def _enter(self, sides: list[Side]) -> None:
        """Offer new halves of messages for matching; under stream order only those at the head of their lane."""
        if not self._stream:
            for side in sides:
                self._offer(side)
            return
        fresh: dict[tuple[int, int, int], list[Side]] = {}
        for side in sides:
            side.lane_of = (side.group, side.rank, side.peer)
            side.lane = fresh.setdefault(side.lane_of, [])
            side.lane.append(side)
        for key, lane in fresh.items():
            queue = self._lanes.setdefault(key, deque())
            queue.append(lane)
            if queue[0] is lane:
                for side in list(lane):
                    self._offer(side)

    def _leave_lane(self, side: Side, time: float) -> None:
        lane = side.lane
        if lane is None:
            return
        side.lane = None
        lane.remove(side)
        queue = self._lanes[side.lane_of]
        if not lane and queue and queue[0] is lane:
            queue.popleft()
            if queue:
                for later in list(queue[0]):
                    later.time = max(later.time, time)
                    self._offer(later)

    def _offer(self, side: Side) -> None:
        side.active = True
        mate = self._find(side)
        if mate is not None:
            send, recv = (side, mate) if side.send else (mate, side)
            self._match(send, recv, max(side.time, mate.time))
            return
        key = (side.send, side.group, side.rank, side.peer, side.tag)
        queue = self._posted.get(key)
        if queue is None:
            queue = self._posted[key] = deque()
        queue.append(side)
        if side.send and self._depth:
            pair = (side.rank, side.peer)
            if self._inside.get(pair, 0) < self._depth:
                self._accept(side, side.time)
            else:
                self._waiting_room.setdefault(pair, deque()).append(side)

    def _find(self, side: Side) -> Side | None:
        posted, group, me, peer, tag = self._posted, side.group, side.rank, side.peer, side.tag
        if side.send:
            named = posted.get((False, group, peer, me, tag))
            anyone = posted.get((False, group, peer, ANY, tag))
            queue = named
            if anyone and (not named or anyone[0].seq < named[0].seq):
                queue = anyone
        elif peer != ANY:
            queue = posted.get((True, group, peer, me, tag))
        else:
            self.chance = True
            found = [q for src in self.groups[group] if (q := posted.get((True, group, src, me, tag)))]
            if not found:
                return None
            earliest = min(found, key=lambda q: (q[0].time, q[0].rank))
            queue = earliest if self._by_clock else self._random.choice(found)
        return queue.popleft() if queue else None

    def _accept(self, send: Side, time: float) -> None:
        """A buffer takes the message: the sender is free, the bytes travel."""
        pair = (send.rank, send.peer)
        self._inside[pair] = self._inside.get(pair, 0) + 1
        send.accepted = True
        send.step = self._carry(send, time)
        if not self._is_late or send.waiting:
            self._read(send)
            self._complete(send, time)

    def _carry(self, send: Side, time: float, known: int = 0) -> int:
        """Put the message on its links and in the books; the round in which it travels."""
        src, dst = send.rank, send.peer
        start, end = self._ports.carry(src, dst, send.nbytes, time)
        send.arrival = end
        out, into = self._out_step, self._in_step
        step = 1 + max(send.known, known, out[src], into[dst])
        out[src] = into[dst] = step
        if len(self._raw_messages) < TRACED:
            self._raw_messages.append((src, dst, send.nbytes, send.tag, start, end, send.line))
        return step

    def _match(self, send: Side, recv: Side, time: float) -> None:
        if send.dtype != recv.dtype or not same_layout(send.shape, recv.shape):
            self._fault = message_mismatch(send, recv)
            return
        recv.peer = send.rank
        if not send.accepted:
            send.step = self._carry(send, time, recv.known)
        send.matched = recv.matched = True
        recv.step, recv.finish = send.step, max(send.arrival, time)
        if not self._is_late:
            self._read_now(send, recv)
            self._complete(recv, recv.finish)
            if not send.done:
                self._complete(send, send.arrival)
        else:
            send.mate, recv.mate = recv, send
            if send.waiting:
                self._read(send)
                self._complete(send, send.arrival)
            if recv.waiting:
                self._late_receive(recv)
        if send.accepted:
            self._free_buffer(send, time)
        self._leave_lane(send, time)
        if self._fault is None:
            self._leave_lane(recv, time)

    def _free_buffer(self, send: Side, time: float) -> None:
        pair = (send.rank, send.peer)
        self._inside[pair] -= 1
        room = self._waiting_room.get(pair)
        while room:
            nxt = room.popleft()
            if not nxt.matched:
                self._accept(nxt, max(nxt.time, time))
                return

    def _read(self, send: Side) -> None:
        """The instant at which the sender's buffer is read."""
        if not send.kept:
            send.data, send.kept = self._keep(send.data), True

    def _read_now(self, send: Side, recv: Side) -> None:
        if recv.into is None:
            self._writes[recv.rank].append((recv.call, send.data))
        else:
            self._move(recv.into, send.data)
        send.kept = True
        send.data = recv.into = send.mate = recv.mate = None

    def _complete(self, side: Side, finish: float) -> None:
        side.done, side.finish = True, finish
        if side.waiting:
            self._resume(side)

    def _resume(self, side: Side) -> None:
        side.waiting = False
        self._blocked[side.rank] = None
        self._settle(side)
        end = max(side.since, side.finish)
        self._span(side, side.since, end)
        self._push(end, side.rank, YES if side.send else Reply(side.value()))

    def _settle(self, side: Side) -> None:
        """The rank knows now that the operation is over."""
        self._sides[side.rank].pop(side.call, None)
        if side.step > self._known[side.rank]:
            self._known[side.rank] = side.step

    def _span(self, side: Side, start: float, end: float) -> None:
        if end > start and len(self._raw_spans) < TRACED:
            if side.collective is not None:
                kind, label = "collective", side.collective.name
            else:
                kind, label = (("send" if side.send else "recv"), f"{'to' if side.send else 'from'} {side.peer}")
            self._raw_spans.append((side.rank, start, end, kind if side.blocking else "wait", label))

    def _wait(self, time: float, side: Side, line: Line) -> Reply | None:
        side.since, side.at = time, line
        if not side.done and self._is_late:
            self._late_wait(side)
        if side.done:
            if side.finish <= time:
                self._settle(side)
                return YES if side.send else Reply(side.value())
            self._resume(side)
            return None
        side.waiting = True
        self._blocked[side.rank] = side
        if self._is_late:
            if side.collective is not None:
                self._late_collective(side)
            elif side.mate is not None and not side.send:
                self._late_receive(side)
        return None

    def _late_wait(self, side: Side) -> None:
        if side.collective is not None:
            if side.collective.ready:
                self._hand_over(side)
                side.done = True
        elif side.send and (side.matched or side.accepted):
            self._read(side)
            side.done = True
            side.finish = side.time if side.accepted else side.arrival
            if side.mate is not None and side.mate.waiting:
                self._late_receive(side.mate)

    def _late_receive(self, recv: Side) -> None:
        """The receiver waits: hand it the data if the sender has waited too, else when nobody else can move."""
        if recv.done:
            return
        if recv.mate.kept:
            self._read_now(recv.mate, recv)
            self._complete(recv, recv.finish)
        elif recv not in self._late:
            self._late.append(recv)

    def _force(self, side: Side) -> None:
        if side.done:
            return
        if side.collective is not None:
            if not side.collective.started:
                self._start(side.collective, side.since)
            return
        self._read(side.mate)
        self._read_now(side.mate, side)
        self._complete(side, side.finish)

    def _test(self, time: float, rank: int, request: Request) -> Reply | None:
        self.chance = True
        side = self._sides[rank].get(request.handle)
        if side is None:
            return YES
        self._poll_row += 1
        quiet = self._poll_row > 2 * self.ranks  # for a while, ranks have only looked
        if self._is_late and not side.done:
            self._late_look(side, quiet)
        if side.done and side.finish <= time:
            self._poll_row = 0
            self._settle(side)
            return YES
        if quiet and self._late:
            self._poll_row = 0
            self._force(self._late.pop(0))
        elif self._poll_row > POLLS * self.ranks:
            side.at = request.line
            self._blocked[rank] = side
            side.waiting = True
            side.name = "is_completed() of " + side.name
            return None
        self._push(time + POLL * 2 ** min(self._polls[rank], 30), rank, Reply(False))
        self._polls[rank] += 1
        return None

    def _late_look(self, side: Side, quiet: bool) -> None:
        """Under late delivery a look counts as a wait, where that can be over."""
        if side.collective is not None:
            collective = side.collective
            self._late_wait(side)
            if quiet and not collective.started and len(collective.sides) == len(collective.group):
                self._start(collective, max(one.time for one in collective.sides.values()))
        elif side.send:
            self._late_wait(side)
        elif side.mate is not None and (side.mate.kept or quiet):
            self._force(side)

    # --- collectives

    def _collective(self, time: float, rank: int, request: Request) -> Reply | None:
        group = request.group
        turn = self._turns[group, rank] = self._turns.get((group, rank), 0) + 1
        collective = self._open.get((group, turn))
        if collective is None:
            collective = self._open[group, turn] = Collective(request.more, self.groups[group], turn)
        side = self._make(time, request)
        side.name, side.collective = collective.name, collective
        side.blocking = not request.more.async_op
        try:
            collective.join(request.more, side)
        except Mismatch as error:
            self._fault = error
            return None
        if len(collective.sides) == len(collective.group):
            del self._open[group, turn]
            if not self._is_late:
                self._start(collective, time)
            else:
                self._late += [one for one in collective.sides.values() if one.waiting][:1]
        if request.more.async_op:
            return YES
        return self._wait(time, side, request.line)

    def _start(self, collective: Collective, time: float) -> None:
        """All are there: compute what each gets, then let the messages travel round by round."""
        collective.started = True
        if collective.name == "new_group":
            self.groups.append(tuple(collective.first.ranks))
            for side in collective.sides.values():
                side.peer = len(self.groups) - 1
        collective.compute()
        rounds = collective.rounds()
        base = max(self._known[rank] for rank in collective.group)

        def go(now: float) -> None:
            messages = next(rounds, None)
            if messages is None:
                self._deliver(collective, now)
                return
            end = now
            for src, dst, nbytes in messages:
                start, arrival = self._ports.carry(src, dst, nbytes, now)
                end = max(end, arrival)
                if len(self._raw_messages) < TRACED:
                    line = collective.sides[src].line
                    self._raw_messages.append((src, dst, nbytes, 0, start, arrival, line))
            collective.steps += 1
            self._push(end, -1 - self._seq, go)
            self._seq += 1

        self._seq += 1
        collective.base = base
        go(time)

    def _deliver(self, collective: Collective, time: float) -> None:
        step = collective.base + collective.steps
        collective.ready = True
        for rank, side in collective.sides.items():
            side.finish, side.step = time, step
            if collective.steps:
                self._out_step[rank] = self._in_step[rank] = max(step, self._out_step[rank])
        for side in collective.sides.values():
            if not self._is_late or side.waiting:
                self._hand_over(side)
                self._complete(side, time)

    def _hand_over(self, side: Side) -> None:
        for into, data in side.collective.outputs(side.rank):
            if into is None:
                self._writes[side.rank].append((side.call, data))
            else:
                self._move(into, data)

    def _late_collective(self, side: Side) -> None:
        """A rank waits: start once all wait, or when nobody else can move; hand over at each rank's own wait."""
        collective = side.collective
        if not collective.started and len(collective.sides) == len(collective.group):
            if all(one.waiting or one is side for one in collective.sides.values()):
                self._start(collective, side.since)
            else:
                self._late.append(side)

    def _scene(self) -> Scene:
        return Scene(self._blocked, self.groups, self.done, self.calls, self._posted, self._lanes)


__all__ = ["ANY", "Adversary", "Fault", "Finished", "Kernel", "Reply", "Request", "Stuck"]
