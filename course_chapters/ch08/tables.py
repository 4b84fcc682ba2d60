"""Chapter 08's tables: state per rank in every convention, runs of its cells beside their predictions, steps with
offloaded optimizer state, published runs, and the chapter's row of the plan."""

import math
from collections.abc import Mapping, Sequence

from IPython.display import Markdown

from course_chapters.ch08 import widgets
from course_chapters.ch08.exercises import numbers
from course_chapters.running_example import GPUS, PARAMS
from course_chapters.table import table
from course_lib.cluster import Run, Topology
from course_lib.estimate import compute, memory
from course_lib.estimate.facts import scaling
from course_lib.estimate.units import bytes_text, duration_text, percent_text
from course_lib.parallel import sharding

STAGES = ("replica", "stage 1", "stage 2", "stage 3")


def by_convention() -> Markdown:
    """Bytes of state per GPU of the course's job in each stage, a row for each convention of chapter 02."""
    rows = []
    for letter, convention in memory.CONVENTIONS.items():
        held = [memory.zero_bytes(PARAMS, stage, GPUS, letter) for stage in range(len(STAGES))]
        per_stage = {name: bytes_text(nbytes) for name, nbytes in zip(STAGES, held, strict=True)}
        name = {"convention": f"{letter}: {convention.name}", "bytes per parameter": f"{convention.bytes_per_param:g}"}
        rows.append({**name, **per_stage})
    return table(rows)


def offload(tokens: Sequence[int]) -> Markdown:
    """Time of a step with optimizer state in host memory or on NVMe, for several numbers of tokens per GPU."""
    rows = []
    for name, (moved, bandwidth) in numbers.OFFLOAD.items():
        transfer = moved * PARAMS / GPUS / bandwidth
        row = {"": name, "moved per step": bytes_text(moved * PARAMS / GPUS), "takes": duration_text(transfer)}
        for count in tokens:
            computing = compute.train_seconds(PARAMS, count, numbers.REAL)
            bound = "link" if transfer > computing else "GPU"
            row[f"step of {count:,} tokens"] = f"{duration_text(max(transfer, computing))} ({bound})"
        rows.append({**row, "hidden from": f"{math.ceil(numbers.offload_tokens(moved, bandwidth)):,} tokens"})
    return table(rows)


def metered(runs: Mapping[str, Run], ways: Mapping[str, tuple[int, Mapping[str, object]]]) -> Markdown:
    """Bytes that rank 0 of 4 sent in a step of each way, whose result are its elements by unit, beside the prediction,
    which must be right to the byte; the first way is data parallelism."""
    rows, plain = [], next(iter(runs.values())).meter.bytes_sent[0]
    for name, run in runs.items():
        sent = run.meter.bytes_sent[0]
        predicted = sharding.step_bytes(run.results[0], 4, max(ways[name][0], 1), 4, 4, kept="kept" in name)
        assert sent == predicted, "to the byte"
        both = {"predicted": f"{predicted:,}", "metered": f"{sent:,}"}
        rows.append({"bytes a rank sends per step": name, **both, "of data parallel": f"{sent / plain:.3f}"})
    return table(rows)


def evenness(runs: Mapping[str, Run]) -> Markdown:
    """How evenly runs, whose results are each rank's bytes of state, divide state and traffic over their ranks."""
    rows = []
    for name, run in runs.items():
        held, sent = run.results, run.meter.bytes_sent
        shares = {"fullest rank": max(held) / sum(held), "emptiest": min(held) / sum(held)}
        shares["busiest sender"] = max(sent) / sum(sent)
        of_mean = {f"{what} / mean": f"{len(held) * share:.2f}" for what, share in shares.items()}
        rows.append({"": name, "sent by all": bytes_text(run.meter.total_bytes), **of_mean})
    return table(rows)


def hybrid(runs: Mapping[int, Run]) -> Markdown:
    """Runs of 8 ranks in two servers by the ranks of a group, whose results are (numbers held, elements by unit)."""
    rows = []
    for group, run in runs.items():
        (held, elements), levels = run.results[0], list(run.meter.levels.values())
        across = sum(sharding.hybrid_bytes(count, group, 8 // group, 4) for count in elements)
        rows.append(
            {
                "ranks in a group": group,
                "a rank holds": percent_text(held / sum(elements)),
                "bytes between servers": f"{levels[-1][0]:,}",
                "by the formula": f"{8 * across:,.0f}" if group == 4 else "–",
                "inside": f"{levels[0][0]:,}",
                "a step takes": duration_text(run.seconds),
            }
        )
    return table(rows)


def prefetched(runs: Mapping[int, Run], topology: Topology, units: int, params: int, tokens: int) -> Markdown:
    """Steps of a stack of equal units on 4 ranks by the units that are gathered ahead, beside the predicted ones."""
    wire = topology.levels[0]
    work = sharding.work_of(params, tokens, 4, topology.flops, wire.bandwidth, latency=wire.latency, gather=4, reduce=4)
    rows = []
    for depth, run in runs.items():
        predicted = sharding.play([work] * units, depth)
        rows.append(
            {
                "units ahead": depth,
                "most units gathered": f"{predicted.peak_bytes / work.nbytes:.0f}",
                "exposed, predicted": duration_text(predicted.exposed),
                "on the clock": duration_text(max(run.exposed())),
                "a step, predicted": duration_text(predicted.seconds),
                "clocked": duration_text(run.seconds),
                "clock / predicted": f"{run.seconds / predicted.seconds:.2f}",
            }
        )
    return table(rows)


def published() -> Markdown:
    """Published memory and steps of more and fewer GPUs beside the formulas."""
    rows = []
    for name, (few, many, predicted, measured) in numbers.memory_differences().items():
        both = {"predicted": f"{predicted:.1f} GiB", "measured": f"{measured:.1f} GiB"}
        both["ratio"] = f"{measured / predicted:.2f}"
        rows.append({"": f"8B, {name}: {few} to {many} GPUs, a GPU holds less by", **both})
    for point in scaling.series(numbers.EVIDENCE)[1:]:
        hidden, exposed = numbers.bounds(point)
        seen = {"measured": duration_text(point.step_seconds), "ratio": f"{point.step_seconds / hidden:.2f}"}
        both = {"predicted": f"{duration_text(hidden)} to {duration_text(exposed)}", **seen}
        rows.append({"": f"6.66B on {point.ranks} GPUs, a step", **both})
    return table(rows)


def plan() -> list[dict[str, str]]:
    """This chapter's row of the plan: does one GPU's part fit, and is the traffic hidden?"""
    peak, step = widgets.peak_of("70B", GPUS, 3, numbers.CONVENTION), numbers.plan_step()
    return [
        {
            "chapter": "08",
            "cut": f"fsdp {GPUS}",
            "state": bytes_text(peak.state),
            "two layers gathered": bytes_text(peak.gathered),
            "activations, recomputed": bytes_text(peak.total - peak.state - peak.gathered),
            "a GPU holds": bytes_text(peak.total),
            "fits": "yes" if peak.total <= widgets.GPU_MEMORY else "no",
            "sent, each micro-batch": bytes_text(numbers.PLAN_SENT),
            "computing": duration_text(step.computing),
            "exposed": duration_text(step.exposed),
        }
    ]
