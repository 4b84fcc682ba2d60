"""When gathers are hidden: units compute one after another while one link gathers the next ones. Arithmetic, no torch.

The rule of `FullySharded`: when a unit is about to compute, it and the next `depth` units are requested. The link
serves requests in order. A unit computes once the previous unit has computed and its own weights are gathered.
Gradients are reduced on the same link. Left out: communication kernels take processors and memory bandwidth from the
matmuls.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from course_lib.cluster.collectives import ring_half_cost
from course_lib.estimate import compute
from course_lib.estimate.units import require, require_whole
from course_lib.parallel.sharding.comm_costs import row_bytes


@dataclass(frozen=True, slots=True)
class Work:
    """One unit's work in a step on one rank: seconds of each part, and bytes of its gathered weights."""

    gather: float
    forward: float
    backward: float
    reduce: float
    nbytes: float


class Use(NamedTuple):
    """One task of the GPU ("forward", "backward") or the link ("gather", "reduce") for a unit, in seconds."""

    kind: str
    unit: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Played:
    """One step: all tasks, and after each change the bytes of weights that are gathered or in transit."""

    uses: tuple[Use, ...]
    held: tuple[tuple[float, float], ...]  # time, bytes

    @property
    def seconds(self) -> float:
        """Seconds of the whole step."""
        return max((use.end for use in self.uses), default=0.0)

    @property
    def computing(self) -> float:
        """Seconds during which the GPU computes."""
        return sum(use.end - use.start for use in self.uses if use.kind in ("forward", "backward"))

    @property
    def exposed(self) -> float:
        """Seconds during which the GPU waits for the link."""
        return max(0.0, self.seconds - self.computing)

    @property
    def peak_bytes(self) -> float:
        """Peak bytes of gathered weights."""
        return max((nbytes for _, nbytes in self.held), default=0.0)


def work_of(
    params: float,
    tokens: float,
    ranks: int,
    flops_per_s: float,
    bandwidth: float,
    *,
    latency: float = 0.0,
    gather: float = 2,
    reduce: float = 2,
) -> Work:
    """The work of a unit of `params` parameters with `tokens` on each of `ranks` GPUs that reach `flops_per_s`, with
    rings."""
    once = (
        compute.FORWARD
        * require("params", params, "parameters")
        * require("tokens", tokens, "tokens")
        / require("flops_per_s", flops_per_s, "FLOP/s")
    )
    sent = row_bytes(round(params), ranks, 1) / require("bandwidth", bandwidth, "bytes/s")
    hops = ring_half_cost(0, ranks, latency, bandwidth).seconds
    return Work(hops + gather * sent, once, 2 * once, hops + reduce * sent, params * gather)


def play(units: Sequence[Work], depth: int = 1, *, kept: bool = False) -> Played:
    """A forward and a backward pass through the units. With `kept`, weights are kept from one pass to the other."""
    link = _Link(units, require_whole("depth", depth, "units", least=0))
    now, last = 0.0, len(units) - 1
    for place, unit in enumerate(units):
        now = max(now, link.ask(place, range(place, min(place + depth, last) + 1), now))
        now = link.compute("forward", place, now, unit.forward)
        if not kept:
            link.free(place, now)
    for place in range(last, -1, -1):
        now = max(now, link.ask(place, range(place, max(place - depth, 0) - 1, -1), now))
        now = link.compute("backward", place, now, units[place].backward)
        link.free(place, now)
        link.reduce(place, now)
    return Played(tuple(sorted(link.uses, key=lambda use: use.start)), link.levels())


class _Link:
    """One link that serves requests in order, and the units that it has gathered."""

    def __init__(self, units: Sequence[Work], depth: int) -> None:
        self.units, self.depth = units, depth
        self.ready: dict[int, float] = {}  # unit -> the time at which it is gathered
        self.uses: list[Use] = []
        self.changes: list[tuple[float, float]] = []
        self.clear = 0.0

    def _carry(self, kind: str, place: int, asked: float, seconds: float) -> float:
        start = max(asked, self.clear)
        self.clear = start + seconds
        if seconds:
            self.uses.append(Use(kind, place, start, self.clear))
        return self.clear

    def ask(self, place: int, ahead: range, now: float) -> float:
        """Request these units unless gathered or in transit; return the time at which unit `place` is gathered."""
        for each in ahead:
            if each not in self.ready:
                self.ready[each] = self._carry("gather", each, now, self.units[each].gather)
                self.changes.append((now, self.units[each].nbytes))
        return self.ready[place]

    def compute(self, kind: str, place: int, now: float, seconds: float) -> float:
        self.uses.append(Use(kind, place, now, now + seconds))
        return now + seconds

    def free(self, place: int, now: float) -> None:
        del self.ready[place]
        self.changes.append((now, -self.units[place].nbytes))

    def reduce(self, place: int, now: float) -> None:
        self._carry("reduce", place, now, self.units[place].reduce)

    def levels(self) -> tuple[tuple[float, float], ...]:
        found, total = [], 0.0
        for when, change in sorted(self.changes):  # at equal times, bytes are freed before others arrive
            total += change
            found.append((when, total))
        return tuple(found)
