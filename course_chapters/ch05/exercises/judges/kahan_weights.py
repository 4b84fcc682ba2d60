import torch
from torch import Tensor

from course_grader.judging import Case, Fault, Judging, Params, Random, describe, hidden, judged, shown
from course_grader.judging.tensors import coin_of, kind_fault

COARSE = 2.0**-7  # of the sum of the updates: each of them is within a rounding of bf16
FINE = 2.0**-16  # of the largest weight, for each step: what bf16 cannot hold of a loss


def _kahan_cases(params: Params, rng: Random) -> list[Case]:
    coin = coin_of(rng)

    def updates(steps: int, size: float, drift: float, count: int = 5) -> list[Tensor]:
        return list((torch.randn(steps, count, generator=coin) * (1 - abs(drift)) + drift) * size)

    def weights(size: float = 1.0, count: int = 5) -> Tensor:
        return (torch.randn(count, generator=coin).sign() * (1 + torch.rand(count, generator=coin)) * size).bfloat16()

    three, same = torch.tensor([1.0, -1.0, 0.25]).bfloat16(), [torch.full((3,), params["update"])] * params["steps"]
    carried = weights(0.01), updates(150, 3e-4, -0.9)
    large, nothing = weights(300.0, 6).reshape(2, 3), weights(1e-4) * torch.tensor([1, 0, 1, 1, 1])
    return [
        shown(f"{params['steps']} updates of {params['update']:g}", "values:sum", three, same),
        hidden("one large update", "values:sum", weights(), updates(1, 0.3, 0.0)),
        hidden("a matrix", "generality:updates", large, [each.reshape(2, 3) for each in updates(40, 0.3, 0.5, 6)]),
        hidden("small weights", "generality:updates", weights(1e-4), updates(100, 1e-7, 0.8)),
        hidden("200 updates that drift", "values:sum", weights(), updates(200, 3e-4, 0.8)),
        hidden("200 updates back and forth", "generality:updates", weights(), updates(200, 1e-3, 0.0)),
        hidden("updates that carry a weight through zero", "generality:updates", *carried),
        hidden("updates much larger than the weight", "generality:updates", nothing.bfloat16(), updates(20, 1.0, 0.3)),
        hidden("no update at all", "generality:updates", weights(), [torch.zeros(5)] * 3),
    ]


def kahan_fault(case: Case, got: object) -> Fault | None:
    """What is wrong with the weights after each step; the oracle is the sum in float64."""
    start, updates = case.args
    if type(got) is not list or [type(each) is list and len(each) for each in got] != [2] * len(updates):
        return "wrong-shape", f"return (new weight, new lost), two tensors; got {describe(got)}."
    exact, moved, top = start.double(), torch.zeros(start.shape, dtype=torch.float64), start.double().abs()
    before = (start, torch.zeros_like(start))
    for step, (pair, update) in enumerate(zip(got, updates, strict=True)):
        for name, one in zip(("weight", "lost"), pair, strict=True):
            if fault := kind_fault(f"Step {step + 1}: {name}", one, start, "The state takes 2 + 2 bytes a parameter."):
                return fault
            if not one.isfinite().all():
                return "not-finite", f"step {step + 1}: {name} holds NaN or infinity."
        weight, lost = pair
        held = before[0].double() + before[1].double() + update.double()
        exact, moved = exact + update.double(), moved + update.double().abs()
        top = torch.maximum(top, exact.abs())
        allowed = COARSE * moved + FINE * (step + 1) * top + 1e-12
        if bool(((weight.double() + lost.double() - exact).abs() > allowed).any()):
            told = f"after step {step + 1}, weight + lost is further from the exact sum than rounding explains."
            return "drifted", told
        spacing = torch.ldexp(torch.ones_like(held), torch.frexp(held).exponent - 8)
        if bool(((weight.double() - held).abs() > 0.51 * spacing + 1e-12).any()):
            told = f"step {step + 1}: the weight is not the bf16 number nearest to weight + lost + update."
            return "not-nearest", told
        before = (weight, lost)
    return None


JUDGING = Judging(
    shares={"values:sum": 0.5, "generality:updates": 0.5},
    cases=_kahan_cases,
    verdicts=lambda params, case, outcome: judged(case, kahan_fault(case, outcome.value), named=True),
    why="""What rounding loses is at most half the spacing, and bf16 holds a number of that size with eight binary
digits of its own. Weight and loss together carry about 16 binary digits in 4 bytes: 2 bytes a parameter less than a
master copy.""",
    pytorch="`torch.optim` has no such option; `optimi` and other libraries offer Kahan summation for bf16 parameters.",
)

ANSWERS = r'''# %% right: worked
def kahan_step(weight: torch.Tensor, lost: torch.Tensor, update: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(new weight, what its rounding lost), both bf16; `update` is fp32."""
    exact = weight.float() + (lost.float() + update)
    new = exact.bfloat16()
    return new, (exact - new.float()).bfloat16()
# %% right: in float64
# ~ weight.float() + (lost.float() + update) ==> weight.double() + lost.double() + update.double()
# ~ new = exact.bfloat16() ==> new = exact.float().bfloat16()
# ~ (exact - new.float()).bfloat16() ==> (exact - new).bfloat16()
# %% wrong: not carried => values
# > `lost` is zero, and the weights are those of plain bf16 addition.
# ~ (lost.float() + update) ==> update
# ~ (exact - new.float()).bfloat16() ==> torch.zeros_like(lost)
# %% wrong: not used => values
# > the weights are those of plain bf16 addition: what was lost is not added to the next update.
# ~ (lost.float() + update) ==> update
# %% wrong: other sign => values
# > weight − lost would be right: `lost` has the other sign.
# ~ lost.float() + update ==> update - lost.float()
# ~ exact - new.float() ==> new.float() - exact
# %% wrong: lost is subtracted => values
# > `lost` is right, but it is subtracted from the next update and not added.
# ~ lost.float() + update ==> update - lost.float()
# %% wrong: the update is rounded away => generality
# > the update was rounded to bf16 before it was added; what that lost is in neither result.
# ~ lost.float() + update ==> lost.float() + update.bfloat16()
# %% wrong: all of it stays in the loss => values
# > the weight stays as it was, and `lost` collects all updates.
# ~ new = exact.bfloat16() ==> new = weight.clone()
# %% wrong: digits are cut off => values
# > digits of the new weight are cut off; round it to the nearest number.
# ~ new = exact.bfloat16() ==> new = (exact.view(torch.int32) & -65536).view(torch.float32).bfloat16()
# %% wrong: the loss in fp32 => values another-kind
# ~ (exact - new.float()).bfloat16() ==> exact - new.float()
# %% wrong: a master copy => values master-copy
# > the new weight is a master copy in fp32; the state is bf16 and what rounding lost.
# ~ new, (exact - new.float()).bfloat16() ==> exact, torch.zeros_like(lost)
# %% wrong: in place => values changed
# ~ new, (exact - new.float()).bfloat16() ==> weight.copy_(new), lost.copy_((exact - new.float()).bfloat16())
# %% wrong: a master copy is kept from call to call => values not-used
# ~ update: torch.Tensor) -> ==> update: torch.Tensor, kept={}) ->
# ~ exact = weight.float() + (lost.float() + update)
# ~~ ==> exact = kept[weight.shape] = (kept.get(weight.shape, weight) if lost.any() else weight) + update
'''
