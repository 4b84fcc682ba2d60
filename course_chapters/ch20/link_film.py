"""The matrix of a pairwise all-to-all, round by round, and what each collective shows of the same fault."""

from __future__ import annotations

from IPython.display import Markdown

from course_chapters.ch20 import link_faults
from course_chapters.ch20.link_faults import COLLECTIVES, FAULTS, PER_NODE, RANKS
from course_chapters.table import columns
from course_lib.draw.explore import Explorer, explore, menu, play
from course_lib.draw.palette import EMPTY, INK, ORANGE, SKY, SOFT, VERMILION, YELLOW
from course_lib.draw.sheets import Sheet
from course_lib.estimate.units import US, bytes_text, duration_text, percent_text

STEPS = {1.05: SKY, 1.6: YELLOW, 2.2: ORANGE, 1e9: VERMILION}  # a pair's time over that of a sound one, below these
CELL, LEFT, TOP = 0.185, 0.62, 3.72
FRAMES = RANKS - 1
CONDITION = f"A slow link has 1/{link_faults.SLOWDOWN:g} of its bandwidth."


def draw_links(frame: int = FRAMES, fault: str = "slow adapter") -> Sheet:
    """Times of all pairs until a round, as shares of a sound pair's; beside them the four collectives."""
    times, sound = (link_faults.pair_seconds(each) for each in (fault, "none"))
    sheet, slow = Sheet(4.35), 0
    for src in range(RANKS):
        y = TOP - CELL * (src + 1)
        for dst in range(RANKS):
            x = LEFT + CELL * dst
            seen = 0 < (dst - src) % RANKS <= frame
            ratio = times[src][dst] / sound[src][dst] if seen else 0.0
            slow += ratio > 1.05
            fill = next(color for most, color in STEPS.items() if ratio < most) if seen else EMPTY
            sheet.boxes([(x + 0.01, x + CELL - 0.01, y + 0.01, y + CELL - 0.01)], fill)
    side = CELL * RANKS
    for at in range(0, RANKS + 1, PER_NODE):
        ends = ((LEFT, LEFT + side), (TOP - side, TOP))
        sheet.lines([[(LEFT + CELL * at, each) for each in ends[1]]], SOFT, 0.8, order=3)
        sheet.lines([[(each, TOP - CELL * at) for each in ends[0]]], SOFT, 0.8, order=3)
    for rank in range(RANKS):
        sheet.text(LEFT - 0.06, TOP - CELL * (rank + 0.5), str(rank), ha="right", va="center", size=7)
        sheet.text(LEFT + CELL * (rank + 0.5), TOP - side - 0.06, str(rank), ha="center", va="top", size=7)
    sheet.text(0.3, TOP - side / 2, "from rank", turned=True)
    sheet.text(LEFT + side / 2, TOP - side - 0.2, "to rank", ha="center", va="top")
    title = f"{fault.capitalize()}: after round {frame} of {FRAMES}, {slow} of {frame * RANKS} pairs are slow"
    if fault == "none":
        title = f"No fault: after round {frame} of {FRAMES}, no pair is slow"
    more = "Its GPUs send through the rail beside it." if fault == "a rail down" else CONDITION
    sheet.head(title, f"{more} Lines: nodes of {PER_NODE} GPUs.")
    said = _collectives(sheet, fault)
    sheet.keys(0.22, 0.16, {"as a sound pair": SKY, "up to 1.6 ×": YELLOW, "up to 2.2 ×": ORANGE, "slower": VERMILION})
    sheet.alt = f"{title}. {more} {said}"
    return sheet


def _collectives(sheet: Sheet, fault: str) -> str:
    """Bars of the collectives' times over those without a fault."""
    left, wide, said = 4.15, 2.0, []
    sheet.text(left, TOP - 0.1, "time of a whole collective", bold=True)
    most = link_faults.SLOWDOWN
    for row, name in enumerate(COLLECTIVES):
        y = TOP - 0.5 - 0.62 * row
        ratio = link_faults.seconds(name, fault) / link_faults.seconds(name, "none")
        sheet.text(left, y, name)
        sheet.boxes([(left, left + wide, y - 0.26, y - 0.1)], EMPTY, order=1)
        fill = next(color for limit, color in STEPS.items() if ratio < limit)
        sheet.boxes([(left, left + wide * ratio / most, y - 0.26, y - 0.1)], fill)
        sheet.text(left + wide + 0.08, y - 0.18, f"{ratio:.2f} ×", va="center", ink=INK)
        said.append(f"{name} {ratio:.2f} times")
    return f"Time over that of a sound network: {', '.join(said)}."


def links() -> Explorer:
    """Play the rounds of a pairwise all-to-all; change the fault."""
    for fault in FAULTS:
        draw_links(fault=fault)  # in advance: a slider must not wait for a run
    return explore(
        draw_links,
        frame=play(range(1, FRAMES + 1), FRAMES, label="round", interval=350),
        fault=menu(tuple(FAULTS), "slow adapter", label="fault"),
    )


def collectives_table() -> Markdown:
    """Each collective's time under each fault, over its time without one."""
    rows = []
    for name in COLLECTIVES:
        sound = link_faults.seconds(name, "none")
        ratios = [link_faults.seconds(name, fault) / sound for fault in FAULTS if fault != "none"]
        rows.append((name, duration_text(sound), *(f"{each:.2f} ×" for each in ratios)))
    said = f"{bytes_text(link_faults.NBYTES)} on each of {RANKS} ranks. {CONDITION}"
    return columns(f"collective | no fault | {' | '.join(fault for fault in FAULTS if fault != 'none')}", rows, said)


def flapping_table(down: float = 0.05, steps: int = 400) -> Markdown:
    """What mean, median and a high percentile say of a link that is slow in some of the steps."""
    rows = []
    for name in COLLECTIVES:
        times = sorted(link_faults.flapping_steps(name, down, steps))
        middle, high = times[steps // 2], times[int(0.99 * steps)]
        mean = sum(times) / steps
        rows.append((name, *(f"{each / US:,.0f} µs" for each in (middle, mean, high)), f"{high / middle:.2f} ×"))
    said = f"an adapter that is slow in {percent_text(down)} of {steps} steps"
    return columns("collective | median | mean | 99th percentile | over the median", rows, said)
