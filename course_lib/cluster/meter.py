"""Counts of a run: bytes and messages per rank, per pair and per level; rounds; memory and FLOPs if requested."""

from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.cluster.topology import Level


class Path:
    """The route from one rank to another: its two ports (the time in s at which each is free), its link, and its
    traffic."""

    __slots__ = ("into", "latency", "level", "messages", "nbytes", "out", "per_byte")

    def __init__(self, level: int, link: Level, out: list[float], into: list[float]) -> None:
        self.level, self.out, self.into = level, out, into
        self.latency, self.per_byte = link.latency, 1.0 / link.bandwidth
        self.nbytes = self.messages = 0


class Meter:
    """Exact counts of the traffic of a run. Lists are indexed by rank.

    `steps[rank]` is the round of the rank's last message, if a rank sends one message and receives one per round: the
    length in messages of the longest chain that ends there. The steps of the run are `max(meter.steps)`. A collective
    counts its rounds for all of its ranks.
    """

    def __init__(
        self,
        ranks: int,
        levels: tuple[str, ...],
        paths: Mapping[tuple[int, int], Path],
        steps: list[int],
        calls: list[int],
        collectives: list[int],
    ) -> None:
        self.bytes_sent = [0] * ranks
        self.bytes_received = [0] * ranks
        self.messages_sent = [0] * ranks
        self.messages_received = [0] * ranks
        self.steps, self.calls, self.collectives = steps, calls, collectives
        self.pairs: dict[tuple[int, int], tuple[int, int]] = {}  # (src, dst) -> (bytes, messages)
        self.levels = dict.fromkeys(levels, (0, 0))  # level -> (bytes, messages)
        self.ledgers: Sequence[Mapping[str, object] | None] | None = None  # memory and FLOPs counted on each rank
        for (src, dst), path in paths.items():
            self.bytes_sent[src] += path.nbytes
            self.bytes_received[dst] += path.nbytes
            self.messages_sent[src] += path.messages
            self.messages_received[dst] += path.messages
            self.pairs[src, dst] = (path.nbytes, path.messages)
            held, number = self.levels[levels[path.level]]
            self.levels[levels[path.level]] = (held + path.nbytes, number + path.messages)

    def _of(self, name: str) -> list[Any]:
        if self.ledgers is None:
            raise ValueError(f"meter.{name} was not counted: request it with simulate(…, account=True).")
        return [ledger[name] if ledger else 0 for ledger in self.ledgers]

    @property
    def peak_bytes(self) -> list[int]:
        """Peak of live bytes on each rank, with `account=True`."""
        return self._of("peak_bytes")

    @property
    def live_bytes(self) -> list[int]:
        """Live bytes when each rank returned, with `account=True`."""
        return self._of("live_bytes")

    @property
    def peak_roles(self) -> list[dict[str, int]]:
        """Bytes by role at each rank's peak, with `account=True`."""
        return self._of("peak_roles")

    @property
    def flops(self) -> list[int]:
        """Floating-point operations of each rank, with `account=True`."""
        return self._of("flops")

    @property
    def total_bytes(self) -> int:
        """Bytes sent by all ranks together."""
        return sum(self.bytes_sent)

    def as_dict(self) -> dict[str, object]:
        """The counts as plain data; pairs as a list of (src, dst, bytes, messages)."""
        names = ("bytes_sent", "bytes_received", "messages_sent", "messages_received", "steps", "calls", "collectives")
        plain: dict[str, object] = {name: list(getattr(self, name)) for name in names}
        plain["pairs"] = [(*pair, *counts) for pair, counts in sorted(self.pairs.items())]
        plain["levels"] = dict(self.levels)
        if self.ledgers is not None:
            plain.update({name: self._of(name) for name in ("peak_bytes", "live_bytes", "peak_roles", "flops")})
        return plain

    def __repr__(self) -> str:
        return f"Meter(bytes_sent={self.bytes_sent}, messages_sent={self.messages_sent}, steps={self.steps})"
