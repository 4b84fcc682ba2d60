"""Judge of the verdict before a run: machines with one thing wrong at a time, and ways to overlook it or to see ghosts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_lib.exercises.ch15.cards.links import LIMITED, LINES, RUNS, WORDS
from course_lib.exercises.ch15.judges.links_rented import (
    FAULTS,
    HELD,
    Machine,
    against,
    bus_share,
    drawn_limits,
    lines_of,
    links_of,
    machine,
    one_by_one,
    run_of,
    values,
)
from course_lib.judging import Fault, Judging, Params, describe, verdict
from course_lib.judging.optional_columns import results, told, tuples
from course_lib.records import Case, Outcome, Verdict


def _cases(params: Params, rng: random.Random) -> list[Case]:
    tp, limits = params["tp"], {name: tuple(pair) for name, pair in params["limits"].items()}
    shown = [machine(names, rng, tp, limits) for names in ((), *[(name,) for name in FAULTS])]
    unseen = []
    for _ in range(80):
        names = rng.sample(list(FAULTS), rng.choice((0, 1, 1, 1, 2, 3)))
        unseen.append(machine(names, rng, rng.choice((1, 2, 4)), drawn_limits(rng), rng.choice((2, 4, 8))))
    unseen += one_by_one(drawn_limits(rng), rng)
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
    return (
        "degraded" if None in copies else against(sum(copies) / len(copies) / machine["printed_copy"], limits["copy"])
    )


def _unmeasured(line: str, word: str) -> Callable[..., str]:
    return lambda machine, tp, limits: (
        word if values(machine)[line] is None else against(values(machine)[line], limits[line])
    )


_SLIPS: Mapping[str, Sequence[tuple[str, Callable[..., str], str]]] = {
    "versions": (
        (
            "torch-alone",
            lambda m, tp, limits: "healthy" if len({each["torch"] for each in m["versions"]}) == 1 else "refuse",
            "torch is the same on all ranks; is that all that two ranks must have in common?",
        ),
        (
            "first-two",
            lambda m, tp, limits: "healthy" if m["versions"][0] == m["versions"][1] else "refuse",
            "compare all ranks.",
        ),
    ),
    "clocks": (
        (
            "idle-is-no-fault",
            lambda m, tp, limits: "degraded" if any(_reason_bits(m)) else "healthy",
            "some reasons are nobody's fault: which bits are they?",
        ),
        (
            "low-clock",
            lambda m, tp, limits: "degraded" if any(now < 0.6 * most for now, most in m["clocks"]) else "healthy",
            "a GPU that idles has a low clock, and one held down by heat need not have: ask why, not how low.",
        ),
        (
            "first-gpu",
            lambda m, tp, limits: "degraded" if _reason_bits(m)[0] & HELD else "healthy",
            "all GPUs count, and one is enough.",
        ),
    ),
    "links": (
        (
            "whole-machine",
            lambda m, tp, limits: links_of(m, len(m["topology"])),
            "these two are in different groups; tensor parallel does not cross there.",
        ),
        ("groups-forgotten", lambda m, tp, limits: links_of(m, 1), "two GPUs of one group are without NVLink."),
        (
            "neighbours-only",
            lambda m, tp, limits: (
                "healthy"
                if all(m["topology"][a][a + 1].startswith("NV") for a in range(len(m["topology"]) - 1))
                else "refuse"
            ),
            "look at all pairs, not at neighbours alone.",
        ),
        ("diagonal", lambda m, tp, limits: "refuse", "the diagonal of the matrix says X: a GPU and itself."),
    ),
    "copy": (
        ("mean", _mean_copy, "the mean hides the one that all others wait for."),
        ("unmeasured", _unmeasured("copy", "healthy"), "one copy was not measured."),
        ("unmeasured", _unmeasured("copy", "refuse"), "one copy was not measured; that is no reason to refuse."),
    ),
    "all-reduce": (
        (
            "algorithm-bandwidth",
            _algorithm,
            "bytes over seconds is what the algorithm gets; how much of it does each link carry round a ring?",
        ),
        (
            "both-directions",
            lambda m, tp, limits: against(bus_share(m) and bus_share(m) / 2, limits["all-reduce"]),
            "the link's number is of one direction already.",
        ),
        ("unmeasured", _unmeasured("all-reduce", "healthy"), "the all-reduce was not measured."),
        (
            "unmeasured",
            _unmeasured("all-reduce", "refuse"),
            "the all-reduce was not measured; that is no reason to refuse.",
        ),
    ),
    "open files": (
        (
            "no-limit",
            lambda m, tp, limits: against(m["open_files"], limits["open files"]),
            "−1 says that there is no limit.",
        ),
    ),
}


def _line_fault(line: str, case: Case, found: Sequence[Any]) -> Fault | None:
    rows, names = case.args[1], case.secret or [case.name] * len(case.args[1])
    for name, row, (lines, _) in zip(names, rows, found, strict=True):
        where = f"{line}, on a machine with {name}" if case.secret else f"{line}, on another machine"
        if type(lines) is not dict or line not in lines:
            return (
                "no-line",
                f"The first value is a dictionary with a verdict for each of {', '.join(LINES)}; {line!r} is not in {describe(lines)}.",
            )
        said, want = _word(lines[line]), lines_of(*row)[line]
        if said == want:
            continue
        if said not in WORDS:
            return "no-such-word", f"{where}: {describe(lines[line])} is none of {', '.join(WORDS)}."
        for slip, way, message in _SLIPS.get(line, ()):
            if way(*row) == said and all(
                _word(each[0].get(line)) == way(*other)
                for other, each in zip(rows, found, strict=True)
                if type(each[0]) is dict
            ):
                return slip, f"{where}: {said!r} is said; {message}"
        if line in LIMITED:
            value = values(row[0])[line]
            if value is None:
                return "unmeasured", f"{where}: {said!r} is said; it was not measured."
            return (
                "limits",
                f"{where}: {said!r} is said of {value:.4g}, with the limits {row[2][line]}; from the first on it is healthy, below the second refused.",
            )
        return (
            "",
            f"{where}: {said!r} is said of {_shows(line, row[0])}; look again at what the table says of this line.",
        )
    return None


def _shows(line: str, machine: Machine) -> str:
    """What a machine has on a line that has no limits."""
    if line == "versions":
        return " and ".join(
            sorted({" ".join(f"{name} {version}" for name, version in each.items()) for each in machine["versions"]})
        )
    if line == "clocks":
        return f"reasons {', '.join(sorted({hex(bits) for bits in _reason_bits(machine)}))}"
    found = machine["topology"]
    pairs = [
        f"{found[a][b]} between GPUs {b} and {a}"
        for a in range(len(found))
        for b in range(a)
        if not found[a][b].startswith("NV")
    ]
    return f"{pairs[0]}, and of {len(pairs)} such pairs in all" if pairs else f"{found[0][-1]} between all GPUs"


def _word(value: Any) -> Any:
    return value.strip().lower() if type(value) is str else value


def _run_fault(case: Case, found: Sequence[Any]) -> Fault | None:
    for row, (lines, run) in zip(case.args[1], found, strict=True):
        want = run_of(lines_of(*row))
        if _word(run) == want:
            continue
        if type(run) is not str or _word(run) not in RUNS.values():
            return (
                "no-such-word",
                f"{case.name}: the second value is one of {', '.join(RUNS.values())}; got {describe(run)}.",
            )
        said = [_word(word) for word in lines.values()] if type(lines) is dict else []
        if said and all(word in WORDS for word in said) and RUNS[max(said, key=WORDS.index)] == _word(run):
            return "from-wrong-lines", f"{case.name}: {run!r} follows from your lines, of which one is not right yet."
        worst = max(lines_of(*row).values(), key=WORDS.index)
        return (
            f"{worst}-is-not-{_word(run).replace(' ', '-')}",
            f"{case.name}: {run!r} is said where the worst line is {worst!r}.",
        )
    return None


GROUPS: Mapping[str, Sequence[str]] = {
    "versions": ("versions",),
    "clocks": ("clocks",),
    "links": ("links",),
    "rates": ("copy", "all-reduce"),
    "system": ("shared memory", "open files"),
}


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    parts = ["lines", "run"] if case.kind == "generality" else [*GROUPS, "run"]
    found = results(case, outcome.value, parts)
    if not told(found):
        found = tuples(case, found, ("lines", "run"), parts) or found
    if told(found):
        return list(found)
    groups = {"lines": tuple(LINES)} if case.kind == "generality" else GROUPS
    by_part = [
        verdict(
            case.kind, part, case, next((fault for line in lines if (fault := _line_fault(line, case, found))), None)
        )
        for part, lines in groups.items()
    ]
    return [*by_part, verdict(case.kind, "run", case, _run_fault(case, found))]


MACHINES = {
    "preflight-verdict": Judging(
        shares={
            "values:versions": 0.08,
            "values:clocks": 0.1,
            "values:links": 0.12,
            "values:rates": 0.14,
            "values:system": 0.08,
            "values:run": 0.08,
            "generality:lines": 0.3,
            "generality:run": 0.1,
        },
        cases=_cases,
        verdicts=_verdicts,
        why="A step ends when the slowest rank is through, so the worst GPU decides, never the mean. A low clock is no illness: the reason for it is asked. Where groups "
        "lie decides what a missing link costs. And what nobody measured is no good news: it is degraded until somebody has measured it.",
        pytorch="`nvidia-smi topo -m`, `nvidia-smi --query-gpu=clocks_event_reasons.active`, nccl-tests' `all_reduce_perf`, and DCGM's `dcgmi diag -r 2`. "
        "`./course run tour` begins with the same questions.",
    )
}
