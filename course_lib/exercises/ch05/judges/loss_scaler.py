"""Judge of loss-scaler: a loss scale that finds its own value."""

import math
import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch05.probes import CHANGED, RESCALED
from course_lib.exercises.values import is_number
from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import close, coin_of, kind_fault
from course_lib.records import Case, Outcome, Verdict


def scales(
    start: float,
    interval: int,
    overflows: Sequence[bool],
    forgiven: int = 0,
    *,
    restart: bool = True,  # whether an overflow sets the count of clean steps back
    recount: bool = True,  # whether a doubling does
    late: int = 0,
    least: float = 1.0,
    backoff: float = 2.0,
    counts_all: bool = False,
) -> list[float]:
    """The scale before each step and after the last; the keywords after `forgiven` lead to known mistakes."""
    scale, clean, left, found = start, 0, forgiven, [start]
    for overflow in overflows:
        if overflow:
            scale = scale if left else max(scale / backoff, least)
            left, clean = max(0, left - 1), 0 if restart else clean
        if counts_all or not overflow:
            clean += 1
            if clean >= interval + late:
                scale, left, clean = 2 * scale, forgiven, 0 if recount else clean
        found.append(scale)
    return found


def _scaler_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def half(*shape: int, size: float = 1.0) -> Tensor:
        return (torch.randn(shape, generator=coin) * size).half()

    def run(name: str, share: str, start: float, interval: int, text: str, make: Any = hidden) -> Case:
        return make(name, share, "run", start, interval, [letter == "x" for letter in text])

    def unscale(
        name: str,
        share: str,
        start: float,
        gradients: list[Tensor],
        make: Any = hidden,
        interval: int = 2000,
        text: str = "",
    ) -> Case:
        return make(name, share, "unscale", start, interval, gradients, [letter == "x" for letter in text])

    def spoilt(value: float) -> list[Tensor]:
        gradients = [half(5), half(3, 2), half(4)]
        gradients[1][1, 0] = value
        return gradients

    drawn = ["".join(rng.choice("...x") for _ in range(60)) for _ in range(3)]
    return [
        run("ten steps, one overflow", "values:run", 1024.0, 3, "..x.......", shown),
        unscale("two tensors at a scale of 1,024", "values:unscale", 1024.0, [half(4), half(2, 3)], shown),
        run("a clean run", "values:run", 2.0**10, 4, "." * 14),
        run("overflows in between", "values:run", 2.0**16, 3, "..x..x...x.xx...."),
        unscale("very small gradients at a scale of 65,536", "values:unscale", 65536.0, [half(9, size=1e-3)]),
        *[
            unscale(f"{value} in the second tensor", "values:unscale", 256.0, spoilt(value))
            for value in (math.inf, -math.inf, math.nan)
        ],
        unscale("after the scale has changed", "values:unscale", 256.0, [half(4)], interval=2, text="xx" + "." * 8),
        run("overflows down to 1", "generality:runs", 4.0, 2, "xxxxx..xx.x"),
        run("down from 3, which halves to 1.5 and then to 1", "generality:runs", 3.0, 2, "xxx..x."),
        run("up from a large scale", "generality:runs", 2.0**22, 1, "." * 9),
        run("a doubling at every step", "generality:runs", 8.0, 1, "..x.xx...x"),
        *[
            run(f"60 steps, run {at}", "generality:runs", 2.0**14, rng.randrange(2, 6), text)
            for at, text in enumerate(drawn)
        ],
        unscale("NaN in the tenth tensor", "generality:gradients", 16.0, [half(3)] * 9 + [half(2, 3).T * math.nan]),
        unscale("no tensor at all", "generality:gradients", 16.0, []),
        unscale("an empty tensor, and one that overflows", "generality:gradients", 16.0, [half(0), half(2) * math.inf]),
        unscale("an empty tensor, and no overflow", "generality:gradients", 16.0, [half(3), half(0)]),
        unscale("the largest fp16 number", "generality:gradients", 1.0, [torch.tensor([65504.0, -65504.0]).half()]),
        unscale("finite numbers with an infinite sum", "generality:gradients", 1.0, [torch.full((4,), 60000.0).half()]),
    ]


def _run_fault(params: Params, case: Case, got: Any) -> Fault | None:
    _, start, interval, overflows = case.args
    asked = params["forgiven"]
    if type(got) is not list or len(got) != len(overflows) + 1 or not all(map(is_number, got)):
        return "not-a-number", f"`scale` must be a finite number before and after every step; got {describe(got)}."
    want = scales(start, interval, overflows, asked)
    if got == want:
        return None
    other, lead = 1 - asked, "this solves the public form of the exercise: " if asked else ""
    known = [
        ("public-form" if asked else "forgiving", {"forgiven": other}, f"{lead}an overflow is treated the other way."),
        ("never-recounts", {"recount": False}, "after a doubling the count of clean steps must start over."),
        ("grows-over-overflows", {"restart": False}, "clean steps before an overflow are still counted after it."),
        ("counts-all", {"counts_all": True}, "a step that overflows counts as a clean one."),
        ("late", {"late": 1}, "the scale doubles one step too late."),
        ("early", {"late": -1}, "the scale doubles one step too early."),
        ("below-one", {"least": 0.0}, "the scale falls below 1."),
        ("quarter", {"backoff": 4.0}, "an overflow divides the scale by 4."),
    ]
    for name, change, message in known:
        if got == scales(start, interval, overflows, **{"forgiven": asked, **change}):
            return name, message
    if len(set(got)) == 1:
        return "stands-still", "the scale never changes."
    at = next(at for at, (one, two) in enumerate(zip(got, want, strict=True)) if one != two)
    told = "".join("x" if overflow else "." for overflow in overflows[:at])
    side = "low" if got[at] < want[at] else "high"
    told = f"after {at} steps ({told}; x marks an overflow) the scale is {got[at]:g}, which is too {side}."
    return "other-scale", told


def _unscale_fault(params: Params, case: Case, got: Any) -> Fault | None:
    _, start, interval, given, earlier = case.args
    scale = scales(start, interval, earlier, params["forgiven"])[-1]
    if type(got) is str and got == RESCALED:
        return "rescaled", "`unscale` changed the scale; only `update` changes it, after the step."
    if type(got) is str and got == CHANGED:
        return "changed", "the given gradients were changed; return new tensors."
    if type(got) not in (tuple, list) or len(got) != 2 or type(got[0]) not in (tuple, list):
        return "wrong-shape", f"`unscale` returns (a list of tensors, a bool); got {describe(got)}."
    unscaled, overflow = got
    if isinstance(overflow, Tensor) and overflow.numel() == 1:
        overflow = bool(overflow)
    if type(overflow) is not bool:
        return "not-a-bool", f"overflow is True or False; got {describe(overflow)}."
    wrong = any(not gradient.isfinite().all() for gradient in given)
    if overflow != wrong:
        nan = any(gradient.isnan().any() for gradient in given)
        if overflow:
            return "false-alarm", "every gradient is finite, and an overflow is reported."
        return "nan-missed" if nan else "overflow-missed", "the overflow is not reported."
    if len(unscaled) != len(given):
        return "other-tensors", f"{len(given)} tensors came and {len(unscaled)} went back."
    for place, (one, gradient) in enumerate(zip(unscaled, given, strict=True)):
        want = gradient.float() / scale
        if fault := kind_fault(f"Tensor {place}", one, want, "Convert to fp32, and then divide."):
            return fault
        if wrong or close(one, want, 1e-6):
            continue
        if scale != start and close(one, gradient.float() / start, 1e-6):
            return "first-scale", f"Tensor {place} was divided by the first scale, and the scale has changed since."
        if close(one, (gradient / scale).float(), 1e-6):
            told = "was divided in fp16, where small quotients become 0. Convert to fp32 first."
            return "in-half", f"Tensor {place} {told}"
        return "other-numbers", f"Tensor {place} is not the gradient divided by the scale."
    return None


def _scaler_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    find = _run_fault if case.args[0] == "run" else _unscale_fault
    return judged(case, find(params, case, outcome.value), named=True)


JUDGING = Judging(
    shares={"values:run": 0.375, "values:unscale": 0.375, "generality:runs": 0.125, "generality:gradients": 0.125},
    cases=_scaler_cases,
    verdicts=_scaler_verdicts,
    why="""Gradients of fp16 are useful between its smallest and its largest number. Doubling after clean steps pushes them up until one
overflows. That costs a step, and halving pulls them back. The scale follows the gradients without anybody choosing it.""",
    pytorch="`torch.amp.GradScaler` with `growth_factor`, `backoff_factor` and `growth_interval`; `unscale_` and `update` do the same.",
)

ANSWERS = r"""import torch


# %% right: as written
class Scaler:
    def __init__(self, start, interval):
        self.scale, self.interval, self.clean = start, interval, 0

    def unscale(self, gradients):
        wide = [gradient.float() for gradient in gradients]
        overflow = not all(gradient.isfinite().all() for gradient in wide)
        return [gradient / self.scale for gradient in wide], overflow

    def update(self, overflow):
        if overflow:
            self.scale = max(self.scale / 2, 1.0)
            self.clean = 0
        else:
            self.clean += 1
            if self.clean == self.interval:
                self.scale *= 2
                self.clean = 0


# %% right: any variant  from: as written
# - class Scaler:
# + from course_lib import params
# + FORGIVEN = params("loss-scaler").forgiven
# + class Scaler:
# ~ clean = start, interval, 0 ==> clean, self.left = start, interval, 0, FORGIVEN
# -             self.scale = max(self.scale / 2, 1.0)
# -             self.clean = 0
# +             if not self.left:
# +                 self.scale = max(self.scale / 2, 1.0)
# +             self.clean, self.left = 0, max(0, self.left - 1)
# -                 self.clean = 0
# +                 self.clean, self.left = 0, FORGIVEN


# %% right: from the history
class Scaler:
    def __init__(self, start, interval):
        self.history, self.start, self.interval = [], start, interval

    @property
    def scale(self):
        scale, since = self.start, 0
        for overflow in self.history:
            since = 0 if overflow else since + 1
            if overflow:
                scale = max(1.0, scale * 0.5)
            elif since % self.interval == 0:
                scale = scale * 2
        return scale

    def unscale(self, gradients):
        inverse = 1 / self.scale
        found = torch.tensor(0.0)
        for gradient in gradients:
            found += (gradient.float() - gradient.float()).sum()  # NaN if one of them is infinite or NaN
        return [gradient.to(torch.float32) * inverse for gradient in gradients], bool(found != 0)

    def update(self, overflow):
        self.history.append(overflow)


# %% wrong: clean steps survive an overflow => values grows-over-overflows  from: as written
# -             self.clean = 0

# %% wrong: it grows during a skip => values counts-all  from: as written
# -         else:
# -             self.clean += 1
# -             if self.clean == self.interval:
# -                 self.scale *= 2
# -                 self.clean = 0
# +         self.clean += 1
# +         if self.clean == self.interval:
# +             self.scale, self.clean = 2 * self.scale, 0

# %% wrong: it doubles at every step from then on => values never-recounts  from: as written
# ~ clean == self ==> clean >= self
# -                 self.clean = 0

# %% wrong: one step too late => values late  from: as written
# ~ clean == self ==> clean > self

# %% wrong: it falls below 1 => generality below-one  from: as written
# ~ max(self.scale / 2, 1.0) ==> self.scale / 2

# %% wrong: it divides in fp16 => values another-kind  from: as written
# ~ gradient / self.scale for gradient in wide ==> gradient / self.scale for gradient in gradients

# %% wrong: it converts after dividing => values in-half  from: as written
# ~ gradient / self.scale for gradient in wide ==> (gradient / self.scale).float() for gradient in gradients

# %% wrong: NaN is no infinity => values nan-missed  from: as written
# ~ not all(gradient.isfinite().all() ==> any(bool(gradient.isinf().any())

# %% wrong: it looks at the first tensor => values overflow-missed  from: as written
# ~ (gradient.isfinite().all() for gradient in wide) ==> (gradient.isfinite().all() for gradient in wide[:1])

# %% wrong: the largest number counts as an overflow => generality false-alarm  from: as written
# ~ gradient.isfinite() ==> (gradient.abs() < 65504)

# %% wrong: it unscales in place => values changed  from: as written
# ~ [gradient / self.scale for gradient in wide], ==> [gradient.div_(self.scale).float() for gradient in gradients],

# %% wrong: it multiplies => values other-numbers  from: as written
# ~ gradient / self ==> gradient * self

# %% wrong: a constant scale => values stands-still  from: as written
#       def update(self, overflow):
# +         return

# %% wrong: it divides by the first scale => values first-scale  from: as written
# ~ clean = start, interval, 0 ==> clean, self.first = start, interval, 0, start
# ~ gradient / self.scale ==> gradient / self.first

# %% wrong: unscale halves the scale as well => values rescaled  from: as written
# -         return [gradient / self.scale for gradient in wide], overflow
# +         unscaled = [gradient / self.scale for gradient in wide]
# +         self.scale = max(self.scale / 2, 1.0) if overflow else self.scale
# +         return unscaled, overflow

# %% wrong: the sum in fp16 is the flag => generality false-alarm  from: as written
# ~ (gradient.isfinite().all() for gradient in wide) ==> (gradient.sum().isfinite() for gradient in gradients)

# %% wrong: a scale below 2 is not halved => generality other-scale  from: as written
# ~ max(self.scale / 2, 1.0) ==> self.scale / 2 if self.scale >= 2 else self.scale

# %% wrong: it grows to 2**24 at most => generality other-scale  from: as written
# ~ if self.clean == self.interval: ==> if self.clean == self.interval and self.scale < 2**24:

# %% wrong: an empty tensor is an overflow => generality false-alarm  from: as written
# ~ gradient.isfinite().all() for ==> gradient.numel() and gradient.isfinite().all() for

# %% wrong: all scalers share their scale => values ~  from: as written
# -         self.scale, self.interval, self.clean = start, interval, 0
# +         self.interval, self.clean, Scaler.shared = interval, 0, start
# +     scale = property(lambda self: Scaler.shared, lambda self, value: setattr(Scaler, "shared", value))
"""
