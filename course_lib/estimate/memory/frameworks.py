"""Peak memory of four training frameworks, from their public descriptions, with two fitted constants each.

The terms are counted, not fitted; `slack` multiplies them (fragmentation of the caching allocator, short-lived tensors)
and `buffers` is added (communication buffers and workspaces). Both are in `facts/data/memory_fits.csv` with the
conditions of their fit.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from course_lib.estimate.facts.fact import rows
from course_lib.estimate.memory.activation_terms import Kernels, layer_terms
from course_lib.estimate.memory.activations import layer_bytes, recomputed_bytes, total_bytes
from course_lib.estimate.memory.layout import Layout
from course_lib.estimate.memory.recipes import convention, state_bytes
from course_lib.estimate.memory.shapes import Shape, layer_params, params_by_part
from course_lib.estimate.memory.stage_peaks import in_flight, stage_layers, stage_params, stage_peak, state_by_stage
from course_lib.estimate.units import GiB

FLASH = Kernels(attention="flash")
GATHERED_KEPT = "gathered inputs kept"  # of attention and of the MLP, instead of gathering them again


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """The properties of a run that determine its memory; `batch` is the micro-batch."""

    shape: Shape
    layout: Layout
    batch: int
    seq: int
    checkpointing: str = "none"
    words: frozenset[str] = field(
        default_factory=frozenset
    )  # more: "compiled", "compiled loss", "gathered inputs kept"


@dataclass(frozen=True, slots=True)
class Framework:
    """How a framework's peak is counted, and what is left out."""

    name: str
    terms: Callable[[TrainingRun], dict[str, float]]
    reads: str  # the number that its users publish
    left_out: str
    unprinted: tuple[str, ...] = ()  # words of a run that its users choose and do not publish


@dataclass(frozen=True, slots=True)
class Fit:
    """The two constants of a framework, and the rows they were fitted to."""

    slack: float
    buffers: float  # bytes
    condition: str


def peak_terms(framework: str, run: TrainingRun) -> dict[str, float]:
    """Bytes at the peak by purpose, before the constants."""
    return framework_of(framework).terms(run)


def predicted_bytes(framework: str, run: TrainingRun) -> float:
    """Bytes that a user of the framework would read at the peak of this run."""
    terms = sum(peak_terms(framework, run).values())
    return terms + slack_bytes(terms, framework_of(framework).name)


def slack_bytes(terms: Any, framework: str = "torchtitan") -> Any:
    """Bytes that a framework holds beyond the terms: the allocator's slack, and its buffers."""
    fit = fits()[framework]
    return (fit.slack - 1) * terms + fit.buffers


def framework_of(name: str) -> Framework:
    """The framework with this name."""
    if name not in FRAMEWORKS:
        raise ValueError(f"No framework {name!r}; choose from {', '.join(FRAMEWORKS)}.")
    return FRAMEWORKS[name]


@cache
def fits() -> dict[str, Fit]:
    """The fitted constants by framework."""
    return {
        row["framework"]: Fit(float(row["slack"]), float(row["buffers_gib"]) * GiB, row["condition"])
        for row in rows("memory_fits.csv")
    }


# --- the terms -----------------------------------------------------------------------------------


def nanotron_layers(shape: Shape, stages: int) -> int:
    """Layers on nanotron's first stage: it is filled until its work exceeds an even share, with the head counted as
    work.

    `PipelineBlock` costs, nanotron (2024): a layer's matrices with as many key heads as heads, the head's matrix.
    """
    if stages == 1:
        return shape.layers
    layer = shape.hidden * (4 * shape.query_width + 3 * shape.ffn)
    share = (shape.layers * layer + shape.hidden * shape.vocab) / stages
    return min(shape.layers, int(share // layer) + 1)


def _nanotron(run: TrainingRun) -> dict[str, float]:
    """The first stage, whose rank writes the log: 1F1B, sequence parallelism, bf16 with fp32 gradients and master."""
    one, where = run.shape, replace(run.layout, sp=True)
    layers, here = nanotron_layers(one, where.pp), replace(where, pp=1)
    tables = 1 if one.tied or where.pp > 1 else 2
    params = layers * layer_params(one, where.tp) + tables * one.vocab * one.hidden / where.tp
    kept = layer_bytes(one, run.batch, run.seq, here, kernels=FLASH, dropout=False, checkpointing=run.checkpointing)
    alive = in_flight("1f1b", where.pp, 0, where.microbatches)
    tokens = run.batch * run.seq
    return {
        "weights": 2 * params,
        "fp32 gradients": 4 * params,
        "master and moments": convention("C").checkpoint * params / (where.dp if where.zero else 1),
        "16-bit gradients": 2 * params,  # the buckets of data parallelism, or the gradients before they are added up
        "layers": alive * layers * kept,
        "logits": (8 * tokens * one.vocab / where.tp) if where.pp == 1 else 0.0,  # fp32 logits and their softmax
        "gathered over tensor ranks": 3 * 2 * tokens * one.hidden,  # input, output before reduce-scatter, gradient
        GATHERED_KEPT: alive * layers * 2 * 2 * tokens * one.hidden * (1 - 1 / where.tp) * (GATHERED_KEPT in run.words),
    }


def _megatron_deepspeed(run: TrainingRun) -> dict[str, float]:
    """The fuller of the first and the last stage: 1F1B, ZeRO-1 beside 16-bit gradients, no sequence parallelism."""
    ends = {0, run.layout.pp - 1}
    return max((_megatron_deepspeed_stage(run, stage) for stage in ends), key=lambda terms: sum(terms.values()))


def _megatron_deepspeed_stage(run: TrainingRun, stage: int) -> dict[str, float]:
    one, where, last = run.shape, run.layout, stage == run.layout.pp - 1
    how = run.checkpointing
    peak = stage_peak(one, run.batch, run.seq, where, stage=stage, convention="E", checkpointing=how, loss="fused")
    logits = 6 * run.batch * run.seq * one.vocab / where.tp if last else 0.0  # fp32, and their 16-bit gradient
    return {
        "state": float(peak.state),
        "layers": float(peak.activations),
        "logits, or a layer computed again": max(float(logits), float(peak.recomputed)),
        "whole on each tensor rank": 4.0 * run.batch * run.seq * one.hidden,  # output to be summed, and its gradient
    }


_SAVED = {"norm1.input", "attention.q", "attention.v", "attention.context", "mlp.gate"}


def _torchtitan(run: TrainingRun) -> dict[str, float]:
    """The fuller of the first and the last stage under FSDP over data and context ranks; fp32 shards, bf16 compute.

    "selective" saves every second matrix product and the attention's result, not Korthikanti's selection.
    """
    ends = {0, run.layout.pp - 1}
    return max((_torchtitan_stage(run, stage) for stage in ends), key=lambda terms: sum(terms.values()))


def _torchtitan_stage(run: TrainingRun, stage: int) -> dict[str, float]:
    one, where = run.shape, replace(run.layout, sp=True, zero=3)
    tokens = run.batch * run.seq / where.cp
    if run.checkpointing == "selective":
        terms = layer_terms(one, run.batch, run.seq, where, kernels=FLASH, dropout=False)
        kept = (
            total_bytes(term for term in terms if term.name in _SAVED) + 2 * tokens * one.hidden / where.tp
        )  # and down's output
    else:
        kept = layer_bytes(
            one, run.batch, run.seq, where, checkpointing=run.checkpointing, kernels=FLASH, dropout=False
        )
    params, part = float(stage_params(one, where, stage)), params_by_part(one)
    layer, table = layer_params(one, where.tp), part["embedding"] / where.tp
    again = (
        0.0
        if run.checkpointing == "none"
        else recomputed_bytes(one, run.batch, run.seq, where, checkpointing="full", kernels=FLASH, dropout=False)
    )
    alive = in_flight(where.schedule, where.pp, stage, where.microbatches, where.virtual)
    last = stage == where.pp - 1
    logits = tokens * one.vocab / where.tp
    per_logit = (
        4 if "compiled loss" in run.words else 14
    )  # 16-bit and gradient; else fp32 copy, log-softmax, gradient too
    loss = per_logit * logits + 2 * table if last else 0.0
    return {
        "state": float(sum(state_by_stage(one, where, stage, "D").values())),
        "gathered weights": 2 * params if where.pp > 1 else 2 * 2 * layer,  # a pipeline keeps its stage's weights whole
        "unreduced gradients": 4 * params if where.pp > 1 else 4 * layer,
        "layers": float(alive * stage_layers(one.layers, where.pp, stage) * kept),
        "gathered over tensor ranks": 3 * 2 * tokens * one.hidden if where.tp > 1 else 0.0,  # as nanotron's
        "loss, or a layer computed again": max(loss, float(again)),
    }


def _megatron(run: TrainingRun) -> dict[str, float]:
    """Any stage of Megatron-LM without ZeRO whose first and last stage have a layer less, for embedding and head."""
    one, where = run.shape, run.layout
    here = replace(where, pp=1, virtual=1, schedule="1f1b")  # embedding and head count as layers: pp may exceed them
    per_stage = -(-(one.layers + 2) // where.pp)
    found = []
    for stage in range(where.pp):
        ends = (stage == 0) + (stage == where.pp - 1)
        layers = per_stage - ends
        params = layers * layer_params(one, where.tp) + ends * one.vocab * one.hidden / where.tp
        kept = layer_bytes(one, run.batch, run.seq, here, checkpointing=run.checkpointing)
        alive = in_flight(where.schedule, where.pp, stage, where.microbatches, where.virtual)
        logits = 4 * run.batch * run.seq * one.vocab / where.tp * (stage == where.pp - 1)
        found.append(
            {"state": state_bytes(params, "C"), "layers": float(alive * layers * kept), "logits": 2.0 * logits}
        )
    return max(found, key=lambda terms: sum(terms.values()))


FRAMEWORKS = {
    one.name: one
    for one in (
        Framework(
            "nanotron",
            _nanotron,
            "reserved by the caching allocator on rank 0, in GiB",
            "fragmentation as such and NCCL's memory. The source does not tell which runs kept the inputs gathered "
            "over tensor ranks instead of gathering them again: most rows that are far off hold what those inputs need",
            unprinted=(GATHERED_KEPT,),
        ),
        Framework(
            "megatron-deepspeed",
            _megatron_deepspeed,
            "the peak printed by the run, whole GB",
            "NCCL's own memory, fused kernels' workspaces, the pipeline's buffers for activations under way",
        ),
        Framework(
            "megatron-deepspeed, device",
            _megatron_deepspeed,
            "what the device reports as used, polled each second, whole GB",
            "as megatron-deepspeed; the device counts its context and NCCL's memory as well",
        ),
        Framework(
            "torchtitan",
            _torchtitan,
            "the most reserved on any rank, in GiB",
            "workspaces, float8 scales and copies, what eager mode holds beyond compiled kernels",
        ),
        Framework(
            "megatron",
            _megatron,
            "the most over all ranks, whole GB",
            "fragmentation, workspaces, and which kernels are fused",
        ),
    )
}
