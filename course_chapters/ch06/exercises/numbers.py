"""Texts of the numbers in chapter 06's prose, each computed from facts and from the costs of collectives."""

import math
from collections.abc import Callable, Mapping

from course_chapters.running_example import GPUS, MFU, PARAMS, RING, SEQ, lab, opening
from course_lib.cluster import collectives
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.facts import collectives as measured
from course_lib.estimate.running_plan import LAYOUT
from course_lib.estimate.units import BILLION, GB, MINUTE, US, bytes_text, duration_text, number_text, percent_text
from course_lib.parallel.context.costs import ring_traffic
from course_lib.parallel.tensor.traffic import tp_bytes_per_layer

H100 = facts.device("H100 SXM")
LATENCY, BANDWIDTH = 10 * US, 10 * GB  # of the teaching link; the cluster's own
# Of an H100, each (latency s, bandwidth bytes/s): round latencies, real rates.
INSIDE, ACROSS = (2 * US, float(H100.link_one_way)), (10 * US, float(H100.network_one_way))
ROUND = 100 * GB  # bytes/s of the claim that the chapter audits
PER_NODE = 8  # GPUs of a server, and adapters
GRADIENTS = memory.weights_bytes(PARAMS, "bf16")  # one copy of all gradients, 2 bytes each
BUCKET = 25 * 2**20  # bytes: the default of PyTorch's DistributedDataParallel
LAB_GPUS, LAB_SECONDS = 8, 10 * MINUTE  # what it takes to measure this chapter on one server
TP, EXPERTS_PER_TOKEN = LAYOUT["tp"], 2  # of the ledger: one sequence a GPU and step, as 16-bit numbers


def break_even_tokens(bandwidth: float, ranks: int = GPUS, mfu: float = MFU) -> float:
    """Tokens a GPU and step at which a backward pass lasts as long as the ring; the parameters cancel. No latency."""
    per_param = collectives.ring_cost(memory.weights_bytes(1, "bf16"), ranks, 0.0, bandwidth).seconds
    return per_param * H100.dense_flops * mfu / compute.BACKWARD


def least_tokens(bandwidth: float, ranks: int = GPUS) -> int:
    """The first whole number of tokens that hides it."""
    return math.ceil(break_even_tokens(bandwidth, ranks))


def measured_rate() -> float:
    """Measured bus bandwidth, bytes/s, on as many H100s as the plan has."""
    return RING


def measured_seconds() -> float:
    """Seconds for all gradients at the measured bus bandwidth of the plan's cluster."""
    return collectives.BUS_FACTORS["all_reduce"](GPUS) * GRADIENTS / measured_rate()


def node_seconds() -> float:
    """Seconds of a hierarchical all-reduce of all gradients on the plan's cluster."""
    return collectives.hierarchical_cost(GRADIENTS, GPUS // PER_NODE, PER_NODE, INSIDE, ACROSS).seconds


def _ring(latency: float, bandwidth: float) -> str:
    return duration_text(collectives.ring_cost(GRADIENTS, GPUS, latency, bandwidth).seconds)


def _latency(ranks: int) -> str:
    return duration_text(collectives.ring_cost(0, ranks, LATENCY, BANDWIDTH).seconds)


def _activations() -> float:
    """Bytes of one sequence's activations between two layers of the 70B shape."""
    return 2 * SEQ * facts.model("llama3-70b").hidden


def _tensor_parallel() -> float:
    """Bytes a rank sends in four all-reduces a layer, two forward and two backward."""
    shape = facts.model("llama3-70b")
    return shape.layers * tp_bytes_per_layer(SEQ, shape.hidden, TP)


def _context_parallel() -> float:
    """Bytes a rank sends when keys and values of a sequence go round eight ranks, forward, and twice that backward."""
    shape = facts.model("llama3-70b")
    return float(shape.layers * ring_traffic(SEQ, shape.kv_heads, shape.head_dim, TP).nbytes)


def _expert_parallel() -> float:
    """Bytes a rank sends to and from experts in one layer's four exchanges: there and back, forward and backward."""
    return 4 * collectives.all_to_all_cost(EXPERTS_PER_TOKEN * _activations(), TP, 0.0, 1.0).nbytes


def _half(nbytes: float = GRADIENTS) -> float:
    return collectives.ring_half_cost(nbytes, GPUS, 0.0, 1.0).nbytes


NVLS = measured.series("8 × H200, switch sums")[-1].bus_bandwidth
H200_RING = measured.one("8 × H200, ring").bus_bandwidth

NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("06"),
    "gpus": lambda: f"{GPUS} H100s",
    "model": lambda: f"{PARAMS / BILLION:g}B",
    "gradients": lambda: bytes_text(GRADIENTS),
    "card": lambda: H100.memory.text,
    # the teaching link
    "alpha": lambda: duration_text(LATENCY),
    "beta": lambda: f"{bytes_text(BANDWIDTH)}/s",
    "half": lambda: bytes_text(LATENCY * BANDWIDTH),
    # the ring, its price and its claims
    "ring_bytes": lambda: bytes_text(collectives.ring_cost(GRADIENTS, GPUS, 0.0, 1.0).nbytes),
    "ring_limit": lambda: bytes_text(2 * GRADIENTS),
    "round": lambda: f"{bytes_text(ROUND)}/s",
    "ring_round": lambda: _ring(0.0, ROUND),
    "ring_nvlink": lambda: _ring(*INSIDE),
    "ring_adapter": lambda: _ring(*ACROSS),
    "nvlink": lambda: f"{bytes_text(H100.link_one_way)}/s",
    "adapter": lambda: f"{bytes_text(H100.network_one_way)}/s",
    "latency_1024": lambda: _latency(1024),
    "latency_24576": lambda: _latency(24_576),
    "crossover_64": lambda: bytes_text(collectives.ring_tree_crossover(GPUS, LATENCY, BANDWIDTH)),
    "crossover_1024": lambda: bytes_text(collectives.ring_tree_crossover(1024, LATENCY, BANDWIDTH)),
    "bucket": lambda: f"{BUCKET / 2**20:.0f} MiB",
    "bite": lambda: f"{BUCKET / (LATENCY * BANDWIDTH):.0f}",
    # measured, published
    "nvls": lambda: f"{number_text(NVLS / GB)} GB/s",
    "h200_ring": lambda: f"{number_text(H200_RING / GB)} GB/s",
    "nvls_sent": lambda: f"{number_text(NVLS / collectives.BUS_FACTORS['all_reduce'](8) * 9 / 8 / GB)} GB/s",
    "ring_share": lambda: percent_text(H200_RING / facts.device("H200 SXM").link_one_way, 2),
    "measured_64": lambda: f"{number_text(measured_rate() / GB)} GB/s",
    "evidence_size": lambda: f"{measured.one('H100 nodes', nodes=1).nbytes / 2**20:.0f} MiB",
    "measured_seconds": lambda: duration_text(measured_seconds()),
    # a lab on rented GPUs
    **lab(LAB_GPUS, LAB_SECONDS),
    # what a backward pass hides
    "mfu": lambda: percent_text(MFU),
    "even_adapter": lambda: f"{least_tokens(H100.network_one_way):,} tokens",
    "even_nvlink": lambda: f"{least_tokens(H100.link_one_way):,} tokens",
    "even_measured": lambda: f"{least_tokens(measured_rate()):,} tokens",
    # the ledger
    "ledger_seq": lambda: f"{SEQ:,} tokens",
    "ledger_dp": lambda: bytes_text(2 * _half()),
    "ledger_fsdp": lambda: bytes_text(3 * _half()),
    "ledger_tp": lambda: bytes_text(_tensor_parallel()),
    "ledger_pp": lambda: bytes_text(_activations()),
    "ledger_cp": lambda: bytes_text(_context_parallel()),
    "ledger_ep": lambda: bytes_text(_expert_parallel()),
}
