"""Chapter 00's widgets: a ring that moves, the course map with its three routes, glossary, cards, matching."""

import html
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Any

from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from course_lib.cluster import Run, simulate
from course_lib.facts import course
from course_lib.figures import ring, style
from course_lib.figures.palette import BLUE, EMPTY, INK, PAPER, SKY, SOFT, VERMILION, ink_on
from course_lib.figures.style import Picture
from course_lib.records import Message
from course_lib.units import bytes_text, duration_text
from course_lib.widgets.explore import Explorer, explore, in_notebook, menu, play, slider, text_box, toggle
from course_lib.widgets.links import chapter_link, present, table

# --- a ring of ranks ------------------------------------------------------------------------------


def frames(messages: list[Message]) -> list[list[Message]]:
    """Messages in the order in which they left, those that left together in one frame."""
    ordered = sorted(messages, key=lambda message: (message.sent, message.src))
    return [list(group) for _, group in groupby(ordered, key=lambda message: message.sent)]


def draw_ring(messages: list[Message], ranks: int, step: int) -> Picture:
    """The ring after `step` frames of messages: who has the token, who had it, what is on its way."""
    steps = frames(messages)
    step = min(step, len(steps))
    if not steps:
        return ring(ranks, title=f"A ring of {ranks} ranks", note="No message was sent.")
    if step == 0:
        starts = {message.src for message in steps[0]}
        return ring(ranks, holders=starts, title=f"A ring of {ranks} ranks", note="Before the first message.")
    now = steps[step - 1]
    before = {rank for frame in steps[:step] for message in frame for rank in (message.src, message.dst)}
    holders = {message.dst for message in now}
    moving = {(message.src, message.dst) for message in now}
    sent = sum(message.nbytes for frame in steps[:step] for message in frame)
    who = ", ".join(f"{one} → {other}" for one, other in sorted(moving)[:4]) + (
        " …" if len(moving) > 4 else ""
    )
    note = f"{who}; {bytes_text(sent)} sent so far, {duration_text(max(m.arrived for m in now))} of the run's clock"
    title = f"A ring of {ranks} ranks, step {step} of {len(steps)}"
    return ring(ranks, holders=holders, visited=before - holders, moving=moving, title=title, note=note)


def ring_stepper(what: Run | Callable[..., Any], counts: tuple[int, ...] = (2, 3, 5, 8, 13)) -> Explorer:
    """Step through the messages of a run; given a function of a communicator, on any number of ranks.

    The function is run on the simulated ranks once for each count that is looked at.
    """
    if isinstance(what, Run):
        last = len(frames(list(what.messages)))
        return explore(
            lambda step: draw_ring(list(what.messages), what.ranks, step),
            step=play(range(last + 1), label="step", interval=500),
        )

    @lru_cache
    def messages(ranks: int) -> tuple[Message, ...]:
        return tuple(simulate(what, ranks=ranks).messages)

    most = max(len(frames(list(messages(ranks)))) for ranks in counts)
    start = 8 if 8 in counts else counts[-1]
    return explore(
        lambda ranks, step: draw_ring(list(messages(ranks)), ranks, step),
        ranks=slider(counts, start, label="ranks"),
        step=play(range(most + 1), label="step", interval=500),
    )


# --- the course map -------------------------------------------------------------------------------

ROUTES = ("prerequisite", "failure", "synthesis")
_WIDE, _TALL = 0.8, 0.6  # of one place of the grid


def draw_map(route: str, idea: str, symptom: str, pair: str) -> str:
    """The map with a route's choice marked, and the row that belongs to it; links to chapters that exist."""
    picture = {"prerequisite": _map_of_needs, "failure": _map_of_failure, "synthesis": _map_of_conflict}
    if route not in picture:
        raise ValueError(f"route is {route!r}; choose from {', '.join(ROUTES)}.")
    shown, row = picture[route]({"prerequisite": idea, "failure": symptom, "synthesis": pair}[route])
    return f"{style.page(shown)}{row}"


def course_map() -> Explorer:
    """Three ways through the course: by what an idea needs, from a symptom, and by two mechanisms that fight."""
    nodes = course.nodes()
    return explore(
        draw_map,
        route=menu(ROUTES, label="route"),
        idea=menu(tuple(nodes), label="idea (prerequisite)", text=lambda key: nodes[key].concept),
        symptom=menu(tuple(course.symptoms()), label="symptom (failure)"),
        pair=menu(tuple(course.conflicts()), label="who fights (synthesis)"),
    )


def _map_of_needs(key: str) -> tuple[Picture, str]:
    node = course.nodes()[key]
    wide = _all_needs(key)
    figure = _draw_nodes({key}, wide, f"What “{node.concept}” needs")
    links = " · ".join(chapter_link(number) for number in node.chapters)
    cells = [(name, html.escape(text)) for name, text in (
        ("needs", node.prerequisite), ("pressure", node.pressure), ("layer it touches", node.layer),
        ("returns as", node.recurs))]  # fmt: skip
    return figure, table((html.escape(node.concept), ""), [*cells, ("chapters", links)])


def _map_of_failure(name: str) -> tuple[Picture, str]:
    symptom = course.symptoms()[name]
    figure = _draw_nodes(set(symptom.nodes), set(), f"Symptom: {name}")
    body = [(chapter_link(number), html.escape(reason)) for number, reason in symptom.chapters]
    return figure, table(
        ("open, in this order", "to look for"), body, caption=html.escape(symptom.looks_like)
    )


def _map_of_conflict(pair: str) -> tuple[Picture, str]:
    conflict = course.conflicts()[pair]
    figure = _draw_nodes({conflict.one, conflict.other}, set(), f"Who fights: {pair}", fight=True)
    links = " · ".join(chapter_link(number) for number in conflict.chapters)
    return figure, f"<p>{html.escape(conflict.question)}</p><p>{links}</p>"


def _all_needs(key: str) -> set[str]:
    """Everything that has to be read before an idea."""
    found: set[str] = set()
    todo = list(course.nodes()[key].needs)
    while todo:
        need = todo.pop()
        if need not in found:
            found.add(need)
            todo += course.nodes()[need].needs
    return found


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
    note = "blue: chosen, light blue: needed before it; dashed: chapter not there yet"
    note = "red: the two that fight; dashed: chapter not there yet" if fight else note
    figure.text(0.015, 0.035, note, fontsize=style.SMALL, color=SOFT)
    chosen = ", ".join(nodes[key].concept for key in nodes if key in marked)
    before = ", ".join(nodes[key].concept for key in nodes if key in needed)
    figure.alt = f"Course map of {len(nodes)} ideas. {title}. Marked: {chosen}.{f' Needed before: {before}.' if before else ''}"
    return figure


def _box(axes: Any, node: course.Node, fill: str) -> None:
    x, y = node.place
    here = present(course.chapter(node.home).folder)
    axes.add_patch(FancyBboxPatch((x - _WIDE / 2, y - _TALL / 2), _WIDE, _TALL, boxstyle="round,pad=0,rounding_size=0.06",
                                  facecolor=fill, edgecolor=INK if here else SOFT, linewidth=1.1,
                                  linestyle="-" if here else (0, (4, 3)), zorder=3))  # fmt: skip
    words = _lines(node.concept) + f"\n{' · '.join(node.chapters)}"
    axes.text(
        x, y, words, ha="center", va="center", fontsize=7.8, color=ink_on(fill), zorder=4, linespacing=1.2
    )


def _arrow(
    axes: Any, start: tuple[float, float], stop: tuple[float, float], paint: str, width: float
) -> None:
    (x, y), (to_x, to_y), bend = start, stop, 0.0
    if y == to_y and to_x - x > 1.5:  # over the boxes between
        ends, bend = ((x + 0.15, y - _TALL / 2), (to_x - 0.15, to_y - _TALL / 2)), -0.16
    elif y == to_y:
        ends = ((x + _WIDE / 2, y), (to_x - _WIDE / 2, to_y))
    elif x == to_x:
        ends = ((x, y + _TALL / 2), (to_x, to_y - _TALL / 2))
    else:
        ends = ((x + 0.2, y + _TALL / 2), (to_x - _WIDE / 2, to_y))
    axes.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=9, linewidth=width, color=paint,
                                   connectionstyle=f"arc3,rad={bend}", shrinkA=0, shrinkB=0, zorder=2))  # fmt: skip


def _lines(words: str, most: int = 14) -> str:
    """Words over lines of about `most` letters."""
    lines = [""]
    for word in words.split():
        if lines[-1] and len(lines[-1]) + len(word) >= most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


# --- glossary and cards ---------------------------------------------------------------------------


def draw_glossary(search: str = "") -> str:
    """The terms whose name, meaning or note has all the words that were typed, with their chapters."""
    words = search.casefold().split()
    found = [
        term
        for term in course.glossary().values()
        if all(word in f"{term.term} {term.meaning} {term.note}".casefold() for word in words)
    ]
    if not found:
        return f"<p>No term has “{html.escape(search)}”. Try a part of a word.</p>"
    body = [
        (
            html.escape(term.term),
            html.escape(f"{term.meaning} {f'({term.note})' if term.note else ''}"),
            chapter_link(term.chapter),
        )
        for term in found
    ]
    return table(
        ("term", "meaning", "chapter"), body, caption=f"{len(found)} of {len(course.glossary())} terms"
    )


def glossary() -> Explorer:
    """The glossary with a line to search in."""
    return explore(draw_glossary, search=text_box(label="search"), alt="Glossary of the course.")


def flash_cards(seed: int = 0) -> Explorer:
    """The glossary as cards: say the meaning, then turn the card. Another seed shuffles anew."""
    terms = list(course.glossary().values())
    random.Random(seed).shuffle(terms)

    def card(number: int, turned: bool) -> str:
        term = terms[number - 1]
        back = html.escape(term.meaning) if turned else "<i>Say what it means, then turn the card.</i>"
        link = f"<br>{chapter_link(term.chapter)}" if turned else ""
        look = f"border:1px solid {SOFT};border-radius:8px;padding:1em 1.4em;max-width:34em;background:{PAPER};color:{INK}"
        return f'<div style="{look}"><b style="font-size:1.2em">{html.escape(term.term)}</b><p>{back}{link}</p></div>'

    cards = range(1, len(terms) + 1)
    return explore(
        card,
        number=slider(cards, label="card", text=lambda number: f"{number} of {len(terms)}"),
        turned=toggle(label="turned"),
        alt="A flash card of the glossary.",
    )


# --- matching -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Matching:
    """A learner's matching of strategies to properties and collectives, as chosen so far."""

    answers: dict[str, tuple[str, str]] = field(default_factory=dict)  # strategy: (property, collective)

    def right(self) -> dict[str, bool]:
        """Whether both halves of each chosen row are right."""
        rows = course.thesis()
        return {
            name: pair == (rows[name].property, rows[name].collective) for name, pair in self.answers.items()
        }

    def _repr_html_(self) -> str:
        """The choices as a table."""
        body = [
            (html.escape(name), *map(html.escape, self.answers.get(name, ("–", "–"))))
            for name in course.thesis()
        ]
        return table(("strategy", "property", "what the ranks say"), body)


def matching(seed: int = 0) -> Matching:
    """Drop-down lists that match each strategy to its property and its collective; returns the choices.

    Without ipywidgets the table is shown, and choices are set as `m.answers["tensor parallel"] = (…, …)`.
    """
    made, rows = Matching(), course.thesis()
    properties = sorted({row.property for row in rows.values()})
    collectives = sorted({row.collective for row in rows.values()})
    random.Random(seed).shuffle(properties)
    if not in_notebook():
        return made
    try:
        import ipywidgets
    except ImportError:
        return made
    from IPython.display import display

    said = ipywidgets.HTML(value="Choose both halves of each row.")
    lines = [_match_row(ipywidgets, made, said, name, properties, collectives) for name in rows]
    box = ipywidgets.VBox([*lines, said], layout=ipywidgets.Layout(max_width="56em"))
    display({**box._repr_mimebundle_(), "text/plain": "(Run this cell to match.)"}, raw=True)
    return made


def _match_row(
    ipywidgets: Any, made: Matching, said: Any, name: str, properties: list[str], collectives: list[str]
) -> Any:
    boxes = [
        ipywidgets.Dropdown(options=[("choose …", ""), *((text, text) for text in texts)], value="", description=words,
                            style={"description_width": "6.5em"}, layout=ipywidgets.Layout(width="21em"))
        for words, texts in (("property", properties), ("ranks say", collectives))
    ]  # fmt: skip

    def chosen(_: object) -> None:
        pair = (boxes[0].value, boxes[1].value)
        if all(pair):
            made.answers[name] = pair
        else:
            made.answers.pop(name, None)
        right = made.right()
        said.value = (
            f"{sum(right.values())} of {len(course.thesis())} rows are right, {len(right)} are filled in."
        )

    for each in boxes:
        each.observe(chosen, "value")
    label = ipywidgets.HTML(value=f"<b>{html.escape(name)}</b>", layout=ipywidgets.Layout(width="13em"))
    return ipywidgets.HBox([label, *boxes])
