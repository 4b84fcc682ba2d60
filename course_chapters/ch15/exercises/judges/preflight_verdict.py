import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from course_chapters.ch15.exercises.preflight_verdict import CARD, LINES, RUNS, WORDS, limits_of
from course_grader.judging import Fault, Judging, Params, Random, Word, Worked, Wrong, first, generality, verdict
from course_grader.records import Case, Outcome, Verdict
from course_lib.estimate import facts

SYSTEM = ("shared memory", "open files")
SLOWING = (0x8, 0x20, 0x40, 0x80)
# reasons of a GPU at work: none, a set clock, the requested power, a group's common clock, a display's
HARMLESS = (0x0, 0x2, 0x4, 0x10, 0x100)
SAME = {"torch": "2.9.1+cu128", "nccl": "2.27.7", "cuda": "12.8"}
OTHER_VERSIONS = (("nccl", "2.27.5"), ("cuda", "12.6"), ("torch", "2.9.0+cu128"), ("torch", "2.9.1+cu126"))
Machine = dict[str, Any]
Limits = dict[str, tuple[float, float]]
Row = tuple[Machine, int, Limits]  # the machine, GPUs of a tensor-parallel group, limits by line
right = Worked("preflight-verdict")


def sound(rng: Random, limits: Limits, ranks: int = 8, links: str = "NV18") -> Machine:
    """A machine without a fault: its GPUs are idle or busy, and as fast as such GPUs are."""
    sheet = facts.device("H100 SXM")
    printed, busy = float(sheet.bandwidth), rng.random() < 0.5
    machine = {
        "versions": [dict(SAME) for _ in range(ranks)],
        "clocks": [(rng.choice((1755, 1830, 1980)) if busy else rng.choice((120, 345)), 1980) for _ in range(ranks)],
        "reasons": [f"0x{rng.choice(HARMLESS if busy else (0x1,)):016x}" for _ in range(ranks)],
        "topology": [["X" if a == b else links for b in range(ranks)] for a in range(ranks)],
        "copy": [printed * limits["copy"][0] * rng.uniform(1.25, 1.6) for _ in range(ranks)],
        "printed_copy": printed,
        "printed_link": float(sheet.get("link_one_way") or 0),
        "shared_memory": limits["shared memory"][0] * rng.choice((1, 2, 16)),
        "open_files": rng.choice((limits["open files"][0], 65536, 1_048_576, -1)),
    }
    return machine | all_reduce(machine, limits, rng, 1.2, 1.5)


def all_reduce(machine: Machine, limits: Limits, rng: Random, low: float, high: float) -> Machine:
    """An all-reduce at a share of the bandwidth that is just healthy."""
    ranks, nbytes = len(machine["topology"]), rng.choice((2**28, 2**30, 2**32))
    bus = machine["printed_link"] * limits["all-reduce"][0] * rng.uniform(low, high)
    return {"all_reduce": {"nbytes": nbytes, "seconds": 2 * (ranks - 1) / ranks * nbytes / bus}}


def _cut(machine: Machine, tp: int, rng: Random, inside: bool) -> Machine:
    """One pair of a group, or all pairs across groups, without NVLink; not neighbors where others exist."""
    word, links = rng.choice(("SYS", "NODE", "PHB", "PXB", "PIX")), copy.deepcopy(machine["topology"])
    pairs = [(a, b) for a in range(len(links)) for b in range(a) if (a // tp == b // tp) == inside]
    pairs = [(a, b) for a, b in pairs if a - b > 1 or (inside and tp == 2)]
    for a, b in [rng.choice(pairs)] if inside and pairs else pairs:
        links[a][b] = links[b][a] = word
    return {"topology": links}


def _field(line: str) -> str:
    """Where the machine reports what a line is about."""
    return {"clocks": "reasons", "links": "topology"}.get(line, line.replace(" ", "_").replace("-", "_"))


def faults(machine: Machine, tp: int, limits: Limits, rng: Random) -> list[tuple[str, str, Machine]]:
    """Each fault: the line that it is on, "" where that is drawn, the line's verdict, and what the machine reports."""
    place = rng.randrange(len(machine["topology"]))

    def one(key: str, value: object) -> Machine:
        return {key: [*machine[key][:place], value, *machine[key][place + 1 :]]}

    def copies(low: float, high: float) -> Machine:
        return one("copy", machine["printed_copy"] * limits["copy"][0] * rng.uniform(low, high))

    def little(line: str, limit: int) -> Machine:
        return {_field(line): int(limits[line][limit] * rng.choice((0.3, 0.9)))}

    bits = rng.choice((*SLOWING, 0x48)) | rng.choice((0x0, 0x1, 0x4))
    clock = one("clocks", (rng.choice((1200, 1755, 1980)), 1980))
    reduced = partial(all_reduce, machine, limits, rng)
    return [
        ("versions", "refuse", one("versions", SAME | dict([rng.choice(OTHER_VERSIONS[:2])]))),
        ("versions", "refuse", one("versions", SAME | dict([OTHER_VERSIONS[2]]))),
        ("clocks", "degraded", one("reasons", f"0x{bits:016x}") | clock),
        ("links", "refuse", _cut(machine, tp, rng, inside=True)),
        ("links", "degraded", _cut(machine, tp, rng, inside=False)),
        ("copy", "degraded", copies(0.7, 0.9)),
        ("copy", "refuse", copies(0.2, 0.4)),
        ("all-reduce", "degraded", reduced(0.9, 0.97)),  # a half of it is refused, 4/7 are not
        ("all-reduce", "refuse", reduced(0.1, 0.4)),
        ("", "degraded", rng.choice(({"all_reduce": None}, one("copy", None)))),  # not measured
        *((line, word, little(line, at)) for line in SYSTEM for at, word in enumerate(WORDS[1:])),
    ]


SHOWN: Limits = CARD.params["limits"]
FAULTS = [fault[:2] for fault in faults(sound(Random(0), SHOWN), 2, SHOWN, Random(0))]


def machine(places: Sequence[int], rng: Random, tp: int, limits: Limits, ranks: int = 8) -> Row:
    """A machine with the faults at these places of the list."""
    made = sound(rng, limits, ranks)
    for place in places:
        made |= faults(made, tp, limits, rng)[place][2]
    return made, tp, limits


def _one_by_one(limits: Limits, rng: Random) -> list[Row]:
    """Every version that may differ, every reason of a clock, other NVLinks, values on both sides of their limits and
    at them."""
    changes: list[Machine] = []
    for other in OTHER_VERSIONS:
        place = rng.randrange(2, 8)
        changes.append({"versions": [SAME | dict([other] if rank == place else []) for rank in range(8)]})
    changes += [{"reasons": ["0x0000000000000000"] * 7 + [f"0x{bits:016x}"]} for bits in HARMLESS + SLOWING]
    for line in SYSTEM:
        changes += [{_field(line): value} for value in (*limits[line], int(1.5 * limits[line][1]))]
    changes += [all_reduce(sound(rng, limits), limits, rng, share, share) for share in (1.02, 0.98, 0.52, 0.48)]
    made = [sound(rng, limits) | change for change in changes]
    return [(each, 2, limits) for each in (*made, sound(rng, limits, links="NV12"), sound(rng, limits, links="NV6"))]


def _limits(rng: Random) -> Limits:
    limits = limits_of(rng.choice((0.5, 0.55, 0.6)), rng.choice((0.45, 0.5, 0.6)), 2e9, 8192)
    return limits | {"shared memory": (2e9, 1e8), "open files": (8192, 1024)}


def _cases(params: Params, rng: Random) -> list[Case]:
    tp, limits = params["tp"], params["limits"]
    shown = [machine(places, rng, tp, limits) for places in ((), *[(at,) for at in range(len(FAULTS))])]
    unseen = []
    for _ in range(80):
        places = rng.sample(range(len(FAULTS)), rng.choice((0, 1, 1, 1, 2, 3)))
        unseen.append(machine(places, rng, rng.choice((1, 2, 3, 4, 8)), _limits(rng), rng.choice((2, 4, 8, 16))))
    unseen += _one_by_one(_limits(rng), rng)
    odd = sound(rng, limits, 16) | {"open_files": limits["open files"][1]}  # the answer depends on groups and limits
    odd["copy"][:2] = None, 1.0
    for a, b in ((0, 1), (2, 7), (8, 15)):  # without NVLink inside a group first, then between groups of four
        odd["topology"][a][b] = odd["topology"][b][a] = "SYS"
    unseen += [(odd, each, limits) for each in (1, 4, 8)] + [(odd, 4, _limits(rng) | {"open files": (1, 0)})]
    unseen += [machine([FAULTS.index((line, "degraded"))], rng, 2, limits, 2) for line in ("all-reduce", "clocks")]
    return [Case(name="eight GPUs", args=(0, shown)), generality("lines", 0, "other machines", unseen)]


SHARES = {"copy": "rates", "all-reduce": "rates"} | dict.fromkeys(SYSTEM, "system")  # others: the line


def _values(reported: object) -> list[str]:
    """Every value of nested lists and dictionaries."""
    if isinstance(reported, list | dict):
        parts = reported.values() if isinstance(reported, dict) else reported
        return [value for part in parts for value in _values(part)]
    return [f"{reported:.4g}" if isinstance(reported, float) else str(reported)]


def _seen(line: str, want: Mapping[str, str], machine: Machine, tp: int, limits: Limits) -> str:
    """What the machine reports on a line, each value once."""
    if line == "run":
        return f"the worst line is {max((want[each] for each in LINES), key=WORDS.index)!r}"
    more = f", groups of {tp}" if line == "links" else f", with the limits {limits[line]}" if line in limits else ""
    return f"{line}: {' '.join(dict.fromkeys(_values(machine[_field(line)])))}{more}"


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    wants, said = ([{**lines, "run": run} for lines, run in found] for found in (right.value(case), outcome.value))
    rows = [(want, *row) for want, row in zip(wants, case.args[1], strict=True)]
    faults: dict[str, list[Fault | None]] = {}
    for line in (*LINES, "run"):
        words, choices = partial(_seen, line), tuple(RUNS.values()) if line == "run" else WORDS
        column = Word(line, choices, want=lambda want, *_, line=line: want[line], words=words)
        asked = replace(case, name=f"{case.name}, {line}", args=(0, rows))
        fault = column.fault(asked, [each.get(line) for each in said])
        share = "lines" if case.kind == "generality" and line != "run" else SHARES.get(line, line)
        found = fault and Wrong(*fault)._replace(where=(1,) if line == "run" else (0, line))
        faults.setdefault(share, []).append(found)
    return [verdict(case.kind, part, case, first(*found)) for part, found in faults.items()]


JUDGING = Judging(
    shares="values:versions 0.08, values:clocks 0.1, values:links 0.12, values:rates 0.14, values:system 0.08, "
    "values:run 0.08, generality:lines 0.3, generality:run 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="""A step ends when the slowest rank has finished, so the worst GPU decides, never the mean. A low clock is not
a fault by itself; ask for its reason. The placement of groups decides what a missing link costs. And what was not
measured is not good news: it is degraded until somebody measures it.""",
    pytorch="""`nvidia-smi topo -m`, `nvidia-smi --query-gpu=clocks_event_reasons.active`, nccl-tests'
`all_reduce_perf`, and DCGM's `dcgmi diag -r 2`. `./course run tour` begins with the same questions.""",
)

ANSWERS = r'''# %% right: worked
SLOWED = 0x8 | 0x20 | 0x40 | 0x80  # by the hardware, by heat (driver, hardware), by the power brake


def preflight(machine: dict, tp: int, limits: dict) -> tuple[dict[str, str], str]:
    """({line: "healthy", "degraded" or "refuse"}, "go", "with care" or "no-go")."""

    def against(name, value):
        sound, least = limits[name]
        return "degraded" if value is None or least <= value < sound else "healthy" if value >= sound else "refuse"

    links, copies, sum_of = machine["topology"], machine["copy"], machine["all_reduce"]
    n, files = len(links), machine["open_files"]
    apart = [(a, b) for a in range(n) for b in range(a) if not links[a][b].startswith("NV")]
    bus = sum_of and 2 * (n - 1) / n * sum_of["nbytes"] / sum_of["seconds"] / machine["printed_link"]
    lines = {
        "versions": "healthy" if all(rank == machine["versions"][0] for rank in machine["versions"]) else "refuse",
        "clocks": "degraded" if any(int(bits, 16) & SLOWED for bits in machine["reasons"]) else "healthy",
        "links": "refuse" if any(a // tp == b // tp for a, b in apart) else "degraded" if apart else "healthy",
        "copy": against("copy", None if None in copies else min(copies) / machine["printed_copy"]),
        "all-reduce": against("all-reduce", bus),
        "shared memory": against("shared memory", machine["shared_memory"]),
        "open files": against("open files", math.inf if files == -1 else files),
    }
    worst = next((word for word in ("refuse", "degraded") if word in lines.values()), "healthy")
    return lines, {"refuse": "no-go", "degraded": "with care", "healthy": "go"}[worst]
# %% right: penalties in numbers, the words at the end
# ~ return "degraded" if value is None or least <= value < sound else "healthy" if value >= sound else "refuse"
# ~~ ==> return ("healthy", "degraded", "refuse")[1 if value is None else sum(value < limit for limit in limits[name])]
# ~ for b in range(a) if not links[a][b].startswith("NV") ==> for b in range(n) if a != b and links[a][b][:2] != "NV"
# ~ all(rank == machine["versions"][0] for rank in machine["versions"])
# ~~ ==> len({tuple(sorted(each.items())) for each in machine["versions"]}) == 1
# ~ int(bits, 16) & SLOWED for bits in machine["reasons"]
# ~~ ==> int(bits, 0) & 1 << place for bits in machine["reasons"] for place in (3, 5, 6, 7)
# ~ math.inf if files == -1 else files ==> 10**12 if files < 0 else files
# ~ {"refuse": "no-go", "degraded": "with care", "healthy": "go"}[worst]
# ~~ ==> ("go", "with care", "no-go")[max(("healthy", "degraded", "refuse").index(word) for word in lines.values())]
# %% wrong: every machine is fine => values always-the-same
# ~ lines, {"refuse": "no-go", "degraded": "with care", "healthy": "go"}[worst]
# ~~ ==> dict.fromkeys(lines, "healthy"), "go"
# %% wrong: torch alone is compared => values torch-alone
# > is torch all that two ranks must have in common?
# ~ rank == machine["versions"][0] ==> rank["torch"] == machine["versions"][0]["torch"]
# %% wrong: the first two ranks are compared => values first-two
# > compare all ranks.
# ~ for rank in machine["versions"]) ==> for rank in machine["versions"][:2])
# %% wrong: versions without CUDA => values cuda-forgotten
# > the versions of CUDA must agree too.
# ~ rank == machine["versions"][0] ==> rank | {"cuda": 0} == machine["versions"][0] | {"cuda": 0}
# %% wrong: versions without what follows the plus => generality
# > compare versions to the last digit, also what follows the plus.
#       n, files = len(links), machine["open_files"]
# +     machine = machine | {"versions": [each | {"torch": each["torch"].split("+")[0]} for each in
# ~~ machine["versions"]]}
# %% wrong: any reason for a clock is bad news => values idle-is-no-fault
# > which reasons are harmless?
# ~ int(bits, 16) & SLOWED ==> int(bits, 16)
# %% wrong: the brake is forgotten => values
# > the power brake, bit 0x80, slows a GPU too.
# ~ | 0x40 | 0x80 ==> | 0x40
# %% wrong: a limit of the power is a fault => values power-limit
# > bit 0x4, a limit of the power, is harmless.
# ~ = 0x8 | ==> = 0x4 | 0x8 |
# %% wrong: a low clock is an ill GPU => values low-clock
# > an idle GPU has a low clock too: ask for the reason of the clock.
# ~ int(bits, 16) & SLOWED for bits in machine["reasons"] ==> now < 0.6 * most for now, most in machine["clocks"]
# %% wrong: the clock of the first GPU => values first-gpu
# > look at all GPUs.
# ~ for bits in machine["reasons"] ==> for bits in machine["reasons"][:1]
# %% wrong: every missing link refuses => values whole-machine
# > is the pair in one group?
# ~ any(a // tp == b // tp for a, b in apart) ==> apart
# %% wrong: groups are not looked at => values groups-forgotten
# > two GPUs of one group lack NVLink.
# ~ any(a // tp == b // tp for a, b in apart) ==> False
# %% wrong: a group is what is near => values near-is-a-group
# > groups are `tp` in a row from GPU 0 on; this joins GPUs of two groups that are near.
# ~ a // tp == b // tp ==> a - b < tp
# %% wrong: the diagonal is a missing link => values diagonal
# > the diagonal of the matrix says X: a GPU and itself.
# ~ for b in range(a) ==> for b in range(n)
# %% wrong: neighbors only => values
# > look at all pairs, not only at neighbors.
# ~ for b in range(a) ==> for b in range(max(a - 1, 0), a)
# %% wrong: only eighteen links are NVLink => generality
# > every `NV…` is NVLink, however many links it has.
# ~ if not links[a][b].startswith("NV") ==> if links[a][b] != "NV18"
# %% wrong: the mean of the copies => values mean
# > the mean hides the GPU that all others wait for.
# ~ min(copies) ==> sum(copies) / len(copies)
# %% wrong: what was not measured is fine => values unmeasured
# > what was not measured is not healthy.
# ~ "degraded" if value is None or least ==> "healthy" if value is None else "degraded" if least
# %% wrong: the other GPUs were measured => values unmeasured
# ~ None if None in copies else min(copies) ==> min(one for one in copies if one)
# %% wrong: what was not measured is refused => values unmeasured-refused
# > what was not measured is not refused.
# ~ "degraded" if value is None or least ==> "refuse" if value is None else "degraded" if least
# %% wrong: bytes over seconds for bus bandwidth => values algorithm-bandwidth
# > this is the algorithm bandwidth: how much does a ring send over each link?
# ~ 2 * (n - 1) / n * sum_of["nbytes"] ==> sum_of["nbytes"]
# %% wrong: both directions of the link => values both-directions
# > the link is one way.
# ~ 2 * (n - 1) / n * sum_of["nbytes"] ==> (n - 1) / n * sum_of["nbytes"]
# %% wrong: the printed link in GiB => generality
# > the printed link was taken in GiB/s.
# ~ sum_of["seconds"] / machine["printed_link"] ==> sum_of["seconds"] / machine["printed_link"] * 1e9 / 2**30
# %% wrong: minus one is few => values no-limit
# > −1 means that no limit is set.
# ~ math.inf if files == -1 else files ==> files
# %% wrong: healthy only above the limit => generality above-the-limit
# > a line is healthy from the first number on.
# ~ least <= value < sound ==> least <= value < sound or (value == sound and n != 8)
# %% wrong: the second limit guessed from the first => generality second-limit-guessed
# > the second limit is given; here it is guessed from the first.
#           sound, least = limits[name]
# +         least = sound / {"copy": 2, "all-reduce": 2, "shared memory": 8, "open files": 4}[name]
# %% wrong: the second limit itself is refused => generality
# > a line is refused only below the second number.
# ~ least <= value < sound ==> least < value < sound
# %% wrong: the last pair without NVLink decides => generality
# > the worst pair of GPUs decides, not the last one.
# ~ any(a // tp == b // tp for a, b in apart) ==> any(a // tp == b // tp for a, b in apart[-1:])
# %% wrong: degraded is refused => values degraded-is-no-go
# > a run with a degraded line is not refused.
# ~ "degraded": "with care" ==> "degraded": "no-go"
# %% wrong: the run by the number of faults => values faults-counted
# > this counts the lines with a fault; the worst one decides.
# ~ lines, {"refuse": "no-go", "degraded": "with care", "healthy": "go"}[worst]
# ~~ ==> lines, ("go", "with care", "no-go")[min(sum(word != "healthy" for word in lines.values()), 2)]
# %% wrong: lines alone => values wrong-shape
# ~ return lines, {"refuse": "no-go", "degraded": "with care", "healthy": "go"}[worst] ==> return lines
'''
