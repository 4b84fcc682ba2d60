"""Judges of chapter 05's training in few bits: the five steps, and softmax in one pass."""

import math
import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch05.probes import KEPT
from course_lib.judging import Fault, Judging, Params, describe, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import close, coin_of, kind_fault
from course_lib.records import Case

# --- mixed-precision-step


def _step_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(count: int, accumulate: str, rate: float = 1e-4, shape: tuple[int, ...] = (5,), **sizes: float) -> Any:
        square = sizes.get("square", 0.1)

        def normal(what: str, mean: float = 0.0, deviation: float = 1.0) -> Tensor:
            return (torch.randn(shape, generator=coin) * deviation + mean) * sizes.get(what, 1.0)

        batches = [(normal("gradient", 1.0, 0.3).bfloat16().float(), square * (1 + at % 3)) for at in range(count)]
        return normal("weight"), normal("momentum"), batches, rate, accumulate

    tiny = data(64, "float32", gradient=1e-4, square=0.0, weight=1e-5, momentum=1e-4)
    matrix = data(4, "bfloat16", rate=1e-6, gradient=1e4, weight=1e3, shape=(6, 2))
    return [
        shown("8 micro-batches, added in fp32", "values:fp32", *data(8, "float32")),
        shown("64 micro-batches, added in bf16", "values:bf16", *data(64, "bfloat16")),
        hidden("256 micro-batches, added in fp32", "values:fp32", *data(256, "float32")),
        hidden("64 micro-batches, small gradients", "values:fp32", *tiny),
        hidden("one micro-batch, no momentum yet", "generality:batches", *data(1, "float32", momentum=0.0)),
        hidden("one micro-batch, in bf16", "generality:batches", *data(1, "bfloat16", rate=0.02)),
        hidden("two micro-batches, in bf16", "generality:batches", *data(2, "bfloat16", rate=0.02)),
        hidden("two micro-batches and a large rate", "generality:batches", *data(2, "float32", rate=3.0)),
        hidden("256 micro-batches, added in bf16", "generality:batches", *data(256, "bfloat16")),
        hidden("a matrix of large weights, in bf16", "generality:batches", *matrix),
        hidden("no gradient", "generality:batches", *data(2, "float32", gradient=0.0, square=0.0)),
    ]


def step(
    reduce: str, case: Case, *, buffer: str = "", weights: str = "master", decay: float = 0.9
) -> tuple[Tensor, Tensor, Tensor]:
    """(master, momentum, copy) after the step; the keywords lead to known mistakes."""
    master, momentum, batches, rate, accumulate = case.args
    copy = master.bfloat16()
    total = torch.zeros(master.shape, dtype=getattr(torch, buffer or accumulate))
    for linear, square in batches:
        total += (linear + square * copy.float()).bfloat16()
    gradient = total.float() / (len(batches) if reduce == "mean" else 1)
    momentum = decay * momentum + gradient
    new = (master if weights == "master" else copy.float()) - rate * momentum
    return new, momentum, new.bfloat16()


def step_fault(params: Params, case: Case, got: Any) -> Fault | None:
    """What is wrong with a step: with the weights of its forward passes, its state or the new copy."""
    master, _, batches, _, accumulate = case.args
    if got["changed"] is not False:
        return "changed", "a given tensor was changed; return new ones."
    calls, state = got["calls"], got["state"]
    if len(calls) != len(batches):
        return "other-calls", f"`loss_of` was called for {len(calls)} micro-batches, and there are {len(batches)}."
    if any(call.dtype != torch.bfloat16 for call in calls):
        return "forward-dtype", "a forward pass ran on weights that are not bf16."
    if any(call.shape != master.shape or not torch.equal(call, master.bfloat16()) for call in calls):
        return "other-copy", "a forward pass ran on weights other than the master weights rounded to bf16."
    if type(state) not in (tuple, list) or len(state) != 3:
        return "wrong-shape", f"return (master, momentum, copy); got {describe(state)}."
    want = step(params["reduce"], case)
    for name, one, right in zip(("master", "momentum", "copy"), state, want, strict=True):
        if fault := kind_fault(f"`{name}`", one, right):
            return fault
    if not _same_step(case, state, want):
        return _step_mistake(params, case, state)
    if not torch.equal(state[2], state[0].bfloat16()):
        old = torch.equal(state[2], master.bfloat16())
        told = "made of the old master weights" if old else "not the new master rounded to bf16"
        return "stale-copy", f"`copy` is {told}."
    return None


def _same_step(case: Case, state: Sequence[Tensor], want: Sequence[Tensor]) -> bool:
    """Whether momentum and the change of the master weights are right up to the rounding of fp32."""
    master, rate = case.args[0], case.args[3]
    change = (state[0].double() - want[0].double()).abs() <= 3e-7 * master.abs() + 1e-5 * rate * want[1].abs().max()
    return close(state[1], want[1], 1e-5) and bool(change.all())


def _step_mistake(params: Params, case: Case, state: Sequence[Tensor]) -> Fault:
    asked, accumulate = params["reduce"], case.args[4]
    other, name = ("sum", "other-reduction") if asked == "mean" else ("mean", "public-form")
    lead = "this solves the public form of the exercise: " if name == "public-form" else ""
    wrong = "float32" if accumulate == "bfloat16" else "bfloat16"
    known: list[tuple[str, dict[str, Any], str]] = [
        (name, {"reduce": other}, f"{lead}the gradient is the {other} over the micro-batches."),
        ("buffer-dtype", {"buffer": wrong}, f"the gradients were added in {wrong}, and {accumulate} was asked for."),
        (
            "from-the-copy",
            {"weights": "copy"},
            "the update was applied to the bf16 copy; the master weights keep what it lacks.",
        ),
        ("no-momentum", {"decay": 0.0}, "the old momentum is lost."),
        ("momentum-undamped", {"decay": 1.0}, "the old momentum is not multiplied by 0.9."),
    ]
    for name, slip, message in known:
        if _same_step(case, state, step(case=case, **{"reduce": asked, **slip})):
            return name, message
    if torch.equal(state[0], state[0].bfloat16().float()):
        told = "every new master weight is a bf16 number, so the updates that bf16 cannot hold are lost."
        return "master-in-bf16", told
    part = "master weights are" if close(state[1], step(asked, case)[1], 1e-5) else "momentum is"
    return "other-numbers", f"the {part} wrong."


# --- online-softmax


def _softmax_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, n = coin_of(rng), params["keys"]

    def data(
        *sizes: int,
        width: int = 3,
        size: float = 2.0,
        shift: float = 0.0,
        rising: float = 0.0,
        masked: Sequence[int] = (),
    ) -> tuple[Any, int]:
        chunks = []
        for at, keys in enumerate(sizes):
            scores = torch.randn(keys, generator=coin) * size + shift + rising * at
            if at in masked:
                scores = torch.full((keys,), -math.inf)
            chunks.append((scores, torch.randn(keys, width, generator=coin)))
        return chunks, width

    some, _ = data(4, 4, 4)
    some[1][0][1:3] = -math.inf
    some[2][0][0] = -math.inf
    return [
        shown(f"three chunks of {n} keys", "values:output", *data(n, n, n, width=params["width"])),
        hidden("six chunks", "values:output", *data(5, 3, 8, 1, 2, 6, width=4)),
        hidden("128 chunks, too many to be kept", "values:output", *data(*[16] * 128, width=1)),
        hidden("the largest score comes first", "values:output", *data(4, 4, 4, rising=-6.0)),
        hidden("the largest score comes last", "values:output", *data(4, 4, 4, rising=6.0)),
        hidden("scores near 10,000", "generality:range", *data(4, 4, 4, shift=1e4, rising=3.0)),
        hidden("scores near −10,000", "generality:range", *data(4, 4, 4, shift=-1e4)),
        hidden("scores near −10¹²", "generality:range", *data(4, 4, 4, shift=-1e12)),
        hidden("scores from −9,000 to 9,000", "generality:range", *data(6, 6, 6, size=4000.0)),
        hidden("some masked keys", "generality:masks", some, 3),
        hidden("the first chunk masked", "generality:masks", *data(3, 4, 2, masked=[0])),
        hidden("a chunk in the middle masked, and one empty", "generality:masks", *data(3, 4, 0, 2, masked=[1])),
        hidden("every key masked", "generality:masks", *data(3, 2, masked=[0, 1])),
        hidden("no chunk at all", "generality:masks", [], 3),
    ]


def attended(chunks: Sequence[tuple[Tensor, Tensor]], width: int) -> tuple[Tensor, Tensor]:
    """(output, log-sum-exp) in float64 from all scores at once."""
    scores = torch.cat([torch.zeros(0, dtype=torch.float64), *[one.double() for one, _ in chunks]])
    values = torch.cat([torch.zeros(0, width, dtype=torch.float64), *[two.double() for _, two in chunks]])
    if not (scores > -math.inf).any():
        return torch.zeros(width, dtype=torch.float64), torch.tensor(-math.inf, dtype=torch.float64)
    return torch.softmax(scores, 0) @ values, torch.logsumexp(scores, 0)


def _unscaled(chunks: Sequence[tuple[Tensor, Tensor]], width: int) -> Tensor:
    """The output if sums are not rescaled when the maximum grows."""
    top, total, output = -math.inf, 0.0, torch.zeros(width, dtype=torch.float64)
    for scores, values in chunks:
        if len(scores) and scores.max() > -math.inf:
            top = max(top, scores.max().item())
            weights = torch.exp(scores.double() - top)
            total, output = total + weights.sum().item(), output + weights @ values.double()
    return output / total if total else output


def softmax_fault(case: Case, got: Any) -> Fault | None:
    """What is wrong with an output and its log-sum-exp."""
    chunks, width = case.args
    if type(got) is str and got == KEPT:
        return "kept", "the chunks are copied and kept until the stream ends; keep sums that do not grow with it."
    if type(got) not in (tuple, list) or len(got) != 2:
        return "wrong-shape", f"return (output, log_sum); got {describe(got)}."
    output, log_sum = got
    want, total = attended(chunks, width)
    if fault := kind_fault("`output`", output, want.float()):
        return fault
    scale = max([values.abs().max().item() for _, values in chunks if values.numel()], default=1.0)
    top = max((one[one.isfinite()].abs().max().item() for one, _ in chunks if one.isfinite().any()), default=0.0)
    rel = 2e-5 + 4e-7 * top  # merged by their logs, large scores leave the rounding of a log in fp32
    if not close(output, want.float(), rel, scale):
        left = [pair for pair in chunks if len(pair[0]) and pair[0].max() > -math.inf]
        if output.isnan().any():
            masked = "; −∞ minus −∞, or 0 divided by 0, where keys are masked" if len(left) < len(chunks) else ""
            told = "Possible causes: a chunk used after the next one came; exp of a large score"
            return "nan", f"`output` is NaN. {told}{masked}."
        means = torch.stack([attended([pair], width)[0] for pair in left] or [want]).mean(0)
        unscaled = _unscaled(chunks, width)
        undivided = want * torch.exp(total - max((one.max() for one, _ in left), default=0.0))
        for name, value, message in (
            ("not-rescaled", unscaled, "earlier sums are relative to an older maximum; rescale them when it grows."),
            (
                "mean-of-chunks",
                means,
                "the outputs of the chunks were averaged; each counts by its sum of exponentials.",
            ),
            ("last-chunk", attended(chunks[-1:], width)[0], "this is the output of the last chunk alone."),
            ("first-chunk", attended(chunks[:1], width)[0], "this is the output of the first chunk alone."),
            ("not-divided", undivided, "the output is not divided by the sum of exponentials."),
        ):
            if close(output, value.float(), rel, scale) and not close(value, want, rel, scale):
                return name, message
        return "other-numbers", "`output` is not the softmax-weighted sum of the values."
    number = torch.as_tensor(log_sum) if isinstance(log_sum, Tensor) or type(log_sum) in (int, float) else None
    if number is None or number.numel() != 1 or number.is_complex():
        return "not-a-number", f"`log_sum` is one number; got {describe(log_sum)}."
    number = number.double().reshape(())
    if number == total or (total.isfinite() and bool((number - total).abs() <= 2e-6 * total.abs() + 2e-5)):
        return None
    tops = [one.max() for one, _ in chunks if len(one)]
    if tops and bool((number + max(tops).double() - total).abs() <= 1e-3):
        return "relative-log", "the log is relative to the maximum; add the maximum back."
    return "other-log", "`log_sum` is not log Σ exp(scores)."


RECIPE = {
    "mixed-precision-step": Judging(
        shares={"values:fp32": 0.4, "values:bf16": 0.3, "generality:batches": 0.3},
        cases=_step_cases,
        verdicts=lambda params, case, outcome: judged(case, step_fault(params, case, outcome.value), named=True),
        why="""Products may be rounded, because their errors are independent of each other. Sums over micro-batches and over steps may not, because
a lost addend is lost in every step. So matmuls run in bf16, and the buffer, the moments and the master weights stay in fp32.""",
        pytorch="`torch.autocast` keeps fp32 weights and casts per operation; FSDP2's `MixedPrecisionPolicy(param_dtype, reduce_dtype)` casts per layer.",
    ),
    "online-softmax": Judging(
        shares={"values:output": 0.5, "generality:range": 0.25, "generality:masks": 0.25},
        cases=_softmax_cases,
        verdicts=lambda params, case, outcome: judged(case, softmax_fault(case, outcome.value), named=True),
        why="""Softmax does not change when one number is subtracted from all scores. If a larger maximum shows up later, the old sums are off by one
known factor. So three running quantities replace all scores, and nothing ever exceeds 1 inside an exponential.""",
        pytorch="`torch.nn.functional.scaled_dot_product_attention` runs this loop in its flash kernels and keeps `logsumexp` for the backward.",
    ),
}
