"""What a file says that can be computed again from the rest of it: a training's summary from its steps, its model and
predictions from its setup. And what its dates allow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

from course_lib.estimate.facts import device
from course_lib.messages import count_text
from course_runs import sizes
from course_runs.evidence import Evidence
from course_runs.frameworks import torch_release
from course_runs.gate import MEASURED, Gate
from course_runs.layouts import RunLayout
from course_runs.preflight import fact_name

if TYPE_CHECKING:
    from course_runs import predict

FOLLOWS = 1e-6  # relative
GUESS = 1.0  # nats that a new model's first loss may be from that of equal chances, ln V
ACTIVATIONS = 1.25  # ratio: the model of activations improves with the course, a file keeps what it was told
WIRE = 0.05  # relative: what a library pads; and the sums of single numbers, in bytes
SINGLE_SUMS = 10_000
CALLS_APART = 2.0  # ratio: DDP's buckets and a library's own small calls
CALLS = {  # axis -> calls that serve it; every run sums its loss
    "ddp": {"all_reduce"},
    "fsdp": {"all_gather", "reduce_scatter"},
    "tp": {"all_reduce", "all_gather", "reduce_scatter"},
    "cp": {"all_gather", "reduce_scatter"},
    "pp": {"send"},
}


def job_of(content: Evidence) -> predict.Job | None:
    """The job that a training's setup describes; None for a size that the course does not have."""
    from course_runs import predict  # loads torch, which cards do without

    setup = content["setup"]
    if setup["size"] not in sizes.SIZES:
        return None
    known = {field.name for field in fields(RunLayout)}
    return predict.Job(
        config=sizes.size(setup["size"]).config(setup["seq_len"], setup["checkpointing"]),
        layout=RunLayout(**{name: value for name, value in setup["layout"].items() if name in known}),
        batch=setup["batch"],
        width=2 if setup["dtype"] in ("bfloat16", "float16") else predict.FP32,
        reshard=setup.get("reshard_after_forward", True),
    )


def train_gates(content: Evidence) -> Iterator[Gate]:
    """A training's summary, model, predictions and calls, each from what they follow from."""
    setup, measured, rows = content["setup"], content["measured"], content["raw"]["steps"]
    yield from _counts(content)
    timed = sorted(row["seconds"] for row in rows[setup["warm_up"] :])
    yield Gate("times vary", len(set(timed)) > 1, f"{len(set(timed))} different ones of {len(timed)}")
    tenth = len(timed) // 10
    said = {"step_seconds_p10": timed[tenth], "step_seconds_p90": timed[min(len(timed) * 9 // 10, len(timed) - 1)]}
    said |= {"first_loss": rows[0]["loss"], "last_loss": rows[-1]["loss"]}
    wrong = [name for name, value in said.items() if name in measured and not _close(value, measured[name])]
    yield Gate("percentiles and losses follow from the steps", not wrong, ", ".join(wrong) or f"{len(said)} numbers")
    if (job := job_of(content)) is None:
        return
    params = setup["parameters"]
    yield Gate("parameters follow from the model", params == job.params, f"{params:,}, and {job.params:,} by its shape")
    if not setup.get("resumed_at"):
        guess = math.log(job.config.vocab)
        off = rows[0]["loss"] - guess
        yield Gate("the first loss is that of a guess", abs(off) <= GUESS, f"{off:+.2f} from ln V = {guess:.2f}")
    if setup.get("rates") and content["predicted"].get("wire") is not None:
        yield from _predictions(content, job)
    axes = {axis for axis in CALLS if getattr(job.layout, axis) > 1}
    known = {"all_reduce"}.union(*(CALLS[axis] for axis in axes)) if axes else set()
    odd = sorted({kind for kind, nbytes in measured.get("wire", {}).items() if nbytes} - known)
    yield Gate("calls are those of the layout", not odd, ", ".join(odd) or job.layout.name)


def _counts(content: Evidence) -> Iterator[Gate]:
    """Steps, tokens, gradient norms, the measured peak, and the memory that is listed by what holds it."""
    setup, measured, rows = content["setup"], content["measured"], content["raw"]["steps"]
    begin = setup.get("resumed_at", 0)
    numbers = [row.get("step", begin + place) for place, row in enumerate(rows)]
    in_turn = numbers == list(range(begin, begin + len(rows))) and len(rows) == setup.get("steps", len(rows))
    yield Gate("steps are those of the setup", in_turn, f"{count_text(len(rows), 'step')} from step {begin}")
    tokens = setup["batch"] * setup["seq_len"]
    yield Gate(
        "tokens follow from the batch", tokens == setup["tokens_per_step"], f"{setup['tokens_per_step']:,} a step"
    )
    norms = [row["gradient_norm"] for row in rows if "gradient_norm" in row]
    sound = all(norm >= 0 for norm in norms)  # which NaN is not
    yield Gate("gradient norms are numbers from 0", sound, count_text(len(norms), "norm"))
    known = setup.get("rates") or {}
    if known and measured["peak_source"] == MEASURED:
        said = measured["peak_flops"]
        yield Gate("the peak is the measured rate", _close(said, known["flops"]), f"{said / 1e12:,.3g} TFLOP/s")
    held = measured.get("memory_by") or {}
    if held and setup["device"] == "cpu":  # a GPU's file has what its allocator reserved
        total = sum(held.values())
        yield Gate("memory is that of its parts", _close(total, measured["memory_bytes"]), f"{total / 1e6:,.1f} MB")


def _predictions(content: Evidence, job: predict.Job) -> Iterator[Gate]:
    """What was predicted, from the job and the rates; what was sent, from what was predicted."""
    from course_runs import predict

    told, again = content["predicted"], predict.predict(job, predict.Rates(**content["setup"]["rates"]))
    loose = ("activations", "recomputed", "loss")
    wrong = [name for name in ("wire_bytes", "step_seconds") if not _close(told[name], getattr(again, name))]
    for whole, expected in (("memory", again.memory), ("wire", again.wire), ("seconds", again.seconds)):
        parts = {part: number for part, number in expected.items() if part not in loose}
        wrong += [part for part, number in parts.items() if not _close(told[whole].get(part, 0.0), number)]
    for name, whole in (("memory", "memory_bytes"), ("wire", "wire_bytes"), ("seconds", "step_seconds")):
        wrong += [whole] * (not _close(sum(told[name].values()), told[whole]))
    mine, theirs = (sum(each.get(part, 0.0) for part in loose) for each in (told["memory"], again.memory))
    wrong += ["activations"] * (not theirs / ACTIVATIONS <= mine <= theirs * ACTIVATIONS)
    yield Gate("predictions follow from the rates", not wrong, ", ".join(wrong) or "bytes and seconds of every part")
    if not content["setup"].get("compiled"):
        off = abs(content["measured"]["wire_bytes"] - again.wire_bytes)
        yield Gate(
            "bytes are those of the layout",
            off <= WIRE * again.wire_bytes + SINGLE_SUMS,
            f"{content['measured']['wire_bytes'] / 1e6:,.2f} MB, and {again.wire_bytes / 1e6:,.2f} by the layout",
        )
        made, due = sum(content["measured"].get("wire_calls", {}).values()), sum(predict.calls(job).values())
        if job.layout.ranks > 1 and "wire_calls" in content["measured"]:
            alike = due / CALLS_APART <= made <= due * CALLS_APART
            yield Gate("as many calls as the layout makes", alike, f"{made}, and {due} by the layout")


def date_gates(content: Evidence) -> Iterator[Gate]:
    """The day of a run against the release of its torch and the year of its device."""
    when, seen = content["when"][:10], content["environment"]
    version = re.fullmatch(r"(\d+\.\d+\.\d+)(\+\w+)?", seen["torch"])  # a release, no build from before it
    if version and (released := torch_release(version[1])):
        yield Gate("not before its software", when >= released, f"{when}; torch {version[1]} came out on {released}")
    name = fact_name(seen["device"]) if seen["gpus"] else None
    if name:
        year = device(name).year
        yield Gate("not before its device", when[:4] >= str(year), f"{when}; {name} is of {year}")


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=FOLLOWS, abs_tol=1e-12)
