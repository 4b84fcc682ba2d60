"""Contested practice: a question, both sides with their sources, a number of this course that bears on it, and what
would settle it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from course_lib.estimate import compute, facts, running_plan
from course_lib.estimate.memory.layout import Layout
from course_lib.estimate.memory.recipes import convention
from course_lib.estimate.scaling_laws import chinchilla_law
from course_lib.estimate.units import BILLION, TRILLION, bytes_text, duration_text, number_text, percent_text
from course_lib.operate.capstone.plans import assess
from course_lib.operate.capstone.task import COURSE
from course_lib.parallel import planner

LOCAL_STEPS = 500  # between two synchronizations: DiLoCo's setting, Douillard et al. (2023)


@dataclass(frozen=True, slots=True)
class Side:
    """One position, and the evidence for it."""

    claim: str
    evidence: str
    source: str  # a key of `facts.reference`


@dataclass(frozen=True, slots=True, kw_only=True)
class Debate:
    """A question on which competent people disagree."""

    question: str
    sides: tuple[Side, Side]
    compute: Callable[[], str]
    change_mind: str

    @property
    def number(self) -> str:
        """What the course's own arithmetic says, as text."""
        return self.compute()


def _tokens() -> str:
    law, params, tokens = chinchilla_law(), 8.0 * BILLION, 15.0 * TRILLION
    best, seen = law.optimum(compute.train_flops(params, tokens))
    return (
        f"By Hoffmann et al.'s law in the corrected fit (04), {params / BILLION:g}B on {tokens / TRILLION:g} T tokens "
        f"reach {law.loss(params, tokens):.3f} nats. The same FLOPs would reach {law.loss(best, seen):.3f} with "
        f"{number_text(best / BILLION, 2)}B, a model that costs {number_text(best / params, 2)} times as much for "
        "every token that it serves."
    )


def _shard() -> str:
    sharded, split = (assess(plan, COURSE) for plan in (running_plan.SHARDED, running_plan.PLAN))
    return (
        f"The planner gives {duration_text(sharded.seconds)} a step for FSDP with full recomputation and "
        f"{duration_text(split.seconds)} for {running_plan.LAYOUT_TEXT}, on the course's job. With this batch, FSDP "
        f"alone ends at {COURSE.sequences} GPUs."
    )


def _experts() -> str:
    one = facts.model("deepseek-v3")
    total, active = float(one.params), float(one.active_params)
    state = convention("C").bytes_per_param * total
    return (
        f"DeepSeek-V3 computes with {number_text(active / BILLION)}B of {number_text(total / BILLION)}B parameters "
        f"for each token. Its state in convention C is {bytes_text(state)}, {number_text(total / active, 2)} times "
        "that of a dense model with its FLOPs."
    )


def _eight_bits() -> str:
    job, layout = COURSE.job(), Layout(**running_plan.PLAN, sp=True)
    slow = float(planner.step_time(job, COURSE.hardware(), layout).seconds)
    fast = float(planner.step_time(replace(job, dtype="fp8"), COURSE.hardware(), layout).seconds)
    return (
        f"With 8-bit products the planner's step falls from {duration_text(slow)} to {duration_text(fast)}, "
        f"{percent_text(1 - fast / slow, 2)} less: only the layers' products get quicker."
    )


def _local() -> str:
    layout = Layout(**running_plan.PLAN, sp=True)
    sent = float(planner.traffic(COURSE.job(), layout)["dp"])
    return (
        f"A GPU of the course's plan sends {bytes_text(sent)} of gradients and updated weights in a step, and "
        f"{bytes_text(sent / LOCAL_STEPS)} a step if replicas synchronize every {LOCAL_STEPS} steps. Inside one "
        "cluster those messages are hidden anyway; between cities they are not."
    )


DEBATES = (
    Debate(
        question="How many tokens per parameter?",
        sides=(
            Side(
                "About twenty.",
                "Three fits over more than 400 runs agree that parameters and tokens should grow alike; the third "
                "does since it was corrected.",
                "hoffmann-2022",
            ),
            Side(
                "Many more, if the model will serve.",
                "Counting inference, smaller models trained for longer cost less at equal quality.",
                "sardana-2024",
            ),
        ),
        compute=_tokens,
        change_mind="An estimate of how many tokens the model will serve in its life.",
    ),
    Debate(
        question="Shard everything, or split the model?",
        sides=(
            Side(
                "Shard.", "FSDP needs no change to the model and reaches near-linear scaling in TFLOP/s.", "fsdp-2023"
            ),
            Side(
                "Split.",
                "With twice the GPUs for the same batch, tensor and pipeline parallelism outperform ZeRO-3 by 70 % on "
                "models of 175 and 530 billion parameters.",
                "megatron-2021",
            ),
        ),
        compute=_shard,
        change_mind="Tokens per GPU: below the number that hides a gather, splitting wins.",
    ),
    Debate(
        question="Dense or mixture of experts?",
        sides=(
            Side("Dense.", "Llama 3's authors chose a dense model to maximize training stability.", "llama3-2024"),
            Side(
                "Mixture.",
                "DeepSeek-V3 reports no irrecoverable loss spike and no rollback in its whole training.",
                "deepseek-v3",
            ),
        ),
        compute=_experts,
        change_mind="Which is scarce: FLOPs, or memory and all-to-all bandwidth, in training and in serving.",
    ),
    Debate(
        question="Train in 8 bits?",
        sides=(
            Side(
                "Yes.",
                "DeepSeek-V3's loss stays within 0.25 % of a 16-bit baseline, with fine-grained scales.",
                "deepseek-v3",
            ),
            Side(
                "Not yet without care.",
                "Over seeds, learning rates and data sets, Lee et al. found the methods of their time not robust "
                "enough to replace 16 bits.",
                "fp8-back-2024",
            ),
        ),
        compute=_eight_bits,
        change_mind="Loss curves of your own model in both formats, for several seeds.",
    ),
    Debate(
        question="Must replicas agree after every step?",
        sides=(
            Side(
                "Yes.",
                "Llama 3 405B was trained synchronously on 16,384 GPUs: every step equals one large batch, whatever "
                "the number of replicas.",
                "llama3-2024",
            ),
            Side(
                "No.", "Eight workers that synchronize every 500 steps match synchronous training on C4.", "diloco-2023"
            ),
        ),
        compute=_local,
        change_mind="Equal loss at equal tokens with your model, batch and number of replicas.",
    ),
)
