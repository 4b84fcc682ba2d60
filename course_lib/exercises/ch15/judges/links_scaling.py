"""Judges of the bus above its line, and of the scaling fit: its constants, its residuals and its efficiencies."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from course_lib import facts
from course_lib.collectives import bus_bandwidth
from course_lib.exercises.ch15.cards.links import CAUSES
from course_lib.facts import collectives as measured
from course_lib.facts import scaling
from course_lib.judging import Fault, Judging, Mistake, Params, describe, first, verdict
from course_lib.judging.cases import shown
from course_lib.judging.columns import Breakdown, Column, rows_fault, table
from course_lib.judging.diagnoses import Diagnosis
from course_lib.judging.draws import generality, plain
from course_lib.judging.mistakes import scaled
from course_lib.records import Case, Outcome, Verdict

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

WITHIN, SLIP = 0.01, 1e-3  # of a right number, and of one that names its mistake
STRONG, WEAK = "1.34B, data parallel", "6.66B, FSDP"
OTHER = {"doublings": "servers", "servers": "doublings"}
Rows = list[dict[str, Any]]


def kind_of(rows: Rows) -> str:
    """Whether all rows have one batch, one batch per GPU, or neither."""
    if len({row["batch_tokens"] for row in rows}) == 1:
        return "strong"
    return "weak" if len({row["batch_tokens"] / row["ranks"] for row in rows}) == 1 else "mixed"


def column(kind: str, growth: str, ranks: Any, fewest: float) -> Any:
    if kind == "strong":
        return 1 / ranks
    if growth == "servers":
        return (ranks - fewest) / 8
    return np.log2(ranks / fewest) if growth == "doublings" else np.log(ranks / fewest)


def seconds_of(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    n = np.array([row["ranks"] for row in rows], float)
    return n, np.array([row["batch_tokens"] / row["tokens_per_s"] for row in rows]) / n


def fitted(
    rows: Rows, growth: str, of: Callable[..., Any] = lambda n, t: t, raw: bool = False, first: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Both constants, and the relative residual of each row.

    `of` is what is fitted, from GPUs and seconds; `raw` is for least squares that are not relative; `first` is the number
    of GPUs to which the first constant belongs, by default the fewest measured.
    """
    n, t = seconds_of(rows)
    y = of(n, t)
    weight = np.ones_like(y) if raw else 1 / y
    table = np.stack([np.ones_like(y), column(kind_of(rows), growth, n, first or n.min())], 1)
    constants, *_ = np.linalg.lstsq(table * weight[:, None], y * weight, rcond=None)
    return constants, table @ constants / y - 1


def fewest(rows: Rows) -> int:
    return min(row["ranks"] for row in rows)


def efficiency(rows: Rows, growth: str, ranks: int, against: int | None = None) -> float | None:
    """One GPU's speed among `ranks`, over that among `against`, by default the fewest measured, by the fit."""
    if (kind := kind_of(rows)) == "mixed":
        return None
    (first, second), least = fitted(rows, growth)[0], against or fewest(rows)
    few, many = (first + second * column(kind, growth, n, fewest(rows)) for n in (least, ranks))
    return float(few * least / (many * ranks) if kind == "strong" else few / many)


def series(key: str) -> Rows:
    return [
        {"ranks": one.ranks, "batch_tokens": one.batch_tokens, "tokens_per_s": float(one.tokens_per_s)}
        for one in scaling.series(key)
    ]


SIZES = ((8, 16, 32, 64, 128), (4, 8, 16, 32), (8, 24, 64, 160, 512), (16, 32, 128, 256))
BATCH = 2**20


def made(kind: str, growth: str, rng: random.Random) -> Rows:
    """Measurements of a job, a few per cent off the law."""
    ranks = rng.choice(SIZES)
    each, speed = rng.choice((8192, 12_288, 32_768)), rng.uniform(3e3, 4e4)
    rows = []
    for n in ranks:
        if kind == "strong":
            tokens, more = BATCH, 0.02 * BATCH / speed / ranks[-1] * 8
        else:
            tokens = each * n if kind == "weak" else rng.choice((1, 2, 4)) * each * n + 512 * n * (n == ranks[0])
            more = each / speed * 0.03 * float(column("weak", growth, float(n), float(ranks[0])))
        seconds = (tokens / n / speed + more) * rng.uniform(0.97, 1.03)
        rows.append({"ranks": n, "batch_tokens": tokens, "tokens_per_s": tokens / n / seconds})
    rng.shuffle(rows)
    return rows


def _one_off(rows: Rows) -> Rows:
    """The rows with a slightly larger batch on a number of GPUs that is neither the least nor the largest."""
    odd = sorted(row["ranks"] for row in rows)[1]
    return [{**row, "batch_tokens": row["batch_tokens"] + (row["ranks"] == odd) * odd} for row in rows]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    growth = params["growth"]
    strong, weak = series(STRONG), series(WEAK)
    mixed = made("mixed", growth, random.Random(1))  # shown rows are the same in every class
    job = {kind: made(kind, growth, rng) for kind in ("strong", "weak", "mixed")}
    # one word is not right for all of these
    words = [(made(kind, growth, rng),) for kind in ("mixed", "strong", "weak", "mixed")]
    rates = [(job["strong"], 64), (job["weak"], 128), (job["mixed"], 64), (job["strong"], 512), (job["weak"], 4096)]
    unseen = [made(kind, growth, rng) for kind in ("strong", "weak") * 5 + ("mixed",) * 2]
    unseen += [_one_off(made(kind, growth, rng)) for kind in ("strong", "weak")]
    asked = [(rows, n) for rows in unseen for n in rng.sample((1, 2, 8, 12, 96, 1024, 4096), 2)]
    example = [(strong, 64), (strong, 512), (weak, 128), (weak, 4096), (mixed, 64)]
    return [
        shown("the strong series", "values:strong", 0, [(strong,)]),
        shown("the weak series", "values:weak", 0, [(weak,)]),
        shown("rows of several experiments", "values:mixed", 0, [(mixed,)]),
        shown("efficiency of both series", "values:efficiency", 1, example),
        *(plain(kind, 0, f"another {kind} job", [(job[kind],)]) for kind in ("strong", "weak")),
        plain("mixed", 0, "rows of one experiment and of several", words),
        plain("efficiency", 1, "efficiency of other jobs", rates),
        generality("fit", 0, "other jobs", [(rows,) for rows in unseen]),
        generality("efficiency", 1, "other jobs", asked),
    ]


NUMBERS = ("first", "second", "worst")
SAME = {
    "strong": "the batch is the same in all rows",
    "weak": "the batch of each GPU is the same in all rows",
    "mixed": "neither the batch nor the batch of each GPU is the same in all rows",
}


def _words(rows: Rows, *ranks: int) -> str:
    return ", ".join([f"{len(rows)} {kind_of(rows)} rows", *(f"{n} GPUs" for n in ranks)])


def fit_column(growth: str) -> Breakdown:
    """The three numbers of a fit under this law; mixed rows have none."""

    def numbers(rows: Rows) -> dict[str, float]:
        if kind_of(rows) == "mixed":
            return {}
        constants, off = fitted(rows, growth)
        return dict(zip(NUMBERS, (*constants, np.abs(off).max()), strict=True))

    def ends(rows: Rows) -> Rows:
        return sorted(rows, key=lambda row: row["ranks"])[:: len(rows) - 1]

    def fit(name: str, message: str, only: Callable[[Rows], Rows] = list, **how: Any) -> Mistake:
        """A fit of something else, or of some rows."""
        return Mistake(name, lambda rows: _pair(fitted(only(rows), **{"growth": growth, **how})[0]), message)

    def constants(name: str, change: Callable[[np.ndarray], np.ndarray], message: str) -> Mistake:
        return Mistake(name, lambda rows: _pair(change(fitted(rows, growth)[0])), message)

    def residual(name: str, of: Callable[..., float], message: str) -> Mistake:
        """Another number of the relative residuals and the measured seconds."""
        return Mistake(name, lambda rows: {"worst": of(fitted(rows, growth)[1], seconds_of(rows)[1])}, message)

    return Breakdown(part="fit", unit="(seconds, or a share of them)", want=numbers, words=_words, rel=WITHIN).knowing(
        fit("raw-seconds", "least squares on raw seconds follows the slowest row.", raw=True),
        constants("turned-round", np.flip, "the two constants are exchanged."),
        constants("milliseconds", lambda pair: 1e3 * pair, "return seconds."),
        fit("one-gpu-rate", "all ranks' tokens were divided by one GPU's rate.", of=lambda n, t: n * t),
        fit("line-through-ends", "this is a line through two rows; use all of them.", only=ends),
        fit("speed-fitted", "you fitted speeds; fit the seconds of a step.", of=lambda n, t: 1 / t, raw=True),
        fit("other-law", "this is another law of growth: what adds the same seconds each time?", growth=OTHER[growth]),
        fit("natural-logarithm", "a doubling is one step of log₂, not of ln.", growth="natural"),
        fit("from-one-gpu", "the first constant belongs to the fewest GPUs measured, not to one.", first=1.0),
        residual("mean-residual", lambda off, t: np.abs(off).mean(), "this is the mean; return the worst residual."),
        residual("root-mean-square", lambda off, t: math.sqrt((off**2).mean()), "return the worst residual."),
        residual("sum-of-squares", lambda off, t: (off**2).sum(), "this is the sum of squares; return the worst."),
        residual("residual-in-seconds", lambda off, t: np.abs(off * t).max(), "these are seconds; return a share."),
        residual("over-the-fit", lambda off, t: np.abs(off / (1 + off)).max(), "divide by the measured time."),
        residual("signed", lambda off, t: off.max(), "use absolute values: above the fit is as bad as below."),
        residual("percent", lambda off, t: 100 * np.abs(off).max(), "return a fraction, not per cent."),
    )


def _pair(constants: Sequence[float]) -> dict[str, float]:
    return dict(zip(NUMBERS, constants, strict=False))


def _kind_fault(case: Case, rows: Rows, got: Any) -> Fault | None:
    """What is wrong with the word for these rows, or with how many numbers follow it."""
    want = kind_of(rows)
    if type(got) not in (tuple, list) or not got or type(got[0]) is not str or got[0] not in SAME:
        name = "returned-none" if got is None else "wrong-shape"
        forms = '("strong", fixed, work, worst), ("weak", first, growth, worst) or ("mixed",)'
        return name, f"{case.name}: return {forms}; got {describe(got)}."
    if got[0] != want:
        return f"not-{want}", f"{case.name}: you say {got[0]!r}, but {SAME[want]}."
    if case.part != "mixed" and len(got) != 1 + 3 * (want != "mixed"):
        return "wrong-shape", f"{case.name}: three numbers follow the word, none for mixed rows; got {describe(got)}."
    return None


def efficiency_column(growth: str) -> Column:
    def by_fit(rows: Rows, ranks: int, against: int | None = None) -> float | None:
        return efficiency(rows, growth, ranks, against)

    def all_gpus(rows: Rows, ranks: int) -> float | None:
        return (one := by_fit(rows, ranks)) and one * ranks / fewest(rows)

    def measured(rows: Rows, ranks: int) -> float | None:
        rates = {row["ranks"]: row["tokens_per_s"] for row in rows}
        return rates[ranks] / rates[min(rates)] if ranks in rates else None

    return Column(
        part="efficiency",
        unit="(a fraction)",
        want=by_fit,
        words=_words,
        rel=WITHIN,
        mistake_rel=SLIP,
        none="these rows come from several experiments; return None",
    ).knowing(
        Mistake("speed-up", all_gpus, "this is the speed of all GPUs together; return that of one."),
        Mistake("upside-down", lambda rows, n: by_fit(rows, fewest(rows), n), "this is the fewest over the many."),
        Mistake("measured", measured, "this is measured over measured; use the fit."),
        Mistake("against-one", lambda rows, n: by_fit(rows, n, 1), "compare with the fewest measured, not one GPU."),
        Mistake("percent", scaled(by_fit, 100), "return a fraction, not per cent."),
    )


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    said, growth, fault = outcome.value, params["growth"], rows_fault(case, outcome.value)
    if fault is None and case.args[0] == 1:
        fault = efficiency_column(growth).fault(case, said)
    elif fault is None:
        fault = first(*(_kind_fault(case, *row, got) for row, got in zip(case.args[1], said, strict=True)))
        if fault is None and case.part != "mixed":  # the numbers are asked for in their own kind's part
            fault = fit_column(growth).fault(case, [_pair(got[1:]) for got in said])
    return [verdict(case.kind, case.part, case, fault)]


SCALING = {
    "bus-above-line": Judging(
        shares={"values:cause": 0.25, "values:rate": 0.25, "generality:cause": 0.25, "generality:rate": 0.25},
        cases=_bus_cases,
        verdicts=table((CAUSE, RATE)),
        why=f"""Bus bandwidth is defined so that a ring on a flat network shows the speed of its links. Where a switch does the sums, or a tree joins two servers,
each wire carries the tensor once: {published()["printed"] / 1e9:.0f} GB/s on eight H200 are {rate(published()) / 1e9:.0f} on each link. The other causes are
unit, direction, width, wires and clock; each is a factor that you can divide out.""",
        pytorch="nccl-tests' doc/PERFORMANCE.md defines the number; `NCCL_ALGO=Ring` makes it the wire's rate again.",
    ),
    "scaling-fit": Judging(
        shares="values:strong 0.15, values:weak 0.15, values:mixed 0.1, values:efficiency 0.15, generality:fit 0.25, "
        "generality:efficiency 0.2",
        cases=_cases,
        verdicts=_verdicts,
        why="""With a fixed batch, one part of each step stays while the work shrinks, so efficiency falls by itself; with a fixed batch per GPU, only the waiting
among ranks grows. Where the batch changes too, one curve has two causes. Relative residuals say how far to trust the law; an efficiency beyond the last row is
a prediction to be tested.""",
        pytorch="torchtitan logs tokens/s of each GPU (`tps`) and MFU; fit a series over `--nproc-per-node` and nodes.",
    ),
}
