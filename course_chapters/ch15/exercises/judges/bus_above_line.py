from typing import Any

from course_chapters.ch15.exercises.bus_above_line import CAUSES
from course_grader.judging import Case, Column, Judging, Params, Random, Worked, generality, shown, table
from course_grader.judging.diagnoses import Diagnosis
from course_lib.cluster.collectives import bus_bandwidth
from course_lib.estimate import facts
from course_lib.estimate.facts import collectives as measured

right = Worked("bus-above-line")
FINE = "as it says"
Report = dict[str, Any]
RING: Report = {"seconds": 1.0, "waited_seconds": 1.0, "sent_once": False, "wires": 1, "printed": 0.0}


def by_rule(report: Report) -> float:
    return bus_bandwidth(report["collective"], report["nbytes"], report["seconds"], report["ranks"])


def report(why: str, rng: Random, line: float) -> Report:
    """A report with this cause; the wire itself stays below its line."""
    ringless = why in ("factor twice", "no ring")
    collective = "all_reduce" if ringless else rng.choice(("all_reduce", "all_gather", "reduce_scatter"))
    ranks, nbytes = rng.choice((4, 8) if ringless else (4, 8, 16)), rng.choice((2**26, 2**28, 2**30))
    element = 4 if why == "fewer bits sent" else rng.choice((2, 4))
    sent = rng.choice((1, 2)) if why == "fewer bits sent" else element
    made = RING | {"collective": collective, "ranks": ranks, "nbytes": nbytes, "line": line}
    made |= {"element_bytes": element, "sent_bytes": sent, "sent_once": why == "no ring"}
    made["wires"] = rng.choice((2, 4, 8)) if why == "several wires" else 1
    least = {"no ring": 0.75, "factor twice": 0.75, "both directions": 0.6, "bits for bytes": 0.3}
    least |= {"several wires": 1.2 / made["wires"], "fewer bits sent": 1.2 * sent / element}
    made["waited_seconds"] = right(made)[1] / (line * rng.uniform(least.get(why, 0.4), 0.9))
    early = rng.uniform(3, 12) if why == "clock did not wait" else rng.uniform(1.005, 1.03)
    made["seconds"] = made["waited_seconds"] / early
    slip = {"bits for bytes": 8, "both directions": 2, "factor twice": bus_bandwidth(collective, 1.0, 1.0, ranks)}
    return made | {"printed": by_rule(made) * slip.get(why, 1) * rng.uniform(0.997, 1.003)}


def both(rng: Random, line: float) -> Report:
    """A report in which two things make the printed number larger, one of them by far more."""
    made = report(FINE, rng, line) | {"collective": "all_reduce", "ranks": 8}
    wires, width = rng.choice(((8, 1), (2, 1), (4, 2)))  # against the width's 4 or 2, and the ring's 1.75
    if rng.random() < 0.5:
        made |= {"wires": wires, "element_bytes": 4, "sent_bytes": width}
    else:
        made |= {"wires": max(wires, 4), "sent_once": True}
    made["waited_seconds"] *= right(made)[1] / (line * 0.8)
    made["seconds"] = made["waited_seconds"] / rng.uniform(1.005, 1.03)
    return made | {"printed": by_rule(made)}


def published() -> Report:
    """Eight H200 whose switch adds up, as printed in this course's facts."""
    one = measured.one("8 × H200, NVLS")
    made = RING | {"collective": one.collective, "ranks": one.ranks, "nbytes": one.nbytes, "sent_once": True}
    made |= {"element_bytes": 4, "sent_bytes": 4, "line": float(facts.device(one.device).get("link_one_way") or 0)}
    seconds = by_rule(made) / float(one.bus_bandwidth)
    return made | {"printed": float(one.bus_bandwidth), "seconds": seconds, "waited_seconds": seconds}


def _cases(params: Params, rng: Random) -> list[Case]:
    example = [published(), *(report(why, rng, params["line"]) for why in CAUSES)]
    unseen = [report(why, rng, rng.choice((12.5e9, 25e9, 50e9, 200e9, 450e9))) for why in CAUSES for _ in range(6)]
    for made in unseen[::6]:  # each cause on a wire so fast that even the printed number is below its line
        unseen.append(made | {"line": max(made["line"], made["printed"]) * rng.uniform(1.2, 3)})
    unseen += [both(rng, 50e9) for _ in range(8)]
    rng.shuffle(unseen)
    return [
        shown("shown", "values:", 0, [(each,) for each in example]),
        generality("", 0, "another report", [(each,) for each in unseen]),
    ]


def _words(report: Report) -> str:
    return f"{report['collective']} of {report['nbytes']:,} bytes over {report['ranks']} ranks"


DIVIDE = "Divide the printed number by what the definition gives."
LOOK = {
    **dict.fromkeys(("bits for bytes", "both directions", "factor twice"), DIVIDE),
    "no ring": "What does `sent_once` do to the definition?",
    "fewer bits sent": "Compare the bytes of a number in the tensor with those sent.",
    "clock did not wait": "Compare both clocks.",
    "several wires": "How many wires carry it?",
    FINE: "The definition gives what is printed, and one wire carries less than its line.",
}
CAUSE = Diagnosis("cause", tuple(CAUSES), words=_words, fine=FINE, look=LOOK)
RATE = Column("rate", "bytes/s", words=_words)

JUDGING = Judging(
    shares={"values:cause": 0.25, "values:rate": 0.25, "generality:cause": 0.25, "generality:rate": 0.25},
    cases=_cases,
    verdicts=table((CAUSE, RATE), right=right),
    why=f"""Bus bandwidth is defined so that a ring on a flat network shows the speed of its links. Where a switch does
the sums, or a tree joins two servers, each wire carries the tensor once: {published()["printed"] / 1e9:.0f} GB/s on
eight H200 are {published()["printed"] * 8 / 14 / 1e9:.0f} on each link. The other causes are unit, direction, width,
wires and clock; each is a factor that you can divide out.""",
    pytorch="nccl-tests' doc/PERFORMANCE.md defines the number; `NCCL_ALGO=Ring` makes it the wire's rate again.",
)

ANSWERS = r'''# %% right: worked
def explain(report: dict) -> tuple[str, float]:
    """(the cause, bytes/s that one wire really carries in one direction)."""
    n, nbytes = report["ranks"], report["nbytes"]
    ring = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}[report["collective"]] * (n - 1) / n
    by_rule = ring * nbytes / report["seconds"]
    sent = (1 if report["sent_once"] else ring) * nbytes * report["sent_bytes"] / report["element_bytes"]
    rate = sent / report["waited_seconds"] / report["wires"]
    for cause, factor in (("bits for bytes", 8), ("both directions", 2), ("factor twice", ring)):
        if abs(report["printed"] / by_rule / factor - 1) < 0.03:
            return cause, rate
    shares = {
        "no ring": ring if report["sent_once"] else 1,
        "fewer bits sent": report["element_bytes"] / report["sent_bytes"],
        "clock did not wait": report["waited_seconds"] / report["seconds"],
        "several wires": report["wires"],
        "as it says": 1.1,
    }
    return max(shares, key=shares.get), rate
# %% right: other thresholds, and the printer's errors by their sizes
#       rate = sent / report["waited_seconds"] / report["wires"]
# +     over = report["printed"] / by_rule
# +     if over > 1.2:
# +         small = "both directions" if abs(over - 2) < abs(over - ring) else "factor twice"
# +         return ("bits for bytes" if over > 5 else small), rate
# ~ "as it says": 1.1 ==> "as it says": 1.05
# %% wrong: printed => values
# > this is the printed number.
# ~ sent / report["waited_seconds"] / report["wires"] ==> report["printed"]
# %% wrong: by the rule => values
# > this is bus bandwidth as defined; when does a wire carry exactly that?
# ~ sent / report["waited_seconds"] / report["wires"] ==> by_rule
# %% wrong: bytes over seconds => values no-ring
# > how much does a rank send around a ring?
# ~ (1 if report["sent_once"] else ring) * nbytes ==> nbytes
# %% wrong: hasty clock => values
# > use the clock that waited.
# ~ sent / report["waited_seconds"] ==> sent / report["seconds"]
# %% wrong: all wires => values
# > this is what all wires carry together.
# ~ / report["waited_seconds"] / report["wires"] ==> / report["waited_seconds"]
# %% wrong: full width => values
# > fewer bytes were sent.
# ~ nbytes * report["sent_bytes"] / report["element_bytes"] ==> nbytes
# %% wrong: a ring => values
# > the tensor did not go around a ring.
# ~ (1 if report["sent_once"] else ring) ==> ring
# %% wrong: one factor for all collectives => values wrong-factor
# > this is the all-reduce's factor.
# ~ (1 if report["sent_once"] else ring) ==> (1 if report["sent_once"] else 2 * (n - 1) / n)
# %% wrong: both directions => values
# > return the rate in one direction.
# ~ rate = sent ==> rate = 2 * sent
# %% wrong: half => values
# > the definition counts one direction already.
# ~ rate = sent ==> rate = sent / 2
# %% wrong: bits => values
# > these are bits per second.
# ~ rate = sent ==> rate = 8 * sent
# %% wrong: above the line or not => values not-no-ring
#       rate = sent / report["waited_seconds"] / report["wires"]
# +     return "clock did not wait" if report["printed"] > report["line"] else "as it says", rate
# %% wrong: printers make no mistakes => values unnoticed
# ~ / factor - 1) < 0.03 ==> / factor - 1) < 0
# %% wrong: a per cent of a clock is a cause => values false-alarm
# ~ "as it says": 1.1, ==> "as it says": 1.1 if report["waited_seconds"] <= report["seconds"] else 1.0,
# %% wrong: the example's factor => values unnoticed
# ~ n, nbytes = report["ranks"], ==> n, nbytes = 8,
# %% wrong: a rate alone => values wrong-shape
#       rate = sent / report["waited_seconds"] / report["wires"]
# +     return rate
# %% wrong: other words => values no-such-word
#       rate = sent / report["waited_seconds"] / report["wires"]
# +     return "NVLS", rate
# %% wrong: the first of several causes => generality not-several-wires
# ~ max(shares, key=shares.get) ==> next((name for name, share in shares.items() if share > 1.1), "as it says")
# %% wrong: nothing is wrong below the line => generality unnoticed
#       rate = sent / report["waited_seconds"] / report["wires"]
# +     if report["printed"] <= report["line"]:
# +         return "as it says", rate
'''
