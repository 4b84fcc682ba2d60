"""What a backward pass hides: gradients that leave in buckets while it runs, and the efficiency of many GPUs.

A model with two lanes. The GPU works through the layers, last one first. The link sends one bucket after another, each
as soon as its last gradient is complete and the previous bucket has arrived. Left out: processors and memory bandwidth
that communication takes from the matmuls, stragglers, and torch's smaller first bucket.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from course_lib.cluster import collectives
from course_lib.estimate import compute
from course_lib.estimate.units import require, require_whole

BACKWARD = 4 / 6  # of a step's arithmetic: 4 of 6 FLOPs per parameter and token


@dataclass(frozen=True, slots=True)
class Sent:
    """One bucket's transfer; times in seconds from the start of the backward pass."""

    nbytes: float
    ready: float  # its last gradient is complete
    start: float  # and the link is free
    end: float  # every rank has the sum


def bucket_times(
    tensors: Iterable[tuple[float, float]], bucket_bytes: float, ranks: int, latency: float, bandwidth: float
) -> list[Sent]:
    """The buckets of one backward pass in the order in which they leave, each a ring all-reduce.

    `tensors` are (seconds of backward pass, bytes of gradient) in the order of the *forward* pass; they are taken from
    the end, and a new bucket starts where the next tensor would not fit. Li et al., "PyTorch Distributed" (2020),
    section 4.2.
    """
    room = require("bucket_bytes", bucket_bytes, "bytes")
    fixed = collectives.ring_cost(0.0, ranks, latency, bandwidth).seconds
    per_byte = collectives.ring_cost(1.0, ranks, 0.0, bandwidth).seconds
    clock, held, buckets = 0.0, 0.0, []
    for seconds, nbytes in reversed(list(tensors)):
        if held and held + nbytes > room:
            buckets.append((held, clock))
            held = 0.0
        clock += seconds
        held += nbytes
    if held:
        buckets.append((held, clock))
    sent, free = [], 0.0
    for nbytes, ready in buckets:
        start = max(ready, free)
        free = start + fixed + per_byte * nbytes
        sent.append(Sent(nbytes, ready, start, free))
    return sent


def exposed_seconds(buckets: Sequence[Sent], backward: float) -> float:
    """How long the link is still busy after a backward pass of `backward` seconds."""
    return max(0.0, buckets[-1].end - backward) if buckets else 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """One step of data-parallel training on every GPU, in seconds."""

    compute: float
    talk: float  # the all-reduce of all gradients
    exposed: float  # the part that is not hidden

    @property
    def seconds(self) -> float:
        """The whole step."""
        return self.compute + self.exposed

    @property
    def efficiency(self) -> float:
        """The share of the step that computes: tokens per second and GPU, relative to a single GPU."""
        return self.compute / self.seconds


def step(
    params: float,
    tokens: float,
    ranks: int,
    flops_per_s: float,
    bandwidth: float,
    *,
    latency: float = 0.0,
    grad_bytes: float = 2.0,
    overlap: bool = True,
) -> Step:
    """A step with `tokens` on each of `ranks` GPUs that achieve `flops_per_s`; gradients of `grad_bytes` go around one
    ring.

    With `overlap` the backward pass hides as much as it lasts, the best that buckets can do; without it, nothing is
    hidden.
    """
    work = compute.train_flops(params, require("tokens", tokens, "tokens")) / require(
        "flops_per_s", flops_per_s, "FLOP/s"
    )
    talk = float(
        collectives.ring_cost(grad_bytes * params, require_whole("ranks", ranks, "ranks"), latency, bandwidth).seconds
    )
    return Step(work, talk, max(0.0, talk - BACKWARD * work) if overlap else talk)


def most_ranks(least: float, step_on: Callable[[int], Step], limit: int = 2**20) -> int:
    """The most GPUs, up to `limit`, on which `step_on(ranks)` still has this efficiency; by bisection, because more
    GPUs never raise it."""
    low, high = 1, require_whole("limit", limit, "GPUs") + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if step_on(middle).efficiency >= least else (low, middle)
    return low
