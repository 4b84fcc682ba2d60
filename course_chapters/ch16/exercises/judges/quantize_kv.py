import random
from collections.abc import Sequence

import torch
from torch import Tensor

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Verdict, Worked, first, hidden, judged, shown
from course_grader.judging.tensors import close, coin_of, kind_fault, normal

right = Worked("quantize-kv")


def _quantize_fault(row: tuple[Tensor, int, int], got: Sequence[Tensor]) -> Fault | None:
    x, bits, dim = row
    codes, scale, low = right[0](x, bits, dim)
    for name, mine, want in (("codes", got[0], codes), ("scale", got[1], scale), ("low", got[2], low)):
        if fault := kind_fault(f"`{name}`", mine, want):
            return fault
    mine, rel = got[0].to(x.dtype), 1e-5 if x.dtype == torch.float32 else 1e-10
    near = [close(one, two, rel, float(x.abs().max())) for one, two in ((got[1], scale), (got[2], low))]
    off = ((x - low) / torch.where(scale > 0, scale, 1) - mine).abs().max().item()
    if all(near) and off <= 0.5 + 2**bits * rel and not mine[(scale == 0).expand_as(x)].any():
        return None
    if not near[1]:
        return "wrong-low", "`low` is not the minimum of each group."
    if not near[0]:
        return "wrong-scale", "`scale` is not (maximum − minimum) / (2^bits − 1) of each group."
    return "wrong-codes", "scale and low are right, and some codes are not the nearest whole numbers."


def _restore_fault(row: tuple[Tensor, Tensor, Tensor], got: Tensor) -> Fault | None:
    codes, scale, low = row
    want = codes.to(scale.dtype) * scale + low
    if fault := kind_fault("the restored tensor", got, want):
        return fault
    rel, size = 1e-5 if want.dtype == torch.float32 else 1e-10, float(low.abs().max())
    if close(got, want, rel, size):
        return None
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
    odd += [(_some(coin, 6, 9).T * 1e6, 4, 0), (_some(coin, 6, 9) * 1e-25, 4, 0)]
    odd += [(_some(coin, 2, 3, 2, 2, 5, dtype=torch.float64), 6, -4)]
    flat = [(equal, 4, 0), (equal, 8, 1), (torch.zeros(3, 4), 2, 0)]
    restored = [right[0](x, bits, dim) for x, bits, dim in [*several, (equal, 4, 0), *odd[-2:]]]
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


JUDGING = Judging(
    shares="values:codes 0.4, values:restored 0.25, generality:edges 0.35",
    cases=_quantize_cases,
    verdicts=_quantize_verdicts,
    why="""The error of a group is half its scale, and its scale follows from its maximum and its minimum. A
channel of keys with large numbers spoils only its own group if groups lie along the tokens. Along the channels it would
set the scale of every token.""",
    pytorch="`QuantizedCache` in transformers quantizes keys and values in groups in this way, as KIVI proposed; "
    'vLLM\'s `kv_cache_dtype="fp8"` keeps one scale a tensor or head.',
)

ANSWERS = r'''import itertools
# %% right: worked
def quantize(x: torch.Tensor, bits: int, dim: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes, scale and least number of each group along `dim`."""
    low = x.amin(dim, keepdim=True)
    scale = (x.amax(dim, keepdim=True) - low) / (2**bits - 1)
    codes = ((x - low) / torch.where(scale > 0, scale, 1)).round()
    return codes.to(torch.uint8), scale, low


def restore(codes: torch.Tensor, scale: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    """The numbers that the codes stand for."""
    return codes * scale + low
# %% right: group by group  from: worked
def quantize(x, bits, dim):
    rows = x.movedim(dim, -1)
    codes = torch.zeros_like(rows, dtype=torch.uint8)
    scale = torch.zeros_like(rows[..., :1])
    low = torch.zeros_like(scale)
    for at in itertools.product(*map(range, rows.shape[:-1])):
        low[at] = rows[at].min()
        scale[at] = (rows[at].max() - rows[at].min()) / (2**bits - 1)
        if scale[at] > 0:
            codes[at] = ((rows[at] - low[at]) / scale[at]).round()
    return codes.movedim(-1, dim), scale.movedim(-1, dim), low.movedim(-1, dim)
# %% wrong: cut off => values
# > the distance is rounded down, not to the nearest whole number.
# ~ .round() ==> .floor()
# %% wrong: one group for all => values one-group
# ~ amin(dim, keepdim=True) ==> min()
# ~ amax(dim, keepdim=True) ==> max()
# %% wrong: one group => values
# > all of `x` is one group; numbers form a group only if their indices differ along `dim` alone.
# ~ x.amin(dim, keepdim=True) ==> x.min() + 0 * x.amin(dim, keepdim=True)
# ~ x.amax(dim, keepdim=True) ==> x.max()
# %% wrong: one code too many => values
# > codes begin at 0, so the largest is 2^bits − 1.
# ~ (2**bits - 1) ==> 2**bits
# ~ .round() ==> .round().clamp(max=255)
# %% wrong: around zero => values
# > codes count from the minimum of the group, not from zero.
# ~ ((x - low) / torch.where(scale > 0, scale, 1)).round()
# ~~ ==> (x / x.abs().amax(dim, keepdim=True) * max(2**bits // 2 - 1, 1)).round()
# %% wrong: other dimension => values
# > the groups lie along another dimension than `dim`.
# ~ x.amin(dim, ==> x.amin(dim := (dim % x.dim() + 1) % x.dim(),
# %% wrong: always along the last dimension => values another-kind
# ~ amin(dim ==> amin(-1
# ~ amax(dim ==> amax(-1
# %% wrong: divided by zero => generality wrong-codes
# ~ torch.where(scale > 0, scale, 1)) ==> scale).nan_to_num(7.0)
# %% wrong: a floor under every scale => values wrong-scale
# ~ / (2**bits - 1) ==> .div(2**bits - 1).clamp(min=1e-2)
# %% wrong: a scale that is never small => generality wrong-scale
# ~ / (2**bits - 1) ==> .div(2**bits - 1).clamp(min=1e-8)
# %% wrong: codes as numbers => values another-kind
# ~ codes.to(torch.uint8), ==> codes,
# %% wrong: in place => values changed
# ~ ((x - low) ==> (x.sub_(low)
# %% wrong: remembers a tensor by its shape => generality wrong-low
# ~ low = x.amin(dim, ==> low = (x := quantize.__dict__.setdefault(str((x.shape, x.dtype, bits, dim)), x)).amin(dim,
# %% wrong: no low => values
# > `low` is missing: codes count from it.
# ~ scale + low ==> scale
# %% wrong: restored in fp32 => values other-numbers
# ~ codes * scale + low ==> (codes * scale.float() + low.float()).to(low.dtype)
'''
