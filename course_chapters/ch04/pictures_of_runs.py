"""Chapter 04's pictures and tables of recorded trainings, schedules and one weight's spike."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import numpy as np
from IPython.display import Markdown

from course_chapters.ch04.exercises.numbers import SPIKE, UPDATES, critical_batch, spike_updates
from course_chapters.ch04.loss_curves import loss_curves
from course_chapters.table import table
from course_lib.draw.style import Picture
from course_lib.estimate.facts.optimization import recorded_runs
from course_lib.estimate.scaling_laws import PowerLaw, fit_power_law
from course_lib.estimate.units import number_text
from course_lib.model.training import SMALL, Training


def draw_recorded(
    experiment: str, names: Sequence[str], title: str, over: str = "tokens", mine: Mapping[str, Training] | None = None
) -> Picture:
    """Training losses of recorded runs over tokens, or over the seconds that those take at their batch's recorded
    speed.

    `mine` are trainings of this session under names of recorded ones: the beginning of each is drawn as dots over its
    curve.
    """
    runs, speeds = recorded_runs()[experiment], recorded_runs()["speeds"]
    curves, dots = {}, {}
    names = [*(mine or {}), *(name for name in names if name not in (mine or {}))]
    for name in names:
        run = runs[name]
        tokens = run["batch"] * run["steps"] * SMALL.seq_len
        end = tokens / speeds[str(run["batch"])] if over == "seconds" else tokens
        count = len(run["losses"])
        curves[name] = [(place + 0.5) * end / count for place in range(count)], run["losses"]
        if mine and name in mine:
            each = run["steps"] // count  # updates of one recorded point
            points = len(mine[name].losses) // each
            losses = [fmean(mine[name].losses[place * each : (place + 1) * each]) for place in range(points)]
            dots[f"{name}, yours"] = curves[name][0][:points], losses
    return loss_curves(curves, title, over, "nats per token", low=0, dots=dots)


def final_losses(experiment: str, names: Sequence[str] = (), first: str = "run") -> Markdown:
    """A table of recorded runs: batch, steps, learning rate, and the loss on held-out text."""
    runs = recorded_runs()[experiment]
    return table(
        [
            {
                first: name.replace("adamw", "AdamW").replace("adam,", "Adam with L2,"),
                "batch, sequences": runs[name]["batch"],
                "updates": runs[name]["steps"],
                "learning rate": number_text(runs[name]["rate"]),
                "training loss": f"{runs[name]['final']:.3f}",
                "held-out loss": f"{runs[name]['held_out']:.3f}",
            }
            for name in names or runs
        ]
    )


def draw_schedules(schedules: Mapping[str, Callable[[int], float]], steps: int, title: str) -> Picture:
    """Learning rates over the updates 1 to `steps`, a curve a schedule."""
    updates = range(1, steps + 1)
    curves = {name: (list(updates), [rate(step) for step in updates]) for name, rate in schedules.items()}
    return loss_curves(curves, title, "update", "learning rate", low=0)


def draw_spike(most: float = 2.0) -> Picture:
    """The updates around the spike, with and without clipping."""
    updates = list(range(1, UPDATES + 1))
    curves = {f"clipped at {most:g}": (updates, spike_updates(most)), "not clipped": (updates, spike_updates())}
    return loss_curves(
        curves, f"One gradient is {SPIKE:g} times too large", "update", "size of the update, learning rates", low=0
    )


def draw_critical() -> Picture:
    """Updates and sequences to one loss over the batch: recorded runs as dots, the fitted trade as lines."""
    fit = critical_batch()
    steps = {int(batch): found["steps"] for batch, found in recorded_runs()["critical"].items()}
    batches = np.geomspace(min(steps), max(steps), 60)
    curves = {
        "updates, fitted": (list(batches), [fit.steps(batch) for batch in batches]),
        "sequences, fitted": (list(batches), [fit.samples(batch) for batch in batches]),
    }
    dots = {
        "updates": (list(steps), list(steps.values())),
        "sequences": (list(steps), [batch * count for batch, count in steps.items()]),
    }
    title = f"What it takes to reach one loss: critical batch {number_text(fit.batch, 2)}"
    return loss_curves(curves, title, "batch, sequences", "count", log="xy", dots=dots)


def size_fits() -> dict[str, tuple[PowerLaw, list[float], list[float]]]:
    """Power laws through the recorded held-out losses over parameters and over tokens, with the points (x, loss)."""
    runs = recorded_runs()["sizes"]
    widths = [run for name, run in runs.items() if name.startswith("width")]
    lengths = [run for name, run in runs.items() if name.startswith("steps")]
    found = {}
    for name, x, group in (
        ("parameters", [run["params"] for run in widths], widths),
        ("tokens", [run["steps"] * run["batch"] * SMALL.seq_len for run in lengths], lengths),
    ):
        losses = [run["held_out"] for run in group]
        found[name] = fit_power_law(x, losses), x, losses
    return found
