"""What recordings say as one page with pictures that needs no other file: to send to a colleague."""

import html
from collections.abc import Iterator, Sequence

from course_app.certificate.page import shell
from course_app.cli.explain import cause, chapters, heading
from course_app.recordings import Report
from course_app.recordings.kernel_trace import Traced
from course_lib.cluster.intervals import Interval, union
from course_lib.draw import Picture, wait_alt, wait_for, who_holds_what
from course_lib.draw import page as picture
from course_lib.draw.lanes import Lanes, computing_beside_talking
from course_lib.estimate.units import bytes_text, duration_text, percent_text

MOST_RANKS, MOST_ARROWS = 12, 30  # that a picture shows
FINEST = 1 / 600  # of a step: smaller gaps are closed, because they cannot be seen
MORE = """
figure { margin: 1.2rem 0; overflow-x: auto; }
@media (max-width: 40rem) { figure img { min-width: 34rem; } }
.finding { border-left: 3px solid var(--fill); padding: .1rem 0 .1rem .9rem; margin: .8rem 0; }
.finding p { margin: .15rem 0; }
"""


def page(reports: Sequence[Report]) -> str:
    """The whole page: for each report its findings, pictures, numbers and notes."""
    kinds = ", ".join(report.kind for report in reports)
    body = "".join(_section(place, report) for place, report in enumerate(reports))
    note = "<p>Numbers are computed from the files alone. A cause is a suggestion: look before you act on it.</p>"
    return shell(f"{kinds[0].upper()}{kinds[1:]}, explained", "explain", note, body, style=MORE)


def _section(place: int, report: Report) -> str:
    findings = "".join(
        f'<div class="finding"><p>{html.escape(each.what)}</p>'
        + (f'<p class="soft">{html.escape(cause(each))}</p>' if each.fault else "")
        + f'<p class="soft">Chapter {each.chapter}</p></div>'
        for each in report.findings
    )
    shown = "".join(f"<figure>{picture(each)}</figure>" for each in pictures(report))
    notes = "".join(f'<p class="soft">{html.escape(note)}</p>' for note in report.notes)
    return f"""<section aria-labelledby="report-{place}"><h2 id="report-{place}">{html.escape(heading(report))}</h2>
{findings}{shown}{_table(report)}{notes}
<p>Chapters that explain it: {html.escape("; ".join(chapters(report)))}.</p>
</section>
"""


def pictures(report: Report) -> Iterator[Picture]:
    """The chapters' pictures of a report: who waits for whom, who is busy when, who holds what."""
    if report.kind == "flight recorder" and 0 < len(report.waits) <= MOST_ARROWS:
        if 1 + max(max(one, other) for one, other, _ in report.waits) <= MOST_RANKS:
            yield _waits(report.waits)
    elif report.kind == "trace":
        device = next(iter(report.traced.values())).device
        lanes = [_lanes(rank, each) for rank, each in list(report.traced.items())[:MOST_RANKS]]
        yield computing_beside_talking(lanes, "The last traced step", ("compute",), "communication", device)
    elif report.kind == "memory snapshot":
        yield who_holds_what(
            list(report.held.values()), names=list(report.held), title="What the allocator has reserved"
        )


def _waits(edges: Sequence[tuple[int, int, str]]) -> Picture:
    """Who waits for whom; where all wait in the same operation, it is said once."""
    said = {words for _, _, words in edges}
    if len(said) > 1:
        return wait_for(edges)
    figure = wait_for([(one, other, "") for one, other, _ in edges], note=f"All of them wait in {said.pop()}.")
    figure.alt = f"Who waits for whom. {wait_alt(edges)}"
    return figure


def _lanes(rank: int, traced: Traced) -> Lanes:
    start, end = traced.steps[-1]
    parts = {kind: _drawn(found, start, end) for kind, found in traced.intervals.items()}
    work = tuple((one, other, "compute") for one, other in parts["compute"])
    return Lanes(f"rank {rank}", work, tuple(parts["communication"]))


def _drawn(parts: Sequence[Interval], start: float, end: float) -> list[Interval]:
    inside = [(max(one, start) - start, min(other, end) - start) for one, other in parts if one < end and other > start]
    return union(inside, (end - start) * FINEST)


def _table(report: Report) -> str:
    """The numbers of a trace by rank, or of a snapshot by line."""
    if report.kind == "trace":
        head: tuple[str, ...] = ("Rank", "Step", "Computes", "Hidden communication", "Exposed communication", "Neither")
        rows = [
            [f"{rank}", *(duration_text(parts[name]) for name in ("step", "compute", "hidden", "exposed", "idle"))]
            for rank, parts in report.numbers["seconds_per_step"].items()
        ]
    elif report.kind == "memory snapshot":
        head = ("Line", "Where", "In use", "Share")
        rows = [
            [line, name, bytes_text(size), percent_text(size / max(1, each["in_use"]), 2)]
            for name, each in report.numbers.items()
            for line, size in each["by_line"].items()
        ]
    else:
        return ""
    cells = "".join(
        f'<tr><th scope="row">{html.escape(first)}</th>{"".join(f"<td class=number>{cell}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    names = "".join(f'<th scope="col"{" class=number" if place else ""}>{each}</th>' for place, each in enumerate(head))
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{names}</tr></thead><tbody>{cells}</tbody></table></div>'
    )
