"""A function with its arguments, from which each rank of a run gets its own copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from course_lib.cluster.isolate import Blueprint
from course_lib.cluster.point_to_point import PointToPoint


def check_ranks(ranks: int) -> None:
    """Reject an invalid number of ranks."""
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f"ranks={ranks!r}: a run needs a whole number of ranks, 1 or more.")


def own_arguments(per_rank: Sequence[object] | None, ranks: int) -> list[tuple[object, ...]]:
    """Each rank's own arguments as a tuple."""
    if per_rank is None:
        return [()] * ranks
    if len(per_rank) != ranks:
        raise ValueError(f"per_rank holds {len(per_rank)} entries for {ranks} ranks; give one entry to each rank.")
    return [entry if isinstance(entry, tuple) else (entry,) for entry in per_rank]


class Program:
    """A function with its arguments, by value, from which each rank gets its own copy in every run."""

    def __init__(
        self, fn: Callable[..., object], ranks: int, args: Sequence[object], per_rank: Sequence[object] | None
    ) -> None:
        if not callable(fn):
            raise ValueError(f"simulate takes a function of a communicator, not {fn!r}: pass its name, do not call it.")
        check_ranks(ranks)
        self._common = Blueprint((fn, tuple(args)), ("the function", "args"))
        self._own = [
            Blueprint(own, f"per_rank[{rank}]") if own else None
            for rank, own in enumerate(own_arguments(per_rank, ranks))
        ]

    def bodies(self) -> dict[int, Body]:
        """New bodies, one for each rank."""
        return {rank: self._body(own) for rank, own in enumerate(self._own)}

    def _body(self, own: Blueprint[tuple[object, ...]] | None) -> Body:
        memory: dict[int, torch.UntypedStorage] = {}
        function, shared = self._common.copy(memory)
        return Body(function, (*shared, *(own.copy(memory) if own else ())), list(memory.values()))


@dataclass(frozen=True)
class Body:
    """What a rank runs: its own copies of the function, the arguments and their memory."""

    function: Callable[..., object]
    arguments: tuple[object, ...] = ()
    memory: Sequence[torch.UntypedStorage] = ()

    def __call__(self, comm: PointToPoint, *more: object) -> object:
        """The function's result on this rank."""
        return self.function(comm, *self.arguments, *more)
