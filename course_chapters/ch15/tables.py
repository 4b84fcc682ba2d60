"""Chapter 15's tables: what the files of runs, a machine and a step's parts say."""

import math
import statistics
from collections.abc import Mapping

from IPython.display import Markdown

from course_chapters.ch15.exercises import numbers
from course_chapters.table import columns, table
from course_lib.estimate import facts
from course_lib.estimate.facts.scaling import series
from course_lib.estimate.units import MINUTE, bytes_text, duration_text, money_text, percent_text, rate_text
from course_runs import evidence, preflight, tour
from course_runs.evidence import Evidence
from course_runs.evidence_checks import gates
from course_runs.reading import Chosen, choose, hardware_rows

SHEET = facts.device("H100 SXM").bandwidth
SMI = "NVIDIA H100 80GB HBM3, 570.86.15, {clock}, 1980, {reasons}, {errors}"
VERDICTS = {"ok": "healthy", "warn": "degraded", "fail": "refuse"}
SERIES = ("1.34B, data parallel", "6.66B, FSDP")
LADDER = (1, 2, 4, 8)  # GPUs of one server
PRICES = numbers.PRICE, facts.price("H100 hour, hyperscaler high")
PARTS = ("data", "forward", "backward", "communication", "optimizer", "checkpoint")
QUANTITIES = {
    "seconds": ("step_seconds", duration_text),
    "memory": ("memory_bytes", bytes_text),
    "wire": ("wire_bytes", bytes_text),
}


def refusals(files: Mapping[str, Evidence]) -> Markdown:
    """Whether the hash of each file fits, and which gates refuse it."""
    rows = []
    for name, content in files.items():
        refused = [gate.name for gate in gates(content) if not gate.ok]
        fits = "fits" if evidence.digest(content) == content["sha256"] else "does not fit"
        rows.append((name, fits, ", ".join(refused) or "none"))
    return columns("file | hash | gates that refuse it", rows)


def machine_lines() -> Markdown:
    """What `course doctor` finds on this machine, and what it would find on four machines that are made up."""

    def gpu(clock: int, reasons: str, errors: int) -> list[preflight.Gpu]:
        return [preflight.parsed(SMI.format(clock=clock, reasons=reasons, errors=errors))]

    made_up = {
        "overheated": preflight.clock_line(gpu(1155, "0x0000000000000040", 0)),
        "with memory errors": preflight.errors_line(gpu(1980, "0x0", 12)),
        "four GPUs without NVLink": preflight.links_line("PHB, SYS", 4),
        "shares its memory": preflight.rate_line("copy", 0.4 * SHEET, SHEET, preflight.COPY, SHEET.source),
    }
    found = [*(("this machine", line) for line in preflight.lines(measure=False)), *made_up.items()]
    rows = []
    for name, line in found:
        what = line.found.removeprefix("healthy: ").removeprefix("degraded: ")
        rows.append((name, line.what, VERDICTS[line.state], what, line.way_out or "–"))
    return columns("machine | line | verdict | found | what to do", rows)


def mfu_six_ways(run: Evidence) -> Markdown:
    """One run's MFU as six ways to compute it give it; prints the peak of a rank and its source."""
    steps, warm_up = [row["seconds"] for row in run["raw"]["steps"]], run["setup"]["warm_up"]
    measured, ranks = run["measured"], run["setup"]["layout"]["ranks"]
    flops, peak, middle = measured["model_flops_per_step"], measured["peak_flops"], statistics.median(steps[warm_up:])
    ways = {
        "median after warm-up, all ranks, dense peak": (middle, ranks * peak),
        "mean with warm-up": (statistics.fmean(steps), ranks * peak),
        "the fastest step": (min(steps), ranks * peak),
        "the peak of one rank": (middle, peak),
        "a sparse peak": (middle, 2 * ranks * peak),
        "a clock that did not wait": (middle * measured["mfu"] / 2, ranks * peak),
    }
    print(f"The peak of a rank is {rate_text(peak)}: {measured['peak_source']}")
    rows = []
    for name, (seconds, available) in ways.items():
        mfu = flops / seconds / available
        rows.append((name, percent_text(mfu), "above the roof: refused" if mfu > 1 else ""))
    return columns("computed from | MFU | ", rows)


def parity() -> Markdown:
    """How far each layout's losses and gradient norms are from one process's, and how far rounding explains."""
    found = choose("parity")
    rows = []
    for row in found.content["raw"]["rows"]:
        sizes = (f"{row[name]:.1e}" for name in ("loss", "gradient_norm", "allowed"))
        rows.append((row["layout"], *sizes, "yes" if row["ok"] else "NO"))
    headings = "loss differs by | gradient norm differs by | rounding explains | one model"
    return columns(f"{found.origin} {found.name} | {headings}", rows)


def gap(run: Chosen) -> Markdown:
    """Predicted and measured seconds and bytes of a run, and the largest terms of each gap; the terms add up to it."""
    rows = []
    for quantity, (field, text) in QUANTITIES.items():
        predicted, measured = run.content["predicted"][field], run.content["measured"][field]
        terms = [
            (term["term"], term["seconds" if quantity == "seconds" else "bytes"])
            for term in run.content["measured"].get("gap", ())
            if term["of"] == quantity
        ]
        total = sum(value for _, value in terms)
        assert not terms or math.isclose(total, measured - predicted, rel_tol=1e-6, abs_tol=1e-6)
        largest = sorted(terms, key=lambda term: -abs(term[1]))[:3]
        signed = "; ".join(f"{name} {'+' if value > 0 else '−'}{text(abs(value))}" for name, value in largest)
        ratio = f"{measured / predicted:.3f}"
        rows.append((quantity, text(predicted), text(measured), ratio, signed or "not broken down"))
    headings = "predicted | measured | measured / predicted | largest terms of the gap"
    return columns(f"{run.origin} {run.name} | {headings}", rows)


def parts(content: Evidence) -> dict[str, float]:
    """Seconds of a step by part, averaged over the timed steps; "other" is the rest."""
    timed = content["raw"]["steps"][content["setup"]["warm_up"] :]
    found = {name: statistics.fmean(row.get("parts", {}).get(name, 0.0) for row in timed) for name in PARTS}
    return {**found, "other": statistics.fmean(row["seconds"] for row in timed) - sum(found.values())}


def models(content: Evidence) -> dict[str, float]:
    """Predicted seconds of a step if nothing overlaps, and if communication and the rest overlap fully."""
    predicted = content["predicted"]["seconds"]
    whole, communication = sum(predicted.values()), predicted["communication"]
    return {"sum": whole, "max": max(whole - communication, communication)}


def step_parts(run: Chosen) -> Markdown:
    """Seconds of a step by part, and the tokens/s without each part; prints which of two models is closer."""
    seconds, tokens = parts(run.content), run.content["setup"]["tokens_per_step"]
    step, predicted = sum(seconds.values()), models(run.content)
    closer = min(predicted, key=lambda name: abs(math.log(step / predicted[name])))
    said = f"predicted by the sum {duration_text(predicted['sum'])}, by the maximum {duration_text(predicted['max'])}"
    print(f"Measured {duration_text(step)} on average; {said}. The {closer} is closer.")
    rows = []
    for name, part in seconds.items():
        speed = f"{tokens / (step - part):,.0f}" if part < step else "–"
        rows.append((name, duration_text(part) if part > 1e-7 else "0", percent_text(part / step, 2), speed))
    return columns(f"{run.origin} {run.name} | seconds | share | tokens/s without it", rows)


def failures() -> Markdown:
    """What was done to real processes on purpose, and the diagnosis from their notes and exit codes."""
    found = choose("failure")
    kept = found.content["raw"]["rows"]
    rows = [(row["done"], duration_text(row["seconds"]), row["code"], row["words"]) for row in kept]
    return columns(f"{found.origin} {found.name} | took | exit code | diagnosis", rows)


def ladder() -> Markdown:
    """Minutes and dollars of the tour on 1 to 8 GPUs, and what each doubling adds."""
    rows, before = [], set[str]()
    for gpus in LADDER:
        names = [stage.name for stage in tour.stages(gpus, dry=False)]
        new = ", ".join(name for name in names if name not in before)
        money = (money_text(numbers.tour_dollars(gpus, price)) for price in PRICES)
        rows.append((gpus, len(names), f"{numbers.tour_seconds(gpus) / MINUTE:.0f}", *money, new))
        before |= set(names)
    prices = f"at {money_text(PRICES[0])} per GPU-hour | at {money_text(PRICES[1])}"
    return columns(f"GPUs | stages | minutes | {prices} | possible from here on", rows)


def hardware() -> Markdown:
    """Which runs ran on which hardware."""
    keys = ("origin", "hardware", "processes", "backend", "torch")
    rows = hardware_rows(origin=None)
    shown = [{key: value or "–" for key, value in row.items() if key in keys} for row in rows]
    return table([{**each, "runs": ", ".join(row["runs"])} for each, row in zip(shown, rows, strict=True)])


def scaling() -> Markdown:
    """Two published jobs on more and more GPUs."""
    rows = []
    for key in SERIES:
        for point, efficiency in zip(series(key), numbers.efficiencies(key), strict=True):
            counts = f"{point.ranks:,}", f"{point.tokens:,.0f}"
            speed = duration_text(point.step_seconds), f"{point.tokens_per_s:,.0f}", percent_text(efficiency, 2)
            rows.append((key, *counts, *speed))
    headings = "GPUs | tokens per GPU and step | seconds of a step | tokens/s per GPU | efficiency"
    return columns(f"published, H100s | {headings}", rows)
