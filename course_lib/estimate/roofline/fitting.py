"""Roofs from measurements: runs with their repeats, the highest valid rates among them, and runs that cannot be
true."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.estimate.units import require


@dataclass(frozen=True, slots=True)
class Run:
    """One kernel, timed several times: its FLOP, the bytes that it moves, and the seconds of each repeat."""

    name: str
    flop: float
    nbytes: float
    seconds: tuple[float, ...]
    working_set: float = 0.0  # bytes of its tensors; 0: as many as it moves

    def __post_init__(self) -> None:
        for field in ("flop", "nbytes", "working_set"):
            require(f"Run.{field}", getattr(self, field), open_below=False)
        if not self.seconds:
            raise ValueError(f"Run {self.name!r} has no repeats; time it at least once.")
        for one in self.seconds:
            require(f"Run {self.name!r}: a repeat", one, "s")

    @property
    def median(self) -> float:
        """Seconds of the median repeat, which one slow repeat cannot change."""
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Seconds below which a quarter, and three quarters, of the repeats lie."""
        if len(self.seconds) == 1:
            return self.seconds[0], self.seconds[0]
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return low, high

    @property
    def flops(self) -> float:
        """FLOP/s at the median."""
        return self.flop / self.median

    @property
    def bandwidth(self) -> float:
        """Bytes/s at the median."""
        return self.nbytes / self.median

    @property
    def intensity(self) -> float:
        """FLOP per byte."""
        return self.flop / self.nbytes if self.nbytes else float("inf")


@dataclass(frozen=True, slots=True)
class Roofs:
    """Two fitted roofs in FLOP/s and bytes/s, and the names of the runs that set them."""

    flops: float
    bandwidth: float
    by: tuple[str, str]

    @property
    def ridge(self) -> float:
        """FLOP per byte at which the two roofs meet."""
        return self.flops / self.bandwidth


def above_roof(runs: Sequence[Run], flops: float, bandwidth: float, room: float = 0.0) -> list[str]:
    """Names of the runs that exceed a published peak: their clock stopped before their work did.

    `bandwidth` limits only runs whose tensors exceed the caches; leave the others out, or give infinity.
    """
    compute, memory = (
        require("flops", flops, "FLOP/s") * (1 + room),
        require("bandwidth", bandwidth, "bytes/s") * (1 + room),
    )
    return [run.name for run in runs if run.flops > compute or run.bandwidth > memory]


def fit_roofs(runs: Sequence[Run], cache: float = 0.0) -> Roofs:
    """The two roofs that measured runs show: the highest median rates of arithmetic and of memory.

    No run can be faster than its roof, so the highest valid median is the best estimate of a roof. A run whose working
    set fits into `cache` bytes says nothing about memory. Give runs without warm-up, and none that failed to wait.
    """
    if not runs:
        raise ValueError("There are no runs to fit roofs to.")
    streaming = [run for run in runs if (run.working_set or run.nbytes) > cache and run.nbytes]
    if not streaming:
        raise ValueError(f"Every run fits into the cache of {cache:,.0f} bytes; measure one that does not.")
    fastest, widest = max(runs, key=lambda run: run.flops), max(streaming, key=lambda run: run.bandwidth)
    return Roofs(fastest.flops, widest.bandwidth, (fastest.name, widest.name))
