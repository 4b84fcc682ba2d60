"""What one training step does: the model, its tokens, its number formats, and the software's choices that change
time."""

from dataclasses import dataclass, field, replace
from typing import Any

from course_lib.estimate.memory.layout import CHECKPOINTING
from course_lib.estimate.memory.layout_checks import known_checkpointing
from course_lib.estimate.memory.model_config import find_model
from course_lib.estimate.memory.shapes import Shape
from course_lib.estimate.memory.shapes import shape as shape_of
from course_lib.estimate.units import Numeric, require, require_whole

DTYPES = ("bf16", "fp8", "fp4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """How a framework runs a step: current Megatron Core by default. Each field is a property that its documentation or
    code states, but for `launch`."""

    name: str = "megatron-core"
    memory: str = "megatron"  # whose peak memory it has, in `memory.frameworks`
    attention: str = "native"  # rewritten for Hopper and later; "flash"; "unfused": the scores pass through memory
    fused_casts: bool = True  # the nonlinearity, and its gradient, are written in 8 bits where products need that
    kernels: str = "fused"  # "eager": every elementwise operation reads and writes memory on its own
    dropout: bool = False
    overlap_dp: bool = True  # gradients are reduced, and weights gathered, while other layers compute
    overlap_tp: bool = True  # tensor-parallel messages travel in parts, between parts of the products
    overlap_pp: bool = True  # interleaved stages exchange activations while they compute
    regather: bool = (
        False  # count the gathers that sequence parallelism repeats backward; Megatron-LM hides them behind a product
    )
    sequence_first: bool = True  # else what tensor ranks gather or scatter along the sequence is copied on the way
    narrow_gathers: bool = False  # in 8 bits, what tensor ranks gather is cast before it is sent
    split_messages: bool = True  # a tensor-parallel rank sends its share of the activations to the next stage
    fused_adding: bool = True  # weight gradients are added up inside the product, not by a kernel of their own
    selective: tuple[str, ...] = ("core", "norm", "mlp")  # what it recomputes; "products": every second product
    schedules: tuple[str, ...] = ("1f1b", "interleaved")  # of pipelines, that a search tries
    stages_sharded: bool = False  # full sharding goes with pipelines
    replicates: bool = False  # HSDP: full sharding inside a server, replicas across
    offloads: str = "moments"  # of Adam, can be in the server's memory; "state": all that a rank has; "": nothing
    grad_bytes: float = 4.0  # of one gradient when it is added up and reduced
    blocking: bool = False  # CUDA_LAUNCH_BLOCKING=1: a kernel is launched when the one before has ended
    launch: float = 0.3e-3  # s in which the processor launches the kernels of one layer's forward pass
    graphs: bool = False  # the whole step is one CUDA graph, experts' rows padded: the processor launches nothing
    overlap_ep: bool = False  # one micro-batch's all-to-alls travel while another micro-batch computes


# what the chapters plan with: Megatron Core without its options of overlap, and memory as chapters 02 and 10 count
TAUGHT = Software(
    memory="course", overlap_tp=False, overlap_pp=False, selective=("core",), stages_sharded=True, offloads=""
)
_PLAIN = Software(
    attention="flash",
    overlap_tp=False,
    overlap_pp=False,
    split_messages=False,
    fused_adding=False,
    selective=("core",),
    offloads="",
)  # without Megatron's own kernels and options
SOFTWARE = {  # by the name that `course plan --software` takes; each has published step times in `course bench planner`
    "megatron-core": Software(),
    # its recipes of mixtures in MXFP8 since v0.5.0: `cuda_graph_impl="full_iteration"`, `moe_a2a_overlap=True`
    "megatron-bridge": Software(name="megatron-bridge", graphs=True, overlap_ep=True),
    "torchtitan": replace(
        _PLAIN,
        name="torchtitan",
        memory="torchtitan",
        sequence_first=False,
        narrow_gathers=True,
        selective=("products",),
        schedules=("1f1b", "interleaved", "zb_v"),
        stages_sharded=True,
        replicates=True,
        offloads="state",
        launch=0.4e-3,
    ),
    "nanotron": replace(_PLAIN, name="nanotron", memory="nanotron", kernels="eager", overlap_dp=False, launch=1.4e-3),
    "course": replace(
        _PLAIN, name="course", memory="course", kernels="eager", stages_sharded=True, replicates=True, launch=0.9e-3
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One optimizer step of a model. The micro-batch follows from the layout: sequences / (dp x microbatches)."""

    model: object  # a name or a config's path for `memory.find_model`, or anything for `memory.shape`
    seq: Numeric  # tokens of a sequence
    sequences: Numeric  # global batch
    dtype: str = "bf16"  # "fp8", "fp4": the products of the layers have 8-bit or 4-bit inputs
    recompute: str = "none"  # "selective": what the software's `selective` says; "full": whole layers
    offload: bool = False  # what the software's `offloads` says is in the server's memory
    causal: bool = True
    software: Any = field(default_factory=Software)  # or a name of `SOFTWARE`

    def __post_init__(self) -> None:
        found = find_model(self.model) if isinstance(self.model, str) else self.model
        object.__setattr__(self, "model", shape_of(found))
        require_whole("seq", self.seq, "tokens")
        require("sequences", self.sequences, "sequences")
        known_checkpointing(self.recompute)
        if isinstance(self.software, str):
            if self.software not in SOFTWARE:
                raise ValueError(f"No software {self.software!r}; choose from {', '.join(SOFTWARE)}.")
            object.__setattr__(self, "software", SOFTWARE[self.software])
        if self.offload and not self.software.offloads:
            raise ValueError(f"{self.software.name} keeps no state in the server's memory; leave offload out.")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype is {self.dtype!r}; choose from {', '.join(DTYPES)}.")

    @property
    def shape(self) -> Shape:
        """The model's shape."""
        return shape_of(self.model)

    @property
    def tokens(self) -> Numeric:
        """Tokens of one step."""
        return self.sequences * self.seq


__all__ = ["CHECKPOINTING", "DTYPES", "SOFTWARE", "TAUGHT", "Job", "Software"]
