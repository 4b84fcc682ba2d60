import random
from collections.abc import Sequence

import torch
from torch import Tensor

from course_grader.exercises.values import near
from course_grader.judging import Fault, Judging, Params, Weighed, Worked, Wrong, first, judged, number_fault, verdict
from course_grader.judging.cases import hidden, shown
from course_grader.judging.tensors import close, tensor_fault
from course_grader.records import Case, Outcome, Verdict
from course_lib.estimate.units import KiB

right = Worked("graphs-kept-alive")


def _loss_fault(got: object, want: float) -> Fault | None:
    if isinstance(got, Tensor):
        return "a-tensor", "Return the loss as a number (`.item()`): a tensor keeps its graph alive."
    hint = "It must be the mean over all tokens that count."
    fault = number_fault("The loss", got, want, unit="nats per token", rel=2e-5, hint=hint)
    return fault and Wrong(*fault[:2], "The loss: ", ("loss",))


def _gradient_fault(got: Sequence[Tensor | None], want: list[Tensor]) -> Fault | None:
    if len(got) != len(want) or all(each is None for each in got):
        return "no-gradients", "The parameters have no gradients: was `backward()` called on a loss with a graph?"
    pairs = [(torch.zeros_like(y) if x is None else x, y) for x, y in zip(got, want, strict=True)]
    fault = first(*(tensor_fault("A gradient", *pair) for pair in pairs))
    return fault and Wrong(*fault[:2], "The gradients: ", ("gradients",))


def _memory_fault(batches: int, peak: float, gradients: Sequence[Tensor], least: float) -> Fault | None:
    if peak < sum(each.nbytes for each in gradients):
        return "too-few-bytes", "Fewer bytes were alive than the gradients take."
    if peak > 1.5 * least:
        return "graphs-kept-alive", (
            f"The peak is {peak / KiB:,.0f} KiB with {batches} micro-batches; one at a time needs "
            f"{least / KiB:,.0f} KiB. Either old graphs stay alive, or several micro-batches went through the "
            "model together."
        )
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    (spec, measured), value, want = case.args, outcome.value, right.value(case)
    loss = _loss_fault(value["loss"], want["loss"])
    grads = _gradient_fault(value["gradients"], want["gradients"])
    if case.kind == "values":
        return [verdict("values", "loss", case, loss), verdict("values", "gradients", case, grads)]
    memory = _memory_fault(len(spec["lengths"]), value["peak"], want["gradients"], want["peak"]) if measured else None
    return judged(case, loss or grads or memory)


def _spec(rng: random.Random, lengths: list[tuple[int, int]], **more: object) -> dict[str, object]:
    return {"seed": rng.randrange(2**31), "words": 23, "width": 8, "depth": 2, "rows": 2, "lengths": lengths, **more}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def lengths(count: int) -> list[tuple[int, int]]:
        found = [(length, rng.randint(0, length - 2)) for length in rng.sample(range(4, 20), count)]
        return [(found[0][0], 2), *found[1:]]

    few, many = _spec(rng, lengths(params["micro_batches"])), _spec(rng, [(24, 0)] * 6, rows=8, width=32, depth=4)
    return [
        shown(f"{params['micro_batches']} micro-batches", "values", few, False),
        shown("six micro-batches, measured", "cost:memory", many, True),
        hidden("one micro-batch", "generality:others", _spec(rng, [(7, 3)]), False),
        hidden("an iterator", "generality:others", _spec(rng, [*lengths(8), (5, 5)], once=True, whole=1), False),
        hidden("a micro-batch of padding alone", "generality:others", _spec(rng, [(6, 1), (5, 5), (9, 4)]), False),
        hidden("first and last of padding alone", "generality:others", _spec(rng, [(4, 4), (9, 4), (5, 5)]), False),
    ]


def _weighed(params: Params, rng: random.Random) -> Weighed:
    """Four micro-batches whose graphs hold about 11 tensors of 4 MB each: one at a time, or together."""
    rows, width = 16, 64
    spec = _spec(rng, [(1024, 0)] * 4, words=32, width=width, depth=4, rows=rows)
    case = hidden("4 micro-batches of 16,384 tokens", "cost:memory", spec, True, seconds=30.0)

    def done(outcome: Outcome) -> bool:
        value, want = outcome.value if type(outcome.value) is dict else {}, right.value(case)
        gradients = value.get("gradients")
        full = type(gradients) is list and bool(gradients) and close(gradients[-1], want["gradients"][-1], 1e-3)
        return full and near(value.get("loss"), want["loss"], 1e-4)

    warm = hidden("two small ones", "cost:memory", _spec(rng, [(7, 0), (5, 0)]), True, seconds=30.0)
    return Weighed(case=case, warm=warm, most=20 * 4 * rows * 1024 * width, done=done)


JUDGING = Judging(
    point=("cost:memory",),
    shares={"values:loss": 0.1, "values:gradients": 0.4, "cost:memory": 0.25, "generality:others": 0.25},
    cases=_cases,
    verdicts=_verdicts,
    why="A sum of losses keeps every graph that went into it alive, and a graph keeps its activations. The gradient "
    "is linear, so the division can wait: run each micro-batch's sum backward at once, let the gradients add up, and "
    "divide them once when all tokens are counted. The library now does this: it scales the gradients before the "
    "optimizer's step.",
    pytorch="`loss.backward()` frees what it used unless `retain_graph=True`; `p.grad.mul_(1 / tokens)`, or "
    "`torch._foreach_mul_` over all of them.",
    measured_by_worker=("cost:memory",),
    weighed=_weighed,
)

ANSWERS = r'''# %% right: worked
def train_step(model, batches) -> float:
    """The mean loss over all tokens that count; leaves its gradients in `.grad`."""
    total, tokens = 0.0, 0
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
        loss.backward()
        total += loss.item()
        tokens += (targets != -100).sum().item()
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= tokens
    return total / tokens
# %% right: the tokens are counted first
# ~ total, tokens = 0.0, 0
# ~~ ==> batches = list(batches); total, tokens = 0.0, sum(int((targets != -100).sum()) for _, targets in batches)
# ~ reduction="sum") ==> reduction="sum") / tokens
# -         tokens += (targets != -100).sum().item()
# ~ parameter.grad /= tokens ==> parameter.grad /= 1
# ~ return total / tokens ==> return total
# %% right: means, weighted by their tokens  from: worked
def train_step(model, batches):
    parameters = [p for p in model.parameters() if p.requires_grad]
    sums, loss, tokens = [torch.zeros_like(p) for p in parameters], 0.0, 0
    for inputs, targets in batches:
        count = int((targets != -100).sum())
        if not count:
            continue
        mean = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        for into, grad in zip(sums, torch.autograd.grad(mean, parameters)):
            into += grad * count
        loss, tokens = loss + mean.detach().item() * count, tokens + count
    for parameter, grad in zip(parameters, sums):
        parameter.grad = grad / tokens
    return loss / tokens
# %% wrong: the program in the statement => raised  from: the card
# %% wrong: mean of means => values
# > this weighs all micro-batches alike, however many tokens count in them.
# ~ , reduction="sum") ==> )
# ~ (targets != -100).sum().item() ==> 1
# %% wrong: sum of means => values
# > this adds up the micro-batches' means.
# ~ , reduction="sum") ==> )
# ~ tokens += (targets != -100).sum().item() ==> tokens = 1
# %% wrong: never divided => values
# > the sum is not divided by the number of tokens.
# ~ (targets != -100).sum().item() ==> 1 - tokens
# %% wrong: divided by batches => values
# > divide by tokens, not by micro-batches.
# ~ (targets != -100).sum().item() ==> 1
# %% wrong: running count => values
# > each micro-batch was divided by the tokens so far, without the later ones.
# -         loss.backward()
# -         total += loss.item()
#           tokens += (targets != -100).sum().item()
# +         (loss / tokens).backward()
# +         total += loss.item() / tokens
# ~ = tokens ==> = 1
# ~ total / tokens ==> total
# %% wrong: last only => values
# > this is the last micro-batch alone.
#       for inputs, targets in batches:
# +         total, tokens = 0.0, 0
# +         model.zero_grad()
# %% wrong: last only over all => values
# > this is the last micro-batch alone, divided by all tokens; add all of them up.
#       for inputs, targets in batches:
# +         total = 0.0
# +         model.zero_grad()
# %% wrong: first only => values
# > this is the first micro-batch alone.
# ~ in batches: ==> in list(batches)[:1]:
# %% wrong: padding counted => values
# > this counts targets of -100 as tokens.
# ~ (targets != -100).sum().item ==> targets.numel
# %% wrong: gradients are divided in the loop => values other-numbers
# ~ ignore_index=-100, reduction ==> reduction
# -     for parameter in model.parameters():
# -         if parameter.grad is not None:
# +         for parameter in model.parameters():
# %% wrong: the loss is detached => values no-gradients
# -         loss.backward()
# %% wrong: a tensor with its graph => values a-tensor
# ~ total += loss.item() ==> total = total + loss
# %% wrong: graphs retained => cost graphs-kept-alive
# ~ batches) -> float: ==> batches, kept=[]) -> float:
# ~ total, tokens = 0.0, 0 ==> total, tokens, kept[:] = 0.0, 0, []
# ~ loss.backward() ==> loss.backward(retain_graph=True)
# ~ total += loss.item() ==> kept.append(loss)
# ~ total / tokens ==> sum(kept).item() / tokens
# %% wrong: all micro-batches in one, padded => cost graphs-kept-alive
#       total, tokens = 0.0, 0
# +     batches = list(batches)
# +     longest = max(inputs.shape[1] for inputs, _ in batches)
# +     inputs = torch.cat([F.pad(x, (0, longest - x.shape[1])) for x, _ in batches])
# +     batches = [(inputs, torch.cat([F.pad(t, (0, longest - t.shape[1]), value=-100) for _, t in batches]))]
# %% wrong: a mean of a micro-batch without tokens => generality not-a-number
# > this is NaN, like the mean of a micro-batch in which no token counts.
# ~ , reduction="sum") ==> ) * (targets != -100).sum()
# %% wrong: goes through the batches twice => generality read-twice
# > `batches` is read twice, and an iterator has nothing left the second time.
# ~ total, tokens = 0.0, 0 ==> total, tokens = 0.0, sum((targets != -100).sum().item() for _, targets in batches)
# -         tokens += (targets != -100).sum().item()
# %% half: graphs retained => 5  from: graphs retained
# %% half: the right loss alone => 1
# ~ parameter.grad /= tokens ==> parameter.grad /= 1
# %% wrong: eight micro-batches at most => generality -
# ~ in batches: ==> in list(batches)[:8]:
'''
