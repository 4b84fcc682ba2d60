"""How many copies each rank sends to each rank, as a matrix."""

from collections.abc import Sequence

import numpy as np
from matplotlib.patches import Rectangle

from course_lib.draw import style
from course_lib.draw.palette import BLUE, EMPTY, INK, ink_on
from course_lib.draw.style import Picture
from course_lib.estimate.units import number_text


def traffic_matrix(rows: Sequence[Sequence[int]], unit: str = "copies") -> Picture:
    """How much each rank (row) sends to each rank (column); the diagonal stays at home."""
    table = np.asarray(rows)
    ranks = len(table)
    figure, axes = style.new(0.9 + 0.44 * ranks, left=1.35, right=3.2, bottom=0.25, top=0.75)
    for source in range(ranks):
        for target in range(ranks):
            share = table[source, target] / max(table.max(), 1)
            home = source == target
            axes.add_patch(
                Rectangle(
                    (target, source),
                    0.94,
                    0.92,
                    facecolor=EMPTY if home else BLUE,
                    alpha=1 if home else 0.15 + 0.85 * share,
                    linewidth=0,
                )
            )
            ink = INK if home or share < 0.5 else ink_on(BLUE)
            axes.text(
                target + 0.47,
                source + 0.48,
                str(table[source, target]),
                ha="center",
                va="center",
                **style.font(style.NORMAL, ink),
            )
    axes.set(xlim=(0, ranks), ylim=(ranks, 0))
    axes.set_xticks(np.arange(ranks) + 0.47, [f"to {rank}" for rank in range(ranks)])
    axes.set_yticks(np.arange(ranks) + 0.46, [f"from rank {rank}" for rank in range(ranks)])
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    received = table.sum(0)
    style.note(
        axes,
        1.06,
        0.8,
        f"sent away by each rank:\n{', '.join(map(str, table.sum(1) - np.diag(table)))}",
        style.SMALL,
        INK,
        va="center",
    )
    style.note(
        axes,
        1.06,
        0.35,
        f"computed by each rank:\n{', '.join(map(str, received))}\nbusiest / mean: "
        f"{number_text(received.max() / max(received.mean(), 1e-9), 3)}",
        style.SMALL,
        INK,
        va="center",
    )
    figure.alt = (
        f"{unit.capitalize()} from each rank to each rank: "
        f"{'; '.join(', '.join(map(str, row)) for row in table.tolist())}. Computed by each: "
        f"{', '.join(map(str, received))}."
    )
    return figure
