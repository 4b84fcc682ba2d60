"""Rented machines: sound ones and ones with a fault, and the right verdict on each of their lines."""

import copy
import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from course_lib import facts
from course_lib.exercises.ch15.cards.links import RUNS, WORDS

HELD = 0x8 | 0x20 | 0x40 | 0x80
# reasons of a GPU at work: none, a set clock, the requested power, a group's common clock, a display's
HARMLESS = (0x0, 0x2, 0x4, 0x10, 0x100)
Machine = dict[str, Any]
Limits = Mapping[str, tuple[float, float]]
Row = tuple[Machine, int, Limits]  # the machine, GPUs of a tensor-parallel group, limits by line


# --- the right verdicts


def against(value: float | None, limits: tuple[float, float]) -> str:
    """The word for a value where larger is better."""
    sound, least = limits
    if value is None:
        return "degraded"
    return "healthy" if value >= sound else "degraded" if value >= least else "refuse"


def bus_share(machine: Machine) -> float | None:
    """Bus bandwidth of the all-reduce over one direction of a link."""
    done, ranks = machine["all_reduce"], len(machine["topology"])
    return done and 2 * (ranks - 1) / ranks * done["nbytes"] / done["seconds"] / machine["printed_link"]


def values(machine: Machine) -> dict[str, float | None]:
    """The values of the lines with limits."""
    copies = machine["copy"]
    return {
        "copy": None if None in copies else min(copies) / machine["printed_copy"],
        "all-reduce": bus_share(machine),
        "shared memory": machine["shared_memory"],
        "open files": math.inf if machine["open_files"] == -1 else machine["open_files"],
    }


def without_nvlink(machine: Machine) -> list[tuple[int, int]]:
    """Pairs of GPUs that are not joined by NVLink, the larger number first."""
    links = machine["topology"]
    return [(a, b) for a in range(len(links)) for b in range(a) if not links[a][b].startswith("NV")]


def links_of(machine: Machine, tp: int) -> str:
    """The word for links: groups are `tp` GPUs in a row."""
    apart = without_nvlink(machine)
    return "refuse" if any(a // tp == b // tp for a, b in apart) else "degraded" if apart else "healthy"


def reasons_of(machine: Machine) -> list[int]:
    """The reasons for each GPU's clock, as bits."""
    return [int(bits, 16) for bits in machine["reasons"]]


def lines_of(machine: Machine, tp: int, limits: Limits) -> dict[str, str]:
    """The right verdict on each line."""
    first, *others = machine["versions"]
    return {
        "versions": "refuse" if any(each != first for each in others) else "healthy",
        "clocks": "degraded" if any(bits & HELD for bits in reasons_of(machine)) else "healthy",
        "links": links_of(machine, tp),
        **{name: against(value, limits[name]) for name, value in values(machine).items()},
    }


def run_of(lines: Mapping[str, str]) -> str:
    """The verdict on the run."""
    return RUNS[max(lines.values(), key=WORDS.index)]


# --- machines


def sound(rng: random.Random, limits: Limits, ranks: int = 8, device: str = "H100 SXM", links: str = "NV18") -> Machine:
    """A machine without a fault: its GPUs are idle or busy, and as fast as such GPUs are."""
    sheet = facts.device(device)
    link, printed = float(sheet.link_one_way or 0), float(sheet.bandwidth)
    busy = rng.random() < 0.5
    nbytes = rng.choice((2**28, 2**30, 2**32))
    bus = link * limits["all-reduce"][0] * rng.uniform(1.2, 1.5)
    return {
        "versions": [{"torch": "2.9.1+cu128", "nccl": "2.27.7", "cuda": "12.8"} for _ in range(ranks)],
        "clocks": [(rng.choice((1755, 1830, 1980)) if busy else 345, 1980) for _ in range(ranks)],
        "reasons": [f"0x{rng.choice(HARMLESS if busy else (0x1,)):016x}" for _ in range(ranks)],
        "topology": [["X" if a == b else links for b in range(ranks)] for a in range(ranks)],
        "copy": [printed * limits["copy"][0] * rng.uniform(1.25, 1.6) for _ in range(ranks)],
        "printed_copy": printed,
        "all_reduce": {"nbytes": nbytes, "seconds": 2 * (ranks - 1) / ranks * nbytes / bus},
        "printed_link": link,
        "shared_memory": limits["shared memory"][0] * rng.choice((1, 2, 16)),
        "open_files": rng.choice((limits["open files"][0], 65536, 1_048_576, -1)),
    }


OTHER_VERSIONS = {"nccl": "2.27.5", "cuda": "12.6", "torch": "2.9.0+cu128"}


def _versions(row: Row, rng: random.Random) -> None:
    name = rng.choice(("nccl", "cuda", "torch"))
    rng.choice(row[0]["versions"])[name] = OTHER_VERSIONS[name]


def _hot(row: Row, rng: random.Random) -> None:
    place = rng.randrange(len(row[0]["reasons"]))
    bits = rng.choice((0x8, 0x20, 0x40, 0x80, 0x48)) | rng.choice((0x0, 0x1, 0x4))
    row[0]["reasons"][place], row[0]["clocks"][place] = f"0x{bits:016x}", (rng.choice((1200, 1755, 1980)), 1980)


def _cut(row: Row, rng: random.Random, inside: bool) -> None:
    """One pair of a group, or all pairs across groups, without NVLink; not neighbors where others exist."""
    (machine, tp, _), word = row, rng.choice(("SYS", "NODE", "PHB", "PXB", "PIX"))
    links = machine["topology"]
    pairs = [(a, b) for a in range(len(links)) for b in range(a) if (a // tp == b // tp) == inside]
    pairs = [(a, b) for a, b in pairs if a - b > 1 or (inside and tp == 2)]
    for a, b in [rng.choice(pairs)] if inside and pairs else pairs:
        links[a][b] = links[b][a] = word


def _slow_copy(row: Row, rng: random.Random, low: float, high: float) -> None:
    machine, _, limits = row
    place = rng.randrange(len(machine["copy"]))
    machine["copy"][place] = machine["printed_copy"] * limits["copy"][0] * rng.uniform(low, high)


def _slow_links(row: Row, rng: random.Random, low: float, high: float) -> None:
    machine, _, limits = row
    if machine["all_reduce"]:
        machine["all_reduce"]["seconds"] *= bus_share(machine) / limits["all-reduce"][0] / rng.uniform(low, high)


def _unknown(row: Row, rng: random.Random) -> None:
    if rng.random() < 0.5:
        row[0]["all_reduce"] = None
    else:
        row[0]["copy"][rng.randrange(len(row[0]["copy"]))] = None


def _little(row: Row, rng: random.Random, line: str, limit: int) -> None:
    row[0][line.replace(" ", "_")] = int(row[2][line][limit] * rng.choice((0.3, 0.9)))


FAULTS: dict[str, Callable[[Row, random.Random], None]] = {
    "a rank with another version": _versions,
    "a GPU held down": _hot,
    "a pair of one group without NVLink": partial(_cut, inside=True),
    "groups without NVLink between them": partial(_cut, inside=False),
    "one GPU that copies slowly": partial(_slow_copy, low=0.7, high=0.9),
    "one GPU that hardly copies": partial(_slow_copy, low=0.2, high=0.4),
    "a slow all-reduce": partial(_slow_links, low=0.9, high=0.97),  # half of it is refused, four sevenths are not
    "an all-reduce that crawls": partial(_slow_links, low=0.1, high=0.4),
    "something not measured": _unknown,
    "little shared memory": partial(_little, line="shared memory", limit=0),
    "hardly any shared memory": partial(_little, line="shared memory", limit=1),
    "few open files": partial(_little, line="open files", limit=0),
    "hardly any open files": partial(_little, line="open files", limit=1),
}


def machine(names: Sequence[str], rng: random.Random, tp: int, limits: Limits, ranks: int = 8) -> Row:
    """A row with these faults."""
    row = sound(rng, limits, ranks), tp, copy.deepcopy(dict(limits))
    for name in names:
        FAULTS[name](row, rng)
    return row


def one_by_one(limits: Limits, rng: random.Random) -> list[Row]:
    """Every version that may differ, every reason of a clock, other NVLinks, values on both sides of their limits and at them."""
    rows: list[Row] = []

    def another(links: str = "NV18") -> Machine:
        rows.append((sound(rng, limits, links=links), 2, copy.deepcopy(dict(limits))))
        return rows[-1][0]

    for links in ("NV18", "NV12", "NV4"):
        another(links)
    for name, version in (("torch", "2.9.1+cu126"), ("torch", "2.9.0+cu128"), ("nccl", "2.27.5"), ("cuda", "12.6")):
        another()["versions"][rng.randrange(2, 8)][name] = version
    for bit in (*HARMLESS, 0x8, 0x20, 0x40, 0x80):
        another()["reasons"] = ["0x0000000000000000"] * 7 + [f"0x{bit:016x}"]
    for share in (1.02, 0.98, 0.52, 0.48):
        made = another()
        made["all_reduce"]["seconds"] *= bus_share(made) / (share * limits["all-reduce"][0])
    for line, key in (("shared memory", "shared_memory"), ("open files", "open_files")):
        for value in limits[line]:
            another()[key] = value
    return rows


def drawn_limits(rng: random.Random) -> dict[str, tuple[float, float]]:
    """Limits of another machine."""
    copied, bus = rng.choice((0.5, 0.55, 0.6)), rng.choice((0.45, 0.5, 0.6))
    system = {"shared memory": (2e9, 1e8), "open files": (8192, 1024)}
    return {"copy": (copied, copied / 2), "all-reduce": (bus, bus / 2), **system}
