"""Judge of the loss in chunks: loss and gradients of the plain one, and a device that cannot hold the logits."""

import math
import random
from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.ch02.judges.tensors import KIB, close, factor, is_scalar, measured, tensor_fault
from course_lib.exercises.ch02.probes import loss_inputs
from course_lib.judging import Fault, Judging, Params, Weighed, describe, verdict
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome, Verdict

Spec = Mapping[str, Any]


def right(spec: Spec, reduction: str) -> dict[str, Any]:
    """Loss and gradients of the plain loss, in fp64."""
    hidden, weight, targets = (x.double() if x.is_floating_point() else x for x in loss_inputs(spec))
    hidden.requires_grad_(), weight.requires_grad_()
    loss = F.cross_entropy(hidden @ weight.T, targets, reduction=reduction, ignore_index=-100)
    (loss * spec["scale"]).backward()
    return {"loss": loss.item(), "hidden": hidden.grad.float(), "weight": weight.grad.float()}


def room(spec: Spec) -> float:
    """Bytes of a device that holds both gradients a few times and a few chunks of logits."""
    logits = 4 * spec["tokens"] * spec["words"]
    return 3.5 * 4 * spec["width"] * (spec["tokens"] + spec["words"]) + 5 * logits / spec["chunks"]


def _losses(spec: Spec, reduction: str) -> list[tuple[str, float, str]]:
    """Wrong losses by name, their value and what to say."""
    hidden, weight, targets = (x.double() if x.is_floating_point() else x for x in loss_inputs(spec))
    each = F.cross_entropy(hidden @ weight.T, targets, reduction="none", ignore_index=-100)
    counts = targets != -100
    known = int(counts.sum())
    parts = [(e, c) for e, c in zip(each.chunk(spec["chunks"]), counts.chunk(spec["chunks"]), strict=True)]
    means = [e.sum() / c.sum() for e, c in parts if c.any()]
    total = each.sum().item()
    others = [
        (
            "mean-of-means",
            (sum(means) / len(means)).item(),
            "this is the mean of the chunks' means; chunks differ in how many tokens count.",
        ),
        (
            "mean-of-means",
            (sum(means) / spec["chunks"]).item(),
            "this is the chunks' means over the number of chunks; chunks differ in how many tokens count.",
        ),
        ("all-tokens", total / len(targets), "this divides by all tokens; those with target -100 do not count."),
        ("chunks-for-tokens", total / spec["chunks"], "this divides by the number of chunks."),
        ("sum-of-means", float(sum(means)), "this adds up means of chunks."),
        ("bits", total / known / math.log(2), "this is in bits; the natural logarithm is meant."),
        ("first-chunk", means[0].item(), "this is one chunk."),
    ]
    mean = (
        "public-form",
        total / known,
        "this solves the public form of the exercise: the sum over the tokens is asked for, not their mean.",
    )
    whole = ("sum-for-mean", total, "the mean over the tokens that count is asked for, not their sum.")
    return [
        mean if reduction == "sum" else whole,
        *others,
        ("sign", -total / known if reduction == "mean" else -total, "the sign is wrong."),
    ]


def _loss_fault(spec: Spec, reduction: str, value: Any, want: float) -> Fault | None:
    if value is None:
        return "returned-none", "The function returned None: is a `return` missing?"
    if not is_scalar(value):
        return "not-a-scalar", f"Return the loss as a tensor with one number; got {describe(value)}."
    got = float(value)
    if math.isnan(got):
        return (
            "nan",
            "The loss is nan where the plain one is finite: a mean over no token at all, or one infinity minus another?",
        )
    if math.isinf(got):
        return (
            "overflow",
            f"The loss is {got:g} where the plain one is finite: subtract the largest logit before `exp`.",
        )
    if math.isclose(got, want, rel_tol=2e-5, abs_tol=1e-6):
        return None
    for name, wrong, message in _losses(spec, reduction):
        if math.isclose(got, wrong, rel_tol=2e-5) and not math.isclose(wrong, want, rel_tol=1e-3):
            return name, message
    return "", f"The loss is {got:.6g}, which is {got / want:.4g} times the plain one."


def _gradient_fault(spec: Spec, value: Mapping[str, Any], want: Mapping[str, Any]) -> Fault | None:
    targets = value.get("targets")
    if isinstance(targets, Tensor) and not close(targets, loss_inputs(spec)[2]):
        return "inputs-changed", "`targets` came back changed: they belong to the caller."
    if value.get("no_graph"):
        return "no-graph", "the loss needs no gradient: something cut it off from `hidden` and `weight`."
    for name in ("hidden", "weight"):
        got = value.get(name)
        if name not in spec["wanted"]:
            if got is not None:
                return "unasked", f"`{name}` needs no gradient here and got one."
            continue
        fault = tensor_fault(got, want[name], f"The gradient of `{name}`")
        if fault is None:
            continue
        alike = isinstance(got, Tensor) and got.shape == want[name].shape and got.dtype == want[name].dtype
        scale = factor(got, want[name]) if alike else None
        if scale is not None and math.isclose(scale, 1 / spec["scale"], rel_tol=1e-3):
            return (
                "incoming-ignored",
                f"`{name}` has the gradient of the loss itself; what was multiplied onto the loss afterwards is lost.",
            )
        if fault[0] == "none-came":
            return "no-gradient", f"`{name}` got no gradient."
        return fault
    return None


def _memory_fault(spec: Spec, value: Mapping[str, Any]) -> Fault | None:
    peak = value.get("peak")
    if not measured(peak):
        return "no-bytes", "No bytes were measured."
    if peak < 4 * spec["width"] * (spec["tokens"] + spec["words"]):
        return "too-few-bytes", "Fewer bytes were alive than both gradients have."
    if peak > room(spec):
        logits = 4 * spec["tokens"] * spec["words"]
        if peak > logits:
            return "whole-logits", (
                f"{peak / KIB:,.0f} KiB at the peak, where all logits together are {logits / KIB:,.0f} KiB: either they "
                "are made at once, or what each chunk made stays alive until the backward pass."
            )
        return (
            "too-much",
            f"{peak / KIB:,.0f} KiB at the peak; both gradients with what is added to them and five chunks of logits are {room(spec) / KIB:,.0f} KiB.",
        )
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    spec, reduction = case.args[0], params["reduction"]
    value, want = outcome.value, right(spec, reduction)
    if type(value) is not dict:
        value = {}
    loss = _loss_fault(spec, reduction, value.get("loss"), want["loss"])
    if not spec["wanted"]:
        return [verdict(case.kind, case.part, case, loss)]
    gradients = loss or _gradient_fault(spec, value, want)
    if case.kind == "generality":
        return [verdict("generality", case.part, case, gradients)]
    if case.kind == "cost":
        return [verdict("cost", "memory", case, gradients or _memory_fault(spec, value))]
    return [verdict("values", "loss", case, loss), verdict("values", "gradients", case, gradients)]


def _spec(rng: random.Random, tokens: int, chunks: int, words: int, width: int, **more: Any) -> dict[str, Any]:
    return {
        "seed": rng.randrange(2**31),
        "tokens": tokens,
        "chunks": chunks,
        "words": words,
        "width": width,
        "scale": 1.0,
        "wanted": ["hidden", "weight"],
        **more,
    }


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def unseen(name: str, spec: dict[str, Any], part: str = "others") -> Case:
        return hidden(name, f"generality:{part}", spec, room(spec))

    def own(**more: Any) -> dict[str, Any]:
        return _spec(rng, more.pop("tokens", 40), 8, 400, 4, **more)

    padded = [(3, 9), (20, 24)]
    small = _spec(rng, 24, 4, 50, 8, ignored=[(2, 7)])
    large = _spec(rng, 256, 16, 2048, 16, ignored=[(0, 24)])
    wide = {"tokens": 192, "chunks": 16, "words": 2048, "width": 16}
    return [
        Case(name="24 tokens in 4 chunks", args=(small, None)),
        shown("16 chunks, measured", "cost:memory", large, None),
        unseen("a number of tokens that the chunks do not divide", own(tokens=37, ignored=padded)),
        unseen("a factor on the loss", own(scale=3.5, ignored=padded)),
        unseen("large logits", own(size=400.0)),
        unseen("a frozen weight", own(wanted=["hidden"])),
        unseen("hidden states that need no gradient", own(wanted=["weight"])),
        unseen("without gradients", own(wanted=[])),
        unseen("a chunk of which no token counts", own(ignored=[(5, 10)])),
        unseen("a device without room for the logits", _spec(rng, **wide, ignored=[(30, 60)]), part="device"),
        unseen("the same, with a factor", _spec(rng, **{**wide, "tokens": 203}, scale=0.25), part="device"),
    ]


def _weighed(params: Params, rng: random.Random) -> Weighed:
    """105 MB of logits in 16 chunks: right answers hold two to eight chunks at once, an answer that makes all logits at least 16."""
    spec = _spec(rng, 800, 16, 32_768, 4)
    rows, chunk = rng.sample(range(spec["tokens"]), 4), 4 * spec["tokens"] * spec["words"] / spec["chunks"]

    def done(outcome: Outcome) -> bool:
        got = outcome.value.get("hidden") if type(outcome.value) is dict else None
        width, weight, targets = loss_inputs(spec)
        want = (width[rows] @ weight.T).softmax(-1)
        want[range(4), targets[rows]] -= 1
        scale = 1 if params["reduction"] == "sum" else 1 / spec["tokens"]
        return isinstance(got, Tensor) and got.shape == width.shape and close(got[rows], want @ weight * scale, 1e-3)

    return Weighed(
        case=hidden("800 tokens and 32,768 words in 16 chunks", "cost:memory", spec, None, seconds=30.0),
        warm=hidden("a few tokens", "cost:memory", _spec(rng, 24, 4, 50, 8), None, seconds=30.0),
        most=10 * chunk,
        done=done,
        shares=("cost:memory", "generality:device"),
    )


CHUNKED_CROSS_ENTROPY = Judging(
    shares="values:loss 0.1, values:gradients 0.2, cost:memory 0.25, generality:others 0.25, generality:device 0.2",
    cases=_cases,
    verdicts=_verdicts,
    why="The logits' gradient is softmax minus one-hot, a function of the chunk alone, so a chunk needs nothing of the others: make it, "
    "use it, drop it. Only two sums survive, the loss and the weight's gradient. With a vocabulary of 128 thousand words this is one "
    "of the largest tensors of a step, and no checkpoint around a transformer block touches it. The price is one product more with "
    "the vocabulary where chunks are computed again, none where both gradients are made at once.",
    pytorch="`torch.utils.checkpoint.checkpoint` around each chunk; fused kernels (Liger, Cut Cross-Entropy) do the same per tile.",
    measured_by_worker=("cost:memory",),
    weighed=_weighed,
)
