"""A report as the learner reads it: HTML for a notebook in either theme, and the same in plain text."""

from html import escape

from course_lib.exercises import Card
from course_lib.grading.judge import first_failures
from course_lib.records import Report, VerdictKind

QUESTIONS: dict[VerdictKind, str] = {
    "values": "Is the answer right?",
    "cost": "Is it within the cost, and not below what the task needs?",
    "protocol": "Right partners, safe order?",
    "generality": "Does it hold beyond the example?",
}

HEADLINES = {
    "not answered": "Not answered yet",
    "raised": "Your code stopped with an error",
    "deadlock": "Deadlock: no rank can move",
    "crashed": "Your code ended the process it ran in",
    "timed out": "Your code ran out of time",
    "refused": "This answer cannot be graded",
}

# Colours come from JupyterLab's theme where there is one; the fallbacks read on white.
_STYLE = """<style>
.course-panel{border:1px solid var(--jp-border-color1,#bbb);border-left:5px solid var(--course-mark);border-radius:4px;
padding:.6em .9em;margin:.3em 0;max-width:52em;color:var(--jp-content-font-color1,#212121);
background:var(--jp-layout-color1,#fff);font-family:var(--jp-content-font-family,sans-serif);font-size:14px;line-height:1.45}
.course-panel b.head{font-size:15px}.course-panel table{table-layout:auto!important;border-collapse:collapse;margin:.45em 0;width:100%}
.course-panel td{text-align:left!important;vertical-align:top;padding:.2em .7em .2em 0;border:0;background:transparent!important;
white-space:pre-wrap;color:var(--jp-content-font-color1,#212121)}
.course-panel td.mark{font-weight:bold;white-space:nowrap!important;width:1%}.course-panel .yes{color:var(--jp-success-color0,#1b5e20)}
.course-panel .no{color:var(--jp-error-color0,#b71c1c)}.course-panel .off{color:var(--jp-content-font-color2,#616161)}
[data-jp-theme-light=false] .course-panel .yes{color:#81c784}[data-jp-theme-light=false] .course-panel .no{color:#ff8a80}
.course-panel pre{white-space:pre-wrap;margin:.3em 0;background:var(--jp-layout-color2,#eee);padding:.4em;
color:var(--jp-content-font-color1,#212121)}
.course-panel .small{color:var(--jp-content-font-color2,#616161);font-size:12.5px}
</style>"""


def _rows(report: Report) -> list[tuple[str, str, str]]:
    """(verdict kind, mark, message) of every kind that was asked."""
    failures = first_failures(report)
    values_right = "values" not in failures
    rows = []
    for kind, ok in report.by_kind().items():
        if ok and kind != "values" and not values_right:
            rows.append((kind, "–", "counts once the values are right"))
        elif ok:
            rows.append((kind, "yes", QUESTIONS[kind]))
        else:
            rows.append((kind, "no", failures[kind].message))
    return rows


def headline(report: Report) -> str:
    """One line: what happened, in words, with points."""
    score = f"{report.points:g} of {report.maximum:g} points"
    if report.passed:
        return f"Passed · {score}"
    if report.state in HEADLINES:
        return f"{HEADLINES[report.state]} · {score}"
    return f"{'Partly right' if report.points else 'Not right yet'} · {score}"


def text_panel(card: Card, report: Report, extra: str = "") -> str:
    """The panel as plain text."""
    lines = [f"{card.title}: {headline(report)}"]
    lines += [f"  [{mark:>3}] {kind:<11}{message}" for kind, mark, message in _rows(report)]
    if report.note and not report.verdicts:
        lines.append(f"  {report.note}")
    lines += [f"  {line}" for line in (*extra.splitlines(), _foot(card, report)) if line]
    return "\n".join(lines)


def html_panel(card: Card, report: Report, extra: str = "") -> str:
    """The panel as HTML; everything that came from an answer is escaped."""
    mark = "#2e7d32" if report.passed else "#c62828" if report.state != "not answered" else "#757575"
    tone = {"yes": "yes", "no": "no", "–": "off"}
    symbol = {"yes": "✓", "no": "✗", "–": "–"}
    body = "".join(
        f'<tr><td class="mark {tone[m]}">{symbol[m]} {kind}</td><td>{escape(message)}</td></tr>'
        for kind, m, message in _rows(report)
    )
    note = f"<pre>{escape(report.note)}</pre>" if report.note and not report.verdicts else ""
    more = "".join(f"<div>{escape(line)}</div>" for line in extra.splitlines())
    foot = escape(_foot(card, report))
    label = escape(f"{card.title}: {headline(report)}")
    return (
        f'{_STYLE}<div class="course-panel" role="status" aria-label="{label}" style="--course-mark:{mark}">'
        f'<b class="head">{escape(headline(report))}</b> <span class="small">{escape(card.title)}</span>'
        f'<table role="presentation">{body}</table>{note}{more}<div class="small">{foot}</div></div>'
    )


def _foot(card: Card, report: Report) -> str:
    if report.passed:
        return f"{report.cases} case{'s' if report.cases != 1 else ''}. The worked answer, why, and where PyTorch does it: answer({card.id!r})"
    ran = f"{report.cases} case{'s' if report.cases != 1 else ''} ran. " if report.cases else ""
    return f"{ran}A hint: hint({card.id!r})"
