"""Texts of the numbers in chapter 03's prose, each computed from facts or by the roofline library."""

import math
from collections.abc import Callable

from course_chapters.running_example import GPUS, opening, reading, usd_text
from course_lib.estimate import compute, facts, roofline
from course_lib.estimate.facts import collectives
from course_lib.estimate.units import BILLION, GB, bytes_text, flops_text, number_text, percent_text, rate_text

H100, B200, K40 = facts.device("H100 SXM"), facts.device("B200 SXM"), facts.device("K40")
V5P = facts.device("TPU v5p")
SHAPE = facts.model("llama3-70b")
SMALL = 13 * BILLION  # parameters of the model that opens the chapter
BENCH_SECONDS = 5.0  # what the chapter gives its measurement
GPU_MINUTES = 10  # a rented GPU: start it, measure, read, and a repeat
SIDES = (16, 20, 28)  # of a TPU v5p pod


def _gigabytes_per_s(nbytes_per_s: float) -> str:
    return f"{number_text(nbytes_per_s / GB)} GB/s"


def _least_tokens(wire: str) -> int:
    """Tokens per GPU at which the gradient sum of a data-parallel step takes as long as its arithmetic."""
    return math.ceil(4 / 6 * roofline.machine(H100, wire=wire).network_ridge)


def _half_sizes() -> tuple[float, float]:
    """The two neighboring messages between which eight A100s reach half of their best all-reduce."""
    runs = collectives.series("8 × A100")
    half = max(run.bus_bandwidth for run in runs) / 2
    above = next(place for place, run in enumerate(runs) if run.bus_bandwidth >= half)
    return runs[above - 1].nbytes, runs[above].nbytes


def _drop(inside: float) -> float:
    return inside / H100.network_one_way


_SOURCES = (
    "williams-2009 hong-kung-1981 h100-architecture hopper-in-depth bekman-accelerators bekman-network "
    "llama3-2024 scaling-book tpu-v5p-docs mlx-benchmark-21"
)


NUMBERS: dict[str, Callable[[], str]] = {
    **opening("03"),
    # the device
    "h100_peak": lambda: rate_text(H100.dense_flops),
    "h100_bandwidth": lambda: _gigabytes_per_s(H100.bandwidth),
    "h100_ridge": lambda: number_text(roofline.ridge(H100.dense_flops, H100.bandwidth)),
    "h100_sms": lambda: number_text(facts.chip("H100 SXM").sms),
    "h100_ceiling": lambda: percent_text(facts.ceiling("H100 SXM").share),
    "h100_real_ridge": lambda: f"{number_text(roofline.machine('H100 SXM', achievable=True).ridge)} FLOP per byte",
    "decode_13b_flop": lambda: flops_text(2 * SMALL),
    "decode_13b_dream": lambda: f"{round(H100.dense_flops / (2 * SMALL), -3):,.0f}",
    # intensity
    "matmul_read": lambda: number_text(roofline.matmul(4096, 4096, 4096, write=False).memory_intensity, 4),
    "matmul_all": lambda: number_text(roofline.matmul(4096, 4096, 4096).memory_intensity, 4),
    "relu_read": lambda: number_text(roofline.relu(1, write=False).memory_intensity),
    "relu_all": lambda: number_text(roofline.relu(1).memory_intensity),
    "layer_8k": lambda: number_text(roofline.matmul(8192, SHAPE.hidden, SHAPE.ffn).memory_intensity, 4),
    "layer_ridge": lambda: str(roofline.tokens_to_ridge(SHAPE.hidden, SHAPE.ffn, H100.dense_flops, H100.bandwidth)),
    "bench_seconds": lambda: f"{BENCH_SECONDS:g} seconds",
    # the network
    "tokens_link": lambda: f"{_least_tokens('link'):,}",
    "tokens_network": lambda: f"{_least_tokens('network'):,}",
    "plan_step": lambda: number_text(GPUS * _least_tokens("network")),
    "link_one": lambda: _gigabytes_per_s(H100.link_one_way),
    "link_both": lambda: _gigabytes_per_s(H100.link_both_ways),
    "adapter_one": lambda: _gigabytes_per_s(H100.network_one_way),
    "adapter_gbit": lambda: f"{H100.network_one_way * 8 / 1e9:g} Gb/s",
    "server_adapters": lambda: _gigabytes_per_s(
        facts.topology("DGX H100 server").devices("server") * H100.network_one_way
    ),
    "llama_over": lambda: f"{roofline.levels('Llama 3 cluster')[-1].oversubscription:g} : 1",
    "drop_fair": lambda: f"{number_text(_drop(H100.link_one_way))} ×",
    "v5p_peak": lambda: rate_text(V5P.dense_flops),
    "v5p_memory": lambda: bytes_text(V5P.memory),
    "v5p_pod": lambda: f"{facts.topology('TPU v5p pod').devices('pod'):,}",
    # how many times fewer messages wait for one another on three axes than on one ring
    "torus_messages": lambda: number_text((math.prod(SIDES) - 1) / sum(side - 1 for side in SIDES), 2),
    "half_low": lambda: bytes_text(_half_sizes()[0]),
    "half_high": lambda: bytes_text(_half_sizes()[1]),
    # generations
    "v100_peak": lambda: rate_text(facts.device("V100 SXM2 32GB").dense_flops),
    "growth_peak": lambda: number_text(B200.dense_flops / K40.fp32_flops),
    "growth_bandwidth": lambda: number_text(B200.bandwidth / K40.bandwidth),
    "ridge_k40": lambda: number_text(K40.fp32_flops / K40.bandwidth),
    "ridge_h200": lambda: number_text(roofline.machine("H200 SXM").ridge),
    "ridge_b200": lambda: number_text(roofline.machine(B200).ridge),
    # on GPUs, and the plan
    "gpu_minutes": lambda: f"{GPU_MINUTES} minutes",
    "gpu_money": lambda: usd_text(compute.cost_usd(GPU_MINUTES / 60, facts.price("H100 hour"))),
    "price": lambda: usd_text(facts.price("H100 hour")),
    "reading": lambda: reading(*_SOURCES.split()),
}
