"""Communication under a matmul, as a film: what each rank multiplies and receives, from runs on the metered cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from course_chapters.ch18 import collective_matmul
from course_lib.cluster import Comm, Topology, simulate
from course_lib.draw import style
from course_lib.draw.explore import Explorer, explore, menu, play, slider
from course_lib.draw.palette import BLUE, EMPTY, GREEN, GREY, GRID, ORANGE, PURPLE, SOFT, ink_on
from course_lib.draw.sheets import Sheet
from course_lib.estimate.units import count_text, duration_text

HUES = (BLUE, ORANGE, GREEN, PURPLE)  # of the ranks whose rows a piece has
RANKS, ROWS, INNER, OUTER = len(HUES), 24, 64, 64
PRODUCT, LATENCY, LAUNCH = 8e-6, 2e-6, 1e-6  # s: for a rank's rows, of a message, of a product
PIECES = (0, 1, 2, 3, 4, 6)  # 0: the all-gather first
HOPS = {"half a product": 0.5, "as long as a product": 1.0, "two products": 2.0}  # transfer of a rank's rows
FRAMES = 12
LEFT, WIDE, LANE, PITCH = 0.85, 4.8, 0.2, 0.56  # inches


@dataclass(frozen=True, slots=True)
class Bar:
    """One product or message of a rank: times in seconds, and whose rows it has (None: everybody's)."""

    start: float
    end: float
    owner: int | None


@dataclass(frozen=True, slots=True)
class Recorded:
    """For each rank its products and the messages that it received, in order; seconds of the run and of waiting."""

    products: Sequence[Sequence[Bar]]
    messages: Sequence[Sequence[Bar]]
    seconds: float
    exposed: float
    nbytes: int  # sent by a rank


def _program(comm: Comm, pieces: int, x: Tensor, weight: Tensor) -> Tensor:
    if not pieces:
        return collective_matmul.gather_then_matmul(comm, x, weight, LAUNCH)
    return collective_matmul.gather_matmul(comm, x, weight, pieces, LAUNCH)


@lru_cache(maxsize=32)
def record(pieces: int, hop: str) -> Recorded:
    """An all-gather and a matmul on four ranks of the metered cluster; 0 pieces: one after the other."""
    coin = torch.Generator().manual_seed(18)
    given = [
        (torch.randn(ROWS, INNER, generator=coin), torch.randn(INNER, OUTER, generator=coin)) for _ in range(RANKS)
    ]
    bandwidth = given[0][0].nbytes / (HOPS[hop] * PRODUCT)
    link = Topology.flat(LATENCY, bandwidth, 2 * ROWS * INNER * OUTER / PRODUCT)
    run = simulate(_program, RANKS, (pieces,), given, link)
    products, messages = [], []
    for rank in range(RANKS):
        spans = [span for span in run.spans if span.rank == rank and span.label == "product"]
        came = sorted((each for each in run.messages if each.dst == rank), key=lambda each: each.arrived)
        owners = [(rank - at // max(pieces, 1)) % RANKS if pieces else None for at in range(len(spans))]
        products.append([Bar(span.start, span.end, own) for span, own in zip(spans, owners, strict=True)])
        behind = [(rank - 1 - at // max(pieces, 1)) % RANKS for at in range(len(came))]
        messages.append([Bar(each.sent, each.arrived, own) for each, own in zip(came, behind, strict=True)])
    return Recorded(products, messages, run.seconds, max(run.exposed()), run.meter.bytes_sent[0])


def draw_overlap(frame: int = FRAMES, pieces: int = 1, hop: str = "as long as a product") -> Sheet:
    """The run up to one moment: for each rank, what it multiplies and what arrives."""
    run = record(pieces, hop)
    scale = WIDE / max(record(each, hop).seconds for each in PIECES)
    now = run.seconds * frame / FRAMES
    sheet = Sheet(3.5, 5.9)
    way = "All-gather, then matmul" if not pieces else f"{pieces} piece{'s' * (pieces > 1)} a rank"
    times = f"{duration_text(run.seconds)} in all, {duration_text(run.exposed)} of them waiting"
    sheet.head(f"{way}: {times}", f"At {duration_text(now)}. Each rank sends {run.nbytes:,} bytes")
    for rank in range(RANKS):
        top = sheet.height - 0.8 - PITCH * rank
        sheet.text(0.15, top - LANE, f"rank {rank}", size=style.NORMAL, va="center", bold=True)
        for lane, bars in enumerate((run.products[rank], run.messages[rank])):
            high = top - lane * (LANE + 0.02)
            low = high - (LANE if lane == 0 else 0.6 * LANE)
            sheet.boxes([(LEFT, LEFT + scale * run.seconds, low, high)], EMPTY)
            for bar in bars:
                _bar(sheet, bar, scale, now, low, high, lane == 0)
    x, foot = LEFT + scale * now, sheet.height - 0.8 - PITCH * RANKS
    sheet.lines([[(x, foot + 0.05), (x, sheet.height - 0.72)]], SOFT, 1.2, order=5)
    sheet.keys(0.25, 0.36, {f"rows of rank {rank}": hue for rank, hue in enumerate(HUES)}, gap=0.35)
    sheet.text(0.17, 0.13, "High bars: products. Low bars: messages on their way to the rank.", ink=SOFT)
    done, came = (sum(bar.end <= now for bar in bars[0]) for bars in (run.products, run.messages))
    sheet.alt = (
        f"{way}, a hop's bytes take {hop}: {times}. At {duration_text(now)} rank 0 has finished "
        f"{count_text(done, 'product')} (of {len(run.products[0])}) and received {count_text(came, 'message')} (of "
        f"{len(run.messages[0])})."
    )
    return sheet


def _bar(sheet: Sheet, bar: Bar, scale: float, now: float, low: float, high: float, said: bool) -> None:
    """The part of a bar that is past, in its owner's color."""
    if bar.start >= now:
        return
    left, right = LEFT + scale * bar.start, LEFT + scale * min(bar.end, now)
    fill = GREY if bar.owner is None else HUES[bar.owner]
    sheet.boxes([(left, right, low, high)], fill, edge=GRID, thick=0.6)
    if said and right - left > 0.2:
        words = "all" if bar.owner is None else str(bar.owner)
        sheet.text((left + right) / 2, (low + high) / 2, words, ink=ink_on(fill), ha="center", va="center")


def overlap_steps(pieces: int = 1) -> Explorer:
    """Play an all-gather under a matmul: choose pieces and the speed of the link, and see what is still exposed."""
    return explore(
        draw_overlap,
        frame=play(range(1, FRAMES + 1), FRAMES, label="time", text=str, interval=500),
        pieces=slider(PIECES, pieces, label="pieces", text=lambda count: str(count) if count else "apart"),
        hop=menu(tuple(HOPS), "as long as a product", label="a transfer takes"),
    )
