"""The peak of each pipeline stage: its share of the state, the micro-batches in flight, and temporary tensors.

Micro-batches in flight follow from the order of a stage's work: GPipe runs all forward passes first (Huang et al.
2018), 1F1B as many as there are stages from here to the end, interleaved 1F1B some chunks more (Narayanan et al. 2021,
section 2.2).
"""

from dataclasses import dataclass, fields
from typing import Unpack

import numpy as np

from course_lib.estimate.memory.activation_terms import Kernels, TermChoices, kernels_of, layer_terms, outside_terms
from course_lib.estimate.memory.activations import total_bytes
from course_lib.estimate.memory.layout import Layout
from course_lib.estimate.memory.recipes import SHARDED_FROM, Convention, dtype_bytes
from course_lib.estimate.memory.recipes import convention as known_convention
from course_lib.estimate.memory.shapes import Shape, expert_params, layer_params, params_by_part
from course_lib.estimate.memory.shapes import shape as shape_of
from course_lib.estimate.units import Numeric


class WorkChoices(TermChoices, total=False):
    """Keywords that all stages share."""

    loss: str


class RunChoices(WorkChoices, total=False):
    """Keywords of `stage_peaks`."""

    convention: str


class PeakChoices(RunChoices, total=False):
    """Keywords of `stage_peak`."""

    stage: int


_EVEN = {  # micro-batches that every stage holds, by stages: `schedules.peak_activations` counts the same
    "naive": lambda stages: 1 + 0 * stages,
    "zb_h1": lambda stages: stages,
    "zb_h2": lambda stages: 2 * stages - 1,
    "zb_v": lambda stages: stages,
    "dualpipe": lambda stages: stages + 1,
    "dualpipe_v": lambda stages: stages + 0.5,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The peak bytes of one rank, by purpose."""

    weights: Numeric
    grads: Numeric  # main gradients included
    optimizer: Numeric  # master copy and moments
    gathered: Numeric  # layers whose full weights ZeRO-3 holds for use
    activations: Numeric  # kept for later backward passes
    recomputed: Numeric  # the layer being recomputed
    loss: Numeric  # the gradient of the logits

    @property
    def state(self) -> Numeric:
        """Weights, gradients and optimizer together."""
        return self.weights + self.grads + self.optimizer

    @property
    def total(self) -> Numeric:
        """The total: an upper bound, because not all of it has to exist at the same moment."""
        return sum(getattr(self, each.name) for each in fields(self))


def in_flight(schedule: str, stages: Numeric, stage: Numeric, microbatches: Numeric, virtual: Numeric = 1) -> Numeric:
    """The most micro-batches whose activations a stage holds, in units of all its layers.

    With interleaving it is a multiple of 1 / virtual, because a chunk is part of the stage's layers: p (1 + (p - 1) /
    (p v)) on the first.
    """
    Layout(schedule=schedule, virtual=virtual)
    if np.any(np.less(stage, 0)) or np.any(np.greater_equal(stage, stages)):
        raise ValueError(f"stage is {stage!r}; with {stages} stages it is 0 to {np.max(stages) - 1}.")
    if schedule in _EVEN:
        return np.minimum(microbatches, _EVEN[schedule](stages) + 0 * stage)
    if schedule in ("gpipe", "breadth_first"):
        return microbatches + 0 * stage
    if schedule == "1f1b":
        return np.minimum(microbatches, stages - stage)
    warm_up = 2 * (stages - stage - 1) + (virtual - 1) * stages + 1
    alone = np.equal(stages, 1)  # a single stage runs its chunks one after another
    chunks = np.where(alone, virtual, np.minimum(microbatches * virtual, warm_up))
    return chunks / virtual


def stage_layers(layers: Numeric, stages: Numeric, stage: Numeric) -> Numeric:
    """Layers on a stage: as even as whole layers allow. Earlier stages take the remainder, but if it fills all but two,
    the first and the last have one less: embedding and head count as a layer each."""
    share = np.floor(layers / stages) if np.ndim(stages) else layers // stages
    more = layers - share * stages
    after = np.equal(more + 2, stages)
    return share + ((stage >= after) & (stage < more + after))


def stage_params(shape: object, layout: Layout, stage: Numeric) -> Numeric:
    """Parameters on one rank of a stage, its tensor-parallel share. A tied head is a second copy on the last of several
    stages."""
    one = shape_of(shape)
    parts = params_by_part(one)
    first, last = np.equal(stage, 0), np.equal(stage, layout.pp - 1)
    inside = stage_layers(one.layers, layout.pp, stage) * layer_params(one, layout.tp, layout.ep)
    entry = parts["embedding"] / layout.tp + parts["positions"] + parts.get("embedding_norm", 0)
    bias = one.head_bias * one.vocab
    head = np.where(np.logical_and(one.tied, first), 0, parts["embedding"] / layout.tp) + bias / layout.tp
    inside = 2 * inside if layout.schedule == "dualpipe" else inside  # both directions' stages
    return inside + first * entry + last * (head + parts["final_norm"])


def state_by_stage(
    shape: object, layout: Layout, stage: Numeric = 0, convention: str | Convention = "B"
) -> dict[str, Numeric]:
    """Bytes of training state by bucket on one rank of a stage, under the layout's ZeRO stage.

    Context-parallel ranks hold the same weights and share their state. Experts are already shared out over `ep` of
    these ranks.
    """
    one, buckets = shape_of(shape), known_convention(convention).buckets
    params, shards = stage_params(one, layout, stage), layout.shards
    experts: Numeric = 0.0
    shares = shards
    if np.any(one.experts):
        twice = 2 if layout.schedule == "dualpipe" else 1
        experts = twice * stage_layers(one.layers, layout.pp, stage) * expert_params(one, layout.tp, layout.ep)
        shares = np.maximum(shards / layout.ep, 1)
    held = {}
    for name, per in buckets.items():
        sharded = np.greater_equal(layout.zero, SHARDED_FROM[name])
        if np.ndim(sharded) == 0:
            held[name] = per * ((params - experts) / shards + experts / shares if sharded else params)
        else:
            held[name] = per * np.where(sharded, (params - experts) / shards + experts / shares, params)
    return held


def stage_peak(
    shape: object,
    batch: Numeric,
    seq: Numeric,
    layout: Layout | None = None,
    *,
    stage: Numeric = 0,
    convention: str | Convention = "B",
    kernels: str | Kernels = "paper",
    dtype: str = "bf16",
    dropout: bool = True,
    checkpointing: str = "none",
    loss: str = "paper",
) -> Peak:
    """The peak bytes of one rank of a pipeline stage, by purpose.

    Left out: communication buffers, the allocator's slack, and the peak inside single operators. `batch` is the
    micro-batch.
    """
    work = _work(
        shape, batch, seq, layout, kernels=kernels, dtype=dtype, dropout=dropout, checkpointing=checkpointing, loss=loss
    )
    return _peak(work, stage, convention)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What all stages share: bytes of one layer, of the first and last stage's extra parts, and of temporary
    tensors."""

    shape: Shape
    layout: Layout
    kept: Numeric
    again: Numeric
    entry: Numeric
    leave: Numeric
    gradient: Numeric
    gathered: Numeric


def _work(
    shape: object,
    batch: Numeric,
    seq: Numeric,
    layout: Layout | None,
    *,
    kernels: str | Kernels = "paper",
    dtype: str = "bf16",
    dropout: bool = True,
    checkpointing: str = "none",
    loss: str = "paper",
) -> _Work:
    from course_lib.estimate.memory.layout_checks import known_checkpointing

    one, where = shape_of(shape), Layout() if layout is None else layout
    known_checkpointing(checkpointing)
    terms = layer_terms(one, batch, seq, where, kernels=kernels, dtype=dtype, dropout=dropout)
    ends = outside_terms(one, batch, seq, where, kernels=kernels, dtype=dtype, dropout=dropout, loss=loss)
    selective = kernels_of(kernels).selective
    in_use = 2 * layer_params(one, where.tp, where.ep)  # and prefetched
    first = [term for term in ends if term.name.startswith("embedding")]
    return _Work(
        shape=one,
        layout=where,
        kept=total_bytes(term for term in terms if term.kept(checkpointing, selective)),
        again=total_bytes(term for term in terms if not term.kept(checkpointing, selective)),
        entry=total_bytes(first),
        leave=total_bytes(term for term in ends if term not in first),
        gradient=_logit_gradient(one, batch, seq, where, dtype, loss),
        gathered=np.equal(where.zero, 3) * in_use * dtype_bytes(dtype),
    )


def _peak(work: _Work, stage: Numeric, convention: str | Convention) -> Peak:
    one, where = work.shape, work.layout
    state = state_by_stage(one, where, stage, convention)
    alive = in_flight(where.schedule, where.pp, stage, where.microbatches, where.virtual)
    first, last = np.equal(stage, 0), np.equal(stage, where.pp - 1)
    ends = 1.0 if where.schedule == "interleaved" else alive  # the last chunk starts backward at once
    return Peak(
        weights=state["weights"],
        grads=state["grads"] + state["main_grads"],
        optimizer=state["master"] + state["moments"],
        gathered=work.gathered,
        activations=alive * (work.kept * stage_layers(one.layers, where.pp, stage) + first * work.entry)
        + ends * last * work.leave,
        recomputed=work.again,
        loss=last * work.gradient,
    )


def _logit_gradient(one: Shape, batch: Numeric, seq: Numeric, where: Layout, dtype: str, loss: str) -> Numeric:
    """Bytes of the logits' gradient: fp32 with a plain loss, and its copy in the activations' dtype."""
    if loss == "fused":
        return 0.0
    return batch * seq * one.vocab / where.cp / where.tp * (4 if loss == "plain" else dtype_bytes(dtype))


def stage_peaks(
    shape: object, batch: Numeric, seq: Numeric, layout: Layout, **choices: Unpack[RunChoices]
) -> list[Peak]:
    """The peak of every stage, first to last. `choices` as for `stage_peak`."""
    return [stage_peak(shape, batch, seq, layout, stage=stage, **choices) for stage in range(int(layout.pp))]


def end_stages(layers: Numeric, layout: Layout) -> tuple[Numeric, ...]:
    """The stages that can be the fullest: the first has the most in flight, the last the logits, the second maybe a
    layer more than the first."""
    stages = layout.pp
    if np.all(np.equal(stages, 1)):
        return (0,)
    lighter = np.greater(stages, 2) & np.less(stage_layers(layers, stages, 0), stage_layers(layers, stages, 1))
    return (0, np.minimum(1, stages - 1), stages - 1) if np.any(lighter) else (0, stages - 1)


def end_peaks(
    shape: object,
    batch: Numeric,
    seq: Numeric,
    layout: Layout | None = None,
    *,
    convention: str | Convention = "B",
    **choices: Unpack[WorkChoices],
) -> list[Peak]:
    """The peaks of `end_stages`. `choices` as for `stage_peak`."""
    work = _work(shape, batch, seq, layout, **choices)
    return [_peak(work, stage, convention) for stage in end_stages(work.shape.layers, work.layout)]


def peak_bytes(
    shape: object, batch: Numeric, seq: Numeric, layout: Layout | None = None, **choices: Unpack[RunChoices]
) -> Numeric:
    """Bytes of the fullest rank."""
    first, *others = (peak.total for peak in end_peaks(shape, batch, seq, layout, **choices))
    for total in others:
        first = np.maximum(first, total)
    return first
