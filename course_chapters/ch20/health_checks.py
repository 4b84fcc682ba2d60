"""Health checks of nodes: what a threshold costs in healthy nodes that fail it and in weak nodes that pass.

A check measures a rate, such as the bandwidth of a link, with noise. Rates are shares of what a healthy node reaches.
The closed forms assume normal noise; `screen` draws the same from a seed and counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from course_lib.estimate.units import require, require_whole


def rejection_chance(threshold: float, rate: float, noise: float, repeats: int) -> float:
    """The chance that the mean of `repeats` measurements of a node with this rate is below the threshold."""
    return NormalDist(rate, noise / math.sqrt(repeats)).cdf(threshold)


def healthy_share(alarms: float, detection: float, share: float) -> float:
    """The share of the rejected nodes that are healthy if a `share` of all is weak (Bayes); 0 if none is rejected."""
    wrong = (1 - share) * alarms
    rejected = wrong + share * detection
    return wrong / rejected if rejected else 0.0


@dataclass(frozen=True, slots=True)
class Check:
    """A measured rate of a node, as a share of a healthy node's."""

    noise: float = 0.02  # standard deviation of one measurement
    weak: float = 0.94  # what a weak node reaches
    share: float = 0.02  # of the nodes that are weak: the base rate
    repeats: int = 1  # measurements of a node, of which the mean counts

    def __post_init__(self) -> None:
        require("noise", self.noise, "a share")
        require("weak", self.weak, "a share", most=1)
        require("share", self.share, "a fraction of the nodes", most=1, open_below=False)
        require_whole("repeats", self.repeats)

    def false_alarm(self, threshold: float) -> float:
        """The chance that a healthy node measures less than the threshold."""
        return rejection_chance(threshold, 1.0, self.noise, self.repeats)

    def detection(self, threshold: float) -> float:
        """The chance that a weak node does."""
        return rejection_chance(threshold, self.weak, self.noise, self.repeats)

    def rejected(self, threshold: float) -> float:
        """The share of all nodes that fail the check."""
        return self.share * self.detection(threshold) + (1 - self.share) * self.false_alarm(threshold)

    def healthy_among_rejected(self, threshold: float) -> float:
        """The share of the rejected nodes that are healthy (Bayes)."""
        return healthy_share(self.false_alarm(threshold), self.detection(threshold), self.share)

    def weak_among_kept(self, threshold: float) -> float:
        """The share of the kept nodes that are weak."""
        kept = 1 - self.rejected(threshold)
        return self.share * (1 - self.detection(threshold)) / kept if kept else 0.0

    def usable(self, threshold: float, nodes: int) -> float:
        """What a fleet is worth to jobs of so many nodes: the share of nodes that is kept, times the mean speed."""
        return (1 - self.rejected(threshold)) * job_speed(self.weak_among_kept(threshold), self.weak, nodes)


def job_speed(share: float, weak: float, nodes: int) -> float:
    """The mean speed of a job on nodes of which a share is weak: one weak node makes all others wait."""
    return weak + (1 - weak) * (1 - share) ** require_whole("nodes", nodes)


@dataclass(frozen=True, slots=True)
class Screened:
    """Counts of a simulated check."""

    healthy: int
    weak: int
    healthy_rejected: int
    weak_rejected: int


def screen(check: Check, threshold: float, nodes: int, seed: int = 0) -> Screened:
    """Draw nodes and measure each of them as often as the check says."""
    coin = np.random.default_rng(seed)
    is_weak = coin.random(require_whole("nodes", nodes)) < check.share
    rates = np.where(is_weak, check.weak, 1.0)
    measured = coin.normal(rates, check.noise, (check.repeats, nodes)).mean(0)
    fails = measured < threshold
    weak = int(is_weak.sum())
    return Screened(nodes - weak, weak, int((fails & ~is_weak).sum()), int((fails & is_weak).sum()))


def missed_corruption(chance: float, tests: int) -> float:
    """The chance that a device computes so many known answers rightly although it errs with `chance` in each."""
    return (1 - require("chance", chance, "a fraction", most=1)) ** require_whole("tests", tests, least=0)


def tests_needed(chance: float, wanted: float) -> int:
    """The fewest known answers that find such a device with at least the chance `wanted`."""
    require("wanted", wanted, "a fraction", most=1 - 1e-12)
    if require("chance", chance, "a fraction", most=1) == 1:
        return 1
    tests = math.ceil(math.log1p(-wanted) / math.log1p(-chance))
    return tests if missed_corruption(chance, tests) <= 1 - wanted else tests + 1
