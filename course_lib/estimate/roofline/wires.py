"""Wires: the cost of a message (α–β, with a change of regime), and the bandwidth that remains at each level of a
cluster.

A message of n bytes takes α + n/β seconds: α is the cost of an empty message, β is bytes/s in one direction.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from course_lib.estimate import facts
from course_lib.estimate.facts import Topology
from course_lib.estimate.roofline.roofs import byte_rate
from course_lib.estimate.units import Numeric, require

Numbers = Sequence[float] | np.ndarray


def message_seconds(nbytes: Numeric, alpha: Numeric, bandwidth: Numeric) -> Numeric:
    """Seconds of one message: α + bytes over bandwidth."""
    size = require("nbytes", nbytes, "bytes", open_below=False)
    return require("alpha", alpha, "s", open_below=False) + size / byte_rate("bandwidth", bandwidth)


def effective_bandwidth(nbytes: Numeric, alpha: Numeric, bandwidth: Numeric) -> Numeric:
    """Bytes/s that a message of this size gets, including its α."""
    return require("nbytes", nbytes, "bytes") / message_seconds(nbytes, alpha, bandwidth)


@dataclass(frozen=True, slots=True)
class Regimes:
    """Two straight lines: one for small messages, another from `switch` bytes on; each is (α in s, bytes/s)."""

    switch: float
    small: tuple[float, float]
    large: tuple[float, float]

    def seconds(self, nbytes: Numeric) -> Numeric:
        """Seconds of a message, by the line for its size."""
        below = np.asarray(nbytes) < self.switch
        found = np.where(below, message_seconds(nbytes, *self.small), message_seconds(nbytes, *self.large))
        return float(found) if found.ndim == 0 else found


def fit_alpha_beta(sizes: Numbers, seconds: Numbers) -> tuple[float, float]:
    """(α in s, bandwidth in bytes/s) of the line through measured messages, fitted by relative error.

    Least squares on raw seconds would depend almost only on the largest message.
    """
    x, y = _points(sizes, seconds, 2)
    design = np.stack([1 / y, x / y], axis=1)
    alpha, per_byte = np.linalg.lstsq(design, np.ones(len(y)), rcond=None)[0]
    if per_byte <= 0:
        raise ValueError("Larger messages are not slower here, so these points determine no bandwidth.")
    return max(float(alpha), 0.0), float(1 / per_byte)


def fit_regimes(sizes: Sequence[float], seconds: Sequence[float], least: int = 3) -> Regimes:
    """Two lines and the size at which the second begins, from the split with the least relative error."""
    x, y = _points(sizes, seconds, 2 * least)
    order = np.argsort(x)
    x, y = x[order], y[order]
    best: tuple[float, Regimes] | None = None
    for cut in range(least, len(x) - least + 1):
        try:
            lines = [fit_alpha_beta(x[part], y[part]) for part in (slice(cut), slice(cut, None))]
        except ValueError:
            continue
        found = Regimes(float(x[cut]), *lines)
        error = float(np.sum((found.seconds(x) / y - 1) ** 2))
        if best is None or error < best[0]:
            best = (error, found)
    if best is None:
        raise ValueError("No split leaves two rising lines.")
    return best[1]


def _points(sizes: Numbers, seconds: Numbers, least: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.atleast_1d(require("sizes", np.asarray(sizes, dtype=float), "bytes", open_below=False))
    y = np.atleast_1d(require("seconds", np.asarray(seconds, dtype=float), "s"))
    if len(x) != len(y) or len(np.unique(x)) < least:
        raise ValueError(
            f"There are {len(x)} sizes and {len(y)} times; at least {least} different sizes with a time each."
        )
    return x, y


# --- from the device to the cluster ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a topology. Bandwidth is per device, one way, when all devices send across this level at once."""

    name: str
    contents: str  # "8 devices", "192 racks"
    devices: int
    memory: float  # bytes of all its devices
    flops: float  # FLOP/s of all its devices, dense
    wire: str  # "memory", "link" or "network"
    bandwidth: float  # bytes/s per device
    ratio: float  # of the bandwidth one level further in; 1 for the device
    oversubscription: float
    note: str

    @property
    def is_torus(self) -> bool:
        """Whether its devices are joined to their neighbors only, instead of through switches."""
        return "torus" in self.note


def levels(topology: str | Topology) -> tuple[Level, ...]:
    """A topology's levels from the device out, each with its contents and the bandwidth of one device across it."""
    of = facts.topology(topology) if isinstance(topology, str) else topology
    device = facts.device(of.device)
    names = {"memory": "bandwidth", "link": "link_one_way", "network": "network_one_way"}
    found: list[Level] = []
    narrow = 1.0
    for each in of.levels:
        count = of.devices(each.name)
        narrow *= float(each.oversubscription or 1.0)
        bandwidth = float(getattr(device, names[each.wire])) / narrow
        what = f"{int(each.holds):,} {each.of}{'' if each.holds == 1 else 's'}" if each.holds else device.memory.text
        found.append(
            Level(
                name=each.name,
                contents=what,
                devices=count,
                memory=count * float(device.memory),
                flops=count * float(device.dense_flops),
                wire=each.wire,
                bandwidth=bandwidth,
                ratio=bandwidth / found[-1].bandwidth if found else 1.0,
                oversubscription=float(each.oversubscription or 1.0),
                note=each.note,
            )
        )
    return tuple(found)


def bisection(topology: str | Topology, level: str) -> float:
    """Bytes/s from one half of a unit of this level to its other half, one way, if switches join them.

    ValueError for a torus: its bisection depends on its shape, which is not in the facts.
    """
    found = {each.name: each for each in levels(topology)}
    if level not in found or found[level].devices < 2:
        raise ValueError(f"level is {level!r}; a unit with two halves is one of {', '.join(list(found)[1:])}.")
    if found[level].is_torus:
        raise ValueError(
            f"{level} is {found[level].note}: devices reach their neighbors only, so half of them cannot send "
            "to the other half at full rate. Choose a level whose units are joined by switches."
        )
    return found[level].devices / 2 * found[level].bandwidth
