import copy
import math
import re
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from course_grader.exercises.values import quoted
from course_grader.judging import Fault, Judging, Params, Random, Worked, describe, first_of, hidden, verdict
from course_grader.records import Case, Outcome, Verdict
from course_runs import evidence
from course_runs.reading import recorded

Runs = Mapping[str, Mapping[str, object]]
CLOSE, NEARLY = 0.005, 0.05  # relative: the rounding to three digits, and to two
LINES = 60
SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6}
BYTES = {"kB": 1e3, "MB": 1e6, "GB": 1e9}
SHARES = {"×": 1.0, "%": 0.01}
UNITS = {**SECONDS, **BYTES, **SHARES}
right = Worked("run-report")

_NUMBER = r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
_UNIT = "|".join(sorted(UNITS, key=len, reverse=True))
_CLAIM = re.compile(rf"({_NUMBER})[ \u00a0]?({_UNIT}|)[ \u00a0]?\[([^\]\n]*)\]")
_WORST = re.compile(r"^\W*Worst predicted:\W*`([^`\n]+)`", re.MULTILINE)


class Claim(NamedTuple):
    """A number of the page: its value in the unit that it gives, that unit, and the fields that it names."""

    text: str
    value: float
    unit: str  # "" where none is known
    fields: tuple[str, ...]  # "name:way.to.field", one, or two for a ratio


def claims_of(page: str) -> tuple[list[Claim], str]:
    """The claims of a page, and the rest of it without them and without text in backticks."""
    plain = re.sub(r"`[^`\n]*`", " ", page.replace("μ", "µ"))
    claims = []
    for match in _CLAIM.finditer(plain):
        fields = tuple(part.strip() for part in match[3].split(" / "))
        claims.append(Claim(match[0], float(match[1].replace(",", "")), match[2], fields))
    return claims, re.sub(r"^\s*\d+[.)]\s", "", _CLAIM.sub(" ", plain), flags=re.MULTILINE)


def field_of(runs: Runs, source: str) -> float | None:
    name, _, way = source.partition(":")
    value: object = runs.get(name)
    for step in way.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def names_of(claims: Sequence[Claim]) -> set[str]:
    return {source.partition(":")[0] for claim in claims for source in claim.fields}


def _sources(page: str, want: str, runs: Runs) -> Fault | None:
    claims, rest = claims_of(page)
    if stray := re.search(r"\S*\d\S*", rest):
        return "no-source", f"{quoted(stray[0][:40])} has no source in brackets. Names belong in backticks."
    if not claims:
        return "no-claims", "The page has no number with a source."
    changed = runs.keys() - names_of(claims_of(want)[0])
    return first_of(_resolves(claim, changed, runs) for claim in claims)


def _resolves(claim: Claim, changed: Set[str], runs: Runs) -> Fault | None:
    lead = quoted(claim.text)
    if not claim.unit:
        return "no-unit", f"{lead} has no known unit; use one of {', '.join(UNITS)}."
    values: list[float] = []
    for source in claim.fields:
        if (name := source.partition(":")[0]) in changed:
            return "quotes-a-changed-file", f"{lead} is read from {name}, which was changed after it was written."
        value = field_of(runs, source)
        if value is None or len(values) > 1 or (values and not value):
            hint = " Separate the two sources of a ratio by “ / ”, with spaces." if source.count(":") > 1 else ""
            return "no-such-field", f"{lead}: there is no such number at {quoted(source)}.{hint}"
        values.append(value)
    kinds = [SECONDS if "seconds" in source else BYTES if "bytes" in source else SHARES for source in claim.fields]
    if kinds[0] is not kinds[-1]:
        return "wrong-unit", f"{lead} is a ratio of seconds and bytes."
    units = SHARES if len(kinds) == 2 else kinds[0]
    if claim.unit not in units:
        return "wrong-unit", f"{lead}: the field is not in {claim.unit}; use one of {', '.join(units)}."
    return _value(lead, claim, values[0] / values[1] if len(values) == 2 else values[0])


def _value(lead: str, claim: Claim, want: float) -> Fault | None:
    def near(*factors: float, rel: float = CLOSE) -> bool:
        return any(math.isclose(claim.value * UNITS[claim.unit] * by, want, rel_tol=rel) for by in factors)

    if near(1.0):
        return None
    if claim.unit in BYTES and near(1.024, 1.024**2, 1.024**3):
        return "powers-of-two", f"{lead} uses powers of two; 1 {claim.unit} is {BYTES[claim.unit]:,.0f} bytes."
    if near(1.0, rel=NEARLY):
        return "too-few-digits", f"{lead} differs from the file in the second or third digit. Round to three digits."
    hint = " It is off by a power of a thousand: a unit?" if near(1e-9, 1e-6, 1e-3, 1e3, 1e6, 1e9) else ""
    return "not-what-the-file-says", f"{lead}: this field of the file has another value.{hint}"


def _complete(page: str, want: str, runs: Runs) -> Fault | None:
    claims, wanted = (claims_of(text)[0] for text in (page, want))
    claimed = {claim.fields for claim in claims if claim.unit}
    if left_out := [name for name in runs if name not in names_of(claims) and f"`{name}`" not in page]:
        return "run-left-out", f"{left_out[0]} is not on the page; name each run in backticks, also one not to quote."
    if not (missing := [claim.fields for claim in wanted if claim.fields not in claimed]):
        return None
    if (turned := missing[0][::-1]) in claimed:
        return "upside-down", f"{' / '.join(turned)} is predicted / measured; give measured / predicted."
    return "missing-claim", f"The page has no number with the source {' / '.join(missing[0])}."


def _worst(page: str, want: str, runs: Runs) -> Fault | None:
    named, ratios = _WORST.findall(page), [claim.fields for claim in claims_of(want)[0] if len(claim.fields) == 2]
    times = {took: (field_of(runs, took) or 1.0) / (field_of(runs, said) or 1.0) for took, said in ratios}
    off = {took.partition(":")[0]: abs(math.log(ratio)) for took, ratio in times.items()}
    if not off:
        return ("worst-of-none", "No run was predicted, so none is predicted worst.") if named else None
    if len(named) != 1:
        return "no-worst", f"There are {len(named)} lines “Worst predicted: `name`”; write one."
    if off.get(named[0], -1.0) >= max(off.values()) * (1 - 1e-9):
        return None
    why = "Half as long is as far off as twice as long." if named[0] in off else "No prediction of it is on the page."
    return "wrong-worst", f"`{named[0]}` is not furthest off. {why}"


def _length(page: str, want: str, runs: Runs) -> Fault | None:
    lines = len(page.strip().splitlines())
    return ("too-long", f"The page has {lines} lines; at most {LINES} are allowed.") if lines > LINES else None


QUESTIONS = {"values:sources": _sources, "values:claims": _complete, "values:worst": _worst, "cost:page": _length}


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    page, want, found = outcome.value, right(*case.args), []
    none = "returned-none" if page is None else "no-page", f"return the page as text; got {describe(page)}."
    for share, question in QUESTIONS.items():
        fault = question(page, want, *case.args) if type(page) is str and page.strip() else none
        kind, part = share.split(":") if case.kind == "values" else (case.kind, case.part)
        found.append(verdict(kind, part, case, fault and (fault[0], f"{case.name}: {fault[1]}")))
    return found if case.kind == "values" else [next((each for each in found[:3] if not each.ok), found[0])]


def made_up(name: str, step: float, said: float | None, memory: float) -> evidence.Evidence:
    """A recorded file with other numbers in these fields, sealed anew; without a prediction where `said` is None."""
    content = copy.deepcopy(recorded("cpu4/ddp"))
    content["measured"] |= {"step_seconds": step, "memory_bytes": memory}
    content["predicted"] = content["predicted"] | {"step_seconds": said} if said is not None else {}
    return evidence.sealed(content | {"notes": [name]})


def _drawn(rng: Random, **ratios: float | None) -> dict[str, evidence.Evidence]:
    """Files of these names, each with this ratio of measured and predicted seconds, or one drawn."""
    found = {}
    for name, ratio in ratios.items():
        step = 10 ** rng.uniform(-2.5, 2.5)
        ratio = ratio or rng.choice((rng.uniform(0.6, 0.9), rng.uniform(1.2, 4)))
        found[f"own/{name}"] = made_up(name, step, step / ratio, 10 ** rng.uniform(6.3, 11))
    return found


def _cases(params: Params, rng: Random) -> list[Case]:
    shown = {f"cpu4/{name}": recorded(f"cpu4/{name}") for name in params["shown"].split(", ")}
    other = {f"cpu2/{name}": recorded(f"cpu2/{name}") for name in ("fsdp", "tp", "ddp")}
    changed = _drawn(rng, monday=None, tuesday=None, wednesday=None)
    changed[rng.choice(sorted(changed))]["measured"]["step_seconds"] *= 0.7
    some, alone = next(iter(shown)), made_up("one", 0.2, None, 9e7)  # `some` was intact when it was shown
    changed[some] = copy.deepcopy(shown[some])
    changed[some]["measured"]["memory_bytes"] *= 2
    bare = {**_drawn(rng, one=None), "h100/two": made_up("two", 0.31, None, 4.1e9), **_drawn(rng, four=None)}
    far = _drawn(rng, a=1.9, b=0.4, c=1.1)
    many = _drawn(rng, **{f"tour-{place}": rng.uniform(1.2, 4) for place in range(12)})
    scales = {power: 10.0**power for power in (-6, -1, 2)}
    sizes = {f"sizes/{power}": made_up(str(power), 3.3 * s, 2.1 * s, 7.7e8 * s) for power, s in scales.items()}
    return [
        Case(name="recorded runs of four processes", args=(shown,)),
        Case(name="recorded runs of two processes", args=(other,), visible=False),
        Case(name="twelve runs", args=(many,), visible=False),
        hidden("a run from microseconds to minutes", "generality:numbers", sizes),
        hidden("twice as long and less than half as long", "generality:worst", far),
        hidden("a file that was changed", "generality:changed", changed),
        hidden("a run without a prediction", "generality:unpredicted", bare),
        hidden("nothing was predicted", "generality:unpredicted", {"one": alone}),
        hidden("what was predicted is changed", "generality:changed", {"one": alone, some: changed[some]}),
    ]


JUDGING = Judging(
    shares="values:sources 0.25, values:claims 0.2, values:worst 0.05, cost:page 0.05, generality:numbers 0.1, "
    "generality:worst 0.1, generality:changed 0.15, generality:unpredicted 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="""You can look up a number with a source; you must believe one without. A page that a function writes from the
files cannot disagree with them, today or after the next run, and what a file lacks is visibly missing. A ratio is
symmetric in its logarithm: half is as far from one as double.""",
    pytorch="`torch.utils.collect_env` prints what a report should say about the software; `./course evidence` lists "
    "the course's files and their gates.",
)

ANSWERS = r'''from course_runs import evidence
# %% right: worked
def report(runs: dict[str, dict]) -> str:
    """A page of Markdown about some runs, with a source for every number."""
    lines, ratios = ["# Predicted and measured", ""], {}
    for name, run in runs.items():
        if evidence.digest(run) != run["sha256"]:
            lines.append(f"- `{name}` is left out: its file was changed after it was written.")
            continue
        measured, predicted = run["measured"], run["predicted"].get("step_seconds")
        line = f"- `{name}`: {measured['step_seconds'] * 1e3:.4g} ms [{name}:measured.step_seconds]"
        line += f", {measured['memory_bytes'] / 1e6:.4g} MB [{name}:measured.memory_bytes]"
        if predicted:
            ratios[name] = measured["step_seconds"] / predicted
            line += f"; predicted {predicted * 1e3:.4g} ms [{name}:predicted.step_seconds]"
            line += f", ratio {ratios[name]:.4g} × [{name}:measured.step_seconds / {name}:predicted.step_seconds]"
        lines.append(line)
    if ratios:
        lines += ["", f"Worst predicted: `{max(ratios, key=lambda name: abs(math.log(ratios[name])))}`"]
    return "\n".join(lines)
# %% right: other units, ratios in per cent, in a table
# ~ "# Predicted and measured", ""
# ~~ ==> "# Runs", "| run | step | memory | predicted | measured / predicted |", "|---|---|---|---|---|"
# ~ - `{name}` is left out: its file was changed after it was written. ==> Refused, as its hash does not fit: `{name}`.
# ~ - `{name}`: {measured['step_seconds'] * 1e3:.4g} ms ==> | `{name}` | {measured['step_seconds']:,.6g} s
# ~ , {measured['memory_bytes'] / 1e6:.4g} MB ==>  | {measured['memory_bytes'] / 1e9:,.6g} GB
# ~ ; predicted {predicted * 1e3:.4g} ms ==>  | {predicted:,.6g} s
# ~ , ratio {ratios[name]:.4g} × ==>  | {100 * ratios[name]:,.6g} %
# ~ abs(math.log(ratios[name])) ==> max(ratios[name], 1 / ratios[name])
# %% wrong: seconds are called milliseconds => values not-what-the-file-says
# ~ `: {measured['step_seconds'] * 1e3:.4g} ==> `: {measured['step_seconds']:.4g}
# %% wrong: bytes in mebibytes, called MB => values powers-of-two
# ~ 1e6 ==> 2**20
# %% wrong: two digits => values too-few-digits
# ~ measured['step_seconds'] * 1e3:.4g ==> measured['step_seconds'] * 1e3:.2g
# ~ predicted * 1e3:.4g ==> predicted * 1e3:.2g
# %% wrong: a number without a source => values no-source
# ~ "# Predicted and measured" ==> f"# Predicted and measured in {len(runs)} runs"
# %% wrong: the memory is not said => values missing-claim
# -         line += f", {measured['memory_bytes'] / 1e6:.4g} MB [{name}:measured.memory_bytes]"
# %% wrong: the ratio upside down => values upside-down
# ~ {ratios[name]:.4g} × [{name}:measured.step_seconds / {name}:predicted
# ~~ ==> {1 / ratios[name]:.4g} × [{name}:predicted.step_seconds / {name}:measured
# %% wrong: the ratio has the source of its numerator => values wrong-unit
# ~ × [{name}:measured.step_seconds / {name}:predicted.step_seconds] ==> × [{name}:measured.step_seconds]
# %% wrong: the first run only => values run-left-out
# ~ runs.items() ==> list(runs.items())[:1]
# %% wrong: no unit => values no-unit
# ~ measured['step_seconds'] * 1e3:.4g} ms ==> measured['step_seconds']:.4g}
# %% wrong: a changed file is quoted => generality quotes-a-changed-file
# ~ evidence.digest(run) != run["sha256"] ==> False
# %% wrong: a changed file is left out in silence => generality run-left-out
# -             lines.append(f"- `{name}` is left out: its file was changed after it was written.")
# %% wrong: a prediction is there, always => generality raised
# ~ run["predicted"].get("step_seconds") ==> run["predicted"]["step_seconds"]
# %% wrong: a prediction that is missing is zero => generality no-such-field
# ~ .get("step_seconds") ==> .get("step_seconds", 0.0)
# ~ if predicted: ==> if True:
# ~ = measured["step_seconds"] / predicted ==> = measured["step_seconds"] / predicted if predicted else 1.0
# %% wrong: the ratio furthest from one in difference => generality wrong-worst
# ~ math.log(ratios[name]) ==> ratios[name] - 1
# %% wrong: no worst => values no-worst
# ~ if ratios: ==> if False:
# %% wrong: six lines a run => cost too-long
# ~ "\n".join(lines) ==> "\n\n".join(line.replace("; ", "\n").replace(", ", "\n") for line in lines)
# %% wrong: the claims in a list => values no-page  from: worked
def report(runs):
    return [(name, run["measured"]["step_seconds"], "s") for name, run in runs.items()]
# %% half: right, but a changed file is quoted => 6.8  from: a changed file is quoted
# %% wrong: it remembers which names were whole => generality ~
# ~ def report(runs: dict[str, dict]) ==> def report(runs: dict[str, dict], kept={})
# ~ evidence.digest(run) != run["sha256"]: ==> kept.setdefault(name, evidence.digest(run)) != run["sha256"]:
'''
