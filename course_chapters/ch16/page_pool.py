"""The pages of a cache as the library's engine fills, shares and takes them back, iteration by iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from course_lib.draw.palette import EMPTY, GREY, INK, SHADES, SOFT, VERMILION, ink_on
from course_lib.draw.sheets import Plot, Sheet
from course_lib.estimate.units import count_text, percent_text
from course_runs.serving.engine import FINISHED, RUNNING, WAITING, Engine, Generation, Limits

SLOTS, STEPS, RESERVED = 384, 72, 128  # slots of the pool, iterations of the film, and the longest sequence
PAGE_SIZES = (4, 16, 32, RESERVED)
BEGINNING = 32  # tokens with which two of three prompts begin
REQUESTS = 16
_KEPT, _WAITS = "#9fc9e6", GREY  # a free page that is still known; tokens that are known and not in the cache


@dataclass(frozen=True)
class Seen:
    """A request after an iteration."""

    state: str
    pages: tuple[int, ...]
    prompt: int
    known: int  # tokens of prompt and reply
    computed: int  # of those, tokens whose keys and values the cache holds
    most: int  # tokens at its end
    shared: int  # tokens that were in the cache when it started
    preempted: int


@dataclass(frozen=True)
class PoolFrame:
    """The engine after an iteration: its requests by number, and for each page the filled slots."""

    requests: Mapping[int, Seen]
    filled: tuple[int, ...]
    kept: frozenset[int]  # free pages that still hold the beginning of a prompt
    freed: Mapping[int, int]  # by request that lost its pages in this iteration: those that became free
    events: str  # requests that started, ended or lost their pages

    @property
    def used(self) -> int:
        """Pages that belong to requests."""
        return sum(each > 0 for each in self.filled)


def arrivals() -> list[tuple[int, list[int], int]]:
    """The iteration before which each request comes, its prompt, and the length of its reply."""
    coin = np.random.default_rng(4)
    found, system = [], list(range(BEGINNING))
    for number in range(REQUESTS):
        own = [1000 * (number + 1) + place for place in range(int(coin.integers(6, 24)))]
        prompt = own if number % 3 == 2 else system + own
        found.append((2 * number, prompt, int(coin.integers(24, 72))))
    return found


class _Reserving(Engine):
    """An engine whose pages are blocks for whole sequences: none has to stay free for sequences that grow."""

    def _has_room(self, generation: Generation, shared: Sequence[int]) -> bool:
        return self.pool.free_pages > 0


def engine(page_size: int, share: bool) -> Engine:
    """The library's engine with a pool of this size. No model computes: each next token is the same."""
    limits = Limits(
        context=RESERVED, pages=SLOTS // page_size, page_size=page_size, max_batch=8, budget=40, share_prefixes=share
    )
    return (_Reserving if page_size == RESERVED else Engine)(limits, lambda work: [0] * len(work))


@lru_cache(maxsize=8)
def pool_film(page_size: int, share: bool = True) -> tuple[PoolFrame, ...]:
    """Sixteen requests and what the engine does with them. A page of `RESERVED` slots is a block for the longest
    sequence."""
    server, coming = engine(page_size, share), arrivals()
    requests: list[Generation] = []
    frames: list[PoolFrame] = []
    for step in range(STEPS):
        while coming and coming[0][0] <= step:
            _, prompt, reply = coming.pop(0)
            requests.append(server.submit(prompt, reply))
        before = frames[-1] if frames else None
        server.step()
        frames.append(_frame(server, requests, before))
    return tuple(frames)


def _frame(server: Engine, requests: Sequence[Generation], before: PoolFrame | None) -> PoolFrame:
    pool, filled, seen = server.pool, [0] * server.limits.pages, {}
    for one in requests:
        table = pool.table(one.id) if one.state == RUNNING else ()
        for place, page in enumerate(table):
            filled[page] = max(filled[page], min(pool.page_size, pool.tokens(one.id) - place * pool.page_size))
        size = len(one.prompt)
        seen[one.id] = Seen(
            one.state, table, size, len(one.tokens), one.computed, size + one.max_tokens, one.shared, one.preempted
        )
    freed: dict[int, int] = {}
    events: dict[str, list[str]] = {}
    for name, now in seen.items():
        was = before.requests.get(name) if before else None
        if before and was and now.preempted > was.preempted:
            others = {page for other, each in before.requests.items() if other != name for page in each.pages}
            freed[name] = len(set(was.pages) - others)
            events.setdefault("preempted", []).append(f"{name} ({count_text(freed[name], 'page')} freed)")
        elif now.state == RUNNING and (not was or was.state == WAITING):
            found = f" ({now.shared} tokens found in the cache)" if now.shared and not now.preempted else ""
            events.setdefault("starts again" if now.preempted else "starts", []).append(f"{name}{found}")
        elif now.state == FINISHED and was and was.state != FINISHED:
            events.setdefault("done", []).append(str(name))
    said = "; ".join(f"{what}: {', '.join(names)}" for what, names in events.items())
    return PoolFrame(seen, tuple(filled), pool.kept_pages, freed, said)


def _counts(frame: PoolFrame) -> tuple[int, int, int]:
    """Requests that run, wait and are done."""
    states = [each.state for each in frame.requests.values()]
    return states.count(RUNNING), states.count(WAITING), states.count(FINISHED)


def draw_pages(step: int = STEPS, page_size: int = 16, share: bool = True) -> Sheet:
    """The pool and the requests after an iteration; below, the pages in use over all iterations."""
    film, sheet = pool_film(page_size, share), Sheet(4.68)
    frame, pages = film[step - 1], SLOTS // page_size
    _pool(sheet, frame, page_size)
    _requests(sheet, frame)
    panel = Plot(0.62, 0.62, 6.6, 0.62, (0, STEPS), (0, pages))
    panel.frame(
        sheet,
        {at: str(at) for at in range(0, STEPS + 1, 12)},
        {0: "0", pages: str(pages)},
        "iteration (triangle: a preemption)",
        "pages",
    )
    for fill, low, high in (
        (SHADES[0], [0] * step, [each.used for each in film[:step]]),
        (_KEPT, [each.used for each in film[:step]], [each.used + len(each.kept) for each in film[:step]]),
    ):
        panel.bars(
            sheet, [(at + 0.1, at + 0.9, a, b) for at, (a, b) in enumerate(zip(low, high, strict=True)) if b > a], fill
        )
    for at, each in enumerate(film[:step]):
        if each.freed:
            x, y = panel.at(at + 0.5, pages)
            sheet.polygon([(x, y), (x - 0.06, y + 0.1), (x + 0.06, y + 0.1)], VERMILION, order=4)
    used = max(frame.used * page_size, 1)
    running, waiting, done = _counts(frame)
    title = f"Iteration {step}: {running} running, {waiting} waiting, {done} done; {frame.used} of {pages} pages in use"
    more = f"Requests {frame.events}." if frame.events else "No request starts, ends or is preempted."
    sheet.head(title, more)
    empty = percent_text(1 - sum(frame.filled) / used if frame.used else 0.0, 2)
    several = sum(len(names) > 1 for names in owners(frame))
    sheet.alt = (
        f"{title}. {more} {count_text(several, 'page')} shared by several requests, "
        f"{count_text(len(frame.kept), 'free page')} kept for a beginning, {empty} of the slots in use empty."
    )
    return sheet


def owners(frame: PoolFrame) -> list[list[int]]:
    """The requests of each page."""
    found: list[list[int]] = [[] for _ in frame.filled]
    for name, one in frame.requests.items():
        for page in one.pages:
            found[page].append(name)
    return found


def _pool(sheet: Sheet, frame: PoolFrame, page_size: int) -> None:
    """A box for each page, filled as far as its slots are, in the colors of its requests."""
    columns = {4: 12, 16: 6, 32: 4, RESERVED: 1}[page_size]
    rows = len(frame.filled) // columns
    wide, tall = 3.55 / columns, 2.2 / rows
    for page, names in enumerate(owners(frame)):
        left, top = 0.15 + wide * (page % columns), 3.95 - tall * (page // columns)
        box = (left + 0.02, left + wide - 0.02, top - tall + 0.02, top - 0.02)
        sheet.boxes([box], _KEPT if page in frame.kept else EMPTY, order=1)
        full = (box[1] - box[0]) * frame.filled[page] / page_size
        for place, name in enumerate(names):  # of a shared page, a strip for each
            high = (box[3] - box[2]) / len(names)
            sheet.boxes([(box[0], box[0] + full, box[2] + place * high, box[2] + (place + 1) * high)], SHADES[name % 7])
        if len(names) > 1:
            sheet.boxes([box], "none", edge=INK, thick=1.5, order=3)
        elif names and page_size > 4:
            most = full > 0.6 * (box[1] - box[0])  # then the number is on the color, else beside it
            x = box[0] + full / 2 if most else (box[0] + full + box[1]) / 2
            ink = ink_on(SHADES[names[0] % 7]) if most else INK
            sheet.text(x, (box[2] + box[3]) / 2, str(names[0]), ink=ink, ha="center", va="center")
    sheet.text(0.15, 1.6, "box: a page; framed: shared", ink=SOFT)
    sheet.text(4.3, 1.46, "mark: end of the prompt; gray: not in the cache", ink=SOFT)
    sheet.key(2.1, 1.635, _KEPT, "free, kept for its beginning")


def _requests(sheet: Sheet, frame: PoolFrame) -> None:
    """A row for each request: its tokens so far, of which the cache holds the colored ones."""
    left, scale = 4.3, 1.75 / RESERVED
    for row, (name, one) in enumerate(frame.requests.items()):
        y = 3.87 - 0.146 * row
        sheet.text(left - 0.08, y, str(name), ha="right", va="center", size=7.5)
        spans = [(0, one.most, EMPTY), (0, one.known, _WAITS), (0, one.computed, SHADES[name % 7])]
        for start, stop, fill in spans if one.state != FINISHED else [(0, one.most, SHADES[name % 7])]:
            sheet.boxes([(left + start * scale, left + stop * scale, y - 0.055, y + 0.055)], fill)
        sheet.lines([[(left + one.prompt * scale, y - 0.07), (left + one.prompt * scale, y + 0.07)]], INK, 1.0, order=3)
        state = {RUNNING: count_text(len(one.pages), "page"), FINISHED: "done"}.get(one.state, "waits")
        if one.state == WAITING and one.preempted:
            state = "preempted, waits"
        sheet.text(left + 1.83, y, state, size=7.5, va="center", ink=VERMILION if "preempted" in state else INK)
