"""The course map of chapter 00: ideas with their prerequisites, and three routes through them."""

import html
import textwrap
from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from course_chapters import course
from course_chapters.links import chapter_link, present, table
from course_lib.draw import style
from course_lib.draw.explore import Explorer, explore, menu
from course_lib.draw.explorer import Setting
from course_lib.draw.palette import BLUE, EMPTY, INK, SKY, SOFT, VERMILION, ink_on
from course_lib.draw.style import Picture

ROUTES = ("prerequisite", "failure", "synthesis")
_WIDE, _TALL = 0.8, 0.6  # of one place of the grid


def draw_map(route: str, idea: str, symptom: str, pair: str) -> str:
    """The map with the choice marked, and its table; links lead to chapters that exist."""
    picture = {"prerequisite": _map_of_needs, "failure": _map_of_failure, "synthesis": _map_of_conflict}
    if route not in picture:
        raise ValueError(f"route is {route!r}; choose from {', '.join(ROUTES)}.")
    shown, row = picture[route]({"prerequisite": idea, "failure": symptom, "synthesis": pair}[route])
    return f"{style.page(shown)}{row}"


def course_map() -> Explorer:
    """Three ways through the course: by prerequisites, from a symptom, and by two mechanisms in conflict."""
    nodes = course.nodes()

    def on(route: str) -> Callable[[Setting], bool]:
        return lambda now: now["route"] == route

    return explore(
        draw_map,
        route=menu(ROUTES, label="route"),
        idea=menu(tuple(nodes), label="idea", text=lambda key: nodes[key].concept, when=on("prerequisite")),
        symptom=menu(tuple(course.symptoms()), label="symptom", when=on("failure")),
        pair=menu(tuple(course.conflicts()), label="conflict", when=on("synthesis")),
    )


def _map_of_needs(key: str) -> tuple[Picture, str]:
    node = course.nodes()[key]
    figure = _draw_nodes({key}, _all_needs(key), f"What “{node.concept}” needs")
    links = " · ".join(chapter_link(number) for number in node.chapters)
    says = {
        "needs": node.prerequisite,
        "constraint": node.pressure,
        "layer of the stack": node.layer,
        "returns": node.recurs,
    }
    cells = [(name, html.escape(text)) for name, text in says.items()]
    return figure, table((html.escape(node.concept), ""), [*cells, ("chapters", links)])


def _map_of_failure(name: str) -> tuple[Picture, str]:
    symptom = course.symptoms()[name]
    figure = _draw_nodes(set(symptom.nodes), set(), f"Symptom: {name}")
    body = [(chapter_link(number), html.escape(reason)) for number, reason in symptom.chapters]
    return figure, table(("open, in this order", "look for"), body, caption=html.escape(symptom.looks_like))


def _map_of_conflict(pair: str) -> tuple[Picture, str]:
    conflict = course.conflicts()[pair]
    figure = _draw_nodes({conflict.one, conflict.other}, set(), f"In conflict: {pair}", fight=True)
    links = " · ".join(chapter_link(number) for number in conflict.chapters)
    return figure, f"<p>{html.escape(conflict.question)}</p><p>{links}</p>"


def _all_needs(key: str) -> set[str]:
    """Every idea that comes before this one."""
    needs = course.nodes()[key].needs
    return set(needs).union(*map(_all_needs, needs))


def _draw_nodes(marked: set[str], needed: set[str], title: str, fight: bool = False) -> Picture:
    figure, axes = style.new(3.1, left=0.08, right=0.08, bottom=0.3, top=0.4)
    style.bare(axes)
    nodes = course.nodes()
    for node in nodes.values():
        for need in node.needs:
            on = need in needed and (node.key in needed or node.key in marked)
            _arrow(axes, nodes[need].place, node.place, INK if on else "#c4cad1", 1.8 if on else 1.0)
    for node in nodes.values():
        fill = (VERMILION if fight else BLUE) if node.key in marked else SKY if node.key in needed else EMPTY
        _box(axes, node, fill)
    axes.set(xlim=(-0.48, 5.48), ylim=(1.4, -0.65))
    style.dress(axes, title)
    note = "red: the two in conflict" if fight else "blue: chosen, light blue: needed before it"
    if not all(present(course.chapter(node.home).folder) for node in nodes.values()):
        note += "; dashed: chapter not available yet"
    figure.text(0.015, 0.035, note, fontsize=style.SMALL, color=SOFT)
    chosen, before = (", ".join(nodes[key].concept for key in nodes if key in keys) for keys in (marked, needed))
    figure.alt = f"Course map of {len(nodes)} ideas. {title}. Marked: {chosen}."
    figure.alt += f" Needed before: {before}." if before else ""
    return figure


def _box(axes: Axes, node: course.Node, fill: str) -> None:
    x, y = node.place
    here = present(course.chapter(node.home).folder)
    axes.add_patch(
        FancyBboxPatch(
            (x - _WIDE / 2, y - _TALL / 2),
            _WIDE,
            _TALL,
            boxstyle="round,pad=0,rounding_size=0.06",
            facecolor=fill,
            edgecolor=INK if here else SOFT,
            linestyle="solid" if here else (0, (4, 3)),
            linewidth=1.1,
            zorder=3,
        )
    )
    words = textwrap.fill(node.concept, 14, break_long_words=False, break_on_hyphens=False)
    about = f"{words}\n{' · '.join(node.chapters)}"
    axes.text(x, y, about, color=ink_on(fill), ha="center", va="center", fontsize=7.8, zorder=4, linespacing=1.2)


def _arrow(axes: Axes, start: tuple[float, float], stop: tuple[float, float], paint: str, width: float) -> None:
    (x, y), (to_x, to_y), bend = start, stop, 0.0
    if y == to_y and to_x - x > 1.5:  # over the boxes between
        ends, bend = ((x + 0.15, y - _TALL / 2), (to_x - 0.15, to_y - _TALL / 2)), -0.16
    elif y == to_y:
        ends = ((x + _WIDE / 2, y), (to_x - _WIDE / 2, to_y))
    elif x == to_x:
        ends = ((x, y + _TALL / 2), (to_x, to_y - _TALL / 2))
    else:
        ends = ((x + 0.2, y + _TALL / 2), (to_x - _WIDE / 2, to_y))
    axes.add_patch(
        FancyArrowPatch(
            *ends,
            connectionstyle=f"arc3,rad={bend}",
            arrowstyle="-|>",
            mutation_scale=9,
            color=paint,
            linewidth=width,
            shrinkA=0,
            shrinkB=0,
            zorder=2,
        )
    )
