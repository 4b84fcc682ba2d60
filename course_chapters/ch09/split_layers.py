"""Chapter 09's split explorer: which rank holds which columns and rows, what it computes, and where the collectives
are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from course_lib.cluster.collectives import ring_cost, ring_half_cost
from course_lib.draw import style
from course_lib.draw.explore import Explorer, explore, menu, play, slider
from course_lib.draw.palette import EMPTY, GRID, PAPER, SOFT, VERMILION, color
from course_lib.draw.sheets import Box, Sheet
from course_lib.messages import count_text
from course_lib.parallel.tensor.partition import span

TOKENS, HIDDEN, INNER = 2, 4, 8  # of the matrices that are drawn
Array = np.ndarray


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


def _product(left: Matrix, right: Matrix, name: str, gelu: bool = False) -> Product:
    """A product by columns, which gives columns of the result, or by rows, which gives terms of it."""
    by_columns = right.cut == "columns"
    gives = Matrix(name, (TOKENS, right.shape[1]), "columns" if by_columns else "whole", partial=not by_columns)
    return Product(left, right, gives, gelu)


def _collected(of: Matrix, name: str, gelu: bool = False) -> Collective:
    """The collective after which every rank has the whole result."""
    return Collective("all-reduce" if of.partial else "all-gather", of, Matrix(name, of.shape), gelu)


def _plan(title: str, a: str, b: str = "") -> Plan:
    """A cut like this, and B like that; a collective is where the next step needs what no rank has."""
    x = Matrix("X", (TOKENS, HIDDEN), "whole" if a == "columns" else "columns")
    first, second = Matrix("A", (HIDDEN, INNER), a, weight=True), Matrix("B", (INNER, HIDDEN), b, weight=True)
    if not b:
        into = _product(x, first, "XA")
        return Plan((x, first), (into, _collected(into.gives, "XA")), title)
    into = _product(x, first, "H" if a == "columns" else "XA", gelu=a == "columns")
    between = [_collected(into.gives, "H", gelu=a == "rows")] if b == "columns" else []
    out = _product(between[-1].gives if between else into.gives, second, "HB")
    return Plan((x, first, second), (into, *between, out, _collected(out.gives, "Y")), title)


PLANS: Mapping[str, Plan] = {
    "one matrix, by columns": _plan("results are concatenated", "columns"),
    "one matrix, by rows": _plan("results are added", "rows"),
    "MLP, columns then rows": _plan("one all-reduce, at the end", "columns", "rows"),
    "MLP, columns then columns": _plan("a gather in the middle", "columns", "columns"),
    "MLP, rows then columns": _plan("GeLU must wait for the whole sum", "rows", "columns"),
}
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
            made = [np.sum(held[step.of.name], axis=0)] * ranks
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
_TERMS = "#f3dcea"  # the fill of a term of a sum, a light form of the activations' color


def draw_split(kind: str = "MLP, columns then rows", ranks: int = 2, step: int = 0) -> Sheet:
    """What every rank holds of every matrix after `step` steps: its own cells in color, the rest empty."""
    plan = PLANS[kind]
    done, shown = plan.steps[:step], _columns(plan)
    high = max(each.shape[0] for each, _ in shown) * _TALL + 0.16
    sheet = Sheet(_TOP + ranks * high + _BELOW)
    top = sheet.height - _TOP
    there = {id(each) for each in plan.start} | {id(each.gives) for each in done}
    middles = [top - (rank + 0.5) * high for rank in range(ranks)]
    x, wide = _LEFT, _cell_width(shown)
    for matrix, maker in shown:
        if isinstance(maker, Collective):
            _draw_collective(sheet, maker, x - _GAP / 2 + _BAR / 2, top, maker in done)
            x += _BAR
        elif matrix is not plan.start[0]:
            for middle in middles:
                sign = "=" if maker else "×"
                sheet.text(x - _GAP / 2, middle, sign, size=13, ink=SOFT, ha="center", va="center")
        across = matrix.shape[1] * wide
        sheet.text(x + across / 2, top + 0.1, _name(matrix, maker, ranks), ha="center", va="center")
        for rank, middle in enumerate(middles):
            held = matrix.held(ranks, rank) if id(matrix) in there else None
            _draw_matrix(sheet, matrix, (x, middle, wide), held, matrix.partial and ranks > 1)
        x += across + _GAP
    for rank, middle in enumerate(middles):
        sheet.text(0.12, middle, f"rank {rank}", size=style.NORMAL, va="center")
    title = f"{kind[0].upper()}{kind[1:]}, {count_text(ranks, 'rank')}, step {step} of {MOST_STEPS}"
    said = _said(plan, done, ranks) if step <= len(plan.steps) else f"Done after step {len(plan.steps)}."
    sent = [each.numbers_sent(ranks) for each in done if isinstance(each, Collective)]
    note = f"Sent by each rank so far: {count_text(sum(sent), 'number')} in {count_text(len(sent), 'collective')}."
    if step >= len(plan.steps):
        note += f" Largest difference from the unsplit result: {error(kind, ranks):.0e}."
    sheet.head(title, said)
    sheet.text(0.15, 0.16, note, size=style.NORMAL, va="center")
    sheet.alt = f"{title}. {said} {note} {holdings(kind, ranks)}"
    return sheet


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


def _draw_matrix(
    sheet: Sheet, matrix: Matrix, at: tuple[float, float, float], held: tuple[slice, slice] | None, terms: bool
) -> None:
    """One matrix on one rank, and in color what it holds of it. `at`: left end, middle height and a cell's width."""
    left, middle, wide = at
    top = middle + matrix.shape[0] * _TALL / 2
    rows, columns = map(range, matrix.shape)

    def cells(rows: range, columns: range) -> list[Box]:
        return [
            (left + column * wide, left + (column + 1) * wide, top - (row + 1) * _TALL, top - row * _TALL)
            for row in rows
            for column in columns
        ]

    sheet.boxes(cells(rows, columns), EMPTY, edge=GRID, thick=0.6)
    if held:
        ink = color("weights" if matrix.weight else "activations")
        fill, edge = (_TERMS, ink) if terms else (ink, PAPER)
        sheet.boxes(cells(rows[held[0]], columns[held[1]]), fill, edge=edge, thick=0.6)


def _draw_collective(sheet: Sheet, step: Collective, x: float, top: float, done: bool) -> None:
    """A bar through all ranks where they communicate."""
    sheet.lines([((x, _BELOW), (x, top))], VERMILION if done else GRID, 4 if done else 2)
    sheet.text(x, top + 0.26, step.name, ink=VERMILION if done else SOFT, ha="center", va="center", bold=done)


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
        return (
            f"Every rank computes one term of {last.gives.name}: the right shape, but wrong numbers until "
            f"they are added."
        )
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
