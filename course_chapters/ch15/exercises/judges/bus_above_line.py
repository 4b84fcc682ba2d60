"""Judge of bus-above-line: faster than the wire."""

import random
from collections.abc import Mapping
from typing import Any

from course_chapters.ch15.exercises.bus_above_line import CAUSES
from course_grader.judging import Judging, Mistake, Params
from course_grader.judging.diagnoses import Diagnosis
from course_grader.judging.per_row import Column, table
from course_grader.judging.random_inputs import generality
from course_grader.records import Case
from course_lib.cluster.collectives import bus_bandwidth
from course_lib.estimate import facts
from course_lib.estimate.facts import collectives as measured

MORE = 1.1  # a smaller factor is within the error of a clock or of a printer
FINE = "as it says"
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter")
LINES = (12.5e9, 25e9, 50e9, 200e9, 450e9)
Report = dict[str, Any]


def ring(report: Report) -> float:
    return bus_bandwidth(report["collective"], 1.0, 1.0, report["ranks"])


def by_rule(report: Report) -> float:
    return bus_bandwidth(report["collective"], report["nbytes"], report["seconds"], report["ranks"])


def rate(report: Report, **but: Any) -> float:
    """Bytes/s that one wire carries one way; `but` replaces entries of the report."""
    said = report | but
    times = 1.0 if said["sent_once"] else ring(said)
    return times * said["nbytes"] * said["sent_bytes"] / said["element_bytes"] / said["waited_seconds"] / said["wires"]


def _printers_errors(report: Report) -> dict[str, float]:
    return {"bits for bytes": 8.0, "both directions": 2.0, "factor twice": ring(report)}


def cause(report: Report) -> str:
    over, slips = report["printed"] / by_rule(report), _printers_errors(report)
    nearest = min(slips, key=lambda name: abs(over / slips[name] - 1))
    if over > MORE and abs(over / slips[nearest] - 1) < 0.03:
        return nearest
    factors = {
        "no ring": ring(report) if report["sent_once"] else 1.0,
        "fewer bits sent": report["element_bytes"] / report["sent_bytes"],
        "clock did not wait": report["waited_seconds"] / report["seconds"],
        "several wires": float(report["wires"]),
        FINE: MORE,
    }
    return max(factors, key=factors.__getitem__)


RING: Report = {"seconds": 1.0, "waited_seconds": 1.0, "sent_once": False, "wires": 1}


def report(why: str, rng: random.Random, line: float) -> Report:
    """A report with this cause; the wire itself stays below its line."""
    ringless = why in ("factor twice", "no ring")
    collective = "all_reduce" if ringless else rng.choice(COLLECTIVES)
    ranks, nbytes = rng.choice((4, 8) if ringless else (4, 8, 16)), rng.choice((2**26, 2**28, 2**30))
    element = 4 if why == "fewer bits sent" else rng.choice((2, 4))
    sent = rng.choice((1, 2)) if why == "fewer bits sent" else element
    made = RING | {"collective": collective, "ranks": ranks, "nbytes": nbytes, "line": line}
    made |= {"element_bytes": element, "sent_bytes": sent, "sent_once": why == "no ring"}
    made["wires"] = rng.choice((2, 4, 8)) if why == "several wires" else 1
    least = {"no ring": 0.75, "factor twice": 0.75, "both directions": 0.6, "bits for bytes": 0.3}
    least |= {"several wires": 1.2 / made["wires"], "fewer bits sent": 1.2 * sent / element}
    made["waited_seconds"] = rate(made) / (line * rng.uniform(least.get(why, 0.4), 0.9))
    early = rng.uniform(3, 12) if why == "clock did not wait" else rng.uniform(1.005, 1.03)
    made["seconds"] = made["waited_seconds"] / early
    return made | {"printed": by_rule(made) * _printers_errors(made).get(why, 1.0) * rng.uniform(0.997, 1.003)}


def below(why: str, rng: random.Random, line: float) -> Report:
    """A report with this cause on a wire so fast that even the printed number is below its line."""
    made = report(why, rng, line)
    return made | {"line": max(line, made["printed"]) * rng.uniform(1.2, 3)}


def both(rng: random.Random, line: float) -> Report:
    """A report in which two things make the printed number larger, one of them by far more."""
    made = report(FINE, rng, line) | {"collective": "all_reduce", "ranks": 8}
    wires, width = rng.choice(((8, 1), (2, 1), (4, 2)))  # against the width's 4 or 2, and the ring's 1.75
    if rng.random() < 0.5:
        made |= {"wires": wires, "element_bytes": 4, "sent_bytes": width}
    else:
        made |= {"wires": max(wires, 4), "sent_once": True}
    made["waited_seconds"] = rate(made) * made["waited_seconds"] / (line * 0.8)
    made["seconds"] = made["waited_seconds"] / rng.uniform(1.005, 1.03)
    return made | {"printed": by_rule(made)}


def published() -> Report:
    """Eight H200 whose switch adds up, as printed in this course's facts."""
    one = measured.one("8 × H200, NVLS")
    printed, line = float(one.bus_bandwidth), float(facts.device(one.device).link_one_way or 0)
    seconds = 2 * (one.ranks - 1) / one.ranks * one.nbytes / printed
    made = {"collective": one.collective, "ranks": one.ranks, "nbytes": one.nbytes, "printed": printed, "line": line}
    clocks = {"seconds": seconds, "waited_seconds": seconds}
    return RING | made | clocks | {"element_bytes": 4, "sent_bytes": 4, "sent_once": True}


def _bus_cases(params: Params, rng: random.Random) -> list[Case]:
    shown = [published(), *(report(why, rng, params["line"]) for why in CAUSES)]
    unseen = [report(why, rng, rng.choice(LINES)) for why in CAUSES for _ in range(6)]
    unseen += [below(why, rng, rng.choice((25e9, 450e9))) for why in CAUSES] + [both(rng, 50e9) for _ in range(8)]
    rng.shuffle(unseen)
    example, other = ([(each,) for each in reports] for reports in (shown, unseen))
    return [Case(name="shown", args=(0, example)), generality("", 0, "another report", other)]


def _report_words(report: Report) -> str:
    return f"{report['collective']} of {report['nbytes']:,} bytes over {report['ranks']} ranks"


DIVIDE = "Divide the printed number by what the definition gives."
LOOK: Mapping[str, str] = {
    **dict.fromkeys(("bits for bytes", "both directions", "factor twice"), DIVIDE),
    "no ring": "What does `sent_once` do to the definition?",
    "fewer bits sent": "Compare the bytes of a number in the tensor with those sent.",
    "clock did not wait": "Compare both clocks.",
    "several wires": "How many wires carry it?",
    FINE: "The definition gives what is printed, and one wire carries less than its line.",
}
CAUSE = Diagnosis(part="cause", choices=tuple(CAUSES), want=cause, words=_report_words, fine=FINE, look=LOOK)
RATE = Column(part="rate", unit="bytes/s", want=rate, words=_report_words).knowing(
    Mistake("printed", lambda report: report["printed"], "this is the printed number."),
    Mistake("by-the-rule", by_rule, "this is bus bandwidth as defined; when does a wire carry exactly that?"),
    Mistake("hasty-clock", lambda report: rate(report, waited_seconds=report["seconds"]), "use the clock that waited."),
    Mistake("all-wires", lambda report: rate(report, wires=1), "this is what all wires carry together."),
    Mistake("full-width", lambda report: rate(report, sent_bytes=report["element_bytes"]), "fewer bytes were sent."),
    Mistake("a-ring", lambda report: rate(report, sent_once=False), "the tensor did not go around a ring."),
    Mistake("no-ring", lambda report: rate(report, sent_once=True), "how much does a rank send around a ring?"),
    Mistake("wrong-factor", lambda report: rate(report, collective="all_reduce"), "this is the all-reduce's factor."),
    Mistake("both-directions", lambda report: 2 * rate(report), "return the rate in one direction."),
    Mistake("half", lambda report: rate(report) / 2, "the definition counts one direction already."),
    Mistake("bits", lambda report: 8 * rate(report), "these are bits per second."),
)


JUDGING = Judging(
    shares={"values:cause": 0.25, "values:rate": 0.25, "generality:cause": 0.25, "generality:rate": 0.25},
    cases=_bus_cases,
    verdicts=table((CAUSE, RATE)),
    why=f"""Bus bandwidth is defined so that a ring on a flat network shows the speed of its links. Where a switch does the sums, or a tree joins two servers,
each wire carries the tensor once: {published()["printed"] / 1e9:.0f} GB/s on eight H200 are {rate(published()) / 1e9:.0f} on each link. The other causes are
unit, direction, width, wires and clock; each is a factor that you can divide out.""",
    pytorch="nccl-tests' doc/PERFORMANCE.md defines the number; `NCCL_ALGO=Ring` makes it the wire's rate again.",
)

ANSWERS = r"""# %% right: the definition first
def explain(report):
    n, nbytes = report["ranks"], report["nbytes"]
    factor = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}[report["collective"]] * (n - 1) / n
    by_rule = factor * nbytes / report["seconds"]
    sent = (1 if report["sent_once"] else factor) * nbytes * report["sent_bytes"] / report["element_bytes"]
    one = sent / report["waited_seconds"] / report["wires"]
    for name, times in (("bits for bytes", 8), ("both directions", 2), ("factor twice", factor)):
        if abs(report["printed"] / by_rule / times - 1) < 0.03:
            return name, one
    shares = {
        "no ring": factor if report["sent_once"] else 1,
        "fewer bits sent": report["element_bytes"] / report["sent_bytes"],
        "clock did not wait": report["waited_seconds"] / report["seconds"],
        "several wires": report["wires"],
        "as it says": 1.1,
    }
    return max(shares, key=shares.get), one


# %% right: from the wire upwards
def explain(report):
    n = report["ranks"]
    per_tensor = (1.0 if report["collective"] != "all_reduce" else 2.0) * (1 - 1 / n)
    numbers = report["nbytes"] // report["element_bytes"] * (1.0 if report["sent_once"] else per_tensor)
    one = numbers * report["sent_bytes"] / report["wires"] / report["waited_seconds"]
    over = report["printed"] / (report["nbytes"] * per_tensor / report["seconds"])
    if over > 5:
        return "bits for bytes", one
    if over < 1.2:
        saved = [
            (report["waited_seconds"] / report["seconds"], "clock did not wait"),
            (report["wires"], "several wires"),
            (report["element_bytes"] / report["sent_bytes"], "fewer bits sent"),
            (per_tensor if report["sent_once"] else 1, "no ring"),
        ]
        most, name = max(saved)
        return (name if most > 1.05 else "as it says"), one
    return ("both directions" if abs(over - 2) < abs(over - per_tensor) else "factor twice"), one


# %% wrong: the printed number is what the wire carries => values printed  from: the definition first
# ~ sent / report["waited_seconds"] / report["wires"] ==> report["printed"]

# %% wrong: the definition is what the wire carries => values by-the-rule  from: the definition first
# ~ sent / report["waited_seconds"] / report["wires"] ==> by_rule

# %% wrong: bytes over seconds => values no-ring  from: the definition first
# ~ (1 if report["sent_once"] else factor) * nbytes ==> nbytes

# %% wrong: the clock that did not wait => values hasty-clock  from: the definition first
# ~ sent / report["waited_seconds"] ==> sent / report["seconds"]

# %% wrong: all wires together => values all-wires  from: the definition first
# ~ sent / report["waited_seconds"] / report["wires"] ==> sent / report["waited_seconds"]

# %% wrong: bytes of the tensor => values full-width  from: the definition first
# ~ nbytes * report["sent_bytes"] / report["element_bytes"] ==> nbytes

# %% wrong: always a ring => values a-ring  from: the definition first
# ~ (1 if report["sent_once"] else factor) ==> factor

# %% wrong: one factor for all collectives => values wrong-factor  from: the definition first
# ~ (1 if report["sent_once"] else factor) ==> (1 if report["sent_once"] else 2 * (n - 1) / n)

# %% wrong: in bits => values bits  from: the definition first
# ~ sent / report["waited_seconds"] ==> 8 * sent / report["waited_seconds"]

# %% wrong: halved, for two directions => values half  from: the definition first
# ~ sent / report["waited_seconds"] ==> sent / 2 / report["waited_seconds"]

# %% wrong: above the line or not => values not-no-ring  from: the definition first
#       one = sent / report["waited_seconds"] / report["wires"]
# +     return "clock did not wait" if report["printed"] > report["line"] else "as it says", one

# %% wrong: printers make no mistakes => values unnoticed  from: the definition first
# ~ / times - 1) < 0.03 ==> / times - 1) < 0

# %% wrong: a per cent of a clock is a cause => values false-alarm  from: the definition first
# ~ "as it says": 1.1, ==> "as it says": 1.1 if report["waited_seconds"] <= report["seconds"] else 1.0,

# %% wrong: the example's factor => values -  from: the definition first
# ~ n, nbytes = report["ranks"], ==> n, nbytes = 8,

# %% wrong: a rate alone => values wrong-shape  from: the definition first
#       one = sent / report["waited_seconds"] / report["wires"]
# +     return one

# %% wrong: other words => values no-such-word  from: the definition first
#       one = sent / report["waited_seconds"] / report["wires"]
# +     return "NVLS", one

# %% wrong: the first of several causes => generality not-several-wires  from: the definition first
# ~ max(shares, key=shares.get) ==> next((name for name, share in shares.items() if share > 1.1), "as it says")

# %% wrong: nothing is wrong below the line => generality unnoticed  from: the definition first
#       one = sent / report["waited_seconds"] / report["wires"]
# +     if report["printed"] <= report["line"]:
# +         return "as it says", one
"""
