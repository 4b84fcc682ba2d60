"""What evidence may say at most: bounds of the device's physics, and of the file's own parts on each other.

A file that fails one of these was changed, or its clock did not wait. One that passes all is not proven: who wrote it
could have chosen other numbers within the bounds. So it is *claimed*, never true; what no bound can reach (that this
device did it, and when) stays a claim whatever the numbers are.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from statistics import median

from course_lib.estimate.facts import device
from course_lib.estimate.facts.hardware import Device
from course_runs import sizes
from course_runs.device_bounds import clock_gates, device_gates, on_gpu
from course_runs.evidence import Evidence
from course_runs.evidence_fields import Rates, Raw, TrainSetup
from course_runs.gate import APART, ERROR, Gate
from course_runs.gpus import fastest_core, gpu
from course_runs.link_bounds import links
from course_runs.preflight import fact_name
from course_runs.recomputed import date_gates
from course_runs.server_bounds import calls_of_a_step, server_gates

CLOCK = float(fastest_core())  # Hz
CPU_FLOPS = {
    "float32": 64,
    "fp32": 64,
    "bfloat16": 2048,
    "bf16": 2048,
    "fp16": 2048,
}  # a core's FLOP in a cycle: AVX-512, AMX
CPU_BYTES = 64  # that a core's caches give and take in a cycle
CPU_LINK = 1e11  # bytes/s between two processes of one machine, through its memory
GPU_FLOPS, GPU_BYTES, GPU_LINK = 2e16, 2e13, 2e12  # of a GPU without a data sheet here: beyond any that was built
SLOWEST = 0.05  # of a GPU's peak in a large product: below it, another device computed
BRIDGED = 2  # cards that an NVLink bridge joins; a ring through more of them passes PCIe
AMPERE = 8.0  # compute capability of the first GPUs with bf16 products of their own
LARGE = 4096  # rows and columns of a product that fills a GPU


@dataclass(frozen=True)
class Limits:
    """What one rank's device can do at most; FLOP/s by dtype, bytes/s of its memory and of its link."""

    name: str
    flops: dict[str, float]
    memory: float
    link: float
    sums: float = 1.0  # share of a ring all-reduce's bytes that a rank must send: half if the switch does the adding


def physics(content: Evidence) -> list[Gate]:
    """All bounds on an evidence file, of any kind."""
    limits = limits_of(content)
    kind = {"train": _train, "matmul": _matmul, "collectives": _collectives}.get(content["kind"])
    return [*device_gates(content), *_clock(content), *clock_gates(content), *(kind(content, limits) if kind else ())]


def claims(content: Evidence) -> str:
    """What no number in the file can show, in one line."""
    seen = content["environment"]
    return (
        f"that it ran on {seen['device']} ({seen['cpu']}, torch {seen['torch']}), on {content['when'][:10]}, and "
        f"as the command says"
    )


def sheet_of(content: Evidence) -> Device | None:
    """The data sheet of the GPU that a run was on; None on a CPU, and for a GPU that the facts do not have."""
    name = fact_name(content["environment"]["device"]) if on_gpu(content) else None
    return device(name) if name else None


def limits_of(content: Evidence) -> Limits:
    """The bounds of the device that a file names."""
    seen, sheet = content["environment"], sheet_of(content)
    if not on_gpu(content):
        flops = {dtype: seen["cores"] * CLOCK * number for dtype, number in CPU_FLOPS.items()}
        return Limits(f"{seen['cores']} CPU cores", flops, seen["cores"] * CLOCK * CPU_BYTES, CPU_LINK)
    if sheet is None:
        return Limits("any GPU", dict.fromkeys(CPU_FLOPS, GPU_FLOPS), GPU_BYTES, GPU_LINK)
    known = gpu(sheet.name)
    half, single = float(sheet.get("dense_flops") or GPU_FLOPS), float(known.fp32_flops or GPU_FLOPS)
    flops = {"bfloat16": half, "bf16": half, "fp16": half, "float32": single, "fp32": single}
    pair = content["setup"].get("ranks", content["setup"].get("layout", {}).get("ranks", 1)) <= BRIDGED
    link = max(float(sheet.get("link_one_way") or GPU_LINK), (known.bridge_one_way or 0.0) * pair)
    sums = 0.5 if known.switch_adds else 1.0
    return Limits(sheet.name, flops, float(sheet.get("bandwidth") or GPU_BYTES), link, sums)


def _clock(content: Evidence) -> Iterator[Gate]:
    """Times against the calendar and against the process that measured them."""
    when = datetime.fromisoformat(content["when"])
    now = datetime.now(timezone.utc)  # noqa: UP017 - Python 3.10 has no datetime.UTC
    if when.tzinfo is not None:
        yield Gate("not from the future", (when - now).total_seconds() < 86_400, content["when"])
    lived = content["environment"].get("process_seconds")
    yield from date_gates(content)
    if lived is not None:
        spent = sum(_seconds(content["raw"]))
        yield Gate(
            "measured within the process's life", spent <= ERROR * lived, f"{spent:,.1f} s measured in {lived:,.1f} s"
        )


def _seconds(raw: Raw) -> Iterator[float]:
    """Every time in the raw numbers that passed one after the other."""
    for row in raw.get("steps", ()):
        yield row["seconds"]
    rows = raw.get("rows")
    for each in rows if isinstance(rows, list) else ():
        if isinstance(each, dict) and isinstance(each.get("seconds"), list):
            times = each["seconds"]
            yield sum(times) + max(each.get("repeats", 0) - len(times), 0) * min(times, default=0.0)


def _train(content: Evidence, limits: Limits) -> Iterator[Gate]:
    setup, measured, rows = content["setup"], content["measured"], content["raw"]["steps"]
    ranks, fastest = setup["layout"]["ranks"], min(row["seconds"] for row in rows)
    here = 1 if on_gpu(content) else ranks  # ranks of a CPU share its cores
    flops = measured["model_flops_per_step"]
    if setup["size"] in sizes.SIZES:
        again = _step_flops(setup)
        yield Gate("FLOPs follow from the model", math.isclose(again, flops, rel_tol=1e-6), f"{flops:.4g} a step")
    most = limits.flops[setup["dtype"]]
    done = flops / fastest / ranks * here
    yield Gate(
        "no faster than the device",
        done <= ERROR * most,
        f"{done / 1e12:,.2f} of at most {most / 1e12:,.2f} TFLOP/s: {limits.name}",
    )
    saved = (1 - limits.sums) * min(measured.get("wire", {}).get("all_reduce", 0.0), measured["wire_bytes"])
    sent = (measured["wire_bytes"] - saved) / fastest
    yield Gate(
        "no more bytes than the link carries",
        sent <= ERROR * limits.link,
        f"{sent / 1e9:,.2f} of at most {limits.link / 1e9:,.0f} GB/s",
    )
    yield from server_gates(content, ranks, limits.name, calls_of_a_step(content, fastest))
    memory = content["environment"].get("device_memory") if on_gpu(content) else None
    if memory:
        held = measured["memory_bytes"]
        yield Gate("held within the memory", held <= memory, f"{held / 1e9:,.2f} of {memory / 1e9:,.1f} GB")
    yield from _peak(content, setup["dtype"], measured["peak_flops"], limits)
    known = setup.get("rates")
    if known:
        yield from _rates(known, limits, setup, here)
    told = content["predicted"].get("step_seconds")
    if known and told:
        ratio = measured["step_seconds"] / told
        yield Gate(
            "the step fits the rates before it", 1 / APART <= ratio <= APART, f"{ratio:.2f} times the prediction"
        )
    trace = content["raw"].get("intervals")
    if trace and any(trace.values()):
        ends = [pair for each in trace.values() for pair in each]
        span = max(end for _, end in ends) - min(start for start, _ in ends)
        ratio = span / measured["step_seconds"]
        yield Gate(
            "the trace is as long as a step", 1 / APART <= ratio <= APART, f"{span:.4g} s, {ratio:.2f} times a step"
        )


def _peak(content: Evidence, dtype: str, said: float | None, limits: Limits) -> Iterator[Gate]:
    """The peak that utilization is counted against, on a GPU whose data sheet the facts have."""
    most = limits.flops.get(dtype, GPU_FLOPS)
    if sheet_of(content) is not None and most < GPU_FLOPS and dtype != "fp16":
        ok = said is not None and math.isclose(said, most, rel_tol=1e-6)
        yield Gate(
            f"the {dtype} peak is the data sheet's", ok, f"{(said or 0.0) / 1e12:,.1f}, and {most / 1e12:,.1f} TFLOP/s"
        )


def _rates(known: Rates, limits: Limits, setup: TrainSetup, here: int) -> Iterator[Gate]:
    most = limits.flops[setup["dtype"]] / here
    yield Gate(
        "rates within the device",
        known["flops"] <= ERROR * most * here
        and known["memory"] <= 2 * ERROR * limits.memory
        and all(
            rate * (limits.sums if name.endswith("all_reduce") else 1.0) <= ERROR * limits.link
            for name, (_, rate) in known.get("wires", {}).items()
        ),
        f"{known['flops'] / 1e12:,.2f} TFLOP/s, copy {known['memory'] / 1e9:,.0f} GB/s",
    )


def _step_flops(setup: TrainSetup) -> float:
    """FLOP of a step, from the size's own shape and the batch."""
    from course_runs import predict  # loads torch, which cards do without

    layout = predict.RunLayout(ddp=setup["layout"]["ranks"])
    config = sizes.size(setup["size"]).config(setup["seq_len"], setup["checkpointing"])
    return predict.step_flops(predict.Job(config=config, layout=layout, batch=setup["batch"]))


def _matmul(content: Evidence, limits: Limits) -> Iterator[Gate]:
    for word in content["setup"]["dtypes"]:
        rows = [row for row in content["raw"]["rows"] if row["dtype"] == word]
        best = max(2.0 * math.prod(row["shape"]) / median(row["seconds"]) for row in rows)
        most = limits.flops[word]
        yield Gate(
            f"{word} no faster than the device",
            best <= ERROR * most,
            f"{best / 1e12:,.2f} of at most {most / 1e12:,.2f} TFLOP/s",
        )
        yield from _peak(content, word, content["measured"].get(f"peak_flops_{word}"), limits)
        known = sheet_of(content) is not None and most < GPU_FLOPS
        native = word != "bf16" or float(content["environment"].get("capability") or AMPERE) >= AMPERE
        if known and native and any(min(row["shape"]) >= LARGE for row in rows):
            yield Gate(f"{word} is that of a GPU", best >= SLOWEST * most, f"{best / most:.2%} of its peak")


def _collectives(content: Evidence, limits: Limits) -> Iterator[Gate]:
    return links(content, limits.name, limits.link, on_gpu(content))
