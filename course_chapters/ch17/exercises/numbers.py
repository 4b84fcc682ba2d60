"""Texts of the numbers in chapter 17's prose, each computed from the planner, the published facts and the library's
formulas."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from course_chapters.ch17 import diagnosis, mechanisms, rubric
from course_chapters.running_example import GPUS, PARAMS, TOKENS, opening, reading, usd_text
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.running_plan import CONVENTION, SHARDED, STATE_BYTES
from course_lib.estimate.scaling_laws import chinchilla_law
from course_lib.estimate.units import BILLION, DAY, TRILLION, bytes_text, duration_text, number_text, percent_text
from course_lib.operate import capstone
from course_lib.operate.capstone import COURSE, Assessed, assess
from course_lib.parallel import planner
from course_lib.parallel.planner.estimating import RESERVE

LONG_CP = {"cp": 8, "dp": 8, "zero": 3, "microbatches": 64}


@cache
def of(name: str, slower: float = 1.0) -> Assessed:
    """One of the chapter's plans on the course's task, with a network that is so many times slower."""
    plans = {name: one.plan for name, one in rubric.exemplars().items()} | {"sharded": SHARDED, "long cp": LONG_CP}
    return assess(plans[name], replace(COURSE, across_share=1 / slower))


@cache
def rows() -> dict[str, capstone.Parallelism]:
    """The table of parallelisms by name."""
    return {row.name: row for row in capstone.parallelisms()}


@cache
def quickest() -> Assessed:
    """The plan that the search finds for the course's task."""
    return assess(capstone.best(COURSE), COURSE)


def _ratio(name: str, wire: str) -> str:
    row = rows()[name]
    return percent_text(getattr(row, wire) / row.computing, 2)


def _loss(share: float) -> str:
    return f"{chinchilla_law().loss(PARAMS, share * COURSE.tokens):.3f}"


def _state() -> float:
    """Bytes of training state of the task's model, with gradients in fp32."""
    return memory.state_bytes(facts.model(COURSE.model).params, CONVENTION)


def _least_seconds() -> float:
    """Seconds of the run's FLOPs, 6 for each parameter and token, at the peak of all GPUs."""
    hardware = COURSE.hardware()
    return compute.train_seconds(planner.used_params(COURSE.job()), COURSE.tokens, hardware.peak, devices=GPUS)


def _least_days() -> float:
    """Days of all of the model's tokens on the course's GPUs by the quickest plan."""
    return quickest().days * TOKENS / COURSE.tokens


NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("17"),
    "gpus": lambda: f"{GPUS} GPUs",
    "tokens": lambda: f"{COURSE.tokens / BILLION:g} billion tokens",
    "all_tokens": lambda: f"{TOKENS / TRILLION:g} trillion tokens",
    "all_years": lambda: duration_text(_least_days() * DAY),
    "days": lambda: f"{COURSE.days:g} days",
    "usd": lambda: usd_text(COURSE.usd),
    "reserve": lambda: percent_text(RESERVE),
    "state": lambda: bytes_text(_state()),
    "state_each": lambda: f"{STATE_BYTES:g} bytes",
    "state_gpus": lambda: (
        f"{memory.fewest_devices(_state(), float(facts.device(COURSE.hardware().device).memory))} GPUs"
    ),
    "flops_days": lambda: duration_text(_least_seconds()),
    "least_mfu": lambda: percent_text(_least_seconds() / (COURSE.days * DAY * quickest().goodput), 2),
    "goodput": lambda: percent_text(quickest().goodput),
    # remedies and parallelisms
    "recompute_cost": lambda: percent_text({r.name: r.cost for r in capstone.remedies()}["recompute layers"], 2),
    "sequence": lambda: f"{COURSE.seq:,} tokens",
    "tp_near": lambda: _ratio("TP", "inside"),
    "tp_far": lambda: _ratio("TP", "across"),
    "pp_far": lambda: _ratio("PP", "across"),
    "fsdp_times": lambda: number_text(rows()["FSDP"].sent / rows()["DP"].sent),
    "pipeline_times": lambda: number_text(mechanisms.conflict("ZeRO-3", "pipeline").times),
    "bytes_factor": lambda: number_text(rows()["TP"].sent / rows()["PP"].sent),
    "lost_gpus": lambda: str(capstone.changed(COURSE, "lost server").gpus),
    "lines": lambda: str(len(rubric.LINES)),
    "cells": lambda: str(len(mechanisms.matrix())),
    "fighting": lambda: str(sum(cell.fights for cell in mechanisms.matrix().values())),
    # plans
    "good_step": lambda: duration_text(of("good").seconds),
    "good_days": lambda: f"{of('good').days:.1f} days",
    "good_memory": lambda: bytes_text(of("good").memory),
    "good_tp": lambda: percent_text(of("good").parts["tp"] / of("good").seconds, 2),
    "good_usd": lambda: usd_text(round(of("good").usd, -3)),
    "broken_memory": lambda: bytes_text(of("broken").memory),
    "broken_claim": lambda: bytes_text(rubric.exemplars()["broken"].claims["memory"]),
    "wasteful_longer": lambda: percent_text(of("wasteful").seconds / of("good").seconds - 1, 2),
    "wasteful_saved": lambda: bytes_text(of("good").memory - of("wasteful").memory),
    "sharded_step": lambda: duration_text(of("sharded").seconds),
    "quick_step": lambda: duration_text(quickest().seconds),
    "slow_good": lambda: percent_text(of("good", 4.0).seconds / of("good").seconds - 1, 2),
    "slow_cp": lambda: number_text(of("long cp", 4.0).seconds / of("long cp").seconds, 2),
    "half_tokens_loss": lambda: _loss(0.5),
    "tokens_loss": lambda: _loss(1.0),
    # diagnosis
    "faults": lambda: str(len(diagnosis.FAULTS)),
    "reading": lambda: reading(
        "megatron-2021",
        "fsdp-2023",
        "llama3-2024",
        "deepseek-v3",
        "kimi-k2",
        "deepseek-v32",
        "hoffmann-2022",
        "sardana-2024",
        "fp8-back-2024",
        "diloco-2023",
    ),
    "next_mamba": lambda: reading("mamba-2023"),
}
