"""Cases in one line each: `shown` ones, which the learner sees, and `hidden` ones, which only grading runs.

`share` is the share of the points that a case is for, as `Judging.shares` names it: "values:sum", "generality:ranks".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from course_grader.records import Case

if TYPE_CHECKING:
    from course_lib.cluster.adversary import Adversary


def shown(
    name: str, share: str, *args: object, ranks: int | None = None, per_rank: object = None, **more: object
) -> Case:
    """A case that the learner sees; `args` are the answer's arguments, `per_rank` those of each rank after them."""
    kind, _, part = share.partition(":")
    return Case(name=name, kind=kind, part=part, args=args, ranks=ranks or _count(per_rank), per_rank=per_rank, **more)  # type: ignore[arg-type]


def hidden(name: str, share: str, *args: Any, **more: Any) -> Case:
    """The same as `shown`, for grading alone."""
    return shown(name, share, *args, visible=False, **more)


def under(adversaries: Iterable[Adversary], name: str, share: str, make: Any, **more: Any) -> list[Case]:
    """A hidden case for each adversary; `make()` draws the ranks' arguments anew for each."""
    return [
        hidden(f"{name}, {adversary}", share, per_rank=make(), adversary=adversary, **more) for adversary in adversaries
    ]


def ranks_text(count: int) -> str:
    """A number of ranks in words: one rank alone, 8 ranks."""
    return "one rank alone" if count == 1 else f"{count} ranks"


def _count(per_rank: Any) -> int | None:
    return None if per_rank is None else len(per_rank)
