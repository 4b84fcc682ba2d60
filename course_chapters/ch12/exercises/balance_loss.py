from course_chapters.ch12.exercises.probes import balanced
from course_grader.exercises import Anything, Card, DictOf, PerRank, Tensor, Worth

COUNTS = {
    "global": "the copies of **all ranks'** tokens (one all-reduce of `experts` numbers)",
    "local": "the copies of **this rank's own** tokens, without any communication",
}

CARD = Card(
    title="A loss that balances experts",
    text="""Write `balance_loss(comm, logits, k)`, the auxiliary loss E · Σₑ cₑ · Pₑ over the E experts. It is 1 when
all experts are used alike, and larger when the experts with the most copies also have the highest probabilities.

- `logits` has shape (tokens, E): the router's scores for this rank's own tokens. Each token goes to its `k` largest;
  ties do not occur.
- cₑ is expert e's share of the copies. The shares add up to **1**, whatever `k` is. Transformers once let them add up
  to k (*huggingface/transformers, pull request 43775*). They are counted over {{means}}.
- Pₑ is the mean over this rank's own tokens of the softmax over all experts.
- Return a tensor with one number. Its gradient flows through P alone. Leave `logits` as they are.
- A rank without tokens returns 0, and still takes part in what the others wait for. If no rank has tokens, all return
  0.

Budget: a rank sends at most 8 bytes per expert, which is enough to reduce counts in fp32.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Counting has no gradient. Which of the two factors can push the router?",
        "Count the chosen ids with `bincount`, and divide by all copies. Multiply by the mean of the softmax "
        "over the tokens.",
        "`counts = torch.bincount(ids.flatten(), minlength=E).float()`; `comm.all_reduce(counts)`; `c = counts / "
        "counts.sum().clamp(min=1)`; `P = logits.softmax(-1).sum(0) / max(1, tokens)`; `E * (c * P).sum()`.",
    ),
    answers=("balance_loss",),
    allowed="torch and the operations of `comm`; the library's loss is switched off.",
    hides=("course_lib.parallel.expert.balance:balance_loss",),
    params={"counts": "global", "means": COUNTS["global"], "tokens": 6, "experts": 4},
    vary=lambda draw: {
        "counts": "local",
        "means": COUNTS["local"],
        "tokens": draw.randrange(6, 12),
        "experts": draw.randrange(4, 8),
    },
    structural="counts",
    needs=("06",),
    probe=balanced,
    returns=PerRank(DictOf({"loss": Anything(), "gradient": Tensor()})),
)
