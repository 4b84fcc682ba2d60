"""Judge of the verdict before a run: machines with one fault at a time, and ways to overlook it or to raise false alarms."""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from course_lib.exercises.ch15.cards.links import LIMITED, LINES, RUNS, WORDS
from course_lib.exercises.ch15.judges.diagnosis import plain
from course_lib.exercises.ch15.judges.links_rented import (
    FAULTS,
    HELD,
    Limits,
    Machine,
    Row,
    against,
    bus_share,
    drawn_limits,
    lines_of,
    links_of,
    machine,
    one_by_one,
    reasons_of,
    run_of,
    values,
    without_nvlink,
)
from course_lib.judging import Fault, Judging, Mistake, Params, describe, first, verdict
from course_lib.judging.columns import Word, rows_fault
from course_lib.judging.draws import generality
from course_lib.records import Case, Outcome, Verdict


def _cases(params: Params, rng: random.Random) -> list[Case]:
    tp, limits = params["tp"], {name: tuple(pair) for name, pair in params["limits"].items()}
    shown = [machine(names, rng, tp, limits) for names in ((), *[(name,) for name in FAULTS])]
    unseen = []
    for _ in range(80):
        names = rng.sample(list(FAULTS), rng.choice((0, 1, 1, 1, 2, 3)))
        unseen.append(machine(names, rng, rng.choice((1, 2, 4)), drawn_limits(rng), rng.choice((2, 4, 8))))
    unseen += one_by_one(drawn_limits(rng), rng)
    unseen += [machine([name], rng, 2, limits, 2) for name in ("a slow all-reduce", "a GPU held down")]
    return [Case(name="eight GPUs", args=(0, shown)), generality("lines", 0, "other machines", unseen)]


# --- the lines


def _algorithm_share(machine: Machine) -> float | None:
    share, ranks = bus_share(machine), len(machine["topology"])
    return share and share * ranks / 2 / (ranks - 1)


def _half_share(machine: Machine) -> float | None:
    share = bus_share(machine)
    return share and share / 2


def _mean_copy(machine: Machine) -> float | None:
    copies = machine["copy"]
    return None if None in copies else sum(copies) / len(copies) / machine["printed_copy"]


def _neighbors(machine: Machine, tp: int, limits: Limits) -> str:
    return "refuse" if any(a - b == 1 for a, b in without_nvlink(machine)) else "healthy"


def _limited(name: str, line: str, value: Callable[[Machine], float | None], message: str) -> Mistake:
    """Another idea of a line's value, held against the right limits."""
    return Mistake(name, lambda machine, tp, limits: against(value(machine), limits[line]), message)


def _unmeasured(line: str) -> tuple[Mistake, Mistake]:
    def mistake(word: str) -> Mistake:
        return Mistake(
            "unmeasured",
            lambda *row: word if values(row[0])[line] is None else lines_of(*row)[line],
            f"what was not measured is not {word!r}.",
        )

    return mistake("healthy"), mistake("refuse")


def _flag(name: str, word: str, sick: Callable[[Machine], bool], message: str) -> Mistake:
    """A line that gets `word` where `sick` holds."""
    return Mistake(name, lambda machine, tp, limits: word if sick(machine) else "healthy", message)


def _torch_differs(machine: Machine) -> bool:
    return len({each["torch"] for each in machine["versions"]}) > 1


def _low_clock(machine: Machine) -> bool:
    return any(now < 0.6 * most for now, most in machine["clocks"])


MISTAKES: Mapping[str, Sequence[Mistake]] = {
    "versions": (
        _flag("torch-alone", "refuse", _torch_differs, "is torch all that two ranks must have in common?"),
        _flag("first-two", "refuse", lambda m: m["versions"][0] != m["versions"][1], "compare all ranks."),
    ),
    "clocks": (
        _flag("idle-is-no-fault", "degraded", lambda m: any(reasons_of(m)), "which reasons are harmless?"),
        _flag("low-clock", "degraded", _low_clock, "an idle GPU has a low clock too: ask for the reason of the clock."),
        _flag("first-gpu", "degraded", lambda m: bool(reasons_of(m)[0] & HELD), "look at all GPUs."),
    ),
    "links": (
        Mistake("whole-machine", lambda m, tp, _: links_of(m, len(m["topology"])), "is the pair in one group?"),
        Mistake("groups-forgotten", lambda m, tp, _: links_of(m, 1), "two GPUs of one group lack NVLink."),
        Mistake("neighbors-only", _neighbors, "look at all pairs, not only at neighbors."),
        Mistake("diagonal", lambda m, tp, _: "refuse", "the diagonal of the matrix says X: a GPU and itself."),
    ),
    "copy": (
        _limited("mean", "copy", _mean_copy, "the mean hides the GPU that all others wait for."),
        *_unmeasured("copy"),
    ),
    "all-reduce": (
        _limited(
            "algorithm-bandwidth",
            "all-reduce",
            _algorithm_share,
            "this is the algorithm bandwidth: how much does a ring send over each link?",
        ),
        _limited("both-directions", "all-reduce", _half_share, "the printed link is of one direction already."),
        *_unmeasured("all-reduce"),
    ),
    "open files": (_limited("no-limit", "open files", lambda m: m["open_files"], "−1 means that there is no limit."),),
}


def _shown(line: str, machine: Machine, tp: int, limits: Limits) -> str:
    """What a machine has on a line, in words."""
    if line in LIMITED:
        value = values(machine)[line]
        return f"{'not measured' if value is None else f'{value:.4g}'}, with the limits {limits[line]}"
    if line == "versions":
        kinds = sorted({" ".join(map(" ".join, each.items())) for each in machine["versions"]})
        return " and ".join(kinds)
    if line == "clocks":
        return f"reasons {', '.join(sorted({hex(bits) for bits in reasons_of(machine)}))}"
    pairs, links = without_nvlink(machine), machine["topology"]
    if not pairs:
        return f"{links[0][-1]} between all GPUs"
    (a, b), more = pairs[0], f" and {len(pairs) - 1} more pairs" if len(pairs) > 1 else ""
    return f"{links[a][b]} between GPUs {b} and {a}{more}, groups of {tp}"


def _line_fault(case: Case, line: str, said: Sequence[Any]) -> Fault | None:
    """What is wrong with the verdicts on a line; a known mistake that explains all rows comes first."""
    words = [plain(each.get(line)) if type(each) is dict else None for each in said]
    column = Word(part=line, choices=WORDS, want=lambda *row: lines_of(*row)[line], words=partial(_shown, line))
    if (fault := column.fault(case, words)) is None:
        return None
    for mistake in MISTAKES.get(line, ()):
        if words == [mistake.on(*row) for row in case.args[1]]:
            return mistake.name, f"{line}: {mistake.message}"
    return fault[0] or ("limits" if line in LIMITED else ""), f"{line}: {fault[1]}"


# --- the run


def _run_fault(case: Case, pairs: Sequence[Sequence[Any]]) -> Fault | None:
    rows: Sequence[Row] = case.args[1]
    for row, (lines, run) in zip(rows, pairs, strict=True):
        right = lines_of(*row)
        if plain(run) == run_of(right):
            continue
        if type(run) is not str or plain(run) not in RUNS.values():
            choices = ", ".join(map(repr, RUNS.values()))
            return "no-such-word", f"{case.name}: the second value is one of {choices}; got {describe(run)}."
        own = [plain(word) for word in lines.values()] if type(lines) is dict else []
        if own and all(word in WORDS for word in own) and RUNS[max(own, key=WORDS.index)] == plain(run):
            return "from-wrong-lines", f"{case.name}: {run!r} follows from your lines, but a line is not right yet."
        worst = max(right.values(), key=WORDS.index)
        name = f"{worst}-is-not-{plain(run).replace(' ', '-')}"
        return name, f"{case.name}: you say {run!r} where the worst line is {worst!r}."
    return None


GROUPS: Mapping[str, Sequence[str]] = {
    "versions": ("versions",),
    "clocks": ("clocks",),
    "links": ("links",),
    "rates": ("copy", "all-reduce"),
    "system": ("shared memory", "open files"),
}


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    groups = {"lines": tuple(LINES)} if case.kind == "generality" else GROUPS
    if fault := rows_fault(case, outcome.value, 2):
        return [verdict(case.kind, part, case, fault) for part in (*groups, "run")]
    said = [lines for lines, _ in outcome.value]
    return [
        *(
            verdict(case.kind, part, case, first(*(_line_fault(case, line, said) for line in lines)))
            for part, lines in groups.items()
        ),
        verdict(case.kind, "run", case, _run_fault(case, outcome.value)),
    ]


MACHINES = {
    "preflight-verdict": Judging(
        shares="values:versions 0.08, values:clocks 0.1, values:links 0.12, values:rates 0.14, values:system 0.08, "
        "values:run 0.08, generality:lines 0.3, generality:run 0.1",
        cases=_cases,
        verdicts=_verdicts,
        why="A step ends when the slowest rank has finished, so the worst GPU decides, never the mean. A low clock is "
        "not a fault by itself; ask for its reason. The placement of groups decides what a missing link costs. And what "
        "was not measured is not good news: it is degraded until somebody measures it.",
        pytorch="`nvidia-smi topo -m`, `nvidia-smi --query-gpu=clocks_event_reasons.active`, nccl-tests' "
        "`all_reduce_perf`, and DCGM's `dcgmi diag -r 2`. `./course run tour` begins with the same questions.",
    )
}
