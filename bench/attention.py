"""`./course bench attention`: one sequence on several real processes, ours and torch's, against full attention on one.

Forward and backward pass in fp32 over gloo on a CPU, one thread a process. Torch's own ring is run with its CPU kernel,
because its public `context_parallel` has no CPU attention: same ring, same zig-zag. Bytes are those that the metered
cluster counts for the same call, beside those of the formula; gloo has no counter.
"""

import argparse
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.cluster import simulate
from course_lib.cluster.parity import apart
from course_lib.estimate.units import bytes_text, duration_text
from course_lib.model.modules import gradient
from course_lib.parallel import context as cp
from course_lib.parallel.context.costs import Traffic, gather_traffic, ring_traffic, ulysses_traffic
from course_lib.parallel.context.model import WAYS
from course_runs.real_ranks import launch

HEADS, KV_HEADS, DIM = 8, 4, 32
TORCH = ("torch, ring", "torch, all-gather")


def tensors(length: int) -> list[Tensor]:
    """q, k, v and the output's gradient, (1, heads, length, head_dim), fp32."""
    coin = torch.Generator().manual_seed(0)
    return [torch.randn(1, heads, length, DIM, generator=coin) for heads in (HEADS, KV_HEADS, KV_HEADS, HEADS)]


def full(q: Tensor, k: Tensor, v: Tensor, grad: Tensor) -> list[Tensor]:
    """Output, dq, dk and dv by torch's attention on one process."""
    q, k, v = leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    out.backward(grad)
    return [out.detach(), *map(gradient, leaves)]


def ours(comm: object, way: str, parts: Sequence[Tensor], positions: Sequence[Tensor]) -> list[Tensor]:
    """The same for this rank's tokens by one of the library's ways."""
    leaves = [x.clone().requires_grad_() for x in parts[:3]]
    out = WAYS[way](comm, *leaves, positions)[0]
    out.backward(parts[3])
    return [out.detach(), *map(gradient, leaves)]


def torchs(_: object, way: str, parts: Sequence[Tensor], __: object) -> list[Tensor]:
    """The same by torch's ring with its CPU kernel, which has no grouped heads: keys and values are repeated before."""
    import torch.distributed as dist
    from torch.distributed.tensor.experimental._context_parallel import _attention

    ring: Any = _attention  # private: its protocol for a kernel names arguments that the CPU's does not have

    aten = torch.ops.aten
    method = ring._RotateMethod.ALL_TO_ALL if way == TORCH[0] else ring._RotateMethod.ALL_GATHER
    ring._cp_options.rotate_method = method
    group = HEADS // KV_HEADS
    q, grad = parts[0], parts[3]
    k, v = (x.repeat_interleave(group, 1) for x in parts[1:3])

    def kernel(q: Tensor, k: Tensor, v: Tensor, is_causal: bool) -> tuple[Tensor, Tensor]:
        return aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, is_causal)

    def back(*, query: Tensor, key: Tensor, value: Tensor, **given: object) -> tuple[Tensor, ...]:
        names = ("grad_out", "out", "logsumexp")
        dout, out, sums = (given[name] for name in names)
        kernel = aten._scaled_dot_product_flash_attention_for_cpu_backward
        return kernel(dout, query, key, value, out, sums, 0.0, given["is_causal"])

    world = dist.group.WORLD
    assert world is not None
    out, sums = ring._templated_ring_attention(world, 2, kernel, q, k, v, is_causal=True)
    dq, dk, dv = ring._templated_ring_attention_backward(
        world, 2, back, grad, "grad_out", q, k, v, out, sums, is_causal=True
    )
    return [out, dq, *(x.unflatten(1, (KV_HEADS, group)).sum(2) for x in (dk, dv))]


def timed(
    comm: Any, way: str, given: Sequence[Tensor], positions: Sequence[Tensor], repeats: int
) -> tuple[object, float]:
    """One rank's result, and the fastest of some calls in s."""
    torch.set_num_threads(1)
    run: Callable[..., list[Tensor]] = torchs if way in TORCH else ours
    parts = [cp.cut(x, positions[comm.rank]) for x in given]
    best, result = math.inf, None
    for _ in range(repeats + 1):
        comm.barrier()
        start = time.perf_counter()
        result = run(comm, way, parts, positions)
        comm.barrier()
        best = min(best, time.perf_counter() - start)
    return result, best


def alone(_: object, given: Sequence[Tensor], repeats: int) -> tuple[list[Tensor], float]:
    """Full attention on one process of one thread, and the fastest of some calls in s."""
    torch.set_num_threads(1)
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        exact = full(*given)
        times.append(time.perf_counter() - start)
    return exact, min(times)


def predicted(way: str, length: int, ranks: int) -> Traffic | None:
    """Bytes of a rank by the formula; None for torch's."""
    shape = (length, KV_HEADS, DIM, ranks, 4)
    known = {
        "ring": lambda: ring_traffic(*shape),
        "gather": lambda: gather_traffic(*shape),
        "ulysses": lambda: ulysses_traffic(length, HEADS, KV_HEADS, DIM, ranks, 4),
    }
    return known[way]() if way in known else None


def compare(length: int, ranks: int, repeats: int = 3) -> list[dict[str, Any]]:
    """A row for full attention and for every way: seconds, bytes of a rank, and differences in units of what rounding
    allows."""
    given, positions = tensors(length), cp.zig_zag(length, ranks)
    (exact, seconds), *_ = launch(alone, 1, args=(given, repeats), timeout=300).results
    rows = [{"way": "full, one process", "seconds": seconds}]
    for way in ("ring", "gather", "ulysses", *TORCH):
        results = launch(timed, ranks, args=(way, given, positions, repeats), timeout=300).results
        together = [cp.join(parts, positions) for parts in zip(*(result for result, _ in results), strict=True)]
        row = {"way": way, "seconds": max(seconds for _, seconds in results)}
        row["apart"] = max(apart(mine, want, 64 * length) for mine, want in zip(together, exact, strict=True))
        if traffic := predicted(way, length, ranks):
            parts = [(way, [cp.cut(x, own) for x in given], positions) for own in positions]
            row["bytes"] = max(simulate(ours, ranks, per_rank=parts).meter.bytes_sent)
            row["predicted"] = traffic.nbytes
        rows.append(row)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table for every length."""
    parser = argparse.ArgumentParser(prog="course bench attention", description=__doc__)
    parser.add_argument("--ranks", type=int, default=2, help="processes")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048], help="tokens, multiples of 2 × ranks")
    given = parser.parse_args(arguments)
    print(f"causal, {HEADS} query heads, {KV_HEADS} KV heads of {DIM}, fp32, {given.ranks} processes, zig-zag")
    for length in given.lengths:
        print(f"{length:,} tokens            forward and backward    sent per rank    predicted    off (1: rounding)")
        for row in compare(length, given.ranks):
            sent = [bytes_text(row[name]) if name in row else "" for name in ("bytes", "predicted")]
            off = f"{row['apart']:.2g}" if "apart" in row else ""
            print(f"  {row['way']:24} {duration_text(row['seconds']):>16} {sent[0]:>16} {sent[1]:>12} {off:>12}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
