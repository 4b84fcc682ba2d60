"""Computing beside communication: for each rank or run two lanes, the GPU's and the wire's, and what of the wire is
exposed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from course_lib.cluster.intervals import outside
from course_lib.draw import style
from course_lib.draw.palette import COLOR, INK, PAPER, color
from course_lib.draw.style import Picture
from course_lib.estimate.units import duration_text, percent_text

if TYPE_CHECKING:
    from course_lib.cluster import Run

_BAR = 0.8  # of a lane's height
_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
Stretch = tuple[float, float]  # start and end, in seconds


@dataclass(frozen=True, slots=True)
class Lanes:
    """One rank's time: computing by kind, and when its wire carries something. `work` ends where the wire is
    exposed."""

    name: str
    work: tuple[tuple[float, float, str], ...]  # start, end, kind
    wire: tuple[Stretch, ...]

    @property
    def end(self) -> float:
        """When the last lane is over, in seconds."""
        return max([stop for _, stop, _ in self.work] + [stop for _, stop in self.wire], default=0.0)

    @property
    def exposed(self) -> tuple[Stretch, ...]:
        """When the wire carries something and the GPU computes nothing."""
        return tuple(outside(joined(self.wire), joined([(start, stop) for start, stop, _ in self.work])))

    @property
    def hidden_share(self) -> float:
        """The share of the wire's time behind which the GPU computes."""
        busy = sum(stop - start for start, stop in joined(self.wire))
        return 1 - sum(stop - start for start, stop in self.exposed) / busy if busy else 1.0


def joined(stretches: Sequence[Stretch]) -> list[Stretch]:
    """The stretches in order, those that touch or overlap as one."""
    found: list[Stretch] = []
    for start, stop in sorted(stretches):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    return found


def lanes_of(run: Run, rank: int = 0, name: str = "", forward: float = 0.0) -> Lanes:
    """The lanes of one rank of a run whose first `forward` seconds are the forward pass; all later computing is
    backward.

    The wire is busy while a message from or to this rank is under way.
    """
    mine = [
        (span.start, span.end)
        for span in run.spans
        if span.rank == rank and span.kind in ("compute", "forward", "backward")
    ]
    before = [(start, min(stop, forward), "forward") for start, stop in joined(mine) if start < forward]
    after = [(max(start, forward), stop, "backward") for start, stop in joined(mine) if stop > forward]
    travels = [(each.sent, each.arrived) for each in run.messages if rank in (each.src, each.dst)]
    return Lanes(name or f"rank {rank}", tuple(before + after), tuple(joined(travels)))


def draw(axes: Axes, lanes: Lanes, row: float, scale: float) -> None:
    """One rank's two lanes: the GPU's at `row`, the wire's below it, its exposed parts hatched."""
    half = _BAR / 2
    for kind in dict.fromkeys(kind for _, _, kind in lanes.work):
        _bars(axes, [(a, b) for a, b, one in lanes.work if one == kind], row, half, scale, color(kind))
    _bars(axes, lanes.wire, row + 1, half, scale, color("communication"))
    _bars(axes, lanes.exposed, row + 1, half, scale, PAPER, hatch="////")


def _bars(
    axes: Axes, stretches: Sequence[Stretch], row: float, half: float, scale: float, fill: str, hatch: str = ""
) -> None:
    corners = [
        [(a / scale, row - half), (b / scale, row - half), (b / scale, row + half), (a / scale, row + half)]
        for a, b in stretches
    ]
    edge = color("communication") if hatch else PAPER
    axes.add_collection(
        PolyCollection(corners, facecolors=fill, edgecolors=edge, linewidths=0.8 if hatch else 0.5, hatch=hatch or None)
    )


def key(
    axes: Axes,
    bbox_to_anchor: tuple[float, float] | None = None,
    kinds: Sequence[str] = ("forward", "backward"),
    sent: str = "all-reduce",
) -> None:
    """What the colors mean, in one row: kinds of computing, and what the wire carries."""
    talk = color("communication")
    handles = [Patch(facecolor=color(kind), label=kind) for kind in kinds]
    handles += [
        Patch(facecolor=talk, label=f"{sent}, hidden"),
        Patch(facecolor=PAPER, edgecolor=talk, hatch="////", label=f"{sent}, exposed"),
    ]
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=bbox_to_anchor,
        ncol=4,
        frameon=False,
        fontsize=style.SMALL,
        labelcolor=INK,
        handlelength=1.4,
        columnspacing=1.4,
        handletextpad=0.5,
    )


def unit_of(end: float) -> tuple[float, str]:
    """What to divide seconds by so that an axis of this length reads well, and the unit's name."""
    return next(((scale, word) for scale, word in _SCALES if end >= 2 * scale), _SCALES[-1])


def computing_beside_talking(
    shown: Sequence[Lanes],
    title: str = "What the backward pass hides",
    kinds: Sequence[str] = ("forward", "backward"),
    sent: str = "all-reduce",
    device: str = "GPU",
) -> Picture:
    """Two lanes for each of `shown`, all from time 0 on one axis: who computes, what the wire carries, what is
    exposed."""
    if not shown:
        raise ValueError("There is nothing to show: give the lanes of one run at least, from lanes_of(run).")
    figure, axes = style.new(1.3 + 0.78 * len(shown), left=1.75, bottom=0.92, top=0.42)
    end = max(each.end for each in shown)
    scale, unit = unit_of(end)
    ticks, names = [], []
    for place, each in enumerate(shown):
        row = 2.6 * place
        axes.barh([row, row + 1], end / scale, height=_BAR, color=COLOR["idle"], alpha=0.25, linewidth=0)
        draw(axes, each, row, scale)
        ticks += [row, row + 1]
        names += [f"{each.name}: {device}", "link"]
    axes.set(xlim=(0, end / scale), ylim=(ticks[-1] + 0.6, -0.6))
    axes.set_yticks(ticks, names)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    style.dress(axes, title, x=f"time of one step ({unit})")
    key(axes, bbox_to_anchor=(0.4, -0.42 / (figure.get_figheight() - 1.34)), kinds=kinds, sent=sent)
    said = "; ".join(
        f"{each.name}: {duration_text(each.end)}, {percent_text(each.hidden_share, 2)} of the {sent} hidden"
        for each in shown
    )
    figure.alt = f"{title}. Lanes of computing and of communication over one step. {said}."
    return figure
