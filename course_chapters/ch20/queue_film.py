"""A month of the queue: which jobs have which GPUs, day by day, and who waits."""

from __future__ import annotations

from functools import lru_cache

from IPython.display import Markdown

from course_chapters.ch20.queue_simulator import (
    PER_NODE,
    POLICIES,
    Outcome,
    drawn_jobs,
    mean_wait,
    simulate_queue,
    stuck_chance,
    stuck_count,
)
from course_chapters.table import columns
from course_lib.draw.explore import Explorer, explore, menu, play, slider
from course_lib.draw.palette import EMPTY, GREEN, ORANGE, SKY, SOFT, VERMILION
from course_lib.draw.sheets import Box, Plot, Sheet
from course_lib.estimate.units import DAY, HOUR, count_text, duration_text, percent_text

NODES, DAYS, LOADS = 16, 30, (0.6, 0.7, 0.8, 0.9)
NAMES = {"fifo": "FIFO", "easy": "EASY backfill", "any": "whatever fits"}
SIZES = {"up to 4 GPUs": (1, 7, SKY), "1 or 2 nodes": (8, 16, GREEN), "4 or 8 nodes": (17, 999, ORANGE)}


@lru_cache(maxsize=32)
def month(policy: str, load: float, spread: bool = False) -> Outcome:
    """The drawn month under a policy."""
    return simulate_queue(drawn_jobs(days=DAYS, nodes=NODES, load=load), NODES, policy, spread)


def draw_queue(day: int = DAYS, policy: str = "fifo", load: float = 0.8, spread: bool = False) -> Sheet:
    """A row for each node with the jobs on its GPUs until a day, and below how many GPUs the waiting jobs ask for."""
    found, now, sheet = month(policy, load, spread), day * DAY, Sheet(4.6)
    used = percent_text(found.used(now), 2)
    title = f"{NAMES[policy]}, day {day}: {used} of the GPUs' time used"
    small, large = (duration_text(found.mean_wait(*SIZES[name][:2]), 2) for name in list(SIZES)[::2])
    words = f"Mean wait in the month: {small} up to 4 GPUs, {large} from 4 nodes on."
    sheet.head(title, words)
    panel = Plot(0.75, 1.75, 6.4, 2.2, (0, DAYS), (NODES, 0))
    panel.frame(sheet, {}, {at + 0.5: str(at) for at in range(0, NODES, 5)}, "", "node", grid=False)
    panel.bars(sheet, [(0, day, 0, NODES)], EMPTY)
    boxes: dict[str, list[Box]] = {}
    top = panel.bottom + panel.height
    lanes = [[0.0] * PER_NODE for _ in range(NODES)]  # when each GPU of a node is free
    for each in found.started:
        if each.start >= now:
            continue
        fill = next(color for least, most, color in SIZES.values() if least <= each.job.gpus <= most)
        for node, count in each.places.items():
            mine = [at for at in range(PER_NODE) if lanes[node][at] <= each.start][:count]
            left, right = (panel.left + panel.width * min(at, now) / (DAYS * DAY) for at in (each.start, each.end))
            for at in mine:
                lanes[node][at] = each.end
                if at - 1 not in mine:  # neighbors are one box
                    last = next(end for end in range(at, PER_NODE + 1) if end not in mine)
                    low, high = (top - panel.height * (node + side / PER_NODE) / NODES for side in (last, at))
                    boxes.setdefault(fill, []).append((left, right, low, high))
    for fill, some in boxes.items():
        sheet.boxes(some, fill)
    sheet.lines([[panel.at(0, node), panel.at(DAYS, node)] for node in range(1, NODES)], SOFT, 0.3, order=3)
    _waiting(sheet, day, policy, load, spread)
    sheet.keys(
        0.22,
        0.16,
        {**{name: each[2] for name, each in SIZES.items()}, "free": EMPTY, "GPUs that waiting jobs ask for": VERMILION},
    )
    blocked = duration_text(found.fragmented, 2)
    sheet.alt = (
        f"{title} on {count_text(NODES, 'node')} with a load of {percent_text(load)}. {words} For {blocked} the first "
        f"job waited although enough GPUs were free, spread over the nodes."
    )
    return sheet


@lru_cache(maxsize=32)
def _asked(policy: str, load: float, spread: bool) -> list[int]:
    """GPUs that waiting jobs ask for, every six hours."""
    started = month(policy, load, spread).started
    return [
        sum(each.job.gpus for each in started if each.job.arrives <= at * HOUR < each.start)
        for at in range(0, 24 * DAYS + 1, 6)
    ]


def _waiting(sheet: Sheet, day: int, policy: str, load: float, spread: bool) -> None:
    """What `_asked` counts until a day, on one scale for all policies."""
    top = max(max(_asked(each, load, way)) for each in POLICIES for way in (False, True))
    asked = _asked(policy, load, spread)[: 4 * day + 1]
    panel = Plot(0.75, 0.72, 6.4, 0.75, (0, DAYS), (0, top))
    panel.frame(sheet, {at: str(at) for at in range(0, DAYS + 1, 5)}, {0: "0", top: f"{top:,}"}, "day")
    panel.fill(sheet, [at / 4 for at in range(len(asked))], [0] * len(asked), asked, VERMILION, 0.7)


def queue() -> Explorer:
    """Play the month; change the policy, the load and where small jobs go."""
    for each in LOADS:
        draw_queue(load=each)  # in advance: a slider must not wait for a simulation
    return explore(
        draw_queue,
        day=play(range(2, DAYS + 1, 2), DAYS, label="day", interval=300),
        policy=menu(POLICIES, "fifo", label="policy", text=NAMES.__getitem__),
        load=slider(LOADS, 0.8, label="load", text=percent_text),
        spread=menu(
            (False, True), False, label="small jobs", text=lambda each: ("fullest node", "emptiest node")[each]
        ),
    )


def policies_table(load: float = 0.8) -> Markdown:
    """The month under each policy, with small jobs packed or spread."""
    rows = []
    for policy in POLICIES:
        for spread in (False, True):
            found = month(policy, load, spread)
            waits = (duration_text(found.mean_wait(least, most), 2) for least, most, _ in SIZES.values())
            placed = ("fullest", "emptiest")[spread]
            cells = (percent_text(found.used(DAYS * DAY)), *waits, duration_text(found.fragmented, 2))
            rows.append((NAMES[policy], placed, *cells))
    names = " | ".join(f"wait, {name}" for name in SIZES)
    said = f"{len(found.started)} jobs on {NODES} nodes of {PER_NODE} GPUs in {DAYS} days, load {percent_text(load)}"
    return columns(f"policy | small jobs to | GPUs used | {names} | blocked by fragments", rows, said)


def wait_table(seconds: float = 3 * HOUR) -> Markdown:
    """The mean wait for one node by load and number of nodes, as a queue of exponential runs has it."""
    rows = []
    for load in (0.5, 0.8, 0.9, 0.95):
        waits = (duration_text(mean_wait(nodes, load * nodes / seconds, seconds), 2) for nodes in (1, 4, 16))
        rows.append((percent_text(load), *waits))
    said = f"jobs of one node that run {duration_text(seconds)} on average"
    return columns("load | 1 node | 4 nodes | 16 nodes", rows, said)


def stuck_table(size: int = 6, trials: int = 2000) -> Markdown:
    """How often two jobs stick whose workers are placed one by one, by formula and in drawn orders."""
    rows = []
    for gpus in range(size, 2 * size + 1):
        drawn = percent_text(stuck_count(size, gpus, trials) / trials, 2)
        rows.append((gpus, percent_text(stuck_chance(size, gpus), 2), drawn))
    return columns("GPUs | both jobs stick | in drawn orders", rows, f"two jobs of {size} GPUs, {trials:,} orders")
