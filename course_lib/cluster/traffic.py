"""The messages of a run: their links and times, the bytes of each pair, and the number of rounds."""

from __future__ import annotations

from course_lib.cluster.collective import Collective, Round
from course_lib.cluster.meter import Meter
from course_lib.cluster.operation import Operation
from course_lib.cluster.records import Message
from course_lib.cluster.source_lines import Line, line_text
from course_lib.cluster.topology import Ports, Topology
from course_lib.cluster.trace_spans import TRACED


class Traffic:
    """Puts messages on the links of a topology and counts them."""

    def __init__(self, ranks: int, topology: Topology) -> None:
        self.topology = topology
        self._ranks = ranks
        self._ports = Ports(topology)
        self._out_step = [0] * ranks  # the round of the last message that the rank sent
        self._in_step = [0] * ranks  # and received
        self.raw: list[tuple[int, int, int, int, float, float, Line]] = []  # src, dst, bytes, tag, start, end, line

    def carry(self, send: Operation, time: float, known: int = 0) -> None:
        """Send the message, ready at `time`. Sets the operation's arrival (s) and step (the round in which it travels).

        A rank sends and receives at most one message per round, and sends only after the rounds that it knows of.
        """
        src, dst = send.rank, send.peer
        start, send.arrival = self._ports.carry(src, dst, send.nbytes, time)
        out, into = self._out_step, self._in_step
        out[src] = into[dst] = send.step = 1 + max(send.known, known, out[src], into[dst])
        if len(self.raw) < TRACED:
            self.raw.append((src, dst, send.nbytes, send.tag, start, send.arrival, send.line))

    def carry_round(self, collective: Collective, messages: Round, time: float) -> float:
        """Send one round of a collective; return the arrival time of the last message."""
        end = time
        for src, dst, nbytes in messages:
            start, arrival = self._ports.carry(src, dst, nbytes, time)
            end = max(end, arrival)
            if len(self.raw) < TRACED:
                self.raw.append((src, dst, nbytes, 0, start, arrival, collective.operations[src].line))
        collective.steps += 1
        return end

    def count_rounds(self, collective: Collective) -> int:
        """Count the rounds of a collective for all its ranks; return the round in which it ends."""
        step = collective.base + collective.steps
        if collective.steps:
            for rank in collective.operations:
                self._out_step[rank] = self._in_step[rank] = max(step, self._out_step[rank])
        return step

    def meter(self, calls: list[int], collectives: list[int]) -> Meter:
        """The counts so far."""
        levels = tuple(level.name for level in self.topology.levels)
        steps = list(map(max, self._out_step, self._in_step))
        return Meter(self._ranks, levels, self._ports.paths, steps, list(calls), list(collectives))

    def messages(self) -> list[Message]:
        """All messages, as records."""
        return [Message(*raw[:6], line_text(raw[6])) for raw in self.raw]

    def travels(self) -> list[tuple[int, int, float, float]]:
        """(src, dst, start, end) of every message, in s."""
        return [(raw[0], raw[1], raw[4], raw[5]) for raw in self.raw]
