"""Machines as a verdict is asked about them: sound ones, ones with something wrong, and what is right to say of each line."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_lib import facts
from course_lib.exercises.ch15.cards.links import RUNS, WORDS

HELD = 0x8 | 0x20 | 0x40 | 0x80
HARMLESS = (
    0x0,
    0x2,
    0x4,
    0x10,
    0x100,
)  # of a GPU at work: nothing, a set clock, the power that was asked for, a group's common clock, a display's
Machine = dict[str, Any]
Row = tuple[Machine, int, Mapping[str, tuple[float, float]]]


def against(value: float | None, limits: tuple[float, float]) -> str:
    """The word for a value where larger is better."""
    sound, least = limits
    if value is None:
        return "degraded"
    return "healthy" if value >= sound else "degraded" if value >= least else "refuse"


def bus_share(machine: Machine) -> float | None:
    """Bus bandwidth of the all-reduce over one way of a link."""
    done, ranks = machine["all_reduce"], len(machine["topology"])
    return done and 2 * (ranks - 1) / ranks * done["nbytes"] / done["seconds"] / machine["printed_link"]


def values(machine: Machine) -> dict[str, float | None]:
    """What the lines with limits are about."""
    copies = machine["copy"]
    return {
        "copy": None if None in copies else min(copies) / machine["printed_copy"],
        "all-reduce": bus_share(machine),
        "shared memory": machine["shared_memory"],
        "open files": math.inf if machine["open_files"] == -1 else machine["open_files"],
    }


def links_of(machine: Machine, tp: int) -> str:
    """The word for links: groups are `tp` GPUs in a row."""
    found = machine["topology"]
    apart = [(a, b) for a in range(len(found)) for b in range(a) if not found[a][b].startswith("NV")]
    return "refuse" if any(a // tp == b // tp for a, b in apart) else "degraded" if apart else "healthy"


def lines_of(machine: Machine, tp: int, limits: Mapping[str, tuple[float, float]]) -> dict[str, str]:
    """The right verdict on each line."""
    first, *others = machine["versions"]
    held = any(int(bits, 16) & HELD for bits in machine["reasons"])
    said = {name: against(value, limits[name]) for name, value in values(machine).items()}
    return {
        "versions": "refuse" if any(each != first for each in others) else "healthy",
        "clocks": "degraded" if held else "healthy",
        "links": links_of(machine, tp),
        **said,
    }


def run_of(lines: Mapping[str, str]) -> str:
    """The verdict on the run."""
    return RUNS[max(lines.values(), key=WORDS.index)]


# --- machines


def sound(
    rng: random.Random,
    limits: Mapping[str, tuple[float, float]],
    ranks: int = 8,
    device: str = "H100 SXM",
    links: str = "NV18",
) -> Machine:
    """A machine with nothing wrong: its GPUs idle or work, and do what such GPUs do."""
    sheet = facts.device(device)
    link, printed = float(sheet.link_one_way or 0), float(sheet.bandwidth)
    share, busy = limits["all-reduce"][0], rng.random() < 0.5
    nbytes = rng.choice((2**28, 2**30, 2**32))
    bus = link * share * rng.uniform(1.2, 1.5)
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


def _versions(machine: Machine, rng: random.Random, row: Row) -> None:
    name = rng.choice(("nccl", "cuda", "torch"))
    machine["versions"][rng.randrange(len(machine["versions"]))][name] = {
        "nccl": "2.27.5",
        "cuda": "12.6",
        "torch": "2.9.0+cu128",
    }[name]


def _hot(machine: Machine, rng: random.Random, row: Row) -> None:
    place = rng.randrange(len(machine["reasons"]))
    machine["reasons"][place] = f"0x{rng.choice((0x8, 0x20, 0x40, 0x80, 0x48)) | rng.choice((0x0, 0x1, 0x4)):016x}"
    machine["clocks"][place] = (rng.choice((1200, 1755, 1980)), 1980)


def _cut(inside: bool) -> Callable[[Machine, random.Random, Row], None]:
    def apart(machine: Machine, rng: random.Random, row: Row) -> None:
        links, tp = machine["topology"], row[1]
        word = rng.choice(("SYS", "NODE", "PHB", "PXB", "PIX"))
        near_ones = inside and tp == 2  # otherwise a look at neighbours alone must not do
        pairs = [
            (a, b)
            for a in range(len(links))
            for b in range(a)
            if (near_ones or a - b > 1) and (a // tp == b // tp) == inside
        ]
        chosen = [rng.choice(pairs)] if inside and pairs else pairs
        for a, b in chosen:
            links[a][b] = links[b][a] = word

    return apart


def _slow_copy(low: float, high: float) -> Callable[[Machine, random.Random, Row], None]:
    def slow(machine: Machine, rng: random.Random, row: Row) -> None:
        machine["copy"][rng.randrange(len(machine["copy"]))] = (
            machine["printed_copy"] * row[2]["copy"][0] * rng.uniform(low, high)
        )

    return slow


def _slow_links(low: float, high: float) -> Callable[[Machine, random.Random, Row], None]:
    def slow(machine: Machine, rng: random.Random, row: Row) -> None:
        if machine["all_reduce"]:
            machine["all_reduce"]["seconds"] *= bus_share(machine) / row[2]["all-reduce"][0] / rng.uniform(low, high)

    return slow


def _unknown(machine: Machine, rng: random.Random, row: Row) -> None:
    if rng.random() < 0.5:
        machine["all_reduce"] = None
    else:
        machine["copy"][rng.randrange(len(machine["copy"]))] = None


def _little(name: str, place: int) -> Callable[[Machine, random.Random, Row], None]:
    def little(machine: Machine, rng: random.Random, row: Row) -> None:
        machine[name.replace(" ", "_")] = int(row[2][name][place] * rng.choice((0.3, 0.9)))

    return little


FAULTS: dict[str, Callable[[Machine, random.Random, Row], None]] = {
    "a rank with another version": _versions,
    "a GPU held down": _hot,
    "a pair of one group without NVLink": _cut(inside=True),
    "groups without NVLink between them": _cut(inside=False),
    "one GPU that copies slowly": _slow_copy(0.7, 0.9),
    "one GPU that hardly copies": _slow_copy(0.2, 0.4),
    "a slow all-reduce": _slow_links(0.9, 0.97),  # so that half of it is refused, and four sevenths are not
    "an all-reduce that crawls": _slow_links(0.1, 0.4),
    "something not measured": _unknown,
    "little shared memory": _little("shared memory", 0),
    "hardly any shared memory": _little("shared memory", 1),
    "few open files": _little("open files", 0),
    "hardly any open files": _little("open files", 1),
}


def machine(
    names: Sequence[str], rng: random.Random, tp: int, limits: Mapping[str, tuple[float, float]], ranks: int = 8
) -> Row:
    """A row with these faults."""
    made = sound(rng, limits, ranks)
    row = made, tp, copy.deepcopy(dict(limits))
    for name in names:
        FAULTS[name](made, rng, row)
    return row


def one_by_one(limits: Mapping[str, tuple[float, float]], rng: random.Random) -> list[Row]:
    """Machines with every version that may differ, every reason of a clock, other numbers of NVLinks, and an all-reduce at either side of a limit."""

    def row(links: str = "NV18") -> Row:
        return sound(rng, limits, links=links), 2, copy.deepcopy(dict(limits))

    found = [row(), row("NV12"), row("NV4")]
    for name, version in (("torch", "2.9.1+cu126"), ("torch", "2.9.0+cu128"), ("nccl", "2.27.5"), ("cuda", "12.6")):
        found.append(row())
        found[-1][0]["versions"][rng.randrange(2, 8)][name] = version
    for bit in (*HARMLESS, 0x8, 0x20, 0x40, 0x80):
        found.append(row())
        found[-1][0]["reasons"] = ["0x0000000000000000"] * 7 + [f"0x{bit:016x}"]
    for share in (1.02, 0.98, 0.52, 0.48):
        found.append(row())
        found[-1][0]["all_reduce"]["seconds"] *= bus_share(found[-1][0]) / (share * limits["all-reduce"][0])
    return found


def drawn_limits(rng: random.Random) -> dict[str, tuple[float, float]]:
    """Limits of another machine."""
    copied, bus = rng.choice((0.5, 0.55, 0.6)), rng.choice((0.45, 0.5, 0.6))
    return {
        "copy": (copied, copied / 2),
        "all-reduce": (bus, bus / 2),
        "shared memory": (2e9, 1e8),
        "open files": (8192, 1024),
    }
