"""Loss spikes: noticing one, and what to do then.

A detector compares each loss with the median of the last ones, in units of their usual jitter; both are robust, so the
spike itself does not hide the next one. A policy then skips an update, or goes back to a checkpoint before the spike
and leaves out the batches around it (PaLM went back about 100 steps and left out 200 to 500 batches).
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from course_lib.estimate.units import require, require_whole


class SpikeDetector:
    """`update(loss)` says whether this loss is a spike.

    A loss is an outlier if it exceeds the median of the last `window` normal losses by `threshold` times their jitter,
    1.4826 × the median absolute difference of successive losses / √2 (for normal noise: its standard deviation,
    whatever the trend). A loss that is not finite is one at once. The alarm is given at the `patience`-th outlier in a
    row. Outliers do not enter the window; after `window` of them in a row, they are taken as the new level. Before it
    has seen half a window, it notices only losses that are not finite.
    """

    def __init__(self, window: int = 50, threshold: float = 6.0, patience: int = 1) -> None:
        self.window = require_whole("window", window, "steps", least=4)
        self.threshold = require("threshold", threshold, "times the jitter")
        self.patience = require_whole("patience", patience, "steps")
        self.normal: deque[float] = deque(maxlen=window)
        self.outliers: list[float] = []

    def update(self, loss: float) -> bool:
        """Whether an alarm is given at this loss."""
        if not self._is_outlier(loss):
            self.outliers.clear()
            self.normal.append(loss)
            return False
        self.outliers.append(loss)
        if len(self.outliers) > self.window and math.isfinite(loss):
            self.normal.clear()
            self.normal.extend(each for each in self.outliers if math.isfinite(each))
            self.outliers.clear()
            return False
        return len(self.outliers) == self.patience

    def _is_outlier(self, loss: float) -> bool:
        if not math.isfinite(loss):
            return True
        if len(self.normal) < self.window // 2:
            return False
        values = list(self.normal)
        jitter = 1.4826 * median(abs(b - a) for a, b in zip(values, values[1:], strict=False)) / math.sqrt(2)
        return loss > median(values) + self.threshold * max(jitter, 1e-12)


@dataclass(frozen=True)
class Curve:
    """A loss curve, and the step at which a spike begins; None if it has none."""

    losses: tuple[float, ...]
    spike: int | None = None


@dataclass(frozen=True)
class Evaluation:
    """How a detector does on some curves."""

    spikes: int
    found: int
    mean_delay: float  # steps from the beginning of a spike to its alarm; NaN if none was found
    false_alarms: int
    steps: int  # in which a false alarm was possible

    @property
    def false_per_1000(self) -> float:
        """False alarms per 1,000 normal steps."""
        return 1000.0 * self.false_alarms / self.steps


def alarms(losses: Iterable[float], detector: SpikeDetector) -> Iterator[int]:
    """The steps at which the detector gives an alarm."""
    for step, loss in enumerate(losses):
        if detector.update(loss):
            yield step


def evaluate(
    curves: Sequence[Curve], window: int = 50, threshold: float = 6.0, patience: int = 1, within: int = 20
) -> Evaluation:
    """Detection delay and false alarms. An alarm at most `within` steps after a spike's beginning finds it; one before
    is false.

    What happens after `within` steps is not counted: a real run would have reacted.
    """
    delays, false, normal = [], 0, 0
    for curve in curves:
        found = list(alarms(curve.losses, SpikeDetector(window, threshold, patience)))
        end = len(curve.losses) if curve.spike is None else curve.spike
        false += sum(step < end for step in found)
        normal += end
        if curve.spike is not None:
            delays += [step - curve.spike for step in found if 0 <= step - curve.spike <= within][:1]
    spikes = sum(curve.spike is not None for curve in curves)
    return Evaluation(spikes, len(delays), float(np.mean(delays)) if delays else math.nan, false, normal)


def draw_curve(
    steps: int,
    seed: int,
    spike: int | None = None,
    height: float = 1.0,
    length: int = 30,
    rise: int = 5,
    noise: float = 0.03,
) -> Curve:
    """A loss of 2 + 6 (t + 10)^(−0.4) with normal noise; a spike rises over `rise` steps and decays over about
    `length`.

    The noise sometimes (in 1 of 100 steps) is four times as large, as a batch of unusual text makes it.
    """
    rng = np.random.default_rng(seed)
    time = np.arange(steps)
    wide = np.where(rng.random(steps) < 0.01, 4.0, 1.0)
    losses = 2.0 + 6.0 * (time + 10.0) ** -0.4 + noise * wide * rng.standard_normal(steps)
    if spike is not None:
        since = time - spike
        shape = np.where(since < rise, (since + 1) / rise, np.exp(-(since - rise) / length))
        losses += np.where(since >= 0, height * shape, 0.0)
    return Curve(tuple(losses.tolist()), spike)
