"""Judge of the verdict before a run: machines with one fault at a time, and ways to overlook it or to raise false alarms."""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from course_lib.exercises.ch15.cards.links import LIMITED, LINES, RUNS, WORDS
from course_lib.exercises.ch15.judges.diagnosis import plain
from course_lib.exercises.ch15.judges.links_rented import (
    FAULTS,
    Limits,
    Machine,
    drawn_limits,
    lines_of,
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
    tp, limits = params["tp"], params["limits"]
    shown = [machine(names, rng, tp, limits) for names in ((), *[(name,) for name in FAULTS])]
    unseen = []
    for _ in range(80):
        names = rng.sample(FAULTS, rng.choice((0, 1, 1, 1, 2, 3)))
        unseen.append(machine(names, rng, rng.choice((1, 2, 4)), drawn_limits(rng), rng.choice((2, 4, 8))))
    unseen += one_by_one(drawn_limits(rng), rng)
    unseen += [machine([name], rng, 2, limits, 2) for name in ("a slow all-reduce", "a GPU held down")]
    return [Case(name="eight GPUs", args=(0, shown)), generality("lines", 0, "other machines", unseen)]


# --- the lines


def _of(line: str, name: str, change: Callable[[Machine], Machine], message: str, **how: Any) -> Mistake:
    """A mistake that gives the line the verdict of a changed machine."""

    def word(machine: Machine, tp: int, limits: Limits) -> str:
        return lines_of(machine | change(machine), tp, limits, **how)[line]

    return Mistake(name, word, message)


def _unmeasured(line: str, word: str) -> Mistake:
    def found(*row: Any) -> str:
        return word if values(row[0])[line] is None else lines_of(*row)[line]

    return Mistake("unmeasured", found, f"what was not measured is not {word!r}.")


def _grouped(name: str, size: Callable[[Machine], int], message: str) -> Mistake:
    return Mistake(name, lambda machine, tp, limits: lines_of(machine, size(machine), limits)["links"], message)


def _mean_copy(machine: Machine) -> Machine:
    copies = machine["copy"]
    return {} if None in copies else {"copy": [sum(copies) / len(copies)]}


def _low_clocks(machine: Machine) -> Machine:
    return {"reasons": ["0x8" if now < 0.6 * most else "0x0" for now, most in machine["clocks"]]}


def _reduced(factor: Callable[[int], float]) -> Callable[[Machine], Machine]:
    """An all-reduce whose bytes are counted with another factor of the ranks."""

    def change(machine: Machine) -> Machine:
        done = machine["all_reduce"]
        return {"all_reduce": done and done | {"nbytes": done["nbytes"] * factor(len(machine["topology"]))}}

    return change


def _neighbors(machine: Machine, tp: int, limits: Limits) -> str:
    return "refuse" if any(a - b == 1 for a, b in without_nvlink(machine)) else "healthy"


def _torch(machine: Machine) -> Machine:
    return {"versions": [{"torch": each["torch"]} for each in machine["versions"]]}


ALGORITHM = "this is the algorithm bandwidth: how much does a ring send over each link?"
MISTAKES: Mapping[str, Sequence[Mistake]] = {
    "versions": (
        _of("versions", "torch-alone", _torch, "is torch all that two ranks must have in common?"),
        _of("versions", "first-two", lambda m: {"versions": m["versions"][:2]}, "compare all ranks."),
    ),
    "clocks": (
        _of("clocks", "idle-is-no-fault", lambda m: {}, "which reasons are harmless?", held=0x1FF),
        _of("clocks", "low-clock", _low_clocks, "an idle GPU has a low clock too: ask for the reason of the clock."),
        _of("clocks", "first-gpu", lambda m: {"reasons": m["reasons"][:1]}, "look at all GPUs."),
    ),
    "links": (
        _grouped("whole-machine", lambda m: len(m["topology"]), "is the pair in one group?"),
        _grouped("groups-forgotten", lambda m: 1, "two GPUs of one group lack NVLink."),
        Mistake("neighbors-only", _neighbors, "look at all pairs, not only at neighbors."),
        Mistake("diagonal", lambda *row: "refuse", "the diagonal of the matrix says X: a GPU and itself."),
    ),
    "copy": (
        _of("copy", "mean", _mean_copy, "the mean hides the GPU that all others wait for."),
        *(_unmeasured("copy", word) for word in ("healthy", "refuse")),
    ),
    "all-reduce": (
        _of("all-reduce", "algorithm-bandwidth", _reduced(lambda n: n / 2 / (n - 1)), ALGORITHM),
        _of("all-reduce", "both-directions", _reduced(lambda n: 0.5), "the printed link is of one direction already."),
        *(_unmeasured("all-reduce", word) for word in ("healthy", "refuse")),
    ),
    "open files": (
        _of(
            "open files",
            "no-limit",
            lambda m: {"open_files": max(m["open_files"], 0)},
            "−1 means that there is no limit.",
        ),
    ),
}


def _shown(line: str, machine: Machine, tp: int, limits: Limits) -> str:
    """What a machine has on a line, in words."""
    if line in LIMITED:
        value = values(machine)[line]
        return f"{'not measured' if value is None else f'{value:.4g}'}, with the limits {limits[line]}"
    if line == "versions":
        return " and ".join(sorted({" ".join(map(" ".join, each.items())) for each in machine["versions"]}))
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


def _run_fault(case: Case, lines: Any, run: Any, want: Mapping[str, str]) -> Fault | None:
    """What is wrong with the verdict on a run whose right lines are `want`."""
    said, worst = plain(run), max(want.values(), key=WORDS.index)
    if said == RUNS[worst]:
        return None
    if type(said) is not str or said not in RUNS.values():
        choices = ", ".join(map(repr, RUNS.values()))
        return "no-such-word", f"{case.name}: the second value is one of {choices}; got {describe(run)}."
    own = {name: plain(word) for name, word in lines.items()} if type(lines) is dict else {}
    if own and all(word in WORDS for word in own.values()) and run_of(own) == said:
        return "from-wrong-lines", f"{case.name}: {run!r} follows from your lines, but a line is not right yet."
    name = f"{worst}-is-not-{said.replace(' ', '-')}"
    return name, f"{case.name}: you say {run!r} where the worst line is {worst!r}."


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
    faults = {part: first(*(_line_fault(case, line, said) for line in lines)) for part, lines in groups.items()}
    pairs = zip(outcome.value, case.args[1], strict=True)
    faults["run"] = first(*(_run_fault(case, *pair, lines_of(*row)) for pair, row in pairs))
    return [verdict(case.kind, part, case, fault) for part, fault in faults.items()]


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
