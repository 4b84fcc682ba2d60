"""Peak memory of training frameworks, from their public descriptions, with two fitted constants each.

The terms are counted, not fitted; `slack` multiplies them (fragmentation of the caching allocator, short-lived tensors)
and `buffers` is added (communication buffers and workspaces). Both are in `facts/data/memory_fits.csv` with the
conditions of their fit.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from course_lib.estimate.facts.fact import rows
from course_lib.estimate.memory.activation_terms import Kernels, layer_terms
from course_lib.estimate.memory.activations import layer_bytes, total_bytes
from course_lib.estimate.memory.layout import Layout
from course_lib.estimate.memory.layout_checks import known_checkpointing
from course_lib.estimate.memory.recipes import convention
from course_lib.estimate.memory.shapes import Shape, layer_params, params_by_part
from course_lib.estimate.memory.stage_peaks import (
    end_peaks,
    end_stages,
    in_flight,
    stage_layers,
    stage_params,
    state_by_stage,
)
from course_lib.estimate.running_plan import CONVENTION
from course_lib.estimate.units import GiB, Numeric

FLASH = Kernels(attention="flash")
GATHERED = "gathered over tensor ranks"  # input, output before it is scattered, and gradient
OFFLOADED = "offloaded"  # what the framework can keep in the server's memory
GATHERED_KEPT = "gathered inputs kept"  # of attention and of the MLP, instead of gathering them again


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """The properties of a run that determine its memory; `batch` is the micro-batch. Numbers may be arrays."""

    shape: Shape
    layout: Layout
    batch: Numeric
    seq: Numeric
    checkpointing: str = "none"
    kernels: str | Kernels = "paper"
    dropout: bool = True
    words: frozenset[str] = field(
        default_factory=frozenset
    )  # more: "compiled", "compiled loss", "gathered inputs kept", "offloaded"

    def __post_init__(self) -> None:
        known_checkpointing(self.checkpointing)


@dataclass(frozen=True, slots=True)
class Framework:
    """How a framework's peak is counted, and what is left out."""

    name: str
    terms: Callable[[TrainingRun], list[dict[str, Numeric]]]  # of each stage that can be the fullest
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
    """Bytes at the peak of the fullest stage by purpose, before the constants. The numbers of the run are no arrays."""
    stages = [{name: float(part) for name, part in each.items()} for each in framework_of(framework).terms(run)]
    return max(stages, key=lambda terms: sum(terms.values()))


def predicted_bytes(framework: str, run: TrainingRun) -> Numeric:
    """Bytes that a user of the framework would read at the peak of this run."""
    first, *others = (sum(terms.values()) for terms in framework_of(framework).terms(run))
    for total in others:
        first = np.maximum(first, total)
    return first + slack_bytes(first, framework)


def offloaded_bytes(framework: str, run: TrainingRun) -> Numeric:
    """Bytes that a rank of the stage with the most of them has in the server's memory; 0 for a run without
    `OFFLOADED`."""
    both = (replace(run, words=words) for words in (run.words - {OFFLOADED}, run.words))
    all_of_it, here = ([sum(terms.values()) for terms in framework_of(framework).terms(each)] for each in both)
    first, *others = (whole - left for whole, left in zip(all_of_it, here, strict=True))
    for other in others:
        first = np.maximum(first, other)
    return first


def slack_bytes(terms: Numeric, framework: str = "torchtitan") -> Numeric:
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


def nanotron_layers(shape: Shape, stages: Numeric) -> Numeric:
    """Layers on nanotron's first stage: it is filled until its work exceeds an even share, with the head counted as
    work.

    `PipelineBlock` costs, nanotron (2024): a layer's matrices with as many key heads as heads, the head's matrix.
    """
    layer = shape.hidden * (4 * shape.query_width + 3 * shape.ffn)
    share = (shape.layers * layer + shape.hidden * shape.vocab) / stages
    return np.where(np.equal(stages, 1), shape.layers, np.minimum(shape.layers, share // layer + 1))


def _nanotron(run: TrainingRun) -> list[dict[str, Numeric]]:
    """The first stage, whose rank writes the log: 1F1B, sequence parallelism, bf16 with fp32 gradients and master."""
    one, where = run.shape, replace(run.layout, sp=True)
    layers, alone = nanotron_layers(one, where.pp), np.equal(where.pp, 1)
    here = replace(where, pp=1, virtual=1, schedule="1f1b")
    tables = np.where(alone & (not one.tied), 2, 1)
    params = layers * layer_params(one, where.tp) + tables * one.vocab * one.hidden / where.tp
    kept = layer_bytes(one, run.batch, run.seq, here, kernels=FLASH, dropout=False, checkpointing=run.checkpointing)
    alive = in_flight("1f1b", where.pp, 0, where.microbatches)
    tokens = run.batch * run.seq / where.cp
    more = alive * layers * 2 * 2 * tokens * one.hidden * (1 - 1 / where.tp)
    return [
        {
            "weights": 2 * params,
            "fp32 gradients": 4 * params,
            "master and moments": convention("C").checkpoint
            * params
            / np.where(np.greater(where.zero, 0), where.shards, 1),
            "16-bit gradients": 2 * params,  # the buckets of data parallelism, or the gradients before they are added
            "layers": alive * layers * kept,
            "logits": alone * 8 * tokens * one.vocab / where.tp,  # fp32 logits and their softmax
            GATHERED: 3 * 2 * tokens * one.hidden,
            GATHERED_KEPT: more * (GATHERED_KEPT in run.words),
        }
    ]


def _stage_terms(run: TrainingRun, letter: str, loss: str) -> list[dict[str, Numeric]]:
    """Weights, gradients, optimizer and activations of the stages that can be the fullest."""
    peaks = end_peaks(
        run.shape,
        run.batch,
        run.seq,
        run.layout,
        convention=letter,
        kernels=run.kernels,
        dropout=run.dropout,
        checkpointing=run.checkpointing,
        loss=loss,
    )
    return [
        {
            "weights": peak.weights,
            "gradients": peak.grads,
            "optimizer": peak.optimizer,
            "gathered weights": peak.gathered,
            "activations": peak.activations,
            "a layer computed again": peak.recomputed,
            "the logits' gradient": peak.loss,
        }
        for peak in peaks
    ]


def _megatron(run: TrainingRun) -> list[dict[str, Numeric]]:
    """Megatron-LM: fp32 gradients, and what sequence parallelism gathers; offloaded are Adam's moments."""
    tokens = run.batch * run.seq / run.layout.cp
    gathered = np.where(np.greater(run.layout.sp_ways, 1), 3 * 2 * tokens * run.shape.hidden, 0.0)
    copies, found = convention(CONVENTION), _stage_terms(run, CONVENTION, "paper")
    left = copies.master / (copies.master + copies.moments) if OFFLOADED in run.words else 1.0
    return [{**terms, "optimizer": left * terms["optimizer"], GATHERED: gathered} for terms in found]


def _course(run: TrainingRun) -> list[dict[str, Numeric]]:
    """As the chapters count: PyTorch's kernels with FlashAttention, and the paper's loss."""
    return _stage_terms(replace(run, kernels="flash"), CONVENTION, "paper")


def _megatron_deepspeed(run: TrainingRun) -> list[dict[str, Numeric]]:
    """1F1B, ZeRO-1 beside 16-bit gradients, no sequence parallelism."""
    one, where = run.shape, run.layout
    logits = 6 * run.batch * run.seq * one.vocab / where.tp  # fp32, and their 16-bit gradient
    found = []
    for stage, terms in zip(end_stages(one.layers, where), _stage_terms(run, "E", "fused"), strict=True):
        again = np.maximum(terms.pop("a layer computed again"), np.equal(stage, where.pp - 1) * logits)
        whole = 4.0 * run.batch * run.seq * one.hidden  # output to be summed, and its gradient
        found.append({**terms, "logits, or a layer computed again": again, "whole on each tensor rank": whole})
    return found


_SAVED = {"norm1.input", "attention.q", "attention.v", "attention.context", "mlp.gate"}


def _torchtitan(run: TrainingRun) -> list[dict[str, Numeric]]:
    """FSDP over data and context ranks; fp32 shards, bf16 compute.

    "selective" saves every second matrix product and the attention's result, not Korthikanti's selection. Offloaded are
    all shards: weights, gradients and moments.
    """
    one, where = run.shape, replace(run.layout, sp=True, zero=np.maximum(run.layout.zero, 2))
    tokens = run.batch * run.seq / where.cp
    terms = layer_terms(one, run.batch, run.seq, where, kernels=FLASH, dropout=False)
    if run.checkpointing == "selective":  # and down's output
        kept = total_bytes(term for term in terms if term.name in _SAVED) + 2 * tokens * one.hidden / where.tp
    else:
        kept = total_bytes(term for term in terms if term.kept(run.checkpointing))
    again = 0.0 if run.checkpointing == "none" else total_bytes(term for term in terms if not term.kept("full"))
    table, layer = params_by_part(one)["embedding"] / where.tp, layer_params(one, where.tp, where.ep)
    per_logit = 4 if "compiled loss" in run.words else 14  # 16-bit and gradient; else fp32 copy, log-softmax, gradient
    loss = per_logit * tokens * one.vocab / where.tp + 2 * table
    whole = np.greater(where.pp, 1) | np.less(where.zero, 3)  # a pipeline keeps its stage's weights whole
    found = []
    for stage in end_stages(one.layers, where):
        params = stage_params(one, where, stage)
        alive = in_flight(where.schedule, where.pp, stage, where.microbatches, where.virtual)
        state = sum(state_by_stage(one, replace(where, zero=3), stage, "D").values())
        last = np.equal(stage, where.pp - 1)
        found.append(
            {
                "state": state * (OFFLOADED not in run.words),
                "gathered weights": np.where(whole, 2 * params, 2 * 2 * layer),
                "unreduced gradients": 4 * np.where(np.greater(where.pp, 1), params, layer),
                "layers": alive * stage_layers(one.layers, where.pp, stage) * kept,
                GATHERED: np.where(np.greater(where.tp, 1), 3 * 2 * tokens * one.hidden, 0.0),
                "loss, or a layer computed again": np.maximum(last * loss, again),
            }
        )
    return found


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
        Framework("course", _course, "the most reserved on any rank", "as torchtitan, whose buffers it has"),
    )
}
