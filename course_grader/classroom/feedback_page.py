"""The page that a student gets back: points, verdicts of each exercise, the student's answers, and a grader's comments.

One file without scripts or network requests, for light and dark mode. All text from others is escaped or cleaned, and a
content security policy is a second barrier.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from html import escape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from course_grader.classroom.host_details import without
from course_grader.classroom.safe_html import safe_markdown
from course_grader.clean_text import clean
from course_grader.exercises import Card
from course_grader.judge.result_panel import happened, look, rows
from course_grader.records import Report
from course_grader.worker.plain_values import NOT_ANSWERED

ANSWER_CHARACTERS = 20_000  # of one answer that are shown
FIRST = 3  # exercises that the page suggests to look at next
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """One exercise of the page."""

    card: Card
    report: Report
    answer: str = ""  # the student's source; "" where there is none
    statement: str = ""  # Markdown, with the student's numbers
    score: float | None = None  # from the gradebook; the report's points if it has none
    by_hand: bool = False  # whether a grader set the score
    comment: str = ""  # Markdown of a grader

    @property
    def points(self) -> float:
        """The points that count."""
        return self.report.points if self.score is None else self.score

    @property
    def open(self) -> bool:
        """Whether points are missing."""
        return self.points < self.report.maximum

    @property
    def mend(self) -> bool:
        """Whether points are missing that a better answer would earn."""
        return self.open and not self.report.passed


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An answer that only a person can grade."""

    name: str
    source: str
    markdown: bool = True
    score: float | None = None  # None until it is graded
    maximum: float = 0.0
    by_hand: bool = True  # whether a person set the score; else nothing was written
    comment: str = ""

    @property
    def title(self) -> str:
        """The question's heading; the cell's name if it has none."""
        heading = re.match(r"#+ +(\S.*)", self.source) if self.markdown else None
        return clean(heading[1], 100) if heading else self.name

    @property
    def state(self) -> str:
        """Its state, in words."""
        if self.score is None:
            return "Not graded yet"
        return "Graded by a person" if self.by_hand else "Not answered"

    @property
    def look(self) -> str:
        """The CSS class that colors its edge."""
        if self.score is None or not self.by_hand:
            return "open"
        return "partly" if self.score < self.maximum else "passed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The content of a feedback page."""

    title: str
    student: str
    course: str
    exercises: Sequence[Exercise]
    written: Sequence[Written] = ()
    own: Sequence[Written] = ()  # cells that the student added
    notes: Sequence[str] = ()  # about the notebook, in words
    trouble: str = ""  # why the notebook as a whole could not be graded
    penalty: float = 0.0  # points taken off for lateness
    arrived: datetime | None = None
    arrival_known: bool = True  # whether somebody said when; an assumed moment is not shown
    due: datetime | None = None
    key: str = ""  # of the report, so that a question about a grade can name it
    score: float = field(init=False, default=0.0)
    maximum: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        earned = sum(each.points for each in self.exercises) + sum(each.score or 0.0 for each in self.written)
        possible = sum(each.report.maximum for each in self.exercises) + sum(each.maximum for each in self.written)
        object.__setattr__(self, "score", max(round(earned - self.penalty, 2), 0.0))
        object.__setattr__(self, "maximum", possible)

    @property
    def late(self) -> str:
        """How late the work was, in words; "" if in time."""
        if self.arrived is None or self.due is None or self.arrived <= self.due:
            return ""
        return f"{_duration(self.arrived - self.due)} late"

    @property
    def waiting(self) -> bool:
        """Whether a person still has to grade something."""
        return any(each.score is None for each in self.written)

    def first(self) -> list[Exercise]:
        """The exercises to look at first: core before more, started before untouched, in the chapter's order.

        Where only a person took points off, the checks have nothing to say; the grader's comment is at the exercise.
        """
        missing = [each for each in self.exercises if each.mend]
        return sorted(missing, key=lambda each: (each.card.kind != "core", each.report.state == "not answered"))[:FIRST]


def _duration(span: timedelta) -> str:
    """A duration in words, in its largest unit: "2 hours"."""
    seconds = span.total_seconds()
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return "less than a minute"


def render(page: Page) -> str:
    """The page as one HTML file."""
    css = (_HERE / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(css.encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    return _template().render(page=page, css=Markup(css), policy=policy)


@cache
def _template():  # noqa: ANN202 (jinja2's own type)
    jinja = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    jinja.filters |= {
        "inline": inline,
        "code": code,
        "markdown": lambda text: Markup(safe_markdown(text)),
        "number": number,
        "moment": moment,
    }
    jinja.globals |= {"happened": happened, "look": look, "verdicts": rows, "why": why, "marks": marks, "ring": ring}
    return jinja.get_template("page.html.j2")


# ------------------------------------------------------------------------------------------------ pieces of it


def inline(text: str) -> Markup:
    """A message of the judge: escaped, with text in backticks set as code."""
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(clean(without(text), 2000))))


def code(source: str) -> Markup:
    """Python with colors; long code is cut, with a note."""
    text = clean(source, ANSWER_CHARACTERS)
    return Markup(highlight(text, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True)))


def number(value: float) -> str:
    """Points for reading: 3, 2.5, 0.33."""
    return f"{round(value, 2):g}"


def moment(value: datetime) -> str:
    """A time: 21 November 2026, 18:03 (UTC+01:00)."""
    zone = value.strftime("%Z") or value.strftime("%z")
    return f"{value.day} {value.strftime('%B %Y, %H:%M')}{f' ({zone})' if zone else ''}"


def why(report: Report) -> str:
    """What a report without verdicts says, without repeating the headline."""
    if not report.note or report.note == NOT_ANSWERED or any(message == report.note for _, _, message in rows(report)):
        return ""
    said, _, rest = report.note.partition(": ")
    return rest[0].upper() + rest[1:] if said == happened(report) and rest else report.note


def marks(report: Report) -> list[tuple[str, str, str]]:
    """(verdict kind, sign, words) for every kind that was asked."""
    words = {"yes": ("✓", "holds"), "no": ("✗", "does not hold"), "–": ("–", "counts once the values are right")}
    return [(kind, *words[mark]) for kind, mark, _ in rows(report)]


def ring(share: float) -> Markup:
    """A ring of which `share` (0 to 1) is drawn bold, as SVG without style attributes."""
    length = 2 * 3.14159265 * 42
    filled = length * min(max(share, 0.0), 1.0)
    arc = (
        (
            f'<circle class="arc" cx="50" cy="50" r="42" stroke-dasharray="{filled:.2f} {length:.2f}" '
            'transform="rotate(-90 50 50)"/>'
        )
        if filled > 0
        else ""
    )
    return Markup(
        f'<svg class="ring" viewBox="0 0 100 100" aria-hidden="true"><circle class="track" cx="50" cy="50" '
        f'r="42"/>{arc}</svg>'
    )
