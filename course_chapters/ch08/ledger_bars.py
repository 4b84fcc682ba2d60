"""Memory over one training step: what fills it in the forward pass, the backward pass and the optimizer's step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from course_lib.draw import style
from course_lib.draw.palette import INK, PAPER, SOFT, color, label
from course_lib.draw.style import Picture
from course_lib.estimate.units import GB, KB, MB, bytes_text

if TYPE_CHECKING:  # its data are lists, and a picture needs no torch
    from course_lib.model.ledger import Timeline

_STACK = {  # from the ground up; roles of the account in the palette's words
    "parameters": "weights",
    "optimizer state": "moments",
    "gradients": "grads",
    "saved for backward": "activations",
    "communication": "communication",
    "temporary": "temporary",
}
_MOST = 240  # places along the picture


def memory_over_a_step(
    timeline: Timeline, *, title: str = "Memory over one training step", top: float | None = None, height: float = 3.4
) -> Picture:
    """Bytes by role, stacked, at every allocation of a step, with its phases and its peak.

    `top` fixes the axis (bytes), so that pictures side by side can be compared.
    """
    total = timeline.total
    if not total or not max(total):
        raise ValueError("The timeline has no bytes; record a step with course_lib.model.ledger.record.")
    peak = max(range(len(total)), key=total.__getitem__)
    unit, name = _unit(top or total[peak])
    figure, axes = style.new(height, left=0.8, bottom=0.82, top=0.72)
    at = _places(total, [*timeline.ends.values()])
    roles = [role for role in _STACK if any(timeline.roles[role])]
    floor = [0.0] * len(at)
    for role in roles:
        high = [low + timeline.roles[role][place] / unit for low, place in zip(floor, at, strict=True)]
        axes.fill_between(at, floor, high, step="post", color=color(_STACK[role]), linewidth=0)
        floor = high
    limit = (top or 1.14 * total[peak]) / unit
    _draw_phases(axes, timeline.ends)
    axes.plot([peak], [total[peak] / unit], "o", color=INK, markersize=4, zorder=5)
    left = peak > len(total) / 2
    axes.annotate(
        f"peak {bytes_text(total[peak])}",
        (peak, total[peak] / unit),
        xytext=(-7 if left else 7, 3),
        textcoords="offset points",
        ha="right" if left else "left",
        va="bottom",
        fontsize=style.NORMAL,
        fontweight="bold",
        color=INK,
        bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.6, "alpha": 0.85},
    )
    axes.set_xlim(0, len(total) - 1)
    axes.set_ylim(0, limit)
    style.dress(axes, x="allocations, one after the other", y=f"memory held ({name})", grid="y")
    axes.set_title(style.plain(title), loc="left", fontsize=style.LARGE, color=INK, pad=24, fontweight="bold")
    style.legend(axes, [_STACK[role] for role in roles], bbox_to_anchor=(0.5, -0.19))
    figure.alt = f"{title}. {ledger_alt(timeline)}"
    return figure


def ledger_alt(timeline: Timeline) -> str:
    """The picture in words: the peak, in which phase and of what, and what is held at the end of each phase."""
    total = timeline.total
    peak = max(range(len(total)), key=total.__getitem__)
    phase = next((name for name, end in timeline.ends.items() if peak <= end), "end")
    held = "; ".join(f"after the {name}: {_parts(timeline.roles, end)}" for name, end in timeline.ends.items())
    size, parts = bytes_text(total[peak]), _parts(timeline.roles, peak)
    return f"Peak of {size} during the {phase}: {parts}. Held {held}."


def _parts(roles: Mapping[str, Sequence[int]], moment: int) -> str:
    sizes = {label(_STACK[role]): roles[role][moment] for role in _STACK}
    return ", ".join(f"{name} {bytes_text(size)}" for name, size in sizes.items() if size)


def _unit(nbytes: float) -> tuple[float, str]:
    return next(((unit, name) for unit, name in ((GB, "GB"), (MB, "MB")) if nbytes >= unit), (KB, "kB"))


def _places(total: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Moments to draw: all, or of every stretch its fullest; ends of phases always."""
    stride = -(-len(total) // _MOST)
    stretches = (range(low, min(low + stride, len(total))) for low in range(0, len(total), stride))
    fullest = {max(stretch, key=total.__getitem__) for stretch in stretches}
    return sorted(fullest | {0, len(total) - 1} | set(ends))


def _draw_phases(axes, ends: Mapping[str, int]) -> None:
    start, last = 0, max(ends.values())
    for name, end in ends.items():
        if end < last:
            axes.axvline(end, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=3)
        axes.annotate(
            name,
            ((start + end) / 2, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=style.NORMAL,
            color=SOFT,
        )
        start = end
