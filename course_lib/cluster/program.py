"""A learner's function with its arguments, copied by value for each rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from course_lib.cluster.isolate import Blueprint


def check_ranks(ranks: int) -> None:
    """Reject an invalid number of ranks."""
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f"ranks={ranks!r}: a run needs a whole number of ranks, 1 or more.")


def own_arguments(per_rank: Sequence[Any] | None, ranks: int) -> list[tuple[Any, ...]]:
    """Each rank's own arguments as a tuple."""
    if per_rank is None:
        return [()] * ranks
    if len(per_rank) != ranks:
        raise ValueError(f"per_rank holds {len(per_rank)} entries for {ranks} ranks; give one entry to each rank.")
    return [entry if isinstance(entry, tuple) else (entry,) for entry in per_rank]


class Program:
    """A function with its arguments, by value, from which each rank gets its own copy in every run."""

    def __init__(self, fn: Callable[..., Any], ranks: int, args: Sequence[Any], per_rank: Sequence[Any] | None) -> None:
        if not callable(fn):
            raise ValueError(
                f"simulate takes a function of a communicator, not {fn!r}: pass the function's name, without calling it."
            )
        check_ranks(ranks)
        self._common = Blueprint((fn, tuple(args)), ("the function", "args"))
        self._own = [
            Blueprint(own, f"per_rank[{rank}]") if own else None
            for rank, own in enumerate(own_arguments(per_rank, ranks))
        ]

    def bodies(self) -> dict[int, Body]:
        """New bodies, one for each rank."""
        return {rank: self._body(own) for rank, own in enumerate(self._own)}

    def _body(self, own: Blueprint | None) -> Body:
        memory: dict[int, Any] = {}
        function, shared = self._common.copy(memory)
        return Body(function, (*shared, *(own.copy(memory) if own else ())), list(memory.values()))


class Body:
    """What a rank runs: its own copies of the function and the arguments."""

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...] = (), memory: Sequence[Any] = ()
    ) -> None:
        self.function, self.arguments, self._memory = function, arguments, memory

    def __call__(self, comm: Any, *more: Any) -> Any:
        """The function's result on this rank."""
        return self.function(comm, *self.arguments, *more)

    @property
    def given(self) -> list[Any]:
        """The tensors that the rank holds from the start, for its accounting."""
        code = getattr(self.function, "__code__", None)
        cells = [cell.cell_contents for cell in getattr(self.function, "__closure__", None) or ()]
        names = [self.function.__globals__.get(name) for name in code.co_names] if code else []
        return [self.arguments, cells, names, self._memory]
