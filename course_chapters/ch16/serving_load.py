"""Latency against load as a real server had it, predicted and measured."""

from course_lib.draw import style
from course_lib.draw.palette import BLUE, ORANGE
from course_lib.draw.style import Picture
from course_lib.estimate.units import number_text
from course_runs.reading import Chosen, choose


def load_plot(run: Chosen | None = None) -> Picture:
    """Median time to the first token against load, predicted and measured, and the device that it was measured on."""
    run = run or choose("serving")
    rates = [row["rate"] for row in run.content["raw"]["rows"]]
    figure, axes = style.new(2.9)
    words = []
    for name, color in (("predicted", BLUE), ("measured", ORANGE)):
        times = [1e3 * row["ttft"]["50"] for row in run.content[name]["rows"]]
        axes.plot(rates, times, color=color, marker="o", markersize=4, label=name)
        words.append(f"{name} " + ", ".join(number_text(each, 2) for each in times))
    axes.set_yscale("log")
    ticks = [step * 10.0**power for power in range(-1, 6) for step in (1, 2, 5)]
    low, high = axes.get_ylim()
    axes.set_yticks(ticks, [number_text(tick) for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.set_ylim(low, high)
    axes.legend(frameon=False, fontsize=style.SMALL)
    device = f"{run.content['environment']['cpu']}, {run.content['environment']['cores']} cores"
    style.dress(
        axes, f"Median time to the first token, ms ({run.origin}, {device})", "requests per second", grid="both"
    )
    shown = ", ".join(number_text(rate, 2) for rate in rates)
    figure.alt = f"Median time to the first token in ms at {shown} requests per second: {'; '.join(words)}."
    return figure
