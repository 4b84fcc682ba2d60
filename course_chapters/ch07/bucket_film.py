"""The life of a bucket: gradients become complete, fill it, and travel while the backward pass goes on. From a run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from course_chapters.ch07.runs import Computed, timed_step
from course_lib.cluster import Run
from course_lib.draw import lanes, panels
from course_lib.draw.explore import Explorer, explore, in_notebook, menu, play
from course_lib.draw.palette import EMPTY, GREEN, INK, ORANGE, PAPER, SOFT, VERMILION, color
from course_lib.draw.sheets import Plot, Sheet
from course_lib.estimate.units import bytes_text, count_text, duration_text, percent_text

WAYS: Mapping[str, tuple[bool, int]] = {  # overlap, and bytes of a bucket
    "after the backward pass": (False, 48_000),
    "one all-reduce per tensor": (True, 1),
    "buckets of 16 kB": (True, 16_000),
    "buckets of 48 kB": (True, 48_000),
    "one bucket": (True, 10**9),
}
FRAMES = 48
INKS = {"no gradient yet": EMPTY, "gradient complete": ORANGE, "all-reduce under way": VERMILION, "averaged": GREEN}
_LEFT, _WIDTH = 0.75, 6.45  # inches: of the model, and of the time


@dataclass(frozen=True)
class Bucket:
    """Gradients that share one all-reduce on rank 0, and when it began and ended, in seconds."""

    places: tuple[int, ...]  # of its gradients, in the order of completion
    start: float
    end: float


def buckets_of(run: Run) -> list[Bucket]:
    """The all-reduces of a run of `timed_step`, from its messages."""
    computed: Computed = run.results[0]
    found, place = [], 0
    for turn in sorted({message.tag for message in run.messages}):
        mine = [message for message in run.messages if message.tag == turn]
        nbytes, first = sum(message.nbytes for message in mine) / (2 * (run.ranks - 1)), place
        while nbytes > 0:
            nbytes -= computed.ready[place].nbytes
            place += 1
        found.append(
            Bucket(tuple(range(first, place)), min(one.sent for one in mine), max(one.arrived for one in mine))
        )
    return found


@lru_cache(maxsize=len(WAYS))
def film(way: str) -> tuple[Run, list[Bucket], lanes.Lanes]:
    """A step done in this way: its run, its all-reduces, and rank 0's time."""
    run = timed_step(*WAYS[way])
    return run, buckets_of(run), lanes.lanes_of(run, 0, way, run.results[0].forward)


def state_of(computed: Computed, buckets: Sequence[Bucket], now: float) -> list[str]:
    """What has become of each gradient after `now` seconds, in the order of completion: a key of `INKS`."""
    names = list(INKS)
    found = [names[each.seconds <= now] for each in computed.ready]
    for bucket in buckets:
        if bucket.start <= now:
            for place in bucket.places:
                found[place] = names[2 if now < bucket.end else 3]
    return found


def draw_life(frame: int = 24, way: str = "buckets of 48 kB") -> Sheet:
    """The model's gradients and their buckets at one moment of the step, and what GPU and link have done so far."""
    run, buckets, times = film(way)
    computed: Computed = run.results[0]
    longest = max(film(each)[0].seconds for each in WAYS)
    now, sheet = longest * frame / FRAMES, Sheet(3.9)
    states = state_of(computed, buckets, now)
    _draw_model(sheet, computed, buckets, states)
    _draw_time(sheet, times, now, longest)
    working = next((kind for start, stop, kind in times.work if start <= now < stop), "")
    layer = next((each.name for each in computed.ready if each.seconds > now), "")
    what = {"forward": "forward pass", "backward": f"backward pass, {_layer(layer)}", "": "waits for the all-reduce"}[
        working
    ]
    title = f"{duration_text(now)}: {'done' if now >= run.seconds else what}"
    out = sum(stop - start for start, stop in lanes.joined(times.exposed))
    more = (
        f"{way[0].upper()}{way[1:]}: {count_text(len(buckets), 'all-reduce')}, "
        f"{percent_text(times.hidden_share, 2)} of their time hidden, "
        f"{duration_text(out)} exposed; the step takes {duration_text(run.seconds)}."
    )
    sheet.head(title, more)
    held: Counter[str] = Counter()
    for state, each in zip(states, computed.ready, strict=True):
        held[state] += each.nbytes
    sheet.alt = f"{title}. {more} Gradients: " + ", ".join(f"{bytes_text(held[each])} {each}" for each in INKS) + "."
    return sheet


def _layer(name: str) -> str:
    return (
        f"block {name.split('.')[1]}"
        if name.startswith("blocks")
        else "the embedding"
        if "embed" in name
        else "the head"
    )


def _draw_model(sheet: Sheet, computed: Computed, buckets: Sequence[Bucket], states: Sequence[str]) -> None:
    """The gradients from the last layer to the first, as wide as their bytes; below, the buckets they fill."""
    whole = sum(each.nbytes for each in computed.ready)
    edges, at = [], _LEFT
    for each in computed.ready:
        edges.append((at, at := at + _WIDTH * each.nbytes / whole))
    for state, fill in INKS.items():
        boxes = [(*edge, 2.72, 3.02) for edge, one in zip(edges, states, strict=True) if one == state]
        sheet.boxes(boxes, fill, edge=PAPER, thick=0.6)
    layers: dict[str, list[float]] = {}
    for each, (left, right) in zip(computed.ready, edges, strict=True):
        layers.setdefault(_layer(each.name).removeprefix("the "), []).extend((left, right))
    for name, ends in layers.items():
        short = {"embedding": "emb."}.get(name, name)
        sheet.text((min(ends) + max(ends)) / 2, 3.09, short, ink=SOFT, ha="center")
    for bucket in buckets:
        left, right = edges[bucket.places[0]][0], edges[bucket.places[-1]][1]
        ready = sum(computed.ready[place].nbytes for place in bucket.places if states[place] != "no gradient yet")
        full = ready / sum(computed.ready[place].nbytes for place in bucket.places)
        state = states[bucket.places[-1]]
        sheet.boxes([(left + 0.01, right - 0.01, 2.36, 2.6)], EMPTY)
        fill = INKS[state] if state in ("averaged", "all-reduce under way") else ORANGE
        sheet.boxes([(left + 0.01, left + 0.01 + (right - left - 0.02) * full, 2.36, 2.6)], fill)
        if right - left > 0.3:
            sheet.boxes([(left + 0.01, right - 0.01, 2.36, 2.6)], "none", edge=SOFT, thick=0.8, order=3)
    for words, y in (("gradients", 2.87), ("buckets", 2.48)):
        sheet.text(_LEFT - 0.08, y, words, ha="right", va="center")
    sheet.text(_LEFT, 2.2, "← last layer, computed first in the backward pass", ink=SOFT)
    at = 0.15
    for words, fill in INKS.items():
        sheet.key(at + 0.05, 1.9, fill, words)
        at += 0.45 + 0.072 * len(words)


def _draw_time(sheet: Sheet, times: lanes.Lanes, now: float, longest: float) -> None:
    """What GPU and link have done up to now; exposed communication is an outline."""
    scale, unit = lanes.unit_of(longest)
    panel = Plot(_LEFT, 0.78, _WIDTH, 0.72, (0, longest / scale), (2, 0))
    panel.frame(
        sheet, panels.marks(longest / scale, 6), {0.5: "GPU", 1.5: "link"}, f"time of one step ({unit})", grid=False
    )

    def bars(stretches: Sequence[lanes.Stretch], row: int, fill: str, edge: str = "") -> None:
        cut = [(a / scale, min(b, now) / scale, row + 0.12, row + 0.88) for a, b in stretches if a < now]
        panel.bars(sheet, cut, fill, edge=edge, thick=1.2)

    for kind in ("forward", "backward"):
        bars([(a, b) for a, b, one in times.work if one == kind], 0, color(kind))
    bars(times.wire, 1, VERMILION)
    bars(times.exposed, 1, PAPER, VERMILION)
    x = panel.place(now / scale, 0)[0]
    sheet.lines([[(x, 0.78), (x, 1.56)]], INK, 1.4, order=4)
    at = 0.15
    for words, fill in (("forward", color("forward")), ("backward", color("backward")), ("link, hidden", VERMILION)):
        sheet.key(at + 0.05, 0.14, fill, words)
        at += 0.45 + 0.072 * len(words)
    sheet.boxes([(at, at + 0.1, 0.09, 0.19)], PAPER, edge=VERMILION, thick=1.2)
    sheet.text(at + 0.15, 0.14, "link, exposed", va="center")


def bucket_life(way: str = "buckets of 48 kB") -> Explorer:
    """Play one step; choose when and in which buckets gradients are sent."""
    if in_notebook():  # a run is too long for a menu
        for each in WAYS:
            film(each)
    return explore(
        draw_life,
        frame=play(range(FRAMES + 1), 24, label="time", interval=300, text=lambda frame: f"{frame} of {FRAMES}"),
        way=menu(tuple(WAYS), way, label="gradients are sent"),
    )
