"""Collectives: each rank's result and the messages that carry it, as pure functions of the ranks' inputs.

all_reduce, reduce_scatter and all_gather use a ring, broadcast and reduce a binomial tree. gather and scatter send
directly to and from the root, all_to_all exchanges in pairs, and a barrier uses dissemination. Sums are computed in the
order of ranks and in the dtype of the tensors. The nth call of a group on one rank belongs to the nth call on every
other rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from course_lib.cluster.errors import Mismatch
from course_lib.cluster.kernel import Kernel
from course_lib.cluster.message_exchange import Delivery, Operation, RunState
from course_lib.cluster.protocol import YES, Reply, Request
from course_lib.cluster.source_lines import line_text

Meta = tuple[str, tuple[int, ...]]  # dtype and shape
Round = list[tuple[int, int, int]]  # (src, dst, bytes), all at once

OPS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "SUM": torch.Tensor.add_,
    "AVG": torch.Tensor.add_,
    "PRODUCT": torch.Tensor.mul_,
    "MAX": lambda total, x: torch.maximum(total, x, out=total),
    "MIN": lambda total, x: torch.minimum(total, x, out=total),
    "BAND": torch.Tensor.bitwise_and_,
    "BOR": torch.Tensor.bitwise_or_,
    "BXOR": torch.Tensor.bitwise_xor_,
}


@dataclass(slots=True)
class Call:
    """One rank's call of a collective. `root` and `ranks` are ranks of the world."""

    name: str
    reduce: str = ""
    root: int = -1
    inputs: tuple[torch.Tensor, ...] = ()  # tensors given
    into: tuple[torch.Tensor | None, ...] = ()  # tensors to fill; None if the buffer is in another process
    gives: tuple[Meta, ...] = ()
    takes: tuple[Meta, ...] = ()
    splits: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # rows out, rows in
    ranks: tuple[int, ...] = ()  # new_group
    async_op: bool = False

    def text(self) -> str:
        """The call in words."""
        if self.name == "new_group":
            return f"new_group({list(self.ranks)})"
        what = [f"{math.prod(shape)} {dtype} in shape {shape}" for dtype, shape in (self.gives or self.takes)[:1]]
        what += [self.reduce] if self.reduce else []
        what += [f"root rank {self.root}"] if self.root >= 0 else []
        return f"{self.name}({', '.join(what)})"

    def agrees_on(self) -> list[tuple[str, object]]:
        """The arguments that must be equal on all ranks, as (name, value)."""
        metas = self.gives or self.takes
        said: list[tuple[str, object]] = [
            ("collective", self.name),
            ("root", self.root),
            ("op", self.reduce),
            ("ranks", self.ranks),
        ]
        if metas:
            said.append(("dtype", metas[0][0]))
            if self.name not in ("all_to_all_single", "scatter"):
                said.append(("shape", metas[0][1]))
            elif self.name == "scatter":
                said.append(("shape", self.takes[0][1]))
        return said


def chunk_sizes(elements: int, ranks: int) -> list[int]:
    """Elements of each of `ranks` chunks, which differ by at most one, the larger first."""
    small, larger = divmod(elements, ranks)
    return [small + (index < larger) for index in range(ranks)]


class Collective:
    """One collective of one group, from the first rank's call until the last rank knows that it is complete."""

    def __init__(self, first: Call, group: tuple[int, ...], turn: int) -> None:
        self.first, self.group, self.turn = first, group, turn
        self.name = first.name
        self.calls: dict[int, Call] = {}
        self.operations: dict[int, Joined] = {}
        self.started = self.ready = False
        self._outputs: dict[int, list[torch.Tensor]] = {}

    @property
    def is_complete(self) -> bool:
        """Whether every rank of the group has joined."""
        return len(self.operations) == len(self.group)

    def join(self, call: Call, op: Joined) -> None:
        """Add another rank's call; `Mismatch` if it differs from the first."""
        self.calls[op.rank], self.operations[op.rank] = call, op
        other_rank = next(iter(self.calls))
        for (what, mine), (_, other) in zip(call.agrees_on(), self.first.agrees_on(), strict=False):
            if mine != other:
                raise self._mismatch(what, other_rank, op.rank)
        if call.splits != ((), ()):
            self._check_splits(op.rank)

    def _mismatch(self, what: str, one: int, two: int) -> Mismatch:
        lines = [
            f"rank {r} calls {self.calls[r].text()} (call {self.operations[r].call}, "
            f"{line_text(self.operations[r].line)})"
            for r in (one, two)
        ]
        where = "" if len(self.group) == 0 else f" of group {list(self.group)}" if self.operations[one].group else ""
        return Mismatch(
            f"{what} differs in collective number {self.turn}{where}: {', '.join(lines)}. "
            "All ranks of a group call the same collectives, in the same order, on the same kind of tensor."
        )

    def _check_splits(self, rank: int) -> None:
        me = self.group.index(rank)
        for other, call in self.calls.items():
            index = self.group.index(other)
            for src, dst, send, recv in ((rank, other, me, index), (other, rank, index, me)):
                gives, takes = self.calls[src].splits[1][recv], self.calls[dst].splits[0][send]
                if gives != takes:
                    raise Mismatch(
                        f"split sizes differ in all_to_all_single: rank {src} sends {gives} rows to rank {dst}, which "
                        f"expects {takes} (call {self.operations[dst].call}, {line_text(self.operations[dst].line)}). "
                        "Exchange the counts first."
                    )
            mine, theirs = self.calls[rank].gives[0][1][1:], call.gives[0][1][1:]
            if mine != theirs:
                raise self._mismatch("shape of a row", other, rank)

    # --- values

    def compute(self) -> None:
        """Compute every rank's result."""
        calls = [self.calls[rank] for rank in self.group]
        with torch.no_grad():
            outputs = _VALUES[self.name](self, calls) if self.name in _VALUES else [[] for _ in calls]
        self._outputs = dict(zip(self.group, outputs, strict=True))

    def outputs(self, rank: int) -> list[tuple[torch.Tensor | None, torch.Tensor]]:
        """(buffer or None, value) pairs of the rank's result; can be called once."""
        call = self.calls[rank]
        found = list(zip(call.into, self._outputs.pop(rank, []), strict=False))
        call.inputs = call.into = ()  # release the rank's tensors
        return found

    def _reduced(self, calls: list[Call]) -> torch.Tensor:
        total = calls[0].inputs[0].clone(memory_format=torch.contiguous_format)
        for call in calls[1:]:
            OPS[self.first.reduce](total, call.inputs[0].reshape(total.shape))
        return total.div_(len(calls)) if self.first.reduce == "AVG" else total

    def _all_reduce(self, calls: list[Call]) -> list[list[torch.Tensor]]:
        total = self._reduced(calls)
        return [[total] for _ in calls]

    def _reduce(self, calls: list[Call]) -> list[list[torch.Tensor]]:
        total = self._reduced(calls)
        return [[total] if rank == self.first.root else [] for rank in self.group]

    def _broadcast(self, calls: list[Call]) -> list[list[torch.Tensor]]:
        value = self.calls[self.first.root].inputs[0].clone()
        return [[] if rank == self.first.root else [value] for rank in self.group]

    def _gather(self, calls: list[Call]) -> list[list[torch.Tensor]]:
        values = [call.inputs[0].clone() for call in calls]
        return [values if rank == self.first.root else [] for rank in self.group]

    def _scatter(self, calls: list[Call]) -> list[list[torch.Tensor]]:
        return [[value.clone()] for value in self.calls[self.first.root].inputs]

    def _all_gather(self, calls: list[Call]) -> list[list[torch.Tensor]]:
        values = [call.inputs[0].clone() for call in calls]
        return [values for _ in calls]

    def _all_gather_into_tensor(self, calls: list[Call]) -> list[list[torch.Tensor]]:
        whole = torch.cat([call.inputs[0].reshape(-1) for call in calls])
        return [[whole.reshape(call.takes[0][1])] for call in calls]

    def _reduce_scatter_tensor(self, calls: list[Call]) -> list[list[torch.Tensor]]:
        parts = self._reduced(calls).reshape(len(calls), -1)
        return [[part.reshape(call.takes[0][1])] for part, call in zip(parts, calls, strict=True)]

    def _all_to_all_single(self, calls: list[Call]) -> list[list[torch.Tensor]]:
        rows = [call.inputs[0].split(list(call.splits[1])) for call in calls]
        return [[torch.cat([row[me] for row in rows])] for me in range(len(calls))]

    # --- messages

    def rounds(self) -> Iterator[Round]:
        """The messages, round by round, between ranks of the world."""
        plan = _PLANS.get(self.name)
        n = len(self.group)
        if plan is None or n == 1:
            return
        for messages in plan(self, n):
            yield [(self.group[src], self.group[dst], nbytes) for src, dst, nbytes in messages]

    def _bytes(self) -> tuple[int, int]:
        dtype, shape = (self.first.gives or self.first.takes)[0]
        return math.prod(shape), getattr(torch, dtype).itemsize

    def _root(self) -> int:
        return self.group.index(self.first.root)

    def _ring_reduce_scatter(self, n: int) -> Iterator[Round]:
        elements, size = self._bytes()
        chunks = [chunk * size for chunk in chunk_sizes(elements, n)]
        for step in range(n - 1):
            yield [(r, (r + 1) % n, chunks[(r - step - 1) % n]) for r in range(n)]

    def _ring_all_reduce(self, n: int) -> Iterator[Round]:
        elements, size = self._bytes()
        chunks = [chunk * size for chunk in chunk_sizes(elements, n)]
        yield from self._ring_reduce_scatter(n)
        for step in range(n - 1):
            yield [(r, (r + 1) % n, chunks[(r - step) % n]) for r in range(n)]

    def _ring_all_gather(self, n: int) -> Iterator[Round]:
        elements, size = self._bytes()
        for _ in range(n - 1):
            yield [(r, (r + 1) % n, elements * size) for r in range(n)]

    def _tree_broadcast(self, n: int) -> Iterator[Round]:
        elements, size = self._bytes()
        root, reach = self._root(), 1
        while reach < n:
            yield [((root + r) % n, (root + r + reach) % n, elements * size) for r in range(min(reach, n - reach))]
            reach *= 2

    def _tree_reduce(self, n: int) -> Iterator[Round]:
        for messages in reversed(list(self._tree_broadcast(n))):
            yield [(dst, src, nbytes) for src, dst, nbytes in messages]

    def _straight_gather(self, n: int) -> Iterator[Round]:
        elements, size = self._bytes()
        for r in range(1, n):
            yield [((self._root() + r) % n, self._root(), elements * size)]

    def _straight_scatter(self, n: int) -> Iterator[Round]:
        dtype, shape = self.first.takes[0]
        for r in range(1, n):
            yield [(self._root(), (self._root() + r) % n, math.prod(shape) * getattr(torch, dtype).itemsize)]

    def _pairwise(self, n: int) -> Iterator[Round]:
        dtype, shape = self.first.gives[0]
        row = math.prod(shape[1:]) * getattr(torch, dtype).itemsize
        for step in range(1, n):
            pairs = [(r, (r + step) % n) for r in range(n)]
            yield [(s, d, k * row) for s, d in pairs if (k := self.calls[self.group[s]].splits[1][d])]

    def _dissemination(self, n: int) -> Iterator[Round]:
        reach = 1
        while reach < n:
            yield [(r, (r + reach) % n, 0) for r in range(n)]
            reach *= 2


_VALUES: dict[str, Callable[[Collective, list[Call]], list[list[torch.Tensor]]]] = {
    "all_reduce": Collective._all_reduce,
    "reduce": Collective._reduce,
    "broadcast": Collective._broadcast,
    "gather": Collective._gather,
    "scatter": Collective._scatter,
    "all_gather": Collective._all_gather,
    "all_gather_into_tensor": Collective._all_gather_into_tensor,
    "reduce_scatter_tensor": Collective._reduce_scatter_tensor,
    "all_to_all_single": Collective._all_to_all_single,
}

_PLANS: dict[str, Callable[[Collective, int], Iterator[Round]]] = {
    "all_reduce": Collective._ring_all_reduce,
    "reduce_scatter_tensor": Collective._ring_reduce_scatter,
    "all_gather": Collective._ring_all_gather,
    "all_gather_into_tensor": Collective._ring_all_gather,
    "broadcast": Collective._tree_broadcast,
    "reduce": Collective._tree_reduce,
    "gather": Collective._straight_gather,
    "scatter": Collective._straight_scatter,
    "all_to_all_single": Collective._pairwise,
    "barrier": Collective._dissemination,
}


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
                end = max(end, self._traffic.transmit(src, dst, nbytes, collective.turn, now, line))
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
