"""A long tail of rollouts, as an event simulation: how long GPUs idle, and how old the tokens are that are trained on.

A few replies are many times as long as the rest. Who waits for them leaves GPUs idle; who does not trains on tokens of
older weights. Two rules cover the systems in between:

- `bound`: rollout number n may start only if n // batch <= version + bound. With 0 a batch is generated with the
  weights that train on it; without a bound nothing waits (AReaL's rule; Fu and others, 2025).
- `order`: a batch is made of the rollouts that *started* next, so the trainer waits for the longest of them; or of
  those that *finished* next, so a long one is trained on later.

A rollout that runs when a version arrives goes on with the new weights: its first tokens are then of the old policy.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from course_lib.estimate.units import require, require_whole

ORDERS = ("started", "finished")


@dataclass(frozen=True, slots=True)
class Trained:
    """A rollout that was trained on: by the step from `version` to the next."""

    number: int  # in the order of starts
    version: int
    tokens: tuple[tuple[int, float], ...]  # by version of the weights: how many it generated with them

    @property
    def staleness(self) -> int:
        """Versions between its oldest token and the weights that learn it."""
        return self.version - self.tokens[0][0]

    @property
    def old(self) -> float:
        """Its tokens of earlier versions."""
        return sum(count for version, count in self.tokens if version < self.version)


@dataclass(frozen=True, slots=True)
class Tail:
    """What a simulation counted."""

    seconds: float
    slots: int
    generated: float  # seconds in which slots generated, all together
    training: float  # seconds in which the trainer trained
    pause: bool  # whether it trained on the slots' GPUs
    trained: Sequence[Trained]
    spans: Sequence[tuple[int, float, float, int]]  # slot, start, end, number of the rollout
    steps: Sequence[tuple[float, float]]  # start and end of each training step

    @property
    def idle(self) -> float:
        """The share of the slots' time in which their GPUs do nothing."""
        return 1 - (self.generated + self.pause * self.slots * self.training) / (self.slots * self.seconds)

    @property
    def trainer_idle(self) -> float:
        """The share of the time in which the trainer waits."""
        return 1 - self.training / self.seconds

    @property
    def old_share(self) -> float:
        """The share of the trained tokens that older weights generated."""
        tokens = sum(count for each in self.trained for _, count in each.tokens)
        return sum(each.old for each in self.trained) / tokens

    @property
    def staleness(self) -> int:
        """Of the stalest rollout."""
        return max(each.staleness for each in self.trained)


def simulate_tail(
    lengths: Sequence[float],
    slots: int,
    batch: int,
    train: float,
    bound: float = 0,
    order: str = "started",
    pause: bool = False,
    steps: int = 0,
) -> Tail:
    """Rollouts of these lengths in tokens, in turn, on `slots` slots of one token per second; a step on `batch` of them
    takes `train` seconds. Ends after `steps` steps; 0: with the last whole batch.

    With `pause`, slots stand still while the trainer works, because both use the same GPUs. ValueError if there are
    fewer rollouts than a batch needs.
    """
    require_whole("slots", slots)
    require_whole("batch", batch)
    require("train", train, "s", open_below=False)
    if order not in ORDERS:
        raise ValueError(f"order is {order!r}; a batch is made of the rollouts that {' or '.join(ORDERS)} next.")
    if len(lengths) < batch * max(1, steps) or min(lengths) <= 0:
        raise ValueError(
            f"{len(lengths)} rollouts for {max(1, steps)} batches of {batch}: give enough of them, each with a token."
        )
    return _Simulation(lengths, slots, batch, train, bound, order, pause).run(steps)


@dataclass
class _Simulation:
    lengths: Sequence[float]
    slots: int
    batch: int
    train: float
    bound: float
    order: str
    pause: bool
    now: float = 0.0
    started: int = 0
    version: int = 0
    busy_until: float | None = None  # of the trainer
    running: dict[int, tuple[int, float]] = field(default_factory=dict)  # number -> slot, when its stretch began
    tokens: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    done: list[int] = field(default_factory=list)
    learning: list[int] = field(default_factory=list)
    spans: list[tuple[int, float, float, int]] = field(default_factory=list)
    steps: list[tuple[float, float]] = field(default_factory=list)
    trained: list[Trained] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free = list(range(self.slots))

    def run(self, steps: int) -> Tail:
        wanted = steps or len(self.lengths) // self.batch
        while self.version < wanted:
            self._start_training()
            self._start_rollouts()
            stands = self.pause and self.busy_until is not None
            runs = {} if stands else self.running
            ends = {number: began + self._left(number) for number, (_, began) in runs.items()}
            self.now = min([*ends.values(), *([] if self.busy_until is None else [self.busy_until])])
            for number in (number for number, end in ends.items() if end <= self.now):
                self._stretch(number)
                heapq.heappush(self.free, self.running.pop(number)[0])
                self.done.append(number)
            if self.busy_until is not None and self.busy_until <= self.now:
                self._end_training()
        for number in self.running:
            self._stretch(number)
        generated = sum(end - start for _, start, end, _ in self.spans)
        total = sum(end - start for start, end in self.steps)
        return Tail(self.now, self.slots, generated, total, self.pause, self.trained, self.spans, self.steps)

    def _left(self, number: int) -> float:
        return self.lengths[number] - sum(count for _, count in self.tokens[number])

    def _stretch(self, number: int) -> None:
        """Record what a rollout generated since its current stretch began."""
        slot, began = self.running[number]
        if self.now > began:
            count = min(self.now - began, self._left(number))
            self.tokens[number].append((self.version, count))
            self.spans.append((slot, began, self.now, number))
        self.running[number] = slot, self.now

    def _start_rollouts(self) -> None:
        if self.pause and self.busy_until is not None:
            return
        while self.free and self.started < len(self.lengths):
            if self.started // self.batch > self.version + self.bound:
                return
            self.running[self.started] = heapq.heappop(self.free), self.now
            self.tokens[self.started] = []
            self.started += 1

    def _start_training(self) -> None:
        if self.busy_until is not None or len(self.done) < self.batch:
            return
        first = self.version * self.batch
        chosen = self.done[: self.batch] if self.order == "finished" else list(range(first, first + self.batch))
        if not set(chosen) <= set(self.done):
            return
        self.learning = chosen
        self.done = [each for each in self.done if each not in set(chosen)]
        self.busy_until = self.now + self.train
        if self.pause:
            for number in self.running:
                self._stretch(number)

    def _end_training(self) -> None:
        for number in list(self.running):
            if self.pause:
                self.running[number] = self.running[number][0], self.now
            else:
                self._stretch(number)
        self.trained += [Trained(number, self.version, tuple(self.tokens[number])) for number in self.learning]
        self.steps.append((self.now - self.train, self.now))
        self.version, self.busy_until = self.version + 1, None


def exponential_idle(rollouts: int) -> float:
    """The idle share of GPUs that each generate one rollout and wait for the longest, for exponentially distributed
    lengths: 1 − mean / longest, and the longest of n is on average H_n = 1 + 1/2 + … + 1/n
    times the mean (Rényi, 1953)."""
    return 1 - 1 / sum(1 / place for place in range(1, require_whole("rollouts", rollouts) + 1))


def drawn_lengths(
    count: int, mean: float = 1000.0, spread: float = 1.0, most: float = math.inf, seed: int = 0
) -> list[int]:
    """Lengths in tokens, lognormal with this mean; `spread` is the standard deviation of the logarithm, and `most` cuts
    the tail off as a limit of the reply does."""
    coin = np.random.default_rng(seed)
    drawn = coin.lognormal(math.log(mean) - spread**2 / 2, spread, require_whole("count", count))
    return [max(1, round(min(each, most))) for each in drawn]
