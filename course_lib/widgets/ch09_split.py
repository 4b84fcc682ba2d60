"""Chapter 09's split explorer: which rank holds which columns and rows, what it computes, and where the collectives are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from course_lib.collectives import ring_cost, ring_half_cost
from course_lib.figures import style
from course_lib.figures.palette import EMPTY, GRID, INK, SOFT, VERMILION, color
from course_lib.figures.style import Picture
from course_lib.tensor_parallel.pieces import span
from course_lib.widgets.explore import Explorer, explore, menu, play, slider

TOKENS, HIDDEN, INNER = 2, 4, 8  # of the matrices that are drawn
Array = np.ndarray
Box = tuple[float, float, float, float]  # left, low, right, high in inches


@dataclass(frozen=True, slots=True)
class Matrix:
    """One matrix on all ranks: what each holds of it."""

    name: str
    shape: tuple[int, int]
    cut: str = "whole"  # or "columns" or "rows"
    partial: bool = False  # each rank's is one term of a sum
    weight: bool = False

    def held(self, ranks: int, rank: int) -> tuple[slice, slice]:
        """Rows and columns that a rank holds."""
        if self.cut == "whole":
            return slice(None), slice(None)
        part = slice(*span(self.shape[self.cut == "columns"], ranks, rank))
        return (slice(None), part) if self.cut == "columns" else (part, slice(None))


@dataclass(frozen=True, slots=True)
class Product:
    """The same step on every rank with its own parts: `left` times `right`, then perhaps GeLU."""

    left: Matrix
    right: Matrix
    gives: Matrix
    gelu: bool = False


@dataclass(frozen=True, slots=True)
class Collective:
    """A step that the ranks do together."""

    name: str  # "all-reduce" or "all-gather"
    of: Matrix
    gives: Matrix
    gelu: bool = False  # afterwards, on every rank separately

    def numbers_sent(self, ranks: int) -> float:
        """Numbers that each rank sends around a ring."""
        cost = ring_cost if self.name == "all-reduce" else ring_half_cost
        return cost(float(np.prod(self.of.shape)), ranks, 0.0, 1.0).nbytes


@dataclass(frozen=True, slots=True)
class Plan:
    """A way to split: what each rank holds at the start, and the steps that follow."""

    start: tuple[Matrix, ...]
    steps: tuple[Product | Collective, ...]
    title: str


def _weight(name: str, shape: tuple[int, int], cut: str) -> Matrix:
    return Matrix(name, shape, cut, weight=True)


def _plans() -> dict[str, Plan]:
    wide, narrow = (TOKENS, INNER), (TOKENS, HIDDEN)
    x, x_cut = Matrix("X", narrow), Matrix("X", narrow, "columns")
    y = Matrix("Y", narrow)
    a_columns, a_rows = (_weight("A", (HIDDEN, INNER), cut) for cut in ("columns", "rows"))
    b_columns, b_rows = (_weight("B", (INNER, HIDDEN), cut) for cut in ("columns", "rows"))
    xa, xa_whole = Matrix("XA", wide, "columns"), Matrix("XA", wide)
    xa_terms = Matrix("XA", wide, partial=True)
    h_cut, h = Matrix("H", wide, "columns"), Matrix("H", wide)
    y_terms, y_cut = Matrix("HB", narrow, partial=True), Matrix("HB", narrow, "columns")
    into, out = Product(x, a_columns, h_cut, gelu=True), Product(h_cut, b_rows, y_terms)
    sum_xa, sum_y = Collective("all-reduce", xa_terms, xa_whole), Collective("all-reduce", y_terms, y)
    sum_h, gather_h = Collective("all-reduce", xa_terms, h, gelu=True), Collective("all-gather", h_cut, h)
    gather_xa, gather_y = Collective("all-gather", xa, xa_whole), Collective("all-gather", y_cut, y)
    by_columns, by_rows = Product(x, a_columns, xa), Product(x_cut, a_rows, xa_terms)
    last = Product(h, b_columns, y_cut)
    return {
        "one matrix, by columns": Plan((x, a_columns), (by_columns, gather_xa), "results are concatenated"),
        "one matrix, by rows": Plan((x_cut, a_rows), (by_rows, sum_xa), "results are added"),
        "MLP, columns then rows": Plan((x, a_columns, b_rows), (into, out, sum_y), "one all-reduce, at the end"),
        "MLP, columns then columns": Plan(
            (x, a_columns, b_columns), (into, gather_h, last, gather_y), "a gather in the middle"
        ),
        "MLP, rows then columns": Plan(
            (x_cut, a_rows, b_columns), (by_rows, sum_h, last, gather_y), "GeLU must wait for the whole sum"
        ),
    }


PLANS: Mapping[str, Plan] = _plans()
MOST_STEPS = max(len(plan.steps) for plan in PLANS.values())


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@cache
def error(kind: str, ranks: int) -> float:
    """Largest difference between the ranks' final result and the unsplit one, for random matrices of these shapes."""
    plan, coin = PLANS[kind], np.random.default_rng(9)
    wholes = {each.name: coin.standard_normal(each.shape) for each in plan.start}
    held = {each.name: [wholes[each.name][each.held(ranks, rank)] for rank in range(ranks)] for each in plan.start}
    for step in plan.steps:
        if isinstance(step, Product):
            made = [left @ right for left, right in zip(held[step.left.name], held[step.right.name], strict=True)]
        elif step.name == "all-reduce":
            made = [sum(held[step.of.name])] * ranks
        else:
            made = [np.concatenate(held[step.of.name], 1)] * ranks
        held[step.gives.name] = [_gelu(each) for each in made] if step.gelu else made
    want = wholes["X"] @ wholes["A"]
    if "B" in wholes:
        want = _gelu(want) @ wholes["B"]
    return max(float(np.abs(each - want).max()) for each in held[plan.steps[-1].gives.name])


# --- the picture

_WIDEST, _TALL = 0.165, 0.105  # inches: a cell's width at most, and its height
_LEFT, _RIGHT, _GAP, _BAR, _TOP, _BELOW = 0.66, 0.12, 0.27, 0.16, 0.98, 0.34


def draw_split(kind: str = "MLP, columns then rows", ranks: int = 2, step: int = 0) -> Picture:
    """What every rank holds of every matrix after `step` steps: its own cells in color, the rest empty."""
    plan = PLANS[kind]
    done = plan.steps[:step]
    shown = _columns(plan)
    high = max(each.shape[0] for each, _ in shown) * _TALL + 0.16
    height = _TOP + ranks * high + _BELOW
    figure, axes = style.new(height, left=0, right=0, bottom=0, top=0)
    axes.set(xlim=(0, style.WIDTH), ylim=(0, height))
    style.bare(axes)
    there = {id(each) for each in plan.start} | {id(each.gives) for each in done}
    middles = [height - _TOP - (rank + 0.5) * high for rank in range(ranks)]
    x, cells, wide = _LEFT, [], _cell_width(shown)
    for matrix, maker in shown:
        if isinstance(maker, Collective):
            _collective(axes, maker, x - _GAP / 2 + _BAR / 2, height, maker in done)
            x += _BAR
        elif matrix is not shown[0][0]:
            sign = "=" if maker else "×"
            style.words(axes, [(x - _GAP / 2, middle) for middle in middles], [sign] * ranks, [SOFT] * ranks, 13)
        across = matrix.shape[1] * wide
        name = _name(matrix, maker, ranks)
        label(axes, x + across / 2, height - _TOP + 0.1, name, style.SMALL, ha="center")
        for rank, middle in enumerate(middles):
            cells += _cells(matrix, ranks, rank, (x, middle, wide), id(matrix) in there)
        x += across + _GAP
    _paint(axes, cells)
    for rank, middle in enumerate(middles):
        label(axes, 0.12, middle, f"rank {rank}")
    _words(figure, axes, kind, ranks, step, height)
    return figure


def _columns(plan: Plan) -> list[tuple[Matrix, Product | Collective | None]]:
    """The matrices from left to right, each with the step that produces it; a weight comes before its product."""
    shown: list[tuple[Matrix, Product | Collective | None]] = [(plan.start[0], None)]
    for step in plan.steps:
        if isinstance(step, Product):
            shown.append((step.right, None))
        shown.append((step.gives, step))
    return shown


def _cell_width(shown: Sequence[tuple[Matrix, Product | Collective | None]]) -> float:
    """Inches a cell, so that all matrices fit side by side."""
    bars = sum(isinstance(maker, Collective) for _, maker in shown)
    room = style.WIDTH - _LEFT - _RIGHT - _GAP * (len(shown) - 1) - _BAR * bars
    return min(_WIDEST, room / sum(matrix.shape[1] for matrix, _ in shown))


def _name(matrix: Matrix, maker: Product | Collective | None, ranks: int) -> str:
    name = f"{matrix.name} = GeLU(XA)" if maker and maker.gelu else matrix.name
    return f"{name}, terms" if matrix.partial and ranks > 1 else name


def _cells(matrix: Matrix, ranks: int, rank: int, at: tuple[float, float, float], there: bool) -> list[tuple[Box, str]]:
    """The cells of one matrix on one rank: (left, low, right, high) and what fills them. `at`: left, middle, a cell's width."""
    mine = np.zeros(matrix.shape, dtype=bool)
    if there:
        mine[matrix.held(ranks, rank)] = True
    fill = color("weights") if matrix.weight else color("activations")
    kind = f"{fill} terms" if matrix.partial and ranks > 1 else fill
    left, middle, wide = at
    top = middle + matrix.shape[0] * _TALL / 2
    cells = []
    for (row, column), held in np.ndenumerate(mine):
        x, y = left + column * wide, top - row * _TALL
        cells.append(((x, top - (row + 1) * _TALL, left + (column + 1) * wide, y), kind if held else EMPTY))
    return cells


def _paint(axes: Axes, cells: Sequence[tuple[Box, str]]) -> None:
    """The cells, by fill; a term of a sum is light."""
    alike: dict[str, list[Box]] = {}
    for box, fill in cells:
        alike.setdefault(fill, []).append(box)
    for fill, boxes in alike.items():
        terms = fill.endswith(" terms")
        face = "#f3dcea" if terms else fill
        edge = color("activations") if terms else GRID if fill == EMPTY else "white"
        rectangles(axes, boxes, facecolor=face, edgecolor=edge, linewidth=0.6)


def label(axes: Axes, x: float, y: float, text: str, size: float = style.NORMAL, ink: str = INK, **more: Any) -> None:
    """A text whose middle is at the height y, in inches."""
    axes.text(x, y, text, fontsize=size, color=ink, va="center", **more)


def rectangles(axes: Axes, boxes: Sequence[Box], **look: object) -> None:
    """Many rectangles (left, low, right, high) as one outline, which is quicker to draw than one by one."""
    corners = [
        ((left, low), (right, low), (right, high), (left, high), (left, low)) for left, low, right, high in boxes
    ]
    codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], len(boxes))
    axes.add_artist(PathPatch(Path(np.reshape(corners, (-1, 2)), codes), transform=axes.transData, **look))


def _collective(axes: Axes, step: Collective, x: float, height: float, done: bool) -> None:
    """A bar through all ranks where they communicate."""
    line, ink, width, weight = (VERMILION, VERMILION, 4, "bold") if done else (GRID, SOFT, 2, "normal")
    axes.plot((x, x), (_BELOW, height - _TOP), color=line, linewidth=width, solid_capstyle="round")
    label(axes, x, height - _TOP + 0.26, step.name, style.SMALL, ink, ha="center", fontweight=weight)


def _words(figure: Picture, axes: Axes, kind: str, ranks: int, step: int, height: float) -> None:
    """Title, what happened last, and the bytes so far."""
    plan, done = PLANS[kind], PLANS[kind].steps[:step]
    title = f"{kind[0].upper()}{kind[1:]}, {ranks} rank{'s' if ranks > 1 else ''}, step {step} of {MOST_STEPS}"
    said = _said(plan, done, ranks) if step <= len(plan.steps) else f"Done after step {len(plan.steps)}."
    sent = sum(each.numbers_sent(ranks) for each in done if isinstance(each, Collective))
    meets = sum(isinstance(each, Collective) for each in done)
    note = f"Sent by each rank so far: {sent:g} numbers in {meets} collective{'' if meets == 1 else 's'}."
    if step >= len(plan.steps):
        note += f" Largest difference from the unsplit result: {error(kind, ranks):.0e}."
    label(axes, 0.12, height - 0.2, title, style.LARGE, fontweight="bold")
    label(axes, 0.12, height - 0.44, said)
    label(axes, 0.12, 0.16, note)
    figure.alt = f"{title}. {said} {note} {holdings(kind, ranks)}"


def _said(plan: Plan, done: Sequence[Product | Collective], ranks: int) -> str:
    """The last step in words."""
    if not done:
        return f"What each rank holds at the start. Blue: weights; pink: activations. This split: {plan.title}."
    last = done[-1]
    if isinstance(last, Collective):
        after = ", and each applies GeLU to it" if last.gelu else ""
        if last.name == "all-reduce":
            return f"All-reduce: every rank gets the sum of all terms{after}."
        return "All-gather: every rank gets all columns."
    if ranks == 1:
        return f"The only rank computes all of {last.gives.name}."
    gelu = ", and their GeLU: it acts on each element, so no communication is needed" if last.gelu else ""
    if last.gives.partial:
        return f"Every rank computes one term of {last.gives.name}: the right shape, but wrong numbers until they are added."
    return f"Every rank computes its own columns of {last.left.name}·{last.right.name}{gelu}."


def holdings(kind: str, ranks: int) -> str:
    """What each rank holds of the weights, in words."""
    said, weights = [], [each for each in PLANS[kind].start if each.weight and each.cut != "whole"]
    for rank in range(ranks):
        spans = [(each, span(each.shape[each.cut == "columns"], ranks, rank)) for each in weights]
        parts = [f"{each.cut} {start} to {stop - 1} of {each.name}" for each, (start, stop) in spans]
        said.append(f"Rank {rank} holds {' and '.join(parts)}.")
    return " ".join(said)


def split_explorer(kind: str = "MLP, columns then rows") -> Explorer:
    """One matrix or an MLP on several ranks, step by step, in several splits."""
    return explore(
        draw_split,
        kind=menu(tuple(PLANS), kind, label="split"),
        ranks=slider((1, 2, 4), 2, label="ranks"),
        step=play(tuple(range(MOST_STEPS + 1)), 0, label="step", interval=1200),
    )
