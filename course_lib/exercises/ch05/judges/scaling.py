"""Judge of chapter 05's loss scaler: its run, and what it unscales."""

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


SCALING = {
    "loss-scaler": Judging(
        shares={"values:run": 0.375, "values:unscale": 0.375, "generality:runs": 0.125, "generality:gradients": 0.125},
        cases=_scaler_cases,
        verdicts=_scaler_verdicts,
        why="""Gradients of fp16 are useful between its smallest and its largest number. Doubling after clean steps pushes them up until one
overflows. That costs a step, and halving pulls them back. The scale follows the gradients without anybody choosing it.""",
        pytorch="`torch.amp.GradScaler` with `growth_factor`, `backoff_factor` and `growth_interval`; `unscale_` and `update` do the same.",
    )
}
