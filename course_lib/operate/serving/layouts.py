"""How to spend a server's GPUs: one large replica for latency, several small ones for throughput, or pools for prefill
and decode."""

from dataclasses import dataclass, replace

from course_lib.estimate.units import require, require_whole
from course_lib.operate.serving.kv_cache import kv_bytes
from course_lib.operate.serving.speed import Deployment, decode_seconds, prefill_seconds, steady_tokens_per_s


@dataclass(frozen=True, slots=True)
class LayoutRow:
    """One way to split a server into replicas."""

    tp: int
    replicas: int
    first_token: float  # seconds for one prompt, without a queue
    token: float  # seconds between two tokens of a single request
    tokens_per_s: float  # of all replicas, output, with requests always waiting


def server_layouts(deployment: Deployment, devices: int, prompt: int, output: int, most: int = 256) -> list[LayoutRow]:
    """Every division of `devices` into replicas of 1, 2, 4, … that hold the model, latency best last."""
    rows = []
    tp = 1
    while tp <= require_whole("devices", devices):
        if devices % tp == 0 and deployment.model.heads % tp == 0:
            try:
                one = replace(deployment, tp=tp)
                rate = steady_tokens_per_s(one, prompt, output, most=most)
            except ValueError:
                pass  # the weights, or not even one sequence, fit
            else:
                token = decode_seconds(one, 1, prompt + output / 2)
                rows.append(LayoutRow(tp, devices // tp, prefill_seconds(one, prompt), token, devices // tp * rate))
        tp *= 2
    return rows


def kv_transfer_seconds(
    deployment: Deployment, tokens: int, bandwidth: float, latency: float = 0.0, overlapped: bool = False
) -> float:
    """Seconds to move one sequence's cache to another replica at `bandwidth` bytes/s.

    Sent layer by layer during prefill, only the last layer's part remains after it, provided that the wire keeps up
    (`overlapped`).
    """
    nbytes = kv_bytes(deployment.model, tokens, deployment.kv_size)
    seconds = nbytes / require("bandwidth", bandwidth, "B/s")
    if overlapped:
        late = max(0.0, seconds - prefill_seconds(deployment, tokens))
        seconds = max(late, seconds / deployment.model.layers)
    return require("latency", latency, "s", open_below=False) + seconds


@dataclass(frozen=True, slots=True)
class PoolSizes:
    """Replicas for each phase, and the load of each pool, a fraction of one."""

    prefill: int
    decode: int
    prefill_load: float
    decode_load: float


def pool_sizes(
    deployment: Deployment,
    rate: float,
    prompt: int,
    output: int,
    token_limit: float,
    most_load: float = 0.8,
    most: int = 256,
) -> PoolSizes:
    """The fewest replicas of each phase for `rate` requests/s, if a token may take `token_limit` seconds and loads stay
    below `most_load`.

    A decode replica holds the largest batch that fits in memory and meets the limit. Both pools use the same kind of
    replica.
    """
    require("rate", rate, "requests/s")
    context = prompt + output / 2
    batch = int(min(most, deployment.kv_capacity // (prompt + output)))
    while batch and decode_seconds(deployment, batch, context) > token_limit:
        batch -= 1
    if not batch:
        raise ValueError(
            f"Even one sequence takes {decode_seconds(deployment, 1, context):.3g} s a token; the limit is "
            f"{token_limit:g} s."
        )
    prefill_work = rate * prefill_seconds(deployment, prompt)
    decode_work = rate * output * decode_seconds(deployment, batch, context) / batch
    prefill, decode = (max(1, -int(-work // most_load)) for work in (prefill_work, decode_work))
    return PoolSizes(prefill, decode, prefill_work / prefill, decode_work / decode)
