from course_chapters.ch02.exercises.probes import cross_entropy
from course_chapters.ch02.exercises.shared import shape_of
from course_grader.exercises import Anything, Card, DictOf, Maybe, Number, Params, Random, Tensor, Worth

_REDUCTIONS = {"mean": "the **mean** over the tokens that count", "sum": "the **sum** over the tokens that count"}


def _loss(reduction: str, model: str, tokens: int, chunks: int) -> dict[str, object]:
    shape = shape_of(model)
    logits = 4.0 * tokens * shape["vocab"]
    sizes = {"tokens": tokens, "chunks": chunks, "vocab": shape["vocab"], "hidden": shape["hidden"]}
    stated = {"model": model, **sizes, "logits": logits, "chunk": logits / chunks}
    return {"reduction": reduction, "reduction_words": _REDUCTIONS[reduction], **stated}


def _loss_variant(draw: Random) -> Params:
    model = draw.choice(("qwen2.5-7b", "llama3.2-1b", "llama3-70b"))
    return _loss("sum", model, draw.choice((4096, 16_384)), draw.choice((8, 32)))


CARD = Card(
    title="A loss that never holds the logits",
    **Worth(points=25, minutes=25, difficulty=4, importance=5),
    kind="more",
    answers=("chunked_cross_entropy",),
    text="""Compute a language model's loss in chunks, so that the logits never exist as a whole. The logits of
{{tokens:int}} tokens over the {{vocab:int}} entries of {{model}}'s vocabulary take {{logits:gb}} in fp32, and a plain
cross-entropy creates two or three tensors of that size. In {{chunks:int}} chunks, each takes {{chunk:gb}}.

- `chunked_cross_entropy(hidden, weight, targets, chunks)` returns the loss as a scalar tensor: {{reduction_words}} of
  `-log softmax(hidden @ weight.T)[target]`.
- Shapes: `hidden` (tokens, width), `weight` (vocabulary, width), `targets` (tokens,) with whole numbers. A token with
  target -100 does not count.
- **Memory.** Cut the tokens into `chunks` parts of nearly equal size. Forward and backward, never keep more than a few
  times `tokens * vocabulary / chunks` numbers.
- **Gradients.** `loss.backward()` gives `hidden` and `weight` the gradients of the plain loss, scaled by whatever
  multiplies the loss. One of the two may need no gradient; if neither does, return the loss alone.
- **Overflow.** Where the plain loss is finite, so is yours.""",
    hints=(
        "If a loop adds up the losses of chunks, what does autograd keep of each chunk until the backward pass?",
        "There are two ways. Recompute each chunk in the backward pass, with a checkpoint around the chunk's loss. Or "
        "compute the chunk's share of both gradients while its logits exist (softmax minus one-hot), keep only those "
        "shares, and multiply them by the incoming gradient. Divide by the number of tokens that count, not by the "
        "number of chunks.",
        "`from torch.utils.checkpoint import checkpoint`; `sum(checkpoint(part, h, weight, t, use_reentrant=False) "
        "for h, t in zip(hidden.chunk(chunks), targets.chunk(chunks)))` with `part = lambda h, w, t: "
        "F.cross_entropy(h @ w.T, t, reduction='sum')`; divide by `(targets != -100).sum()` where the mean "
        "is required.",
    ),
    allowed="everything in torch, including `torch.utils.checkpoint`.",
    returns=DictOf(
        {
            "loss": Tensor("a tensor with one number"),
            "graph": Anything(),
            **{name: Maybe(Tensor()) for name in ("hidden", "weight")},
            "targets": Tensor(),
            "peak": Number("bytes"),
        }
    ),
    params=_loss("mean", "llama3-8b", 8192, 16),
    vary=_loss_variant,
    structural="reduction",
    probe=cross_entropy,
)
