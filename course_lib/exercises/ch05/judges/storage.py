"""Judges of chapter 05's bf16 weights: rounding over all noises, a step that decays, compensated steps."""

import math
import random
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch05.cards.storage import DROPPED
from course_lib.exercises.ch05.probes import CHANGED
from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import close, coin_of, kind_fault
from course_lib.records import Case

# --- stochastic-rounding


def bits_of(x: Tensor) -> Tensor:
    """The bits of fp32 numbers without the sign, as int64."""
    return x.contiguous().view(torch.int32).long() & 0x7FFFFFFF


def ups(x: Tensor, dropped: int) -> Tensor:
    """How many of the 2**dropped noises must round each number away from zero."""
    return bits_of(x) % 2**dropped


NANS = torch.tensor([0x7FFFFFFF, -1, 0x7F800001], dtype=torch.int32)
"""Bits of NaN that a carry, or cutting the lower bits off, turns into zero or infinity; the first is what GPUs write."""


def _noise_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, dropped = coin_of(rng), DROPPED[params["format"]]

    def near(low: float, high: float, count: int = 3) -> Tensor:
        """Positive numbers, even on a logarithmic scale."""
        return torch.exp(torch.rand(count, generator=coin) * (math.log(high) - math.log(low)) + math.log(low))

    unit, least = 2.0 ** -(23 - dropped), 2.0**-23
    edges = torch.tensor([1 + least, 2 - least, 1 + unit / 2 - least])
    even = torch.tensor([1.0, -0.375, 0.0, 2.0**-130])
    below = torch.tensor([2 - unit / 8, -(1 - unit / 16), -1 - least])
    special = torch.tensor([math.inf, -math.inf, math.nan, 1.0])
    ends = torch.cat([near(2.0**-147, 2.0**-134, 1), near(1e38, 3.38e38, 1)])
    cases = [
        shown("1.3 and 3/4 of a spacing above 1", "values:mean", torch.tensor([1.3, 1 + 0.75 * unit])),
        hidden("positive numbers", "values:mean", near(1e-6, 1e6)),
        hidden("negative numbers", "generality:signs", -near(1e-6, 1e6)),
        hidden("next to a power of two", "generality:signs", below),
        hidden("probabilities next to 0, 1/2 and 1", "values:mean", edges),
        hidden("numbers of the format", "values:kept", even),
        hidden("infinities and NaN", "generality:special", special),
        hidden("NaN in other bit patterns", "generality:special", NANS.view(torch.float32)),
        hidden(
            "subnormal numbers, and large ones", "generality:special", torch.cat([near(2.0**-132, 2.0**-127, 2), ends])
        ),
    ]
    return [replace(case, args=(*case.args, dropped)) for case in cases]


def noise_fault(params: Params, case: Case, got: Any) -> Fault | None:
    """What is wrong with numbers that were rounded with every noise, a column a number."""
    x, dropped = case.args
    if type(got) is str and got == CHANGED:
        return "changed", "x or noise itself was changed; make a new tensor."
    other = params["format"] == "tf32"
    public = "public-form", "this solves the public form of the exercise, for bf16."
    if other and isinstance(got, Tensor) and got.dtype == torch.bfloat16:
        return public
    if fault := kind_fault("The result", got, x.expand(2**dropped, -1).to(torch.float32 if other else torch.bfloat16)):
        return fault
    columns = list(zip(x, got.float().unbind(1), strict=True))
    if fault := next(filter(None, (_neighbor_fault(value, column, dropped) for value, column in columns)), None):
        lower = bits_of(got.float()) % 2 ** DROPPED["bf16"]
        return public if other and fault[0] == "not-a-neighbor" and not lower.any() else fault
    finite = [(value, column) for value, column in columns if value.isfinite()]
    away = [int((bits_of(column) > bits_of(value) - ups(value, dropped)).sum()) for value, column in finite]
    return _share_fault([value for value, _ in finite], away, dropped)


def _neighbor_fault(value: Tensor, got: Tensor, dropped: int) -> Fault | None:
    """A number that becomes something else than one of its two neighbors in the format, or than itself where it is special."""
    told = f"{value.item():.6g}"
    if value.isnan():
        return None if got.isnan().all() else ("lost-nan", "NaN does not stay NaN with every noise.")
    if value.isinf():
        return None if bool((got == value).all()) else ("lost-infinity", f"{told} does not stay as it is.")
    below, steps = bits_of(value) - ups(value, dropped), bits_of(got)
    if bool(((steps != below) & (steps != below + 2**dropped)).any()):
        return "not-a-neighbor", f"{told} becomes a number that is neither of its two neighbors in the format."
    if bool(((got != 0) & (got.sign() != value.sign())).any()):
        return "other-sign", f"{told} changes its sign with some noise."
    return None


def _share_fault(values: list[Tensor], away: list[int], dropped: int) -> Fault | None:
    """A number that is rounded away from zero with too many or too few noises; a cause is named only if it explains all numbers."""
    want, every = [int(ups(value, dropped)) for value in values], 2**dropped
    if away == want:
        return None
    place = next(at for at, (one, two) in enumerate(zip(away, want, strict=True)) if one != two)
    told = f"{values[place].item():.9g}"
    if want[place] == 0:
        return "moved", f"{told} is a number of the format, and some noise changes it."
    if away == [every * (2 * one > every) for one in want]:
        return "nearest", "every number is rounded to nearest, whatever the noise is."
    if not any(away):
        return "cut-off", "the lower bits are cut off, whatever the noise is."
    if away == [(every - one) * (one > 0) for one in want]:
        return "reversed", f"{told} is rounded away from zero as often as it should be rounded toward zero."
    side = "often" if away[place] > want[place] else "rarely"
    return "biased", f"{told} is rounded away from zero too {side}, so the mean over all noises is not the number."


# --- decay-that-never-happens


def _decay_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(rate: float, decay: float, size: float = 1.0, count: int = 6) -> tuple[Any, ...]:
        weight = (torch.randn(count, generator=coin) * size).bfloat16()
        return weight, torch.randn(count, generator=coin), rate, decay

    still = torch.tensor([1.0, -3.0, 0.5]).bfloat16(), torch.zeros(3), 1e-3, 0.01
    zero = torch.tensor([0.0, 2.0]).bfloat16(), torch.tensor([5.0, -7.0]), 0.5, 1.5
    return [
        shown(
            f"rate {params['rate']:g}, decay {params['decay']:g}", "values:step", *data(params["rate"], params["decay"])
        ),
        hidden("no direction, decay 0.01", "values:step", *still),
        hidden("no decay", "generality:sizes", *data(1e-3, 0.0)),
        hidden("large weights", "generality:sizes", *data(1e-4, 0.05, 300.0)),
        hidden("small weights", "generality:sizes", *data(1e-2, 0.3, 1e-3)),
        hidden("a decay that bf16 resolves", "generality:sizes", *data(0.1, 0.5)),
        hidden("a weight of zero", "generality:sizes", *zero),
    ]


LOST = "the weights do not decay: the decay is missing, or is rounded away in bf16 before the update is subtracted."


def decay_fault(case: Case, got: Any) -> Fault | None:
    """What is wrong with the number that was rounded, or with how often."""
    weight, direction, rate, decay = case.args
    if got["changed"] is not False:
        return "changed", "a given tensor was changed; make new ones."
    w, d = weight.double(), direction.double()
    want = w * (1 - rate * decay) - rate * d
    calls = got["rounded"]
    if len(calls) != 1:
        name = "rounded-again" if calls else "not-stochastic"
        return name, f"`stochastic_round` was called {len(calls)} times; round once a step."
    if fault := kind_fault("What was to be rounded", calls[0], want.float(), "Compute in fp32 before rounding."):
        return fault
    if fault := kind_fault("The new weight", got["weight"], weight, "The state stays bf16."):
        return fault
    if not close(got["weight"], calls[0].bfloat16(), 1e-9):
        told = "the rounded weights were changed, or were not returned; rounding is the last operation."
        return "rounded-again", told
    sent, change = calls[0].double(), want - w
    if bool(((sent - w - change).abs() <= 1e-3 * change.abs() + 3e-7 * w.abs() + 1e-12).all()):
        return None
    for name, value, message in (
        ("decay-lost", w - rate * d, LOST),
        ("decay-lost", (weight * (1 - rate * decay)).double() - rate * d, LOST),
        ("coupled", w - rate * decay * d, "the decay multiplies the direction; it belongs to the weight."),
        ("update-lost", w * (1 - rate * decay), "the weights decay, and the update is missing."),
        ("decay-without-rate", w * (1 - decay) - rate * d, "the decay is not multiplied by the rate."),
        (
            "direction-in-bf16",
            want + rate * (d - direction.bfloat16().double()),
            "the direction was rounded to bf16 first.",
        ),
    ):
        if bool(((sent - value).abs() <= 3e-7 * (w.abs() + rate)).all()):
            return name, message
    return "other-numbers", "the number that was rounded is not weight · (1 − rate · decay) − rate · direction."


# --- kahan-weights

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


STORAGE = {
    "stochastic-rounding": Judging(
        shares={"values:mean": 0.375, "values:kept": 0.125, "generality:signs": 0.25, "generality:special": 0.25},
        cases=_noise_cases,
        verdicts=lambda params, case, outcome: judged(case, noise_fault(params, case, outcome.value), named=True),
        why="""The dropped bits, as a whole number, say how far the number lies beyond its neighbor toward zero. Exactly that many noises carry
into the bits that stay. Sign and magnitude are stored apart, so the same carry serves negative numbers.""",
        pytorch="Optimizers of `torchao` offer `bf16_stochastic_round=True` and use this addition; PyTorch's own optimizers keep fp32 weights instead.",
    ),
    "decay-that-never-happens": Judging(
        shares={"values:step": 0.5, "generality:sizes": 0.5},
        cases=_decay_cases,
        verdicts=lambda params, case, outcome: judged(case, decay_fault(case, outcome.value), named=True),
        why="""Near 1, bf16 has spacings of 1/256 and 1/128, and a decay of 0.00001 is far below half of one. Rounding to nearest undoes it in every
step. Everything that changes a weight belongs into one fp32 expression that is rounded once.""",
        pytorch="`torch.optim.AdamW` on fp32 parameters has no such rounding; on bf16 parameters `param.mul_(1 - lr * weight_decay)` loses it too.",
    ),
    "kahan-weights": Judging(
        shares={"values:sum": 0.5, "generality:updates": 0.5},
        cases=_kahan_cases,
        verdicts=lambda params, case, outcome: judged(case, kahan_fault(case, outcome.value), named=True),
        why="""What rounding loses is at most half the spacing, and bf16 holds a number of that size with eight binary digits of its own. Weight and loss together
carry about 16 binary digits in 4 bytes: 2 bytes a parameter less than a master copy.""",
        pytorch="`torch.optim` has no such option; `optimi` and other libraries offer Kahan summation for bf16 parameters.",
    ),
}
