"""Chapter 00's widgets: a ring that moves, glossary, cards, matching; its map is in `ch00_map`."""

import html
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from course_chapters import course
from course_chapters.ch00.course_map import course_map as course_map
from course_chapters.ch00.course_map import draw_map as draw_map
from course_chapters.links import chapter_link, table
from course_lib.cluster import Run, simulate
from course_lib.cluster.records import Message
from course_lib.draw import ring
from course_lib.draw.explore import Explorer, explore, in_notebook, play, show_widget, slider, text_box, toggle
from course_lib.draw.palette import INK, PAPER, SOFT
from course_lib.draw.style import Picture
from course_lib.estimate.units import bytes_text, duration_text

if TYPE_CHECKING:
    import ipywidgets

# --- a ring of ranks ------------------------------------------------------------------------------


def frames(messages: list[Message]) -> list[list[Message]]:
    """Messages in the order in which they left, those that left together in one frame."""
    ordered = sorted(messages, key=lambda message: (message.sent, message.src))
    return [list(group) for _, group in groupby(ordered, key=lambda message: message.sent)]


def draw_ring(messages: list[Message], ranks: int, step: int) -> Picture:
    """The ring after `step` frames of messages: which ranks have the token or had it, and what is being sent."""
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
    who = ", ".join(f"{one} → {other}" for one, other in sorted(moving)[:4]) + (" …" if len(moving) > 4 else "")
    note = f"{who}; {bytes_text(sent)} sent so far, virtual time {duration_text(max(m.arrived for m in now))}"
    title = f"A ring of {ranks} ranks, step {step} of {len(steps)}"
    return ring(ranks, holders=holders, visited=before - holders, moving=moving, title=title, note=note)


def ring_stepper(what: Run | Callable[..., object], counts: tuple[int, ...] = (2, 3, 5, 8, 13)) -> Explorer:
    """Step through the messages of a run; given a function of a communicator, on any number of ranks.

    The function runs on the simulated ranks once for each count that is shown.
    """
    if isinstance(what, Run):
        sent = list(what.messages)
        step = play(range(len(frames(sent)) + 1), label="step", interval=500)
        return explore(lambda step: draw_ring(sent, what.ranks, step), step=step)

    @lru_cache
    def messages(ranks: int) -> list[Message]:
        return list(simulate(what, ranks=ranks).messages)

    ranks = slider(counts, 8 if 8 in counts else counts[-1], label="ranks")
    step = play(range(max(len(frames(messages(ranks))) for ranks in counts) + 1), label="step", interval=500)
    return explore(lambda ranks, step: draw_ring(messages(ranks), ranks, step), ranks=ranks, step=step)


# --- glossary and cards ---------------------------------------------------------------------------


_SHOWN = 8  # terms; with more, the search line leaves the screen


def draw_glossary(search: str = "") -> str:
    """The first terms whose name, meaning or note has all the typed words, with their chapters."""
    words = search.casefold().split()
    found = [term for term in course.glossary().values() if all(word in _text(term).casefold() for word in words)]
    if not found:
        return f"<p>No term contains “{html.escape(search)}”. Try part of a word.</p>"
    body = [
        (html.escape(term.term), html.escape(_meaning(term)), chapter_link(term.chapter)) for term in found[:_SHOWN]
    ]
    more = f"; the first {_SHOWN} are shown, type a word to search" if len(found) > _SHOWN else ""
    caption = f"{len(found)} of {len(course.glossary())} terms{more}"
    return table(("term", "meaning", "chapter"), body, caption=caption)


def _text(term: course.Term) -> str:
    return f"{term.term} {term.meaning} {term.note}"


def _meaning(term: course.Term) -> str:
    return f"{term.meaning} ({term.note})" if term.note else term.meaning


def glossary() -> Explorer:
    """The glossary with a search line."""
    return explore(draw_glossary, search=text_box(label="search"), alt="Glossary of the course.")


def flash_cards(seed: int = 0) -> Explorer:
    """The glossary as flash cards: say the meaning, then turn the card. Another seed gives another order."""
    terms = list(course.glossary().values())
    random.Random(seed).shuffle(terms)

    def card(number: int, turned: bool) -> str:
        term = terms[number - 1]
        back = html.escape(term.meaning) if turned else "<i>Say what it means, then turn the card.</i>"
        link = f"<br>{chapter_link(term.chapter)}" if turned else ""
        box = f"border:1px solid {SOFT};border-radius:8px;padding:1em 1.4em;max-width:34em"
        look = f"{box};background:var(--jp-layout-color1,{PAPER});color:var(--jp-content-font-color1,{INK})"
        return f'<div style="{look}"><b style="font-size:1.2em">{html.escape(term.term)}</b><p>{back}{link}</p></div>'

    number = slider(range(1, len(terms) + 1), label="card", text=lambda number: f"{number} of {len(terms)}")
    return explore(card, number=number, turned=toggle(label="turned"), alt="A flash card of the glossary.")


# --- matching -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Matching:
    """A learner's matching of strategies to properties and collectives, as chosen so far."""

    answers: dict[str, tuple[str, str]] = field(default_factory=dict)  # strategy: (property, collective)

    def right(self) -> dict[str, bool]:
        """Whether both halves of each chosen row are right."""
        rows = course.thesis()
        return {name: pair == (rows[name].property, rows[name].collective) for name, pair in self.answers.items()}

    def _repr_html_(self) -> str:
        """The choices as a table."""
        body = [(html.escape(name), *map(html.escape, self.answers.get(name, ("–", "–")))) for name in course.thesis()]
        return table(("strategy", "property", "communication"), body)


def matching(seed: int = 0) -> Matching:
    """Drop-down lists that match each strategy to its property and its collective; returns the choices.

    Without ipywidgets the table is shown, and choices are set by `m.answers["tensor parallel"] = (…, …)`.
    """
    choices, rows = Matching(), course.thesis()
    properties = sorted({row.property for row in rows.values()})
    collectives = sorted({row.collective for row in rows.values()})
    random.Random(seed).shuffle(properties)
    if not in_notebook():
        return choices
    try:
        import ipywidgets
    except ImportError:
        return choices
    note = ipywidgets.HTML(value="Choose both halves of each row.")
    lists = {"property": properties, "communication": collectives}
    lines = [_match_row(choices, note, name, lists) for name in rows]
    box = ipywidgets.VBox([*lines, note], layout=ipywidgets.Layout(max_width="56em"))
    show_widget(box, "(Run this cell to match.)")
    return choices


def _match_row(choices: Matching, note: "ipywidgets.HTML", name: str, lists: dict[str, list[str]]) -> "ipywidgets.HBox":
    import ipywidgets

    look = {"style": {"description_width": "6.5em"}, "layout": ipywidgets.Layout(width="21em")}
    boxes = [
        ipywidgets.Dropdown(options=[("choose …", ""), *((text, text) for text in texts)], description=words, **look)
        for words, texts in lists.items()
    ]

    def chosen(_: object) -> None:
        choices.answers.pop(name, None)
        if all(box.value for box in boxes):
            choices.answers[name] = (boxes[0].value, boxes[1].value)
        right = choices.right()
        note.value = f"{sum(right.values())} of {len(course.thesis())} rows are right, {len(right)} are filled in."

    for box in boxes:
        box.observe(chosen, "value")
    label = ipywidgets.HTML(value=f"<b>{html.escape(name)}</b>", layout=ipywidgets.Layout(width="13em"))
    return ipywidgets.HBox([label, *boxes])
