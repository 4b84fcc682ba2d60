"""Texts of the numbers in chapter 19's prose, each computed from published figures and the library's formulas."""

from collections.abc import Callable, Mapping
from typing import Any

from course_chapters.ch19 import adding, lora
from course_chapters.ch19.exercises import systems_numbers
from course_chapters.running_example import GPUS, opening, reading
from course_lib.estimate import facts
from course_lib.estimate.units import bytes_text, count_text, number_text, percent_text
from course_runs import evidence

_SOURCES = "deepseekmath-2024 ppo-2017 lora-2021 dapo-2025 drgrpo-2025 kl-2020 tis-2025 trl-papers"
LARGE, RANK = facts.model("llama3-70b"), 16  # of the table on LoRA
WHOLE, THIN = lora.state_bytes(LARGE.params, lora.adapter_params(lora.matrices(LARGE), RANK))
ROW, ADAPTER = 10**6, 10**4  # numbers of a layer and of its adapters, of about one percent


def recorded(part: str, name: str) -> Any:
    """A value of the shipped evidence of `course run posttrain`."""
    shipped = [content for origin, _, content in evidence.found("posttraining") if origin == "recorded"]
    return shipped[0][part][name]


def _fsdp_share() -> float:
    """Bytes of adapters' training under FSDP over those of full training, on the plan's GPUs."""
    whole = lora.fsdp_bytes([0], [ROW], GPUS)
    return lora.fsdp_bytes([0, ROW], [ADAPTER], GPUS) / whole


NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("19"),
    **systems_numbers.NUMBERS,
    "small_numbers": lambda: f"{sum(each.numel() for each in adding.build(adding.CONFIG).parameters()):,}",
    "tuned_steps": lambda: str(adding.Plan().tuned_steps),
    "recorded_steps": lambda: count_text(recorded("setup", "steps"), "step"),
    "recorded_difference": lambda: number_text(recorded("measured", "largest_difference"), 2),
    "recorded_before": lambda: percent_text(recorded("measured", "accuracy_before")),
    "recorded_after": lambda: percent_text(recorded("measured", "accuracy_after")),
    "recorded_writing": lambda: percent_text(recorded("measured", "writing_share"), 2),
    "lora_rank": lambda: str(RANK),
    "lora_whole": lambda: bytes_text(WHOLE),
    "lora_fsdp_share": lambda: percent_text(_fsdp_share(), 2),
    "lora_fewer": lambda: f"{facts.claim('lora-fewer').value:,.0f}",
    "r1_outputs": lambda: f"{facts.claim('r1-outputs').value:,.0f}",
    "reading": lambda: reading(*_SOURCES.split(), *systems_numbers.SOURCES),
}
