"""Dispatch over two kinds of links: send a token once to each node that needs it, and copy it there.

Ranks of a node are connected by fast links. A token whose experts share a node crosses the slow network once instead of
once per expert, so the network's bytes depend on the number of *nodes* per token, which node-limited routing bounds.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.cluster import Comm
from course_lib.parallel.expert.costs import local_experts
from course_lib.parallel.expert.routing import Routing


def network_rows(routing: Routing, home: int, nodes: int) -> tuple[int, int]:
    """Rows that tokens of node `home` send over the network in one dispatch: (a row per copy, a row per token and
    node)."""
    node = routing.experts // local_experts(routing.scores.shape[-1], nodes)
    away = node != home
    needed = torch.zeros(len(node), nodes, dtype=torch.bool).scatter_(1, node, True)
    return int(away.sum()), int(needed.sum() - needed[:, home].sum())


def dispatch_by_node(x: Tensor, routing: Routing, comm: Comm, per_node: int) -> tuple[Tensor, list[int]]:
    """(rows for this rank's experts, sorted by expert; rows of each): the forward half of a dispatch, in two hops.

    `x` is (T, hidden), and `per_node` consecutive ranks share a node. Rows first go to the rank with the same place in
    each node, with the numbers of the token's experts, and from there to the experts' ranks in that node. The rows are
    those of `exchange.dispatch`; their order within an expert may differ.
    """
    if comm.size % per_node:
        raise ValueError(f"{comm.size} ranks do not divide into nodes of {per_node}; choose a divisor of {comm.size}.")
    local, place = local_experts(routing.scores.shape[-1], comm.size), comm.rank % per_node
    node = routing.experts // (local * per_node)
    token, to = [], [0] * comm.size
    for number in range(comm.size // per_node):
        here = (node == number).any(1).nonzero().flatten()
        token.append(here)
        to[number * per_node + place] = len(here)
    sent = torch.cat(token)
    rows, ids = _exchange((x[sent], routing.experts[sent]), comm, to)
    mine = ids // (local * per_node) == comm.rank // per_node  # other nodes got copies of their own
    row, column = mine.nonzero(as_tuple=True)
    expert = ids[row, column]
    order = expert.sort(stable=True).indices
    row, expert = row[order], expert[order]
    to = torch.bincount(expert // local, minlength=comm.size).tolist()
    rows, expert = _exchange((rows[row], expert), comm, to)
    expert = expert - comm.rank * local
    order = expert.sort(stable=True).indices
    return rows[order], torch.bincount(expert, minlength=local).tolist()


def _exchange(tensors: Sequence[Tensor], comm: Comm, to: Sequence[int]) -> list[Tensor]:
    """Send the rows of all `tensors`, `to[r]` of them to rank r; the sizes are announced once."""
    announced, received = torch.empty(comm.size, dtype=torch.int64), []
    comm.all_to_all_single(announced, torch.tensor(to))
    for rows in tensors:
        received.append(rows.new_empty((int(announced.sum()), *rows.shape[1:])))
        comm.all_to_all_single(received[-1], rows.contiguous(), announced.tolist(), list(to))
    return received
