"""A KV cache in fewer bits: integers with a scale and a zero point for each group of numbers.

Keys have a few channels that are large for every token, so one scale per *channel* keeps the others precise; values
have none, so one scale per *token* suffices. A new token changes the range of every channel, which is why the newest
tokens stay in 16 bits. Liu et al. (2024).
"""

import math

import torch
from torch import Tensor

from course_lib.estimate.units import require_whole

AXES = {"token": -1, "channel": -2, "tensor": None}


def quantize(x: Tensor, bits: int = 8, per: str = "token") -> tuple[Tensor, Tensor, Tensor]:
    """`x` (…, tokens, channels) as integer codes, with the scale and the least value of each group.

    per="token" shares a scale over the channels of a token, "channel" over the tokens of a channel, "tensor" over all
    of the last two axes. The error of each number is at most half a scale, and rounding of the arithmetic.
    """
    if not 1 <= require_whole("bits", bits) <= 8:
        raise ValueError(f"bits is {bits}; choose 1 to 8.")
    if per not in AXES:
        raise ValueError(f"per is {per!r}; choose from {', '.join(AXES)}.")
    axis = AXES[per]
    dims = (-2, -1) if axis is None else (axis,)
    low, high = x.amin(dims, keepdim=True), x.amax(dims, keepdim=True)
    scale = ((high - low) / (2**bits - 1)).clamp_min(torch.finfo(x.dtype).tiny)
    codes = ((x - low) / scale).round().clamp(0, 2**bits - 1).to(torch.uint8)
    return codes, scale, low


def dequantize(codes: Tensor, scale: Tensor, low: Tensor) -> Tensor:
    """The numbers that codes stand for."""
    return codes.to(scale.dtype) * scale + low


def quantized(x: Tensor, bits: int = 8, per: str = "token") -> Tensor:
    """`x` as it is after quantizing and back."""
    return dequantize(*quantize(x, bits, per))


def cache_bytes(tokens: int, channels: int, bits: int, per: str, scale_size: float = 2.0) -> float:
    """Bytes of the codes of (tokens, channels) and of a scale and a least value for each group."""
    groups = {"token": tokens, "channel": channels, "tensor": 1}[per]
    return tokens * channels * bits / 8 + groups * 2 * scale_size


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax attention of q (…, queries, channels) to k and v (…, tokens, channels), without a mask: decoding sees the
    whole cache."""
    return (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1) @ v


def attention_error(q: Tensor, k: Tensor, v: Tensor, bits: int, keys: str = "channel", values: str = "token") -> float:
    """Relative error of attention's output, in the Euclidean norm, with a quantized cache."""
    right = attention(q, k, v)
    wrong = attention(q, quantized(k, bits, keys), quantized(v, bits, values))
    return float((wrong - right).norm() / right.norm())


def keys_with_outliers(tokens: int, channels: int, outliers: int, times: float, seed: int = 0) -> Tensor:
    """Keys (tokens, channels) of which some channels are `times` larger for all tokens, as measured in trained
    models."""
    coin = torch.Generator().manual_seed(seed)
    keys = torch.randn(tokens, channels, generator=coin)
    keys[:, torch.randperm(channels, generator=coin)[:outliers]] *= times
    return keys
