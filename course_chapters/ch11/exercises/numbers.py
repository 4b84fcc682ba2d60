"""Texts of the numbers in chapter 11's prose, each computed from shapes, devices and the library's formulas."""

import math
from collections.abc import Callable, Mapping
from typing import Unpack

from course_chapters.running_example import EXACT, GPUS, SEQ, lab, opening
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.memory.activation_terms import TermChoices
from course_lib.estimate.memory.layout import Degrees
from course_lib.estimate.running_plan import STATE_BYTES
from course_lib.estimate.units import (
    MINUTE,
    bytes_text,
    count_text,
    duration_text,
    number_text,
    percent_text,
    rate_text,
)
from course_lib.parallel.context.costs import contiguous_imbalance, gather_traffic, ring_traffic, tokens_to_hide
from course_lib.parallel.tensor.traffic import tp_bytes_per_layer

H100 = facts.device("H100 SXM")
SHAPE, LARGE = facts.model("llama3-70b"), facts.model("llama3-405b")
LLAMA = facts.run("Llama 3 405B, 16,384 GPUs, 131,072 tokens")
LONG, TP, CP = 131072, 8, 8  # tokens of a long sequence; ranks of one server, and of one sequence
ELEMENT = 2  # bytes of a number in bf16
STATE = STATE_BYTES * EXACT / GPUS  # of a rank, sharded over all GPUs
INSIDE, ACROSS = float(H100.link_one_way), float(H100.network_one_way)  # bytes/s
LAB_SECONDS = 15 * MINUTE  # what it takes to measure attention on one GPU


def kept(seq: int, checkpointing: str = "none", **layout: Unpack[Degrees]) -> float:
    """Bytes of activations that one rank keeps for one sequence of the plan's model."""
    where = memory.Layout(**layout)
    choices: TermChoices = {"kernels": "flash", "dropout": False, "checkpointing": checkpointing}
    return float(memory.activation_bytes(SHAPE, 1, seq, where, loss="fused", **choices))


def gather_bytes(tokens: int, cp: int, shape: facts.ModelShape = SHAPE) -> float:
    """Bytes that a rank sends for one layer: its keys and values, gathered in both passes, and their gradients."""
    width = memory.shape(shape).kv_width_on(TP)
    return float(gather_traffic(tokens, width, 1, cp, ELEMENT).nbytes)


def gather_share(tokens: int, cp: int) -> float:
    """Time of Llama 3 405B's gathered keys and values over that of a layer at the published speed, nothing hidden."""
    own = tokens / cp
    weights = memory.params_by_part(LARGE)["layer"]
    flops = compute.train_flops(weights, own)
    flops += own * compute.attention_flops_per_token(1, LARGE.heads * LARGE.head_dim, tokens, causal=True)
    return gather_bytes(tokens, cp, LARGE) / ACROSS / float(flops / TP / LLAMA.flops_per_device)


def whole_tokens_to_hide(kv_heads: int, bandwidth: float, visible: float = 0.5) -> int:
    """The first whole number of tokens per rank that hides a ring step of the plan's model at the measured rate of
    matmuls."""
    tokens = tokens_to_hide(SHAPE.heads, kv_heads, H100.matmul_flops, bandwidth, ELEMENT, visible)
    return math.ceil(tokens * (1 - 1e-12))  # a rounding error is no token


def film(wanted: str) -> str:
    """Of the recorded ring of contiguous parts: its last step, the ranks that compute nothing then, the pairs of a
    block."""
    from course_chapters.ch11.ring_run import record  # loads torch

    run = record()
    last = run.steps["forward"][-1]
    idle = f"{sum(not held.pairs for held in last)} of {count_text(len(last), 'rank')}"
    return {"last": str(len(last)), "idle": idle, "area": str(len(run.positions[0]) ** 2)}[wanted]


def _hide(kv_heads: int, bandwidth: float) -> str:
    return f"{whole_tokens_to_hide(kv_heads, bandwidth):,}"


NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("11"),
    "tp": lambda: str(TP),
    "cp": lambda: str(CP),
    "seq": lambda: f"{SEQ:,} tokens",
    "long": lambda: f"{LONG:,} tokens",
    "l3_gpus": lambda: f"{LLAMA.devices:,.0f} GPUs",
    "l3_cp": lambda: f"{LLAMA.cp:.0f}",
    "l3_own": lambda: f"{LLAMA.seq_len / LLAMA.cp:,.0f} tokens",
    # memory
    "acts_long": lambda: bytes_text(kept(LONG, tp=TP)),
    "acts_recomputed": lambda: bytes_text(kept(LONG, "full", tp=TP)),
    "paper_tp": lambda: number_text(10 + 24 / TP),
    "paper_sp": lambda: number_text(34 / TP),
    # bytes
    "tp_layer": lambda: bytes_text(tp_bytes_per_layer(LONG // CP, SHAPE.hidden, TP)),
    "ring_forward": lambda: bytes_text(float(ring_traffic(LONG, SHAPE.kv_heads, SHAPE.head_dim, CP, ELEMENT).forward)),
    "ring_mha": lambda: bytes_text(float(ring_traffic(LONG, SHAPE.heads, SHAPE.head_dim, CP, ELEMENT).forward)),
    "kv_heads": lambda: str(SHAPE.kv_heads),
    "heads": lambda: str(SHAPE.heads),
    "keys_kept": lambda: bytes_text(SHAPE.layers * 2 * ELEMENT * LONG * float(memory.shape(SHAPE).kv_width_on(TP))),
    "plan_bytes": lambda: bytes_text(gather_bytes(LONG, CP)),
    "plan_time": lambda: duration_text(gather_bytes(LONG, CP) / ACROSS),
    "gather_share": lambda: percent_text(gather_share(LONG, int(LLAMA.cp)), 2),
    "lost": lambda: percent_text(
        1 - LLAMA.flops_per_device / facts.run("Llama 3 405B, 16,384 GPUs, 8,192 tokens").flops_per_device, 2
    ),
    # the recorded ring
    "film_last": lambda: film("last"),
    "film_area": lambda: film("area"),
    "film_idle": lambda: film("idle"),
    # balance and overlap
    "imbalance_4": lambda: number_text(contiguous_imbalance(4)),
    "imbalance_16": lambda: number_text(contiguous_imbalance(16)),
    "measured_flops": lambda: rate_text(H100.matmul_flops),
    "peak_flops": lambda: rate_text(H100.dense_flops),
    "hide_gqa_net": lambda: _hide(SHAPE.kv_heads, ACROSS),
    "hide_gqa_link": lambda: _hide(SHAPE.kv_heads, INSIDE),
    "hide_mha_net": lambda: _hide(SHAPE.heads, ACROSS),
    # a lab on a rented GPU
    **lab(1, LAB_SECONDS),
}
