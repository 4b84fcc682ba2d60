"""FLOP and bytes of operators, counted from shapes.

Bytes are those that must pass through memory at least once: every input read once and every output written once, as in
a fused kernel with a perfect cache. `tiles` adds the effect of a finite cache. `size` is bytes per element.
"""

import math

from course_lib.estimate.compute import matmul_flops
from course_lib.estimate.roofline.roofs import Work, byte_rate, flop_rate
from course_lib.estimate.units import require, require_whole

SOFTMAX_FLOP = 5  # per element: compare with the maximum, subtract, exponential, add up, divide
LAYERNORM_FLOP = 8  # per element: mean, difference, square, sum, then scale by 1/σ, by γ, and add β
ROOM = 1e-9  # relative: a batch exactly at the ridge is enough


def matmul(m: int, k: int, n: int, size: float = 2, write: bool = True, accumulate: bool = False) -> Work:
    """C = A·B with A (m, k), B (k, n): A and B read, C written; accumulate=True reads C too (C += A·B).

    write=False counts only the reads, as pages do that divide by "bytes loaded": 2,048 instead of 1,365 at n = 4096.
    """
    flop = matmul_flops(m, k, n)
    moved = m * k + k * n + m * n * (bool(write) + bool(accumulate))
    return Work(flop, moved * require("size", size, "bytes per element"), name="matmul")


def elementwise(n: float, inputs: int = 1, outputs: int = 1, flop: float = 1, size: float = 2) -> Work:
    """`flop` FLOP on each of `n` elements, reading `inputs` tensors and writing `outputs` tensors."""
    count = require("n", n, "elements")
    streams = require_whole("inputs", inputs, least=0) + require_whole("outputs", outputs, least=0)
    moved = count * streams * require("size", size, "bytes per element")
    return Work(count * require("flop", flop, "FLOP per element", open_below=False), moved, name="elementwise")


def relu(n: float, size: float = 2, write: bool = True) -> Work:
    """max(x, 0): one FLOP per element; 0.25 FLOP per byte in 16 bits, 0.5 if the write is not counted."""
    return elementwise(n, 1, int(bool(write)), 1, size)


def softmax(rows: float, columns: float, size: float = 2) -> Work:
    """Softmax over each row, fused: read once, written once, about 5 FLOP per element (an exponential counts as
    one)."""
    count = require("rows", rows) * require("columns", columns)
    work = elementwise(count, 1, 1, SOFTMAX_FLOP, size)
    return Work(work.flop, work.memory_bytes, name="softmax")


def layernorm(rows: float, columns: float, size: float = 2) -> Work:
    """Layer norm over each row, fused: read once, written once, γ and β read once; about 8 FLOP per element."""
    count = require("rows", rows) * require("columns", columns)
    work = elementwise(count, 1, 1, LAYERNORM_FLOP, size)
    return Work(work.flop, work.memory_bytes + 2 * columns * size, name="layernorm")


def attention(
    batch: int,
    heads: int,
    queries: int,
    keys: int,
    head_dim: int,
    kv_heads: int | None = None,
    size: float = 2,
    fused: bool = True,
) -> Work:
    """Softmax(Q·Kᵀ)·V for every head; every query sees every key.

    fused=True moves only Q, K, V and the output; fused=False also writes and reads the scores twice, once before
    and once after the softmax.
    """
    for name, value in (
        ("batch", batch),
        ("heads", heads),
        ("queries", queries),
        ("keys", keys),
        ("head_dim", head_dim),
    ):
        require_whole(name, value)
    groups = require_whole("kv_heads", heads if kv_heads is None else kv_heads)
    if heads % groups:
        fits = [n for n in range(1, heads + 1) if heads % n == 0]
        raise ValueError(f"kv_heads is {groups}; {heads} heads share keys evenly with one of {fits}.")
    scores = batch * heads * queries * keys
    flop = 4.0 * scores * head_dim + SOFTMAX_FLOP * scores
    moved = 2 * batch * heads * queries * head_dim + 2 * batch * groups * keys * head_dim
    return Work(flop, (moved + (0 if fused else 4 * scores)) * size, name="attention")


def decode(params: float, batch: int, kv_bytes: float = 0.0, size: float = 2) -> Work:
    """One token for each of `batch` sequences: all weights read once, and `kv_bytes` of keys and values per sequence.

    FLOP are 2 per parameter and token. Those of attention are left out, so a long context is limited even more than
    this.
    """
    count = require_whole("batch", batch, "sequences")
    weights = require("params", params, "parameters")
    read = weights * require("size", size, "bytes per weight")
    kept = count * require("kv_bytes", kv_bytes, "bytes per sequence", open_below=False)
    return Work(2.0 * weights * count, read + kept, name="decode")


def smallest_batch(
    flops: float, bandwidth: float, params: float, weight_size: float = 2, kv_bytes: float = 0.0
) -> int | None:
    """The least whole batch at which decoding computes at least as long as it reads; None if no batch does.

    Every sequence adds 2 FLOP per parameter and `kv_bytes` to read. If reading them takes as long as computing, a
    larger batch does not help.
    """
    compute = 2.0 * require("params", params, "parameters") / flop_rate("flops", flops)
    reading = require("kv_bytes", kv_bytes, "bytes per sequence", open_below=False) / byte_rate("bandwidth", bandwidth)
    weights = params * require("weight_size", weight_size, "bytes per weight") / bandwidth
    if compute <= reading:
        return None
    exact = weights / (compute - reading)
    return max(1, math.ceil(exact * (1 - ROOM)))


def tokens_to_ridge(n_in: int, n_out: int, flops: float, bandwidth: float, size: float = 2) -> int:
    """The least whole number of tokens at which X·W, with W (n_in, n_out), is compute-bound.

    W, the input and the output count, so the result is above the ridge: 310 instead of 296 for 8192 × 28672 on an H100.
    """
    ridge = flop_rate("flops", flops) / byte_rate("bandwidth", bandwidth)
    per_token = 2.0 * n_in * n_out - ridge * size * (n_in + n_out)
    if per_token <= 0:
        raise ValueError(
            f"A layer of {n_in} × {n_out} stays memory-bound at any number of tokens: its ridge is {ridge:.4g}."
        )
    return math.ceil(ridge * size * n_in * n_out / per_token * (1 - ROOM))


def table(works: dict[str, Work]) -> list[dict[str, object]]:
    """Rows for a table: the name, FLOP, bytes and intensity of each operator."""
    return [
        {"name": name, "flop": work.flop, "bytes": work.memory_bytes, "intensity": work.memory_intensity}
        for name, work in works.items()
    ]
