"""Texts of the numbers in chapter 08's prose, each computed from facts, conventions and the models of `sharding`."""

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from math import ceil, log2

from course_chapters.running_example import BATCH, GPUS, MFU, PARAMS, RING, SEQ, lab, opening
from course_lib.cluster.collectives import ring_half_cost
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.facts import collectives as measured
from course_lib.estimate.facts import scaling
from course_lib.estimate.facts.fact import rows
from course_lib.estimate.running_plan import CONVENTION, GRADIENT_BYTES
from course_lib.estimate.units import BILLION, GB, MINUTE, GiB, bytes_text, duration_text, number_text, percent_text
from course_lib.parallel.sharding import bytes_per_param_sent
from course_lib.parallel.sharding.prefetch import Played, play, work_of

H100 = facts.device("H100 SXM")
LARGE = facts.model("llama3-405b")
LARGE_PARAMS = 405 * BILLION  # its name; every published sum about it starts there
TABLE_PARAMS, TABLE_RANKS = 7.5 * BILLION, 64  # of the ZeRO paper's Table 1
MANY = 1024
NODE = 8
REAL = H100.dense_flops * MFU  # FLOP/s that a GPU of the course's job reaches
RUN_16K = facts.run("Llama 3 405B, 16,384 GPUs, 8,192 tokens")
LAYERS = facts.model("llama3-70b").layers
LAB_GPUS, LAB_SECONDS = 8, 15 * MINUTE  # what it takes to measure this chapter on one server
EVIDENCE = "6.66B, FSDP"
PCIE = float(facts.link("PCIe5 x16").one_way)
NVME = 6 * GB  # bytes/s of one drive per GPU: an assumption, about the read rate of a PCIe 4 drive
OFFLOAD: Mapping[str, tuple[float, float]] = {  # bytes moved per parameter of the part, bytes/s
    "host memory: gradients out, then weights in": (4, PCIE),
    "NVMe: optimizer state read and written as well": (2 * memory.convention("B").checkpoint, NVME),
}
PLAN_EACH = bytes_per_param_sent(3, reduce=GRADIENT_BYTES)  # two gathers in 16 bits, gradients in 32
PLAN_SENT = bytes_per_param_sent(3, reduce=GRADIENT_BYTES, ranks=GPUS) * PARAMS
SLOWEST = measured.series("H100 nodes")[-1]  # the most GPUs on which a ring was measured
_ZERO = {"Pos": 1, "Pos+g": 2, "Pos+g+p": 3}


def sent(params: float, ranks: int, stage: int) -> float:
    """Bytes a rank sends in a step, with weights and gradients in 16 bits."""
    return bytes_per_param_sent(stage, ranks=ranks) * params


def _zero(params: float, stage: int, ranks: int, letter: str = "B") -> str:
    return bytes_text(memory.zero_bytes(params, stage, ranks, letter))


def zero_table() -> dict[str, tuple[int, int, float]]:
    """The first figure of the ZeRO paper: stage, ranks and gigabytes as printed. One rank is a replica."""
    found = {}
    for row in rows("published_memory/zero_model_state_memory.csv"):
        ranks = int(row["dp_degree"])
        stage = _ZERO[row["stage"]] if ranks > 1 else 0
        name = f"stage {stage} on {ranks}" if stage else "replica"
        found[name] = stage, ranks, float(row["gb_per_device_published"])
    return found


def offload_tokens(moved: float, bandwidth: float) -> float:
    """Tokens per GPU and step above which compute takes longer than the transfer; the number of parameters cancels."""
    return moved / GPUS / bandwidth * REAL / compute.TRAIN


def _least_tokens(bandwidth: float) -> int:
    """The first whole number of tokens of a GPU and micro-batch whose computing takes as long as the plan's
    messages."""
    return math.ceil(PLAN_EACH / compute.TRAIN * REAL / bandwidth)


@cache
def plan_step(tokens: int = SEQ) -> Played:
    """One micro-batch of the plan: a unit per layer, the next one gathered while one computes, one ring at the measured
    rate."""
    layer = work_of(PARAMS / LAYERS, tokens, GPUS, REAL, RING, reduce=GRADIENT_BYTES)
    return play([layer] * LAYERS)


def memory_differences() -> dict[str, tuple[int, int, float, float]]:
    """Published pairs of peaks that differ only in the number of GPUs: few, many, difference by formula and as printed,
    in GiB."""
    readings: dict[tuple[str, ...], dict[int, float]] = {}
    for row in rows("published_memory/torchtitan_perf.csv"):
        if (row["tp"], row["pp"], row["cp"], row["seq_len"]) == ("1", "1", "1", "8192"):
            key = row["hardware"].split()[0], row["torch_compile"], row["float8"], row["local_batch_size"]
            readings.setdefault(key, {})[int(row["n_gpus"])] = float(row["peak_memory_gib"])
    params, found = facts.model("llama3-8b").params, {}
    for (device, compiled, narrow, _), peaks in readings.items():
        if len(peaks) == 2:
            few, many = sorted(peaks)
            state = [memory.zero_bytes(params, 3, count, "D") / GiB for count in (few, many)]
            words = f"{device}{', compiled' * (compiled == '1')}{', float8 matmuls' * (narrow == '1')}"
            found[words] = few, many, state[0] - state[1], peaks[few] - peaks[many]
    return found


def bounds(point: scaling.Scaled) -> tuple[float, float]:
    """Seconds of a step with all communication hidden that can be, and with none hidden, at the bus bandwidth measured
    on as many H100s."""
    alone = scaling.series(EVIDENCE)[0]
    computing = point.tokens / alone.tokens_per_s
    bus = measured.one("H100 nodes", nodes=point.nodes).bus_bandwidth
    gather = ring_half_cost(memory.weights_bytes(point.params), point.ranks, 0.0, bus).seconds
    hidden = computing + max(0.0, gather - computing / 3) + max(0.0, 2 * gather - 2 * computing / 3)
    return hidden, computing + 3 * gather


def _pair(which: Callable[..., tuple[int, int, float, float]]) -> tuple[int, int, float, float]:
    """The published pair with the largest (`max`) or smallest (`min`) difference by formula."""
    return which(memory_differences().values(), key=lambda each: each[2])


NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("08"),
    "gpus": lambda: f"{GPUS} H100s",
    "card": lambda: H100.memory.text,
    "share": lambda: _zero(PARAMS, 3, GPUS, CONVENTION),
    # 405B, whole and in parts, by two conventions
    "state_405_12": lambda: bytes_text(memory.state_bytes(LARGE_PARAMS, "A")),
    "state_405": lambda: bytes_text(memory.state_bytes(LARGE_PARAMS)),
    "many": lambda: f"{MANY:,} GPUs",
    "layer_405": lambda: bytes_text(memory.weights_bytes(LARGE_PARAMS / LARGE.layers)),
    # Table 1 of the paper
    **{f"table_{stage}": partial(_zero, TABLE_PARAMS, stage, TABLE_RANKS) for stage in range(4)},
    # what is sent
    "sent_dp": lambda: bytes_text(sent(PARAMS, GPUS, 0)),
    "sent_fsdp": lambda: bytes_text(sent(PARAMS, GPUS, 3)),
    "sent_ratio": lambda: number_text(bytes_per_param_sent(3) / bytes_per_param_sent(0), 2),
    "crossover": lambda: f"{bytes_per_param_sent(3) / compute.TRAIN * REAL / H100.network_one_way:,.0f} tokens",
    # groups
    "hsdp_8": lambda: bytes_text(memory.zero_bytes(LARGE_PARAMS, 3, NODE)),
    "hsdp_least": lambda: str(2 ** ceil(log2(memory.state_bytes(LARGE_PARAMS) / H100.memory))),
    # what only the prose and its tables use
    "large": lambda: f"{LARGE_PARAMS / BILLION:g} billion",
    "seq": lambda: f"{SEQ:,} tokens",
    "per_param": lambda: f"{memory.bytes_per_param('B'):g} bytes per parameter",
    "mfu": lambda: percent_text(MFU),
    "batch": lambda: f"{BATCH / 2**20:g} Mi tokens",
    "many_tokens": lambda: f"{BATCH / MANY:,.0f} tokens",
    "pcie": lambda: f"PCIe at {bytes_text(PCIE)}/s",
    "nvme": lambda: f"{bytes_text(NVME)}/s",
    "nvme_moved": lambda: str(OFFLOAD["NVMe: optimizer state read and written as well"][0]),
    "llama_weights": lambda: bytes_text(memory.weights_bytes(LARGE_PARAMS) / (RUN_16K.tp * RUN_16K.pp)),
    # evidence, and a lab of one's own
    "seen_tokens": lambda: f"{scaling.series(EVIDENCE)[0].tokens:,.0f} tokens",
    "seen_last": lambda: f"{scaling.series(EVIDENCE)[-1].ranks:,} GPUs",
    "few_many": lambda: "{} to {} GPUs".format(*_pair(max)[:2]),
    "small_pair": lambda: "{} to {}".format(*_pair(min)[:2]),
    "small_difference": lambda: f"{number_text(_pair(min)[2], 2)} GiB",
    **lab(LAB_GPUS, LAB_SECONDS),
    # the plan
    "plan_m": lambda: str(BATCH // (GPUS * SEQ)),
    "plan_rate": lambda: f"{bytes_text(RING)}/s",
    "plan_least": lambda: f"{_least_tokens(RING):,} tokens",
    "many_rate": lambda: f"{bytes_text(SLOWEST.bus_bandwidth)}/s",
    "many_measured": lambda: f"{SLOWEST.ranks} GPUs",
    "many_least": lambda: f"{_least_tokens(float(SLOWEST.bus_bandwidth)):,}",
    "plan_exposed": lambda: duration_text(plan_step().exposed),
    "plan_seconds": lambda: duration_text(plan_step().seconds),
}
