"""Tokens of four ranks on their way through a mixture of experts, read from a run on the metered cluster.

A communicator that keeps what goes into and comes out of each exchange passes through the library's layer, and a hook
keeps what the experts get and return. Which token and which expert a row belongs to is read from its numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle
from typing import NamedTuple

import torch
from torch import Tensor

from course_chapters.ch12 import runs
from course_lib.cluster import Comm, Run, simulate
from course_lib.cluster.point_to_point import Array, Work
from course_lib.parallel.expert.model import part_of

RANKS, TOKENS, EXPERTS, HIDDEN = 4, 3, 8, runs.HIDDEN  # tokens of each rank; experts of all ranks together
LOCAL = EXPERTS // RANKS
POPULAR: Mapping[str, float] = {"even": 0.0, "expert 0 is popular": 1.5}  # how much is added to expert 0's logits
STAGES = (
    "tokens at home",
    "the router chooses",
    "sorted by expert",
    "first all-to-all: dispatch",
    "sorted again, by local expert",
    "the experts compute",
    "back in the order of arrival",
    "second all-to-all: combine",
    "weighted and added up",
)


class Copy(NamedTuple):
    """One token for one of its experts; expert −1: not routed yet, or added up."""

    token: int  # rank · TOKENS + its place at home
    expert: int


@dataclass(frozen=True, slots=True)
class Journey:
    """`memory[stage][rank]`: the copies that a rank has in its memory, in order. `rows[exchange][source][target]`: rows
    on the wire by the meter, for dispatch and combine."""

    run: Run
    memory: Sequence[Sequence[Sequence[Copy]]]
    rows: Sequence[Sequence[Sequence[int]]]


class _Watched(Comm):
    """A communicator that keeps what goes into and comes out of each exchange."""

    def __init__(self, comm: Comm) -> None:
        super().__init__(range(comm.size))
        self.exchanges: list[tuple[Tensor, Tensor]] = []

    def all_to_all_single(
        self,
        output: Array,
        input: Array,  # noqa: A002
        output_split_sizes: Sequence[int] | None = None,
        input_split_sizes: Sequence[int] | None = None,
        async_op: bool = False,
    ) -> Work | None:
        work = super().all_to_all_single(output, input, output_split_sizes, input_split_sizes, async_op)
        self.exchanges.append((torch.as_tensor(input).clone(), torch.as_tensor(output).clone()))
        return work


def _work(comm: Comm, x: Tensor, top_k: int, popular: float) -> list[object]:
    """Forward through this rank's part of the layer: what every exchange and the experts got and gave."""
    watched = _Watched(comm)
    layer = part_of(runs.small_layer(HIDDEN, EXPERTS, top_k=top_k), watched)
    layer.router.register_forward_hook(lambda _, __, logits: logits + popular * (torch.arange(EXPERTS) == 0))
    inside: list[Tensor] = []
    layer.experts.register_forward_hook(lambda _, given, made: inside.extend((given[0], made)))
    with torch.no_grad():
        out = layer(x)
    assert layer.routing is not None
    return [layer.routing.experts.tolist(), watched.exchanges, inside, out]


@lru_cache(maxsize=16)
def record(top_k: int = 2, routing: str = "even") -> Journey:
    """A forward pass of the chapter's small layer: three tokens on each of four ranks, two experts on each."""
    x = torch.randn(RANKS * TOKENS, HIDDEN, generator=torch.Generator().manual_seed(12))
    per_rank = [(part, top_k, POPULAR[routing]) for part in x.split(TOKENS)]
    run = simulate(_work, RANKS, per_rank=per_rank)
    experts = runs.small_layer(HIDDEN, EXPERTS, top_k=top_k).experts
    with torch.no_grad():
        outputs = torch.stack([experts.one(expert, x) for expert in range(EXPERTS)], 1)

    def inputs_in(rows: Tensor, counts: Tensor, first: int = 0) -> list[Copy]:
        """Rows before the experts: `counts[..., e]` in a block are for expert `first` + e."""
        blocks = zip(counts.flatten().tolist(), cycle(range(first, first + counts.shape[-1])), strict=False)
        by_row = [expert for count, expert in blocks for _ in range(count)]
        return list(map(Copy, torch.cdist(rows, x).argmin(1).tolist(), by_row))

    def outputs_in(rows: Tensor) -> list[Copy]:
        """Rows that experts have made."""
        return [Copy(*divmod(place, EXPERTS)) for place in torch.cdist(rows, outputs.flatten(0, 1)).argmin(1).tolist()]

    columns = []
    for rank, (chosen, exchanges, (given, made), _) in enumerate(run.results):
        (counts, announced), (sent, arrived), (returned, home) = exchanges
        mine, first = range(rank * TOKENS, (rank + 1) * TOKENS), rank * LOCAL
        by_source = announced.view(RANKS, LOCAL)  # rows for each expert of this rank
        columns.append(
            [
                [Copy(token, -1) for token in mine],
                [Copy(token, expert) for token, ids in zip(mine, chosen, strict=True) for expert in ids],
                inputs_in(sent, counts),
                inputs_in(arrived, by_source, first),
                inputs_in(given, by_source.sum(0), first),
                outputs_in(made),
                outputs_in(returned),
                outputs_in(home),
                [Copy(token, -1) for token in mine],
            ]
        )
    memory = [[column[stage] for column in columns] for stage in range(len(STAGES))]
    return Journey(run, memory, _rows(run))


def _rows(run: Run) -> list[list[list[int]]]:
    """Rows from each rank to each other in the second and third exchange, by the bytes of their messages."""
    found = []
    for number in (1, 2):
        ends = [[span.end for span in run.spans if span.rank == rank][number - 1 : number + 1] for rank in range(RANKS)]
        rows = [[0] * RANKS for _ in range(RANKS)]
        for message in run.messages:
            start, end = ends[message.src]
            if start <= message.sent < end:
                rows[message.src][message.dst] += message.nbytes // (4 * HIDDEN)
        found.append(rows)
    return found
