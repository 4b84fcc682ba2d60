from course_grader.exercises import Anything, Card, Number, Rows, Worth, rows, watched

NODE_SCORES = {
    "sum": "the sum of its `k // limit` largest scores (DeepSeek-V3)",
    "best": "its largest score (DeepSeek-V2)",
}


CARD = Card(
    title="At most a few nodes per token",
    text="""Write two functions for routing that spares the slow links between nodes. The experts are split evenly over
`nodes` nodes: the first E / nodes experts are on node 0, and so on.

- `choose_limited(scores, k, nodes, limit)` returns ids in shape (tokens, k). A token first chooses `limit` nodes, and
  then its `k` largest scores among the experts of these nodes, the largest first. `k` is a multiple of `limit`, and
  `k / limit` experts fit on a node.
- A node's score for a token is {{means}}. Of equal nodes or experts, the lower number goes first.
- `rows_between(ids, home, experts, nodes)` returns how many rows cross between nodes in the dispatch. Token t lives on
  node `home[t]`. It is sent **once** to each other node that has at least one of its experts, and is copied there.
- Leave the tensors as they are. There may be no tokens.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=3),
    kind="more",
    hints=(
        "If you view the scores as (tokens, nodes, experts of a node), what is the score of a node?",
        "Choose the nodes with a stable sort, set the scores of all other nodes to −∞, and choose experts as usual. "
        "For the rows, mark the nodes of each token in a table of bools.",
        "`groups = scores.view(tokens, nodes, -1)`; `value = groups.sort(-1, descending=True).values[..., :k // "
        "limit].sum(-1)`; `mask.scatter_(1, best, True)`; `hit[t, ids // per_node] = True`, `hit[t, home] = False`, "
        "`hit.sum()`.",
    ),
    answers=("choose_limited", "rows_between"),
    allowed="torch; the library's functions are switched off.",
    hides=("course_lib.parallel.expert.routing:limit_nodes", "course_lib.parallel.expert.node_limited:network_rows"),
    params={"node_score": "sum", "means": NODE_SCORES["sum"]},
    vary=lambda draw: {"node_score": "best", "means": NODE_SCORES["best"]},
    structural="node_score",
    probe=watched(rows),
    returns=Rows(Anything("a tensor of ids"), Number("rows", whole=True)),
)
