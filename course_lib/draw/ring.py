"""Drawings of ranks on a circle: a ring that passes something on, and who waits for whom in a deadlock."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from matplotlib.patches import Circle, FancyArrowPatch

from course_lib.draw import style
from course_lib.draw.palette import COLOR, EMPTY, INK, PAPER, SOFT, VERMILION, ink_on
from course_lib.draw.style import Picture

if TYPE_CHECKING:
    from course_lib.cluster.records import Wait


def ring(
    ranks: int,
    *,
    holders: Iterable[int] = (),
    visited: Iterable[int] = (),
    moving: Iterable[tuple[int, int]] = (),
    values: Mapping[int, str] | None = None,
    title: str = "",
    note: str = "",
    height: float = 3.6,
) -> Picture:
    """Ranks on a circle, rank 0 on top, clockwise. `holders` have the token, `visited` had it before.

    `moving` are (from, to) pairs on their way now; `values` are written outside each rank.
    """
    if ranks < 1:
        raise ValueError(f"ranks is {ranks}; a ring needs at least one.")
    figure, axes = _round_picture(height, title, note, reach=1.55 if values else 1.32)
    places, size = _circle(ranks)
    holders, visited, moving = set(holders), set(visited), set(moving)
    for rank in range(ranks):
        after = (rank + 1) % ranks
        if after != rank:
            on = (rank, after) in moving
            _arrow(axes, places[rank], places[after], size, COLOR["communication"] if on else "#c4cad1", on)
    for one, other in moving:
        if other != (one + 1) % ranks:
            _arrow(axes, places[one], places[other], size, COLOR["communication"], True)
    for rank, (x, y) in enumerate(places):
        fill = COLOR["weights"] if rank in holders else (COLOR["master"] if rank in visited else EMPTY)
        _rank(axes, (x, y), size, str(rank), fill)
        if values and rank in values:
            out = (x * (1 + 1.75 * size), y * (1 + 1.75 * size))
            axes.text(*out, values[rank], ha=_side(x), va="center", fontsize=style.SMALL, color=INK)
    figure.alt = ring_alt(ranks, holders, visited, moving, title, note)
    return figure


def ring_alt(
    ranks: int,
    holders: Iterable[int] = (),
    visited: Iterable[int] = (),
    moving: Iterable[tuple[int, int]] = (),
    title: str = "",
    note: str = "",
) -> str:
    """The picture in words: where the token is, where it was, where it goes."""
    said = [title.rstrip(".") or f"A ring of {ranks} ranks"]
    said += [f"rank {_list(holders)} has the token"] if holders else []
    said += [f"it was at {_list(visited)}"] if visited else []
    said += [f"on its way from {one} to {other}" for one, other in sorted(moving)]
    return ". ".join(part[:1].upper() + part[1:] for part in said) + f". {note}".rstrip()


def wait_for(
    waits: "Iterable[tuple[int, int, str] | Wait]",
    ranks: int | None = None,
    *,
    title: str = "Who waits for whom",
    note: str = "",
    height: float | None = None,
) -> Picture:
    """The graph of a deadlock: an arrow from each rank to the one it waits for, with what it waits in.

    `waits` are a Deadlock's waits, or (rank, awaited rank, words) such as (0, 1, "recv, line 3"). Ranks that
    wait for each other in a cycle are drawn in red.
    """
    edges = edges_of(waits)
    if not edges:
        raise ValueError("No rank waits for another; give a Deadlock's waits, or (rank, awaited rank, words).")
    count = ranks or 1 + max(max(edge[0], edge[1]) for edge in edges)
    figure, axes = _round_picture(height or (2.2 if count == 2 else 4.0), title, note, reach=0.8 if count == 2 else 1.6)
    places, size = _circle(count)
    stuck = on_a_cycle([(edge[0], edge[1]) for edge in edges])
    waiting = {edge[0] for edge in edges}
    for one, other, words in edges:
        red = one in stuck and other in stuck
        paint, bend = VERMILION if red else SOFT, _bend(places[one], places[other], count)
        _arrow(axes, places[one], places[other], size, paint, True, bend=bend)
        if words:
            _say(axes, places[one], places[other], words, paint, bend)
    for rank, place in enumerate(places):
        fill = VERMILION if rank in stuck else (COLOR["idle"] if rank in waiting else EMPTY)
        _rank(axes, place, size, f"rank {rank}" if count <= 8 else str(rank), fill)
    figure.alt = f"{title}. {wait_alt(edges)}"
    return figure


def edges_of(waits: "Iterable[tuple[int, int, str] | Wait]") -> list[tuple[int, int, str]]:
    """(rank, awaited rank, words) of each wait, which is such a triple already or the cluster's `Wait`."""
    edges: list[tuple[int, int, str]] = []
    for wait in waits:
        if isinstance(wait, tuple):
            edges.append((int(wait[0]), int(wait[1]), str(wait[2])))
        else:
            where = re.search(r"line \d+", wait.line)
            words = f"{wait.kind or 'call'}{', ' + where.group() if where else ''}"
            edges += [(wait.rank, other, words) for other in wait.waits_for]
    return edges


def wait_alt(edges: Sequence[tuple[int, int, str]]) -> str:
    """The picture in words: every edge, and which ranks form the cycle."""
    said = "; ".join(f"rank {one} waits for rank {other} in {words}" for one, other, words in edges)
    stuck = sorted(on_a_cycle([(edge[0], edge[1]) for edge in edges]))
    closing = f" Ranks {', '.join(map(str, stuck))} wait for each other in a cycle: no rank can move." if stuck else ""
    return f"{said[:1].upper()}{said[1:]}.{closing}"


def on_a_cycle(edges: Sequence[tuple[int, int]]) -> set[int]:
    """The ranks that lie on a cycle of waiting."""
    after: dict[int, set[int]] = {}
    for one, other in edges:
        after.setdefault(one, set()).add(other)
    return {rank for rank in after if rank in _reached(after, rank)}


def _reached(after: Mapping[int, set[int]], start: int) -> set[int]:
    seen: set[int] = set()
    todo = list(after.get(start, ()))
    while todo:
        rank = todo.pop()
        if rank not in seen:
            seen.add(rank)
            todo.extend(after.get(rank, ()))
    return seen


def _round_picture(height: float, title: str, note: str, reach: float):
    figure, axes = style.new(height, 5.6, left=0.1, right=0.1, bottom=0.34 if note else 0.1, top=0.42)
    style.bare(axes)
    box = axes.get_position()
    ratio = box.width * figure.get_figwidth() / (box.height * figure.get_figheight())
    axes.set_ylim(-reach, reach)
    axes.set_xlim(-reach * ratio, reach * ratio)
    style.dress(axes, title)
    if note:
        figure.text(0.02, 0.03, note, fontsize=style.NORMAL, color=SOFT)
    return figure, axes


def _circle(count: int) -> tuple[list[tuple[float, float]], float]:
    """Places of the ranks on the unit circle, clockwise from the top, and the radius of one rank."""
    if count == 1:
        return [(0.0, 0.0)], 0.24
    turns = [math.pi / 2 - 2 * math.pi * rank / count for rank in range(count)]
    if count == 2:
        turns = [math.pi, 0.0]  # side by side leaves room for words on both arrows
    return [(math.cos(turn), math.sin(turn)) for turn in turns], min(0.24, 2.1 / count)


def _rank(axes, place, size, words, fill) -> None:
    axes.add_patch(Circle(place, size, facecolor=fill, edgecolor=INK, linewidth=1.0, zorder=3))
    axes.text(
        *place,
        words,
        ha="center",
        va="center",
        fontsize=style.NORMAL if size > 0.15 else style.SMALL,
        color=ink_on(fill),
        zorder=4,
        fontweight="bold",
    )


def _arrow(axes, start, stop, size, paint, strong, bend=0.0) -> None:
    span = math.dist(start, stop)
    if span == 0:
        return
    inset = (size + 0.03) / span
    ends = [(start[0] + (stop[0] - start[0]) * t, start[1] + (stop[1] - start[1]) * t) for t in (inset, 1 - inset)]
    axes.add_patch(
        FancyArrowPatch(
            *ends,
            arrowstyle="-|>",
            mutation_scale=15 if strong else 9,
            linewidth=2.4 if strong else 1.2,
            color=paint,
            connectionstyle=f"arc3,rad={bend}",
            shrinkA=0,
            shrinkB=0,
            zorder=2,
        )
    )


def _say(axes, start, stop, words, paint, bend) -> None:
    """Words beside the middle of a bent arrow."""
    early = 0.5 if abs(bend) > 0.2 else 0.68  # long arrows cross: their words lie on them, near the start
    middle = tuple(early * one + (1 - early) * other for one, other in zip(start, stop, strict=True))
    across = (stop[1] - start[1], start[0] - stop[0])  # to the right of the way from start to stop
    away = math.copysign(1, bend) / (
        math.hypot(*across) or 1
    )  # beyond the arrow, so that it does not run through the words
    aside = 0.27 + 0.12 * abs(across[0] * away) if early == 0.5 else 0.0  # words are wider than high
    place = tuple(mid + part * (bend / 2 + away * aside) for mid, part in zip(middle, across, strict=True))
    axes.text(
        *place,
        words,
        ha="center",
        va="center",
        fontsize=style.SMALL,
        color=INK,
        zorder=5,
        bbox={"facecolor": PAPER, "edgecolor": paint, "boxstyle": "round,pad=0.3", "linewidth": 0.8},
    )


def _bend(start, stop, count) -> float:
    """How much an arrow bows: between neighbors outwards from the circle, else inwards, clear of the ranks."""
    middle = ((start[0] + stop[0]) / 2, (start[1] + stop[1]) / 2)
    outwards = (stop[1] - start[1]) * middle[0] - (stop[0] - start[0]) * middle[1]
    if count == 2:
        return 0.36
    near = math.dist(start, stop) < 2.5 * math.sin(math.pi / count)
    return math.copysign(0.32 if near else 0.12, outwards if near else -outwards)


def _list(ranks: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ranks)))


def _side(x: float) -> str:
    return "center" if abs(x) < 0.1 else ("left" if x > 0 else "right")
