"""What a run will need, said before it starts: seconds of a step by part, bytes at the peak, bytes on the wire.
Arithmetic.

Rates are those of `rates`, measured a moment before on the ranks that will run, or read from evidence. Nothing here is
fitted to the run that it predicts.
"""

import math
from dataclasses import asdict, dataclass, field

from course_lib.estimate import compute, memory
from course_lib.estimate.memory import Layout
from course_lib.model.transformer import Config
from course_runs.layouts import RunLayout
from course_runs.model import pieces_of
from course_runs.ring_bytes import ring_sent

FP32 = 4
WIRES = {  # what is sent for -> over which axis, by which call
    "gather weights": ("fsdp", "all_gather"),
    "reduce-scatter gradients": ("fsdp", "reduce_scatter"),
    "all-reduce gradients": ("ddp", "all_reduce"),
    "context parallel": ("cp", "all_gather"),
    "tensor parallel": ("tp", "all_reduce"),
    "pipeline": ("pp", "send"),
}
FIRST_BUCKET, BUCKET = 1 << 20, 25 << 20  # bytes: DDP's
ADAM_TRAFFIC = (
    7 * FP32
)  # bytes per parameter that AdamW's step moves: reads weight, gradient, two moments; writes all but the gradient


@dataclass(frozen=True)
class Rates:
    """What a rank can do while all of them do it: where they share a machine, this is the share. FLOP/s, bytes/s,
    seconds."""

    flops: float  # of the model's own matmul
    memory: float  # bytes/s that a copy moves, read and written
    alpha: float = 0.0  # s of an all-reduce of one number, over all ranks
    wire: float = 0.0  # bytes/s that a rank sends in a large all-reduce; 0: no bandwidth shows
    wires: dict[str, tuple[float, float]] = field(default_factory=dict)  # "fsdp all_gather": s of a call, bytes/s sent
    block: float = 0.0  # s of one micro-batch through one whole block, forward and backward, nothing sent
    ends: float = 0.0  # s of the same through embedding, norm, head and loss
    cores: float = 1.0  # that a rank has for itself; below 1, ranks take turns
    source: str = "measured just before"

    def of(self, purpose: str) -> tuple[float, float]:
        """α in s and bytes/s sent of the calls that serve a purpose of WIRES."""
        alpha, rate = self.wires.get(" ".join(WIRES[purpose]), (self.alpha, self.wire))
        return alpha, rate or math.inf  # JSON has no infinity


@dataclass(frozen=True)
class Job:
    """What is run: a model under a layout, in numbers only."""

    config: Config
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
        """Tokens of one micro-batch on one rank that shares no sequence; context-parallel ranks share these."""
        return self.tokens // (self.layout.data * self.layout.micro_batches)

    @property
    def own_tokens(self) -> int:
        """Tokens of one micro-batch on one rank."""
        return self.micro_tokens // self.layout.cp

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

    def as_data(self) -> dict[str, object]:
        """Plain data, for an evidence file."""
        return {
            **asdict(self),
            "memory_bytes": self.memory_bytes,
            "wire_bytes": self.wire_bytes,
            "step_seconds": self.step_seconds,
        }


def predict(job: Job, rates: Rates, stage: int = 0) -> Predicted:
    """What a rank of pipeline stage `stage` will need. Overlap is not predicted: the sum is what a run has to beat."""
    wire = wire_bytes(job, stage)
    return Predicted(memory=memory_bytes(job, stage), wire=wire, seconds=step_seconds(job, rates, wire, stage))


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
        found["gather weights"] = ring_sent("all_gather", gathered * job.width, layout.shards)
        found["reduce-scatter gradients"] = ring_sent("reduce_scatter", held * FP32, layout.shards)
    if layout.replicas > 1:
        found["all-reduce gradients"] = ring_sent("all_reduce", held / layout.shards * FP32, layout.replicas)
    hidden = job.own_tokens * job.config.hidden
    if layout.cp > 1:
        found["context parallel"] = micro * len(blocks) * _context_parallel(job)
    if layout.tp > 1:
        found["tensor parallel"] = micro * _tensor_parallel(job, stage, len(blocks), hidden)
        if layout.sp and layout.fsdp == 1:  # each rank saw some of the tokens that its norms scale
            norms = 2 * len(blocks) + (stage == layout.pp - 1)
            found["tensor parallel"] += ring_sent("all_reduce", norms * job.config.hidden * FP32, layout.tp)
    if layout.pp > 1:
        pieces = layout.pp * layout.chunks
        here = [stage + chunk * layout.pp for chunk in range(layout.chunks)]
        sends = sum((piece < pieces - 1) + (piece > 0) for piece in here)  # activations on, gradients back
        found["pipeline"] = float(micro * sends * hidden * FP32) / (layout.tp if layout.sp else 1)
    return found


def _context_parallel(job: Job) -> float:
    """Bytes of one block and micro-batch: keys and values gathered forward and backward, their gradients
    reduce-scattered."""
    config, again = job.config, 1 if job.config.checkpointing == "full" else 0
    assert config.kv_heads
    whole = 2 * job.micro_tokens * config.kv_heads * config.head_dim // job.layout.tp * job.width
    ways = job.layout.cp
    return (2 + again) * ring_sent("all_gather", whole, ways) + ring_sent("reduce_scatter", whole, ways)


def _tensor_parallel(job: Job, stage: int, blocks: int, hidden: int) -> float:
    """Bytes of one micro-batch: in each block two all-reduces forward and two backward, and the ends' own."""
    ways, layout = job.layout.tp, job.layout
    again = 1 if job.config.checkpointing == "full" else 0  # the forward pass is run once more
    total = blocks * ring_sent("all_reduce", 2 * hidden * job.width * (1 + again) + 2 * hidden * FP32, ways)
    if stage == 0:
        total += ring_sent("all_reduce", hidden * FP32, ways)  # rows of the embedding
    if stage == layout.pp - 1:
        logits = job.own_tokens * job.config.vocab * job.width
        total += ring_sent("all_gather", logits, ways) + ring_sent("all_reduce", hidden * FP32, ways)
    return total


def memory_bytes(job: Job, stage: int = 0) -> dict[str, float]:
    """Bytes of one rank at its fullest: fp32 state, weights gathered for use, activations of the micro-batches in
    flight."""
    layout, shape = job.layout, memory.shape(job.config)
    blocks, ends = unit_params(job, stage)
    kept = (sum(blocks) + ends) / layout.shards
    schedule = layout.schedule if layout.pp > 1 else "1f1b"
    where = Layout(
        tp=layout.tp,
        sp=layout.sp,
        cp=layout.cp,
        pp=layout.pp,
        dp=layout.fsdp,
        zero=3 if layout.fsdp > 1 else 0,
        schedule=schedule,
        virtual=layout.chunks if schedule == "interleaved" else 1,
        microbatches=layout.micro_batches,
    )
    micro = job.batch // (layout.data * layout.micro_batches)
    peak = memory.stage_peak(
        shape,
        micro,
        job.config.seq_len,
        where,
        stage=stage,
        convention="D",
        kernels="flash",
        loss="plain",
        dtype="bf16" if job.width == 2 else "fp32",
        dropout=False,
        checkpointing=job.config.checkpointing,
    )
    found = {"weights": kept * FP32, "gradients": kept * FP32, "optimizer": 2 * kept * FP32}
    if layout.fsdp > 1:
        units = 2 * max(blocks) if job.reshard else sum(blocks)
        found["gathered"] = (units + ends) * job.width
    elif job.width == 2:
        found["16-bit copies of weights"] = (sum(blocks) + ends) * job.width
    return {
        **found,
        "activations": float(peak.activations),
        "recomputed": float(peak.recomputed),
        "loss": float(peak.loss),
    }


def step_seconds(job: Job, rates: Rates, wire: dict[str, float], stage: int = 0) -> dict[str, float]:
    """Seconds of a step by part: matmuls at the measured rate, what a block's passes take beyond them, bubble, wire,
    optimizer."""
    layout = job.layout
    arithmetic = step_flops(job, hardware=True) / layout.ranks / rates.flops
    blocks, ends = unit_params(job, stage)
    number = calls(job, stage)
    sent = sum(
        number[purpose] * rates.of(purpose)[0] + nbytes / rates.of(purpose)[1] for purpose, nbytes in wire.items()
    )
    found = {
        "arithmetic": arithmetic,
        "overhead": max(passes_seconds(job, rates) - arithmetic, 0.0),
        "communication": sent + number["loss and norm"] * rates.alpha if layout.ranks > 1 else 0.0,
        "optimizer": (sum(blocks) + ends) / layout.shards * ADAM_TRAFFIC / rates.memory,
    }
    if layout.pp > 1:  # where ranks take turns on a core, one that waits leaves it to the others
        idle = (layout.pp - 1) / (layout.micro_batches * layout.chunks) * min(rates.cores, 1.0)
        found["bubble"] = (arithmetic + found["overhead"]) * idle
    return found


def passes_seconds(job: Job, rates: Rates) -> float:
    """Seconds of all forward and backward passes of the stage with the most work, nothing sent; 0 where no block was
    measured."""
    layout = job.layout
    pieces = [len(piece) for piece in pieces_of(job.config, layout.pp * layout.chunks)]
    blocks: list[float] = [sum(pieces[stage :: layout.pp]) for stage in range(layout.pp)]
    blocks[-1] += rates.ends / rates.block if rates.block else 0.0  # the head's share is nearly all of it
    return layout.micro_batches * max(blocks) * rates.block / layout.tp


def calls(job: Job, stage: int = 0) -> dict[str, int]:
    """Calls of the communication library that a rank makes in a step, by what for: each costs a latency."""
    layout, micro = job.layout, job.layout.micro_batches
    parts, ends = unit_params(job, stage)
    blocks, whole = len(parts), (sum(parts) + ends) * FP32
    found = dict.fromkeys(WIRES, 0)
    found["loss and norm"] = 1 + sum(each > 1 for each in (layout.pp, layout.replicas, layout.shards, layout.tp))
    if layout.fsdp > 1:
        found["gather weights"] = blocks * (1 + job.reshard) * micro + 1
        found["reduce-scatter gradients"] = blocks + 1
    if layout.cp > 1:
        found["context parallel"] = micro * blocks * (4 if job.config.checkpointing == "full" else 3)
    if layout.replicas > 1:
        buckets = 1 + math.ceil(max(whole - FIRST_BUCKET, 0) / BUCKET)
        found["all-reduce gradients"] = blocks + 1 if layout.fsdp > 1 else buckets if layout.pp == layout.tp == 1 else 1
    if layout.tp > 1:
        again = 2 if job.config.checkpointing == "full" else 0
        twice = 1 + layout.sp  # a reduce-scatter and an all-gather for each all-reduce
        sums = (4 + again) * blocks + (stage == 0) + (stage == layout.pp - 1)
        found["tensor parallel"] = micro * (twice * sums + (stage == layout.pp - 1)) + (layout.sp and layout.fsdp == 1)
    if layout.pp > 1:
        found["pipeline"] = micro * (2 * layout.chunks - (stage == 0) - (stage == layout.pp - 1))
    return found


def step_flops(job: Job, hardware: bool = False) -> float:
    """FLOP of a step of the whole model, with attention halved by its mask; with `hardware` what is computed again
    counts."""
    config = job.config
    embedding = config.vocab * config.hidden  # looked up, not multiplied
    per_token = compute.TRAIN * (job.params - embedding)
    attention = compute.attention_flops_per_token(
        config.layers, config.heads * config.head_dim, config.seq_len, causal=True
    )
    again = {"none": 0.0, "selective": attention / 3, "full": (per_token - compute.TRAIN * embedding + attention) / 3}
    return float(job.tokens * (per_token + attention + (again[config.checkpointing] if hardware else 0.0)))
