"""Pictures of errors in serving: of a quantized cache, and of predictions against published measurements."""

from functools import cache

import numpy as np
import torch

from course_chapters.ch16 import published, serving_facts
from course_lib.draw import style
from course_lib.draw.palette import BLUE, GREEN, INK, ORANGE, PURPLE, SKY, SOFT, VERMILION
from course_lib.draw.style import Picture
from course_lib.estimate.units import MS, percent_text
from course_lib.operate import serving


@cache
def quantization() -> dict[tuple[int, str], float]:
    """Relative error of attention's output by bits and by what shares a scale of the keys."""
    keys = serving.keys_with_outliers(512, 64, outliers=3, times=10)
    coin = torch.Generator().manual_seed(1)
    q, v = torch.randn(64, 64, generator=coin), torch.randn(512, 64, generator=coin)
    return {
        (bits, per): serving.attention_error(q, keys, v, bits, keys=per)
        for bits in (8, 6, 4, 3, 2)
        for per in ("channel", "token", "tensor")
    }


def quantization_plot() -> Picture:
    """Error over bits for scales per channel, per token and for all keys."""
    figure, axes = style.new(2.8)
    for per, ink in (("channel", GREEN), ("token", ORANGE), ("tensor", VERMILION)):
        points = sorted((bits, 100 * error) for (bits, kind), error in quantization().items() if kind == per)
        axes.semilogy(*zip(*points, strict=True), "o-", color=ink, label=f"keys: a scale per {per}")
    axes.set_xticks((2, 3, 4, 6, 8))
    title = "Keys have outlier channels; a scale per channel isolates them"
    style.dress(axes, title, "bits of a number", "error of the output, %", grid="y")
    axes.legend(frameon=False, fontsize=8, labelcolor=INK)
    four = {per: percent_text(quantization()[4, per], 2) for per in ("channel", "token", "tensor")}
    figure.alt = (
        f"{title}. With 4 bits the error is {four['channel']} per channel, {four['token']} per token and "
        f"{four['tensor']} with one scale."
    )
    return figure


def errors_plot() -> Picture:
    """Predicted over measured for every judged row."""
    figure, axes = style.new(3.2, left=0.85)
    inks = dict(zip(serving_facts.serving_sources(), (PURPLE, GREEN, BLUE, VERMILION, SKY), strict=True))
    for source, ink in inks.items():
        rows = [row for row in serving_facts.serving_rows(source) if not published.chosen_on(row)]
        scale = [1 if row.metric == "throughput" else 1 / MS for row in rows]
        x = [float(row.value) * each for row, each in zip(rows, scale, strict=True)]
        y = [published.predict(row) * each for row, each in zip(rows, scale, strict=True)]
        axes.loglog(x, y, "o", color=ink, markersize=4, label=rows[0].engine)
    span = np.array([5.0, 5e4])
    axes.loglog(span, span, color=SOFT, linewidth=1)
    title = "Only the engine that waits for its CPU is far from the line"
    style.dress(axes, title, "measured (tokens/s, or ms)", "predicted", grid="both")
    axes.legend(frameon=False, fontsize=8, labelcolor=INK)
    figure.alt = (
        f"{title}. Predicted against measured, {sum(each.judged for each in published.errors())} rows of five sources."
    )
    return figure
