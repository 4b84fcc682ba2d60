"""How every picture looks and how it is shown: sizes, axes, text alternatives, deterministic files.

Pictures are made without pyplot and without global settings, so they are quick, and two threads can draw at once.
"""

import base64
import html
import io
import re
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal, TypedDict

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch
from matplotlib.path import Path as MplPath
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D

from course_lib.draw.palette import GRID, INK, NIGHT, NIGHT_WORDS, PAPER, SOFT, color, label

WIDTH = 7.4  # inches; a picture fills a notebook's column
SMALL, NORMAL, LARGE = 8.0, 9.0, 10.5  # points
PALE = 0.28  # the opacity of the background that shows idle time
DPI = 110
FONT = "DejaVu Sans"  # ships with matplotlib, so a picture is the same everywhere
FAMILY = "'DejaVu Sans', Verdana, Geneva, sans-serif"  # of about one width, for text on a page

_saving = threading.Lock()  # rc_context is one for all threads


class Picture(Figure):
    """A figure that carries its text alternative and shows itself at the end of a cell."""

    alt: str = ""

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """What a notebook displays: the image with its alternative."""
        return {"text/html": page(self), "text/plain": checked_alt(self.alt)}


def new(
    height: float = 3.2,
    width: float = WIDTH,
    *,
    left: float = 0.7,
    right: float = 0.2,
    bottom: float = 0.55,
    top: float = 0.45,
) -> tuple[Picture, Axes]:
    """An empty picture and its axes; sizes and margins in inches. No layout engine: margins are what they are."""
    figure = Picture(figsize=(width, height), dpi=DPI, facecolor=PAPER)
    FigureCanvasAgg(figure)
    box = (left / width, bottom / height, (width - left - right) / width, (height - bottom - top) / height)
    axes = figure.add_axes(box)
    axes.set_facecolor(PAPER)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(SOFT)
    axes.tick_params(labelsize=SMALL, colors=SOFT, labelcolor=INK, length=3)
    axes.set_axisbelow(True)
    return figure, axes


def dress(axes: Axes, title: str = "", x: str = "", y: str = "", grid: Literal["x", "y", "both", ""] = "") -> None:
    """Title at the left, axis labels (with their units), and grid lines across "x", "y" or "both"."""
    if title:
        axes.set_title(plain(title), loc="left", y=1.0, fontsize=LARGE, color=INK, pad=8, fontweight="bold")
    if x:
        axes.set_xlabel(plain(x), fontsize=NORMAL, color=INK)
    if y:
        axes.set_ylabel(plain(y), fontsize=NORMAL, color=INK)
    if grid:
        axes.grid(True, axis=grid, color=GRID, linewidth=0.7)


def plain(text: str) -> str:
    """The text with its dollar signs kept: matplotlib reads a pair of bare ones as mathematics."""
    return text.replace("$", r"\$")


class Font(TypedDict):
    """Keywords of matplotlib's text functions."""

    fontsize: float
    color: str
    fontweight: str


def font(size: float = NORMAL, ink: str = INK, bold: bool = False) -> Font:
    """How a text looks, as keywords of matplotlib's text functions."""
    return {"fontsize": size, "color": ink, "fontweight": "bold" if bold else "normal"}


def note(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    size: float = SMALL,
    ink: str = SOFT,
    ha: str = "left",
    va: str = "baseline",
) -> None:
    """A text in the box of the axes, whose lower left corner is (0, 0) and whose upper right one is (1, 1)."""
    axes.text(x, y, plain(text), transform=axes.transAxes, ha=ha, va=va, **font(size, ink))


def bare(axes: Axes) -> None:
    """Axes without frame or ticks, for drawings whose places have no numbers."""
    axes.set_axis_off()


def legend(
    axes: Axes, roles: Sequence[str], *, pale: str = "", bbox_to_anchor: tuple[float, float] = (0.5, -0.16)
) -> None:
    """A legend of roles in their colors, in one row under the axes unless told otherwise; `pale` is the role drawn as a
    background."""
    handles = [Patch(facecolor=color(name), label=label(name), alpha=PALE if name == pale else None) for name in roles]
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=bbox_to_anchor,
        ncol=len(handles),
        frameon=False,
        fontsize=SMALL,
        labelcolor=INK,
        handlelength=1.1,
        handleheight=1.1,
        columnspacing=1.2,
        handletextpad=0.5,
    )


def words(
    axes: Axes, places: Sequence[tuple[float, float]], texts: Sequence[str], inks: Sequence[str], size: float = SMALL
) -> None:
    """Many short texts centered on places of the axes; those alike are one outline, so a hundred are cheap."""
    alike: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for place, text, ink in zip(places, texts, inks, strict=True):
        alike.setdefault((text, ink), []).append(place)
    for (text, ink), where in alike.items():
        collection = PathCollection(
            [_outline(text, size)], offsets=where, offset_transform=axes.transData, facecolors=ink, linewidths=0
        )
        collection.set_transform(axes.figure.dpi_scale_trans)
        collection.set_zorder(5)
        axes.add_collection(collection, autolim=False)


@lru_cache(maxsize=4096)
def _outline(text: str, size: float) -> MplPath:
    """The outline of a text around its center, in inches."""
    outline = TextPath((0, 0), text, size=size / 72)
    box, capital = outline.get_extents(), 0.73 * size / 72
    return outline.transformed(Affine2D().translate(-(box.x0 + box.x1) / 2, -capital / 2))


# --- out of the machine --------------------------------------------------------------------------


def svg(figure: Figure, alt: str | None = None, *, outlines: bool = True) -> str:
    """The picture as SVG text with its alternative inside; the same picture gives the same text.

    `outlines` draws letters as shapes, the same everywhere; without, they are text in a font of the reader's, which
    takes half the time and a fifth of the bytes.
    """
    alt = checked_alt(alt or getattr(figure, "alt", ""))
    buffer = io.StringIO()
    letters = "path" if outlines else "none"
    with _saving, mpl.rc_context({"svg.hashsalt": "training at scale", "svg.fonttype": letters}):
        _write_svg(figure, buffer)
    text = re.sub(r"<\?xml.*?\?>\s*|<!DOCTYPE.*?>\s*", "", buffer.getvalue(), flags=re.DOTALL)
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    if not outlines:
        text = re.sub(r"'DejaVu Sans',[^;\"]*sans-serif", FAMILY, text)
        text = re.sub(r"(<text [^>]*>)( +)", _hold_spaces, text)
    said = f'role="img" aria-label="{html.escape(alt)}"'
    head = f">\n <title>{html.escape(alt)}</title>\n {THEMES}\n"
    return text.replace("<svg ", f"<svg {said} ", 1).replace(">\n", head, 1)


def _themes() -> str:
    """A style element for an SVG: on a dark page its neutral colors become those of `NIGHT`.

    An image follows the `color-scheme` of the page that shows it, so the same file serves both themes.
    """
    rules = "".join(
        f'[style*="{what}: {day}"],[{what}="{day}"]{{{what}:{night}!important}}'
        for day, night in NIGHT.items()
        for what in ("fill", "stroke")
    )
    rules += "".join(
        f'[id^="text_"] [style*="fill: {day}"],text[style*="fill: {day}"],text[fill="{day}"]{{fill:{night}!important}}'
        for day, night in NIGHT_WORDS.items()
    )
    rules += f'[id^="text_"]>g:not([style*="fill"]),text:not([style*="fill"]):not([fill]){{fill:{NIGHT[INK]}}}'  # black
    return f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>"


THEMES = _themes()
_ON_DARK_PAGES = '<style>[data-jp-theme-light="false"] img{color-scheme:dark}</style>'  # JupyterLab names its theme so


def _hold_spaces(found: re.Match[str]) -> str:
    """Spaces before a text, which a browser would drop, as spaces that it keeps."""
    return found[1] + "\u00a0" * len(found[2])


class _Renderer(RendererSVG):
    """Matplotlib's own, which remembers the sizes of texts: a slider's redraws say the same words again and again."""

    _sizes: ClassVar[dict[tuple, tuple[float, float, float]]] = {}

    def get_text_width_height_descent(self, s: str, prop: FontProperties, ismath: object) -> tuple[float, float, float]:
        """Width, height and descent of a text, in points."""
        key = (s, hash(prop), ismath)
        if key not in self._sizes:
            if len(self._sizes) > 10_000:
                self._sizes.clear()
            self._sizes[key] = super().get_text_width_height_descent(s, prop, ismath)
        return self._sizes[key]


def _write_svg(figure: Figure, buffer: io.StringIO) -> None:
    """What `figure.savefig` writes, with the renderer above."""
    width, height = figure.get_size_inches()
    dpi, ground = figure.dpi, figure.get_facecolor()
    figure.dpi = 72  # an SVG is measured in points
    figure.set_facecolor(PAPER)
    try:
        empty = {"Date": None, "Creator": None}
        renderer = _Renderer(72 * width, 72 * height, buffer, image_dpi=dpi, metadata=empty)
        figure.draw(renderer)
        renderer.finalize()
    finally:
        figure.dpi = dpi
        figure.set_facecolor(ground)


def save_svg(figure: Figure, path: str | Path, alt: str | None = None) -> Path:
    """Write the picture beside a chapter, byte for byte the same on every run, and return the path."""
    path = Path(path)
    path.write_text(svg(figure, alt), encoding="utf-8", newline="\n")
    return path


def page(figure: Figure, alt: str | None = None) -> str:
    """The picture as HTML: an image with its text alternative, crisp at any size, on a sheet of its own.

    It is SVG inside an image, which is quicker to make than PNG here and keeps ids of two pictures apart.
    """
    alt = checked_alt(alt or getattr(figure, "alt", ""))
    width, height = figure.get_size_inches()
    return image(svg(figure, alt, outlines=False), (width, height), alt)


def image(markup: str, size: tuple[float, float], alt: str) -> str:
    """SVG text as an image of this size in inches, with its text alternative."""
    width, height = (round(inches * DPI) for inches in size)
    data = base64.b64encode(markup.encode()).decode("ascii")
    return (
        f'<img alt="{html.escape(alt)}" width="{width}" height="{height}" '
        f'src="data:image/svg+xml;base64,{data}" style="max-width:100%;height:auto;border-radius:6px">'
        f"{_ON_DARK_PAGES}"
    )


def show(figure: Figure, alt: str | None = None) -> None:
    """Display the picture in a notebook with its text alternative; without a notebook, print that text.

    The primitives of this package bring an alternative of their own; any other figure needs `alt`.
    """
    alt = checked_alt(alt or getattr(figure, "alt", ""))
    markup = page(figure, alt)
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        print(alt)
        return
    if get_ipython() is None:
        print(alt)
        return
    display({"text/html": markup, "text/plain": alt}, raw=True)


def checked_alt(alt: str | None) -> str:
    """The alternative, refused when empty: a picture without one says nothing to those who cannot see it."""
    if not isinstance(alt, str) or not alt.strip():
        raise ValueError(f"alt is {alt!r}; say in a sentence what the picture shows, for those who cannot see it.")
    return " ".join(alt.split())
