"""Chapter 07's plots: the loss on several numbers of ranks, what replicas hold, and computing next to communicating."""

from collections.abc import Mapping, Sequence

import torch

from course_chapters.ch07.exercises import numbers
from course_chapters.ch07.runs import forward_seconds
from course_chapters.running_example import PARAMS
from course_lib import draw
from course_lib.cluster import Run, parity
from course_lib.draw import lanes, palette, style
from course_lib.draw.style import Picture
from course_lib.estimate.units import BILLION, duration_text

_LOOKS = {
    1: (5.0, "-", palette.SKY),
    2: (2.6, "-", palette.BLUE),
    4: (1.6, "--", palette.ORANGE),
    8: (1.6, ":", palette.INK),
}


def same_loss(curves: Mapping[int, Sequence[float]], never: Sequence[float], terms: int) -> Picture:
    """The loss on 1, 2, 4 and 8 ranks, which must agree up to rounding, and on ranks that never average."""
    figure, axes = style.new(3.3, bottom=0.58)
    axes.plot(never, color=palette.GREY, linewidth=1.6, label="8 ranks, never averaged")
    for ranks, losses in curves.items():
        width, dashes, ink = _LOOKS[ranks]
        axes.plot(losses, dashes, color=ink, linewidth=width, label=f"{ranks} rank{'s' * (ranks > 1)}")
    axes.legend(frameon=False, fontsize=style.SMALL)
    pairs = [pair for ranks, losses in curves.items() if ranks > 1 for pair in zip(losses, curves[1], strict=True)]
    difference = max(abs(split - whole) / whole for split, whole in pairs)
    allowed = parity.tolerance(torch.float32, terms, steps=len(never))
    assert difference <= allowed
    title = f"Four curves in one: at most {difference:.0e} apart in {len(never)} steps (allowed: {allowed:.0e})"
    style.dress(axes, title, "step", "mean loss (nats per token)", grid="y")
    figure.alt = f"{title}. From {curves[1][0]:.2f} to {curves[8][-1]:.2f}; without averaging to {never[-1]:.2f}."
    return figure


def replicas(per_parameter: Sequence[Mapping[str, float]]) -> Picture:
    """What each rank holds, scaled from bytes per parameter to the running example, under the memory of one GPU."""
    scaled = [{role: nbytes * PARAMS for role, nbytes in rank.items()} for rank in per_parameter]
    title = f"Every rank holds everything: {len(scaled)} replicas, scaled to {PARAMS / BILLION:g} billion parameters"
    picture = draw.who_holds_what(scaled, ceiling=numbers.H100.memory, title=title)
    picture.axes[0].set_xlim(-1.35, len(scaled) - 0.4)  # room for the ceiling's name
    return picture


def computing_and_communicating(named: Mapping[str, Run]) -> Picture:
    """For each run, what rank 0 computes and sends over one step; exposed communication is hatched."""
    forward = forward_seconds()
    rows = [lanes.lanes_of(run, 0, name, forward) for name, run in named.items()]
    times = " or ".join(duration_text(run.seconds) for run in named.values())
    return lanes.computing_beside_talking(rows, f"One step, the same bytes: {times}")
