"""Cases in one line each: `shown` ones, which the learner sees, and `hidden` ones, which only grading runs.

`share` is the share of the points that a case is for, as `Judging.shares` names it: "values:sum", "generality:ranks".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

from course_grader.records import Case, VerdictKind

if TYPE_CHECKING:
    from course_lib.cluster.adversary import Adversary

Maker = Callable[..., Case]  # `shown` or `hidden`


class More(TypedDict, total=False):
    """Fields of a case that few set."""

    kwargs: Mapping[str, object]
    ranks: int | None  # without it, as many as `per_rank` has arguments for
    buffering: float
    seconds: float
    twice: bool
    secret: object


class MoreOnRanks(More, total=False):
    """What a case on ranks may set besides."""

    per_rank: tuple[tuple[object, ...], ...] | None
    adversary: Adversary | None


def shown(name: str, share: str, *args: object, visible: bool = True, **more: Unpack[MoreOnRanks]) -> Case:
    """A case that the learner sees; `args` are the answer's arguments, `per_rank` those of each rank after them."""
    kind, _, part = share.partition(":")
    more["ranks"] = more.get("ranks") or (None if (given := more.get("per_rank")) is None else len(given))
    return Case(name=name, kind=cast(VerdictKind, kind), part=part, args=args, visible=visible, **more)


def hidden(name: str, share: str, *args: object, **more: Unpack[MoreOnRanks]) -> Case:
    """The same as `shown`, for grading alone."""
    return shown(name, share, *args, visible=False, **more)


def under(
    adversaries: Iterable[Adversary],
    name: str,
    share: str,
    make: Callable[[], tuple[tuple[object, ...], ...]],
    **more: Unpack[More],
) -> list[Case]:
    """A hidden case for each adversary; `make()` draws the ranks' arguments anew for each."""
    return [
        hidden(f"{name}, {adversary}", share, per_rank=make(), adversary=adversary, **more) for adversary in adversaries
    ]


def ranks_text(count: int) -> str:
    """A number of ranks in words: one rank alone, 8 ranks."""
    return "one rank alone" if count == 1 else f"{count} ranks"
