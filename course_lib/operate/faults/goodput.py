"""A run's weeks in a second: failures, checkpoints, restarts, repairs and slow devices, drawn from a seed.

`simulate_goodput` gives a ledger in which every second has one cause: *work* that was kept, *checkpoint*, *lost* work,
*restart*, *wait* for a node, and *slow*, the part of kept time that a slow device costs. With enough seconds the
fractions agree with the closed forms of `interval`, `spares` and `stragglers`; what no closed form covers, such as all
of it together, is what the simulator is for.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from course_lib.estimate.units import require, require_whole
from course_lib.operate.faults.interval import expected_goodput
from course_lib.operate.faults.spares import waiting_fraction
from course_lib.operate.faults.stragglers import slowed_speed

CAUSES = ("work", "checkpoint", "lost", "restart", "wait", "slow")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a job fails and recovers. Times in seconds."""

    mtbf: float  # of the whole job
    interval: float  # useful time between two checkpoints
    cost: float  # what a checkpoint takes from the training
    persist: float = 0.0  # from then until it is durable; 0: it is written synchronously
    restart: float = 0.0  # detection, start, load
    repair: float = 0.0  # until a failed node is back
    spares: int | None = None  # nodes beyond those of the job; None: always enough
    slow_every: float = float("inf")  # mean time between two devices' becoming slow
    slow_for: float = 0.0  # until a slow device is found and replaced, without a restart
    slowdown: float = 1.0  # how many times longer a step takes while any device is slow

    def __post_init__(self) -> None:
        for name in ("mtbf", "interval", "slow_every"):
            require(name, getattr(self, name), "s")
        for name in ("cost", "persist", "restart", "repair", "slow_for"):
            require(name, getattr(self, name), "s", open_below=False)
        require("slowdown", self.slowdown, "times", least=1.0, open_below=False)
        if self.spares is not None:
            require_whole("spares", self.spares, "nodes", least=0)

    @property
    def expected(self) -> float:
        """Goodput by the closed forms: the run's own, times the fraction not waiting, times the mean speed.

        Exact for long runs: failures happen while the job runs or restarts, and slow devices come at their own time.
        """
        running = 1.0 if self.spares is None else 1.0 - waiting_fraction(self.spares, self.mtbf, self.repair)
        speed = slowed_speed(self.slow_for / self.slow_every, self.slowdown)
        return running * speed * expected_goodput(self.interval, self.cost, self.mtbf, self.restart, self.persist)


class Stretch(NamedTuple):
    """A stretch of a run: what it was, and from when to when in seconds."""

    cause: str
    start: float
    stop: float


@dataclass(frozen=True)
class Ledger:
    """A simulated run: every second has one cause."""

    seconds: dict[str, float]  # by cause
    failures: int
    stretches: tuple[Stretch, ...]  # in order; empty unless asked for. Slow time is inside "work".

    @property
    def total(self) -> float:
        """Elapsed seconds."""
        return sum(self.seconds.values())

    @property
    def goodput(self) -> float:
        """Useful time over elapsed time."""
        return self.seconds["work"] / self.total


def simulate_goodput(plan: Plan, seconds: float, seed: int = 0, stretches: bool = False) -> Ledger:
    """Run the plan for so many seconds. Work since the last durable checkpoint counts as kept if the run simply ends
    there."""
    require("seconds", seconds, "s")
    rng = np.random.default_rng(seed)
    slow = _SlowTimes(plan, seconds, np.random.default_rng((seed, 1)))
    spent = dict.fromkeys(CAUSES, 0.0)
    drawn: list[Stretch] = []
    repairs: list[float] = []  # when failed nodes come back
    now, failures, restarting = 0.0, 0, False
    while now < seconds:
        failing = now + rng.exponential(plan.mtbf)
        for cause, start, stop in _until(plan, now, min(failing, seconds), restarting, failing < seconds):
            late = slow.between(start, stop) * (1.0 - 1.0 / plan.slowdown) if cause == "work" else 0.0
            spent[cause] += stop - start - late
            spent["slow"] += late
            if stretches:
                drawn.append(Stretch(cause, start, stop))
        now = min(failing, seconds)
        if now >= seconds:
            break
        failures, restarting = failures + 1, True
        if plan.spares is not None and plan.repair:
            while repairs and repairs[0] <= now:
                heapq.heappop(repairs)
            heapq.heappush(repairs, now + plan.repair)
            if len(repairs) > plan.spares:
                back = min(heapq.heappop(repairs), seconds)
                spent["wait"] += back - now
                if stretches:
                    drawn.append(Stretch("wait", now, back))
                now = back
    return Ledger(spent, failures, tuple(drawn))


def _until(plan: Plan, start: float, stop: float, restarting: bool, fails: bool) -> Iterator[Stretch]:
    """What happens from `start` until the failure (or the end of the run) at `stop`: restart, segments, and what is
    lost."""
    now = start
    if restarting and plan.restart:
        now = min(start + plan.restart, stop)
        yield Stretch("restart", start, now)
    segment, begin, durable = plan.interval + plan.cost, now, 0
    whole = int((stop - begin) // segment)
    if fails:
        durable = max(0, int((stop - begin - plan.persist) // segment))
        durable = min(durable, whole)
    for number in range(whole):
        at = begin + number * segment
        kept = not fails or number < durable
        yield Stretch("work" if kept else "lost", at, at + plan.interval)
        if plan.cost:
            yield Stretch("checkpoint" if kept else "lost", at + plan.interval, at + segment)
    at = begin + whole * segment
    if stop > at:
        saving = at + plan.interval
        yield Stretch("lost" if fails else "work", at, min(saving, stop))
        if stop > saving:
            yield Stretch("lost" if fails else "checkpoint", saving, stop)


class _SlowTimes:
    """When at least one device is slow: devices become slow at random and stay so for a fixed time."""

    def __init__(self, plan: Plan, seconds: float, rng: np.random.Generator) -> None:
        if plan.slowdown == 1.0 or not plan.slow_for or plan.slow_every == float("inf"):
            self.starts = self.stops = self.before = np.zeros(0)
            return
        # begin early enough that the first second is like any other
        span = seconds + plan.slow_for
        begins = np.sort(rng.uniform(-plan.slow_for, seconds, rng.poisson(span / plan.slow_every)))
        if not len(begins):
            self.starts = self.stops = self.before = begins
            return
        new = np.concatenate([[True], begins[1:] > begins[:-1] + plan.slow_for])
        last = np.concatenate([new[1:], [True]])
        self.starts, self.stops = begins[new], begins[last] + plan.slow_for
        self.before = np.concatenate([[0.0], np.cumsum(self.stops - self.starts)])

    def between(self, start: float, stop: float) -> float:
        """Seconds from `start` to `stop` in which a device is slow."""
        return self._up_to(stop) - self._up_to(start) if len(self.starts) else 0.0

    def _up_to(self, time: float) -> float:
        place = int(np.searchsorted(self.starts, time, side="right"))
        if not place:
            return 0.0
        return float(self.before[place - 1] + min(time, self.stops[place - 1]) - self.starts[place - 1])
