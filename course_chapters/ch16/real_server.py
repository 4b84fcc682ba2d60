"""Chapter 16's real server: the iterations of its engine, and a recorded load, predicted and measured."""

import math
from collections.abc import Sequence

from IPython.display import Markdown

from course_chapters.ch16.serving_load import load_plot as load_plot
from course_chapters.table import columns
from course_lib.estimate.units import number_text
from course_runs.reading import Chosen, choose
from course_runs.serving.engine import Iteration


def iterations_table(steps: Sequence[Iteration], most: int = 14) -> Markdown:
    """The first iterations of an engine: what each computed, who ran and waited, and the pages in use."""
    rows = [
        (number, step.prompt_tokens, step.decodes, step.running, step.waiting, step.pages, len(step.new))
        for number, step in enumerate(steps[:most], 1)
    ]
    heads = "iteration | prompt tokens | sequences that decode | running | waiting | pages in use | new tokens"
    return columns(heads, rows)


def load_table(run: Chosen | None = None) -> Markdown:
    """A load that the server served, rate by rate: latencies in ms, predicted → measured. Your own run, if there is
    one."""
    run = run or choose("serving")
    rows = []
    for raw, said, seen in zip(*(run.content[each]["rows"] for each in ("raw", "predicted", "measured")), strict=True):
        times = [
            _pair(said[what][rank], seen[what][rank]) for what, rank in (("ttft", "50"), ("ttft", "99"), ("itl", "50"))
        ]
        speed = f"{number_text(said['tokens_per_s'])} → {number_text(seen['tokens_per_s'])}"
        refused, batch = f"{said['refused']} → {seen['refused']}", f"{said['batch']:.1f} → {seen['batch']:.1f}"
        rows.append((number_text(raw["rate"]), *times, speed, refused, batch))
    latencies = "TTFT p50 | TTFT p99 | time between tokens p50"
    return columns(f"requests/s | {latencies} | tokens/s | refused | mean batch", rows)


def _pair(said: float, seen: float) -> str:
    return " → ".join("–" if math.isnan(value) else number_text(1e3 * value, 3) for value in (said, seen))
