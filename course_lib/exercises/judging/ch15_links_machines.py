"""Judge of the verdict before a run: machines with one thing wrong at a time, and ways to overlook it or to see ghosts."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_lib import facts
from course_lib.exercises.ch15_links import LIMITED, LINES, RUNS, WORDS
from course_lib.exercises.judging import Judging, Params, describe
from course_lib.exercises.judging.ch08_rows import Fault, results, told, tuples, verdict
from course_lib.records import Case, Outcome, Verdict

HELD = 0x8 | 0x20 | 0x40 | 0x80
HARMLESS = (0x0, 0x1, 0x2, 0x4, 0x10)  # nothing, idle, a set clock, the power that was asked for, a group's common clock
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


def _links(machine: Machine, tp: int) -> str:
    found = machine["topology"]
    apart = [(a, b) for a in range(len(found)) for b in range(a) if not found[a][b].startswith("NV")]
    return "refuse" if any(a // tp == b // tp for a, b in apart) else "degraded" if apart else "healthy"


def lines_of(machine: Machine, tp: int, limits: Mapping[str, tuple[float, float]]) -> dict[str, str]:
    """The right verdict on each line."""
    first, *others = machine["versions"]
    held = any(int(bits, 16) & HELD for bits in machine["reasons"])
    said = {name: against(value, limits[name]) for name, value in values(machine).items()}
    return {"versions": "refuse" if any(each != first for each in others) else "healthy", "clocks": "degraded" if held else "healthy",
            "links": _links(machine, tp), **said}  # fmt: skip


def run_of(lines: Mapping[str, str]) -> str:
    """The verdict on the run."""
    return RUNS[max(lines.values(), key=WORDS.index)]


# --- machines


def sound(rng: random.Random, limits: Mapping[str, tuple[float, float]], ranks: int = 8, device: str = "H100 SXM") -> Machine:
    """A machine with nothing wrong: its GPUs idle or work, and do what such GPUs do."""
    sheet = facts.device(device)
    link, printed = float(sheet.link_one_way or 0), float(sheet.bandwidth)
    share, busy = limits["all-reduce"][0], rng.random() < 0.5
    nbytes = rng.choice((2**28, 2**30, 2**32))
    bus = link * share * rng.uniform(1.2, 1.5)
    return {
        "versions": [{"torch": "2.9.1+cu128", "nccl": "2.27.7", "cuda": "12.8"} for _ in range(ranks)],
        "clocks": [(rng.choice((1755, 1830, 1980)) if busy else 345, 1980) for _ in range(ranks)],
        "reasons": [f"0x{rng.choice((0x0, 0x4, 0x2) if busy else (0x1,)):016x}" for _ in range(ranks)],
        "topology": [["X" if a == b else "NV18" for b in range(ranks)] for a in range(ranks)],
        "copy": [printed * limits["copy"][0] * rng.uniform(1.25, 1.6) for _ in range(ranks)],
        "printed_copy": printed,
        "all_reduce": {"nbytes": nbytes, "seconds": 2 * (ranks - 1) / ranks * nbytes / bus},
        "printed_link": link,
        "shared_memory": limits["shared memory"][0] * rng.choice((1, 2, 16)),
        "open_files": rng.choice((limits["open files"][0], 65536, 1_048_576, -1)),
    }


def _versions(machine: Machine, rng: random.Random, row: Row) -> None:
    name = rng.choice(("nccl", "cuda", "torch"))
    machine["versions"][rng.randrange(len(machine["versions"]))][name] = {"nccl": "2.27.5", "cuda": "12.6", "torch": "2.9.0+cu128"}[name]


def _hot(machine: Machine, rng: random.Random, row: Row) -> None:
    place = rng.randrange(len(machine["reasons"]))
    machine["reasons"][place] = f"0x{rng.choice((0x8, 0x20, 0x40, 0x80, 0x48)) | rng.choice((0x0, 0x1, 0x4)):016x}"
    machine["clocks"][place] = (rng.choice((1200, 1755, 1980)), 1980)


def _cut(inside: bool) -> Callable[[Machine, random.Random, Row], None]:
    def apart(machine: Machine, rng: random.Random, row: Row) -> None:
        links, tp = machine["topology"], row[1]
        word = rng.choice(("SYS", "NODE", "PHB", "PXB", "PIX"))
        near_ones = inside and tp == 2  # otherwise a look at neighbours alone must not do
        pairs = [(a, b) for a in range(len(links)) for b in range(a) if (near_ones or a - b > 1) and (a // tp == b // tp) == inside]
        chosen = [rng.choice(pairs)] if inside and pairs else pairs
        for a, b in chosen:
            links[a][b] = links[b][a] = word

    return apart


def _slow_copy(low: float, high: float) -> Callable[[Machine, random.Random, Row], None]:
    def slow(machine: Machine, rng: random.Random, row: Row) -> None:
        machine["copy"][rng.randrange(len(machine["copy"]))] = machine["printed_copy"] * row[2]["copy"][0] * rng.uniform(low, high)

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


def machine(names: Sequence[str], rng: random.Random, tp: int, limits: Mapping[str, tuple[float, float]], ranks: int = 8) -> Row:
    """A row with these faults."""
    made = sound(rng, limits, ranks)
    row = made, tp, copy.deepcopy(dict(limits))
    for name in names:
        FAULTS[name](made, rng, row)
    return row


def _drawn_limits(rng: random.Random) -> dict[str, tuple[float, float]]:
    copied, bus = rng.choice((0.5, 0.55, 0.6)), rng.choice((0.45, 0.5, 0.6))
    return {"copy": (copied, copied / 2), "all-reduce": (bus, bus / 2), "shared memory": (2e9, 1e8), "open files": (8192, 1024)}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    tp, limits = params["tp"], {name: tuple(pair) for name, pair in params["limits"].items()}
    shown = [machine(names, rng, tp, limits) for names in ((), *[(name,) for name in FAULTS])]
    unseen = []
    for _ in range(80):
        names = rng.sample(list(FAULTS), rng.choice((0, 1, 1, 1, 2, 3)))
        unseen.append(machine(names, rng, rng.choice((1, 2, 4)), _drawn_limits(rng), rng.choice((2, 4, 8))))
    two = [machine([name], rng, 2, limits, 2) for name in ("a slow all-reduce", "a GPU held down")]
    return [
        Case(name="eight GPUs", args=(0, shown), secret=["nothing", *FAULTS]),
        Case(name="other machines", args=(0, unseen + two), kind="generality", part="lines", visible=False),
    ]


# --- how it goes wrong


def _reason_bits(machine: Machine) -> list[int]:
    return [int(bits, 16) for bits in machine["reasons"]]


def _algorithm(machine: Machine, tp: int, limits: Any) -> str:
    share, ranks = bus_share(machine), len(machine["topology"])
    return against(share and share * ranks / 2 / (ranks - 1), limits["all-reduce"])


def _mean_copy(machine: Machine, tp: int, limits: Any) -> str:
    copies = machine["copy"]
    return "degraded" if None in copies else against(sum(copies) / len(copies) / machine["printed_copy"], limits["copy"])


def _unmeasured(line: str, word: str) -> Callable[..., str]:
    return lambda machine, tp, limits: word if values(machine)[line] is None else against(values(machine)[line], limits[line])


_SLIPS: Mapping[str, Sequence[tuple[str, Callable[..., str], str]]] = {
    "versions": (
        ("torch-alone", lambda m, tp, limits: "healthy" if len({each["torch"] for each in m["versions"]}) == 1 else "refuse",
         "torch is the same on all ranks; is that all that two ranks must have in common?"),
        ("first-two", lambda m, tp, limits: "healthy" if m["versions"][0] == m["versions"][1] else "refuse", "compare all ranks."),
    ),
    "clocks": (
        ("idle-is-no-fault", lambda m, tp, limits: "degraded" if any(_reason_bits(m)) else "healthy", "some reasons are nobody's fault: which bits are they?"),
        ("low-clock", lambda m, tp, limits: "degraded" if any(now < 0.6 * most for now, most in m["clocks"]) else "healthy",
         "a GPU that idles has a low clock, and one held down by heat need not have: ask why, not how low."),
        ("first-gpu", lambda m, tp, limits: "degraded" if _reason_bits(m)[0] & HELD else "healthy", "all GPUs count, and one is enough."),
    ),
    "links": (
        ("whole-machine", lambda m, tp, limits: _links(m, len(m["topology"])), "these two are in different groups; tensor parallel does not cross there."),
        ("groups-forgotten", lambda m, tp, limits: _links(m, 1), "two GPUs of one group are without NVLink."),
        ("neighbours-only", lambda m, tp, limits: "healthy" if all(m["topology"][a][a + 1].startswith("NV") for a in range(len(m["topology"]) - 1)) else "refuse",
         "look at all pairs, not at neighbours alone."),
        ("diagonal", lambda m, tp, limits: "refuse", "the diagonal of the matrix says X: a GPU and itself."),
    ),
    "copy": (
        ("mean", _mean_copy, "the mean hides the one that all others wait for."),
        ("unmeasured", _unmeasured("copy", "healthy"), "one copy was not measured."),
        ("unmeasured", _unmeasured("copy", "refuse"), "one copy was not measured; that is no reason to refuse."),
    ),
    "all-reduce": (
        ("algorithm-bandwidth", _algorithm, "bytes over seconds is what the algorithm gets; how much of it does each link carry round a ring?"),
        ("both-directions", lambda m, tp, limits: against(bus_share(m) and bus_share(m) / 2, limits["all-reduce"]), "the link's number is of one direction already."),
        ("unmeasured", _unmeasured("all-reduce", "healthy"), "the all-reduce was not measured."),
        ("unmeasured", _unmeasured("all-reduce", "refuse"), "the all-reduce was not measured; that is no reason to refuse."),
    ),
    "open files": (("no-limit", lambda m, tp, limits: against(m["open_files"], limits["open files"]), "−1 says that there is no limit."),),
}  # fmt: skip


def _line_fault(line: str, case: Case, found: Sequence[Any]) -> Fault | None:
    rows, names = case.args[1], case.secret or [case.name] * len(case.args[1])
    for name, row, (lines, _) in zip(names, rows, found, strict=True):
        where = f"{line}, on a machine with {name}" if case.secret else f"{line}, on another machine"
        if type(lines) is not dict or line not in lines:
            return "no-line", f"The first value is a dictionary with a verdict for each of {', '.join(LINES)}; {line!r} is not in {describe(lines)}."
        said, want = _word(lines[line]), lines_of(*row)[line]
        if said == want:
            continue
        if said not in WORDS:
            return "no-such-word", f"{where}: {describe(lines[line])} is none of {', '.join(WORDS)}."
        for slip, way, message in _SLIPS.get(line, ()):
            if way(*row) == said and all(_word(each[0].get(line)) == way(*other) for other, each in zip(rows, found, strict=True) if type(each[0]) is dict):
                return slip, f"{where}: {said!r} is said; {message}"
        if line in LIMITED:
            value = values(row[0])[line]
            if value is None:
                return "unmeasured", f"{where}: {said!r} is said; it was not measured."
            return "limits", f"{where}: {said!r} is said of {value:.4g}, with the limits {row[2][line]}; from the first on it is healthy, below the second refused."
        return "", f"{where}: {said!r} is said; look again at what the table says of this line."
    return None


def _word(value: Any) -> Any:
    return value.strip().lower() if type(value) is str else value


def _run_fault(case: Case, found: Sequence[Any]) -> Fault | None:
    for row, (lines, run) in zip(case.args[1], found, strict=True):
        want = run_of(lines_of(*row))
        if _word(run) == want:
            continue
        if type(run) is not str or _word(run) not in RUNS.values():
            return "no-such-word", f"{case.name}: the second value is one of {', '.join(RUNS.values())}; got {describe(run)}."
        said = [_word(word) for word in lines.values()] if type(lines) is dict else []
        if said and all(word in WORDS for word in said) and RUNS[max(said, key=WORDS.index)] == _word(run):
            return "from-wrong-lines", f"{case.name}: {run!r} follows from your lines, of which one is not right yet."
        worst = max(lines_of(*row).values(), key=WORDS.index)
        return f"{worst}-is-not-{_word(run).replace(' ', '-')}", f"{case.name}: {run!r} is said where the worst line is {worst!r}."
    return None


GROUPS: Mapping[str, Sequence[str]] = {"versions": ("versions",), "clocks": ("clocks",), "links": ("links",), "rates": ("copy", "all-reduce"),
                                       "system": ("shared memory", "open files")}  # fmt: skip


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    parts = ["lines", "run"] if case.kind == "generality" else [*GROUPS, "run"]
    found = results(case, outcome.value, parts)
    if not told(found):
        found = tuples(case, found, ("lines", "run"), parts) or found
    if told(found):
        return list(found)
    groups = {"lines": tuple(LINES)} if case.kind == "generality" else GROUPS
    by_part = [verdict(case.kind, part, case, next((fault for line in lines if (fault := _line_fault(line, case, found))), None)) for part, lines in groups.items()]
    return [*by_part, verdict(case.kind, "run", case, _run_fault(case, found))]


MACHINES = {
    "preflight-verdict": Judging(
        shares={"values:versions": 0.08, "values:clocks": 0.1, "values:links": 0.12, "values:rates": 0.14, "values:system": 0.08, "values:run": 0.08,
                "generality:lines": 0.3, "generality:run": 0.1},
        cases=_cases,
        verdicts=_verdicts,
        why="A step ends when the slowest rank is through, so the worst GPU decides, never the mean. A low clock is no illness: the reason for it is asked. Where groups "
            "lie decides what a missing link costs. And what nobody measured is no good news: it is degraded until somebody has measured it.",
        pytorch="`nvidia-smi topo -m`, `nvidia-smi --query-gpu=clocks_event_reasons.active`, nccl-tests' `all_reduce_perf`, and DCGM's `dcgmi diag -r 2`. "
                "`./course run tour` begins with the same questions.",
    ),
}  # fmt: skip
