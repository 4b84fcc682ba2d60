"""The numbers in chapter 15's prose, as text: computed from recorded evidence, facts, and the formulas of earlier
chapters."""

from collections.abc import Callable, Mapping
from functools import cache

from course_chapters.running_example import core_minutes, reading_minutes, usd_text, whole_hours
from course_lib.estimate import compute, facts
from course_lib.estimate.facts import scaling
from course_lib.estimate.units import MINUTE, duration_text, number_text, percent_text
from course_runs import budget as money
from course_runs import preflight, tour
from course_runs.evidence_checks import SPREAD
from course_runs.reading import every, hardware, ranks_of, rows_of

LAB_GPUS = 8
PRICE = facts.price("H100 hour")
Row = Mapping[str, object]


# --- recorded runs


@cache
def runs() -> tuple[Row, ...]:
    """Predicted, measured and ratio of every recorded training run."""
    return tuple(rows_of(every("train", "recorded")))


def ratios(quantity: str, ranks: int | None = None) -> list[float]:
    """Measured over predicted of each run that has both, of all runs or of those with so many ranks."""
    found = [row[f"{quantity}_ratio"] for row in runs() if ranks in (None, row["ranks"])]
    return [ratio for ratio in found if isinstance(ratio, float) and ratio]


# --- money


def tour_seconds(gpus: int) -> float:
    """Planned seconds of the tour on so many GPUs."""
    return MINUTE * sum(stage.minutes for stage in tour.stages(gpus, dry=False))


def tour_dollars(gpus: int, price: float = PRICE) -> float:
    return money.dollars(tour_seconds(gpus), gpus, price)


# --- published runs


def efficiencies(key: str) -> list[float]:
    """Published tokens/s of a GPU in one job on more and more GPUs, relative to the fewest."""
    speeds = [point.tokens_per_s for point in scaling.series(key)]
    return [float(speed / speeds[0]) for speed in speeds]


def last_of(key: str) -> str:
    return f"{scaling.series(key)[-1].ranks:,} GPUs"


NUMBERS: Mapping[str, Callable[[], str]] = {
    "core_minutes": lambda: core_minutes("15"),
    "reading_minutes": lambda: reading_minutes("15"),
    "whole_hours": lambda: whole_hours("15"),
    # what was recorded
    "runs": lambda: str(len(runs())),
    "machines": lambda: " and ".join(
        dict.fromkeys(hardware(each.content["environment"]) for each in every(origin="recorded"))
    ),
    "most": lambda: str(max(ranks_of(each.content) for each in every("train", "recorded"))),
    "wire_off": lambda: percent_text(max(abs(ratio - 1) for ratio in ratios("wire")), 2),
    "memory_low": lambda: number_text(min(ratios("memory")), 2),
    "memory_high": lambda: number_text(max(ratios("memory")), 2),
    "seconds_low": lambda: number_text(min(ratios("seconds")), 2),
    "seconds_high": lambda: number_text(max(ratios("seconds")), 2),
    "alone_low": lambda: number_text(min(ratios("seconds", ranks=1)), 2),
    "alone_high": lambda: number_text(max(ratios("seconds", ranks=1)), 2),
    # what is asked of evidence, and of a machine
    "spread": lambda: f"{SPREAD:g}",
    "degraded": lambda: percent_text(preflight.DEGRADED),
    "copy": lambda: percent_text(preflight.COPY),
    "link": lambda: percent_text(preflight.LINK),
    # money
    "lab_gpus": lambda: f"{LAB_GPUS} H100s",
    "lab_minutes": lambda: duration_text(tour_seconds(LAB_GPUS)),
    "lab_money": lambda: usd_text(tour_dollars(LAB_GPUS)),
    "one_money": lambda: usd_text(tour_dollars(1)),
    "price": lambda: usd_text(PRICE),
    "idle_hour": lambda: usd_text(compute.cost_usd(float(LAB_GPUS), PRICE)),
    # published
    "ddp_last": lambda: last_of("1.34B, data parallel"),
    "ddp_efficiency": lambda: percent_text(efficiencies("1.34B, data parallel")[-1], 2),
    "fsdp_last": lambda: last_of("6.66B, FSDP"),
    "fsdp_efficiency": lambda: percent_text(efficiencies("6.66B, FSDP")[-1], 2),
}
