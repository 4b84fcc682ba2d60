"""Cards of chapter 12 on balance: a loss, a bias, and a limit on the nodes of a token."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch12.probes import balanced, rows_kept, steered
from course_lib.exercises.returns import Anything, DictOf, ListOf, Number, PerRank, Rows, Tensor

COUNTS: Mapping[str, str] = {
    "global": "the copies of **all ranks'** tokens (one all-reduce of `experts` numbers)",
    "local": "the copies of **this rank's own** tokens, without any communication",
}

BALANCE_LOSS = Card(
    id="balance-loss",
    chapter="12",
    title="A loss that balances experts",
    text="""Write `balance_loss(comm, logits, k)`, the auxiliary loss E · Σₑ cₑ · Pₑ over the E experts. It is 1 when all experts are used alike, and larger
when the experts with the most copies also have the highest probabilities.

- `logits` has shape (tokens, E): the router's scores for this rank's own tokens. Each token goes to its `k` largest; ties do not occur.
- cₑ is expert e's share of the copies. The shares add up to **1**, whatever `k` is. Transformers once let them add up to k
  (*huggingface/transformers, pull request 43775*). They are counted over {{means}}.
- Pₑ is the mean over this rank's own tokens of the softmax over all experts.
- Return a tensor with one number. Its gradient flows through P alone. Leave `logits` as they are.
- A rank without tokens returns 0, and still takes part in what the others wait for. If no rank has tokens, all return 0.

Budget: a rank sends at most 8 bytes per expert, which is enough to reduce counts in fp32.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Counting has no gradient. Which of the two factors can push the router?",
        "Count the chosen ids with `bincount`, and divide by all copies. Multiply by the mean of the softmax over the tokens.",
        "`counts = torch.bincount(ids.flatten(), minlength=E).float()`; `comm.all_reduce(counts)`; `c = counts / counts.sum().clamp(min=1)`; "
        "`P = logits.softmax(-1).sum(0) / max(1, tokens)`; `E * (c * P).sum()`.",
    ),
    answers=("balance_loss",),
    allowed="torch and the operations of `comm`; the library's loss is switched off.",
    hides=("expert_parallel.balance:balance_loss",),
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
    returns=PerRank(DictOf({"loss": Anything(), "gradient": Tensor(), "changed": Anything()})),
)

RULES: Mapping[str, str] = {
    "sign": "`bias` changes by `rate` for each expert: up if it got fewer copies than the mean, down if it got more, and not at all if it got "
    "exactly the mean (DeepSeek-V3)",
    "share": "`bias` changes by `rate` · (mean − count) / mean for each expert: the more copies it lacks, the more. If the mean is 0, nothing changes",
}

BIAS_BALANCE = Card(
    id="bias-balance",
    chapter="12",
    title="Balance by a bias",
    text="""Write two functions that balance experts without an auxiliary loss. A bias per expert steers the *choice*, and the weights do not
see it.

- `choose(scores, bias, k)` returns `(ids, weights)` in shape (tokens, k). A token goes to the `k` experts with the largest `scores + bias`,
  the largest first; of equal sums, the lower id goes first.
- The weights are the chosen experts' `scores`, **without** the bias, divided by their sum. `scores` are positive.
- Gradients flow through the weights to `scores`, and never to `bias`.
- `update(bias, counts, rate)` returns the new bias after a step, in the dtype of `bias`; `counts[e]` is how many copies expert e got. {{means}}.
- Leave all given tensors as they are. The checks call both functions in turn over many steps.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which of the two, the choice or the weight, would change the model's output if it saw the bias?",
        "Sort `scores + bias` to choose, then gather from `scores` alone. The mean of the counts is the target.",
        "`ids = (scores + bias).detach().argsort(dim=-1, descending=True, stable=True)[:, :k]`; `w = scores.gather(1, ids)`; "
        "`w / w.sum(-1, keepdim=True)`; `bias + rate * torch.sign(counts.float().mean() - counts)`.",
    ),
    answers=("choose", "update"),
    allowed="torch; the library's update is switched off.",
    hides=("expert_parallel.balance:update_bias", "expert_parallel.routing:route"),
    params={"rule": "sign", "means": RULES["sign"], "experts": 6},
    vary=lambda draw: {"rule": "share", "means": RULES["share"], "experts": draw.randrange(6, 11)},
    structural="rule",
    probe=steered,
    returns=ListOf(
        DictOf({name: Anything() for name in ("ids", "weights", "gradient", "bias", "changed")}), what="step"
    ),
)

NODE_SCORES: Mapping[str, str] = {
    "sum": "the sum of its `k // limit` largest scores (DeepSeek-V3)",
    "best": "its largest score (DeepSeek-V2)",
}


NODE_LIMITED = Card(
    id="node-limited",
    chapter="12",
    title="At most a few nodes per token",
    text="""Write two functions for routing that spares the slow links between nodes. The experts are split evenly over `nodes` nodes: the first
E / nodes experts are on node 0, and so on.

- `choose_limited(scores, k, nodes, limit)` returns ids in shape (tokens, k). A token first chooses `limit` nodes, and then its `k` largest
  scores among the experts of these nodes, the largest first. `k` is a multiple of `limit`, and `k / limit` experts fit on a node.
- A node's score for a token is {{means}}. Of equal nodes or experts, the lower number goes first.
- `rows_between(ids, home, experts, nodes)` returns how many rows cross between nodes in the dispatch. Token t lives on node `home[t]`. It is sent
  **once** to each other node that has at least one of its experts, and is copied there.
- Leave the tensors as they are. There may be no tokens.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=3),
    kind="more",
    hints=(
        "If you view the scores as (tokens, nodes, experts of a node), what is the score of a node?",
        "Choose the nodes with a stable sort, set the scores of all other nodes to −∞, and choose experts as usual. For the rows, mark the nodes of each "
        "token in a table of bools.",
        "`groups = scores.view(tokens, nodes, -1)`; `value = groups.sort(-1, descending=True).values[..., :k // limit].sum(-1)`; "
        "`mask.scatter_(1, best, True)`; `hit[t, ids // per_node] = True`, `hit[t, home] = False`, `hit.sum()`.",
    ),
    answers=("choose_limited", "rows_between"),
    allowed="torch; the library's functions are switched off.",
    hides=("expert_parallel.routing:limit_nodes", "expert_parallel.nodes:network_rows"),
    params={"node_score": "sum", "means": NODE_SCORES["sum"]},
    vary=lambda draw: {"node_score": "best", "means": NODE_SCORES["best"]},
    structural="node_score",
    probe=rows_kept,
    returns=Rows(Anything("a tensor of ids"), Number("rows", whole=True)),
)
