"""Texts of the numbers in chapter 19's prose, each computed from published figures and the library's formulas."""

from collections.abc import Callable, Mapping

from course_chapters.ch19 import adding, long_tail, loop_film, loops, lora, post_plan
from course_chapters.running_example import GPUS, opening, reading
from course_lib.estimate import facts, memory
from course_lib.estimate.running_plan import CONVENTION
from course_lib.estimate.units import GB, bytes_text, count_text, duration_text, number_text, percent_text
from course_lib.operate.serving import Deployment
from course_runs import evidence

SOURCES = (
    "deepseekmath-2024 ppo-2017 lora-2021 dapo-2025 drgrpo-2025 kl-2020 tis-2025 trl-papers areal-2025 "
    "hybridflow-2024 openrlhf-readme checkpoint-engine-2025 weight-transfer-2025"
)
LARGE, RANK = facts.model("llama3-70b"), 16  # of the table on LoRA
ROW, ADAPTER = 10**6, 10**4  # numbers of a layer and of its adapters, of about one percent
SERVED = Deployment(model="llama3-70b", device="H100 SXM", tp=8)
JOB = post_plan.PostJob()
PLAN = post_plan.plan_job(8)  # of the table of sizes, the quickest
FOUR = dict.fromkeys(("actor", "reference", "critic", "reward"), JOB.model)
SENDING, RECEIVING = 256, 128  # GPUs of the published transfer, as the claim's text has them
TRILLION_SHARE = 1e12 / RECEIVING  # bytes of a trillion fp8 weights on each of 128 GPUs, if they hold one copy together


def _recorded(part: str, name: str) -> float:
    """A value of the shipped evidence of `course run posttrain`."""
    shipped = [content for origin, _, content in evidence.found("posttraining") if origin == "recorded"]
    return shipped[0][part][name]


def _fsdp_share() -> float:
    """Bytes of adapters' training under FSDP over those of full training, on the plan's GPUs."""
    whole = lora.fsdp_bytes([0], [ROW], GPUS)
    return lora.fsdp_bytes([0, ROW], [ADAPTER], GPUS) / whole


def _sync(nbytes: float) -> str:
    return duration_text(nbytes / float(facts.device("H100 SXM").network_one_way), 2)


def _busy(way: str) -> str:
    busy = loops.record(way, *loop_film.SPEEDS["as fast as the trainer"], loop_film.BATCHES).busy
    return percent_text(sum(busy) / len(busy), 2)


def _memory() -> post_plan.Memory:
    return post_plan.memory(FOUR, 8, JOB.prompt + JOB.reply)


NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("19"),
    "small_numbers": lambda: f"{sum(each.numel() for each in adding.build(adding.CONFIG).parameters()):,}",
    "tuned_steps": lambda: str(adding.Plan().tuned_steps),
    "recorded_steps": lambda: count_text(_recorded("setup", "steps"), "step"),
    "recorded_difference": lambda: number_text(_recorded("measured", "largest_difference"), 2),
    "recorded_before": lambda: percent_text(_recorded("measured", "accuracy_before")),
    "recorded_after": lambda: percent_text(_recorded("measured", "accuracy_after")),
    "recorded_writing": lambda: percent_text(_recorded("measured", "writing_share"), 2),
    "lora_rank": lambda: str(RANK),
    "lora_whole": lambda: bytes_text(memory.state_bytes(LARGE.params, CONVENTION)),
    "lora_fsdp_share": lambda: percent_text(_fsdp_share(), 2),
    "lora_fewer": lambda: f"{facts.claim('lora-fewer').value:,.0f}",
    "r1_outputs": lambda: f"{facts.claim('r1-outputs').value:,.0f}",
    "large_weights": lambda: bytes_text(SERVED.weight_bytes),
    "large_share": lambda: bytes_text(SERVED.weight_bytes / SERVED.tp),
    "sync_floor": lambda: _sync(SERVED.weight_bytes / SERVED.tp),
    "sync_whole": lambda: _sync(SERVED.weight_bytes),
    "busy_synchronous": lambda: _busy("synchronous"),
    "busy_one_off": lambda: _busy("one step off"),
    "busy_together": lambda: _busy("colocated"),
    "idle_16": lambda: percent_text(long_tail.exponential_idle(16), 2),
    "idle_128": lambda: percent_text(long_tail.exponential_idle(128), 2),
    "tail_wait": lambda: percent_text(loop_film.tail("wait for all", 1.0).idle, 2),
    "tail_stale": lambda: str(loop_film.tail("no bound", 1.0).staleness),
    "actor_bytes": lambda: bytes_text(_memory().state["actor"]),
    "reference_bytes": lambda: bytes_text(_memory().state["reference"]),
    "working_bytes": lambda: bytes_text(_memory().working),
    "job_gpus": lambda: str(JOB.gpus),
    "job_rows": lambda: f"{JOB.rows:,}",
    "job_prompt": lambda: f"{JOB.prompt:,}",
    "job_reply": lambda: f"{JOB.reply:,}",
    "job_generators": lambda: str(post_plan.best_split(JOB).generators),
    "job_step": lambda: duration_text(post_plan.best_split(JOB).step, 3),
    "job_together": lambda: duration_text(post_plan.together_seconds(JOB), 3),
    "plan_few": lambda: count_text(post_plan.plan_job(2).at_once, "rollout"),
    "plan_many": lambda: str(PLAN.at_once),
    "plan_generators": lambda: str(post_plan.best_split(PLAN).generators),
    "plan_trainers": lambda: str(post_plan.best_split(PLAN).trainers),
    "plan_tp": lambda: str(PLAN.tp),
    "plan_least": lambda: str(next(gpus for gpus in range(1, PLAN.gpus) if PLAN.fits(gpus))),
    "plan_step": lambda: duration_text(post_plan.best_split(PLAN).step, 3),
    "plan_together": lambda: duration_text(post_plan.together_seconds(PLAN), 3),
    "hybridflow_least": lambda: number_text(facts.claim("hybridflow-least").value, 3),
    "areal_gain": lambda: number_text(facts.claim("areal-speedup").value, 3),
    "generation_share": lambda: percent_text(facts.claim("generation-share").value, 2),
    "engine_sync": lambda: duration_text(facts.claim("checkpoint-engine-sync").value, 2),
    "transfer_sync": lambda: duration_text(facts.claim("weight-transfer-sync").value, 2),
    "transfer_from": lambda: str(SENDING),
    "transfer_to": lambda: str(RECEIVING),
    "transfer_rate": lambda: f"{TRILLION_SHARE / facts.claim('weight-transfer-sync').value / GB:.0f} GB/s",
    "reading": lambda: reading(*SOURCES.split()),
}
