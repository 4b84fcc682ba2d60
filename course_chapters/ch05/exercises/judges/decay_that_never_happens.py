from collections.abc import Sequence

import torch
from torch import Tensor

from course_grader.judging import Case, Fault, Judging, Params, Random, hidden, judged, shown
from course_grader.judging.tensors import close, coin_of, kind_fault


def _decay_cases(params: Params, rng: Random) -> list[Case]:
    coin, rate, decay = coin_of(rng), params["rate"], params["decay"]

    def data(rate: float, decay: float, size: float = 1.0, count: int = 6) -> tuple[object, ...]:
        weight = (torch.randn(count, generator=coin) * size).bfloat16()
        return weight, torch.randn(count, generator=coin), rate, decay

    still = torch.tensor([1.0, -3.0, 0.5]).bfloat16(), torch.zeros(3), 1e-3, 0.01
    zero = torch.tensor([0.0, 2.0]).bfloat16(), torch.tensor([5.0, -7.0]), 0.5, 1.5
    return [
        shown(f"rate {rate:g}, decay {decay:g}", "values:step", *data(rate, decay)),
        hidden("no direction, decay 0.01", "values:step", *still),
        hidden("no decay", "generality:sizes", *data(1e-3, 0.0)),
        hidden("large weights", "generality:sizes", *data(1e-4, 0.05, 300.0)),
        hidden("small weights", "generality:sizes", *data(1e-2, 0.3, 1e-3)),
        hidden("a decay that bf16 resolves", "generality:sizes", *data(0.1, 0.5)),
        hidden("a weight of zero", "generality:sizes", *zero),
    ]


def decay_fault(case: Case, weight: object, rounded: Sequence[Tensor]) -> Fault | None:
    old, direction, rate, decay = case.args
    w, d = old.double(), direction.double()
    want = w * (1 - rate * decay) - rate * d
    if len(rounded) != 1:
        name = "rounded-again" if rounded else "not-stochastic"
        return name, f"`stochastic_round` was called {len(rounded)} times; round once a step."
    if fault := kind_fault("What was to be rounded", rounded[0], want.float(), "Compute in fp32 before rounding."):
        return fault
    if fault := kind_fault("The new weight", weight, old, "The state stays bf16."):
        return fault
    if not close(weight, rounded[0].bfloat16(), 1e-9):
        told = "the rounded weights were changed, or were not returned; rounding is the last operation."
        return "rounded-again", told
    sent, change = rounded[0].double(), want - w
    if bool(((sent - w - change).abs() <= 1e-3 * change.abs() + 3e-7 * w.abs() + 1e-12).all()):
        return None
    return "other-numbers", "the number that was rounded is not weight · (1 − rate · decay) − rate · direction."


JUDGING = Judging(
    shares={"values:step": 0.5, "generality:sizes": 0.5},
    cases=_decay_cases,
    verdicts=lambda params, case, outcome: judged(case, decay_fault(case, **outcome.value), named=True),
    why="""Near 1, bf16 has spacings of 1/256 and 1/128, and a decay of 0.00001 is far below half of one. Rounding to
nearest undoes it in every step. Everything that changes a weight belongs into one fp32 expression that is rounded
once.""",
    pytorch="`torch.optim.AdamW` on fp32 parameters has no such rounding; on bf16 parameters `param.mul_(1 - lr * "
    "weight_decay)` loses it too.",
)

ANSWERS = r'''# %% right: worked
def adamw_step(weight, direction, rate, decay, stochastic_round):
    """The new bf16 weight: decayed and updated in fp32, and rounded once."""
    wide = weight.float()
    return stochastic_round(wide * (1 - rate * decay) - rate * direction)
# %% right: one change
# ~ wide * (1 - rate * decay) - rate * direction ==> torch.add(wide, -rate * (decay * wide + direction))
# %% wrong: decay lost => values  from: the card
# > the weights do not decay: the product is rounded back to the old weight in bf16, before the update is subtracted.
# %% wrong: no decay => values
# > the weights do not decay: the decay is missing.
# ~ wide * (1 - rate * decay) ==> wide
# %% wrong: decay without rate => values
# > the decay is not multiplied by the rate.
# ~ rate * decay ==> decay
# %% wrong: coupled => values
# > the decay multiplies the direction; it belongs to the weight.
# ~ wide * (1 - rate * decay) - rate * direction ==> wide - rate * decay * direction
# %% wrong: update lost => values
# > the weights decay, and the update is missing.
# ~ - rate * direction) ==> )
# %% wrong: direction in bf16 => values
# > the direction was rounded to bf16 first.
# ~ rate * direction ==> rate * direction.bfloat16().float()
# %% wrong: the factor in bf16 => values
# > the factor 1 − rate · decay was rounded to bf16, which has no number so close to 1.
# ~ (1 - rate * decay) ==> torch.tensor(1 - rate * decay).bfloat16().float()
# %% wrong: rounded twice => values rounded-again
# ~ wide * (1 - rate * decay) ==> stochastic_round(wide * (1 - rate * decay)).float()
# %% wrong: rounded to nearest => values not-stochastic
# ~ return stochastic_round(wide * (1 - rate * decay) - rate * direction)
# ~~ ==> return (wide * (1 - rate * decay) - rate * direction).bfloat16()
# %% wrong: bf16 is rounded => values another-kind
# ~ (wide * (1 - rate * decay) - rate * direction) ==> ((wide * (1 - rate * decay) - rate * direction).bfloat16())
# %% wrong: in place => values changed
# ~ - rate * direction ==> - direction.mul_(rate)
# %% wrong: fp32 comes back => values another-kind
# ~ - rate * direction) ==> - rate * direction).float()
# %% wrong: the given weight is overwritten => values changed
# ~ return stochastic_round(wide * (1 - rate * decay) - rate * direction)
# ~~ ==> return weight.copy_(stochastic_round(wide * (1 - rate * decay) - rate * direction))
'''
