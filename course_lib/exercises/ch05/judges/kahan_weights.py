"""Judge of kahan-weights: carry what was lost."""

import random
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch05.probes import CHANGED
from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import coin_of, kind_fault
from course_lib.records import Case

COARSE = 2.0**-7  # of the sum of the updates: each of them is within a rounding of bf16
FINE = 2.0**-16  # of the largest weight, for each step: what bf16 cannot hold of a loss


def _kahan_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def updates(steps: int, size: float, drift: float, count: int = 5) -> list[Tensor]:
        return list((torch.randn(steps, count, generator=coin) * (1 - abs(drift)) + drift) * size)

    def weights(size: float = 1.0, count: int = 5) -> Tensor:
        return (torch.randn(count, generator=coin).sign() * (1 + torch.rand(count, generator=coin)) * size).bfloat16()

    large, nothing = weights(300.0, 6).reshape(2, 3), weights(1e-4) * torch.tensor([1, 0, 1, 1, 1])
    return [
        shown(
            f"{params['steps']} updates of {params['update']:g}",
            "values:sum",
            torch.tensor([1.0, -1.0, 0.25]).bfloat16(),
            [torch.full((3,), params["update"])] * params["steps"],
        ),
        hidden("one large update", "values:sum", weights(), updates(1, 0.3, 0.0)),
        hidden("a matrix", "generality:updates", large, [each.reshape(2, 3) for each in updates(40, 0.3, 0.5, 6)]),
        hidden("small weights", "generality:updates", weights(1e-4), updates(100, 1e-7, 0.8)),
        hidden("200 updates that drift", "values:sum", weights(), updates(200, 3e-4, 0.8)),
        hidden("200 updates back and forth", "generality:updates", weights(), updates(200, 1e-3, 0.0)),
        hidden(
            "updates that carry a weight through zero", "generality:updates", weights(0.01), updates(150, 3e-4, -0.9)
        ),
        hidden("updates much larger than the weight", "generality:updates", nothing.bfloat16(), updates(20, 1.0, 0.3)),
        hidden("no update at all", "generality:updates", weights(), [torch.zeros(5)] * 3),
    ]


def kahan_fault(case: Case, got: Any) -> Fault | None:
    """What is wrong with the weights after each step; the oracle is the sum in float64."""
    start, updates = case.args
    if type(got) is str and got == CHANGED:
        return "changed", "a given tensor was changed; return new ones."
    if (
        type(got) is not list
        or len(got) != len(updates)
        or any(type(pair) is not list or len(pair) != 2 for pair in got)
    ):
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
            return _drift(start, got, updates, exact, step)
        spacing = torch.ldexp(torch.ones_like(held), torch.frexp(held).exponent - 8)
        if bool(((weight.double() - held).abs() > 0.51 * spacing + 1e-12).any()):
            return (
                "not-nearest",
                f"step {step + 1}: the weight is not the bf16 number nearest to weight + lost + update.",
            )
        before = (weight, lost)
    return None


def _drift(start: Tensor, got: Any, updates: list[Tensor], exact: Tensor, step: int) -> Fault:
    weight, lost = (each.double() for each in got[step])
    wrong = (weight - lost - exact).abs().max() < (weight + lost - exact).abs().max() / 8
    plain = start
    for update in updates[: step + 1]:
        plain = (plain.float() + update).bfloat16()
    where = f"after step {step + 1}"
    if bool((lost == 0).all()) and torch.equal(plain, got[step][0]):
        return "not-carried", f"{where}, `lost` is zero and the weights are those of plain bf16 addition."
    if wrong:
        return "other-sign", f"{where}, weight − lost would be right: `lost` has the other sign."
    if torch.equal(plain, got[step][0]):
        return (
            "not-used",
            f"{where}, the weights are those of plain bf16 addition: what was lost is not added to the next update.",
        )
    return "drifted", f"{where}, weight + lost is further from the exact sum than rounding explains."


JUDGING = Judging(
    shares={"values:sum": 0.5, "generality:updates": 0.5},
    cases=_kahan_cases,
    verdicts=lambda params, case, outcome: judged(case, kahan_fault(case, outcome.value), named=True),
    why="""What rounding loses is at most half the spacing, and bf16 holds a number of that size with eight binary digits of its own. Weight and loss together
carry about 16 binary digits in 4 bytes: 2 bytes a parameter less than a master copy.""",
    pytorch="`torch.optim` has no such option; `optimi` and other libraries offer Kahan summation for bf16 parameters.",
)

ANSWERS = r"""import torch


# %% right: the exact sum in fp32
def kahan_step(weight, lost, update):
    exact = weight + (lost + update)
    new = exact.bfloat16()
    return new, (exact - new).bfloat16()


# %% right: in float64
def kahan_step(weight, lost, update):
    exact = weight.double() + lost.double() + update.double()
    new = exact.float().bfloat16()
    return [new, (exact - new).to(torch.bfloat16)]


# %% wrong: nothing is carried => values not-carried  from: the exact sum in fp32
# ~ (lost + update) ==> update
# ~ (exact - new).bfloat16() ==> torch.zeros_like(lost)

# %% wrong: what is lost is not used => values not-used  from: the exact sum in fp32
# ~ (lost + update) ==> update

# %% wrong: the other sign => values other-sign  from: the exact sum in fp32
# ~ lost + update ==> update - lost
# ~ exact - new ==> new - exact

# %% wrong: the loss in fp32 => values another-kind  from: the exact sum in fp32
# ~ (exact - new).bfloat16() ==> exact - new

# %% wrong: a master copy => values another-kind  from: the exact sum in fp32
# ~ new, (exact - new).bfloat16() ==> exact, torch.zeros_like(lost)


# %% wrong: the update is rounded away => values -
def kahan_step(weight, lost, update):
    new = weight + update.bfloat16()
    return new, lost + (update.bfloat16() - (new - weight))


# %% wrong: all of it stays in the loss => values not-nearest  from: the exact sum in fp32
# ~ new, (exact - new) ==> weight, (lost + update)

# %% wrong: digits are cut off => values not-nearest  from: the exact sum in fp32
# ~ new = exact.bfloat16() ==> new = (exact.view(torch.int32) & -65536).view(torch.float32).bfloat16()

# %% wrong: in place => values changed  from: the exact sum in fp32
# ~ new, (exact - new).bfloat16() ==> weight.copy_(new), lost.copy_((exact - new).bfloat16())

# %% wrong: a master copy is kept from call to call => values -  from: the exact sum in fp32
# ~ def kahan_step(weight, lost, update): ==> def kahan_step(weight, lost, update, kept={}):
# ~ exact = weight + (lost + update) ==> exact = kept[weight.shape] = (kept.get(weight.shape, weight) if lost.any() else weight) + update
"""
