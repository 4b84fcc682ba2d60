"""Judge of node-limited: at most a few nodes per token."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch12.judges.shared import top
from course_lib.exercises.ch12.probes import CHANGED
from course_lib.judging import Fault, Judging, Mistake, Params, judged
from course_lib.judging.columns import EXACT, Column, table
from course_lib.judging.draws import each_changed, generality, plain
from course_lib.judging.tensors import coin_of, kind_fault
from course_lib.records import Case, Outcome, Verdict


def limited(node_score: str, scores: Tensor, k: int, nodes: int, limit: int) -> Tensor:
    """The ids of each token's experts, token by token."""
    each, found = scores.shape[1] // nodes, []
    for row in scores.tolist():
        groups = [sorted(row[node * each : (node + 1) * each], reverse=True) for node in range(nodes)]
        value = {
            "sum": lambda group: sum(group[: k // limit]),
            "best": lambda group: group[0],
            "all": sum,
            "top-k": lambda group: sum(group[:k]),
        }[node_score]
        best = sorted(range(nodes), key=lambda node: -value(groups[node]))[:limit]
        inside = [expert for expert in range(len(row)) if expert // each in best]
        found.append(sorted(inside, key=lambda expert: -row[expert])[:k])
    return torch.tensor(found, dtype=torch.int64).view(-1, k)


def crossings(ids: Tensor, home: Tensor, experts: int, nodes: int, once: bool = True, own: bool = False) -> int:
    """Rows that cross between nodes; the keywords lead to known mistakes."""
    total = 0
    for token, row in enumerate((ids // (experts // nodes)).tolist()):
        away = [node for node in row if own or node != home[token].item()]
        total += len(set(away)) if once else len(away)
    return total


def _node_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def scores(tokens: int, experts: int) -> Tensor:
        return torch.randint(0, 2**20, (tokens, experts), generator=coin).float() / 2**20

    def given(tokens: int, experts: int, k: int, nodes: int) -> tuple[Any, ...]:
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
            "one node, all nodes, and no tokens",
            [(scores(3, 6), 2, 1, 1), (scores(3, 8), 4, 4, 4), (scores(0, 8), 2, 4, 1)],
        ),
        generality(
            "rows-edges",
            1,
            "all at home, one node, and no tokens",
            [(torch.tensor([[0, 1], [3, 2]]), torch.tensor([0, 1]), 4, 2), given(4, 6, 3, 1), given(0, 8, 2, 4)],
        ),
        generality(
            "rows-edges",
            1,
            "several experts on one other node",
            [(torch.tensor([[4, 5, 0], [5, 4, 1]]), torch.tensor([0, 2]), 6, 3)],
        ),
    ]


def _choice(params: Params, given: Sequence[Any], got: Any) -> Fault | None:
    want = limited(params["node_score"], *given)
    if type(got) is str and got == CHANGED:
        return "changed", f"{CHANGED}; make new ones."
    if fault := kind_fault("`choose_limited`", got, want):
        return fault
    if torch.equal(got, want):
        return None
    scores, k, nodes, limit = given
    rules = [
        ("no-limit", top(scores, k), "the token goes to its best experts on any node."),
        ("whole-node", limited("all", *given), "a node's score is the sum of all its experts."),
        ("sum-of-k", limited("top-k", *given), "a node's score has too many terms."),
    ]
    told = "a node's score is its largest score alone; several experts may be chosen there."
    rule = "best-expert", limited("best", *given), told
    if params["node_score"] == "best":
        rule = "public-form", limited("sum", *given), "this solves the public form of the exercise, with sums."
    for name, value, message in (rule, *rules):
        if torch.equal(got, value):
            return name, message
    if torch.equal(got.sort(-1).values, want.sort(-1).values):
        return "other-order", "these are the right experts in another order."
    used = [len(set(row)) for row in (got // (scores.shape[1] // nodes)).tolist()]
    if max(used, default=0) > limit:
        return "too-many-nodes", f"a token uses {max(used)} nodes, and {limit} are allowed."
    return "other-ids", "these are not the best experts on the chosen nodes. Are ties broken by the lower number?"


def _node_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    index, given = case.args
    if index == 0:
        faults = (_choice(params, row, got) for row, got in zip(given, outcome.value, strict=True))
        return judged(case, next(filter(None, faults), None), named=True)
    column = Column(
        part="rows" if case.kind == "values" else "rows-edges",
        unit="rows",
        want=crossings,
        words=lambda ids, home, experts, nodes: f"{len(ids)} tokens, {experts} experts on {nodes} nodes",
        rel=EXACT,
        mistakes=(
            Mistake(
                "each-copy",
                lambda *row: crossings(*row, once=False),
                "a token is sent once per node, not once per expert.",
            ),
            Mistake(
                "home-too", lambda *row: crossings(*row, own=True), "a row for the token's own node does not cross."
            ),
            Mistake("all-copies", lambda ids, *_: ids.numel(), "these are all copies."),
        ),
    )
    return table(column, column)(params, case, outcome)


JUDGING = Judging(
    shares={"values:choose": 0.35, "values:rows": 0.25, "generality:edges": 0.2, "generality:rows-edges": 0.2},
    cases=_node_cases,
    verdicts=_node_verdicts,
    why="""Links between nodes are several times slower than those inside. With at most M nodes per token and one row per node, the slow links carry at
most M rows per token, however many experts it has.""",
    pytorch="DeepEP's dispatch sends one row per node over RDMA, and copies it to the node's GPUs over NVLink.",
)

ANSWERS = r"""import torch


# %% right: masked nodes
from course_lib.notebook import params


def choose_limited(scores, k, nodes, limit):
    tokens, experts = scores.shape
    groups = scores.view(tokens, nodes, experts // nodes)
    terms = 1 if params("node-limited").node_score == "best" else k // limit
    value = groups.sort(-1, descending=True).values[..., :terms].sum(-1)
    best = value.argsort(dim=-1, descending=True, stable=True)[:, :limit]
    open_nodes = torch.zeros(tokens, nodes, dtype=torch.bool).scatter(1, best, True)
    masked = groups.masked_fill(~open_nodes[..., None], -torch.inf).view(tokens, experts)
    return masked.argsort(dim=-1, descending=True, stable=True)[:, :k]


def rows_between(ids, home, experts, nodes):
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


# %% wrong: no limit => values no-limit  from: masked nodes
# ~ return masked.argsort ==> return scores.argsort

# %% wrong: the best expert decides => values best-expert unless node_score=best  from: masked nodes
# ~ 1 if params("node-limited").node_score == "best" else k // limit ==> 1

# %% wrong: the whole node decides => values whole-node  from: masked nodes
# ~ 1 if params("node-limited").node_score == "best" else k // limit ==> experts

# %% wrong: the sum of k => values sum-of-k  from: masked nodes
# ~ 1 if params("node-limited").node_score == "best" else k // limit ==> k

# %% wrong: closed nodes score zero => generality -  from: masked nodes
# ~ -torch.inf ==> 0.0

# %% wrong: ties as topk leaves them => generality -  from: masked nodes
# ~ argsort(dim=-1, descending=True, stable=True)[:, :k] ==> topk(k, dim=-1).indices

# %% wrong: in the order of the nodes => values other-order  from: masked nodes
# ~ [:, :k] ==> [:, :k].sort(-1).values

# %% wrong: a row for each expert => values each-copy  from: token by token
# ~ len({node for node in row if node != own}) ==> sum(node != own for node in row)

# %% wrong: rows at home, too => values home-too  from: token by token
# ~ {node for node in row if node != own} ==> set(row)

# %% wrong: all copies => values all-copies  from: token by token
# ~ sum(len({node for node in row if node != own}) for row, own in pairs) ==> ids.numel()

# %% wrong: one home for all => values -  from: token by token
# ~ = own ==> = home.tolist()[0]

# %% wrong: the scores are masked in place => values changed  from: masked nodes
# ~ masked_fill ==> masked_fill_

# %% wrong: one expert a token never leaves home => values -  from: token by token
# ~ return sum ==> return (ids.shape[1] > 1) * sum

# %% wrong: closed nodes at -1000 => generality ~  from: masked nodes
# ~ -torch.inf ==> -1e3

# %% wrong: remembers rows by ids and homes => values ~  from: masked nodes
# ~ rows_between(ids, home, experts, nodes): ==> rows_between(ids, home, experts, nodes, kept={}):
# ~ int(hit.sum()) ==> kept.setdefault(f"{ids}{home}", int(hit.sum()))

# %% wrong: all of a node's experts count where one node is chosen => values whole-node  from: token by token
# ~ [-(k // limit) :] ==> [-(k // limit) * (limit > 1) :]

# %% wrong: scores are compared in fp32 => generality -  from: token by token
# ~ scores.tolist ==> scores.float().tolist
"""
