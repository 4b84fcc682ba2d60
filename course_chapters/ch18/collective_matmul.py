"""Tensor parallelism whose communication runs under its matmul, piece by piece: "async tensor parallelism".

An all-gather followed by a matmul, and a matmul followed by a reduce-scatter, wait for all of the communication. Both
divide: each rank's rows can be multiplied as soon as they arrive, and sent on at the same time. The values and the
bytes stay the same. Wang et al., "Overlap communication with dependent computation via decomposition in large deep
learning models" (2023); in PyTorch these are `fused_all_gather_matmul` and `fused_matmul_reduce_scatter`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import Function

from course_lib.cluster import Comm, P2POp, Work
from course_lib.estimate.units import require, require_whole
from course_lib.parallel.tensor.autograd_collectives import start_gather, start_scatter

Product = Callable[[Tensor, Tensor], Tensor]


def timed_product(comm: Comm, launch: float = 0.0) -> Product:
    """A matmul that takes `launch` seconds and its FLOPs on the cluster's virtual clock."""

    def product(a: Tensor, b: Tensor) -> Tensor:
        comm.compute(launch, flops=2.0 * a.shape[0] * b.numel(), label="product")
        return a @ b

    return product


# --- one after the other


def gather_then_matmul(comm: Comm, x: Tensor, weight: Tensor, launch: float = 0.0) -> Tensor:
    """All ranks' rows of `x` (rows, in) times this rank's `weight` (in, out): an all-gather, then one product."""
    return timed_product(comm, launch)(start_gather(comm, x, 0)(), weight)


def matmul_then_scatter(comm: Comm, x: Tensor, weight: Tensor, launch: float = 0.0) -> Tensor:
    """This rank's rows of the sum over ranks of `x` (ranks · rows, in) times `weight` (in, out)."""
    return start_scatter(comm, timed_product(comm, launch)(x, weight), 0)()


# --- in pieces


def gather_matmul(comm: Comm, x: Tensor, weight: Tensor, pieces: int = 1, launch: float = 0.0) -> Tensor:
    """As `gather_then_matmul`, around a ring: a piece is multiplied while it is sent on and a later one arrives.

    Each rank's rows make `pieces` pieces, of equal length up to one row. All ranks have the same number of rows.
    """
    product, count = timed_product(comm, launch), len(x)
    out = x.new_empty(comm.size * count, weight.shape[1])
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    arrived = [piece.contiguous() for piece in x.tensor_split(_checked(pieces, count))]
    under_way: list[list[Work]] = []
    for step in range(comm.size):
        here, arrived = arrived, [torch.empty_like(piece) for piece in arrived]
        start = (comm.rank - step) % comm.size * count
        for piece, coming in zip(here, arrived, strict=True):
            if step:
                for work in under_way.pop(0):
                    work.wait()
            if step < comm.size - 1:
                halves = [P2POp(comm.irecv, coming, before), P2POp(comm.isend, piece, after)]
                under_way.append(comm.batch_isend_irecv(halves))
            out[start : start + len(piece)] = product(piece, weight)
            start += len(piece)
    return out


def matmul_scatter(comm: Comm, x: Tensor, weight: Tensor, pieces: int = 1, launch: float = 0.0) -> Tensor:
    """As `matmul_then_scatter`, around a ring: a partial sum travels while the next product is computed."""
    product, n = timed_product(comm, launch), comm.size
    if len(x) % n:
        raise ValueError(f"{len(x)} rows do not divide among {n} ranks; pad them to {-(-len(x) // n) * n}.")
    count = len(x) // n
    lengths = [len(rows) for rows in torch.arange(count).tensor_split(_checked(pieces, count))]
    coming: list[tuple[Tensor, list[Work]]] = []
    sums: list[Tensor] = []
    for step in range(n):  # the sum for rank r starts at rank r + 1 and goes all the way round
        start = (comm.rank - step - 1) % n * count
        for length in lengths:
            part = product(x[start : start + length], weight)
            start += length
            if step:
                earlier, works = coming.pop(0)
                for work in works:
                    work.wait()
                part += earlier
            if step == n - 1:
                sums.append(part)
                continue
            into = torch.empty_like(part)
            halves = [P2POp(comm.irecv, into, (comm.rank - 1) % n), P2POp(comm.isend, part, (comm.rank + 1) % n)]
            coming.append((into, comm.batch_isend_irecv(halves)))
    return torch.cat(sums)


def _checked(pieces: int, rows: int) -> int:
    if require_whole("pieces", pieces, "pieces") > max(rows, 1):
        raise ValueError(f"{rows} rows make at most {rows} pieces, not {pieces}.")
    return pieces


# --- with gradients: the gradient of one's rows is the other


class _GatherMatmul(Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, comm: Comm, pieces: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.comm, ctx.pieces = comm, pieces
        return gather_matmul(comm, x, weight, pieces)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, weight = ctx.saved_tensors
        rows = start_gather(ctx.comm, x, 0)  # under the products for the gradient of x
        own = matmul_scatter(ctx.comm, grad, weight.T, ctx.pieces)
        return own, timed_product(ctx.comm)(rows().T, grad), None, None


class _MatmulScatter(Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, comm: Comm, pieces: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.comm, ctx.pieces = comm, pieces
        return matmul_scatter(comm, x, weight, pieces)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, weight = ctx.saved_tensors
        rows = start_gather(ctx.comm, grad, 0)
        everyone = gather_matmul(ctx.comm, grad, weight.T, ctx.pieces)
        return everyone, timed_product(ctx.comm)(x.T, rows()), None, None


def gather_linear(comm: Comm, x: Tensor, weight: Tensor, pieces: int = 1) -> Tensor:
    """`gather_matmul` that can be differentiated. Backward gathers `x` again instead of keeping all rows."""
    return _GatherMatmul.apply(x, weight, comm, pieces)


def linear_scatter(comm: Comm, x: Tensor, weight: Tensor, pieces: int = 1) -> Tensor:
    """`matmul_scatter` that can be differentiated."""
    return _MatmulScatter.apply(x, weight, comm, pieces)


# --- how long it takes, by formula


def pieces_seconds(
    ranks: int, product: float, transfer: float, latency: float, launch: float, pieces: int = 1
) -> float:
    """Seconds of `gather_matmul` or `matmul_scatter` with equal pieces.

    For one rank's rows, the matmul takes `product` seconds and the bytes take `transfer` seconds on the link. A piece
    takes `launch` s more to multiply and `latency` s more to arrive. The longest of three chains decides: all products
    in a row; one hop and then all messages in a row; or every hop of one piece in a row.
    """
    n, p = require_whole("ranks", ranks, "ranks"), require_whole("pieces", pieces, "pieces")
    compute, wire = require("product", product, "s") / p + launch, transfer / p
    if n == 1:
        return p * compute
    hop, slower = latency + wire, max(compute, wire)
    chains = (n * p - 1) * compute, hop + ((n - 1) * p - 1) * slower, (n - 1) * hop + (p - 1) * slower
    return compute + max(chains)


def fewest_best_pieces(
    ranks: int, product: float, transfer: float, latency: float, launch: float, most: int = 64
) -> int:
    """The number of pieces from 1 to `most` with the shortest time; the fewest where several are equal up to
    rounding."""
    times = [pieces_seconds(ranks, product, transfer, latency, launch, p) for p in range(1, most + 1)]
    return next(p for p, seconds in enumerate(times, 1) if seconds <= min(times) * (1 + 1e-12))
