"""A pool of cache pages as it fills and is freed: a film of sequences that come, grow, share pages and end."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from matplotlib.patches import Rectangle

from course_lib.draw import style
from course_lib.draw.palette import BLUE, EMPTY, GREEN, GREY, INK, ORANGE, PURPLE, SKY, SOFT, VERMILION, YELLOW
from course_lib.draw.style import Picture
from course_lib.estimate.units import count_text, percent_text
from course_lib.operate import serving

SHADES = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, YELLOW, GREY)
SLOTS, STEPS, RESERVED = 768, 60, 128  # slots of the pool, steps of the film, and the longest sequence
PAGE_SIZES = (4, 16, 32, RESERVED)


@dataclass(frozen=True)
class PoolFrame:
    """The pool after one step: for each page its sequences and filled slots, who waits, and what is wasted."""

    pages: tuple[tuple[tuple[int, ...], int], ...]
    running: int
    waiting: int
    wasted: int
    tokens: int


@lru_cache(maxsize=8)
def pool_film(page_size: int) -> tuple[PoolFrame, ...]:
    """Sequences that come, grow by two tokens a step, are forked once in a while, and end. One page of `RESERVED` slots
    each is a contiguous cache: room for the longest sequence is taken at the start."""
    coin = np.random.default_rng(4)
    plan = [(int(coin.integers(6, 40)), int(coin.integers(12, 44)), bool(coin.random() < 0.2)) for _ in range(80)]
    pool, frames, arrived = serving.PagePool(SLOTS // page_size, page_size), [], 0.0
    ends: dict[int, int] = {}
    queue = iter(enumerate(plan))
    waiting = []
    for _ in range(STEPS):
        arrived += 1.1
        while arrived >= 1:
            waiting.append(next(queue))
            arrived -= 1
        for name in [name for name, end in ends.items() if pool.tokens(name) >= end]:
            pool.release(name)
            del ends[name]
        spare = len(ends) if page_size < RESERVED else 0  # a page for each to grow
        while waiting and pool.pages_of(waiting[0][1][0]) + spare <= pool.free_pages:
            name, (prompt, reply, forked) = waiting.pop(0)
            pool.add(name, prompt)
            ends[name] = prompt + reply
            if forked and page_size < RESERVED:
                pool.fork(name, name + 1000)
                ends[name + 1000] = prompt + reply
        for name in ends:
            try:
                pool.append(name, 2)
            except serving.OutOfPages:
                continue  # it waits a step
        frames.append(_frame(pool, len(waiting)))
    return tuple(frames)


def _frame(pool: serving.PagePool, waiting: int) -> PoolFrame:
    owners: list[list[int]] = [[] for _ in pool.counts]
    filled = [0] * len(pool.counts)
    for name, one in pool.sequences.items():
        for place, page in enumerate(one.table):
            owners[page].append(name)
            filled[page] = max(filled[page], min(pool.page_size, one.tokens - place * pool.page_size))
    pages = tuple((tuple(names), used) for names, used in zip(owners, filled, strict=True))
    return PoolFrame(pages, len(pool.sequences), waiting, pool.wasted_slots, sum(filled))


def draw_pages(step: int = STEPS, page_size: int = 16) -> Picture:
    """The pool's pages after a step, each filled as far as its slots are, in the color of its sequence; shared pages
    are framed."""
    frame = pool_film(page_size)[step - 1]
    figure, axes = style.new(3.1, left=0.15, right=0.15, bottom=0.5)
    rows = 8 if page_size < RESERVED else 2
    columns = len(frame.pages) // rows
    for page, (names, used) in enumerate(frame.pages):
        x, y = page % columns, page // columns
        axes.add_patch(Rectangle((x + 0.06, y + 0.1), 0.88, 0.8, facecolor=EMPTY, linewidth=0))
        if names:
            share = 0.88 * used / page_size
            axes.add_patch(Rectangle((x + 0.06, y + 0.1), share, 0.8, facecolor=SHADES[names[0] % 8], linewidth=0))
            shared = len(names) > 1
            edge, width = (INK, 1.6) if shared else (SOFT, 0.5)
            axes.add_patch(Rectangle((x + 0.06, y + 0.1), 0.88, 0.8, fill=False, edgecolor=edge, linewidth=width))
    axes.set(xlim=(0, columns), ylim=(rows, 0))
    style.bare(axes)
    room = sum(page_size for names, _ in frame.pages if names)
    title = (
        f"Step {step}: running {count_text(frame.running, 'sequence')}, {frame.waiting} waiting; "
        f"{percent_text(frame.wasted / max(room, 1), 2)} of the taken slots empty"
    )
    style.dress(axes, title)
    style.note(
        axes, 0, -0.09, "a box is a page; filled as far as it holds tokens; a thick frame: shared by several sequences"
    )
    figure.alt = f"{title}. {len(frame.pages)} pages of {page_size} tokens hold {frame.tokens} tokens of {SLOTS} slots."
    return figure
