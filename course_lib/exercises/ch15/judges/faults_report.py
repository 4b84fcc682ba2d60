"""Judge of chapter 15's report: every number on the page is looked up in the file that it names."""

from __future__ import annotations

import copy
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.judging import Fault, Judging, Params, describe, verdict
from course_lib.records import Case, Outcome, Verdict
from course_lib.runs import evidence
from course_lib.runs.reading import recorded

Runs = Mapping[str, Mapping[str, Any]]
CLOSE, NEARLY = 0.005, 0.05  # relative: what rounding to three digits may cost; what two digits do
LINES = 60
SECONDS, BYTES, SHARES = (
    {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6},
    {"kB": 1e3, "MB": 1e6, "GB": 1e9},
    {"×": 1.0, "%": 0.01},
)
UNITS = {**SECONDS, **BYTES, **SHARES}
STEP, SAID, MEMORY = "measured.step_seconds", "predicted.step_seconds", "measured.memory_bytes"

_NUMBER = r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
_CLAIM = re.compile(rf"({_NUMBER})[ \u00a0]?({'|'.join(sorted(UNITS, key=len, reverse=True))})[ \u00a0]?\[([^\]\n]*)\]")
_BARE = re.compile(rf"({_NUMBER})[ \u00a0]?\[([^\]\n]*)\]")
_WORST = re.compile(r"^\W*Worst predicted:\W*`([^`\n]+)`", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Claim:
    """A number of the page: its value in the unit that it gives, that unit, and the fields that it names."""

    text: str
    value: float
    unit: str
    fields: tuple[str, ...]  # "name:way.to.field", one, or two for a ratio


def claims_of(page: str) -> tuple[list[Claim], str]:
    """The claims of a page, and what is left of it without them and without what stands in backticks."""
    plain = re.sub(r"`[^`\n]*`", " ", page.replace("μ", "µ"))
    found = [
        Claim(
            match[0], float(match[1].replace(",", "")), match[2], tuple(part.strip() for part in match[3].split(" / "))
        )
        for match in _CLAIM.finditer(plain)
    ]
    rest = re.sub(r"^\s*\d+[.)]\s", "", _CLAIM.sub(" ", plain), flags=re.MULTILINE)
    return found, rest


def field_of(runs: Runs, source: str) -> float | None:
    """The number that a source names, None where there is none."""
    name, _, way = source.partition(":")
    value: Any = runs.get(name)
    for step in way.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def intact(run: Mapping[str, Any]) -> bool:
    """Whether a file is as it was written."""
    return evidence.digest(run) == run.get("sha256")


def ratios(runs: Runs) -> dict[str, float]:
    """Measured over predicted step time of each run that is intact and was predicted."""
    pairs = {
        name: (field_of(runs, f"{name}:{STEP}"), field_of(runs, f"{name}:{SAID}"))
        for name, run in runs.items()
        if intact(run)
    }
    return {name: found / said for name, (found, said) in pairs.items() if found and said}


# --- the questions


def _sources(page: str, runs: Runs) -> Fault | None:
    found, rest = claims_of(page)
    if bare := _BARE.search(rest):
        return "no-unit", f"“{bare[0]}” has no unit that is known; there are {', '.join(UNITS)}."
    if stray := re.search(r"\S*\d\S*", rest):
        return "no-source", f"“{stray[0][:40]}” is a number without a source in brackets. Names belong in backticks."
    for claim in found:
        if fault := _resolves(claim, runs):
            return fault
    return None


def _resolves(claim: Claim, runs: Runs) -> Fault | None:
    lead = f"“{claim.text}”"
    names = [source.partition(":")[0] for source in claim.fields]
    if changed := next((name for name in names if name in runs and not intact(runs[name])), None):
        return "quotes-a-changed-file", f"{lead} is read from {changed}, which was changed after it was written."
    values = [field_of(runs, source) for source in claim.fields]
    if len(values) > 2 or None in values:
        missing = next(
            (source for source, value in zip(claim.fields, values, strict=True) if value is None), claim.fields[-1]
        )
        apart = " A ratio's two sources are kept apart by “ / ”, with spaces." if missing.count(":") > 1 else ""
        return "no-such-field", f"{lead}: there is no number at “{missing}”.{apart}"
    return _unit(lead, claim) or _value(lead, claim, [value for value in values if value is not None])


def _unit(lead: str, claim: Claim) -> Fault | None:
    kinds = [SECONDS if "seconds" in source else BYTES if "bytes" in source else SHARES for source in claim.fields]
    if len(kinds) == 2 and kinds[0] is not kinds[1]:
        return "wrong-unit", f"{lead} divides seconds by bytes, or the other way round."
    right = SHARES if len(kinds) == 2 else kinds[0]
    return (
        None
        if claim.unit in right
        else ("wrong-unit", f"{lead}: the field is not in {claim.unit}; it may be given in {', '.join(right)}.")
    )


def _value(lead: str, claim: Claim, values: Sequence[float]) -> Fault | None:
    if len(values) == 2 and not values[1]:
        return "no-such-field", f"{lead} divides by a field that is zero."
    want = values[0] / values[1] if len(values) == 2 else values[0]
    got = claim.value * UNITS[claim.unit]
    if math.isclose(got, want, rel_tol=CLOSE):
        return None
    if claim.unit in BYTES and any(math.isclose(got * 1.024**power, want, rel_tol=CLOSE) for power in (1, 2, 3)):
        return "powers-of-two", f"{lead} is in powers of two: 1 {claim.unit} are {BYTES[claim.unit]:,.0f} bytes."
    if math.isclose(got, want, rel_tol=NEARLY):
        return (
            "too-few-digits",
            f"{lead}: the file says otherwise from the second or third digit on. Give three digits, rounded right.",
        )
    power = math.log10(abs(got / want)) if got and want else math.inf
    slip = (
        f" It is off by {10 ** abs(round(power)):,} times: a unit?"
        if power and abs(power) < 12 and abs(power - round(power)) < 0.003 and round(power) % 3 == 0
        else ""
    )
    return "not-what-the-file-says", f"{lead}: that field of the file says something else.{slip}"


def _complete(page: str, runs: Runs) -> Fault | None:
    found = {claim.fields for claim in claims_of(page)[0]}
    for name, run in runs.items():
        if f"`{name}`" not in page and not any(source.startswith(f"{name}:") for fields in found for source in fields):
            return (
                "run-left-out",
                f"{name} is not on the page; a run that may not be quoted is named as well, in backticks.",
            )
        if not intact(run):
            continue
        wanted: list[tuple[str, ...]] = [(STEP,), (MEMORY,)]
        if field_of(runs, f"{name}:{SAID}"):
            wanted += [(SAID,), (STEP, SAID)]
        for fields in wanted:
            if tuple(f"{name}:{field}" for field in fields) not in found:
                return _missing(name, fields, found)
    return None


def _missing(name: str, fields: tuple[str, ...], found: set[tuple[str, ...]]) -> Fault:
    if len(fields) == 2 and tuple(f"{name}:{field}" for field in fields[::-1]) in found:
        return (
            "upside-down",
            f"The ratio of {name} is predicted / measured; measured / predicted says how much longer it took than was thought.",
        )
    return "missing-claim", f"The page does not say {' / '.join(fields)} of {name}, with that as its source."


def _worst(page: str, runs: Runs) -> Fault | None:
    off = {name: abs(math.log(ratio)) for name, ratio in ratios(runs).items()}
    said = _WORST.findall(page)
    if not off:
        return ("worst-of-none", "No run was predicted, so that none is the worst predicted.") if said else None
    if len(said) != 1:
        return "no-worst", f"There are {len(said)} lines “Worst predicted: `name`”; one is asked for."
    if said[0] in off and off[said[0]] >= max(off.values()) * (1 - 1e-9):
        return None
    return (
        "wrong-worst",
        f"`{said[0]}` is not furthest from its prediction. Half as long is as far off as twice as long.",
    )


def _page(page: str, runs: Runs) -> Fault | None:
    lines = len(page.strip().splitlines())
    return ("too-long", f"The page has {lines} lines; {LINES} are one page.") if lines > LINES else None


_ASKED: Mapping[str, Callable[[str, Runs], Fault | None]] = {"sources": _sources, "claims": _complete, "worst": _worst}


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    page, runs = outcome.value, case.args[0]
    values = case.kind == "values"
    if type(page) is not str or not page.strip():
        name = "returned-none" if page is None else "no-page"
        fault: Fault | None = (name, f"{case.name}: return the page as text; got {describe(page)}.")
        return [verdict(case.kind, part, case, fault) for part in (_ASKED if values else [case.part])]
    found = {part: _told(case, ask(page, runs)) for part, ask in _ASKED.items()}
    if not values:
        return [verdict(case.kind, case.part, case, next((fault for fault in found.values() if fault), None))]
    return [
        *(verdict("values", part, case, fault) for part, fault in found.items()),
        verdict("cost", "page", case, _told(case, _page(page, runs))),
    ]


def _told(case: Case, fault: Fault | None) -> Fault | None:
    return fault and (fault[0], f"{case.name}: {fault[1]}")


# --- the cases


def made_up(name: str, step: float, said: float | None, memory: float, layout: str = "cpu4/ddp") -> dict[str, Any]:
    """A recorded file with other numbers in these fields, sealed anew; without a prediction where `said` is None."""
    content = copy.deepcopy(recorded(layout))
    content["measured"] |= {"step_seconds": step, "memory_bytes": memory}
    content["predicted"] = content["predicted"] | {"step_seconds": said} if said is not None else {}
    return evidence.sealed(content | {"notes": [name]})


def _drawn(rng: random.Random, name: str, ratio: float | None = None) -> dict[str, Any]:
    step = 10 ** rng.uniform(-2.5, 2.5)
    ratio = ratio or rng.choice((rng.uniform(0.6, 0.9), rng.uniform(1.2, 4)))
    return made_up(name, step, step / ratio, 10 ** rng.uniform(6.3, 11))


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def case(name: str, runs: Runs, kind: Any = "generality", part: str = "", visible: bool = False) -> Case:
        return Case(name=name, args=(dict(runs),), kind=kind, part=part, visible=visible)

    shown = {f"cpu4/{name}": recorded(f"cpu4/{name}") for name in params["shown"].split(", ")}
    other = {f"cpu2/{name}": recorded(f"cpu2/{name}") for name in ("fsdp", "tp", "ddp")}
    changed = {f"own/{name}": _drawn(rng, name) for name in ("monday", "tuesday", "wednesday")}
    odd = rng.choice(sorted(changed))
    changed[odd]["measured"]["step_seconds"] *= 0.7
    bare = {
        "h100/one": _drawn(rng, "one"),
        "h100/two": made_up("two", 0.31, None, 4.1e9),
        "h100/four": _drawn(rng, "four"),
    }
    far = {"a": _drawn(rng, "a", 1.9), "b": _drawn(rng, "b", 0.4), "c": _drawn(rng, "c", 1.1)}
    many = {f"tour-{place}": _drawn(rng, str(place), rng.uniform(1.2, 4)) for place in range(12)}
    return [
        case("recorded runs of four processes", shown, "values", "", True),
        case("recorded runs of two processes", other, "values"),
        case("twelve runs", many, "values"),
        case(
            "a run from milliseconds to minutes",
            {
                f"sizes/{power}": made_up(str(power), 3.3 * 10.0**power, 2.1 * 10.0**power, 7.7 * 10.0 ** (power + 8))
                for power in (-3, -1, 2)
            },
            part="numbers",
        ),
        case("twice as long and less than half as long", far, part="worst"),
        case("a file that was changed", changed, part="changed"),
        case("a run that nobody predicted", bare, part="unpredicted"),
        case("nothing was predicted", {"one": made_up("one", 0.2, None, 9e7)}, part="unpredicted"),
    ]


REPORT = {
    "run-report": Judging(
        shares={
            "values:sources": 0.25,
            "values:claims": 0.2,
            "values:worst": 0.05,
            "cost:page": 0.05,
            "generality:numbers": 0.1,
            "generality:worst": 0.1,
            "generality:changed": 0.15,
            "generality:unpredicted": 0.1,
        },
        cases=_cases,
        verdicts=_verdicts,
        why="A number with its source can be looked up, one without it must be believed. A page that a function writes from the files cannot disagree with them, today or after the next run; and what a file "
        "does not have is then visibly missing, rather than filled in. A ratio is symmetric in its logarithm: half is as far from one as double.",
        pytorch="`torch.utils.collect_env` prints what a report should say of the software; the course's own `./course evidence` lists files and their gates.",
    )
}
