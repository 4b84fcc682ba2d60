"""A step on a mesh in six terms: compute, four axes of communication, and the bubble; and the memory of the fullest rank.

Compute runs at the best matmul rate that anybody measured on the device, so the step is a lower bound: attention's kernels,
elementwise kernels and launches are left out. Links run at their nominal rate, and ranks fill servers with tp innermost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from course_lib import compute, facts, memory
from course_lib.memory import Layout
from course_lib.memory.shapes import shape as shape_of
from course_lib.memory.stages import Peak, stage_peak
from course_lib.mesh.cost import axis_seconds
from course_lib.mesh.layout import Mesh, fill
from course_lib.mesh.traffic import sent_bytes
from course_lib.mesh.wires import Network, network, widest

GRADIENT = ("dp", "cp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one layout of a model costs. Seconds are those of one step, bytes those of the fullest rank."""

    mesh: Mesh
    gpus: int
    microbatches: int  # of one replica in a step
    peak: Peak  # of the fullest stage
    parts: dict[str, float]  # seconds: compute, tp, cp, pp, dp (what computing does not hide), bubble
    talking: dict[str, float]  # seconds of communication by axis, hidden or not
    sent: dict[str, float]  # bytes a rank sends, by axis
    wires: dict[str, str]  # the outermost wire of each axis; "" where the axis has one rank
    capacity: float  # bytes of a GPU's memory
    mfu: float
    tokens: float  # of a step

    @property
    def seconds(self) -> float:
        """The whole step."""
        return sum(self.parts.values())

    @property
    def memory(self) -> float:
        """Bytes of the fullest rank."""
        return float(self.peak.total)

    @property
    def fits(self) -> bool:
        """Whether it fits, with nothing kept in reserve."""
        return self.memory <= self.capacity


def check_plan(one: Any, sizes: dict[str, int], sequences: int, seq: int, micro: int, virtual: int = 1) -> int:
    """Micro-batches of a replica; ValueError naming what fits if heads, layers, tokens or sequences cannot be divided."""
    tp, cp, pp, dp = (sizes[axis] for axis in ("tp", "cp", "pp", "dp"))
    for axis, size, what, count in (
        ("tp", tp, "attention heads", one.heads),
        ("cp", 2 * cp if cp > 1 else 1, "tokens of a sequence", seq),
    ):
        if count % size:
            fits = [n for n in range(1, min(count, 64) + 1) if count % (n if axis == "tp" else 2 * n) == 0]
            raise ValueError(
                f"{axis}={sizes[axis]} does not divide {count:,} {what}; {axis} may be {', '.join(map(str, fits))}."
            )
    if pp * virtual > one.layers:
        raise ValueError(
            f"pp={pp} stages of {virtual} chunks need {pp * virtual} layers, and the model has {one.layers}; "
            f"pp may be at most {one.layers // virtual}."
        )
    if sequences % (dp * micro):
        fits = [n for n in range(1, sequences // micro + 1) if sequences % (n * micro) == 0]
        near = min(fits, key=lambda n: abs(n - dp))
        raise ValueError(
            f"{sequences:,} sequences do not divide into {dp:,} replicas with micro-batches of {micro}; "
            f"the nearest number of replicas that does is {near:,}."
        )
    return sequences // (dp * micro)


def plan(
    model: Any,
    gpus: int,
    *,
    tp: int = 1,
    pp: int = 1,
    cp: int = 1,
    zero: int = 1,
    sequences: int = 512,
    seq: int = 8192,
    micro: int = 1,
    virtual: int = 1,
    recompute: str = "none",
    convention: str = "B",
    device: str = "H100 SXM",
    wires: Network | None = None,
) -> Plan:
    """The layout that these sizes make of `gpus` GPUs; dp takes the rest. ValueError, naming what fits, for one that cannot be."""
    one, chip = shape_of(model), facts.device(device)
    sizes = fill(gpus, pp=pp, cp=cp, tp=tp)
    count = check_plan(one, sizes, sequences, seq, micro, virtual)
    mesh = Mesh({axis: sizes[axis] for axis in ("pp", "dp", "cp", "tp")})
    schedule = "interleaved" if virtual > 1 else "1f1b"
    layout = Layout(
        tp=tp,
        sp=tp > 1,
        cp=cp,
        pp=pp,
        dp=sizes["dp"],
        zero=zero,
        schedule=schedule,
        virtual=virtual,
        microbatches=count,
    )
    choices = {"kernels": "flash", "dropout": False, "checkpointing": recompute, "convention": convention}
    ends = [stage_peak(one, micro, seq, layout, stage=stage, **choices) for stage in {0, pp - 1}]
    peak = max(ends, key=lambda each: float(each.total))  # first: most in flight; last: the logits
    net = wires or network(device)
    sent = sent_bytes(one, sizes, sequences, seq)
    if zero == 3:  # weights are gathered for every pass of every micro-batch, and gradients scattered
        sent["dp"] *= 1.5 * count
    sent["pp"] *= virtual
    seconds = {axis: axis_seconds(mesh, axis, sent[axis], net) for axis in ("tp", "cp", "pp")}
    seconds["dp"] = axis_seconds(mesh, GRADIENT, sent["dp"], net)
    tokens = float(sequences * seq)
    params = float(one.layers * memory.layer_params(one) + 2 * memory.params_by_part(one)["embedding"])
    attention = compute.attention_flops_per_token(one.layers, one.query_width, seq, causal=True)
    useful = compute.train_flops(params, tokens) + attention * tokens
    done = useful * (4 / 3 if recompute == "full" else 1.0)
    computing = done / (gpus * float(chip.matmul_flops or chip.dense_flops))
    hidden = 2 / 3 * computing * (1.0 if zero == 3 else 1 / count)  # the backward passes that can run meanwhile
    busy = computing + seconds["tp"] + seconds["cp"]
    parts = {
        "compute": computing,
        "tp": seconds["tp"],
        "cp": seconds["cp"],
        "pp": seconds["pp"],
        "dp": max(0.0, seconds["dp"] - hidden),
        "bubble": busy * (pp - 1) / (virtual * count),
    }
    return Plan(
        mesh=mesh,
        gpus=gpus,
        microbatches=count,
        peak=peak,
        parts=parts,
        talking=seconds,
        sent=sent,
        wires={axis: widest(mesh, GRADIENT if axis == "dp" else axis, net) for axis in ("tp", "cp", "pp", "dp")},
        capacity=float(chip.memory),
        mfu=useful / (gpus * float(chip.dense_flops) * sum(parts.values())),
        tokens=tokens,
    )
