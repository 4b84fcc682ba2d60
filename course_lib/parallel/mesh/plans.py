"""One layout of a model as the pictures show it: the planner's estimate, with what each axis sends over which wire."""

from dataclasses import dataclass, replace
from functools import partial

from course_lib.estimate.memory import Layout
from course_lib.estimate.memory.frameworks import slack_bytes
from course_lib.estimate.memory.recipes import convention as state_convention
from course_lib.estimate.memory.shapes import Shape
from course_lib.estimate.memory.stage_peaks import stage_peak
from course_lib.estimate.running_plan import CONVENTION
from course_lib.estimate.units import require
from course_lib.parallel import planner
from course_lib.parallel.mesh.layout import Mesh, fill
from course_lib.parallel.mesh.wires import network, widest

AXES = ("tp", "cp", "pp", "dp")  # from the inside out
COMPUTE = ("matmul", "attention")
KERNELS = ("other", "launch", "optimizer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one layout costs. Seconds are those of one step, bytes those of the fullest rank."""

    job: planner.Job
    cluster: planner.Cluster
    layout: Layout
    mesh: Mesh
    held: dict[str, float]  # bytes of the fullest rank, by purpose
    parts: dict[str, float]  # seconds by cause; communication only where nothing hides it
    talking: dict[str, float]  # seconds of communication by axis if nothing hid it
    sent: dict[str, float]  # bytes that a rank sends, by axis
    wires: dict[str, str]  # the outermost wire of each axis; "" where the axis has one rank

    @property
    def gpus(self) -> int:
        """Devices in all."""
        return self.cluster.gpus

    @property
    def microbatches(self) -> int:
        """Of one replica in a step."""
        return int(self.layout.microbatches)

    @property
    def seconds(self) -> float:
        """The whole step."""
        return sum(self.parts.values())

    @property
    def state(self) -> float:
        """Bytes of weights, gradients and optimizer on the fullest rank."""
        return self.held["weights"] + self.held["gradients"] + self.held["optimizer"]

    @property
    def memory(self) -> float:
        """Bytes of the fullest rank."""
        return sum(self.held.values())

    @property
    def capacity(self) -> float:
        """Bytes of a device's memory."""
        return self.cluster.memory

    @property
    def fits(self) -> bool:
        """Whether the fullest rank fits."""
        return self.memory <= self.capacity

    @property
    def tokens(self) -> float:
        """Tokens of one step."""
        return float(self.job.tokens)

    @property
    def mfu(self) -> float:
        """Model FLOPs utilization, a fraction, by chapter 01's definition."""
        return float(planner.utilization(self.job, self.seconds, self.gpus, self.cluster.peak))

    @property
    def attention_mfu(self) -> float:
        """The same with attention in full, as the PaLM paper and many others count."""
        return float(planner.utilization(self.job, self.seconds, self.gpus, self.cluster.peak, attention=True))


def plan(
    model: object,
    gpus: int,
    *,
    tp: int = 1,
    pp: int = 1,
    cp: int = 1,
    ep: int = 1,
    zero: int = 1,
    sequences: int = 512,
    seq: int = 8192,
    micro: int = 1,
    virtual: int = 1,
    recompute: str = "none",
    convention: str = CONVENTION,
    device: str = "H100 SXM",
    adapter: float | None = None,
) -> Plan:
    """The layout that these sizes make of `gpus` GPUs; dp takes the rest. ValueError, naming what fits, for one that
    cannot be.

    `micro` is the sequences of a micro-batch, `convention` that of the state (02), `adapter` the bytes/s of a network
    adapter if it is not the device's usual one. Layers need not divide into stages (`memory.stage_layers`).
    Gradients are sent in the width in which the convention adds them up.
    """
    copies = state_convention(convention)
    software = replace(planner.TAUGHT, grad_bytes=copies.main_grads or copies.grads)  # what ranks add up
    job = planner.Job(model=model, seq=seq, sequences=sequences, recompute=recompute, software=software)
    cluster = planner.printed_cluster(device, gpus)
    if adapter is not None:
        share = require("adapter", adapter, "bytes/s") / network(device).levels[-1].bandwidth
        cluster = replace(cluster, across=planner.Wire(cluster.across.latency, cluster.across.bandwidth * share))
    sizes = fill(gpus, pp=pp, cp=cp, tp=tp)
    count = _checked(job.shape, sizes, sequences, seq, micro, virtual)
    layout = Layout(
        tp=tp,
        sp=tp > 1,
        cp=cp,
        pp=pp,
        dp=sizes["dp"],
        ep=ep,
        zero=zero,
        schedule="interleaved" if virtual > 1 else "1f1b",
        virtual=virtual,
        microbatches=count,
    )
    uneven = next(bit for bit, why in enumerate(planner.REASONS) if "the layers" in why)
    if words := planner.in_words(int(planner.faults(job, cluster, layout)) & ~(1 << uneven if virtual == 1 else 0)):
        raise ValueError("; ".join(words))
    mesh, net = Mesh({axis: sizes[axis] for axis in reversed(AXES)}), network(device)
    wires = {axis: widest(mesh, ("dp", "cp") if axis == "dp" else axis, net) for axis in AXES}
    wires["ep"] = widest(Mesh({"others": gpus // (ep * tp), "ep": ep, "tp": tp}), "ep", net)
    return Plan(
        job=job,
        cluster=cluster,
        layout=layout,
        mesh=mesh,
        held=_held(job, layout, micro, convention),
        parts=_parts(planner.step_time(job, cluster, layout)),
        talking=_talking(job, cluster, layout),
        sent={axis: float(count) for axis, count in planner.traffic(job, layout).items()},
        wires=wires,
    )


def _parts(step: planner.Step) -> dict[str, float]:
    """The planner's causes, computing and other kernels put together."""
    parts = {name: float(seconds) for name, seconds in step.parts.items()}
    compute, kernels = (sum(parts.pop(name) for name in names) for names in (COMPUTE, KERNELS))
    return {"compute": compute, "kernels": kernels, **parts}


def _talking(job: planner.Job, cluster: planner.Cluster, layout: Layout) -> dict[str, float]:
    """Seconds of communication by axis with nothing hidden behind computing."""
    bare = replace(job, software=replace(job.software, overlap_dp=False, overlap_tp=False, overlap_pp=False))
    parts = planner.step_time(bare, cluster, layout).parts
    return {axis: float(parts[axis]) for axis in (*AXES, "ep")}


def _held(job: planner.Job, layout: Layout, micro: int, convention: str) -> dict[str, float]:
    """Bytes of the fullest rank by purpose: the first stage has most in flight, the last one the logits."""
    peak_of = partial(
        stage_peak,
        job.shape,
        micro,
        job.seq,
        layout,
        kernels="flash",
        dropout=False,
        checkpointing=job.recompute,
        convention=convention,
    )
    ends = [peak_of(stage=at) for at in sorted({0, layout.pp - 1})]
    peak = max(ends, key=lambda each: float(each.total))
    return {
        "weights": float(peak.weights),
        "gradients": float(peak.grads),
        "optimizer": float(peak.optimizer),
        "gathered": float(peak.gathered),
        "activations": float(peak.activations),
        "other": float(peak.recomputed + peak.loss),
        "buffers": float(slack_bytes(peak.total)),
    }


def _checked(one: Shape, sizes: dict[str, int], sequences: int, seq: int, micro: int, virtual: int) -> int:
    """Micro-batches of a replica; ValueError naming what fits if heads, layers, tokens or sequences cannot be
    divided."""
    tp, cp, pp, dp = (sizes[axis] for axis in AXES)
    for axis, part, what, count in (
        ("tp", tp, "attention heads", int(one.heads)),
        ("cp", 2 * cp if cp > 1 else 1, "tokens of a sequence", seq),
    ):
        if count % part:
            fit = [n for n in range(1, min(count, 64) + 1) if count % (n if axis == "tp" else 2 * n) == 0]
            raise ValueError(
                f"{axis}={sizes[axis]} does not divide {count:,} {what}; {axis} may be {', '.join(map(str, fit))}."
            )
    if pp * virtual > one.layers:
        raise ValueError(
            f"pp={pp} stages of {virtual} chunks need {pp * virtual} layers, and the model has {one.layers}; "
            f"pp may be at most {one.layers // virtual}."
        )
    if virtual > 1 and one.layers % (pp * virtual):
        fit = [n for n in range(1, int(one.layers) // pp + 1) if one.layers % (pp * n) == 0] or [1]
        raise ValueError(
            f"{one.layers} layers do not divide into {pp} stages of {virtual} chunks; the chunks of a stage may be "
            f"{', '.join(map(str, fit))}."
        )
    if sequences % (dp * micro):
        fit = [n for n in range(1, sequences // micro + 1) if sequences % (n * micro) == 0]
        near = min(fit, key=lambda n: abs(n - dp), default=1)
        raise ValueError(
            f"{sequences:,} sequences do not divide into {dp:,} replicas with micro-batches of {micro}; "
            f"the nearest number of replicas that does is {near:,}."
        )
    return sequences // (dp * micro)
