"""Rendezvous of collectives: the nth call of a group on one rank belongs to the nth call on every other rank."""

from __future__ import annotations

from course_lib.cluster.collective import Collective
from course_lib.cluster.delivery import Delivery
from course_lib.cluster.operation import Operation
from course_lib.cluster.protocol import Request
from course_lib.cluster.run_state import RunState
from course_lib.cluster.traffic import Traffic


class Rendezvous:
    """The collectives that some ranks have joined. Once all have, their messages are sent round by round."""

    def __init__(self, state: RunState, delivery: Delivery, traffic: Traffic) -> None:
        self.counts = [0] * state.ranks  # collectives that each rank has called
        self._state, self._delivery, self._traffic = state, delivery, traffic
        self._open: dict[tuple[int, int], Collective] = {}  # by group and turn
        self._turns: dict[tuple[int, int], int] = {}  # by group and rank: collectives called
        delivery.start = self.start

    def join(self, time: float, request: Request) -> Operation:
        """A rank calls a collective. `Mismatch` if the other ranks called another one."""
        rank, group, call = request.rank, request.group, request.more
        self.counts[rank] += 1
        turn = self._turns[group, rank] = self._turns.get((group, rank), 0) + 1
        collective = self._open.get((group, turn))
        if collective is None:
            collective = self._open[group, turn] = Collective(call, self._state.groups[group], turn)
        op = self._state.begin(time, request)
        op.name, op.collective = collective.name, collective
        op.blocking = not call.async_op
        collective.join(call, op)
        if collective.is_complete:
            del self._open[group, turn]
            if self._delivery.starts(collective):
                self.start(collective, time)
        return op

    def start(self, collective: Collective, time: float) -> None:
        """All ranks have joined: compute each result, then send the messages."""
        state = self._state
        collective.started = True
        if collective.name == "new_group":
            state.groups.append(tuple(collective.first.ranks))
            for op in collective.operations.values():
                op.peer = len(state.groups) - 1
        collective.compute()
        rounds = collective.rounds()
        collective.base = max(state.known[rank] for rank in collective.group)

        def next_round(now: float) -> None:
            messages = next(rounds, None)
            if messages is None:
                self._finish(collective, now)
                return
            end = self._traffic.carry_round(collective, messages, now)
            state.clock.push(end, -1 - state.sequence, next_round)
            state.sequence += 1

        state.sequence += 1
        next_round(time)

    def _finish(self, collective: Collective, time: float) -> None:
        collective.ready = True
        step = self._traffic.count_rounds(collective)
        for op in collective.operations.values():
            op.finish, op.step = time, step
        self._delivery.ready(collective, time)
