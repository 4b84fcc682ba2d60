"""A few runs as curves over their steps, one panel beside the other."""

from collections.abc import Mapping, Sequence

from course_lib.draw import palette, style
from course_lib.draw.style import Picture

INKS = (palette.BLUE, palette.VERMILION, palette.ORANGE)
Panel = tuple[str, Mapping[str, Sequence[float]]]  # what is drawn, with its unit; values by the name of their run


def drawn(panels: Mapping[str, Panel], alt: str, runs: str = "") -> Picture:
    """The figure, with `alt` for those who cannot see it: at most two panels by title, at most three runs, the first on
    top; `runs` heads the legend."""
    if not 1 <= len(panels) <= 2 or any(not 1 <= len(curves) <= len(INKS) for _, curves in panels.values()):
        raise ValueError(
            f"One panel or two, with 1 to {len(INKS)} runs each; got {[len(curves) for _, curves in panels.values()]}."
        )
    figure, first = style.new(2.9, right=4.0) if len(panels) == 2 else style.new(2.9)
    places = [first]
    if len(panels) == 2:
        places.append(figure.add_axes((0.58, first.get_position().y0, 0.4, first.get_position().height)))
        places[1].spines[["top", "right"]].set_visible(False)
        places[1].tick_params(labelsize=style.SMALL)
    for axes, (title, (unit, curves)) in zip(places, panels.items(), strict=True):
        for place, ((name, values), ink) in enumerate(zip(curves.items(), INKS, strict=False)):
            width = 1.4 + 0.7 * place  # a run below one that it equals shows on both sides of it
            axes.plot(values, color=ink, linewidth=width, label=name, zorder=4 - place)
        axes.margins(x=0)
        axes.set_ylim(0, None)
        style.dress(axes, title, "step", unit, grid="y")
    first.legend(frameon=False, fontsize=style.SMALL, title=runs or None, title_fontsize=style.SMALL, loc="best")
    figure.alt = alt
    return figure
