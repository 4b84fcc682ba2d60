import torch
from torch import Tensor

from course_grader.exercises.values import is_row, tensors_in
from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, Wrong, describe, hidden, judged, shown
from course_grader.judging.tensors import coin_of, kind_fault

LARGEST = 448.0  # of E4M3
RELATIVE, ABSOLUTE = 2.0**-4, 2.0**-10  # half the spacing of E4M3: of a normal number, and among the subnormal ones

right = Worked("block-scaled")


def _block_cases(params: Params, rng: Random) -> list[Case]:
    coin = coin_of(rng)

    def normal(count: int, size: float = 1.0) -> Tensor:
        return torch.randn(count, generator=coin) * size

    outlier = normal(96, 1e-3)
    outlier[40] = -300.0
    sizes, zeros = normal(64) * 10.0 ** torch.linspace(-6, 6, 64), normal(48)
    zeros[16:32] = 0.0
    powers = torch.tensor([448.0, -3.0, 1.0, 0.5, 7.0, 0.1, -7.0, 2.0])
    return [
        shown("one outlier among 96 numbers, blocks of 32", "values:scales", outlier, 32),
        hidden("negative outliers, blocks of 16", "values:scales", -normal(64).abs() * torch.logspace(-3, 3, 64), 16),
        hidden("numbers of all sizes, blocks of 4", "values:numbers", sizes, 4),
        hidden("a block of zeros", "generality:blocks", zeros, 16),
        hidden("a short last block", "generality:blocks", normal(37, 5.0), 8),
        hidden("a block longer than the tensor", "generality:blocks", normal(5), 32),
        hidden("tiny and huge numbers", "generality:blocks", torch.cat([normal(8, 1e-32), normal(8, 1e35)]), 8),
        hidden("blocks of one number", "generality:blocks", normal(100), 1),
        hidden("blocks whose largest number is 448 or 7 times a power of two", "generality:blocks", powers, 4),
    ]


def block_fault(case: Case, got: object) -> Fault | None:
    x, block = case.args
    if not is_row(got) or len(got) != 2:
        return "wrong-shape", f"return (values, scales); got {describe(got)}."
    want = right.value(case)[1]
    if isinstance(got[1], Tensor) and got[1].numel() == 1 < len(want):
        return "per-tensor", "there is one scale for the whole tensor; each block has its own."
    for name, one, like in (("`values`", got[0], x), ("`scales`", got[1], want)):
        if fault := kind_fault(name, one, like):
            return fault
    rounded, given = tensors_in(got)
    values, scales = rounded.double(), given.double()
    if fault := _scale_fault(x, block, given, want):
        return fault
    if values.isnan().any():
        return "overflow", "some values are NaN: a quotient is beyond the range of E4M3, or zero was divided by zero."
    if not torch.equal(rounded.clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn).float(), rounded):
        told = "some values are no E4M3 numbers; return what `round_e4m3` returns, not multiplied by the scale."
        return "not-e4m3", told
    each = scales.repeat_interleave(block)[: len(x)]
    allowed = torch.maximum(RELATIVE * x.double().abs(), ABSOLUTE * each) * (1 + 1e-5)
    if bool(((values * each - x.double()).abs() > allowed).any()):
        told = "values times scales are further from x than rounding to E4M3 explains."
        return "too-far", f"{told} Does each block use its own scale?"
    return None


def _scale_fault(x: Tensor, block: int, got: Tensor, want: Tensor) -> Fault | None:
    def same(scales: Tensor) -> bool:
        return torch.allclose(got, scales, rtol=1e-6, atol=0)

    if same(want):
        return None
    filled = torch.tensor([bool(part.any()) for part in x.split(block)])
    if same(torch.where(filled, want, got)):
        return "zero-block", "only the scale of a block of zeros is wrong; it is 1."
    if not got.isfinite().all() or bool((got <= 0).any()):
        return "zero-block", "a scale is zero, negative or not finite. Take the largest absolute value of the block."
    return Wrong("other-scales", "the scales are not those of the rule.", where=(1,))


JUDGING = Judging(
    shares={"values:scales": 0.25, "values:numbers": 0.25, "generality:blocks": 0.5},
    cases=_block_cases,
    verdicts=lambda params, case, outcome: judged(case, block_fault(case, outcome.value), named=True),
    why="""A scale moves the largest number of its block to the end of the range, and everything within a factor of
about 2^15 of it stays a normal or nearly normal number. With one scale a block, an outlier costs precision only to the
numbers next to it.""",
    pytorch="`torchao` and Transformer Engine quantize like this; on Blackwell the tensor cores take MX blocks of 32 "
    "with power-of-two scales.",
)

ANSWERS = r'''# %% right: worked
rule = params("block-scaled").rule  # leave as is: "exact", or "power": a power of two


def quantize_blocks(x: torch.Tensor, block: int, round_e4m3) -> tuple[torch.Tensor, torch.Tensor]:
    """(E4M3 numbers in the shape of `x`, one fp32 scale for each block)."""
    values, scales = [], []
    for part in x.split(block):
        top = part.abs().max().item()
        scale = torch.tensor(top / 448 if top else 1.0)
        if rule == "power" and top:
            scale = torch.tensor(2.0 ** math.ceil(math.log2(top / 448)))  # rounded up: nothing may exceed 448
        values.append(round_e4m3(part / scale))
        scales.append(scale)
    return torch.cat(values), torch.stack(scales)
# %% right: in rows
def quantize_blocks(x, block, round_e4m3):
    rows = torch.nn.functional.pad(x, (0, -len(x) % block)).view(-1, block)
    scales = rows.abs().amax(1) / 448.0
    scales = scales.masked_fill(scales == 0, 1.0)
    if params("block-scaled").rule == "power":
        half, power = torch.frexp(scales)  # half is in [1/2, 1)
        scales = torch.ldexp(torch.ones_like(scales), power - (half == 0.5).int())
    values = round_e4m3(rows / scales[:, None]).reshape(-1)[: len(x)]
    return [values, scales]
# %% wrong: per tensor => values
# > all blocks have the scale of the largest number of the tensor.
# ~ top = part.abs() ==> top = x.abs()
# %% wrong: one number for the tensor => values per-tensor
# ~ torch.cat(values), torch.stack(scales) ==> round_e4m3(x / max(scales)), max(scales).reshape(1)
# %% wrong: inverted => values
# > these are the inverses; a scale is what the values are multiplied by.
# ~ scales.append(scale) ==> scales.append(1 / scale)
# %% wrong: with its sign => values signed
# > this is the largest value with its sign; a negative number can be the largest in size.
# ~ part.abs().max() ==> part.max()
# %% wrong: not divided => values
# > this is the largest value itself; divide it by 448.
# ~ torch.tensor(top / 448 if top else 1.0) ==> torch.tensor(top if top else 1.0)
# ~ log2(top / 448) ==> log2(top)
# %% wrong: it reaches 240 => values other-largest
# > this divides by 240; E4M3 reaches 448.
# ~ torch.tensor(top / 448 ==> torch.tensor(top / 240
# ~ log2(top / 448) ==> log2(top / 240)
# %% wrong: rounded down => values
# > the power of two is too small, so that the largest quotient is beyond 448.
# ~ rule == "power" and top ==> top
# ~ math.ceil ==> math.floor
# %% wrong: nearest power => values
# > the power of two is the nearest one, and may be too small.
# ~ rule == "power" and top ==> top
# ~ math.ceil ==> round
# %% wrong: powers of two => values other-rule unless rule=power
# > the scales follow the other rule: these are powers of two.
# ~ rule == "power" and top ==> top
# %% wrong: the public form => values public-form unless rule=exact
# > this solves the public form of the exercise: the scales are not rounded to powers of two.
# ~ rule == "power" and top ==> not rule
# %% wrong: a block of zeros divides by zero => generality zero-block
# ~ 448 if top else 1.0 ==> 448
# %% wrong: a block of zeros has a tiny scale => generality zero-block
# ~ 448 if top else 1.0 ==> 448 if top else 1e-12
# %% wrong: tiny blocks count as zeros => generality other-scales
# ~ top = part.abs().max().item() ==> top = part.abs().max().item() * (part.abs().max().item() > 1e-30)
# %% wrong: the values are scaled back => values not-e4m3
# ~ round_e4m3(part / scale) ==> round_e4m3(part / scale) * scale
# %% wrong: nothing is rounded => values not-e4m3
# ~ round_e4m3(part / scale) ==> part / scale
# %% wrong: the neighbor's scale => values too-far
# ~ return torch.cat(values)
# ~~ ==> return round_e4m3((x / torch.stack(scales).roll(1).repeat_interleave(block)[: len(x)]).clamp(-448, 448))
# %% wrong: the last block is dropped => generality another-kind
# ~ x.split(block) ==> x[: max(1, len(x) // block) * block].split(block)
# %% wrong: x is scaled in place => values changed
# ~ round_e4m3(part / scale) ==> round_e4m3(part.div_(scale))
'''
