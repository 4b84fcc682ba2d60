"""A queue of jobs on nodes of GPUs, as an event simulation.

A job is a *gang*: it starts when all its GPUs are free at the same moment, and keeps them until it ends. A job smaller
than a node needs its GPUs inside one node; a larger one needs whole nodes. The policies:

- `fifo`: jobs start in the order of their arrival; while the first one waits, all wait.
- `easy`: the first one gets a reservation, the earliest time at which it can start if running jobs use their whole time
  limits. A later job may start now if that does not delay the reservation (EASY backfill; Lifka, 1995).
- `any`: every job that fits starts, which can starve a large job.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from course_lib.estimate.units import DAY, HOUR, MINUTE, require, require_whole
from course_lib.operate.faults import erlang_b

POLICIES = ("fifo", "easy", "any")
PER_NODE = 8


@dataclass(frozen=True, slots=True)
class Job:
    """A job of the queue; times in seconds."""

    arrives: float
    gpus: int
    seconds: float  # what it will take
    limit: float  # what its owner asked for; it is never longer


@dataclass(frozen=True, slots=True)
class Started:
    """A job that ran: from when to when, and how many GPUs of which nodes it had."""

    job: Job
    start: float
    end: float
    places: Mapping[int, int]
    reserved: float  # the first reservation it was given as the head of the queue; its start if it had none

    @property
    def wait(self) -> float:
        """Seconds from arrival to start."""
        return self.start - self.job.arrives


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a simulation of a queue counted."""

    started: Sequence[Started]
    nodes: int
    fragmented: float  # seconds in which the head waited although enough GPUs were free, spread over the nodes

    def used(self, until: float) -> float:
        """The share of all GPUs' time up to `until` seconds in which a job had them."""
        busy = sum(each.job.gpus * max(0.0, min(each.end, until) - each.start) for each in self.started)
        return busy / (require("until", until, "s") * self.nodes * PER_NODE)

    def mean_wait(self, least: int = 1, most: float = math.inf) -> float:
        """Mean wait in seconds of the jobs of `least` to `most` GPUs."""
        return float(np.mean([each.wait for each in self.started if least <= each.job.gpus <= most]))


def place(free: Sequence[int], gpus: int, spread: bool = False) -> dict[int, int] | None:
    """GPUs of which nodes a gang gets, or None. A small job goes to the fullest node with room; `spread`: to the
    emptiest."""
    if gpus < PER_NODE:
        room = [node for node, count in enumerate(free) if count >= gpus]
        if not room:
            return None
        best = max(room, key=lambda node: free[node]) if spread else min(room, key=lambda node: free[node])
        return {best: gpus}
    empty = [node for node, count in enumerate(free) if count == PER_NODE]
    needed = gpus // PER_NODE
    return dict.fromkeys(empty[:needed], PER_NODE) if len(empty) >= needed else None


def simulate_queue(jobs: Sequence[Job], nodes: int, policy: str = "fifo", spread: bool = False) -> Outcome:
    """Run all jobs. ValueError for a job that can never start, or whose limit is shorter than its run."""
    require_whole("nodes", nodes)
    if policy not in POLICIES:
        raise ValueError(f"policy is {policy!r}; choose from {', '.join(POLICIES)}.")
    for at, job in enumerate(jobs):
        if job.gpus < 1 or job.gpus > nodes * PER_NODE or (job.gpus > PER_NODE and job.gpus % PER_NODE):
            raise ValueError(
                f"Job {at} asks for {job.gpus} GPUs: it needs 1 to {PER_NODE}, or whole nodes, at most {nodes} of them."
            )
        if not 0 < job.seconds <= job.limit:
            raise ValueError(f"Job {at} runs for {job.seconds} s with a limit of {job.limit} s; give 0 < run ≤ limit.")
    return _Queue(sorted(jobs, key=lambda each: each.arrives), nodes, policy, spread).run()


@dataclass
class _Queue:
    jobs: Sequence[Job]
    nodes: int
    policy: str
    spread: bool
    waiting: list[Job] = field(default_factory=list)
    running: list[tuple[float, int, Started]] = field(default_factory=list)  # a heap by end
    started: list[Started] = field(default_factory=list)
    fragmented: float = 0.0

    def run(self) -> Outcome:
        self.free = [PER_NODE] * self.nodes
        self.reserved = dict[int, float]()  # of jobs by their id(), while they wait
        coming = list(self.jobs)[::-1]
        now = 0.0
        while coming or self.running or self.waiting:
            ends = self.running[0][0] if self.running else math.inf
            then = min(ends, coming[-1].arrives if coming else math.inf)
            if self.waiting and self.waiting[0].gpus <= sum(self.free):
                self.fragmented += then - now
            now = then
            while self.running and self.running[0][0] <= now:
                for node, count in heapq.heappop(self.running)[2].places.items():
                    self.free[node] += count
            while coming and coming[-1].arrives <= now:
                self.waiting.append(coming.pop())
            self._start_jobs(now)
        return Outcome(self.started, self.nodes, self.fragmented)

    def _start_jobs(self, now: float) -> None:
        while self.waiting and (found := place(self.free, self.waiting[0].gpus, self.spread)):
            self._start(self.waiting.pop(0), found, now)
        if self.policy == "fifo" or not self.waiting:
            return
        head = self.waiting[0]
        reservation = self._earliest(head, now, []) if self.policy == "easy" else math.inf
        self.reserved.setdefault(id(head), reservation)
        for job in self.waiting[1:]:
            found = place(self.free, job.gpus, self.spread)
            if found is None:
                continue
            ends = now + job.limit
            if ends <= reservation or self._earliest(head, now, [(ends, found)]) <= reservation:
                self.waiting.remove(job)
                self._start(job, found, now)

    def _start(self, job: Job, places: dict[int, int], now: float) -> None:
        for node, count in places.items():
            self.free[node] -= count
        done = Started(job, now, now + job.seconds, places, self.reserved.pop(id(job), now))
        self.started.append(done)
        heapq.heappush(self.running, (done.end, len(self.started), done))

    def _earliest(self, job: Job, now: float, more: Sequence[tuple[float, Mapping[int, int]]]) -> float:
        """When a job can start if running jobs, and `more` beside them, use their whole limits."""
        free = list(self.free)
        for _, places in more:
            for node, count in places.items():
                free[node] -= count
        held = [*more, *((each.start + each.job.limit, each.places) for _, _, each in self.running)]
        at = now
        for ends, places in sorted(held, key=lambda each: each[0]):
            if place(free, job.gpus, self.spread) is not None:
                break
            for node, count in places.items():
                free[node] += count
            at = ends
        return at


# --- what is drawn, and what has a closed form


def drawn_jobs(seed: int = 0, days: float = 30.0, nodes: int = 16, load: float = 0.8) -> list[Job]:
    """A month of jobs: most are small and short, few are large and long, and owners ask for more time than they need.

    `load` is the GPU time that is asked for, as a share of what there is.
    """
    coin = np.random.default_rng(seed)
    sizes, shares = (1, 2, 4, 8, 16, 32, 64), (0.3, 0.14, 0.14, 0.2, 0.12, 0.07, 0.03)
    room, asked, found = require("load", load) * days * DAY * nodes * PER_NODE, 0.0, list[Job]()
    while asked < room:
        gpus = int(coin.choice(sizes, p=shares))
        seconds = float(min(coin.lognormal(math.log(3 * HOUR) + 0.25 * math.log2(gpus), 1.2), 3 * DAY))
        limit = min(max(1, math.ceil(seconds * coin.uniform(1.0, 4.0) / HOUR)) * HOUR, 4 * DAY)
        found.append(Job(float(coin.uniform(0, days * DAY)), gpus, max(seconds, MINUTE), max(limit, seconds)))
        asked += gpus * seconds
    return sorted(found, key=lambda each: each.arrives)


def mean_wait(servers: int, arrivals: float, seconds: float) -> float:
    """The mean wait in s in M/M/c, jobs of one node each: `arrivals` per second and a mean run of `seconds`.

    Erlang (1917). ValueError if the jobs ask for all the servers or more: the queue then grows without end.
    """
    busy = require("arrivals", arrivals, "jobs/s") * require("seconds", seconds, "s")
    load = busy / require_whole("servers", servers)
    if load >= 1:
        raise ValueError(f"The load is {load:.3g}: at 1 or more the queue grows without end.")
    blocked = erlang_b(servers, busy)
    waits = blocked / (1 - load * (1 - blocked))
    return waits * seconds / (servers * (1 - load))


def stuck_chance(size: int, gpus: int) -> float:
    """The chance that two gangs of `size` stick on `gpus` if their workers are placed one by one in random order.

    Both are stuck if neither has all its workers among the first `gpus` that are placed; 0 if both fit.
    """
    if require_whole("size", size) > gpus:
        raise ValueError(f"A gang of {size} never fits {gpus} GPUs.")
    if 2 * size <= gpus:
        return 0.0
    return 1 - 2 * math.comb(size, gpus - size) / math.comb(2 * size, gpus)


def stuck_count(size: int, gpus: int, trials: int, seed: int = 0) -> int:
    """How often that happens in `trials` drawn orders."""
    coin = np.random.default_rng(seed)
    workers = np.repeat([0, 1], size)
    held = [np.bincount(coin.permutation(workers)[:gpus], minlength=2) for _ in range(trials)]
    return sum(int(max(each) < size) for each in held)
