"""What a schedule is made of: operations, rows of them (one per rank), and the route of a micro-batch through the
ranks."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from course_lib.estimate.units import require_whole

KINDS = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}


class Op(NamedTuple):
    """One stage's work on one micro-batch. Written "2F0": stage 2, forward, micro-batch 0, as torch writes it."""

    kind: str  # "F" forward; "B" the whole backward; or its halves: "I" input gradient, "W" weight gradient
    stage: int
    microbatch: int
    joins: bool = False  # runs together with the op before it, as DualPipe's F&B

    def __str__(self) -> str:
        """Stage, kind and micro-batch."""
        return f"{self.stage}{self.kind}{self.microbatch}"


Route = tuple[int, ...]  # the rank of every stage, first stage first


@dataclass(frozen=True)
class Schedule:
    """The order of work on every rank. A row has the order of its rank's operations, not their times.

    There is one route, except where micro-batches enter at both ends (DualPipe): then the first half of them takes the
    first route, the second half the second, and each rank holds a stage of either.
    """

    name: str
    rows: tuple[tuple[Op, ...], ...]  # one per rank
    microbatches: int
    routes: tuple[Route, ...]

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return len(self.rows)

    @property
    def stages(self) -> int:
        """Number of stages: ranks × chunks."""
        return len(self.routes[0])

    @property
    def share(self) -> float:
        """One stage as a fraction of 1/ranks of the model: 1/chunks."""
        return self.ranks / self.stages

    def rank_of(self, stage: int, microbatch: int = 0) -> int:
        """The rank that runs this stage on this micro-batch."""
        return self.routes[microbatch * len(self.routes) // self.microbatches][stage]

    def stages_of(self, rank: int) -> tuple[int, ...]:
        """The stages that a rank holds, in order."""
        return tuple(stage for stage in range(self.stages) if any(route[stage] == rank for route in self.routes))

    def last_backward(self, rank: int) -> dict[int, int]:
        """For each stage of a rank the position in its row after which the stage's weight gradients are complete."""
        return {op.stage: place for place, op in enumerate(self.rows[rank]) if op.kind in "BW"}

    @cached_property
    def splits(self) -> bool:
        """Whether some backward is split into its two gradients."""
        return any(op.kind == "W" for row in self.rows for op in row)

    def __str__(self) -> str:
        """The grid of the schedule."""
        from course_lib.parallel.schedules.grid import grid

        return grid(self)


def looped(ranks: int, chunks: int = 1) -> Route:
    """The route around the ranks, `chunks` times: 0 1 2 0 1 2."""
    return tuple(range(ranks)) * chunks


def v_shaped(ranks: int) -> Route:
    """The route down the ranks and up again, so that the first rank holds the first and the last stage: 0 1 2 2 1 0."""
    return (*range(ranks), *reversed(range(ranks)))


def schedule_of(
    rows: Iterable[Iterable[object]], microbatches: int, routes: Sequence[Route] | None = None, name: str = "yours"
) -> Schedule:
    """A schedule from rows written by hand: `Op`, ("F", 2, 0) or "2F0"; None, an idle slot, is left out.

    Without `routes`, stage s is on rank s. `validate` checks the schedule; this function does not.
    """
    require_whole("microbatches", microbatches, "micro-batches")
    made = tuple(tuple(_op(item) for item in row if item is not None) for row in rows)
    return Schedule(name, made, microbatches, tuple(routes or (looped(len(made)),)))


def _op(item: object) -> Op:
    if isinstance(item, str):
        found = re.fullmatch(r"\s*(\d+)\s*([FBIW])\s*(\d+)\s*", item)
        if found:
            return Op(found[2], int(found[1]), int(found[3]))
    elif isinstance(item, tuple | list) and 3 <= len(item) <= 4:
        kind, stage, microbatch, *joins = item
        return Op(kind, stage, microbatch, *joins)
    raise ValueError(
        f'{item!r} is not an operation; write Op("F", stage, microbatch), ("F", 2, 0) or "2F0", kinds '
        f"{', '.join(KINDS)}."
    )
