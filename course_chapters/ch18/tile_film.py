"""Attention in tiles, as a film: which tile of scores is computed, what is loaded for it, kept and stored.

The library's kernel runs through a fast memory that notes, before each tile of scores, which loaded tiles are still
there.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from course_chapters.ch18 import attention
from course_chapters.ch18.fast_memory import Access, FastMemory, Where
from course_lib.draw import style
from course_lib.draw.explore import Explorer, explore, menu, play, slider
from course_lib.draw.palette import BLUE, EMPTY, GREEN, INK, ORANGE, SKY, SOFT
from course_lib.draw.sheets import Box, Sheet

TOKENS, WIDTH = 24, 8
TILES = (4, 6, 8, 12)  # queries and keys of a tile
LOOPS = {"forward": ("q", "k"), "backward": ("k", "q")}  # what the outer and the inner loop load first
STRIPS = {
    "forward": ("q", "k", "v", "out", "log_sum"),
    "backward": ("k", "v", "q", "grad", "out", "log_sum", "delta", "dq", "dk", "dv"),
}
HIGH, TOP, LEFT = 1.92, 0.98, 0.2  # inches: of all tokens, of the strips from the sheet's top, of the first strip
Rows = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Step:
    """One tile of scores: what crossed for it, and what was there before."""

    accesses: tuple[Access, ...]
    kept: tuple[tuple[str, Rows], ...]  # tiles loaded in an earlier step
    queries: Rows | None  # None: before the first tile, the products grad · out
    keys: Rows | None
    moved: int  # bytes between the memories up to the end of this step


class _Watched(FastMemory):
    """Keeps, for each access, the loaded tiles that were alive just before it."""

    def __init__(self, memory: FastMemory) -> None:
        super().__init__(None, **memory._slow)
        self.before: list[tuple[tuple[str, Rows], ...]] = []
        self._tiles: list[tuple[str, Rows, weakref.ref[Tensor]]] = []

    def load(self, name: str, where: Where) -> Tensor:
        tile = super().load(name, where)
        self._tiles.append((name, self.log[-1].rows, weakref.ref(tile)))
        return tile

    def _note(self, kind: str, name: str, where: Where, part: Tensor) -> None:
        self.before.append(tuple((each, rows) for each, rows, tile in self._tiles if tile() is not None))
        super()._note(kind, name, where, part)


@lru_cache(maxsize=16)
def record(way: str, rows: int, causal: bool) -> tuple[tuple[Step, ...], int]:
    """The steps of a pass over 24 tokens in fp32 with square tiles, and the bytes that the unfused pass moves."""
    coin = torch.Generator().manual_seed(18)
    q, k, v, grad = torch.randn(4, TOKENS, WIDTH, generator=coin)
    memory = attention.slow_memory(q, k, v)
    memory.slow("grad")[0].copy_(grad)
    with memory:
        attention.forward(memory, rows, rows, causal)
    watched = _Watched(memory)
    with watched:
        (attention.forward if way == "forward" else attention.backward)(watched, rows, rows, causal)
    plain = attention.unfused_traffic(TOKENS, WIDTH, q.itemsize)[way == "backward"]
    return tuple(_steps(watched, *LOOPS[way])), plain


def _steps(watched: _Watched, outer: str, inner: str) -> Sequence[Step]:
    """The log in parts: a new one begins where a loop loads its first tile and the last part has its scores."""
    starts, names = [0], set[str]()
    for at, access in enumerate(watched.log):
        full = inner in names or ("delta" in names and "q" not in names)
        if access.kind == "load" and access.name in (outer, inner) and full:
            starts.append(at)
            names = set()
        names.add(access.name)
    found, moved = [], 0
    for start, stop in zip(starts, [*starts[1:], len(watched.log)], strict=True):
        part = tuple(watched.log[start:stop])
        kept = watched.before[start]
        moved += sum(access.nbytes for access in part)
        here = dict(kept) | {access.name: access.rows for access in part if access.kind == "load"}
        queries, keys = (here.get(name) if "q" in here else None for name in "qk")
        found.append(Step(part, kept, queries, keys, moved))
    return found


def draw_tiles(step: int = 1, way: str = "forward", rows: int = 8, mask: str = "full") -> Sheet:
    """One step of a recorded pass: the strips of slow memory, the matrix of scores, and the bytes so far."""
    steps, plain = record(way, rows, mask == "causal")
    step = min(step, len(steps) - 1)
    now = steps[step]
    sheet = Sheet(3.85, 5.9)
    title = f"{way.capitalize()}, step {step + 1} of {len(steps)}"
    what = "the products grad · out" if now.queries is None else f"queries {_span(now.queries)}, keys {_span(now.keys)}"
    sheet.head(title, f"Computed now: {what}")
    loaded, stored = ([a for a in now.accesses if a.kind == kind] for kind in ("load", "store"))
    marks = [({(name, span) for name, span in now.kept}, SKY), ({(a.name, a.rows) for a in loaded}, BLUE)]
    marks.append(({(a.name, a.rows) for a in stored}, ORANGE))
    pitch = 2.9 / len(STRIPS[way])
    top = sheet.height - TOP
    for at, name in enumerate(STRIPS[way]):
        left = LEFT + at * pitch
        sheet.text(left + 0.12, top + 0.08, name.replace("log_sum", "log"), ha="center", ink=SOFT)
        sheet.boxes([(left, left + 0.24, top - HIGH, top)], EMPTY)
        for spans, fill in marks:
            part = 0.12 if fill == ORANGE else 0.0  # the right half: what is loaded and stored shows both
            sheet.boxes([_strip(left + part, 0.24 - part, top, span) for each, span in spans if each == name], fill)
    _scores(sheet, steps[: step + 1], 3.45, top, mask == "causal")
    held, most = (max(a.held for each in some for a in each.accesses) for some in ((now,), steps))
    _bars(sheet, {"moved so far": now.moved, "unfused, in all": plain, "held now": held}, max(plain, steps[-1].moved))
    sheet.keys(0.25, 0.2, {"kept": SKY, "loaded": BLUE, "stored": ORANGE, "scores done": GREEN}, gap=0.35)
    sheet.alt = (
        f"{title}, {mask}: {what}. Loaded: {_listed(loaded)}. Stored: {_listed(stored)}. Kept: "
        f"{', '.join(f'{name} {_span(span)}' for name, span in now.kept) or 'nothing'}. {now.moved:,} bytes moved so "
        f"far, {plain:,} in all without tiles; {held:,} bytes held, {most:,} at most."
    )
    return sheet


def _span(rows: Rows | None) -> str:
    return f"{rows[0]} to {rows[1] - 1}" if rows else ""


def _listed(accesses: Sequence[Access]) -> str:
    return ", ".join(f"{each.name} {_span(each.rows)}" for each in accesses) or "nothing"


def _strip(left: float, wide: float, top: float, rows: Rows) -> Box:
    start, stop = (top - HIGH * row / TOKENS for row in rows)
    return left, left + wide, stop, start


def _scores(sheet: Sheet, steps: Sequence[Step], left: float, top: float, causal: bool) -> None:
    """The matrix of scores: tiles computed so far, the last of them darker."""
    sheet.text(left + HIGH / 2, top + 0.08, "queries × keys", ha="center", ink=SOFT)
    sheet.boxes([(left, left + HIGH, top - HIGH, top)], EMPTY)
    for at, step in enumerate(steps):
        if step.queries and step.keys:
            start, stop = (left + HIGH * place / TOKENS for place in step.keys)
            low, high = _strip(0, 0, top, step.queries)[2:]
            sheet.boxes([(start, stop, low, high)], GREEN, alpha=1.0 if at == len(steps) - 1 else 0.4)
    if causal:
        unit = HIGH / TOKENS
        stairs = [(left + unit * at, top - unit * row) for at in range(1, TOKENS + 1) for row in (at - 1, at)]
        sheet.lines([stairs], INK, 0.8)


def _bars(sheet: Sheet, values: dict[str, int], most: int) -> None:
    """Bytes as bars of one scale."""
    for at, (words, value) in enumerate(values.items()):
        y = 0.78 - 0.19 * at
        sheet.text(0.2, y, words, va="center", ink=SOFT, size=style.SMALL)
        sheet.boxes([(1.3, 1.3 + 3.3 * value / most, y - 0.05, y + 0.05)], ORANGE if at == 0 else SOFT)
        sheet.text(1.36 + 3.3 * value / most, y, f"{value:,} B", va="center")


def tiles_steps(way: str = "forward", rows: int = 8) -> Explorer:
    """Play attention in tiles: what is loaded for each tile of scores, what stays, and what goes back."""
    most = max(len(record(each, TILES[0], False)[0]) for each in LOOPS)
    return explore(
        draw_tiles,
        step=play(range(most), 1, label="step", text=lambda step: str(step + 1), interval=900, last=_last),
        way=menu(tuple(LOOPS), way, label="pass"),
        rows=slider(TILES, rows, label="tile", text=lambda side: f"{side} × {side}"),
        mask=menu(("full", "causal"), "full", label="mask"),
    )


def _last(setting: dict) -> int:
    return len(record(setting["way"], setting["rows"], setting["mask"] == "causal")[0]) - 1
