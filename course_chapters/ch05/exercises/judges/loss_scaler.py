import math
from dataclasses import replace

import torch
from torch import Tensor

from course_chapters.ch05.exercises.probes import RESCALED
from course_grader.exercises.values import is_number, is_row
from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, describe, judged
from course_grader.judging.cases import Maker, hidden, shown
from course_grader.judging.tensors import close, coin_of, kind_fault
from course_lib.messages import count_text

right = Worked("loss-scaler")


def _scaler_cases(params: Params, rng: Random) -> list[Case]:
    coin = coin_of(rng)

    def half(*shape: int, size: float = 1.0) -> Tensor:
        return (torch.randn(shape, generator=coin) * size).half()

    def run(name: str, share: str, start: float, interval: int, text: str, make: Maker = hidden) -> Case:
        return make(name, share, "run", start, interval, [letter == "x" for letter in text])

    def unscale(name: str, share: str, start: float, given: list[Tensor], text: str = "", interval: int = 2000) -> Case:
        return hidden(name, share, "unscale", start, interval, given, [letter == "x" for letter in text])

    def spoilt(value: float) -> list[Tensor]:
        gradients = [half(5), half(3, 2), half(4)]
        gradients[1][1, 0] = value
        return gradients

    drawn = [(f"60 steps, run {at}", "".join(rng.choice("...x") for _ in range(60))) for at in range(3)]
    two, small = [half(4), half(2, 3)], half(9, size=1e-3)
    after = [(some, text) for some in (0, 1, 2) for text in ("x", "xx..")]
    told = [(f"{count_text(some, 'tensor')} after {count_text(len(text), 'step')}", some, text) for some, text in after]
    return [
        run("ten steps, one overflow", "values:run", 1024.0, 3, "..x.......", shown),
        replace(unscale("two tensors at a scale of 1,024", "values:unscale", 1024.0, two), visible=True),
        run("a clean run", "values:run", 2.0**10, 4, "." * 14),
        run("overflows in between", "values:run", 2.0**16, 3, "..x..x...x.xx...."),
        unscale("very small gradients at a scale of 65,536", "values:unscale", 65536.0, [small]),
        unscale("inf in the second tensor", "values:unscale", 256.0, spoilt(math.inf)),
        unscale("-inf in the second tensor", "values:unscale", 256.0, spoilt(-math.inf)),
        unscale("nan in the second tensor", "values:unscale", 256.0, spoilt(math.nan)),
        unscale("after the scale has changed", "values:unscale", 256.0, [half(4)], "xx" + "." * 8, 2),
        *(unscale(name, "generality:gradients", 256.0, [half(4), half(2)][:some], text) for name, some, text in told),
        run("overflows down to 1", "generality:runs", 4.0, 2, "xxxxx..xx.x"),
        run("down from 3, which halves to 1.5 and then to 1", "generality:runs", 3.0, 2, "xxx..x."),
        run("up from a large scale", "generality:runs", 2.0**22, 1, "." * 9),
        run("a doubling at every step", "generality:runs", 8.0, 1, "..x.xx...x"),
        *(run(name, "generality:runs", 2.0**14, rng.randrange(2, 6), text) for name, text in drawn),
        unscale("NaN in the tenth tensor", "generality:gradients", 16.0, [half(3)] * 9 + [half(2, 3).T * math.nan]),
        unscale("no tensor at all", "generality:gradients", 16.0, []),
        unscale("an empty tensor, and one that overflows", "generality:gradients", 16.0, [half(0), half(2) * math.inf]),
        unscale("an empty tensor, and no overflow", "generality:gradients", 16.0, [half(3), half(0)]),
        unscale("the largest fp16 number", "generality:gradients", 1.0, [torch.tensor([65504.0, -65504.0]).half()]),
        unscale("finite numbers with an infinite sum", "generality:gradients", 1.0, [torch.full((4,), 60000.0).half()]),
    ]


def _run_fault(case: Case, got: object) -> Fault | None:
    overflows = case.args[3]
    if type(got) is not list or len(got) != len(overflows) + 1 or not all(map(is_number, got)):
        return "not-a-number", f"`scale` must be a finite number before and after every step; got {describe(got)}."
    if got == (want := right.value(case)):
        return None
    if len(set(got)) == 1:
        return "stands-still", "the scale never changes."
    at = next(at for at, (one, two) in enumerate(zip(got, want, strict=True)) if one != two)
    told, side = "".join(".x"[each] for each in overflows[:at]), "low" if got[at] < want[at] else "high"
    told = f"after {at} steps ({told}; x marks an overflow) the scale is {got[at]:g}, which is too {side}."
    return "other-scale", told


def _unscale_fault(case: Case, got: object) -> Fault | None:
    given = case.args[3]
    if type(got) is str and got == RESCALED:
        return "rescaled", "`unscale` changed the scale; only `update` changes it, after the step."
    if not is_row(got) or len(got) != 2 or not is_row(unscaled := got[0]):
        return "wrong-shape", f"`unscale` returns (a list of tensors, a bool); got {describe(got)}."
    overflow = got[1]
    if isinstance(overflow, Tensor) and overflow.numel() == 1:
        overflow = bool(overflow)
    if type(overflow) is not bool:
        return "not-a-bool", f"overflow is True or False; got {describe(overflow)}."
    wrong = any(not gradient.isfinite().all() for gradient in given)
    if overflow != wrong:
        if overflow:
            return "false-alarm", "every gradient is finite, and an overflow is reported."
        nan = any(gradient.isnan().any() for gradient in given)
        return "nan-missed" if nan else "overflow-missed", "the overflow is not reported."
    if len(unscaled) != len(given):
        return "other-tensors", f"{len(given)} tensors came and {len(unscaled)} went back."
    for place, (one, want) in enumerate(zip(unscaled, right.value(case)[0], strict=True)):
        if fault := kind_fault(f"Tensor {place}", one, want, "Convert to fp32, and then divide."):
            return fault
        if not wrong and not close(one, want, 1e-6):
            return "other-numbers", f"Tensor {place} is not the gradient divided by the scale."
    return None


JUDGING = Judging(
    shares={"values:run": 0.375, "values:unscale": 0.375, "generality:runs": 0.125, "generality:gradients": 0.125},
    cases=_scaler_cases,
    verdicts=lambda params, case, outcome: judged(
        case, {"run": _run_fault, "unscale": _unscale_fault}[case.args[0]](case, outcome.value), named=True
    ),
    why="""Gradients of fp16 are useful between its smallest and its largest number. Doubling after clean steps pushes
them up until one overflows. That costs a step, and halving pulls them back. The scale follows the gradients without
anybody choosing it.""",
    pytorch="`torch.amp.GradScaler` with `growth_factor`, `backoff_factor` and `growth_interval`; `unscale_` and "
    "`update` do the same.",
)

ANSWERS = r'''# %% right: worked
forgiven = params("loss-scaler").forgiven  # leave as is: 0: every overflow halves the scale; 1: the first one does not


class Scaler:
    """A loss scale (`scale`, a float) that doubles after `interval` clean steps in a row, and is halved by overflow."""

    def __init__(self, start: float, interval: int) -> None:
        ### BEGIN SOLUTION
        self.scale, self.interval = start, interval
        self.clean, self.left = 0, forgiven
        ### END SOLUTION

    def unscale(self, gradients: list[torch.Tensor]) -> tuple[list[torch.Tensor], bool]:
        """The gradients in fp32, divided by the scale; whether any of them is infinite or NaN."""
        ### BEGIN SOLUTION
        wide = [gradient.float() for gradient in gradients]  # before dividing: the quotient may be too small for fp16
        overflow = not all(gradient.isfinite().all() for gradient in wide)
        return [gradient / self.scale for gradient in wide], overflow
        ### END SOLUTION

    def update(self, overflow: bool) -> None:
        """Nothing: adapts the scale after a step."""
        ### BEGIN SOLUTION
        if overflow:
            if not self.left:
                self.scale = max(self.scale / 2, 1.0)
            self.clean, self.left = 0, max(0, self.left - 1)
            return
        self.clean += 1
        if self.clean == self.interval:
            self.scale *= 2
            self.clean, self.left = 0, forgiven
        ### END SOLUTION
# %% right: from the history
# -         self.scale, self.interval = start, interval
# -         self.clean, self.left = 0, forgiven
# +         self.history, self.start, self.interval = [], start, interval
# +     @property
# +     def scale(self):
# +         scale, since, left = self.start, 0, forgiven
# +         for overflow in self.history:
# +             since = 0 if overflow else since + 1
# +             if overflow:
# +                 scale, left = (scale, left - 1) if left else (max(1.0, scale * 0.5), 0)
# +             elif since % self.interval == 0:
# +                 scale, left = scale * 2, forgiven
# +         return scale
# -         overflow = not all(gradient.isfinite().all() for gradient in wide)
# +         overflow = bool(sum((gradient - gradient).sum() for gradient in wide) != 0)  # NaN if one is infinite or NaN
# -         if overflow:
# -             if not self.left:
# -                 self.scale = max(self.scale / 2, 1.0)
# -             self.clean, self.left = 0, max(0, self.left - 1)
# -             return
# -         self.clean += 1
# -         if self.clean == self.interval:
# -             self.scale *= 2
# -             self.clean, self.left = 0, forgiven
# +         self.history.append(overflow)
# %% wrong: forgiving => values forgiving unless forgiven=1
# > the first overflow leaves the scale as it is; here every overflow halves it.
# ~ forgiven = params("loss-scaler").forgiven ==> forgiven = 1
# %% wrong: the public form => values public-form unless forgiven=0
# > this solves the public form of the exercise: every overflow halves the scale.
# ~ forgiven = params("loss-scaler").forgiven ==> forgiven = 0
# %% wrong: grows over overflows => values
# > clean steps before an overflow are still counted after it.
# ~ self.clean, self.left = 0, max(0, self.left - 1) ==> self.left = max(0, self.left - 1)
# %% wrong: counts all => values
# > a step that overflows counts as a clean one.
# -             return
# %% wrong: never recounts => values
# > after a doubling the count of clean steps must start over.
# ~ self.clean == self.interval ==> self.clean >= self.interval
# -             self.clean, self.left = 0, forgiven
# +             self.left = forgiven
# %% wrong: late => values
# > the scale doubles one step too late.
# ~ self.clean == self.interval ==> self.clean > self.interval
# %% wrong: early => values
# > the scale doubles one step too early.
# ~ self.clean == self.interval ==> self.clean >= self.interval - 1
# %% wrong: below one => generality
# > the scale falls below 1.
# ~ max(self.scale / 2, 1.0) ==> self.scale / 2
# %% wrong: quarter => values
# > an overflow divides the scale by 4.
# ~ max(self.scale / 2, 1.0) ==> max(self.scale / 4, 1.0)
# %% wrong: it grows to 2**24 at most => generality above-2-24
# > the scale stops growing at 2²⁴; it has no upper limit.
# ~ self.clean == self.interval: ==> self.clean == self.interval and self.scale < 2**24:
# %% wrong: a scale below 2 is not halved => generality not-to-one
# > a scale below 2 is not halved; it falls to 1.
# ~ max(self.scale / 2, 1.0) ==> self.scale / 2 if self.scale >= 2 else self.scale
# %% wrong: a constant scale => values stands-still
# ~ if overflow: ==> if True:
# -             if not self.left:
# -                 self.scale = max(self.scale / 2, 1.0)
# %% wrong: in half => values
# > the gradients were divided in fp16, where small quotients become 0. Convert to fp32 first.
# ~ [gradient / self.scale for gradient in wide] ==> [(gradient / self.scale).float() for gradient in gradients]
# %% wrong: first scale => values
# > the gradients were divided by the first scale, and the scale has changed since.
# ~ self.scale, self.interval = start, interval ==> self.scale, self.interval, self.first = start, interval, start
# ~ gradient / self.scale ==> gradient / self.first
# %% wrong: it multiplies => values multiplied
# > the gradients were multiplied by the scale; the loss already was.
# ~ gradient / self.scale ==> gradient * self.scale
# %% wrong: it divides in fp16 => values another-kind
# ~ gradient / self.scale for gradient in wide ==> gradient / self.scale for gradient in gradients
# %% wrong: NaN is no infinity => values nan-missed
# > this looks for infinities, but not for NaN.
# ~ not all(gradient.isfinite().all() ==> any(bool(gradient.isinf().any())
# %% wrong: it looks at the first tensor => values first-tensor
# > only the first tensor is checked for an overflow.
# ~ (gradient.isfinite().all() for gradient in wide) ==> (gradient.isfinite().all() for gradient in wide[:1])
# %% wrong: only the last tensor decides => values last-tensor
# > an overflow in one tensor is forgotten when the next one is checked.
# ~ (gradient.isfinite().all() for gradient in wide) ==> (gradient.isfinite().all() for gradient in wide[-1:])
# %% wrong: the largest number counts as an overflow => generality false-alarm
# ~ gradient.isfinite() ==> (gradient.abs() < 65504)
# %% wrong: the sum in fp16 is the flag => generality false-alarm
# ~ (gradient.isfinite().all() for gradient in wide) ==> (gradient.sum().isfinite() for gradient in gradients)
# %% wrong: an empty tensor is an overflow => generality false-alarm
# ~ gradient.isfinite().all() for ==> gradient.numel() and gradient.isfinite().all() for
# %% wrong: it unscales in place => values changed
# ~ [gradient / self.scale for gradient in wide] ==> [gradient.div_(self.scale).float() for gradient in gradients]
# %% wrong: unscale halves the scale as well => values rescaled
# -         return [gradient / self.scale for gradient in wide], overflow
# +         unscaled = [gradient / self.scale for gradient in wide]
# +         self.scale = max(self.scale / 2, 1.0) if overflow else self.scale
# +         return unscaled, overflow
# %% wrong: all scalers share their scale => values ~
# ~ self.scale, self.interval = start, interval ==> self.interval, Scaler.shared = interval, start
#           self.clean, self.left = 0, forgiven
# +     scale = property(lambda self: Scaler.shared, lambda self, value: setattr(Scaler, "shared", value))
'''
