"""Matrix products on 8-bit floating-point numbers in a real run: a block's `nn.Linear` layers, forward and backward.

Inputs and weights are E4M3, gradients of outputs E5M2 (Micikevicius et al., 2022). Each tensor has one scale, a power
of two that brings its largest magnitude into the format's top binade. A power of two changes no mantissa, so that ranks
with different parts of a tensor round its elements alike. On a GPU `torch._scaled_mm` multiplies. A CPU multiplies the
same rounded numbers in fp32, in which every 8-bit number is exact: its `torch._scaled_mm` gives the same, but on some
processors takes a thousand times as long. Split matrices are multiplied part by part: `product` is an operator of its
own with a sharding rule, so that padding, which `torch._scaled_mm` needs, is done to each rank's part and moves nothing
between ranks. Embedding, norms, attention scores and the head keep their dtype.
"""

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding
from torch.nn import functional as F

from course_lib.messages import Trouble
from course_runs.gpus import eight_bit_capability
from course_runs.model import Piece

IN, BACK = torch.float8_e4m3fn, torch.float8_e5m2
WHOLE = 16  # rows and columns of a product that the hardware takes multiples of
LEAST = eight_bit_capability()


def require(device: torch.device) -> None:
    """Trouble where the device has no 8-bit floating-point products."""
    if device.type != "cuda":
        return
    found = torch.cuda.get_device_capability(device)
    if found < LEAST:
        raise Trouble(
            f"{torch.cuda.get_device_name(device)} has compute capability {found[0]}.{found[1]}, and 8-bit "
            f"floating-point matrix products need {LEAST[0]}.{LEAST[1]} or higher.",
            "leave out --fp8, or rent an L40S, H100, H200 or B200; --device cpu computes the same numbers slowly",
        )


def convert(model: Piece) -> None:
    """Every `nn.Linear` of the blocks computes in 8 bits from now on; parameters and their names stay."""
    for block in model.blocks.values():
        for layer in block.modules():
            if isinstance(layer, nn.Linear):
                layer.__class__ = Linear8


class Linear8(nn.Linear):
    """`nn.Linear` without bias whose three products are of 8-bit numbers."""

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight
        if torch.is_autocast_enabled(x.device.type):
            kind = torch.get_autocast_dtype(x.device.type)
            x, weight = x.to(kind), weight.to(kind)
        return _Product.apply(x, weight)


class _Product(Function):
    """x @ weight.T, keeping both as they are: they are rounded again in the backward pass."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x.flatten(0, -2), weight.t(), IN, IN).unflatten(0, x.shape[:-1])

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        rows, inputs = grad.flatten(0, -2), x.flatten(0, -2)
        to_x = product(rows, weight, BACK, IN).unflatten(0, x.shape[:-1])
        return to_x, product(rows.t(), inputs, BACK, IN)


@torch.library.custom_op("course::product8", mutates_args=())
def product(a: Tensor, b: Tensor, kind_a: torch.dtype, kind_b: torch.dtype) -> Tensor:
    """a (M, K) @ b (K, N), both rounded to 8 bits, summed in fp32 and given in a's dtype, (M, N)."""
    one, other = scale_of(a, kind_a), scale_of(b, kind_b)
    return by_hardware(rounded(a, one, kind_a), rounded(b, other, kind_b), one, other, a.dtype)


@product.register_kernel("cpu")
def _(a: Tensor, b: Tensor, kind_a: torch.dtype, kind_b: torch.dtype) -> Tensor:
    one, other = scale_of(a, kind_a), scale_of(b, kind_b)
    return (rounded(a, one, kind_a).float() @ rounded(b, other, kind_b).float() / one / other).to(a.dtype)


def by_hardware(a: Tensor, b: Tensor, one: Tensor, other: Tensor, dtype: torch.dtype) -> Tensor:
    """8-bit matrices (M, K) and (K, N) multiplied by the hardware's 8-bit product, over both scales."""
    whole = _in_whole_blocks(a), _in_whole_blocks(b.t()).t()
    out = torch._scaled_mm(*whole, scale_a=1 / one, scale_b=1 / other, out_dtype=dtype)
    return out[: a.shape[0], : b.shape[1]].contiguous()


@product.register_fake
def _(a: Tensor, b: Tensor, kind_a: torch.dtype, kind_b: torch.dtype) -> Tensor:
    return a.new_empty(a.shape[0], b.shape[1])


@register_sharding(torch.ops.course.product8.default)
def _(
    a: object, b: object, kind_a: torch.dtype, kind_b: torch.dtype
) -> list[tuple[list[Placement], list[Placement | None]]]:
    """Where a, b and their product may lie, on one axis of a mesh."""
    return [
        ([out], [left, right, None, None])
        for out, left, right in (
            (Replicate(), Replicate(), Replicate()),
            (Shard(0), Shard(0), Replicate()),
            (Shard(1), Replicate(), Shard(1)),
            (Partial(), Shard(1), Shard(0)),
        )
    ]


def scale_of(x: Tensor, kind: torch.dtype) -> Tensor:
    """The power of two that brings the largest magnitude of `x` into the top binade of the format; a scalar, fp32."""
    largest = x.abs().amax().float().clamp(min=2.0**-100)  # zeros have a scale, too
    return torch.exp2(torch.floor(torch.log2(torch.finfo(kind).max / largest)))


def rounded(x: Tensor, scale: Tensor, kind: torch.dtype) -> Tensor:
    """`x` times its scale in 8 bits, to nearest; what would overflow saturates."""
    most = torch.finfo(kind).max
    return (x.float() * scale).clamp(-most, most).to(kind)


def _in_whole_blocks(x: Tensor) -> Tensor:
    """A matrix in rows of memory, with zeros up to multiples of 16 in both directions."""
    below, right = -x.shape[0] % WHOLE, -x.shape[1] % WHOLE
    if not below and not right:
        return x.contiguous()
    return F.pad(x.view(torch.uint8), (0, right, 0, below)).view(x.dtype)
