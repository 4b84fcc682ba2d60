"""Who generates, who trains and who waits, in loops recorded on the metered cluster; idle GPUs against staleness."""

from __future__ import annotations

import math
from functools import lru_cache

from course_chapters.ch19.long_tail import Tail, drawn_lengths, simulate_tail
from course_chapters.ch19.loops import WAYS, Recorded, record
from course_lib.draw.explore import Explorer, explore, menu, play, slider
from course_lib.draw.palette import BLUE, EMPTY, GREY, INK, ORANGE, SKY, SOFT, VERMILION, YELLOW, ink_on
from course_lib.draw.sheets import Plot, Sheet
from course_lib.estimate.units import count_text, percent_text

FRAMES, BATCHES = 24, 5
SPEEDS = {"as fast as the trainer": (4.0, 4.0), "twice as slow": (8.0, 4.0), "twice as fast": (4.0, 8.0)}
_DOES = {"generate": YELLOW, "train": BLUE}


def draw_loop(frame: int = FRAMES, way: str = "one step off", generators: str = "twice as slow") -> Sheet:
    """A row for each rank until a moment: batches that it generates or trains on, and weights on their way."""
    film = record(way, *SPEEDS[generators], BATCHES)
    end, sheet = film.run.seconds, Sheet(3.7)
    now = end if frame == FRAMES else end * frame / FRAMES
    done = sum(one.kind == "train" and one.rank == 0 and one.end <= now for one in film.run.spans)
    late = max(film.staleness)
    title = f"{way.capitalize()}: {done} of {BATCHES} batches trained after {now:.0f} of {end:.0f} s"
    busy = percent_text(sum(film.busy) / len(film.busy), 2)
    old = f"rollouts are up to {count_text(late, 'version')} old" if late else "no rollout is of older weights"
    sheet.head(title, f"Generators {generators}. All GPUs are busy {busy} of the time; {old}.")
    panel = Plot(0.95, 0.95, 6.2, 1.9, (0, _longest(generators)), (4, 0))
    panel.frame(sheet, {at: str(at) for at in range(0, int(_longest(generators)) + 1, 10)}, {}, "seconds")
    for rank, words in enumerate(_names(film)):
        y = panel.at(0, rank + 0.5)[1]
        sheet.text(0.88, float(y), words, ha="right", va="center")
        panel.bars(sheet, [(0, end, rank + 0.12, rank + 0.88)], EMPTY)
    for one in film.run.spans:
        if one.kind in _DOES and one.start < now:
            fill, until = _DOES[one.kind], min(one.end, now)
            panel.bars(sheet, [(one.start, until, one.rank + 0.12, one.rank + 0.88)], fill, edge=SOFT)
            x, y = panel.at((one.start + one.end) / 2, one.rank + 0.5)
            if until == one.end:
                sheet.text(float(x), float(y), one.label, ha="center", va="center", ink=ink_on(fill))
    for each in film.run.messages:  # a line from the sender when it sends to the receiver when it has all
        if each.nbytes > 1000 and each.sent < now:
            ends = (each.sent, each.src + 0.5), (each.arrived, each.dst + 0.5)
            sheet.lines([[panel.at(*point) for point in ends]], VERMILION, 0.8, order=3)
    x = float(panel.at(now, 0)[0])
    sheet.lines([[(x, 0.95), (x, 2.85)]], INK, 1.2, order=4)
    for batch, age in enumerate(film.staleness):
        sheet.text(0.95 + 1.0 * batch, 0.38, f"batch {batch}: {age} old", ink=SOFT)
    sheet.keys(0.22, 0.15, {"generates": YELLOW, "trains": BLUE, "waits": EMPTY, "weights, from and to": VERMILION})
    shares = "; ".join(
        f"{name} busy {percent_text(each, 2)}" for name, each in zip(_names(film), film.busy, strict=True)
    )
    sheet.alt = f"{title}. Generators {generators}. {shares}. {old.capitalize()}."
    return sheet


def _names(film: Recorded) -> list[str]:
    if not film.trainers:
        return [f"rank {rank}" for rank in range(4)]
    return [f"{'trainer' if rank < film.trainers else 'generator'} {rank}" for rank in range(4)]


def _longest(generators: str) -> float:
    return max(record(way, *SPEEDS[generators], BATCHES).run.seconds for way in WAYS)


def loops() -> Explorer:
    """Play a loop; change who waits for whom and which side is slower."""
    for generators in SPEEDS:
        _longest(generators)  # in advance: a slider must not wait for a run
    return explore(
        draw_loop,
        frame=play(range(1, FRAMES + 1), FRAMES, label="time", interval=250, text=lambda at: f"{at} of {FRAMES}"),
        way=menu(tuple(WAYS), "synchronous", label="loop"),
        generators=menu(tuple(SPEEDS), "as fast as the trainer", label="generators"),
    )


# --- the long tail

RULES = {  # what a loop does about the longest rollout: bound, order, and whether training stops generation
    "wait for all": (0, "started", True),
    "partial rollouts": (math.inf, "finished", True),
    "1 version ahead": (1, "started", False),
    "4 versions ahead": (4, "started", False),
    "no bound": (math.inf, "finished", False),
}
SLOTS, MEAN, LIMITED, TRAIN = 16, 100, 800, 100.0  # rollouts at once; tokens, the most tokens; seconds of a step
SPREADS = (0.0, 0.5, 1.0, 1.5)


@lru_cache(maxsize=64)
def tail(rule: str, spread: float) -> Tail:
    """Eight steps under a rule; each GPU generates a token a second."""
    lengths = drawn_lengths(40 * SLOTS, MEAN, spread, LIMITED, seed=3)
    return simulate_tail(lengths, SLOTS, SLOTS, TRAIN, *RULES[rule], steps=8)


def draw_tail(rule: str = "wait for all", spread: float = 1.0) -> Sheet:
    """A row for each generating GPU: its rollouts, in the color of the batch that they start in."""
    found, sheet = tail(rule, spread), Sheet(4.1)
    end = max(tail(each, spread).seconds for each in RULES)
    title = f"{rule.capitalize()}: the generators' GPUs are idle {percent_text(found.idle, 2)} of the time"
    old = percent_text(found.old_share, 2)
    sheet.head(title, f"Eight steps take {found.seconds:,.0f} s; {old} of the trained tokens are of older weights.")
    panel = Plot(0.95, 0.8, 6.2, 2.4, (0, end), (SLOTS, -1.5))
    panel.frame(sheet, {at: f"{at:,}" for at in range(0, int(end) + 1, 1000)}, {}, "seconds")
    sheet.text(0.88, float(panel.at(0, -0.75)[1]), "trainer", ha="right", va="center")
    sheet.text(0.88, float(panel.at(0, SLOTS / 2)[1]), f"{SLOTS} GPUs", ha="right", va="center")
    panel.bars(sheet, [(0, found.seconds, 0, SLOTS)], EMPTY)
    panel.bars(sheet, [(start, stop, -1.4, SLOTS if found.pause else -0.1) for start, stop in found.steps], GREY)
    for slot, start, stop, number in found.spans:
        fill = (SKY, ORANGE)[number // SLOTS % 2]
        panel.bars(sheet, [(start, stop, slot + 0.1, slot + 0.9)], fill, edge=SOFT, thick=0.3)
    keys = {"rollout of an even batch": SKY, "of an odd one": ORANGE, "idle": EMPTY, "training": GREY}
    sheet.keys(0.22, 0.2, keys, gap=0.3)
    sheet.alt = (
        f"{title}; the trainer waits {percent_text(found.trainer_idle, 2)} of the time. Eight steps take "
        f"{found.seconds:,.0f} s, {old} of the trained tokens are of older weights, and the stalest rollout is "
        f"{count_text(found.staleness, 'version')} old."
    )
    return sheet


def long_tail() -> Explorer:
    """Change what the loop does about long rollouts, and how long the tail is."""
    return explore(
        draw_tail,
        rule=menu(tuple(RULES), "wait for all", label="rule"),
        spread=slider(SPREADS, 1.0, label="tail", text=lambda each: f"σ of ln(length) = {each:g}"),
    )
