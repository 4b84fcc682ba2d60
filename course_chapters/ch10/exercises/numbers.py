"""The numbers in chapter 10's prose, as text: computed from facts, closed forms and played schedules."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from statistics import mean

from course_chapters.ch10.published_pipelines import stage_profiles
from course_chapters.running_example import BATCH, EXACT, GPUS, PARAMS, SEQ, lab, opening
from course_lib.estimate import facts, memory
from course_lib.estimate.memory import Layout
from course_lib.estimate.memory.frameworks import slack_bytes
from course_lib.estimate.memory.stage_peaks import Peak, PeakChoices, RunChoices, stage_peak, stage_peaks
from course_lib.estimate.running_plan import CONVENTION, LAYOUT, MICROBATCHES, STATE_BYTES
from course_lib.estimate.units import BILLION, MINUTE, TFLOP, bytes_text, duration_text, number_text, percent_text
from course_lib.parallel import schedules
from course_lib.parallel.planner.bubbles import idle, idle_over_work
from course_lib.parallel.schedules import Schedule
from course_lib.parallel.timeline import Durations, Timeline, play

H100 = facts.device("H100 SXM")
SHAPE = facts.model("llama3-70b")
LARGE = facts.model("llama3-405b")
RUN_8K, RUN_16K = (facts.run(f"Llama 3 405B, {gpus} GPUs, 8,192 tokens") for gpus in ("8,192", "16,384"))
STAGE: RunChoices = {
    "kernels": "flash",
    "dropout": False,
    "convention": CONVENTION,
}  # how a stage of the plan is counted
PLAN = Layout(**LAYOUT, sp=True, microbatches=MICROBATCHES)
PLAN_CHUNKS = 5  # of four layers each
LAB_GPUS, LAB_SECONDS = 8, 10 * MINUTE  # what it takes to profile this chapter's stages on one server
MOST_IDLE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A run in stages as printed: D. Narayanan and others (2021), Table 1 (last row) and section 5.1."""

    params: float = float(facts.model("megatron-1t").params)
    tokens: float = 450 * BILLION  # of their estimate of a whole training run
    devices: int = 3072  # A100s: tensor 8, pipeline 64, data 6
    flops_per_s: float = 163 * TFLOP  # of one GPU, with the repeated forwards counted
    pp: int = 64
    microbatches: int = 512

    @property
    def seconds(self) -> float:
        """Eight FLOPs per parameter and token: six, and two for a forward done again."""
        return 8 * self.tokens * self.params / (self.devices * self.flops_per_s)

    @property
    def bubble(self) -> float:
        """Idle over working time, one chunk a rank."""
        return idle_over_work(self.pp, self.microbatches)


MEGATRON = Published()
ODD = 25  # micro-batches that four ranks do not divide


def microbatches_of(run: facts.PublishedRun) -> int:
    """Micro-batches of a published run's step, where one is one sequence."""
    return round(run.batch_tokens / (run.dp * run.seq_len))


def boundary_bytes(hidden: int, seq: int = SEQ) -> float:
    """Bytes of one sequence's activations between two layers, in 16 bits."""
    return 2.0 * seq * hidden


def plan_peak(pp: int | None = None, checkpointing: str = "none") -> Peak:
    """The peak of the plan's first stage; with another number of stages, data parallelism takes the other GPUs."""
    layout = PLAN
    if pp is not None:
        layout = replace(PLAN, pp=pp, dp=GPUS // (8 * pp), microbatches=BATCH * 8 * pp // (GPUS * SEQ))
    choices: PeakChoices = {**STAGE, "stage": 0, "checkpointing": checkpointing}
    return stage_peak(SHAPE, 1, SEQ, layout, **choices)


@cache
def plan_stages(zero: int = LAYOUT["zero"]) -> tuple[Peak, ...]:
    """The peak of every stage of the plan; `zero` is the stage of state sharding between the two pipelines."""
    return tuple(stage_peaks(SHAPE, 1, SEQ, replace(PLAN, zero=zero), **STAGE))


def plan_peaks(zero: int = LAYOUT["zero"]) -> list[float]:
    """The same in bytes, with a framework's slack and buffers."""
    return [float(peak.total + slack_bytes(peak.total)) for peak in plan_stages(zero)]


def plan_slack() -> float:
    """Bytes of the first stage's peak that are a framework's slack and buffers."""
    return float(slack_bytes(plan_stages()[0].total))


@cache
def played(schedule: Schedule) -> Timeline:
    """A schedule with forwards of 1 and backwards of 2."""
    return play(schedule, Durations(forward=1, backward=2))


def weight_share(model: str = "1.5B") -> float:
    """The mean profiled share of the weight gradient in a whole backward."""
    profiles = [profile for profile in stage_profiles() if profile.model == model]
    return mean(one.weight_gradient / (one.input_gradient + one.weight_gradient) for one in profiles)


def _stage_weights() -> float:
    """Bytes of one rank's 16-bit weights in the published run of the largest model, split by pipeline and tensor
    parallelism."""
    return memory.weights_bytes(LARGE.params, "bf16") / (RUN_16K.pp * RUN_16K.tp)


def _run_idle(run: facts.PublishedRun, chunks: int = 1) -> str:
    return percent_text(idle(round(run.pp), chunks * microbatches_of(run)))


NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("10"),
    "model": lambda: f"{PARAMS / BILLION:g}B",
    "state_each": lambda: f"{STATE_BYTES:g} bytes",
    "card": lambda: H100.memory.text,
    "state": lambda: bytes_text(memory.state_bytes(EXACT, CONVENTION)),
    # the bubble
    "naive": lambda: percent_text(played(schedules.naive(4, 8)).bubble_fraction),
    "flush": lambda: percent_text(played(schedules.gpipe(4, 8)).bubble_fraction),
    "ten": lambda: percent_text(MOST_IDLE),
    "rule": lambda: percent_text(1 / 5),
    "rule_16": lambda: percent_text(idle(16, 64)),
    "run_8k": lambda: f"{RUN_8K.devices:,.0f} GPUs",
    "run_16k": lambda: f"{RUN_16K.devices:,.0f} GPUs",
    "run_m_8k": lambda: str(microbatches_of(RUN_8K)),
    "run_m_16k": lambda: str(microbatches_of(RUN_16K)),
    "run_idle_8k": lambda: _run_idle(RUN_8K),
    "run_idle_16k": lambda: _run_idle(RUN_16K),
    "run_pp": lambda: f"{RUN_16K.pp:g}",
    "odd": lambda: str(ODD),
    "run_idle_two": lambda: _run_idle(RUN_16K, chunks=2),
    # bytes
    "border": lambda: bytes_text(boundary_bytes(LARGE.hidden)),
    "stage_weights": lambda: bytes_text(_stage_weights()),
    "border_times": lambda: f"{number_text(_stage_weights() / boundary_bytes(LARGE.hidden), 2)}",
    "border_seconds": lambda: duration_text(boundary_bytes(LARGE.hidden) / H100.network_one_way),
    "adapter": lambda: f"{bytes_text(H100.network_one_way)}/s",
    # split backward and two directions
    "h1": lambda: percent_text(played(schedules.zb_h1(4, 8)).bubble_fraction),
    "h2": lambda: percent_text(played(schedules.zb_h2(4, 8)).bubble_fraction),
    "h2_span": lambda: percent_text(played(schedules.zb_h2(4, 8)).bubble_in_span),
    "weight": lambda: percent_text(weight_share(), 2),
    # memory of the plan's first stage
    "acts_two": lambda: bytes_text(float(plan_peak(2).activations)),
    "acts_four": lambda: bytes_text(float(plan_peak(4).activations)),
    "acts_eight": lambda: bytes_text(float(plan_peak(8).activations)),
    # a lab on rented GPUs
    **lab(LAB_GPUS, LAB_SECONDS),
    # the plan
    "batch": lambda: f"{BATCH / 2**20:g} Mi tokens",
    "plan_idle": lambda: percent_text(idle(LAYOUT["pp"], MICROBATCHES)),
    "plan_m": lambda: str(PLAN.microbatches),
    "plan_state": lambda: bytes_text(float(plan_peak().state)),
    "plan_slack": lambda: bytes_text(plan_slack()),
    "plan_peak": lambda: bytes_text(plan_peaks()[0]),
    "plan_last": lambda: bytes_text(plan_peaks()[-1]),
    "plan_state_whole": lambda: bytes_text(float(plan_stages(zero=0)[0].state)),
    "plan_peak_whole": lambda: bytes_text(plan_peaks(zero=0)[0]),
    "plan_last_whole": lambda: bytes_text(plan_peaks(zero=0)[-1]),
    "many": lambda: f"{GPUS * 16:,} GPUs",
    "many_m": lambda: str(PLAN.microbatches // 16),
    "many_idle": lambda: percent_text(idle(LAYOUT["pp"], MICROBATCHES // 16)),
}
