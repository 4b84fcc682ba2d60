"""Texts of the numbers in chapter 08's prose, each computed from facts, conventions and the formulas of sharding."""

from collections.abc import Callable, Mapping

from course_lib import facts, memory
from course_lib.exercises.ch08.numbers_prose import PROSE
from course_lib.exercises.running_example import BATCH, GPUS, MFU, PARAMS, core_minutes, reading_minutes
from course_lib.sharding import bytes_per_param_sent, hybrid_bytes
from course_lib.units import BILLION, bytes_text, duration_text, number_text

H100 = facts.device("H100 SXM")
LARGE = facts.model("llama3-405b")
LARGE_PARAMS = 405 * BILLION  # its name; every published sum about it starts there
TABLE_PARAMS, TABLE_RANKS = 7.5 * BILLION, 64  # of the ZeRO paper's Table 1
ALL = 24_576  # H100s of the cluster that Llama 3 405B was trained in
MANY = 1024
NODE = 8
ACTIVATIONS = 20e9  # bytes on each GPU: a choice, one long sequence with its layers recomputed
REAL = H100.dense_flops * MFU  # FLOP/s that a GPU of the course's job reaches


def smallest_group(params: float, per_param: float, memory_bytes: float) -> int:
    """The smallest power of two of GPUs on which each GPU's part of the state fits."""
    group = 1
    while per_param * params / group > memory_bytes:
        group *= 2
    return group


def sent(params: float, ranks: int, stage: int) -> float:
    """Bytes a rank sends in a step, with weights and gradients in 16 bits."""
    return bytes_per_param_sent(stage) * params * (ranks - 1) / ranks


def inside(params: float, group: int) -> float:
    """Bytes a rank sends in a step inside its group, under HSDP."""
    return sent(params, group, 3)


def across(params: float, ranks: int, group: int) -> float:
    """Bytes a rank sends in a step across groups, under HSDP."""
    return hybrid_bytes(round(params), group, ranks // group)


def layer_bytes() -> float:
    """Bytes of one gathered layer of the large model, in 16 bits."""
    return memory.weights_bytes(LARGE_PARAMS / LARGE.layers)


def largest_alone(
    ranks: int = GPUS, gathered: bool = True, activations: float = ACTIVATIONS, layers: float = 80
) -> float:
    """Parameters of the largest model that stage 3 alone fits on `ranks` H100s, with two of its layers gathered."""
    return (H100.memory - activations) / (memory.bytes_per_param("B") / ranks + (4 / layers if gathered else 0))


def _zero(params: float, stage: int, ranks: int, letter: str = "B") -> str:
    return bytes_text(memory.zero_bytes(params, stage, ranks, letter))


NUMBERS: Mapping[str, Callable[[], str]] = {
    "reading_minutes": lambda: reading_minutes("08"),
    "core_minutes": lambda: core_minutes("08"),
    "job": lambda: f"{PARAMS / BILLION:g}B on {GPUS} H100s",
    "gpus": lambda: f"{GPUS} H100s",
    "model": lambda: f"{PARAMS / BILLION:g}B",
    "card": lambda: H100.memory.text,
    "state": lambda: bytes_text(memory.state_bytes(PARAMS)),
    "share": lambda: _zero(PARAMS, 3, GPUS),
    # 405B, whole and in parts, by two conventions
    "state_405_12": lambda: bytes_text(memory.state_bytes(LARGE_PARAMS, "A")),
    "state_405": lambda: bytes_text(memory.state_bytes(LARGE_PARAMS)),
    "many": lambda: f"{MANY:,} GPUs",
    "z3_405_12": lambda: _zero(LARGE_PARAMS, 3, MANY, "A"),
    "z3_405": lambda: _zero(LARGE_PARAMS, 3, MANY),
    "z1_405": lambda: _zero(LARGE_PARAMS, 1, MANY),
    "z1_405_shard": lambda: bytes_text(
        memory.zero_bytes(LARGE_PARAMS, 1, MANY) - 2 * memory.weights_bytes(LARGE_PARAMS)
    ),
    "z1_405_shard_12": lambda: bytes_text(
        memory.zero_bytes(LARGE_PARAMS, 1, MANY, "A") - 2 * memory.weights_bytes(LARGE_PARAMS)
    ),
    "layer_405": lambda: bytes_text(layer_bytes()),
    # Table 1 of the paper
    **{f"table_{stage}": (lambda stage=stage: _zero(TABLE_PARAMS, stage, TABLE_RANKS)) for stage in range(4)},
    # what is sent
    "sent_dp": lambda: bytes_text(sent(PARAMS, GPUS, 0)),
    "sent_fsdp": lambda: bytes_text(sent(PARAMS, GPUS, 3)),
    "sent_ratio": lambda: number_text(bytes_per_param_sent(3) / bytes_per_param_sent(0), 2),
    "crossover": lambda: f"{bytes_per_param_sent(3) / 6 * REAL / H100.network_one_way:,.0f} tokens",
    # groups
    "hsdp_8": lambda: bytes_text(memory.zero_bytes(LARGE_PARAMS, 3, NODE)),
    "hsdp_8_12": lambda: bytes_text(memory.zero_bytes(LARGE_PARAMS, 3, NODE, "A")),
    "hsdp_least": lambda: str(smallest_group(LARGE_PARAMS, memory.bytes_per_param("B"), H100.memory)),
    "hsdp_least_12": lambda: str(smallest_group(LARGE_PARAMS, memory.bytes_per_param("A"), H100.memory)),
    "hsdp_inside": lambda: bytes_text(inside(LARGE_PARAMS, NODE)),
    "hsdp_across": lambda: bytes_text(across(LARGE_PARAMS, ALL, NODE)),
    "hsdp_times": lambda: number_text(inside(LARGE_PARAMS, NODE) / across(LARGE_PARAMS, ALL, NODE), 3),
    # one model over all GPUs
    "all": lambda: f"{ALL:,} GPUs",
    "all_bytes": lambda: bytes_text(sent(LARGE_PARAMS, ALL, 3)),
    "all_seconds": lambda: duration_text(sent(LARGE_PARAMS, ALL, 3) / H100.network_one_way),
    "all_compute": lambda: duration_text(6 * LARGE_PARAMS * BATCH / ALL / REAL),
    # without any other cut
    "alone_state": lambda: f"{largest_alone(gathered=False, activations=0.0) / BILLION:.0f} billion parameters",
    "alone_floor": lambda: f"{largest_alone() / BILLION:.0f} billion parameters",
    **PROSE,
}
