"""Rendezvous of collectives: the nth call of a group on one rank belongs to the nth call on every other rank."""

from __future__ import annotations

from course_lib.cluster.collective import Collective
from course_lib.cluster.errors import Mismatch
from course_lib.cluster.kernel import Kernel
from course_lib.cluster.message_exchange import Delivery, Operation, RunState
from course_lib.cluster.protocol import YES, Reply, Request


class Joined(Operation):
    """One rank's part in a collective."""

    rendezvous: Rendezvous
    collective: Collective

    def start(self, time: float) -> None:
        """Start the collective, which all ranks have joined."""
        self.rendezvous.start(self.collective, time)

    def reply(self) -> Reply:
        """The group's number for new_group, else True."""
        return Reply(self.peer) if self.name == "new_group" else YES

    def what(self) -> str:
        """The call in words."""
        return self.collective.calls[self.rank].text()

    def wait_label(self) -> tuple[str, str]:
        """Kind and label of the span of time during which its rank waits for it."""
        return "collective", self.collective.name

    def missing(self, state: RunState) -> tuple[str, tuple[int, ...]]:
        """The kind of wait, and the ranks that have not joined."""
        return "collective", tuple(r for r in self.collective.group if r not in self.collective.operations)

    def hand_over(self, delivery: Delivery) -> None:
        """Give the rank its result."""
        for into, data in self.collective.outputs(self.rank):
            delivery.write(self, into, data)


class Rendezvous:
    """The collectives that some ranks have joined. Once all have, their messages are sent round by round."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel, self._state, self._traffic = kernel, kernel.state, kernel.traffic
        self._open: dict[tuple[int, int], Collective] = {}  # by group and turn
        self._turns: dict[tuple[int, int], int] = {}  # by group and rank: collectives called

    def __call__(self, time: float, request: Request) -> Reply | None:
        """A rank calls a collective. It is a `Mismatch` if the other ranks called another one."""
        state, rank, group, call = self._state, request.rank, request.group, request.more
        state.collectives[rank] += 1
        turn = self._turns[group, rank] = self._turns.get((group, rank), 0) + 1
        collective = self._open.get((group, turn))
        if collective is None:
            collective = self._open[group, turn] = Collective(call, state.groups[group], turn)
        op = state.begin(time, request, Joined)
        assert isinstance(op, Joined)
        op.name, op.collective, op.rendezvous = collective.name, collective, self
        op.blocking = not call.async_op
        try:
            collective.join(call, op)
        except Mismatch as error:
            state.fault = error
            return None
        if collective.is_complete:
            del self._open[group, turn]
            if self._kernel.delivery.starts(collective.operations.values()):
                self.start(collective, time)
        return self._kernel.wait(time, op, request.line) if op.blocking else YES

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
        base = max(state.known[rank] for rank in collective.group)
        steps = 0

        def next_round(now: float) -> None:
            nonlocal steps
            messages = next(rounds, None)
            if messages is None:
                self._finish(collective, now, base, steps)
                return
            end = now
            for src, dst, nbytes in messages:
                line = collective.operations[src].line
                end = max(end, self._traffic.transmit(src, dst, nbytes, 0, now, line))
            steps += 1
            state.clock.push(end, -1 - state.sequence, next_round)
            state.sequence += 1

        state.sequence += 1
        next_round(time)

    def _finish(self, collective: Collective, time: float, base: int, steps: int) -> None:
        """All messages have arrived. Count the rounds for all ranks of the group."""
        collective.ready = True
        operations, traffic = collective.operations, self._traffic
        for rank, op in operations.items():
            op.finish, op.step = time, base + steps
            if steps:
                traffic.out_step[rank] = traffic.in_step[rank] = max(base + steps, traffic.out_step[rank])
        for op in operations.values():
            if (
                op.waiting or not self._kernel.machine.late
            ):  # with late delivery, the others get their data at their own wait
                op.hand_over(self._kernel.delivery)
                self._state.complete(op, time)
