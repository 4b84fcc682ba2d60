"""Texts of the numbers in chapter 14's prose, each computed from published failure logs and the library's formulas."""

import math
from collections.abc import Callable, Mapping

from course_chapters.running_example import EXACT, GPUS, opening, reading
from course_lib.estimate import facts
from course_lib.estimate.running_plan import CHECKPOINT_BYTES
from course_lib.estimate.units import DAY, GB, HOUR, MINUTE, bytes_text, duration_text, number_text, percent_text
from course_lib.operate import faults

LLAMA = facts.failure_log("Llama 3.1 405B")
RSC = facts.failure_log("RSC-1")
GEMINI = facts.failure_log("Gemini Ultra")
RATE = LLAMA.rate / HOUR
BETWEEN = faults.mtbf(LLAMA.devices, RATE)
COST, RESTART = 60.0, 10 * MINUTE
BEST = faults.best_interval(COST, BETWEEN)
FAST = faults.checkpoint_seconds(405e9 * CHECKPOINT_BYTES, LLAMA.storage)
NODE_REPAIR = DAY
PLAN_STORAGE, PLAN_COPY = 10 * GB, 20 * GB  # B/s: shared storage, a GPU's copies to host memory; assumed by the plan
MOST_WAITING = 0.01
RSC_SIZE = 1024  # GPUs of the jobs whose time between failures was measured


def _plan_goodput() -> float:
    """Of the plan's job, with checkpoints written at once."""
    cost, between = EXACT * CHECKPOINT_BYTES / PLAN_STORAGE, faults.mtbf(GPUS, RATE)
    return faults.expected_goodput(faults.best_interval(cost, between), cost, between, RESTART)


def _waiting(spares: int) -> float:
    return faults.waiting_fraction(spares, BETWEEN, NODE_REPAIR)


_SOURCES = "young-1974 daly-2006 llama3-2024 kokolis-2024 megascale-2024 gemini-2023 cui-2025 pillai-2014 palm-2022"


NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("14"),
    # rates
    "gpus": lambda: f"{LLAMA.devices:,.0f}",
    "days": lambda: f"{LLAMA.days:.0f}",
    "failures": lambda: f"{LLAMA.failures:.0f}",
    "between": lambda: duration_text(BETWEEN),
    "one_gpu": lambda: duration_text(faults.mtbf(1, RATE)),
    "plan_between": lambda: duration_text(faults.mtbf(GPUS, RATE)),
    "rsc_small": lambda: duration_text(RSC.measured_mttf_hours * HOUR),
    "rsc_predicted": lambda: duration_text(faults.mtbf(RSC_SIZE, RSC.rate / HOUR)),
    "width": lambda: percent_text(faults.rate_interval(int(LLAMA.failures), 1, 1.0)[1] / LLAMA.failures - 1, 2),
    # interval
    "cost": lambda: duration_text(COST),
    "restart": lambda: duration_text(RESTART),
    "young": lambda: duration_text(faults.young_interval(COST, BETWEEN)),
    "best": lambda: duration_text(BEST),
    "goodput": lambda: percent_text(faults.expected_goodput(BEST, COST, BETWEEN, RESTART)),
    "fast_cost": lambda: duration_text(FAST),
    "fast_young": lambda: duration_text(faults.young_interval(FAST, BETWEEN)),
    # spares and jitter
    "repair": lambda: duration_text(NODE_REPAIR),
    "in_repair": lambda: number_text(NODE_REPAIR / BETWEEN, 2),
    "spares": lambda: str(faults.spares_needed(MOST_WAITING, BETWEEN, NODE_REPAIR)),
    "waiting_mean": lambda: percent_text(_waiting(round(NODE_REPAIR / BETWEEN)), 2),
    "gemini_before": lambda: percent_text(GEMINI.earlier_goodput),
    "gemini_after": lambda: percent_text(GEMINI.goodput),
    "published": lambda: percent_text(LLAMA.goodput),
    "most_waiting": lambda: percent_text(MOST_WAITING),
    "plan_goodput": lambda: percent_text(math.floor(1000 * _plan_goodput()) / 1000),
    "rsc_gpus": lambda: f"{RSC_SIZE:,} GPUs",
    "llama_storage": lambda: f"{bytes_text(LLAMA.storage)}/s",
    "state": lambda: bytes_text(EXACT * CHECKPOINT_BYTES),
    "storage": lambda: f"{bytes_text(PLAN_STORAGE)}/s",
    "copying": lambda: f"{bytes_text(PLAN_COPY)}/s",
    "reading": lambda: reading(*_SOURCES.split()),
}
