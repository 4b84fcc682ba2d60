"""Judge of the training step that kept its graphs: loss, gradients, one forward pass at a time, flat memory."""

import math
import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.accounting import Accounting
from course_lib.exercises.ch02.judges.tensors import KIB, all_close, close, factor, measured, tensor_fault
from course_lib.exercises.ch02.probes import micro_batches, static_model
from course_lib.judging import Fault, Judging, Params, Weighed, describe, is_number, near, verdict
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome, Verdict

Spec = Mapping[str, Any]


def _model(spec: Spec) -> Any:
    with torch.random.fork_rng(devices=[]):
        return static_model(spec, one_buffer=False)


def _part(model: Any, pair: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    inputs, targets = pair
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
    return loss, int((targets != -100).sum())


def gradients_of(spec: Spec, total: Callable[[list[tuple[Tensor, int]]], Tensor]) -> tuple[float, list[Tensor]]:
    """Loss and gradients where `total` puts the micro-batches' (sum, tokens) together."""
    model = _model(spec)
    loss = total([_part(model, pair) for pair in micro_batches(spec)])
    loss.backward()
    return loss.item(), [p.grad if p.grad is not None else torch.zeros_like(p) for p in model.parameters()]


def over_all(parts: list[tuple[Tensor, int]]) -> Tensor:
    """The mean over all tokens that count."""
    return sum(loss for loss, _ in parts) / sum(count for _, count in parts)


_WRONG: dict[str, tuple[Callable[[list[tuple[Tensor, int]]], Tensor], str]] = {
    "mean-of-means": (
        lambda parts: sum(loss / max(n, 1) for loss, n in parts) / len(parts),
        "micro-batches with few tokens weigh as much as those with many.",
    ),
    "sum-of-means": (
        lambda parts: sum(loss / max(n, 1) for loss, n in parts),
        "these are means of micro-batches, added up.",
    ),
    "never-divided": (
        lambda parts: sum(loss for loss, _ in parts),
        "the sum was never divided by the number of tokens.",
    ),
    "divided-by-batches": (
        lambda parts: sum(loss for loss, _ in parts) / len(parts),
        "divided by the number of micro-batches; tokens are meant.",
    ),
    "running-count": (
        lambda parts: sum(loss / sum(n for _, n in parts[: k + 1]) for k, (loss, _) in enumerate(parts)),
        "each micro-batch was divided by the tokens seen so far; those that come later count as well.",
    ),
    "last-only": (lambda parts: parts[-1][0] / max(parts[-1][1], 1), "this is the last micro-batch alone."),
    "last-only-over-all": (
        lambda parts: parts[-1][0] / sum(n for _, n in parts),
        "this is the last micro-batch alone.",
    ),
    "first-only": (lambda parts: parts[0][0] / max(parts[0][1], 1), "this is the first micro-batch alone."),
}


def padded(spec: Spec) -> tuple[float, list[Tensor]]:
    """As if padding counted in the number of tokens."""
    sizes = [targets.numel() for _, targets in micro_batches(spec)]
    return gradients_of(spec, lambda parts: sum(loss for loss, _ in parts) / sum(sizes))


def _loss_fault(spec: Spec, got: Any, want: float) -> Fault | None:
    if got is None:
        return "returned-none", "The function returned None: is a `return` missing?"
    if isinstance(got, Tensor):
        return (
            "a-tensor",
            "A tensor came back; a loss that is only to be shown is a number (`.item()`): a tensor holds on to its graph.",
        )
    if not is_number(got):
        return "not-a-number", f"Return the loss as a number; got {describe(got)}."
    if math.isclose(got, want, rel_tol=2e-5):
        return None
    for name, (total, message) in _WRONG.items():
        if math.isclose(got, gradients_of(spec, total)[0], rel_tol=2e-5):
            return name, f"The loss: {message}"
    if math.isclose(got, padded(spec)[0], rel_tol=2e-5):
        return "padding-counted", "The loss: targets of -100 were counted as tokens."
    return "", f"The loss is {got / want:.4g} times the mean over all tokens."


def _gradient_fault(spec: Spec, got: Any, want: list[Tensor]) -> Fault | None:
    if type(got) is not list or len(got) != len(want):
        return "no-gradients", "No gradients came back."
    if all(each is None for each in got):
        return (
            "no-gradients",
            "The parameters have no gradients: was `backward()` called on something that has a graph?",
        )
    found = [torch.zeros_like(right) if each is None else each for each, right in zip(got, want, strict=True)]
    if all_close(found, want):
        return None
    for name, (total, message) in _WRONG.items():
        if all_close(found, gradients_of(spec, total)[1]):
            return name, f"The gradients: {message}"
    if all_close(found, padded(spec)[1]):
        return "padding-counted", "The gradients: targets of -100 were counted as tokens."
    first = found[0]
    same = isinstance(first, Tensor) and first.shape == want[0].shape and first.dtype == want[0].dtype
    scale = factor(first, want[0]) if same else None
    if scale is not None:
        return "scaled", f"The gradients are {scale:.4g} times the right ones."
    return next(
        (fault for one, right in zip(found, want, strict=True) if (fault := tensor_fault(one, right, "A gradient"))),
        ("", "wrong"),
    )


@cache
def one_at_a_time(
    seed: int, words: int, width: int, depth: int, rows: int, lengths: tuple[tuple[int, int], ...]
) -> int:
    """Peak bytes of a step that frees each graph at once."""
    spec = {"seed": seed, "words": words, "width": width, "depth": depth, "rows": rows, "lengths": lengths}
    model, pairs = _model(spec), micro_batches(spec)
    with Accounting() as books:
        books.adopt(model)
        there = books.live_bytes
        for pair in pairs:
            _part(model, pair)[0].backward()
        return books.peak_bytes - there


def _memory_fault(spec: Spec, value: Mapping[str, Any]) -> Fault | None:
    peak = value.get("peak")
    names = ("seed", "words", "width", "depth", "rows")
    least = one_at_a_time(*(spec[name] for name in names), tuple(map(tuple, spec["lengths"])))
    if not measured(peak):
        return "no-bytes", "No bytes were measured."
    if peak < sum(4 * parameter.numel() for parameter in _model(spec).parameters()):
        return "too-few-bytes", "Fewer bytes were alive than the gradients have."
    if peak > 1.5 * least:
        return "graphs-kept-alive", (
            f"{peak / KIB:,.0f} KiB at the peak with {len(spec['lengths'])} micro-batches; one at a time needs "
            f"{least / KIB:,.0f} KiB. Either graphs that are done are still held, or several micro-batches went through the model together."
        )
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    spec, measured = case.args
    value = outcome.value if type(outcome.value) is dict else {}
    want, gradients = gradients_of(spec, over_all)
    loss = _loss_fault(spec, value.get("loss"), want)
    grads = _gradient_fault(spec, value.get("gradients"), gradients)
    if case.kind == "generality":
        return [verdict("generality", case.part, case, loss or grads)]
    if measured:
        return [verdict("cost", "memory", case, loss or grads or _memory_fault(spec, value))]
    return [verdict("values", "loss", case, loss), verdict("values", "gradients", case, grads)]


def _spec(rng: random.Random, lengths: list[tuple[int, int]], **more: Any) -> dict[str, Any]:
    return {"seed": rng.randrange(2**31), "words": 23, "width": 8, "depth": 2, "rows": 2, "lengths": lengths, **more}


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def lengths(count: int) -> list[tuple[int, int]]:
        found = [(length, rng.randint(0, length - 2)) for length in rng.sample(range(4, 20), count)]
        return [(found[0][0], 2), *found[1:]]

    many = [(24, 0)] * 6
    big = {"rows": 8, "width": 32, "depth": 4}
    return [
        Case(
            name=f"{params['micro_batches']} micro-batches", args=(_spec(rng, lengths(params["micro_batches"])), False)
        ),
        shown("six micro-batches, measured", "cost:memory", _spec(rng, many, **big), True),
        hidden("one micro-batch", "generality:others", _spec(rng, [(7, 3)]), False),
        hidden("an iterator", "generality:others", _spec(rng, lengths(5), once=True), False),
        hidden("a micro-batch of padding alone", "generality:others", _spec(rng, [(6, 1), (5, 5), (9, 4)]), False),
        hidden("a last one of padding alone", "generality:others", _spec(rng, [(6, 1), (9, 4), (5, 5)]), False),
    ]


def _weighed(params: Params, rng: random.Random) -> Weighed:
    """Four micro-batches whose graphs hold about 11 tensors of 4 MB each: one at a time, or together."""
    spec = _spec(rng, [(1024, 0)] * 4, words=32, width=64, depth=4, rows=16)
    tensor = 4 * spec["rows"] * 1024 * spec["width"]

    def done(outcome: Outcome) -> bool:
        value = outcome.value if type(outcome.value) is dict else {}
        loss, gradients = value.get("loss"), value.get("gradients")
        want_loss, want = _head(spec)
        return (
            near(loss, want_loss, 1e-4)
            and type(gradients) is list
            and bool(gradients)
            and close(gradients[-1], want, 1e-3)
        )

    return Weighed(
        case=hidden("4 micro-batches of 16,384 tokens", "cost:memory", spec, True, seconds=30.0),
        warm=hidden("two small ones", "cost:memory", _spec(rng, [(7, 0), (5, 0)]), True, seconds=30.0),
        most=20 * tensor,
        done=done,
    )


@torch.no_grad()
def _head(spec: Spec) -> tuple[float, Tensor]:
    """Loss, and gradient of the output layer, without any graph: what comes in, times what is wrong with the probabilities."""
    model, seen = _model(spec), []
    model.head.register_forward_hook(lambda _, given, out: seen.append((given[0].flatten(0, 1), out.flatten(0, 1))))
    total, tokens, gradient = 0.0, 0, torch.zeros_like(model.head.weight)
    for inputs, targets in micro_batches(spec):
        model(inputs)
        (x, logits), flat = seen.pop(), targets.flatten()
        wrong = logits.softmax(-1)
        wrong[torch.arange(len(flat)), flat] -= 1
        total += F.cross_entropy(logits, flat, reduction="sum").item()
        tokens, gradient = tokens + len(flat), gradient + wrong.T @ x
    return total / tokens, gradient / tokens


GRAPHS_KEPT_ALIVE = Judging(
    shares={"values:loss": 0.1, "values:gradients": 0.4, "cost:memory": 0.25, "generality:others": 0.25},
    cases=_cases,
    verdicts=_verdicts,
    why="A sum of losses holds every graph that went into it, and a graph holds its activations. The gradient is linear, so the division "
    "can wait: each micro-batch sends its sum backward at once, gradients add up by themselves, and when all tokens are counted the "
    "gradients are divided, once. The library did just that: it scales the gradients before the optimizer's step.",
    pytorch="`loss.backward()` frees what it used unless `retain_graph=True`; `p.grad.mul_(1 / tokens)`, or "
    "`torch._foreach_mul_` over all of them.",
    measured_by_worker=("cost:memory",),
    weighed=_weighed,
)
