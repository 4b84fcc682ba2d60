"""Texts of the numbers in chapter 01's prose, each computed from facts, and its ten symptoms to label."""

from collections.abc import Callable
from typing import NamedTuple

from course_chapters.running_example import DEADLINE, GPUS, MFU, PARAMS, SEQ, TOKENS, opening, reading, usd_text
from course_lib.cluster.collectives import ring_cost
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.units import (
    BILLION,
    DAY,
    HOUR,
    PFLOP,
    YEAR,
    bytes_text,
    duration_text,
    number_text,
    percent_text,
    rate_text,
)

H100, SHAPE = facts.device("H100 SXM"), facts.model("llama3-70b")
LLAMA = facts.run("Llama 3.1 405B")
PALM = facts.run("PaLM 540B")
MTNLG = facts.run("MT-NLG 530B")
TENSOR_WAYS = 8  # GPUs that share a layer in the table of costs: those of one server
ROUND_PEAK, ROUND_MFU = 1 * PFLOP, MFU  # the round numbers of the claims that the chapter audits


class Symptom(NamedTuple):
    """One thing that goes wrong, the wall behind it, and the reason."""

    text: str
    wall: str  # "memory", "time" or "cost"
    why: str


SYMPTOMS = (
    Symptom(
        "Out of memory while the weights are loaded.", "memory", "The weights alone are larger than the GPU's memory."
    ),
    Symptom(
        "Out of memory at the first `optimizer.step()`, after a clean backward pass.",
        "memory",
        "PyTorch allocates Adam's moments at the first step, and they are part of the state.",
    ),
    Symptom(
        "The loss falls as expected, but at this rate the run will take eleven years.",
        "time",
        "FLOPs divided by FLOP/s gives the time: only the deadline is missed.",
    ),
    Symptom(
        "The run finished on time but cost twice the quote. The quote assumed the peak of the data sheet.",
        "cost",
        "You pay for hours at the utilization reached, not at the peak.",
    ),
    Symptom(
        "A batch of one fits, but a batch of two does not.", "memory", "The state fits; activations fill the rest."
    ),
    Symptom(
        "One step takes a minute; the plan assumed ten steps a minute.",
        "time",
        "The time wall, per step instead of per run.",
    ),
    Symptom(
        "Twice the GPUs, but the same end date, which was early enough anyway.",
        "cost",
        "Scaling failed: the GPU-hours doubled and bought nothing.",
    ),
    Symptom(
        "Eight GPUs, each with a whole copy of the model, and still out of memory.",
        "memory",
        "Copies add speed, not memory.",
    ),
    Symptom(
        "Every GPU reports 100 % busy, but the MFU is a tenth.",
        "cost",
        "A busy GPU may do little useful work, and you pay for its hours either way.",
    ),
    Symptom(
        "The job fits and is affordable, but it will finish a month after the conference.",
        "time",
        "There are too few FLOP/s before that date.",
    ),
)


def _seconds(peak: float, mfu: float, devices: int = 1, tokens: float = TOKENS) -> float:
    return compute.train_seconds(PARAMS, tokens, peak, mfu, devices)


def _attention(tokens: int, causal: bool = False) -> float:
    return compute.attention_share(PARAMS, SHAPE.layers, SHAPE.heads * SHAPE.head_dim, tokens, causal)


def _mtnlg_hfu() -> float:
    return MTNLG.flops_per_device / facts.device(MTNLG.device).dense_flops


def _cost_7b() -> str:
    """What the run of the exercise train-days-7b costs, in its canonical form."""
    from course_grader.exercises import card  # not at import: the cards import this module

    run = card("train-days-7b").params
    seconds = compute.train_seconds(run["params"], run["tokens"], run["flops"], run["utilization"])
    return usd_text(compute.cost_usd(compute.device_hours(seconds, 1), facts.price("H100 hour")))


def _run_7b() -> str:
    from course_grader.exercises import card
    from course_grader.exercises.placeholders import fill_text

    return fill_text(
        "{{params:count}} on {{tokens:count}} tokens at {{utilization:percent}} MFU", card("train-days-7b").params
    )


def _llama_point() -> str:
    """What one point of MFU would have saved on Llama 3.1 405B at the price of the exercises."""
    bill = compute.cost_usd(LLAMA.device_hours, facts.price("H100 hour"))
    return usd_text(compute.points_of_mfu_usd(bill, LLAMA.mfu))


def _sharded_bytes() -> str:
    """What each GPU sends in a step of fully sharded data parallelism: weights gathered twice, gradients reduced
    once."""
    from course_lib.parallel.sharding.comm_costs import bytes_per_param_sent

    return bytes_text(bytes_per_param_sent(3, ranks=GPUS) * PARAMS)


def _tensor_bytes() -> str:
    """What each GPU sends for one sequence, forward and backward, when `TENSOR_WAYS` GPUs share every layer."""
    from course_lib.parallel.tensor.traffic import tp_bytes_per_layer

    return bytes_text(SHAPE.layers * tp_bytes_per_layer(SEQ, SHAPE.hidden, TENSOR_WAYS))


NUMBERS: dict[str, Callable[[], str]] = {
    **opening("01"),
    "tokens": lambda: f"{number_text(TOKENS)} tokens",
    "year": lambda: f"{YEAR / DAY:g} days",
    # memory
    "weights_70b": lambda: bytes_text(memory.weights_bytes(PARAMS)),
    "h100_memory": lambda: bytes_text(H100.memory),
    "rule_bytes": lambda: f"{memory.bytes_per_param():g} bytes",
    "rule_weights": lambda: f"{memory.convention('B').weights:g}",
    "rule_grads": lambda: f"{memory.convention('B').grads:g}",
    "rule_optimizer": lambda: f"{memory.convention('B').master + memory.convention('B').moments:g}",
    "least_bytes": lambda: f"{min(one.bytes_per_param for one in memory.CONVENTIONS.values()):g}",
    "most_bytes": lambda: f"{max(one.bytes_per_param for one in memory.CONVENTIONS.values()):g} bytes",
    "state_70b": lambda: bytes_text(memory.state_bytes(PARAMS)),
    "state_70b_cards": lambda: str(memory.fewest_devices(memory.state_bytes(PARAMS), H100.memory)),
    "state_7b": lambda: bytes_text(memory.state_bytes(7 * BILLION)),
    "largest_memory": lambda: bytes_text(max(one.memory for one in facts.devices().values())),
    # FLOPs
    "h100_peak": lambda: rate_text(H100.dense_flops),
    "h100_sparse": lambda: f"{H100.sparse_flops / 1e12:,.0f} TFLOP/s",
    "h100_peak_plain": lambda: f"{H100.dense_flops / 1e12:,.0f} TFLOP/s",
    "round_peak": lambda: rate_text(ROUND_PEAK),
    "flops_70b": lambda: f"{number_text(compute.train_flops(PARAMS, TOKENS))} FLOP",
    "attention_8k": lambda: percent_text(_attention(8192), 2),
    "attention_8k_causal": lambda: percent_text(_attention(8192, True), 2),
    "attention_128k": lambda: percent_text(_attention(131072)),
    "attention_128k_causal": lambda: percent_text(_attention(131072, True)),
    "attention_quarter": lambda: (
        f"{compute.context_for_share(PARAMS, SHAPE.layers, SHAPE.heads * SHAPE.head_dim, 0.25):,.0f} tokens"
    ),
    # time
    "round_mfu": lambda: percent_text(ROUND_MFU),
    "years_round": lambda: duration_text(_seconds(ROUND_PEAK, ROUND_MFU)),
    "years_sheet": lambda: duration_text(_seconds(H100.dense_flops, ROUND_MFU)),
    "years_64": lambda: duration_text(_seconds(H100.dense_flops, ROUND_MFU, GPUS)),
    # utilization
    "palm_mfu": lambda: percent_text(PALM.mfu),
    "palm_hfu": lambda: percent_text(PALM.hfu),
    "mtnlg_mfu": lambda: percent_text(MTNLG.mfu),
    "mtnlg_hfu": lambda: percent_text(_mtnlg_hfu()),
    "mtnlg_ratio": lambda: number_text(_mtnlg_hfu() / MTNLG.mfu, 3),
    "llama_low": lambda: percent_text(facts.run("Llama 3 405B, 16,384 GPUs, 131,072 tokens").mfu),
    "llama_high": lambda: percent_text(facts.run("Llama 3 405B, 8,192 GPUs, 8,192 tokens").mfu),
    "matmul_share": lambda: percent_text(H100.matmul_flops / H100.dense_flops, 2),
    "recompute_gain": lambda: percent_text(
        compute.hfu(PARAMS, 1.0, 1, H100.dense_flops, recompute="full") / compute.mfu(PARAMS, 1.0, 1, H100.dense_flops)
        - 1,
        2,
    ),
    # money
    "price": lambda: usd_text(facts.price("H100 hour")),
    "price_low": lambda: usd_text(facts.price("H100 hour, long tail low")),
    "price_high": lambda: usd_text(facts.price("H100 hour, hyperscaler high")),
    "run_7b": _run_7b,
    "cost_7b": _cost_7b,
    "llama_point": _llama_point,
    "waste_peak": lambda: percent_text(compute.wasted_fraction(ROUND_MFU, 1.0)),
    "waste_half": lambda: percent_text(compute.wasted_fraction(ROUND_MFU, 0.5)),
    "achievable": lambda: percent_text(0.5),
    # Llama 3 405B
    "llama_days_flops": lambda: duration_text(LLAMA.train_flops / (LLAMA.devices * H100.dense_flops * LLAMA.mfu), 2),
    "llama_days_hours": lambda: duration_text(LLAMA.device_hours / LLAMA.devices * HOUR),
    # the plan, and what comes next
    "plan_tokens": lambda: (
        f"{number_text(GPUS * DEADLINE * H100.dense_flops * ROUND_MFU / (compute.TRAIN * PARAMS))} tokens"
    ),
    "plan_state": lambda: bytes_text(memory.state_bytes(PARAMS) / GPUS),
    "gradient_bytes": lambda: bytes_text(ring_cost(memory.weights_bytes(PARAMS), GPUS, 0.0, 1.0).nbytes),
    "sharded_bytes": _sharded_bytes,
    "tensor_ways": lambda: str(TENSOR_WAYS),
    "tensor_bytes": _tensor_bytes,
    "stage_bytes": lambda: bytes_text(2 * 2 * SEQ * SHAPE.hidden),
    "kv_bytes": lambda: bytes_text(2 * 2 * SEQ * SHAPE.kv_heads * SHAPE.head_dim * SHAPE.layers),
    "step_flops": lambda: f"{number_text(compute.train_flops(PARAMS, SEQ))} FLOP",
    "step_claim": lambda: facts.claim("step-70b-flops").text,
    # lists
    "symptoms": lambda: "\n".join(f"{number}. {one.text}" for number, one in enumerate(SYMPTOMS, 1)),
    "reading": lambda: reading(
        "kaplan-2020",
        "hoffmann-2022",
        "palm-2022",
        "korthikanti-2022",
        "zero-2019",
        "llama3-2024",
        "llama31-card",
        "bekman-accelerators",
        "scaling-book",
    ),
}
