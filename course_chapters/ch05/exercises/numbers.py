"""Texts of the numbers in chapter 05's prose, each computed from the formats, the facts and the recorded trainings."""

import math
from collections.abc import Callable, Mapping
from functools import partial

from course_chapters.ch05.recipes import parameters, recorded, steps
from course_chapters.running_example import BATCH, GPUS, PARAMS, opening
from course_lib.estimate import facts, memory
from course_lib.estimate.running_plan import STATE_BYTES
from course_lib.estimate.units import bytes_text, number_text, percent_text, rate_text
from course_lib.model.precision import number_format

FP16, BF16, E4M3 = (number_format(name) for name in ("fp16", "bf16", "fp8_e4m3"))
H100 = facts.device("H100 SXM")
FP32_FLOPS = facts.chip("H100 SXM").fp32_flops
MICROBATCH = 16 * 64  # tokens of a micro-batch in the chapter's trainings
RATE, LOW_RATE = 3e-3, 5e-4  # highest learning rates of the chapter's trainings
LIVE_STEPS = 25  # of the trainings that run in the notebook
STATE = int(memory.state_bytes(1))  # of a parameter, all in all
WEIGHTS, MASTER, MOMENTS = 2, 4, 8  # bytes per parameter, and 2 more for 16-bit gradients
PLAN_CHOICES = (  # choice, bytes of state per parameter, FLOP/s of a GPU's matmuls
    ("bf16, gradients summed in bf16", STATE, float(H100.dense_flops)),
    ("bf16, gradients summed in fp32", STATE + 2, float(H100.dense_flops)),
    ("bf16 without master copy, stochastic rounding", STATE - MASTER, float(H100.dense_flops)),
    ("fp8 matmuls, at best", STATE + 2, float(H100.fp8_flops)),
)


def _bytes_of(name: str, without: int = 0) -> str:
    return f"{recorded(name).bytes_per_parameter - without}"


def _loss(name: str) -> str:
    return f"{recorded(name).final:.3f}"


def _lost(name: str) -> str:
    return percent_text(recorded(name).lost_share, 2)


def _zeros(name: str) -> str:
    return percent_text(recorded(name).zeros, 2)


def first_nan(name: str) -> int:
    """The step, counted from 1, at which a recorded training's loss was no longer a number."""
    return 1 + next(step for step, loss in enumerate(recorded(name).losses) if math.isnan(loss))


NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("05"),
    "batch": lambda: f"{BATCH / 2**20:g} Mi tokens",
    # bytes and rates
    "state_bytes": lambda: f"{STATE} bytes",
    "narrow_bytes": lambda: f"{WEIGHTS + 2}",
    "wide_bytes": lambda: f"{MASTER + MOMENTS}",
    "master_bytes": lambda: f"{MASTER} bytes",
    "compensation_bytes": lambda: _bytes_of("kahan", recorded("nearest").bytes_per_parameter) + " bytes",
    "dense": lambda: rate_text(H100.dense_flops, 3),
    "fp8": lambda: rate_text(H100.fp8_flops, 4),
    "fp32": lambda: rate_text(FP32_FLOPS, 3),
    "ratio_16": lambda: number_text(H100.dense_flops / FP32_FLOPS, 2),
    "ratio_8": lambda: number_text(H100.fp8_flops / FP32_FLOPS, 2),
    # formats and lost updates
    "bf16_fraction": lambda: str(BF16.mantissa_bits),
    "fp32_fraction": lambda: str(number_format("fp32").mantissa_bits),
    "more_fraction": lambda: str(number_format("fp32").mantissa_bits - BF16.mantissa_bits),
    "limit_low": lambda: percent_text(BF16.unit_roundoff / 2, 2),
    "limit_high": lambda: percent_text(BF16.unit_roundoff, 2),
    "ratio_fp16": lambda: f"{1 / FP16.unit_roundoff:,.0f}",
    "ratio_bf16": lambda: f"{1 / BF16.unit_roundoff:,.0f}",
    **{f"bytes_weight_{name}": partial(_bytes_of, name, MOMENTS) for name in ("master", "kahan", "nearest")},
    **{f"bytes_{name}": partial(_bytes_of, name) for name in ("master", "kahan", "nearest")},
    "parameters": lambda: f"{parameters():,}",
    "steps": lambda: str(steps()),
    "live_steps": lambda: str(LIVE_STEPS),
    **{f"lost_{name}": partial(_lost, name) for name in ("nearest", "stochastic")},
    **{f"loss_{name}": partial(_loss, name) for name in ("nearest", "stochastic", "master", "fp16", "bf16")},
    # loss scaling
    "share": lambda: f"{BATCH // MICROBATCH:,}",
    "zeros_fp16": lambda: _zeros("fp16"),
    "loss_fp16_scaled": lambda: _loss("fp16, loss scaled"),
    # sums
    "stuck": lambda: f"{1 / BF16.unit_roundoff:,.0f}",
    "no_bound": lambda: f"{1 / BF16.unit_roundoff + 1:,.0f}",
    **{f"loss_sum_{name}": partial(_loss, f"gradients summed in {name}") for name in ("bf16", "fp32")},
    "loss_moments_bf16": lambda: _loss("moments in bf16"),
    "loss_moments_start": lambda: f"{recorded('moments in fp16').losses[0]:.1f}",
    "loss_moments_next": lambda: f"{recorded('moments in fp16').losses[1]:.1f}",
    "moments_broke": lambda: str(first_nan("moments in fp16")),
    # eight bits and fewer
    "e4m3_max": lambda: f"{E4M3.max:g}",
    "mxfp8_bits": lambda: f"{8 + 8 / 32:g}",
    "nvfp4_bits": lambda: f"{4 + 8 / 16:g}",
    "loss_fp8": lambda: _loss("fp8, one scale per block"),
    "loss_fp8_tensor": lambda: _loss("fp8, one scale per tensor"),
    **{f"loss_fp4_{whose}": partial(_loss, f"fp4, one scale per {whose}") for whose in ("tensor", "block")},
    "rate": lambda: number_text(RATE),
    # the plan
    "plan_state": lambda: bytes_text(STATE_BYTES * PARAMS / GPUS),
    "plan_bytes": lambda: f"{STATE_BYTES:g} bytes per parameter",
}
