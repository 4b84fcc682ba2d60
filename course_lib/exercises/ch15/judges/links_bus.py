"""Judge of the bus above its line: reports with one thing that makes the printed number larger than what a wire carries."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_lib import facts
from course_lib.collectives import bus_bandwidth
from course_lib.exercises.ch15.cards.links_more import CAUSES
from course_lib.facts import collectives as measured
from course_lib.judging import Fault, Judging, Params, describe, is_number, near, verdict
from course_lib.judging.optional_columns import results, told, tuples
from course_lib.records import Case, Outcome, Verdict

CLOSE = 1e-3
MORE = 1.1  # a factor below this is a clock's or a printer's own error
FINE = "as it says"
Report = dict[str, Any]


def ring(report: Report) -> float:
    """What a rank sends round a ring, over the tensor."""
    return bus_bandwidth(report["collective"], 1.0, 1.0, report["ranks"])


def by_rule(report: Report) -> float:
    """Bus bandwidth as defined, by the clock of the report."""
    return bus_bandwidth(report["collective"], report["nbytes"], report["seconds"], report["ranks"])


def rate(report: Report, **but: Any) -> float:
    """Bytes/s that one wire carries one way; `but` says what to take for something in the report."""
    said = report | but
    times = 1.0 if said["sent_once"] else ring(said)
    return times * said["nbytes"] * said["sent_bytes"] / said["element_bytes"] / said["waited_seconds"] / said["wires"]


def cause(report: Report) -> str:
    """What makes the printed number larger."""
    over = report["printed"] / by_rule(report)
    slips = {"bits for bytes": 8.0, "both directions": 2.0, "factor twice": ring(report)}
    nearest = min(slips, key=lambda name: abs(over / slips[name] - 1))
    if over > MORE and abs(over / slips[nearest] - 1) < 0.03:
        return nearest
    does = {
        "no ring": ring(report) if report["sent_once"] else 1.0,
        "fewer bits sent": report["element_bytes"] / report["sent_bytes"],
        "clock did not wait": report["waited_seconds"] / report["seconds"],
        "several wires": float(report["wires"]),
        FINE: MORE,
    }
    return max(does, key=does.__getitem__)


def report(why: str, rng: random.Random, line: float) -> Report:
    """A report with this cause; the wire itself stays below its line."""
    collective = (
        "all_reduce"
        if why in ("factor twice", "no ring")
        else rng.choice(("all_reduce", "all_gather", "reduce_scatter"))
    )
    ranks = rng.choice((4, 8)) if why in ("factor twice", "no ring") else rng.choice((4, 8, 16))
    nbytes = rng.choice((2**26, 2**28, 2**30))
    element = 4 if why == "fewer bits sent" else rng.choice((2, 4))
    made: Report = {
        "collective": collective,
        "ranks": ranks,
        "nbytes": nbytes,
        "seconds": 1.0,
        "waited_seconds": 1.0,
        "element_bytes": element,
        "sent_bytes": rng.choice((1, 2)) if why == "fewer bits sent" else element,
        "sent_once": why == "no ring",
        "wires": rng.choice((2, 4, 8)) if why == "several wires" else 1,
        "printed": 0.0,
        "line": line,
    }
    least = {
        "several wires": 1.2 / made["wires"],
        "fewer bits sent": 1.2 * made["sent_bytes"] / element,
        "no ring": 0.75,
        "factor twice": 0.75,
        "both directions": 0.6,
        "bits for bytes": 0.3,
        "clock did not wait": 0.4,
    }.get(why, 0.4)
    made["waited_seconds"] = rate(made) / (line * rng.uniform(least, 0.9))
    made["seconds"] = made["waited_seconds"] / (
        rng.uniform(3, 12) if why == "clock did not wait" else rng.uniform(1.005, 1.03)
    )
    by = {"bits for bytes": 8.0, "both directions": 2.0, "factor twice": ring(made)}.get(why, 1.0)
    return made | {"printed": by_rule(made) * by * rng.uniform(0.997, 1.003)}


def below(why: str, rng: random.Random, line: float) -> Report:
    """A report with this cause on a wire so quick that even the printed number is below its line."""
    made = report(why, rng, line)
    return made | {"line": max(line, made["printed"]) * rng.uniform(1.2, 3)}


def both(rng: random.Random, line: float) -> Report:
    """A report in which two things make the printed number larger, one of them by far more."""
    made = report("as it says", rng, line) | {"collective": "all_reduce", "ranks": 8}
    wires, width = rng.choice(((8, 1), (2, 1), (4, 2)))  # against the width's 4 or 2, and the ring's 1.75
    one = (
        {"wires": wires, "element_bytes": 4, "sent_bytes": width}
        if rng.random() < 0.5
        else {"wires": wires if wires > 2 else 4, "sent_once": True}
    )
    made |= one
    made["waited_seconds"] = rate(made) * made["waited_seconds"] / (line * 0.8)
    made["seconds"] = made["waited_seconds"] / rng.uniform(1.005, 1.03)
    return made | {"printed": by_rule(made)}


def published() -> Report:
    """Eight H200 whose switch adds up, as printed in this course's facts."""
    one = measured.one("8 × H200, NVLS")
    link = float(facts.device(one.device).link_one_way or 0)
    seconds = 2 * (one.ranks - 1) / one.ranks * one.nbytes / float(one.bus_bandwidth)
    return {
        "collective": one.collective,
        "ranks": one.ranks,
        "nbytes": one.nbytes,
        "seconds": seconds,
        "waited_seconds": seconds,
        "element_bytes": 4,
        "sent_bytes": 4,
        "sent_once": True,
        "wires": 1,
        "printed": float(one.bus_bandwidth),
        "line": link,
    }


def _cases(params: Params, rng: random.Random) -> list[Case]:
    shown = [published(), *(report(why, rng, params["line"]) for why in CAUSES)]
    unseen = [report(why, rng, rng.choice((12.5e9, 25e9, 50e9, 200e9, 450e9))) for why in CAUSES for _ in range(6)]
    unseen += [below(why, rng, rng.choice((25e9, 450e9))) for why in CAUSES] + [both(rng, 50e9) for _ in range(8)]
    rng.shuffle(unseen)
    return [
        Case(
            name="shown",
            args=(0, [(each,) for each in shown]),
            secret=["eight H200", *(f"report {number}" for number in range(1, len(shown)))],
        ),
        Case(name="another report", args=(0, [(each,) for each in unseen]), kind="generality", visible=False),
    ]


_RATES: Sequence[tuple[str, Callable[[Report], float], str]] = (
    ("printed", lambda r: r["printed"], "that is the printed number."),
    (
        "by-the-rule",
        by_rule,
        "that is bus bandwidth as defined; it is what a wire carries only where a ring runs, in full width, over one wire, and the clock waited.",
    ),
    ("hasty-clock", lambda r: rate(r, waited_seconds=r["seconds"]), "take the clock that waited."),
    ("all-wires", lambda r: rate(r, wires=1), "that is what all wires carry together; one wire's rate is asked for."),
    (
        "full-width",
        lambda r: rate(r, sent_bytes=r["element_bytes"]),
        "fewer bytes went over the wire than the tensor has.",
    ),
    ("a-ring", lambda r: rate(r, sent_once=False), "nothing went round a ring: the tensor crossed once."),
    (
        "no-ring",
        lambda r: rate(r, sent_once=True),
        "that is bytes over seconds: the algorithm's bandwidth. How much does a rank send round a ring?",
    ),
    (
        "wrong-factor",
        lambda r: rate(r | {"collective": "all_reduce"}),
        "the factor of an all-reduce is twice that of the others.",
    ),
    ("both-directions", lambda r: 2 * rate(r), "one direction is asked for."),
    ("half", lambda r: rate(r) / 2, "that is half of it: the definition is of one direction already."),
    ("bits", lambda r: 8 * rate(r), "these are bits per second."),
)


def _rate_fault(case: Case, got: Sequence[Any]) -> Fault | None:
    """What is wrong with the first rate that is wrong: a known way where all rates went it."""
    reports = [given for (given,) in case.args[1]]
    names = case.secret or [case.name] * len(reports)
    for where, given, value in zip(names, reports, got, strict=True):
        if not is_number(value):
            return "not-a-number", f"{where}: the second value is a number of bytes/s; got {describe(value)}."
        if near(value, rate(given), CLOSE):
            continue
        for name, way, message in _RATES:
            if all(near(each, way(other), CLOSE) for other, each in zip(reports, got, strict=True)):
                return name, f"{where}: {message}"
        for name, way, message in _RATES:
            if near(value, way(given), CLOSE):
                return name, f"{where}: {message}"
        return "other-rate", f"{where}: you say {value / rate(given):.4g} times what one wire carries."
    return None


_TELLS: Mapping[str, str] = {
    "bits for bytes": "divide the printed number by what the definition gives.",
    "both directions": "divide the printed number by what the definition gives.",
    "factor twice": "divide the printed number by what the definition gives.",
    "no ring": "what does `sent_once` do to the definition?",
    "fewer bits sent": "compare the bytes of a number with those under way.",
    "clock did not wait": "compare both clocks.",
    "several wires": "over how many wires does it go?",
    FINE: "printed is what the definition gives, and one wire carries less than its line.",
}


def _cause_fault(where: str, given: Report, got: Any) -> Fault | None:
    said, want = got.strip().lower() if type(got) is str else got, cause(given)
    if said == want:
        return None
    if type(got) is not str or said not in CAUSES:
        return "no-such-word", f"{where}: got {describe(got)}; the words are {', '.join(CAUSES)}."
    name = "false-alarm" if want == FINE else "unnoticed" if said == FINE else f"not-{want.replace(' ', '-')}"
    return name, f"{where}: {said!r} is said; {_TELLS[want]}"


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    parts = ("cause", "rate")
    found = results(case, outcome.value, parts)
    if not told(found):
        found = tuples(case, found, parts, parts) or found
    if told(found):
        return list(found)
    names = case.secret or [case.name] * len(found)
    causes = (
        _cause_fault(where, given, said) for where, (given,), (said, _) in zip(names, case.args[1], found, strict=True)
    )
    first = next((fault for fault in causes if fault), None)
    return [
        verdict(case.kind, "cause", case, first),
        verdict(case.kind, "rate", case, _rate_fault(case, [got for _, got in found])),
    ]


BUSES = {
    "bus-above-line": Judging(
        shares={"values:cause": 0.25, "values:rate": 0.25, "generality:cause": 0.25, "generality:rate": 0.25},
        cases=_cases,
        verdicts=_verdicts,
        why="Bus bandwidth is a number about an algorithm, calibrated so that a ring on a flat network shows the speed of its links. Where a switch adds up, or a tree joins "
        f"two servers, each wire carries the tensor once: {float(measured.one('8 × H200, NVLS').bus_bandwidth) / 1e9:.0f} GB/s on eight H200 are "
        f"{rate(published()) / 1e9:.0f} on each link. The other causes are unit, direction, width, wires and clock: each is a factor that can be divided out.",
        pytorch="nccl-tests' doc/PERFORMANCE.md defines the number; `NCCL_ALGO=Ring` makes it the wire's again.",
    )
}
