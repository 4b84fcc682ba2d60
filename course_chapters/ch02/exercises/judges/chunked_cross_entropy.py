import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from course_chapters.ch02.exercises.probes import loss_inputs
from course_grader.judging import Fault, Judging, Params, Random, Weighed, Worked, Wrong, hidden, shown, verdict
from course_grader.judging.tensors import RELATIVE, close, kind_text, same, tensor_fault
from course_grader.records import Case, Outcome, Verdict
from course_lib.estimate.units import KiB

Spec = Mapping[str, Any]
right = Worked("chunked-cross-entropy")


def room(spec: Spec) -> float:
    """Bytes of a device with room for both gradients a few times and a few chunks of logits."""
    logits = 4 * spec["tokens"] * spec["words"]
    return 3.5 * 4 * spec["width"] * (spec["tokens"] + spec["words"]) + 5 * logits / spec["chunks"]


def _loss_fault(loss: Tensor, want: float) -> Fault | None:
    if loss.numel() != 1 or loss.dtype not in RELATIVE:
        return "not-a-scalar", f"Return the loss as a tensor with one number; got {kind_text(loss)}."
    got = float(loss)
    if math.isnan(got):
        return "nan", "The loss is NaN: is there a mean over zero tokens, or infinity minus infinity?"
    if math.isinf(got):
        return "overflow", f"The loss is {got:g}. Subtract the largest logit before `exp`."
    if math.isclose(got, want, rel_tol=2e-5, abs_tol=1e-6):
        return None
    told = f"The loss is {got:.6g}, which is {got / want:.4g} times the plain loss."
    return Wrong("", told, "The loss: ", ("loss",))


def _gradient_fault(spec: Spec, value: Mapping[str, object], want: Mapping[str, Tensor | None]) -> Fault | None:
    if not same(value["targets"], loss_inputs(**spec)[2]):
        return "inputs-changed", "Your function changed `targets`, which belongs to the caller."
    if value["graph"] is not True:
        return "no-graph", "the loss requires no gradient: its graph does not reach `hidden` and `weight`."
    for name in ("hidden", "weight"):
        got, wanted = value[name], want[name]
        if (got is None) != (wanted is None):
            told = "got no gradient" if got is None else "requires no gradient here but got one"
            return "unasked" if wanted is None else "no-gradient", f"`{name}` {told}."
        if wanted is not None and (fault := tensor_fault(f"The gradient of `{name}`", got, wanted)):
            return Wrong(*fault)._replace(where=(name,))
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
    want = right.value(case)
    loss = _loss_fault(value["loss"], float(want["loss"]))
    gradients = loss or (_gradient_fault(spec, value, want) if spec["wanted"] else None)
    if case.kind == "values":
        return [verdict("values", "loss", case, loss), verdict("values", "gradients", case, gradients)]
    memory = _memory_fault(spec, value["peak"]) if case.kind == "cost" else None
    return [verdict(case.kind, case.part, case, gradients or memory)]


def _spec(rng: Random, tokens: int, chunks: int, words: int, width: int, **more: object) -> Spec:
    sizes = {"tokens": tokens, "chunks": chunks, "words": words, "width": width}
    return {"seed": rng.randrange(2**31), **sizes, "scale": 1.0, "wanted": ["hidden", "weight"], **more}


def _cases(params: Params, rng: Random) -> list[Case]:
    def unseen(name: str, spec: Spec, part: str = "others") -> Case:
        return hidden(name, f"generality:{part}", spec, room(spec))

    def own(tokens: int = 40, **more: object) -> Spec:
        return _spec(rng, tokens, 8, 400, 4, **more)

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


def _weighed(params: Params, rng: Random) -> Weighed:
    """105 MB of logits in 16 chunks: right answers hold two to eight chunks at once; one that computes all logits holds
    at least 16."""
    spec = _spec(rng, 800, 16, 32_768, 4)
    case = hidden("800 tokens and 32,768 words in 16 chunks", "cost:memory", spec, None, seconds=30.0)
    warm = hidden("a few tokens", "cost:memory", _spec(rng, 24, 4, 50, 8), None, seconds=30.0)

    def done(outcome: Outcome) -> bool:
        value = outcome.value if type(outcome.value) is dict else {}
        return close(value.get("hidden"), right.value(case)["hidden"], 1e-3)

    most, shares = 10 * 4 * spec["tokens"] * spec["words"] / spec["chunks"], ("cost:memory", "generality:device")
    return Weighed(case=case, warm=warm, most=most, done=done, shares=shares)


JUDGING = Judging(
    point=("cost:memory",),
    shares="values:loss 0.1, values:gradients 0.2, cost:memory 0.25, generality:others 0.25, generality:device 0.2",
    cases=_cases,
    verdicts=_verdicts,
    why="The gradient of the logits is softmax minus one-hot, which depends on the chunk alone. So compute a chunk, "
    "use it, and drop it. Only two sums remain: the loss and the weight's gradient. With a vocabulary of 128 "
    "thousand words, the logits are one of the largest tensors of a step, and a checkpoint around a transformer "
    "block does not reduce them. Recomputing the chunks costs one more product with the vocabulary; computing "
    "both gradients at once costs none.",
    pytorch="`torch.utils.checkpoint.checkpoint` around each chunk; fused kernels (Liger, Cut Cross-Entropy) do the "
    "same per tile.",
    measured_by_worker=("cost:memory",),
    weighed=_weighed,
)

ANSWERS = r'''from torch.utils.checkpoint import checkpoint as again
# %% right: worked
reduction = params("chunked-cross-entropy").reduction  # leave as is: "mean" or "sum": your variant


def chunked_cross_entropy(hidden, weight, targets, chunks: int):
    """The loss over the tokens that count, as a scalar. Budget: a few times tokens · vocabulary / chunks numbers."""
    from torch.utils.checkpoint import checkpoint as recompute

    def part(h, w, t):
        return F.cross_entropy(h @ w.T, t, ignore_index=-100, reduction="sum")

    total = 0
    for h, t in zip(hidden.chunk(chunks), targets.chunk(chunks), strict=True):
        total = total + recompute(part, h, weight, t, use_reentrant=False)
    return total / (targets != -100).sum() if reduction == "mean" else total
# %% right: both gradients while the logits are there
class Chunked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, targets, chunks):
        counts = targets != -100
        number = counts.sum()
        loss, grads, into = hidden.new_zeros(()), [], torch.zeros_like(weight)
        for h, t, c in zip(hidden.chunk(chunks), targets.chunk(chunks), counts.chunk(chunks)):
            logits = h @ weight.T
            logits -= logits.max(1, keepdim=True).values
            rows = torch.arange(len(t))
            t = t.clamp(min=0)
            picked = logits[rows, t].clone()
            logits.exp_()
            norm = logits.sum(1, keepdim=True)
            loss += ((norm.squeeze(1).log() - picked) * c).sum()
            logits /= norm
            logits[rows, t] -= 1
            logits *= c.unsqueeze(1)
            grads.append(logits @ weight)
            into += logits.T @ h
        ctx.save_for_backward(torch.cat(grads) / number, into / number)
        return loss / number

    @staticmethod
    def backward(ctx, grad):
        pairs = zip(ctx.saved_tensors, ctx.needs_input_grad)
        return *(each * grad if need else None for each, need in pairs), None, None


def chunked_cross_entropy(hidden, weight, targets, chunks):
    return Chunked.apply(hidden, weight, targets, chunks)
# %% right: chunks of the vocabulary
def chunked_cross_entropy(hidden, weight, targets, chunks):
    def part(h, words, at):
        logits, inside = h @ words.T, (targets >= at) & (targets < at + len(words))
        picked = logits.gather(1, (targets - at).clamp(0, len(words) - 1)[:, None]).squeeze(1)
        return logits.logsumexp(1), picked * inside

    norms, picked, at = [], 0, 0
    for words in weight.chunk(chunks):
        norm, found = again(part, hidden, words, at, use_reentrant=False)
        norms, picked, at = [*norms, norm], picked + found, at + len(words)
    counts = targets != -100
    return ((torch.stack(norms).logsumexp(0) - picked) * counts).sum() / counts.sum()
# %% right: logits in double inside a checkpoint
# ~ (h @ w.T, t, ignore_index=-100, reduction="sum") ==> ((h @ w.T).double(), t, reduction="sum").float()
# %% wrong: targets are changed in place => values inputs-changed  from: both gradients while the logits are there
# ~ t.clamp( ==> t.clamp_(
# %% wrong: chunks of one size, the rest is left out => generality -
# -     for h, t in zip(hidden.chunk(chunks), targets.chunk(chunks), strict=True):
# +     size = len(targets) // chunks
# +     for h, t in zip(hidden[: chunks * size].split(size), targets[: chunks * size].split(size)):
# %% wrong: the plain loss => cost whole-logits
# ~ total = 0 ==> return F.cross_entropy(hidden @ weight.T, targets, reduction=reduction)
# %% wrong: public form => values public-form unless reduction=mean
# > this solves the public form, the mean; your variant needs the sum.
# ~ if reduction == "mean" ==> if True
# %% wrong: sum for mean => values sum-for-mean unless reduction=sum
# > this is the sum over the tokens that count; return their mean.
# ~ if reduction == "mean" ==> if False
# %% wrong: mean of means => values
# > this is the mean of the chunks' means, but chunks differ in the number of tokens that count.
# ~ , reduction="sum") ==> )
# ~ return total / (targets != -100).sum() if reduction == "mean" else total ==> return total / chunks
# %% wrong: all tokens => values
# > this divides by all tokens; targets of -100 do not count.
# ~ return total / (targets != -100).sum() if reduction == "mean" else total ==> return total / len(targets)
# %% wrong: chunks for tokens => values
# > this divides by the number of chunks.
# ~ return total / (targets != -100).sum() if reduction == "mean" else total ==> return total / chunks
# %% wrong: sum of means => values
# > this adds up the chunks' means.
# ~ , reduction="sum") ==> )
# ~ return total / (targets != -100).sum() if reduction == "mean" else total ==> return total
# %% wrong: bits => values
# > this is in bits; use the natural logarithm.
# ~ if reduction == "mean" else total ==> / 0.6931471805599453
# %% wrong: first chunk => values
# > this is the first chunk alone.
# ~ total = 0 ==> total, hidden, targets, chunks = 0, hidden.chunk(chunks)[0], targets.chunk(chunks)[0], 1
# ~ return total / (targets != -100).sum() if reduction == "mean" else total ==> return total / (targets != -100).sum()
# %% wrong: a number => values not-a-tensor
# ~ return total / (targets != -100).sum() if reduction == "mean" else total ==> return float(total)
# %% wrong: no gradient => values no-graph
# ~ total = 0 ==> total, hidden, weight = 0, hidden.detach(), weight.detach()
# %% wrong: the hidden states are cut off => values no-gradient
# ~ part, h, weight, ==> part, h.detach(), weight,
# %% wrong: the weight's gradient of the last chunk only => values other-numbers
# ~~ from: both gradients while the logits are there
# ~ into += logits ==> into = logits
# %% wrong: padded tokens send gradients => values other-numbers  from: both gradients while the logits are there
# -             logits *= c.unsqueeze(1)
# %% wrong: what comes in is ignored => generality incoming-ignored  from: both gradients while the logits are there
# > a factor on the loss is ignored.
# ~ each * grad if ==> each if
# %% wrong: exp without the largest => generality overflow  from: both gradients while the logits are there
# -             logits -= logits.max(1, keepdim=True).values
# %% wrong: only where the chunks divide the tokens => generality raised
#       total = 0
# +     assert len(targets) % chunks == 0
# %% wrong: a mean of a chunk without tokens => cost nan
# > the loss is NaN: a mean over zero tokens, in a chunk of which no token counts.
# ~ t, ignore_index=-100, reduction="sum" ==> t
# ~ (part, h, weight, t, use_reentrant=False) ==> (part, h, weight, t, use_reentrant=False) * (t != -100).sum()
# %% wrong: both must need gradients => generality raised  from: both gradients while the logits are there
#           pairs = zip(ctx.saved_tensors, ctx.needs_input_grad)
# +         assert all(ctx.needs_input_grad[:2])
# %% wrong: one checkpoint around everything => cost whole-logits
# ~ total = 0 ==> total, chunks = 0, 1
# %% wrong: chunks, but autograd keeps them => cost whole-logits
# ~ recompute(part, h, weight, t, use_reentrant=False) ==> F.cross_entropy(h @ weight.T, t, reduction="sum")
# %% half: a plain loss => 7.5  from: the plain loss
# %% half: the loss alone => 2.5
# ~ h, weight, t, ==> h, weight.detach(), t,
# %% half: no room left for large logits => 18.75  from: exp without the largest
# %% wrong: always sixteen chunks => generality raised
# ~ total = 0 ==> total, chunks = 0, 16
'''
