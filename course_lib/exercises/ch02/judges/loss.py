"""Judge of the loss in chunks: the plain loss and its gradients, on a device that cannot hold the logits."""

import math
import random
from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.ch02.probes import loss_inputs
from course_lib.judging import Fault, Judging, Mistake, Params, Weighed, matching, verdict
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import RELATIVE, close, kind_text, same, tensor_fault
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import KiB

Spec = Mapping[str, Any]


def right(spec: Spec, reduction: str) -> dict[str, Any]:
    """Loss and gradients of the plain loss, in fp64."""
    hidden, weight, targets = (x.double() if x.is_floating_point() else x for x in loss_inputs(spec))
    hidden.requires_grad_(), weight.requires_grad_()
    loss = F.cross_entropy(hidden @ weight.T, targets, reduction=reduction, ignore_index=-100)
    (loss * spec["scale"]).backward()
    return {"loss": loss.item(), "hidden": hidden.grad.float(), "weight": weight.grad.float()}


def room(spec: Spec) -> float:
    """Bytes of a device with room for both gradients a few times and a few chunks of logits."""
    logits = 4 * spec["tokens"] * spec["words"]
    return 3.5 * 4 * spec["width"] * (spec["tokens"] + spec["words"]) + 5 * logits / spec["chunks"]


def _loss_mistakes(spec: Spec, reduction: str) -> list[Mistake]:
    hidden, weight, targets = (x.double() if x.is_floating_point() else x for x in loss_inputs(spec))
    losses = F.cross_entropy(hidden @ weight.T, targets, reduction="none", ignore_index=-100)
    counts, chunks = targets != -100, spec["chunks"]
    total, mean = losses.sum().item(), losses.sum().item() / int(counts.sum())
    parts = zip(losses.chunk(chunks), counts.chunk(chunks), strict=True)
    means = [(loss.sum() / count.sum()).item() for loss, count in parts if count.any()]
    unequal = "this is the mean of the chunks' means, but chunks differ in the number of tokens that count."
    return [
        Mistake("public-form", mean, "this solves the public form, the mean; your variant needs the sum.")
        if reduction == "sum"
        else Mistake("sum-for-mean", total, "this is the sum over the tokens that count; return their mean."),
        Mistake("mean-of-means", sum(means) / len(means), unequal),
        Mistake("mean-of-means", sum(means) / chunks, unequal),
        Mistake("all-tokens", total / len(targets), "this divides by all tokens; targets of -100 do not count."),
        Mistake("chunks-for-tokens", total / chunks, "this divides by the number of chunks."),
        Mistake("sum-of-means", sum(means), "this adds up the chunks' means."),
        Mistake("bits", mean / math.log(2), "this is in bits; use the natural logarithm."),
        Mistake("first-chunk", means[0], "this is the first chunk alone."),
        Mistake("sign", -mean if reduction == "mean" else -total, "the sign is wrong."),
    ]


def _loss_fault(spec: Spec, reduction: str, loss: Tensor, want: float) -> Fault | None:
    if loss.numel() != 1 or loss.dtype not in RELATIVE:
        return "not-a-scalar", f"Return the loss as a tensor with one number; got {kind_text(loss)}."
    got = float(loss)
    if math.isnan(got):
        return "nan", "The loss is NaN: is there a mean over zero tokens, or infinity minus infinity?"
    if math.isinf(got):
        return "overflow", f"The loss is {got:g}. Subtract the largest logit before `exp`."
    if math.isclose(got, want, rel_tol=2e-5, abs_tol=1e-6):
        return None

    def equal(value: float) -> bool:
        return math.isclose(got, value, rel_tol=2e-5) and not math.isclose(value, want, rel_tol=1e-3)

    known = matching(_loss_mistakes(spec, reduction), (), equal)
    return known or ("", f"The loss is {got:.6g}, which is {got / want:.4g} times the plain loss.")


def _gradient_fault(spec: Spec, value: Mapping[str, Any], want: Mapping[str, Any]) -> Fault | None:
    if not same(value["targets"], loss_inputs(spec)[2]):
        return "inputs-changed", "Your function changed `targets`, which belongs to the caller."
    if value["graph"] is not True:
        return "no-graph", "the loss requires no gradient: its graph does not reach `hidden` and `weight`."
    for name in ("hidden", "weight"):
        got = value[name]
        if name not in spec["wanted"]:
            if got is not None:
                return "unasked", f"`{name}` requires no gradient here but got one."
            continue
        if got is None:
            return "no-gradient", f"`{name}` got no gradient."
        ignored = Mistake("incoming-ignored", want[name] / spec["scale"], "a factor on the loss is ignored.")
        if fault := tensor_fault(f"The gradient of `{name}`", got, want[name], [ignored]):
            return fault
    return None


def _memory_fault(spec: Spec, peak: float) -> Fault | None:
    logits = 4 * spec["tokens"] * spec["words"]
    if peak < 4 * spec["width"] * (spec["tokens"] + spec["words"]):
        return "too-few-bytes", "Fewer bytes were alive than both gradients take."
    if peak > max(logits, room(spec)):
        sizes = f"The peak is {peak / KiB:,.0f} KiB; all logits together take {logits / KiB:,.0f} KiB."
        return "whole-logits", f"{sizes} They are computed at once, or each chunk's tensors stay alive."
    if peak > room(spec):
        sizes = f"The peak is {peak / KiB:,.0f} KiB; {room(spec) / KiB:,.0f} KiB is"
        return "too-much", f"{sizes} room for five chunks of logits, both gradients and the terms added to them."
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    spec, value = case.args[0], outcome.value
    want = right(spec, params["reduction"])
    loss = _loss_fault(spec, params["reduction"], value["loss"], want["loss"])
    gradients = loss or (_gradient_fault(spec, value, want) if spec["wanted"] else None)
    if case.kind == "values":
        return [verdict("values", "loss", case, loss), verdict("values", "gradients", case, gradients)]
    memory = _memory_fault(spec, value["peak"]) if case.kind == "cost" else None
    return [verdict(case.kind, case.part, case, gradients or memory)]


def _spec(rng: random.Random, tokens: int, chunks: int, words: int, width: int, **more: Any) -> dict[str, Any]:
    sizes = {"tokens": tokens, "chunks": chunks, "words": words, "width": width}
    return {"seed": rng.randrange(2**31), **sizes, "scale": 1.0, "wanted": ["hidden", "weight"], **more}


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
        shown("24 tokens in 4 chunks", "values", small, None),
        shown("16 chunks, measured", "cost:memory", large, None),
        unseen("a number of tokens that the chunks do not divide", own(tokens=37, ignored=padded)),
        unseen("a factor on the loss", own(scale=3.5, ignored=padded)),
        unseen("large logits", own(size=400.0)),
        unseen("a frozen weight", own(wanted=["hidden"], scale=3.5)),
        unseen("hidden states that need no gradient", own(wanted=["weight"], scale=0.25)),
        unseen("without gradients", own(wanted=[])),
        hidden("fewer tokens than chunks", "generality:others", own(tokens=5), None),
        unseen("a chunk of which no token counts", own(ignored=[(5, 10)], size=400.0)),
        unseen("a device without room for the logits", _spec(rng, **wide, ignored=[(30, 60)]), part="device"),
        unseen("48 chunks, and a factor", _spec(rng, 203, 48, 2048, 4, scale=0.25), part="device"),
    ]


def _weighed(params: Params, rng: random.Random) -> Weighed:
    """105 MB of logits in 16 chunks: right answers hold two to eight chunks at once; one that computes all logits holds at least 16."""
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
    point=("cost:memory",),
    shares="values:loss 0.1, values:gradients 0.2, cost:memory 0.25, generality:others 0.25, generality:device 0.2",
    cases=_cases,
    verdicts=_verdicts,
    why="The gradient of the logits is softmax minus one-hot, which depends on the chunk alone. So compute a chunk, use it, and drop it. "
    "Only two sums remain: the loss and the weight's gradient. With a vocabulary of 128 thousand words, the logits are one of the "
    "largest tensors of a step, and a checkpoint around a transformer block does not reduce them. Recomputing the chunks costs one more "
    "product with the vocabulary; computing both gradients at once costs none.",
    pytorch="`torch.utils.checkpoint.checkpoint` around each chunk; fused kernels (Liger, Cut Cross-Entropy) do the same per tile.",
    measured_by_worker=("cost:memory",),
    weighed=_weighed,
)
