"""What a class found hard: exercises by share solved, named mistakes by count, and anomalies. As text, data and a
picture.
"""

import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from course_grader.classroom.export import gradebook_scores
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.status import current
from course_grader.clean_text import clean
from course_grader.judge.report import ReportData
from course_grader.notebooks import write_whole
from course_grader.records import VERDICT_KINDS
from course_grader.service.results import Result
from course_lib.messages import count_text

if TYPE_CHECKING:
    from course_lib.draw import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Misconception:
    """A mistake with a name, or a kind of verdict that failed, and how many students made it."""

    exercise: str
    title: str
    name: str  # the mistake's name, else the verdict's kind or the state
    kind: str
    students: tuple[str, ...]
    message: str  # what one of them was told


@dataclass(frozen=True, slots=True, kw_only=True)
class Hard:
    """One exercise: how many students solved it, solved it in part, failed, or left it out."""

    exercise: str
    title: str
    solved: int
    partly: int
    wrong: int
    open: int

    @property
    def share(self) -> float:
        """The fraction of submissions that solved it."""
        return self.solved / max(self.solved + self.partly + self.wrong + self.open, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChapterReport:
    """The results of a class for one chapter."""

    chapter: str
    title: str
    graded: int  # submissions that could be read; the counts below are theirs
    unreadable: tuple[str, ...]  # students whose submission could not be read
    mean: float
    median: float
    maximum: float
    exercises: tuple[Hard, ...]  # the hardest first
    misconceptions: tuple[Misconception, ...]  # the most frequent first
    anomalies: tuple[str, ...]


def chapter_report(folder: ClassFolder, chapter: str) -> ChapterReport:
    """One chapter's report, from the judged submissions that count."""
    every = current(folder, chapter)
    found = {student: each for student, each in every.items() if each.get("state") != "refused"}
    scores = gradebook_scores(folder, chapter) if found else {}
    points = sorted(scores.get(student, float(each.get("points", 0.0))) for student, each in found.items())
    middle = len(points) // 2
    median = 0.0 if not points else points[middle] if len(points) % 2 else (points[middle - 1] + points[middle]) / 2
    return ChapterReport(
        chapter=chapter,
        title=folder.settings.assignment(chapter),
        graded=len(found),
        unreadable=tuple(sorted(every.keys() - found.keys())),
        mean=sum(points) / len(points) if points else 0.0,
        median=median,
        maximum=folder.exercises.maximum(chapter),
        exercises=tuple(_hard(folder, chapter, found)),
        misconceptions=tuple(_misconceptions(folder, chapter, found)),
        anomalies=(*_anomalies(every), *_alike(folder, chapter)),
    )


def _hard(folder: ClassFolder, chapter: str, found: Mapping[str, Result]) -> list[Hard]:
    made = []
    for card in folder.exercises.cards(chapter):
        states: Counter[str] = Counter()
        for each in found.values():
            states[_state(_of(each, card.id))] += 1
        made.append(
            Hard(
                exercise=card.id,
                title=card.title,
                solved=states["solved"],
                partly=states["partly"],
                wrong=states["wrong"],
                open=states["open"],
            )
        )
    return sorted(made, key=lambda each: each.share)


def _of(report: Result, exercise: str) -> ReportData | None:
    return next((each for each in report.get("reports", []) if each["id"] == exercise), None)


def _state(report: ReportData | None) -> str:
    if not report or report.get("state") == "not answered":
        return "open"
    if report.get("passed"):
        return "solved"
    return "partly" if report.get("points") else "wrong"


def _misconceptions(folder: ClassFolder, chapter: str, found: Mapping[str, Result]) -> list[Misconception]:
    """Each student counts once per exercise and name. Failures without a named mistake count under the first kind that
    failed.
    """
    met: dict[tuple[str, str, str], dict[str, str]] = {}
    for student, whole in found.items():
        for each in whole.get("reports", []):
            for name, kind, message in _failures(each):
                met.setdefault((each["id"], name, kind), {}).setdefault(student, message)
    titles = {card.id: card.title for card in folder.exercises.all_cards(chapter)}
    made = [
        Misconception(
            exercise=exercise,
            title=titles.get(exercise, exercise),
            name=name,
            kind=kind,
            students=tuple(sorted(who)),
            message=clean(next(iter(who.values())), 300),
        )
        for (exercise, name, kind), who in met.items()
    ]
    return sorted(made, key=lambda each: (-len(each.students), each.exercise, each.name))


def _failures(report: ReportData) -> list[tuple[str, str, str]]:
    state = report.get("state")
    if state not in ("answered", "not answered", None):
        return [(str(state), "state", str(report.get("note", "")))]
    failed = [verdict for verdict in report.get("verdicts", []) if not verdict.get("ok")]
    named = {verdict["mistake"]: verdict for verdict in reversed(failed) if verdict.get("mistake")}
    if named:
        return [(name, verdict["kind"], verdict.get("message", "")) for name, verdict in named.items()]
    first = next((verdict for kind in VERDICT_KINDS for verdict in failed if verdict.get("kind") == kind), None)
    return [(first["kind"], "verdict", first.get("message", ""))] if first else []


def _anomalies(found: Mapping[str, Result]) -> list[str]:
    return [
        clean(
            f"{student}: {each['exercise']}: {each['text']}" if each["exercise"] else f"{student}: {each['text']}", 300
        )
        for student in sorted(found)
        for each in found[student].get("anomalies", [])
    ]


def _alike(folder: ClassFolder, chapter: str) -> list[str]:
    """A line for each pair of students whose answers are equal except for names."""
    from course_grader.service.grading import alike_in

    return [clean(each["text"], 300) for each in alike_in(folder, chapter)]


def as_data(reports: Sequence[ChapterReport]) -> dict[str, object]:
    """Plain JSON data."""
    return {"chapters": [asdict(report) for report in reports]}


# ------------------------------------------------------------------------------------------------ to look at


def picture(report: ChapterReport) -> "Picture":
    """A bar for each exercise: solved, in part, wrong, not answered; the hardest on top."""
    from matplotlib.ticker import AutoLocator

    from course_lib.draw import style
    from course_lib.draw.palette import EMPTY, GREEN, INK, SKY, VERMILION, ink_on

    rows = list(reversed(report.exercises))
    figure, axes = style.new(1.45 + 0.34 * len(rows), left=2.9, right=0.35, bottom=0.95, top=0.5)
    parts = (("solved", GREEN), ("in part", SKY), ("wrong", VERMILION), ("not answered", EMPTY))
    starts = [0.0] * len(rows)
    for (name, fill), field in zip(parts, ("solved", "partly", "wrong", "open"), strict=True):
        counts = [getattr(each, field) for each in rows]
        axes.barh(
            range(len(rows)), counts, left=starts, color=fill, height=0.72, label=name, edgecolor="white", linewidth=0.8
        )
        for place, (start, count) in enumerate(zip(starts, counts, strict=True)):
            if count > report.graded / 40:  # the smallest share with room for a number
                axes.text(
                    start + count / 2,
                    place,
                    str(count),
                    ha="center",
                    va="center",
                    fontsize=style.SMALL,
                    color=ink_on(fill),
                )
        starts = [start + count for start, count in zip(starts, counts, strict=True)]
    axes.set_yticks(range(len(rows)), [_short(each.title) for each in rows], fontsize=style.SMALL)
    axes.set_xlim(0, max(report.graded, 1))
    marks = AutoLocator()
    marks.set_params(integer=True)
    axes.xaxis.set_major_locator(marks)
    style.dress(axes, f"{report.title}: who solved what", x="students")
    below = -0.52 / (0.34 * len(rows))  # inches under the axes, as a part of their height
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.3, below), ncol=4, frameon=False, fontsize=style.SMALL, labelcolor=INK
    )
    figure.alt = (
        f"Bars of {count_text(len(rows), 'exercise')} of {report.title}, {count_text(report.graded, 'student')}: "
        + "; ".join(
            f"{each.title}: {each.solved} solved, {each.partly} in part, {each.wrong} wrong, {each.open} not answered"
            for each in report.exercises
        )
    )
    return figure


def _short(title: str) -> str:
    return title if len(title) <= 44 else title[:43] + "…"


def write_page(folder: ClassFolder, reports: Sequence[ChapterReport], path: Path | None = None) -> Path:
    """One page with pictures, tables and anomalies. It loads nothing and runs nothing."""
    target = path or folder.root / "exports" / "report.html"
    body = "\n".join(_section(report) for report in reports)
    name = html.escape(folder.settings.name)
    write_whole(
        target,
        f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<style>{_STYLE}</style></head><body><h1>{name}</h1>{body}</body></html>
""",
    )
    return target


_STYLE = """:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;
  padding:0 1rem}
table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}th,td{text-align:left;padding:.3rem .6rem;
  border-bottom:1px solid #8886;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}svg{width:100%;max-width:46rem;height:auto;
  border-radius:6px}code{font-size:.9em}.soft{opacity:.75}"""


def _with_code(text: str) -> str:
    """A message as HTML, with text in backticks set as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _section(report: ChapterReport) -> str:
    if not report.graded:
        return f"<h2>{html.escape(report.title)}</h2><p>Nothing is graded yet.</p>"
    from course_lib.draw import style

    drawn = picture(report)
    mistakes = "".join(
        "<tr><td "
        f"class=n>{len(each.students)}</td><td>{html.escape(each.title)}</td><td><code>{html.escape(each.name)}</code></td><td>{_with_code(each.message)}</td></tr>"
        for each in report.misconceptions
    )
    unreadable = f" Could not be read: {html.escape(', '.join(report.unreadable))}." if report.unreadable else ""
    odd = "".join(f"<li>{html.escape(line)}</li>" for line in report.anomalies)
    return (
        f"<h2>{html.escape(report.title)}</h2><p>{report.graded} graded; mean {report.mean:.1f}, median "
        f"{report.median:.1f} of "
        f"{count_text(report.maximum, 'point')}.{unreadable}</p>{style.svg(drawn, drawn.alt, outlines=False)}"
        "<h3>Misconceptions</h3><table><tr><th class=n>students</th><th>exercise</th><th>mistake</th>"
        "<th>what they were told</th></tr>"
        f"{mistakes}</table>" + (f"<h3>Look at</h3><ul>{odd}</ul>" if odd else "")
    )
