"""What evidence holds, field by field: of the machine, of a training run's setup, steps and results, and of a sweep."""

from typing import TypedDict


class Software(TypedDict):
    """Of every machine."""

    torch: str
    cpu: str
    cores: int
    device: str  # "CPU", or the GPU's name
    gpus: int


class Environment(Software, total=False):
    """A machine; what is not in `Software` only a machine with a GPU has."""

    cuda: str
    driver: str
    capability: str
    device_memory: float  # bytes
    multiprocessors: int


class Layout(TypedDict):
    """How a run was laid out over its ranks."""

    name: str
    ranks: int


class TrainSetup(TypedDict):
    """What was trained."""

    size: str
    layout: Layout
    batch: int
    seq_len: int
    dtype: str
    checkpointing: str


class Rates(TypedDict):
    """What a rank could do just before the run: FLOP/s, bytes/s."""

    flops: float
    memory: float
    wires: dict[str, tuple[float, float]]


class StepRow(TypedDict):
    """One step."""

    step: int
    seconds: float
    loss: float
    gradient_norm: float
    learning_rate: float
    parts: dict[str, float]  # seconds by part


class Term(TypedDict, total=False):
    """One reason why a run was not what was predicted: a part of the difference, in seconds or in bytes."""

    of: str  # "seconds", "memory" or "wire"
    term: str
    seconds: float
    bytes: float
    how: str


class Traced(TypedDict, total=False):
    """What follows from a trace, where one was asked for."""

    exposed_seconds: float


class Measured(Traced, total=False):
    """What follows from the steps of a training run."""

    step_seconds: float
    step_seconds_p10: float
    step_seconds_p90: float
    tokens_per_s: float
    mfu: float
    peak_flops: float
    peak_source: str
    model_flops_per_step: float
    memory_bytes: float
    memory_by: dict[str, float]
    wire: dict[str, int]
    wire_bytes: float
    wire_calls: dict[str, int]
    first_loss: float
    last_loss: float
    gap: list[Term]


class Raw(TypedDict, total=False):
    """The numbers as they were read."""

    steps: list[StepRow]
    rows: object  # of other kinds than "train": what they are depends on the kind


class SweepRow(TypedDict, total=False):
    """A message of one size, sent often: seconds."""

    kind: str
    nbytes: int
    median: float
    q1: float
    q3: float
    seconds: list[float]
    repeats: int
    bus: float  # bytes/s
    algorithm: float  # bytes/s


class Sweep(TypedDict, total=False):
    """What follows from the rows of a sweep, by kind of call."""

    best_bus: dict[str, float]
    fits: dict[str, dict[str, float] | None]
