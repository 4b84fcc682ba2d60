"""Chapter 10's tables: published closed forms and bubble rates next to played schedules, bytes of a border, the
plan."""

import math
from collections.abc import Iterable

from IPython.display import Markdown

from course_chapters.ch10.bubble_rates import Row
from course_chapters.ch10.exercises import numbers
from course_chapters.ch10.exercises.numbers import LARGE, MEGATRON, PLAN, PLAN_CHUNKS, RUN_16K, SHAPE
from course_chapters.ch10.published_pipelines import bubble_formula
from course_chapters.table import table
from course_lib.estimate.units import DAY, bytes_text, percent_text
from course_lib.parallel.planner.bubbles import idle
from course_lib.parallel.schedules import dualpipe, one_f_one_b, zb_h1, zb_h2
from course_lib.parallel.tensor.traffic import tp_bytes_per_layer
from course_lib.parallel.timeline import Durations, play


def closed_forms(ranks: int = 8, microbatches: int = 20) -> Markdown:
    """Bubble, activations and weights of four schedules: played, and by the published closed forms."""
    rows = []
    for make in (one_f_one_b, zb_h1, zb_h2, dualpipe):
        schedule = make(ranks, microbatches)
        form = bubble_formula(schedule.name)
        played = play(schedule, Durations(forward=1, backward=2, overlapped=3))
        printed, limit = form.idle(PP=ranks, F=1, B=2, W=1, FB=3), form.peak(PP=ranks, M=microbatches)
        spans = [last[-1] - first[0] for first, last in zip(played.starts, played.finishes, strict=True)]
        common, held = max(played.idle), max(played.peak_activations)
        idle = max(spans) - max(played.busy) if "no common end" in form.condition else common
        assert math.isclose(idle, printed, abs_tol=1e-9) and held <= limit
        rows.append(
            {
                "schedule": schedule.name,
                "bubble": f"`{form.bubble}`",
                "played / printed": f"{idle:g} / {printed:g}",
                "with a common end": f"{common:g}",
                "activations, played / limit": f"{held:g} / {limit:g}",
                "weights": f"{max(played.weights):g}",
            }
        )
    return table(rows)


def published_bubbles(rates: Iterable[Row]) -> Markdown:
    """Printed bubble rates, next to two models of them: with the profiled durations, and knowing 1F1B only."""
    return table(
        [
            {
                "schedule": row.schedule,
                "micro-batches": row.microbatches,
                "printed": percent_text(row.printed, 4),
                "from their times": percent_text(row.profiled, 4),
                "knowing 1F1B only": percent_text(row.fitted, 4),
                "from their times / printed": f"{row.profiled / row.printed:.3f}",
            }
            for row in rates
            if row.microbatches in (24, 64)
            and row.profiled is not None
            and row.fitted is not None
            and row.schedule != "ZB-1p"
        ]
    )


def border_bytes() -> Markdown:
    """Bytes that a rank sends for each micro-batch: over a pipeline's border, and in tensor parallelism's layers."""
    border = numbers.boundary_bytes(LARGE.hidden)
    tensor = tp_bytes_per_layer(numbers.SEQ, int(LARGE.hidden), int(RUN_16K.tp))
    ways = {"pipeline": ("border", 2 * border, 1), "tensor": ("layer", tensor, LARGE.layers / RUN_16K.pp)}
    return table(
        [
            {
                "a rank sends, each micro-batch": f"{name}, per {unit}",
                "bytes": bytes_text(sent),
                "on all its layers": bytes_text(sent * count),
            }
            for name, (unit, sent, count) in ways.items()
        ]
    )


def run_length() -> str:
    """The published rule for the length of a run, and the bubble of its pipeline with one and with two chunks per
    rank."""
    plain, halved = (percent_text(MEGATRON.bubble / chunks) for chunks in (1, 2))
    return (
        f"8DΨ/(NηF) = {MEGATRON.seconds / DAY:.0f} days. The bubble is {plain} of working time, {halved} "
        f"with two chunks."
    )


def plan() -> list[dict[str, object]]:
    """The plan's row after this chapter."""
    first, *_, last = (bytes_text(peak) for peak in numbers.plan_peaks())
    once, chunked = (idle(int(PLAN.pp), chunks * int(PLAN.microbatches)) for chunks in (1, PLAN_CHUNKS))
    return [
        {
            "chapter": "10",
            "layout": f"tp {PLAN.tp} × pp {PLAN.pp} × dp {PLAN.dp}",
            "layers per stage": SHAPE.layers // PLAN.pp,
            "micro-batches": PLAN.microbatches,
            "1F1B idle": percent_text(once),
            f"in {PLAN_CHUNKS} chunks": percent_text(chunked),
            "bytes over a border": bytes_text(numbers.boundary_bytes(SHAPE.hidden)),
            "slack and buffers": bytes_text(numbers.plan_slack()),
            "peak of first / last stage, with them": f"{first} / {last}",
            "fits one GPU": "yes" if max(numbers.plan_peaks()) <= numbers.H100.memory else "no",
        }
    ]
