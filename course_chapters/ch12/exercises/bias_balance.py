from course_chapters.ch12.exercises.probes import steered
from course_grader.exercises import Anything, Card, DictOf, ListOf, Worth

RULES = {
    "sign": "`bias` changes by `rate` for each expert: up if it got fewer copies than the mean, down if it got more, "
    "and not at all if it got exactly the mean (DeepSeek-V3)",
    "share": "`bias` changes by `rate` · (mean − count) / mean for each expert: the more copies it lacks, the more. "
    "If the mean is 0, nothing changes",
}

CARD = Card(
    title="Balance by a bias",
    text="""Write two functions that balance experts without an auxiliary loss. A bias per expert steers the *choice*,
and the weights do not see it.

- `choose(scores, bias, k)` returns `(ids, weights)` in shape (tokens, k). A token goes to the `k` experts with the
  largest `scores + bias`, the largest first; of equal sums, the lower id goes first.
- The weights are the chosen experts' `scores`, **without** the bias, divided by their sum. `scores` are positive.
- Gradients flow through the weights to `scores`, and never to `bias`.
- `update(bias, counts, rate)` returns the new bias after a step, in the dtype of `bias`; `counts[e]` is how many copies
  expert e got. {{means}}.
- Leave all given tensors as they are. The checks call both functions in turn over many steps.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which of the two, the choice or the weight, would change the model's output if it saw the bias?",
        "Sort `scores + bias` to choose, then gather from `scores` alone. The mean of the counts is the target.",
        "`ids = (scores + bias).detach().argsort(dim=-1, descending=True, stable=True)[:, :k]`; `w = scores.gather(1, "
        "ids)`; `w / w.sum(-1, keepdim=True)`; `bias + rate * torch.sign(counts.float().mean() - counts)`.",
    ),
    answers=("choose", "update"),
    allowed="torch; the library's update is switched off.",
    hides=("course_lib.parallel.expert.balance:update_bias", "course_lib.parallel.expert.routing:route"),
    params={"rule": "sign", "means": RULES["sign"], "experts": 6},
    vary=lambda draw: {"rule": "share", "means": RULES["share"], "experts": draw.randrange(6, 11)},
    structural="rule",
    probe=steered,
    returns=ListOf(DictOf({name: Anything() for name in ("ids", "weights", "gradient", "bias")}), what="step"),
)
