"""A GPU as software sees it: what a recorded run of it must agree with."""

import re
from dataclasses import dataclass
from functools import cache

from course_lib.estimate.facts.chips import chips
from course_lib.estimate.facts.fact import Fact, fact_of, rows
from course_lib.estimate.facts.hardware import device


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """What CUDA and NVLink say of a device; None is a number without a source we trust."""

    device: str  # a name for `facts.device`
    capability: Fact | None  # compute capability
    multiprocessors: Fact | None
    driver: Fact | None  # number of a branch; drivers of older branches do not know the device
    bridge_one_way: Fact | None  # B/s in one direction, of the NVLink bridge that may join two cards
    port_one_way: Fact | None  # B/s in one direction over PCIe, to its server's network cards and CPUs
    in_server: Fact | None  # most devices that one server holds
    switch_adds: bool  # whether the NVSwitch between these devices can do the adding of an all-reduce
    fp32_flops: Fact | None  # FLOP/s of its cores in 32 bits


@cache
def _values() -> dict[str, dict[str, Fact]]:
    found: dict[str, dict[str, Fact]] = {}
    for row in rows("gpus.csv"):
        found.setdefault(row["of"], {})[row["field"]] = fact_of(row)
    return found


def gpu(name: str) -> Gpu:
    """What software sees of the device called `name`, such as "H100 PCIe".

    A row of "H100 PCIe" counts before one of "H100", and that before the multiprocessors of another H100 among the
    chips.
    """
    known = device(name)
    alike = [chip.sms for chip in chips().values() if chip.device.split()[0] == known.name.split()[0]]
    own = {"multiprocessors": alike[0]} if alike else {}
    for of in sorted(_values(), key=len):
        own |= _values()[of] if known.name.startswith(of) else {}
    capability, link = own.get("capability"), re.match(r"NVLink(\d+)", known.link)
    return Gpu(
        device=known.name,
        capability=capability,
        multiprocessors=own.get("multiprocessors"),
        driver=_values().get(f"compute capability {capability}", {}).get("driver"),
        bridge_one_way=own.get("bridge_one_way"),
        port_one_way=own.get("port_one_way"),
        in_server=own.get("in_server"),
        fp32_flops=known.get("fp32_flops") or _of_the_cores(known.name),
        switch_adds=link is not None and int(link[1]) >= _values()["NVSwitch"]["adds_from"],
    )


def _of_the_cores(name: str) -> Fact | None:
    """The 32-bit peak of a chip from its cores and their clock; None where the facts have no such chip."""
    known = chips().get(name)
    if known is None:
        return None
    clock = known.core_hertz
    return Fact(known.fp32_flops, "FLOP/s", clock.source, clock.date, "two FLOP in a clock from each core")


def quickest_seconds(of: str) -> Fact:
    """The shortest published time of a small message between two processes ("process") or between GPUs ("NCCL")."""
    return _values()[of]["quickest_seconds"]


def eight_bit_capability() -> tuple[int, int]:
    """The compute capability of the first GPUs with 8-bit floating-point products."""
    major, minor = str(_values()["8-bit product"]["capability"]).split(".")
    return int(major), int(minor)


def fastest_core() -> Fact:
    """The clock of the fastest CPU core ever sold, in Hz."""
    return _values()["CPU core"]["clock"]
