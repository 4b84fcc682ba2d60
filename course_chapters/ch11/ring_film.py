"""A ring attention in pictures, forward and backward: each rank's block, the pairs that it computes, and what it has so
far."""

from collections.abc import Sequence
from itertools import groupby

from torch import Tensor

from course_chapters.ch11.ring_run import LAYOUTS, Held, Recorded, record
from course_lib.draw import style
from course_lib.draw.explore import Explorer, explore, menu, play, slider
from course_lib.draw.palette import BLUE, EMPTY, GREEN, INK, ORANGE, PURPLE, SOFT, ink_on
from course_lib.draw.sheets import Box, Sheet
from course_lib.estimate.units import count_text, number_text, percent_text

HUES = (BLUE, ORANGE, GREEN, PURPLE)  # of the ranks' blocks
MOST = len(HUES)  # ranks
WIDTH, HEIGHT = 5.9, 4.2  # inches
BLOCK, CELL, CHIP = 0.34, 0.46, 0.17  # inches: a visiting block, a block of the score matrix, a share of a gradient
DOWN = 0.06  # inches: from a row's middle down to its gradients
HELD, SCORES, STATE, OWN = 0.98, 1.75, 3.95, 5.0  # left edges of the columns
EARLIER = 0.4  # opacity of what was computed in an earlier step


def draw_ring(
    step: int = 1, way: str = "forward", ranks: int = 4, layout: str = "contiguous", mask: str = "causal"
) -> Sheet:
    """One step of a recorded ring: a row for each rank, in the order in which blocks move on."""
    run = record(ranks, layout, mask == "causal")
    steps = run.steps[way]
    step = min(step, len(steps) - 1)
    now, home = steps[step], step == ranks
    sheet = Sheet(HEIGHT - 0.6 * (MOST - ranks), WIDTH)
    title = f"{way.capitalize()}, " + ("last hop: gradients are home" if home else f"step {step + 1} of {ranks}")
    sheet.head(title, _sums(now, home))
    _heads(sheet, way, ranks)
    for rank, held in enumerate(now):
        y = _row(sheet, rank)
        sheet.text(0.15, y, f"rank {rank}", size=style.NORMAL, va="center", bold=True)
        if not home:
            _chip(sheet, HELD, y, BLOCK, held.block)
        seen = [before[rank].block for before in steps[:step]]
        _scores(sheet, run, rank, y, seen if home else [*seen, held.block], home)
        _state(sheet, run, rank, held, y, way, home)
    if step < ranks - 1:
        _hops(sheet, ranks)
    if way == "backward" and 0 < step < ranks:
        _follow(sheet, ranks)
    _key(sheet, way)
    sheet.alt = f"{title}, {layout}, {mask}. {_words(run, now, way, home)}"
    return sheet


def _words(run: Recorded, now: Sequence[Held], way: str, home: bool) -> str:
    """What each rank has and does."""
    said = []
    for rank, held in enumerate(now):
        if home:
            said.append(f"Rank {rank} has the whole gradient of its keys and values: shares of {_ranks(held.home)}")
            continue
        words = f"Rank {rank} has the keys and values of rank {held.block}: {_pairs(run, rank, held)}"
        if way == "forward":
            words += f"; its last query has met {count_text(held.keys, 'key')}, {_running(held)}, "
            words += f"{percent_text(held.share)} of the final sum"
        elif held.gradient:
            words += f"; their gradient has shares of {_ranks(held.gradient)} so far"
        said.append(words)
    return f"{'. '.join(said)}. {_sums(now, home)}."


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _pairs(run: Recorded, rank: int, held: Held) -> str:
    area = len(run.positions[rank]) * len(run.positions[held.block])
    return f"computes {held.pairs} of {area} pairs" if held.pairs else "skips the block"


def _running(held: Held) -> str:
    return f"max {held.top:.2f}, sum {held.total:.2f}" if held.keys else "no key yet"


def _sums(now: Sequence[Held], home: bool) -> str:
    """The work of a step, and bytes so far on the meter."""
    sent = f"sent by each rank in this pass: {max(held.sent for held in now):,} B"
    if home:
        return f"Each gradient is complete at the owner of its block; {sent}"
    pairs = [held.pairs for held in now]
    return f"Slowest rank: {max(pairs)} pairs, mean {number_text(sum(pairs) / len(pairs), 3)}; {sent}"


def _row(sheet: Sheet, rank: int) -> float:
    return sheet.height - 1.32 - 0.6 * rank


def _chip(sheet: Sheet, left: float, y: float, side: float, owner: int) -> None:
    """A square in the color of a rank, with the rank's number."""
    sheet.boxes([(left, left + side, y - side / 2, y + side / 2)], HUES[owner])
    size = style.NORMAL if side > 0.3 else 7.0
    sheet.text(left + side / 2, y, str(owner), size=size, ink=ink_on(HUES[owner]), ha="center", va="center")


def _heads(sheet: Sheet, way: str, ranks: int) -> None:
    """What the columns are."""
    y = sheet.height - 0.78
    sheet.text(HELD + BLOCK / 2, y, "K, V of", ink=SOFT, ha="center")
    sheet.text(SCORES, y, "queries × keys of rank", ink=SOFT)
    for owner in range(ranks):
        _chip(sheet, SCORES + owner * CELL + CELL / 2 - 0.12, y - 0.13, CHIP, owner)
    if way == "forward":
        sheet.text(STATE, y, "last query so far", ink=SOFT)
    else:
        sheet.text(STATE, y, "their gradient", ink=SOFT)
        sheet.text(OWN, y, "own, at home", ink=SOFT)


def _hops(sheet: Sheet, ranks: int) -> None:
    """Every block is on its way to the next rank, and the last rank's to the first."""
    x, right, side = HELD + BLOCK / 2, HELD + BLOCK, HELD + BLOCK + 0.16
    for rank in range(ranks - 1):
        sheet.arrow([(x, _row(sheet, rank) - BLOCK / 2), (x, _row(sheet, rank + 1) + BLOCK / 2 + 0.02)], SOFT)
    last, first = _row(sheet, ranks - 1), _row(sheet, 0)
    sheet.arrow([(right, last), (side, last), (side, first), (right + 0.02, first)], SOFT)


def _follow(sheet: Sheet, ranks: int) -> None:
    """Every gradient goes to the next rank too."""
    for rank in range(ranks):
        start, end = (_row(sheet, place) - DOWN for place in (rank, (rank + 1) % ranks))
        side = STATE - (0.24 if rank == ranks - 1 else 0.14)
        sheet.arrow([(STATE - 0.03, start), (side, start), (side, end), (STATE - 0.02, end)], SOFT, 1.0)


def _scores(sheet: Sheet, run: Recorded, rank: int, y: float, blocks: Sequence[int], home: bool) -> None:
    """A rank's row of the score matrix: visible pairs of blocks computed now, earlier and later."""
    for owner in range(len(run.positions)):
        left, top = SCORES + owner * CELL, y + CELL / 2
        sheet.boxes([(left, left + CELL, y - CELL / 2, top)], "none", edge=SOFT, thick=0.5, order=3)
        seen = run.visible[run.positions[rank]][:, run.positions[owner]]
        boxes = list(_stripes(seen, left, top))
        if boxes:
            late = owner not in blocks
            now = not home and owner == blocks[-1]
            sheet.boxes(boxes, EMPTY if late else HUES[owner], alpha=1.0 if late or now else EARLIER)


def _stripes(seen: Tensor, left: float, top: float) -> list[Box]:
    """A box for each query's run of visible keys."""
    high, wide = CELL / seen.shape[0], CELL / seen.shape[1]
    found = []
    for row, line in enumerate(seen.tolist()):
        for visible, run in groupby(range(len(line)), key=lambda key: line[key]):
            first, *more = run
            if visible:
                ends = (left + first * wide, left + (first + len(more) + 1) * wide)
                found.append((*ends, top - (row + 1) * high, top - row * high))
    return found


def _state(sheet: Sheet, run: Recorded, rank: int, held: Held, y: float, way: str, home: bool) -> None:
    """Forward: the running softmax of the rank's last query. Backward: whose shares the gradients contain."""
    if way == "forward":
        sheet.text(STATE, y + 0.13, _pairs(run, rank, held), va="center")
        sheet.text(STATE, y - 0.03, _running(held), va="center", ink=SOFT)
        sheet.boxes([(STATE, STATE + 1.7, y - 0.2, y - 0.13)], EMPTY)
        sheet.boxes([(STATE, STATE + 1.7 * min(held.share, 1.0), y - 0.2, y - 0.13)], INK)
        return
    if not home:
        sheet.text(STATE, y + 0.15, _pairs(run, rank, held), va="center")
    for left, shares in ((STATE, () if home else held.gradient), (OWN, held.home)):
        for place, share in enumerate(shares):
            _chip(sheet, left + place * (CHIP + 0.02), y - DOWN, CHIP, share)


def _key(sheet: Sheet, way: str) -> None:
    """What colors and marks mean."""
    sheet.keys(0.22, 0.42, {"computed now": BLUE, "to come": EMPTY}, gap=0.35)
    sheet.boxes([(2.15, 2.15 + 7 / 72, 0.37, 0.47)], BLUE, alpha=EARLIER)
    sheet.text(2.3, 0.42, "earlier", va="center")
    sheet.boxes([(2.95, 2.95 + 7 / 72, 0.37, 0.47)], "none", edge=SOFT)
    sheet.text(3.1, 0.42, "masked", va="center")
    own = "Bar: share of the query's final sum." if way == "forward" else "Small: ranks whose shares are in a gradient."
    sheet.text(0.17, 0.17, f"A color is the rank that owns the tokens. {own}", ink=SOFT)


def ring_steps(way: str = "forward", step: int = 1, layout: str = "contiguous") -> Explorer:
    """Play a ring: blocks of keys and values move on, the softmax of each query grows, and gradients travel home."""
    for ranks in (2, 3, MOST):
        record(ranks, layout)  # in advance: a slider must not wait for a run
    return explore(
        draw_ring,
        step=play(range(MOST + 1), step, label="step", text=lambda place: str(place + 1), interval=1300, last=_last),
        way=menu(("forward", "backward"), way, label="pass"),
        ranks=slider((2, 3, MOST), MOST, label="ranks", text=str),
        layout=menu(tuple(LAYOUTS), layout, label="layout"),
        mask=menu(("causal", "full"), "causal", label="mask"),
    )


def _last(setting: dict) -> int:
    """The last step: the backward pass has one more, in which gradients come home."""
    return setting["ranks"] - (setting["way"] == "forward")
