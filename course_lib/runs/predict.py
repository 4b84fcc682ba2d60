"""What a run will need, said before it starts: seconds of a step by part, bytes at the peak, bytes on the wire. Arithmetic.

Rates are those of `rates`, measured a moment before on the ranks that will run, or read from evidence. Nothing here is
fitted to the run that it predicts.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from course_lib import compute, memory
from course_lib.memory import Layout
from course_lib.runs.counting import ring_sent
from course_lib.runs.layouts import RunLayout
from course_lib.runs.model import pieces_of

FP32 = 4
ADAM_TRAFFIC = 7 * FP32  # bytes per parameter that AdamW's step moves: reads weight, gradient, two moments; writes all but the gradient


@dataclass(frozen=True)
class Rates:
    """What the ranks can do while all of them do it. FLOP/s and bytes/s of one rank; seconds."""

    flops: float  # of the model's own matmul
    memory: float  # bytes/s that a copy moves, read and written
    alpha: float = 0.0  # s of an all-reduce of no bytes, over all ranks
    wire: float = float("inf")  # bytes/s that a rank sends in a large all-reduce
    source: str = "measured just before"


@dataclass(frozen=True)
class Job:
    """What is run: a model under a layout, in numbers only."""

    config: Any  # transformer.Config
    layout: RunLayout
    batch: int  # sequences in a step, all ranks together
    width: int = FP32  # bytes of a number in the arithmetic: 2 with bf16
    reshard: bool = True

    @property
    def tokens(self) -> int:
        """Tokens of a step, all ranks together."""
        return self.batch * self.config.seq_len

    @property
    def micro_tokens(self) -> int:
        """Tokens of one micro-batch on one data-parallel rank."""
        return self.tokens // (self.layout.data * self.layout.micro_batches)

    @property
    def params(self) -> int:
        """Parameters of the whole model."""
        return memory.count_params(self.config)


@dataclass(frozen=True)
class Predicted:
    """One rank's step. Bytes and seconds by part."""

    memory: dict[str, float]
    wire: dict[str, float]
    seconds: dict[str, float]

    @property
    def memory_bytes(self) -> float:
        """Bytes at the peak."""
        return sum(self.memory.values())

    @property
    def wire_bytes(self) -> float:
        """Bytes sent in a step."""
        return sum(self.wire.values())

    @property
    def step_seconds(self) -> float:
        """Seconds of a step, nothing overlapping."""
        return sum(self.seconds.values())

    def as_data(self) -> dict[str, Any]:
        """Plain data, for an evidence file."""
        return {**asdict(self), "memory_bytes": self.memory_bytes, "wire_bytes": self.wire_bytes, "step_seconds": self.step_seconds}


def predict(job: Job, rates: Rates, stage: int = 0) -> Predicted:
    """What a rank of pipeline stage `stage` will need. Overlap is not predicted: the sum is what a run has to beat."""
    wire = wire_bytes(job, stage)
    return Predicted(memory=memory_bytes(job, stage), wire=wire, seconds=step_seconds(job, rates, wire))


def unit_params(job: Job, stage: int = 0) -> tuple[list[float], float]:
    """Parameters on one rank before FSDP: of each block, and of what is in no block (embedding, last norm, head)."""
    layout, parts = job.layout, memory.params_by_part(job.config)
    pieces = pieces_of(job.config, layout.pp * layout.chunks)
    here = [stage + chunk * layout.pp for chunk in range(layout.chunks)]
    blocks = [float(memory.layer_params(memory.shape(job.config), layout.tp)) for piece in here for _ in pieces[piece]]
    ends = (0 in here) * parts["embedding"] / layout.tp
    ends += (layout.pp * layout.chunks - 1 in here) * (parts["head"] / layout.tp + parts["final_norm"])
    return blocks, float(ends)


def wire_bytes(job: Job, stage: int = 0) -> dict[str, float]:
    """Bytes a rank sends in a step, by what for; sums of single numbers (loss, norm) are left out."""
    layout, micro = job.layout, job.layout.micro_batches
    blocks, ends = unit_params(job, stage)
    held = sum(blocks) + ends
    found: dict[str, float] = {}
    if layout.fsdp > 1:
        # A block is gathered for each forward pass and again for each backward pass; what is in no block once for both.
        passes = micro * (1 + job.reshard)
        gathered = sum(blocks) * passes + ends * (micro if layout.pp == 1 else 1)
        found["gather weights"] = ring_sent("all_gather", gathered * job.width, layout.fsdp)
        found["reduce-scatter gradients"] = ring_sent("reduce_scatter", held * FP32, layout.fsdp)
    if layout.ddp > 1:
        found["all-reduce gradients"] = ring_sent("all_reduce", held / layout.fsdp * FP32, layout.ddp)
    hidden = job.micro_tokens * job.config.hidden
    if layout.tp > 1:
        found["tensor parallel"] = micro * _tensor_parallel(job, stage, len(blocks), hidden)
    if layout.pp > 1:
        pieces = layout.pp * layout.chunks
        here = [stage + chunk * layout.pp for chunk in range(layout.chunks)]
        sends = sum((piece < pieces - 1) + (piece > 0) for piece in here)  # activations on, gradients back
        found["pipeline"] = float(micro * sends * hidden * FP32)
    return found


def _tensor_parallel(job: Job, stage: int, blocks: int, hidden: int) -> float:
    """Bytes of one micro-batch: in each block two all-reduces forward and two backward, and the ends' own."""
    ways, layout = job.layout.tp, job.layout
    again = 1 if job.config.checkpointing == "full" else 0  # the forward pass is run once more
    total = blocks * ring_sent("all_reduce", 2 * hidden * job.width * (1 + again) + 2 * hidden * FP32, ways)
    if stage == 0:
        total += ring_sent("all_reduce", hidden * FP32, ways)  # rows of the embedding
    if stage == layout.pp - 1:
        logits = job.micro_tokens * job.config.vocab * job.width
        total += ring_sent("all_gather", logits, ways) + ring_sent("all_reduce", hidden * FP32, ways)
    return total


def memory_bytes(job: Job, stage: int = 0) -> dict[str, float]:
    """Bytes of one rank at its fullest: fp32 state, weights gathered for use, activations of the micro-batches in flight."""
    layout, shape = job.layout, memory.shape(job.config)
    blocks, ends = unit_params(job, stage)
    kept = (sum(blocks) + ends) / layout.fsdp
    schedule = layout.schedule if layout.pp > 1 else "1f1b"
    where = Layout(tp=layout.tp, pp=layout.pp, dp=layout.fsdp, zero=3 if layout.fsdp > 1 else 0, schedule=schedule,
                   virtual=layout.chunks if schedule == "interleaved" else 1, microbatches=layout.micro_batches)  # fmt: skip
    micro = job.batch // (layout.data * layout.micro_batches)
    peak = memory.stage_peak(shape, micro, job.config.seq_len, where, stage=stage, convention="D", kernels="flash", loss="plain",
                             dtype="bf16" if job.width == 2 else "fp32", dropout=False, checkpointing=job.config.checkpointing)  # fmt: skip
    found = {"weights": kept * FP32, "gradients": kept * FP32, "optimizer": 2 * kept * FP32}
    if layout.fsdp > 1:
        units = 2 * max(blocks) if job.reshard else sum(blocks)
        found["gathered"] = (units + ends) * job.width
    elif job.width == 2:
        found["16-bit copies of weights"] = (sum(blocks) + ends) * job.width
    return {**found, "activations": float(peak.activations), "recomputed": float(peak.recomputed), "loss": float(peak.loss)}


def step_seconds(job: Job, rates: Rates, wire: dict[str, float]) -> dict[str, float]:
    """Seconds of a step by part: matmuls at the measured rate, the pipeline's bubble, the wire, the optimizer."""
    layout = job.layout
    arithmetic = step_flops(job, hardware=True) / layout.ranks / rates.flops
    calls = messages(job)
    blocks, ends = unit_params(job)
    found = {"arithmetic": arithmetic, "communication": calls * rates.alpha + sum(wire.values()) / rates.wire if layout.ranks > 1 else 0.0,
             "optimizer": (sum(blocks) + ends) / layout.fsdp * ADAM_TRAFFIC / rates.memory}  # fmt: skip
    if layout.pp > 1:
        found["bubble"] = arithmetic * (layout.pp - 1) / (layout.micro_batches * layout.chunks)
    return found


def messages(job: Job) -> int:
    """Calls of the communication library in a step, roughly: each costs a latency."""
    layout, micro = job.layout, job.layout.micro_batches
    blocks, _ = unit_params(job)
    calls = 2  # loss and norm
    if layout.fsdp > 1:
        calls += len(blocks) * (1 + (1 + job.reshard) * micro)
    elif layout.ddp > 1:
        calls += max(round(sum(blocks) * FP32 / 25e6), 1)  # DDP's buckets
    if layout.tp > 1:
        calls += 4 * len(blocks) * micro
    if layout.pp > 1:
        calls += 2 * micro * layout.chunks
    return calls


def step_flops(job: Job, hardware: bool = False) -> float:
    """FLOP of a step of the whole model, with attention halved by its mask; with `hardware` what is computed again counts."""
    config = job.config
    embedding = config.vocab * config.hidden  # looked up, not multiplied
    per_token = compute.TRAIN * (job.params - embedding)
    attention = compute.attention_flops_per_token(config.layers, config.hidden, config.seq_len, causal=True)
    again = {"none": 0.0, "selective": attention / 3, "full": (per_token - compute.TRAIN * embedding + attention) / 3}
    return float(job.tokens * (per_token + attention + (again[config.checkpointing] if hardware else 0.0)))
