"""How fast a slider answers, in a real browser: from the pointer's event to the new picture on the screen.

Each slider of the chapters is held with the mouse and moved one value at a time, to and fro. The clock starts at the
time stamp that the browser gives the pointer's event. It stops in the frame after the picture in the page has changed
and its image is decoded. What lies between is all that a learner waits for: the widget's message, drawing in the
kernel, the message back, and the page's own work.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from course_app.install import add_group
from course_lib.folders import ROOT

if TYPE_CHECKING:
    from bench.chapter_page import ChapterPage, Control

LIMIT = 100.0  # ms, at the 90th percentile
EVENTS = 30  # for each slider, if its share of the time is long enough
FEWEST = 5  # events of which a 90th percentile is told
SECONDS = 40.0  # for the sliders of a chapter, once it has run
SHOWN = "01"  # the chapter that is measured by default

# One promise for each move: it gives the ms from the event to the picture, "same" for an answer that looks like the
# last one, null for none at all.
_ARM = """(cell) => {
  const shown = () => cell.querySelector('.jp-OutputArea-output.jp-RenderedHTMLCommon');
  const before = shown().innerHTML;
  let asked = null;
  const note = event => { asked ??= event.timeStamp; };
  window.addEventListener('pointermove', note, {capture: true});
  window.course_answer = new Promise(done => {
    const end = found => {
      observer.disconnect();
      clearTimeout(patience);
      window.removeEventListener('pointermove', note, {capture: true});
      done(found);
    };
    const observer = new MutationObserver(async changes => {
      const now = shown()?.innerHTML;
      if (asked === null) return;  // what an earlier move still brings
      if (!now || !changes.some(change => shown().parentNode.contains(change.target))) return;
      if (now === before) return end('same');
      observer.disconnect();
      await Promise.all([...shown().querySelectorAll('img')].map(image => image.decode()));
      requestAnimationFrame(() => setTimeout(() => end(performance.now() - asked)));
    });
    observer.observe(cell, {subtree: true, childList: true});
    const patience = setTimeout(() => end(null), 2000);
  });
}"""
_ANSWER = "() => window.course_answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one slider takes to answer, in ms over all its events."""

    chapter: str
    widget: str  # id of its cell
    slider: str
    events: int
    median: float
    p90: float
    max: float


def row(chapter: str, control: "Control", times: Sequence[float]) -> Row:
    """The row of the table for one slider, from its times in ms."""
    ninth = quantiles(times, n=10, method="inclusive")[-1]
    found = {"median": median(times), "p90": ninth, "max": max(times)}
    rounded = {name: round(value, 1) for name, value in found.items()}
    return Row(chapter=chapter, widget=control.cell, slider=control.label, events=len(times), **rounded)


def to_and_fro(count: int, start: int, moves: int) -> list[int]:
    """`moves` places of a slider with `count` values, neighbors after one another, beginning beside `start`."""
    places, step = [start], 1
    for _ in range(moves):
        if not 0 <= places[-1] + step < count:
            step = -step
        places.append(places[-1] + step)
    return places[1:]


def answers(control: "Control", events: int = EVENTS, until: float = float("inf")) -> list[float]:
    """The ms that a slider takes to answer each of `events` moves; after the monotonic time `until`, of a few.

    A move that leaves the picture as it was is not counted. Empty if a whole way to and fro changes nothing.
    """
    page, cell = control.chapter.page, control.chapter.cell(control.cell).element_handle()
    start, count = control.place(), control.count()
    times: list[float] = []
    idle = 0
    with control.held() as mouse:
        for place in to_and_fro(count, start, 10 * events):
            page.evaluate(_ARM, cell)
            mouse.move(*control.where(place))
            took = page.evaluate(_ANSWER)
            seen = isinstance(took, int | float)
            times += [float(took)] if seen else []
            idle = 0 if seen else idle + 1
            if len(times) >= (FEWEST if time.monotonic() > until else events) or idle > 2 * count:
                break
        if control.place() != start:
            page.evaluate(_ARM, cell)
            mouse.move(*control.where(start))
            page.evaluate(_ANSWER)
    return times


def measure(chapter: str, page: "ChapterPage", events: int, until: float) -> list[Row]:
    """A row for every slider of an open chapter that has run; none for those that the monotonic time `until` leaves
    out."""
    rows: list[Row] = []
    sliders = [control for cell in page.cells() for control in page.controls(cell, "slider")]
    for number, control in enumerate(sliders, 1):
        if (now := time.monotonic()) > until:
            say(f"{chapter}: {len(sliders) - len(rows)} of {len(sliders)} sliders are left out, --seconds gives time")
            break
        page.wake(control)
        times = answers(control, events, now + (until - now) / (len(sliders) - number + 1))
        rows.append(row(chapter, control, times))
        say(f"{chapter}, slider {number} of {len(sliders)}: {control.label}, {rows[-1].median:.0f} ms")
    return rows


def say(words: str) -> None:
    """A line of progress."""
    print(f"{words} …", file=sys.stderr, flush=True)


def table(rows: Sequence[Row], limit: float) -> str:
    """The rows as a table, those over the limit marked, and what they come to."""
    head = f"{'chapter':8}{'widget':22}{'slider':22}{'events':>7}{'median':>9}{'90 %':>9}{'max':>9}"
    lines = [
        f"{each.chapter:8}{each.widget:22}{each.slider:22}{each.events:7}"
        f"{each.median:9.1f}{each.p90:9.1f}{each.max:9.1f}{'   over the limit' if each.p90 > limit else ''}"
        for each in rows
    ]
    slow = sum(each.p90 > limit for each in rows)
    last = (
        f"{len(rows)} sliders, ms from the pointer's event to the picture; {slow} over {limit:g} ms at the "
        f"90th percentile"
    )
    return "\n".join([head, *lines, last])


def chapters() -> list[str]:
    """The released chapters that have notebooks: "00", "01", ..."""
    return sorted(path.parent.name[:2] for path in (ROOT / "notebooks").glob("[0-9][0-9]_*/*.ipynb"))


def measured(names: Sequence[str], events: int, seconds: float) -> list[Row]:
    """The rows of these chapters, each in a JupyterLab of its own, with so many seconds for its sliders."""
    from playwright.sync_api import sync_playwright

    from bench.chapter_page import open_chapter
    from bench.lab import launch, served

    rows: list[Row] = []
    with sync_playwright() as play, tempfile.TemporaryDirectory(prefix="course-bench-") as folder:
        browser = launch(play)
        for number, name in enumerate(names, 1):
            say(f"{name}, chapter {number} of {len(names)}: JupyterLab starts")
            with served(Path(folder) / name, name) as address:
                page = open_chapter(browser, address)
                say(f"{name}: all cells run, then the sliders for {seconds:.0f} s")
                page.run_all()
                rows += measure(name, page, events, time.monotonic() + seconds)
                page.page.close()
        browser.close()
    return rows


def main(arguments: Sequence[str]) -> int:
    """Print the table of all sliders; non-zero if one answers too slowly."""
    parser = argparse.ArgumentParser(prog="course bench widgets", description=__doc__.split("\n")[0])
    parser.add_argument("chapters", nargs="*", default=[SHOWN], help=f"such as 06 12, or all; {SHOWN} by default")
    parser.add_argument("--events", type=int, default=EVENTS, help=f"moves of each slider at most ({EVENTS})")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"for the sliders of each chapter ({SECONDS:g})")
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"ms at the 90th percentile ({LIMIT:g})")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    asked = parser.parse_args(arguments)
    if find_spec("playwright") is None:
        add_group("test")
    rows = measured(chapters() if asked.chapters == ["all"] else asked.chapters, asked.events, asked.seconds)
    if asked.json:
        found: dict[str, object] = {"unit": "ms", "limit": asked.limit, "rows": [asdict(each) for each in rows]}
        print(json.dumps(found, indent=1))
    else:
        print(table(rows, asked.limit))
    return int(not rows or any(each.p90 > asked.limit for each in rows))
