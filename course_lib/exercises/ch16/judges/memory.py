"""Judges of chapter 16 on the bytes of the KV cache, and on its quantization."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.judging import Fault, Judging, Params, first, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.columns import EXACT, Column, shares, table
from course_lib.judging.draws import draw_rows, each_changed, generality, plain
from course_lib.judging.mistakes import mistakes, scaled
from course_lib.judging.tensors import close, coin_of, kind_fault, normal
from course_lib.records import Case, Outcome, Verdict

# --- bytes


def kv_bytes(layers: int, heads: int, kv_heads: int, size: int, number: float, tokens: int) -> float:
    """Bytes of the keys and values of one sequence."""
    return 2 * layers * kv_heads * size * number * tokens


def windowed(layers: int, every: int, kv_heads: int, size: int, number: float, tokens: int, window: int) -> float:
    """The same where only every `every`-th layer keeps more than the last `window` tokens."""
    whole = layers // every
    return 2 * kv_heads * size * number * (whole * tokens + (layers - whole) * min(tokens, window))


def latent(layers: int, width: int, rope: int, number: float, tokens: int) -> float:
    """Bytes of the latent vectors of one sequence."""
    return layers * (width + rope) * number * tokens


KV = Column(
    part="grouped",
    unit="bytes",
    want=kv_bytes,
    words=lambda la, q, kv, s, b, t: (
        f"{la} layers, {kv} of {q} heads with keys, {s} numbers of {b:g} bytes, {t:,} tokens"
    ),
    rel=EXACT,
    mistakes=mistakes(
        {
            "query-heads": lambda la, q, kv, *row: kv_bytes(la, q, q, *row),
            "keys-only": scaled(kv_bytes, 0.5),
            "one-token": lambda *row: kv_bytes(*row[:5], 1),
            "two-bytes": lambda la, q, kv, s, b, t: kv_bytes(la, q, kv, s, 2, t),
        },
        {
            "query-heads": "this is a key and a value for each query head; several of them share one.",
            "keys-only": "this is either keys or values; both are kept.",
            "one-token": "these are the bytes of one token.",
            "two-bytes": "this takes two bytes a number, whatever `number` says.",
        },
    ),
)

WINDOW = Column(
    part="windows",
    unit="bytes",
    want=windowed,
    words=lambda la, e, kv, s, b, t, w: f"{la} layers, 1 in {e} keeps all of {t:,} tokens, the others {w:,}",
    rel=EXACT,
    mistakes=mistakes(
        {
            "always-a-window": lambda la, e, kv, s, b, t, w: 2 * kv * s * b * (la // e * t + (la - la // e) * w),
            "all-windowed": lambda la, e, kv, s, b, t, w: 2 * kv * s * b * la * min(t, w),
            "swapped": lambda la, e, kv, s, b, t, w: 2 * kv * s * b * ((la - la // e) * t + la // e * min(t, w)),
            "keys-only": scaled(windowed, 0.5),
        },
        {
            "always-a-window": "a sequence shorter than the window fills only part of it.",
            "all-windowed": "some layers keep all tokens.",
            "swapped": "every `every`-th layer keeps all tokens, and the others keep the window.",
            "keys-only": "this is either keys or values; both are kept.",
        },
    ),
)

LATENT = Column(
    part="latent",
    unit="bytes",
    want=latent,
    words=lambda la, w, r, b, t: f"{la} layers, a latent of {w} and {r} numbers, {t:,} tokens",
    rel=EXACT,
    mistakes=mistakes(
        {
            "two-bytes": lambda la, w, r, b, t: latent(la, w, r, 2, t),
            "keys-and-values": scaled(latent, 2),
            "no-rope": lambda la, w, r, *row: latent(la, w, 0, *row),
        },
        {
            "two-bytes": "this takes two bytes a number, whatever `number` says.",
            "keys-and-values": "keys and values come from the same vector, which is kept once.",
            "no-rope": "the `rope` numbers are kept, too.",
        },
    ),
)


def _byte_cases(params: Params, rng: random.Random) -> list[Case]:
    kv = draw_rows(rng, 6, range(4, 90), (32, 48, 64), (1, 2, 4, 8, 16), (64, 96, 128), (2, 1, 0.5), range(100, 9000))
    window = draw_rows(
        rng, 6, (12, 24, 36, 48), (2, 3, 4, 6), (1, 4, 8), (64, 128), (2, 1, 0.5), range(3000, 9000), range(128, 2900)
    )
    short = [(12, 3, 2, 64, 2, tokens, 512) for tokens in (1, 511, 512, 513)] + [
        (8, 1, 2, 64, 1, 700, 512),
        (6, 6, 1, 32, 2, 900, 1),
    ]
    latents = draw_rows(rng, 5, range(4, 70), (256, 512, 768), (32, 64), (2, 1), range(100, 9000))
    kv += each_changed((20, 64, 2, 72, 2, 77), (21, 128, 64, 128, 0.28125, 200_000))
    window += each_changed((12, 3, 2, 64, 2, 700, 512), (24, 2, 32, 72, 0.28125, 200_000, 600))
    latents += each_changed((27, 512, 64, 2, 4000), (60, 256, 128, 0.28125, 200_000))
    return [
        shown(
            params["model"],
            "values:grouped",
            0,
            [(params["layers"], params["heads"], params["kv"], params["size"], 2, params["tokens"])],
        ),
        shown("every sixth layer keeps all tokens", "values:windows", 1, [(48, 6, 8, 128, 2, 8192, 1024)]),
        shown("a latent vector", "values:latent", 2, [(61, 512, 64, 2, 4096)]),
        plain("grouped", 0, "other models", [*kv, (20, 16, 16, 64, 2, 77), (3, 8, 1, 128, 0.5, 1)]),
        plain("windows", 1, "other models", window),
        plain("latent", 2, "other models", latents),
        generality("windows", 1, "sequences around the window's length", short),
    ]


# --- quantization


def quantized(x: Tensor, bits: int, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Codes as whole numbers in x's dtype, scale and low, as the card asks for."""
    low = x.amin(dim, keepdim=True)
    scale = (x.amax(dim, keepdim=True) - low) / (2**bits - 1)
    return ((x - low) / torch.where(scale > 0, scale, 1)).round(), scale, low


def _other_codes(x: Tensor, bits: int, dim: int) -> list[tuple[str, Tensor, str]]:
    """Codes that known mistakes lead to."""
    low, high, most = x.amin(dim, keepdim=True), x.amax(dim, keepdim=True), 2**bits
    steps = (x - low) / torch.where(high > low, (high - low) / (most - 1), 1)
    away, wide = (x - low) / torch.where(high > low, high - low, 1), x.abs().amax(dim, keepdim=True)
    other = (dim % x.dim() + 1) % x.dim()
    one = quantized(x.reshape(-1), bits, 0)[0].reshape(x.shape)
    zero = (x / wide * max(most // 2 - 1, 1)).round()
    return [
        ("cut-off", steps.floor(), "the distance is rounded down, not to the nearest whole number."),
        ("one-group", one, "all of `x` is one group; each index outside `dim` has one of its own."),
        ("one-code-too-many", (away * most).round().clamp(max=255), "codes begin at 0, so the largest is 2^bits − 1."),
        ("around-zero", zero, "codes count from the least number of the group, not from zero."),
        ("other-dimension", quantized(x, bits, other)[0], "the groups lie along another dimension than `dim`."),
    ]


def _quantize_fault(row: Sequence[Any], got: Sequence[Any]) -> Fault | None:
    x, bits, dim = row
    codes, scale, low = quantized(x, bits, dim)
    for name, mine, want in (("codes", got[0], codes.to(torch.uint8)), ("scale", got[1], scale), ("low", got[2], low)):
        if fault := kind_fault(f"`{name}`", mine, want):
            return fault
    mine, rel = got[0].to(x.dtype), 1e-5 if x.dtype == torch.float32 else 1e-10
    near = [close(one, two, rel, float(x.abs().max())) for one, two in ((got[1], scale), (got[2], low))]
    off = ((x - low) / torch.where(scale > 0, scale, 1) - mine).abs().max().item()
    if all(near) and off <= 0.5 + 2**bits * rel and not mine[(scale == 0).expand_as(x)].any():
        return None
    for name, other, message in _other_codes(x, bits, dim):
        if not torch.equal(other, codes) and torch.equal(mine, other.nan_to_num().to(torch.uint8).to(x.dtype)):
            return name, message
    if not near[1]:
        return "wrong-low", "`low` is not the least number of each group."
    if not near[0]:
        return "wrong-scale", "`scale` is not (largest − least) / (2^bits − 1) of each group."
    return "wrong-codes", "scale and low are right, and some codes are not the nearest whole numbers."


def _restore_fault(row: Sequence[Any], got: Tensor) -> Fault | None:
    codes, scale, low = row
    want = codes.to(scale.dtype) * scale + low
    if fault := kind_fault("the restored tensor", got, want):
        return fault
    rel, size = 1e-5 if want.dtype == torch.float32 else 1e-10, float(low.abs().max())
    if close(got, want, rel, size):
        return None
    if close(got, want - low, rel, size):
        return "no-low", "`low` is missing: codes count from it."
    return "other-numbers", "a code stands for low + code · scale."


def _some(coin: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers whose channels, the last dimension, differ in size and in their middle."""
    wide = torch.exp(normal(coin, shape[-1], dtype=dtype))
    return normal(coin, *shape, dtype=dtype) * wide + 3 * normal(coin, shape[-1], dtype=dtype)


def _quantize_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)
    equal = _some(coin, 5, 6)
    equal[:, 2], equal[3] = 1.25, -0.1
    several = [(_some(coin, 2, 7, 5), bits, dim) for bits, dim in ((8, -2), (3, 1), (4, 2), (5, -1), (2, 0))]
    shapes = ((12,), 3, 0), ((4, 1), 2, -1), ((1, 4), 1, 1), ((40, 3), 7, 0), ((9, 3), 1, 0), ((12,), 3, 0)
    odd = [(_some(coin, *shape), bits, dim) for shape, bits, dim in shapes]
    odd += [
        (_some(coin, 6, 9).T * 1e6, 4, 0),
        (_some(coin, 6, 9) * 1e-25, 4, 0),
        (_some(coin, 2, 3, 2, 2, 5, dtype=torch.float64), 6, -4),
    ]
    flat = [(equal, 4, 0), (equal, 8, 1), (torch.zeros(3, 4), 2, 0)]
    restored = []
    for x, bits, dim in [*several, (equal, 4, 0), *odd[-2:]]:
        codes, scale, low = quantized(x, bits, dim)
        restored.append((codes.to(torch.uint8), scale, low))
    return [
        shown("keys of one head by channel", "values:codes", 0, [(_some(coin, 6, 4), params["bits"], 0)]),
        shown("back to numbers", "values:restored", 1, restored[:1]),
        hidden("keys by channel and values by token", "values:codes", 0, several),
        hidden("back to numbers, other shapes", "values:restored", 1, restored),
        hidden("groups of equal numbers", "generality:edges", 0, flat),
        hidden("other shapes, one bit, eight bits", "generality:edges", 0, odd),
    ]


def _quantize_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    check = (_quantize_fault, _restore_fault)[case.args[0]]
    return judged(case, first(*map(check, case.args[1], outcome.value)), named=True)


MEMORY = {
    "kv-cache-bytes": Judging(
        shares=shares(grouped=(0.5, 0), windows=(0.125, 0.125), latent=(0.25, 0)),
        cases=_byte_cases,
        verdicts=table(KV, WINDOW, LATENT),
        why="""Attention reads a key and a value of each earlier token, in each layer and for each KV head. Query heads need no cache: a query is used once. Grouped-query attention
divides the cache by the query heads that share a key, a window bounds it, and a latent vector replaces all heads' keys and values.""",
        pytorch="`model.config.num_key_value_heads` of a Hugging Face model; `DynamicCache` and `StaticCache` hold these tensors.",
    ),
    "quantize-kv": Judging(
        shares="values:codes 0.4, values:restored 0.25, generality:edges 0.35",
        cases=_quantize_cases,
        verdicts=_quantize_verdicts,
        why="""The error of a group is half its scale, and its scale follows from its largest and its least number. A channel of keys with large numbers spoils only its own
group if groups lie along the tokens. Along the channels it would set the scale of every token.""",
        pytorch='`QuantizedCache` in transformers quantizes keys and values in groups in this way, as KIVI proposed; vLLM\'s `kv_cache_dtype="fp8"` keeps one scale a tensor or head.',
    ),
}
