import torch


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
