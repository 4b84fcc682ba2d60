"""The table of parallelisms, from computed bytes: the same tokens on the same number of GPUs, split in one way at a
time."""

from dataclasses import dataclass

from course_lib.estimate.memory.layout import Degrees, Layout
from course_lib.estimate.memory.recipes import convention
from course_lib.estimate.memory.stage_peaks import stage_peak
from course_lib.parallel import planner
from course_lib.parallel.planner.traffic import WIDTH

DENSE, MIXTURE, STATE = "llama3-70b", "mixtral-8x7b", "C"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
    """One way to divide a training step, with what a GPU sends and holds."""

    name: str
    divides: str
    collective: str
    model: str
    sent: float  # bytes of a GPU in a step, all of them 16-bit
    state: float  # bytes of weights, gradients and optimizer on the fullest GPU
    activations: float  # bytes on the fullest GPU
    inside: float  # seconds that the bytes take at the rate of the wire inside a server
    across: float  # seconds at the rate of one network adapter
    computing: float  # seconds of the step's products and attention
    hidden: str  # what can hide the messages
    when: str


_WORDS = {  # name -> divides, collective, what hides it, when to use it
    "DP": (
        "the batch",
        "one all-reduce of the gradients",
        "the backward pass",
        "the model fits on one GPU and the batch is large",
    ),
    "ZeRO-1": (
        "the batch and the optimizer state",
        "a reduce-scatter and an all-gather",
        "the backward pass",
        "always, in place of plain DP: the same bytes and less memory",
    ),
    "FSDP": (
        "the batch and all state",
        "two all-gathers and a reduce-scatter, in every micro-batch",
        "neighboring layers",
        "state does not fit, and each GPU has enough tokens to hide the gathers",
    ),
    "TP": (
        "every matrix, and the tokens between them",
        "all-gathers and reduce-scatters in every layer",
        "nothing: the next product waits",
        "inside a server, when a layer or its activations do not fit, or a step must get shorter",
    ),
    "PP": (
        "the layers",
        "one activation to the next stage, for every micro-batch",
        "other micro-batches",
        "between servers, with many micro-batches",
    ),
    "CP": (
        "the tokens of a sequence",
        "keys and values around a ring, in every layer, and the gradients' all-reduce",
        "attention",
        "sequences are so long that activations do not fit",
    ),
    "EP": (
        "the experts",
        "two all-to-alls each way, in every layer, and the all-reduce of what is not an expert",
        "partly other micro-batches",
        "the model has experts, within a server if possible",
    ),
}


def assumes(gpus: int = 8, seq: int = 8192, device: str = "H100 SXM") -> str:
    """The conditions of the table in words."""
    each = convention(STATE).bytes_per_param
    return (
        f"{DENSE}, and {MIXTURE} for EP, on {gpus} × {device}, a sequence of {seq:,} tokens for each; weights and "
        f"gradients sent in {8 * WIDTH:g} bits; state of {each:g} bytes per parameter, gradients summed in fp32"
    )


def parallelisms(gpus: int = 8, seq: int = 8192, device: str = "H100 SXM") -> list[Parallelism]:
    """A row for each way to divide the same step: one sequence for each of `gpus` GPUs.

    Data-parallel ways give each GPU a sequence of its own; the others pass that many micro-batches of one sequence
    through all GPUs. Gradients are sent in 16 bits and state is that of convention C.
    """
    ways: dict[str, Degrees] = {
        "DP": {"dp": gpus, "zero": 0},
        "ZeRO-1": {"dp": gpus, "zero": 1},
        "FSDP": {"dp": gpus, "zero": 3},
        "TP": {"tp": gpus, "sp": True, "microbatches": gpus},
        "PP": {"pp": gpus, "microbatches": gpus},
        "CP": {"cp": gpus, "microbatches": gpus},
        "EP": {"dp": gpus, "ep": gpus, "zero": 0},
    }
    return [_row(name, Layout(**degrees), seq, device) for name, degrees in ways.items()]


def _row(name: str, layout: Layout, seq: int, device: str) -> Parallelism:
    model = MIXTURE if name == "EP" else DENSE
    gpus = int(layout.ranks)
    cluster = planner.printed_cluster(device, gpus)
    job = planner.Job(model=model, seq=seq, sequences=gpus, software=planner.TAUGHT)
    peak = stage_peak(job.shape, 1, seq, layout, stage=0, convention=STATE, kernels="flash", dropout=False)
    sent = float(sum(planner.traffic(job, layout, gradient=WIDTH).values()))
    step = planner.step_time(job, cluster, layout)
    divides, collective, hidden, when = _WORDS[name]
    return Parallelism(
        name=name,
        divides=divides,
        collective=collective,
        model=model,
        sent=sent,
        state=float(peak.weights + peak.grads + peak.optimizer),
        activations=float(peak.activations),
        inside=sent / cluster.inside.bandwidth,
        across=sent / cluster.across.bandwidth,
        computing=float(step.matmul + step.attention),
        hidden=hidden,
        when=when,
    )
