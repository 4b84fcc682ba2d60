"""Chapter 07's tables: split batches, synchronizations, samples, buckets, scaling, remedies and the plan's row."""

from collections.abc import Callable, Sequence

import torch
from IPython.display import Markdown

from course_chapters.ch07.exercises import numbers
from course_chapters.ch07.runs import DEEP, LINKS, RANKS, forward_seconds, timed_step
from course_chapters.running_example import GPUS, PARAMS
from course_chapters.table import table
from course_lib.cluster import Comm, Run, collectives, overlap, parity, simulate
from course_lib.estimate.facts import scaling
from course_lib.estimate.running_plan import STATE_BYTES
from course_lib.estimate.units import bytes_text, duration_text, percent_text
from course_lib.model.transformer import build
from course_lib.parallel import data as data_parallel


def seconds_text(seconds: float) -> str:
    """A duration in words; "none" for zero."""
    return duration_text(seconds) if seconds else "none"


def split_batches(
    gradient: Callable[[torch.dtype, list[int], list[float]], torch.Tensor], count: int, terms: int
) -> Markdown:
    """How far the gradient of a batch in parts is from that of the whole batch, in two formats; asserts what is
    rounding."""
    cuts = {
        f"{count // 2} + {count // 2}": [count // 2] * 2,
        f"{count} × 1": [1] * count,
        f"1 + {count - 1}": [1, count - 1],
        f"1 + {count - 1}, no weights": [1, count - 1],
    }
    whole = {dtype: gradient(dtype, [count], [1.0]) for dtype in (torch.float64, torch.float32)}
    rows = []
    for name, sizes in cuts.items():
        weights = [1 / len(sizes)] * len(sizes) if "no weights" in name else [size / count for size in sizes]
        for dtype, right in whole.items():
            split = gradient(dtype, sizes, weights)
            units = parity.apart(split, right, terms=terms)
            assert units <= 1 or "no weights" in name
            rows.append(
                {
                    "parts": name,
                    "format": str(dtype).removeprefix("torch."),
                    "numbers that differ": percent_text((split != right).double().mean().item(), 2),
                    "largest difference": f"{(split - right).abs().max() / right.abs().max():.0e}",
                    "of the allowed": f"{units:.2g}",
                }
            )
    return table(rows)


def compare_syncs(step: Callable[[Comm, bool], torch.Tensor], terms: int) -> Markdown:
    """Bytes sent by a rank in one step of four micro-batches, with four synchronizations and with one; same
    gradient."""
    quiet, loud = (simulate(step, RANKS, args=(silent,)) for silent in (True, False))
    assert parity.apart(quiet.results[0], loud.results[0], terms) <= 1
    runs = {"after every micro-batch": loud, "after the last micro-batch": quiet}
    rows = [{"synchronizes": when, "a rank sends": bytes_text(run.meter.bytes_sent[0])} for when, run in runs.items()]
    return table(rows)


def samples_of_a_step(samples: int, batch: int) -> Markdown:
    """The first global batch of two epochs, on two and on four ranks: what each rank reads, and all of it together."""
    rows = []
    for epoch in (0, 1):
        together = []
        for ranks in (2, 4):
            first = [data_parallel.indices_of(samples, rank, ranks, epoch)[: batch // ranks] for rank in range(ranks)]
            together.append(sorted(sample for part in first for sample in part))
            parts = {"by rank": " · ".join(map(str, first)), "first global batch": together[-1]}
            rows.append({"epoch": epoch, "ranks": ranks, **parts})
        assert together[0] == together[1]
    return table(rows)


def bucket_sizes(late: Run, sizes: Sequence[int]) -> Markdown:
    """Exposed communication by bucket size, predicted from tensor sizes and read from the cluster's clock.

    `late` is the run without overlap: its computing time, less the forward pass, is the backward pass to share out.
    """
    nbytes = [parameter.nbytes for parameter in build(DEEP).parameters()]
    backward = late.seconds - late.exposed()[0] - forward_seconds()
    tensors = [(backward * size / sum(nbytes), size) for size in nbytes]
    link, rows = LINKS.levels[0], []
    for size in sizes:
        run = timed_step(True, size)
        sent = overlap.bucket_times(tensors, size, RANKS, link.latency, link.bandwidth)
        predicted, measured = overlap.exposed_seconds(sent, backward), run.exposed()[0]
        rows.append(
            {
                "bucket, at most": bytes_text(size),
                "buckets": len(sent),
                "exposed, predicted": seconds_text(predicted),
                "exposed, on the clock": seconds_text(measured),
                "clock / predicted": f"{measured / predicted:.2f}",
                "hidden, on the clock": percent_text(run.hidden()[0] / (run.hidden()[0] + measured), 2),
            }
        )
    return table(rows)


def strong_scaling(*gpus: int) -> Markdown:
    """The running example's batch on more and more GPUs: step, exposed communication, efficiency and length of the
    run."""
    rows = []
    for ranks in gpus:
        step = numbers.step_on(ranks)
        rows.append(
            {
                "GPUs": f"{ranks:,}",
                "tokens per GPU": f"{numbers.BATCH / ranks:,.0f}",
                "compute": seconds_text(step.compute),
                "all-reduce": seconds_text(step.talk),
                "exposed": seconds_text(step.exposed),
                "efficiency": percent_text(step.efficiency),
                "whole run": seconds_text(numbers.run_seconds(ranks, step.efficiency)),
                "without communication": seconds_text(numbers.run_seconds(ranks)),
            }
        )
    latency, rate = numbers.NETWORK
    ring = f"{bytes_text(rate)}/s from server to server and {seconds_text(latency)} a message"
    return table(rows, f"16-bit gradients on one plain ring (06), {ring}; MFU {percent_text(numbers.MFU)}.")


def remedies() -> Markdown:
    """What each remedy for a slow all-reduce does to bytes, exposed time and efficiency of the running example."""
    tokens, near, far = numbers.SEQ, numbers.H100.link_one_way, numbers.NETWORK[1]
    ways = {  # bytes per gradient, link, micro-batches per synchronization, overlap
        "16 bits, network adapters, after the backward pass": (2, far, 1, False),
        "32 bits": (4, far, 1, False),
        "smaller: 8 bits": (1, far, 1, False),
        "less often: once in four micro-batches": (2, far, 4, False),
        "nearer: NVLink everywhere": (2, near, 1, False),
        "hidden: behind the backward pass": (2, far, 1, True),
    }
    rows = []
    for name, (grad_bytes, link, parts, hide) in ways.items():
        step = overlap.step(PARAMS, parts * tokens, GPUS, numbers.REAL, link, grad_bytes=grad_bytes, overlap=hide)
        sends = collectives.ring_cost(grad_bytes * PARAMS, GPUS, 0, link).nbytes / parts
        shown = {"exposed": seconds_text(step.exposed / parts), "efficiency": percent_text(step.efficiency)}
        rows.append({"one sequence per GPU": name, "a rank sends": bytes_text(sends), **shown})
    sharded = 3 * collectives.ring_half_cost(2 * PARAMS, GPUS, 0, far).nbytes
    later = {"exposed": "chapter 08", "efficiency": "chapter 08"}
    last = {"one sequence per GPU": "sharded: two gathers, one scatter", "a rank sends": bytes_text(sharded), **later}
    return table([*rows, last])


def tensor_scaling() -> Markdown:
    """Published steps on 8 to 256 GPUs between two predictions: everything hidden that can be, and nothing hidden."""
    points, rows = scaling.series(numbers.EVIDENCE), []
    for point in points:
        computing = point.tokens / points[0].tokens_per_s
        best = computing + max(0.0, numbers.all_reduce_seconds(point, 2) - overlap.BACKWARD * computing)
        worst = computing + numbers.all_reduce_seconds(point, 4)
        rows.append(
            {
                "GPUs": point.ranks,
                "tokens per GPU": f"{point.tokens:,.0f}",
                "share of the speed of 8": percent_text(point.tokens_per_s / points[0].tokens_per_s),
                "measured": seconds_text(point.step_seconds),
                "16 bits, hidden": seconds_text(best),
                "32 bits, all exposed": seconds_text(worst),
                "measured / all exposed": f"{point.step_seconds / worst:.2f}",
            }
        )
    return table(rows)


def plan() -> list[dict[str, str]]:
    """This chapter's row of the plan: would plain data parallelism do?"""
    step, state = numbers.plan_step(), STATE_BYTES * PARAMS
    return [
        {
            "chapter": "07",
            "state per GPU, replicated": bytes_text(state),
            "fits one GPU": "yes" if state <= numbers.H100.memory else "no",
            "tokens per step": f"{numbers.BATCH:,}",
            "tokens per GPU": f"{numbers.BATCH / GPUS:,.0f}",
            "all-reduce in 16 bits, at the measured rate": seconds_text(step.talk),
            "backward pass": seconds_text(overlap.BACKWARD * step.compute),
            "exposed": seconds_text(step.exposed),
            f"{percent_text(numbers.LEAST)} efficiency up to": f"{numbers.most_gpus():,} GPUs",
        }
    ]
