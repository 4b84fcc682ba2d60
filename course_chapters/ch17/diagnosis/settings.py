"""The job that is observed: four ranks that train a small model, with what a fault may change. Times are seconds, sizes
bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from course_lib.estimate.units import GB

RANKS, STEPS, UPDATES = 4, 4, 60  # ranks; steps of the trace; steps of the loss curve
RESUMED = 30  # the step at which the loss curve's run was resumed from a checkpoint
KINDS: Mapping[str, str] = {
    "data": "FSDP on 4 GPUs of one server",
    "tensor": "tensor parallel on 4 GPUs of one server",
    "pipeline": "pipeline of 4 stages, 1F1B, 16 micro-batches",
    "context": "context parallel on 4 GPUs, causal attention",
    "expert": "expert parallel on 4 GPUs, 2 experts each",
}
EVEN = (1.0,) * RANKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One job. The defaults are a healthy one."""

    kind: str = "data"
    # time
    layers: int = 6
    data: float = 0.006  # until the next batch is there
    forward: float = 0.010  # of a layer
    backward: float = 0.020
    message: float = 0.012  # of a layer's collective
    latency: float = 0.0005  # of one collective, whatever its size
    buckets: int = 1  # collectives for the gradients of one layer
    overlap: bool = True  # gradients travel during the backward pass
    microbatches: int = 1  # of a data-parallel step; 16 of a pipeline
    synchronize_all: bool = False  # after every micro-batch, not only the last
    update: float = 0.008  # the optimizer's step
    wait_for_host: float = 0.0  # before each layer, because the program reads a value from the device
    speed: tuple[float, ...] = EVEN  # factor of each rank's computing time
    loading: tuple[float, ...] = EVEN  # factor of each rank's wait for data
    fading: tuple[float, ...] = (0.0,) * RANKS  # by which a rank's computing gets slower with every step
    pauses: Mapping[tuple[int, int], float] = field(
        default_factory=dict
    )  # (rank, step) -> seconds in which the program stands still
    saving: Mapping[int, float] = field(default_factory=dict)  # step -> seconds in which all ranks save
    flapping: Mapping[int, float] = field(default_factory=dict)  # step -> factor of every message's time
    missing: tuple[int, int] | None = None  # (rank, step) that never enters the last collective
    swapped: tuple[int, int] | None = None  # (rank, step) that calls two collectives in the other order
    schedule: str = "1f1b"
    crowding: Mapping[int, int] = field(default_factory=dict)  # step -> the rank to which most tokens are routed
    # memory
    state: float = 4 * GB  # of a rank, sharded
    sharded: bool = True
    activations: float = 1.5 * GB  # of a layer
    unit: float = 1.0 * GB  # a layer's weights while they are gathered
    reshard: bool = True  # gathered weights are freed after use
    gradients: float = 3 * GB  # of a rank, all layers together
    free_gradients: bool = True  # after the update
    logits: float = 1.0 * GB
    leak: float = 0.0  # kept for good in each step
    long_sample: tuple[int, int, float] | None = None  # (rank, step, factor of its activations)
    late_moments: bool = False  # optimizer state is allocated in the first update
    reserved: float = 1.06  # the allocator's memory over what is in use
    room: float = 24 * GB
    network: str = "NET/IB : Using [0]mlx5_0:1/IB"
    # learning
    gradient_scale: float = 1.0  # of the summed gradient, 1/RANKS being part of it
    same_samples: bool = False
    forgotten: str = ""  # what a resumed run does not restore: "position" or "optimizer"
    overflows: bool = False
    short_weights: bool = False  # weights are kept in 16 bits without a master copy
    bad_step: int | None = None  # with a wrong batch
    flipped: tuple[int, int] | None = None  # (rank, step) of a wrong bit
    leaked_labels: bool = False
    clipped_alone: bool = False  # each rank clips by the norm of its own part
    drifting: bool = False  # replicated weights get each rank's own gradient
    expert_scale: float = 1.0  # of the experts' gradients
