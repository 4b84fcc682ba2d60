import torch
from torch import Tensor

from course_chapters.ch12.exercises.judges.shared import ids_fault, top
from course_grader.judging import EXACT, Case, Checked, Column, Fault, Judging, Params, Random, Worked, table
from course_grader.judging.random_inputs import each_changed, generality, plain
from course_grader.judging.tensors import coin_of, kind_fault

right = Worked("node-limited")


def _node_cases(params: Params, rng: Random) -> list[Case]:
    coin = coin_of(rng)

    def scores(tokens: int, experts: int) -> Tensor:
        return torch.randint(0, 2**20, (tokens, experts), generator=coin).float() / 2**20

    def given(tokens: int, experts: int, k: int, nodes: int) -> tuple[Tensor, Tensor, int, int]:
        return top(scores(tokens, experts), k), torch.randint(0, nodes, (tokens,), generator=coin), experts, nodes

    tied = (torch.randint(0, 3, (8, 12), generator=coin) / 2.0, 4, 4, 2)
    wide = (torch.zeros(2, 40), 4, 4, 2)
    fine = (torch.stack([torch.randperm(12, generator=coin) for _ in range(3)]).double() / 2**40 + 0.5, 4, 4, 2)
    alike, own = each_changed((scores(7, 16), 4, 4, 2), (scores(7, 16), 2, 2, 4)), given(12, 12, 3, 3)
    moved = [own, (own[0], (own[1] + 1) % 3, 12, 3), (*own[:3], 6)]
    more = [(scores(5, 24), 6, 4, 3), (scores(60, 24), 6, 3, 2), (scores(9, 12), 2, 6, 1), (scores(9, 12), 2, 2, 1)]
    routings = [given(*row) for row in ((30, 12, 4, 3), (30, 12, 4, 3), (12, 16, 3, 4), (5, 6, 2, 6), (8, 12, 1, 3))]
    negative = (scores(6, 12) - 2, 2, 3, 2)
    return [
        Case(name="16 tokens, 4 of 24 experts, 2 of 3 nodes", args=(0, [(scores(16, 24), 4, 3, 2)]), part="choose"),
        Case(name="9 tokens, 3 of 12 experts on 3 nodes", args=(1, [given(9, 12, 3, 3)]), part="rows"),
        plain("choose", 0, "other sizes", [*alike, (scores(7, 16), 4, 4, 2), *more]),
        plain("rows", 1, "other routings", moved + routings),
        generality("edges", 0, "equal scores, and nearly equal ones in fp64", [tied, wide, fine]),
        generality("edges", 0, "negative scores", [negative, (negative[0] - 3e4, *negative[1:])]),
        generality(
            "edges",
            0,
            "one expert, one node, all nodes, and no tokens",
            [(scores(1, 1), 1, 1, 1), (scores(3, 6), 2, 1, 1), (scores(3, 8), 4, 4, 4), (scores(0, 8), 2, 4, 1)],
        ),
        generality(
            "rows-edges",
            1,
            "all at home, one node, and no token or one",
            [
                (torch.tensor([[0, 1], [3, 2]]), torch.tensor([0, 1]), 4, 2),
                given(4, 6, 3, 1),
                given(0, 8, 2, 4),
                given(1, 4, 1, 2),
            ],
        ),
        generality(
            "rows-edges",
            1,
            "several experts on one other node",
            [(torch.tensor([[4, 5, 0], [5, 4, 1]]), torch.tensor([0, 2]), 6, 3)],
        ),
    ]


def _choice(row: tuple[Tensor, object, int, int], got: Tensor, want: Tensor) -> Fault | None:
    scores, _, nodes, limit = row
    if fault := kind_fault("`choose_limited`", got, want):
        return fault
    fault = ids_fault(got, want, "with the largest scores on the chosen nodes")
    used = [len(set(row)) for row in (got // (scores.shape[1] // nodes)).tolist()]
    if fault and max(used, default=0) > limit:
        return "too-many-nodes", f"a token uses {max(used)} nodes, and {limit} are allowed."
    return fault


ROWS = Column(
    "",
    "rows",
    words=lambda ids, home, experts, nodes: f"{len(ids)} tokens, {experts} experts on {nodes} nodes",
    rel=EXACT,
)


JUDGING = Judging(
    shares={"values:choose": 0.35, "values:rows": 0.25, "generality:edges": 0.2, "generality:rows-edges": 0.2},
    cases=_node_cases,
    verdicts=table(Checked("", _choice), ROWS, right=right),
    why="""Links between nodes are several times slower than those inside. With at most M nodes per token and one row
per node, the slow links carry at most M rows per token, however many experts it has.""",
    pytorch="DeepEP's dispatch sends one row per node over RDMA, and copies it to the node's GPUs over NVLink.",
)

ANSWERS = r'''# %% right: worked
node_score = params("node-limited").node_score  # leave as is: "sum" of the k // limit largest scores, or the "best"


def choose_limited(scores: torch.Tensor, k: int, nodes: int, limit: int) -> torch.Tensor:
    """ids (tokens, k): the best experts on the best `limit` nodes of each token."""
    tokens, experts = scores.shape
    groups = scores.view(tokens, nodes, experts // nodes)
    terms = 1 if node_score == "best" else k // limit
    value = groups.sort(-1, descending=True).values[..., :terms].sum(-1)
    best = value.argsort(dim=-1, descending=True, stable=True)[:, :limit]
    allowed = torch.zeros(tokens, nodes, dtype=torch.bool).scatter(1, best, True)
    masked = groups.masked_fill(~allowed[..., None], -torch.inf).view(tokens, experts)
    return masked.argsort(dim=-1, descending=True, stable=True)[:, :k]


def rows_between(ids: torch.Tensor, home: torch.Tensor, experts: int, nodes: int) -> int:
    """Rows that cross between nodes, one for each other node that a token needs."""
    hit = torch.zeros(len(ids), nodes, dtype=torch.bool).scatter(1, ids // (experts // nodes), True)
    hit[torch.arange(len(ids)), home] = False
    return int(hit.sum())
# %% right: token by token
def choose_limited(scores, k, nodes, limit):
    chosen, each = [], scores.shape[1] // nodes
    for row in scores.tolist():
        value = [sum(sorted(row[n * each : (n + 1) * each])[-(k // limit) :]) for n in range(nodes)]
        best = sorted(range(nodes), key=lambda n: (-value[n], n))[:limit]
        inside = [e for e in range(len(row)) if e // each in best]
        chosen.append(sorted(inside, key=lambda e: (-row[e], e))[:k])
    return torch.tensor(chosen, dtype=torch.int64).reshape(-1, k)


def rows_between(ids, home, experts, nodes):
    each = experts // nodes
    pairs = zip((ids // each).tolist(), home.tolist())
    return sum(len({node for node in row if node != own}) for row, own in pairs)
# %% wrong: no limit => values
# > the token goes to its best experts on any node.
# ~ return masked.argsort ==> return scores.argsort
# %% wrong: best expert => values best-expert unless node_score=best
# > a node's score is its largest score alone; several experts may be chosen there.
# ~ params("node-limited").node_score ==> "best"
# %% wrong: whole node => values
# > a node's score is the sum of all its experts.
# ~ 1 if node_score == "best" else k // limit ==> experts
# %% wrong: all of a node's experts count where one node is chosen => values whole-node
# ~ 1 if node_score == "best" else k // limit ==> experts if limit == 1 else 1 if node_score == "best" else k // limit
# %% wrong: sum of k => values
# > a node's score has too many terms.
# ~ 1 if node_score == "best" else k // limit ==> k
# %% wrong: closed at zero => generality
# > the scores on excluded nodes become a number that is larger than some scores on chosen ones.
# ~ -torch.inf ==> 0.0
# %% wrong: ties => generality
# > equal scores of experts are not broken by the lower number.
# ~ masked.argsort(dim=-1, descending=True, stable=True)[:, :k] ==> masked.topk(k, dim=-1).indices
# %% wrong: ties of nodes => generality
# > equal scores of nodes are not broken by the lower number.
# ~ value.argsort(dim=-1, descending=True, stable=True)[:, :limit] ==> value.topk(limit, dim=-1).indices
# %% wrong: in the order of the nodes => values other-order
# ~ [:, :k] ==> [:, :k].sort(-1).values
# %% wrong: rounded to fp32 => generality
# > the scores are rounded to fp32, so nearly equal ones in fp64 become ties.
# ~ groups = scores.view ==> groups = scores.float().view
# %% wrong: each copy => values
# > a token is sent once per node, not once per expert.
# ~ int(hit.sum()) ==> int((ids // (experts // nodes) != home[:, None]).sum())
# %% wrong: home too => values
# > a row for the token's own node does not cross.
# ~ hit[torch.arange(len(ids)), home] = False ==> pass
# %% wrong: all copies => values
# > these are all copies.
# ~ int(hit.sum()) ==> ids.numel()
# %% wrong: one home for all => values
# > all tokens are taken to live on the first one's node; token t lives on node `home[t]`.
# ~ torch.arange(len(ids)), home] = ==> torch.arange(len(ids)), home[:1]] =
# %% wrong: the scores are masked in place => values changed
# ~ masked_fill ==> masked_fill_
# %% wrong: one expert a token never leaves home => values -
# ~ int(hit.sum()) ==> (ids.shape[1] > 1) * int(hit.sum())
# %% wrong: closed nodes at -1000 => generality ~
# ~ -torch.inf ==> -1e3
# %% wrong: remembers rows by ids and homes => values ~
# ~ nodes: int) -> int ==> nodes: int, kept={}) -> int
# ~ int(hit.sum()) ==> kept.setdefault(f"{ids}{home}", int(hit.sum()))
'''
