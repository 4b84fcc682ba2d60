"""The numbers in chapter 07's prose, each computed from facts and from the overlap model."""

from collections.abc import Callable, Mapping

from course_chapters.running_example import BATCH, GPUS, MFU, NETWORK, PARAMS, RING, SEQ, TOKENS, lab, opening
from course_lib.cluster import collectives, overlap
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.facts import collectives as measured
from course_lib.estimate.facts import scaling
from course_lib.estimate.running_plan import STATE_BYTES
from course_lib.estimate.units import BILLION, MINUTE, TRILLION, bytes_text, duration_text, number_text, percent_text

H100 = facts.device("H100 SXM")
REAL = H100.dense_flops * MFU  # FLOP/s that a GPU of the running example achieves
MANY = 1024  # GPUs of the claim that opens the chapter
LEAST = 0.9  # efficiency that a plan should keep
BUCKET = 25 * 2**20  # bytes: the default of PyTorch's DistributedDataParallel
LAB_GPUS, LAB_SECONDS = 8, 10 * MINUTE  # what it takes to measure this chapter on one server
EVIDENCE = "1.34B, data parallel"


def step_on(
    ranks: int,
    batch: float = BATCH,
    bandwidth: float = NETWORK[1],
    latency: float = NETWORK[0],
    grad_bytes: float = 2.0,
    hide: bool = True,
) -> overlap.Step:
    """One data-parallel step of the running example on one plain ring, by default 16-bit and overlapped."""
    return overlap.step(
        PARAMS, batch / ranks, ranks, REAL, bandwidth, latency=latency, grad_bytes=grad_bytes, overlap=hide
    )


def plan_step() -> overlap.Step:
    """The step on the plan's GPUs, at the rate that was measured on as many."""
    return step_on(GPUS, bandwidth=RING, latency=0.0)


def most_gpus(
    least: float = LEAST,
    batch: float = BATCH,
    bandwidth: float = NETWORK[1],
    grad_bytes: float = 2.0,
    hide: bool = True,
) -> int:
    """The most GPUs on which a step of this batch still has this efficiency; the rest as for `step_on`."""
    return overlap.most_ranks(least, lambda ranks: step_on(ranks, batch, bandwidth, grad_bytes=grad_bytes, hide=hide))


def run_seconds(ranks: float, efficiency: float = 1.0) -> float:
    """Seconds of the running example's whole run on so many GPUs."""
    return compute.train_seconds(PARAMS, TOKENS, REAL) / ranks / efficiency


def all_reduce_seconds(point: scaling.Scaled, grad_bytes: float) -> float:
    """Seconds to reduce a published job's gradients at the bus bandwidth measured on the same number of H100s."""
    bus = measured.one("H100 nodes", nodes=point.nodes).bus_bandwidth
    return collectives.BUS_FACTORS["all_reduce"](point.ranks) * grad_bytes * point.params / bus


def _gpus(count: int) -> str:
    return f"{count:,} GPUs"


def _tokens(count: float) -> str:
    return f"{count:,.0f} tokens"


def _evidence(place: int) -> scaling.Scaled:
    return scaling.series(EVIDENCE)[place]


SEND = collectives.ring_cost(memory.weights_bytes(PARAMS, "bf16"), GPUS, 0.0, 1.0).nbytes

NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("07"),
    "model": lambda: f"{PARAMS / BILLION:g} billion",
    "tokens": lambda: f"{TOKENS / TRILLION:g} trillion tokens",
    "one_gpu": lambda: duration_text(run_seconds(1)),
    "many": lambda: f"{MANY:,} H100s",
    "ideal": lambda: duration_text(run_seconds(MANY)),
    "with_talk": lambda: duration_text(run_seconds(MANY, step_on(MANY).efficiency)),
    # what every rank holds
    "state": lambda: bytes_text(memory.state_bytes(PARAMS)),
    "card": lambda: H100.memory.text,
    # how far it scales
    "batch": lambda: f"{BATCH / 2**20:g} Mi tokens",
    "least": lambda: percent_text(LEAST),
    "hidden_until": lambda: _gpus(most_gpus(1.0)),
    "most": lambda: _gpus(most_gpus()),
    "most_large": lambda: _gpus(most_gpus(batch=4 * BATCH)),
    "large_batch": lambda: f"{4 * BATCH / 2**20:g} Mi tokens",
    "seq": lambda: _tokens(SEQ),
    "bucket": lambda: f"{BUCKET / 2**20:.0f} MiB",
    # published measurements, and a lab to rent
    "seen_first": lambda: str(_evidence(0).ranks),
    "seen_last": lambda: _gpus(_evidence(-1).ranks),
    "seen_params": lambda: f"{number_text(_evidence(0).params / BILLION)} billion",
    "seen_batch": lambda: _tokens(_evidence(0).batch_tokens),
    "seen_kept": lambda: percent_text(_evidence(-1).tokens_per_s / _evidence(0).tokens_per_s, 2),
    "seen_tokens": lambda: _tokens(_evidence(-1).tokens),
    **lab(LAB_GPUS, LAB_SECONDS),
    # the plan
    "plan_state": lambda: bytes_text(STATE_BYTES * PARAMS),
    "plan_tokens": lambda: _tokens(BATCH / GPUS),
    "plan_rate": lambda: f"{bytes_text(RING)}/s",
    "plan_talk": lambda: duration_text(plan_step().talk),
    "plan_backward": lambda: duration_text(overlap.BACKWARD * plan_step().compute),
    "too_much": lambda: number_text(memory.state_bytes(PARAMS) / H100.memory, 2),
}
