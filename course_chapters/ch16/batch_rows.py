"""The requests of a simulated server as rows in time: waiting, prompt, decoding, and standing still."""

from functools import lru_cache

import numpy as np
from matplotlib.patches import Patch

from course_chapters.ch16.serving_curves import REPLICA
from course_lib.draw import style
from course_lib.draw.palette import BLUE, GREY, ORANGE
from course_lib.draw.style import Picture
from course_lib.estimate.units import duration_text
from course_lib.operate import serving
from course_lib.operate.serving.outcome import Outcome


def batch_rows(run: Outcome, name: str, now: float, end: float) -> Picture:
    """A row for each request of a run with spans, up to `now` seconds on an axis up to `end`. A gap in a row: it stands
    still."""
    figure, axes = style.new(3.4, left=0.85, bottom=0.85)
    for row, (one, finish) in enumerate(zip(run.requests, run.finish, strict=True)):
        if one.arrival < now:
            axes.barh(row, min(finish, now) - one.arrival, left=one.arrival, height=0.2, color=GREY)
    for span in run.spans:
        if span.start >= now:
            break
        stop = min(span.stop, now)
        for places, ink in ((span.prompts, ORANGE), (span.decoding, BLUE)):
            axes.barh(list(places), stop - span.start, left=span.start, height=0.66, color=ink)
    axes.set(xlim=(0, end), ylim=(len(run.requests) - 0.4, -0.6))
    axes.set_yticks(range(len(run.requests)), [f"{one.prompt:,}+{one.output}" for one in run.requests], fontsize=7)
    done = run.finish <= now
    gap = duration_text(float(run.gaps.max()), 2)
    title = f"{name}, {duration_text(now, 2)}: {int(done.sum())} of {len(done)} done; longest gap between tokens {gap}"
    style.dress(axes, title, "seconds (a row is a request: prompt + reply tokens)")
    handles = [
        Patch(facecolor=ink, label=text) for ink, text in ((ORANGE, "prompt"), (BLUE, "decoding"), (GREY, "waiting"))
    ]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncol=3, frameon=False, fontsize=8)
    figure.alt = (
        f"{title}. All are done after {duration_text(float(run.finish.max()), 3)}; the first tokens come "
        f"after {duration_text(float(np.mean(run.ttft)), 2)} on average."
    )
    return figure


FRAMES = 40
KINDS = ("static", "continuous", "chunked")
BATCH_REQUESTS = tuple(
    serving.Request(i, arrival, prompt, output)
    for i, (arrival, prompt, output) in enumerate(
        [(0.0, 400, 60), (0.02, 900, 25), (0.05, 300, 110), (0.1, 500, 40), (0.24, 12_000, 30), (0.3, 400, 55)]
        + [(0.42, 600, 30), (0.55, 300, 70), (0.62, 800, 20), (0.7, 500, 40)]
    )
)


@lru_cache(maxsize=8)
def batch_run(scheduler: str) -> serving.Outcome:
    """Ten requests on one replica with four places in the batch."""
    return serving.simulate(BATCH_REQUESTS, REPLICA, scheduler, max_batch=4, trace=True)


def draw_batch(frame: int = FRAMES, scheduler: str = "continuous") -> Picture:
    """The rows of the batch up to a moment, on the time axis of the slowest scheduler."""
    longest = max(batch_run(kind).finish.max() for kind in KINDS)
    return batch_rows(batch_run(scheduler), scheduler, longest * frame / FRAMES, longest)
