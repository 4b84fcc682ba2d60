"""The messages of a run on the links of a topology: their times, the bytes of each pair, and the number of rounds."""

from course_lib.cluster.meter import Meter, Path
from course_lib.cluster.records import Message
from course_lib.cluster.source_lines import Line, line_text
from course_lib.cluster.topology import Topology

TRACED = 200_000  # messages that are kept, and spans


class Traffic:
    """Puts messages on the links and counts them. A port serves one message at a time, in the order in which they
    become ready."""

    def __init__(self, ranks: int, topology: Topology) -> None:
        self.topology = topology
        self.out_step = [0] * ranks  # the round of the last message that the rank sent
        self.in_step = [0] * ranks  # and received
        self.raw: list[tuple[int, int, int, int, float, float, Line]] = []  # src, dst, bytes, tag, start, end, line
        self._free: dict[tuple[bool, int, int], list[float]] = {}  # (out, level, port) -> when it is free, in s
        self.paths: dict[tuple[int, int], Path] = {}

    def transmit(self, src: int, dst: int, nbytes: int, tag: int, ready: float, line: Line) -> float:
        """Send `nbytes` once `ready`, and count them; the arrival in s. Both ports are busy while the bytes pass."""
        path = self.paths.get((src, dst))
        if path is None:
            path = self._path(src, dst)
        path.nbytes += nbytes
        path.messages += 1
        out, into = path.out, path.into
        start = max(ready, out[0], into[0])
        out[0] = into[0] = busy = start + nbytes * path.per_byte
        arrival = busy + path.latency
        if len(self.raw) < TRACED:
            self.raw.append((src, dst, nbytes, tag, start, arrival, line))
        return arrival

    def _path(self, src: int, dst: int) -> Path:
        level = self.topology.level_of(src, dst)
        out = self._free.setdefault((True, level, self.topology.port_of(src, level)), [0.0])
        into = self._free.setdefault((False, level, self.topology.port_of(dst, level)), [0.0])
        path = self.paths[src, dst] = Path(level, self.topology.levels[level], out, into)
        return path

    def meter(self, calls: list[int], collectives: list[int]) -> Meter:
        """The counts so far."""
        levels = tuple(level.name for level in self.topology.levels)
        steps = list(map(max, self.out_step, self.in_step))
        return Meter(len(calls), levels, self.paths, steps, list(calls), list(collectives))

    def messages(self) -> list[Message]:
        """All messages, as records."""
        return [Message(*raw[:6], line_text(raw[6])) for raw in self.raw]
