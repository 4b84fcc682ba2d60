from collections.abc import Sequence

import torch
from torch import Tensor

from course_grader.exercises.values import is_row, tensors_in
from course_grader.judging import Case, Fault, Judging, Params, Random, Worked, describe, hidden, judged, shown
from course_grader.judging.tensors import close, coin_of, kind_fault

right = Worked("mixed-precision-step")


def _step_cases(params: Params, rng: Random) -> list[Case]:
    coin = coin_of(rng)

    def data(
        count: int, accumulate: str, rate: float = 1e-4, shape: tuple[int, ...] = (5,), **sizes: float
    ) -> tuple[object, ...]:
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


def step_fault(case: Case, state: object, calls: Sequence[Tensor]) -> Fault | None:
    """What is wrong with a step: with the weights of its forward passes, its state or the new copy."""
    master, _, batches, _, accumulate = case.args
    if len(calls) != len(batches):
        return "other-calls", f"`loss_of` was called for {len(calls)} micro-batches, and there are {len(batches)}."
    if any(call.dtype != torch.bfloat16 for call in calls):
        return "forward-dtype", "a forward pass ran on weights that are not bf16."
    if any(call.shape != master.shape or not torch.equal(call, master.bfloat16()) for call in calls):
        return "other-copy", "a forward pass ran on weights other than the master weights rounded to bf16."
    if not is_row(state) or len(state) != 3:
        return "wrong-shape", f"return (master, momentum, copy); got {describe(state)}."
    want = right.value(case)["state"]
    for name, one, like in zip(("master", "momentum", "copy"), state, want, strict=True):
        if fault := kind_fault(f"`{name}`", one, like):
            return fault
    new = tensors_in(state)
    if not _same_step(case, new, want):
        part = "master weights are" if close(new[1], want[1], 1e-5) else "momentum is"
        return "other-numbers", f"the {part} wrong."
    if not torch.equal(new[2], new[0].bfloat16()):
        old = torch.equal(new[2], master.bfloat16())
        told = "made of the old master weights" if old else "not the new master rounded to bf16"
        return "stale-copy", f"`copy` is {told}."
    return None


def _same_step(case: Case, state: Sequence[Tensor], want: Sequence[Tensor]) -> bool:
    """Whether momentum and the change of the master weights are right up to the rounding of fp32."""
    master, rate = case.args[0], case.args[3]
    change = (state[0].double() - want[0].double()).abs() <= 3e-7 * master.abs() + 1e-5 * rate * want[1].abs().max()
    return close(state[1], want[1], 1e-5) and bool(change.all())


JUDGING = Judging(
    shares={"values:fp32": 0.4, "values:bf16": 0.3, "generality:batches": 0.3},
    cases=_step_cases,
    verdicts=lambda params, case, outcome: judged(case, step_fault(case, **outcome.value), named=True),
    why="""Products may be rounded, because their errors are independent of each other. Sums over micro-batches and over
steps may not, because a lost addend is lost in every step. So matmuls run in bf16, and the buffer, the moments and the
master weights stay in fp32.""",
    pytorch="`torch.autocast` keeps fp32 weights and casts per operation; FSDP2's `MixedPrecisionPolicy(param_dtype, "
    "reduce_dtype)` casts per layer.",
)

ANSWERS = r'''# %% right: worked
reduce = params("mixed-precision-step").reduce  # leave as is: over the micro-batches: "mean" or "sum"


def train_step(master, momentum, microbatches, loss_of, rate, accumulate):
    """(master in fp32, momentum in fp32, copy in bf16) after one step over the micro-batches."""
    copy = master.bfloat16().requires_grad_()  # 1: forward and backward see this copy alone
    buffer = torch.zeros_like(master, dtype=accumulate)
    for batch in microbatches:
        (gradient,) = torch.autograd.grad(loss_of(copy, batch), copy)  # 2: fp32 loss, bf16 gradient
        buffer += gradient  # 3
    gradient = buffer.float() / (len(microbatches) if reduce == "mean" else 1)
    momentum = 0.9 * momentum + gradient  # 4: in fp32
    master = master - rate * momentum
    return master, momentum, master.bfloat16()  # 5
# %% right: backward and a fresh gradient
# ~ buffer = torch.zeros_like(master, dtype=accumulate)
# ~~ ==> total, divisor = 0, len(microbatches) if reduce == "mean" else 1
# -         (gradient,) = torch.autograd.grad(loss_of(copy, batch), copy)  # 2: fp32 loss, bf16 gradient
# -         buffer += gradient  # 3
# -     gradient = buffer.float() / (len(microbatches) if reduce == "mean" else 1)
# +         copy.grad = None
# +         (loss_of(copy, batch) / divisor).backward()
# +         total = total + copy.grad.to(accumulate)
# +     gradient = total.float()
# %% wrong: gradients add up in bf16 => values buffer-dtype
# > the gradients were added in bf16, and fp32 was asked for.
# ~ zeros_like(master, dtype=accumulate) ==> zeros_like(copy)
# %% wrong: the buffer is always fp32 => values buffer-dtype
# > the gradients were added in fp32, and bf16 was asked for.
# ~ zeros_like(master, dtype=accumulate) ==> zeros_like(master)
# %% wrong: two gradients are added in fp32 => generality buffer-dtype
# > the gradients of few micro-batches were added in fp32, and bf16 was asked for.
# ~ dtype=accumulate) ==> dtype=accumulate if len(microbatches) > 2 else torch.float32)
# %% wrong: one backward pass for all micro-batches => values
# > one backward pass over all micro-batches adds their gradients in bf16; add each gradient to the buffer yourself.
# -     for batch in microbatches:
# -         (gradient,) = torch.autograd.grad(loss_of(copy, batch), copy)  # 2: fp32 loss, bf16 gradient
# -         buffer += gradient  # 3
# +     (buffer,) = torch.autograd.grad(sum(loss_of(copy, batch) for batch in microbatches), copy)
# %% wrong: from the copy => values
# > the update was applied to the bf16 copy; the master weights keep what it lacks.
# ~ master = master - rate ==> master = copy.detach().float() - rate
# %% wrong: master in bf16 => values
# > every new master weight is a bf16 number, so the updates that bf16 cannot hold are lost.
# ~ master - rate * momentum ==> (master - rate * momentum).bfloat16().float()
# %% wrong: no momentum => values
# > the old momentum is lost.
# ~ 0.9 * momentum + gradient ==> gradient
# %% wrong: momentum undamped => values
# > the old momentum is not multiplied by 0.9.
# ~ 0.9 * momentum + gradient ==> momentum + gradient
# %% wrong: a running mean => values
# > the gradient enters the momentum as it is, not times 0.1.
# ~ 0.9 * momentum + gradient ==> 0.9 * momentum + 0.1 * gradient
# %% wrong: undamped without a gradient => generality
# > the old momentum is not multiplied by 0.9 where the gradient is zero.
# ~ 0.9 * momentum + gradient ==> 0.9 * momentum + gradient if gradient.any() else momentum
# %% wrong: the sum => values other-reduction unless reduce=sum
# > the gradient is the sum over the micro-batches; here it is the mean.
# ~ len(microbatches) if reduce == "mean" else 1 ==> 1
# %% wrong: the public form => values public-form unless reduce=mean
# > this solves the public form of the exercise: the gradient is the mean over the micro-batches.
# ~ len(microbatches) if reduce == "mean" else 1 ==> len(microbatches)
# %% wrong: the old copy comes back => values stale-copy
# ~ momentum, master.bfloat16() ==> momentum, copy.detach()
# %% wrong: the master weights are bf16 => values another-kind
# ~ master - rate * momentum ==> (master - rate * momentum).bfloat16()
# %% wrong: fp32 in the forward pass => values forward-dtype
# ~ copy = master.bfloat16() ==> copy = master.clone()
# %% wrong: one micro-batch for all => values other-calls
# ~ for batch in microbatches: ==> for batch in microbatches[:1]:
# %% wrong: in place => values changed
# ~ 0.9 * momentum + gradient ==> momentum.mul_(0.9).add_(gradient)
'''
