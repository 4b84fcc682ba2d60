"""Rented machines: sound ones and ones with a fault, and the right verdict on each of their lines."""

import copy
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from course_lib import facts
from course_lib.collectives import bus_bandwidth
from course_lib.exercises.ch15.cards.links import PREFLIGHT, RUNS, WORDS, limits_of

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
    return done and bus_bandwidth("all_reduce", done["nbytes"], done["seconds"], ranks) / machine["printed_link"]


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


def reasons_of(machine: Machine) -> list[int]:
    """The reasons for each GPU's clock, as bits."""
    return [int(bits, 16) for bits in machine["reasons"]]


def lines_of(machine: Machine, tp: int, limits: Limits, held: int = HELD) -> dict[str, str]:
    """The right verdict on each line; `held` are the reasons that slow a GPU."""
    first, *others = machine["versions"]
    apart = without_nvlink(machine)
    return {
        "versions": "refuse" if any(each != first for each in others) else "healthy",
        "clocks": "degraded" if any(bits & held for bits in reasons_of(machine)) else "healthy",
        "links": "refuse" if any(a // tp == b // tp for a, b in apart) else "degraded" if apart else "healthy",
        **{name: against(value, limits[name]) for name, value in values(machine).items()},
    }


def run_of(lines: Mapping[str, str]) -> str:
    """The verdict on the run."""
    return RUNS[max(lines.values(), key=WORDS.index)]


# --- machines

SAME = {"torch": "2.9.1+cu128", "nccl": "2.27.7", "cuda": "12.8"}
OTHER_VERSIONS = (("nccl", "2.27.5"), ("cuda", "12.6"), ("torch", "2.9.0+cu128"), ("torch", "2.9.1+cu126"))
SYSTEM = {"shared memory": "shared_memory", "open files": "open_files"}


def sound(rng: random.Random, limits: Limits, ranks: int = 8, links: str = "NV18") -> Machine:
    """A machine without a fault: its GPUs are idle or busy, and as fast as such GPUs are."""
    sheet = facts.device("H100 SXM")
    link, printed = float(sheet.link_one_way or 0), float(sheet.bandwidth)
    busy = rng.random() < 0.5
    nbytes = rng.choice((2**28, 2**30, 2**32))
    bus = link * limits["all-reduce"][0] * rng.uniform(1.2, 1.5)
    return {
        "versions": [dict(SAME) for _ in range(ranks)],
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


def _cut(machine: Machine, tp: int, rng: random.Random, inside: bool) -> Machine:
    """One pair of a group, or all pairs across groups, without NVLink; not neighbors where others exist."""
    word, links = rng.choice(("SYS", "NODE", "PHB", "PXB", "PIX")), copy.deepcopy(machine["topology"])
    pairs = [(a, b) for a in range(len(links)) for b in range(a) if (a // tp == b // tp) == inside]
    pairs = [(a, b) for a, b in pairs if a - b > 1 or (inside and tp == 2)]
    for a, b in [rng.choice(pairs)] if inside and pairs else pairs:
        links[a][b] = links[b][a] = word
    return {"topology": links}


def faults(machine: Machine, tp: int, limits: Limits, rng: random.Random) -> dict[str, Machine]:
    """What each fault changes of a machine."""
    place = rng.randrange(len(machine["topology"]))

    def one(key: str, value: Any) -> Machine:
        """One GPU with another value."""
        return {key: [*machine[key][:place], value, *machine[key][place + 1 :]]}

    def copies(low: float, high: float) -> Machine:
        return one("copy", machine["printed_copy"] * limits["copy"][0] * rng.uniform(low, high))

    def little(line: str, limit: int) -> Machine:
        return {SYSTEM[line]: int(limits[line][limit] * rng.choice((0.3, 0.9)))}

    bits = rng.choice((0x8, 0x20, 0x40, 0x80, 0x48)) | rng.choice((0x0, 0x1, 0x4))
    clock = one("clocks", (rng.choice((1200, 1755, 1980)), 1980))
    return {
        "a rank with another NCCL or CUDA": one("versions", SAME | dict([rng.choice(OTHER_VERSIONS[:2])])),
        "a rank with another torch": one("versions", SAME | dict([OTHER_VERSIONS[2]])),
        "a GPU held down": {**one("reasons", f"0x{bits:016x}"), **clock},
        "a pair of one group without NVLink": _cut(machine, tp, rng, inside=True),
        "groups without NVLink between them": _cut(machine, tp, rng, inside=False),
        "one GPU that copies slowly": copies(0.7, 0.9),
        "one GPU that hardly copies": copies(0.2, 0.4),
        "a slow all-reduce": at_share(machine, limits, rng.uniform(0.9, 0.97)),  # a half of it is refused, 4/7 are not
        "an all-reduce that crawls": at_share(machine, limits, rng.uniform(0.1, 0.4)),
        "something not measured": rng.choice(({"all_reduce": None}, one("copy", None))),
        "little shared memory": little("shared memory", 0),
        "hardly any shared memory": little("shared memory", 1),
        "few open files": little("open files", 0),
        "hardly any open files": little("open files", 1),
    }


def at_share(machine: Machine, limits: Limits, share: float) -> Machine:
    """An all-reduce, if there is one, at this share of the bandwidth that is just healthy."""
    done, has = machine["all_reduce"], bus_share(machine)
    return {"all_reduce": done and done | {"seconds": done["seconds"] * has / limits["all-reduce"][0] / share}}


SHOWN: Limits = PREFLIGHT.params["limits"]
FAULTS = tuple(faults(sound(random.Random(0), SHOWN), 2, SHOWN, random.Random(0)))


def machine(names: Sequence[str], rng: random.Random, tp: int, limits: Limits, ranks: int = 8) -> Row:
    """A row with these faults."""
    made = sound(rng, limits, ranks)
    for name in names:
        made |= faults(made, tp, limits, rng)[name]
    return made, tp, limits


def one_by_one(limits: Limits, rng: random.Random) -> list[Row]:
    """Every version that may differ, every reason of a clock, other NVLinks, values on both sides of their limits and at them."""
    changes: list[Machine] = []
    for other in OTHER_VERSIONS:
        place = rng.randrange(2, 8)
        changes.append({"versions": [SAME | dict([other] if rank == place else []) for rank in range(8)]})
    for bits in (*HARMLESS, 0x8, 0x20, 0x40, 0x80):
        changes.append({"reasons": ["0x0000000000000000"] * 7 + [f"0x{bits:016x}"]})
    changes += [{key: value} for line, key in SYSTEM.items() for value in limits[line]]
    changes += [at_share(sound(rng, limits), limits, share) for share in (1.02, 0.98, 0.52, 0.48)]
    made = [sound(rng, limits) | change for change in changes]
    return [(each, 2, limits) for each in (*made, sound(rng, limits, links="NV12"), sound(rng, limits, links="NV4"))]


def drawn_limits(rng: random.Random) -> Limits:
    """Limits of another machine, with other ratios than the shown ones."""
    limits = limits_of(rng.choice((0.5, 0.55, 0.6)), rng.choice((0.45, 0.5, 0.6)), 2e9, 8192)
    return limits | {"shared memory": (2e9, 1e8), "open files": (8192, 1024)}
