"""Roofs: the rates that a device, its memory and its links allow a piece of work, and which of them binds.

Each resource has its own intensity, FLOP per byte that passes through *it*. Its roof is a slope, bytes/s × intensity,
up to the flat roof of the arithmetic. Rates are FLOP/s and bytes/s in one direction. Latency, caches and launches are
left out, so a measurement can only be lower. Williams, Waterman & Patterson (2009).
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from course_lib.estimate import facts
from course_lib.estimate.facts import Device, Fact
from course_lib.estimate.units import Numeric, rate_text, require

Part = Literal["compute", "memory", "network"]
PARTS: tuple[Part, ...] = ("compute", "memory", "network")


def flop_rate(name: str, value: object) -> Numeric:
    """`value` in FLOP/s, if it is a dense peak or a plain number; ValueError for a sparse peak of the facts."""
    _refuse(name, value, "sparsity", "a dense rate", "dense_flops")
    return require(name, value, "FLOP/s")


def byte_rate(name: str, value: object) -> Numeric:
    """`value` in bytes/s, if it counts one direction or is a plain number; ValueError for both directions added."""
    _refuse(name, value, "both directions", "a rate in one direction", "link_one_way")
    return require(name, value, "bytes/s")


def _refuse(name: str, value: object, word: str, wanted: str, field: str) -> None:
    if not isinstance(value, Fact) or word not in value.condition:
        return
    owner = next((one for one in facts.devices().values() if _holds(one, value)), None)
    if owner is None:
        raise ValueError(f"{name} is {value!r}; give {wanted}.")
    instead = getattr(owner, field)
    raise ValueError(
        f"{name} is {value.text} of {owner.name} ({value.condition}); give {wanted}: "
        f"facts.device({owner.name!r}).{field}, {instead.text}."
    )


def _holds(device: Device, value: Fact) -> bool:
    return any(device.get(field) is value for field in ("sparse_flops", "link_both_ways"))


def ridge(flops: Numeric, bandwidth: Numeric) -> Numeric:
    """FLOP per byte at which a device's arithmetic and its memory are equally busy."""
    return flop_rate("flops", flops) / byte_rate("bandwidth", bandwidth)


def attainable(intensity: Numeric, flops: Numeric, bandwidth: Numeric) -> Numeric:
    """FLOP/s that work of this intensity (FLOP per byte) can reach at most: the lower of the two roofs."""
    slope = byte_rate("bandwidth", bandwidth) * require("intensity", intensity, "FLOP per byte", open_below=False)
    return _plain(np.minimum(flop_rate("flops", flops), slope))


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The lowest roof over a piece of work, in FLOP/s, and the part that sets it. Arrays for arrays."""

    flops_per_s: Numeric
    bound: str | np.ndarray  # "compute", "memory" or "network"; on a tie the first of them


def extended_roofline(
    flops: Numeric, bandwidth: Numeric, network: Numeric, memory_intensity: Numeric, network_intensity: Numeric
) -> Ceiling:
    """The lowest of three roofs: compute, memory × FLOP per memory byte, network × FLOP per network byte.

    The two intensities are different numbers of the same work. `network_intensity` is infinite if nothing is sent.
    """
    roofs = np.broadcast_arrays(
        flop_rate("flops", flops),
        byte_rate("bandwidth", bandwidth)
        * require("memory_intensity", memory_intensity, "FLOP per byte", open_below=False),
        byte_rate("network", network)
        * require("network_intensity", network_intensity, "FLOP per byte", open_below=False),
    )
    stacked = np.stack([np.asarray(roof, dtype=float) for roof in roofs])
    which = np.argmin(stacked, axis=0)
    bound = PARTS[int(which)] if which.ndim == 0 else np.asarray(PARTS)[which]
    return Ceiling(_plain(stacked.min(axis=0)), bound)


# --- work and machines -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Work:
    """A piece of work as three amounts: FLOP, bytes through the device's memory, bytes sent over its wire."""

    flop: float
    memory_bytes: float
    network_bytes: float = 0.0
    name: str = ""

    def __post_init__(self) -> None:
        for field in ("flop", "memory_bytes", "network_bytes"):
            require(f"Work.{field}", getattr(self, field), open_below=False)

    @property
    def memory_intensity(self) -> float:
        """FLOP per byte through memory; infinite without such bytes."""
        return self.flop / self.memory_bytes if self.memory_bytes else math.inf

    @property
    def network_intensity(self) -> float:
        """FLOP per byte over the wire; infinite without such bytes."""
        return self.flop / self.network_bytes if self.network_bytes else math.inf

    def __add__(self, other: "Work") -> "Work":
        name = " + ".join(filter(None, (self.name, other.name)))
        return Work(
            self.flop + other.flop,
            self.memory_bytes + other.memory_bytes,
            self.network_bytes + other.network_bytes,
            name,
        )

    def __mul__(self, times: float) -> "Work":
        require("times", times, open_below=False)
        return Work(self.flop * times, self.memory_bytes * times, self.network_bytes * times, self.name)

    __rmul__ = __mul__

    def sending(self, nbytes: float) -> "Work":
        """The same work with this many bytes sent over the wire."""
        return Work(self.flop, self.memory_bytes, nbytes, self.name)


@dataclass(frozen=True, slots=True)
class Machine:
    """The rates of one device: FLOP/s, bytes/s of its memory, bytes/s of its wire in one direction."""

    name: str
    flops: float
    bandwidth: float
    network: float = math.inf  # without a wire nothing is sent, so nothing waits

    def __post_init__(self) -> None:
        object.__setattr__(self, "flops", flop_rate("Machine.flops", self.flops))
        object.__setattr__(self, "bandwidth", byte_rate("Machine.bandwidth", self.bandwidth))
        object.__setattr__(self, "network", byte_rate("Machine.network", self.network))

    @property
    def ridge(self) -> float:
        """FLOP per memory byte at which arithmetic and memory are equally busy."""
        return self.flops / self.bandwidth

    @property
    def network_ridge(self) -> float:
        """FLOP per network byte at which arithmetic and wire are equally busy; 0 without a wire."""
        return self.flops / self.network

    def faster(self, part: Part, factor: float) -> "Machine":
        """The same machine with one part `factor` times as fast."""
        if part not in PARTS:
            raise ValueError(f"part is {part!r}; choose from {', '.join(PARTS)}.")
        require("factor", factor)
        rates = dict(zip(PARTS, (self.flops, self.bandwidth, self.network), strict=True))
        return Machine(self.name, *(rates[name] * (factor if name == part else 1.0) for name in PARTS))


def machine(device: str | Device, wire: str | None = "network", achievable: bool = False) -> Machine:
    """A device of the facts as a machine: dense 16-bit peak, memory, and a wire in one direction.

    `wire` is "network" (to other servers), "link" (inside a server) or None. achievable=True takes the best measured
    matmul instead of the published peak; the bandwidths stay those of the data sheet.
    """
    one = facts.device(device) if isinstance(device, str) else device
    flops = one.get("matmul_flops" if achievable else "dense_flops")
    if flops is None:
        what = "measured matmul" if achievable else "dense 16-bit peak"
        raise ValueError(f"The facts have no {what} of {one.name}. {_others(achievable)}")
    if wire not in ("network", "link", None):
        raise ValueError(f"wire is {wire!r}; choose 'network' (between servers), 'link' (inside one) or None.")
    rate = math.inf if wire is None else one.get(f"{wire}_one_way")
    if rate is None:
        raise ValueError(f"The facts have no {wire} of {one.name}; give wire=None, or a Machine with your own number.")
    return Machine(one.name, flops, one.bandwidth, rate)


def _others(achievable: bool) -> str:
    field = "matmul_flops" if achievable else "dense_flops"
    known = [name for name, one in facts.devices().items() if one.get(field) is not None]
    return f"They have one of {', '.join(known[-8:])}."


def part_seconds(work: Work, machine: Machine) -> dict[str, float]:
    """Seconds that each part of the machine is busy with the work."""
    needs = (work.flop, work.memory_bytes, work.network_bytes)
    rates = (machine.flops, machine.bandwidth, machine.network)
    return {name: need / rate if need else 0.0 for name, need, rate in zip(PARTS, needs, rates, strict=True)}


def seconds(work: Work, machine: Machine, overlap: bool = True) -> float:
    """Least seconds of the work: the busiest part if everything overlaps, their sum if nothing does."""
    parts = part_seconds(work, machine).values()
    return max(parts) if overlap else sum(parts)


def place(work: Work, machine: Machine) -> Ceiling:
    """The lowest of the machine's roofs over the work."""
    wire = machine.network if math.isfinite(machine.network) else 1.0  # any rate: nothing is sent over it
    sent = work.network_intensity if math.isfinite(machine.network) else math.inf
    return extended_roofline(machine.flops, machine.bandwidth, wire, work.memory_intensity, sent)


def speedups(work: Work, machine: Machine, factor: float = 2.0, overlap: bool = True) -> dict[str, float]:
    """The speed-up of the work if one part alone is `factor` times as fast, for each part; 1.0 means no help."""
    before = seconds(work, machine, overlap)
    if not before:
        raise ValueError("The work takes no time: it has neither FLOP nor bytes.")
    return {part: before / seconds(work, machine.faster(part, factor), overlap) for part in PARTS}


def describe(machine: Machine) -> str:
    """A machine in one line: "H100 SXM: 989 TFLOP/s, ridge 295 FLOP/B"."""
    return f"{machine.name}: {rate_text(machine.flops)}, ridge {machine.ridge:.3g} FLOP/B"


def _plain(value: Numeric) -> Numeric:
    return float(value) if np.ndim(value) == 0 else value
