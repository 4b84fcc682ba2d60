"""A report as the learner reads it: HTML for a notebook in either theme, or plain text."""

from html import escape

from course_grader.exercises import Card
from course_grader.judge.report import failures, finding
from course_grader.judging.prediction import HELD, MISSED
from course_grader.records import Report
from course_lib.messages import count_text

HEADLINES = {
    "not answered": "Not answered yet",
    "raised": "Your code stopped with an error",
    "deadlock": "Deadlock: no rank can move",
    "crashed": "Your code ended the process it ran in",
    "timed out": "Your code ran out of time",
    "refused": "This answer cannot be graded",
}

PREDICTED = {HELD: "Your interval holds the value", MISSED: "Your interval misses the value"}

# Colors come from JupyterLab's theme if there is one; the fallbacks are for a white page. `!important` overrides the
# page's own
# table rules. Small text keeps a contrast of at least 4.5:1.
_STYLE = """<style>
.course-panel{--ink:var(--jp-content-font-color1,#212121);--soft:color-mix(in srgb,var(--ink) 80%,transparent);
box-sizing:border-box;max-width:58em;margin:.3em 0;padding:.7em 1em .6em;border:1px solid var(--jp-border-color2,#ccc);
border-left:5px solid var(--mark);border-radius:4px;color:var(--ink);background:var(--jp-layout-color1,#fff);
font:14px/1.5 var(--jp-content-font-family,system-ui,sans-serif)}
.course-panel.passed{--mark:#2e7d32}.course-panel.partly{--mark:#c77700}.course-panel.failed{--mark:#c62828}
.course-panel.open{--mark:#757575}
.course-panel .head{display:flex;flex-wrap:wrap;gap:.1em .8em;align-items:baseline}.course-panel .head b{font-size:15px}
.course-panel .title{color:var(--soft)}.course-panel .points{margin-left:auto;font-weight:600;white-space:nowrap}
.course-panel table{table-layout:auto!important;border-collapse:collapse;border:0;width:100%;
  margin:.4em 0 .2em!important;
font-size:14px}
.course-panel tr{background:transparent!important}
.course-panel td{text-align:left!important;vertical-align:top!important;padding:.15em .8em .15em 0!important;border:0;
white-space:pre-wrap;overflow-wrap:anywhere;max-width:none!important;line-height:1.45;color:var(--ink)}
.course-panel td.mark{width:7em;font-weight:600;white-space:nowrap!important}
.course-panel .yes{color:var(--jp-success-color0,#1b5e20)}.course-panel .no{color:var(--jp-error-color0,#b71c1c)}
.course-panel .off{color:var(--soft)}
[data-jp-theme-light=false] .course-panel .yes{color:#81c784}
[data-jp-theme-light=false] .course-panel .no{color:#ff8a80}
.course-panel p{margin:.35em 0 .2em}.course-panel .small{margin-top:.35em;color:var(--soft);font-size:12.5px}
.course-panel pre{margin:.5em 0;padding:.5em .7em;white-space:pre-wrap;overflow-wrap:anywhere;font-size:13px;
background:var(--jp-layout-color2,#eee);color:var(--ink)}
.course-panel code{font-family:var(--jp-code-font-family,monospace);font-size:.95em;padding:0 .25em;
background:var(--jp-layout-color2,#eee);color:var(--ink)}
</style>"""


def rows(report: Report) -> list[tuple[str, str, str]]:
    """(verdict kind, mark, message) for every kind that was asked. A message has one line for each part that failed."""
    failed = failures(report)
    shown: list[tuple[str, str, str]] = []
    for kind, ok in report.by_kind().items():
        if ok and kind != "values" and "values" in failed:
            shown.append((kind, "–", "This counts once the values are right."))
        elif ok:
            shown.append((kind, "yes", finding(report, kind)))
        elif kind != "values" and set(failed[kind].splitlines()) <= set(failed.get("values", "").splitlines()):
            shown.append((kind, "no", "The same is wrong in other cases."))
        else:
            shown.append((kind, "no", failed[kind]))
    return shown


def headline(report: Report) -> str:
    """One line: what happened, and the points."""
    return f"{happened(report)} · {_score(report)}"


def happened(report: Report) -> str:
    if report.passed:
        return next((PREDICTED[v.mistake] for v in report.verdicts if v.mistake in PREDICTED), "Passed")
    if report.state in HEADLINES:
        return HEADLINES[report.state]
    return "Partly right" if report.points else "Not right yet"


def _score(report: Report) -> str:
    return f"{report.points:g} of {count_text(report.maximum, 'point')}"


def text_panel(card: Card, report: Report, extra: str = "") -> str:
    """The panel as plain text."""
    lines = [f"{card.title}: {headline(report)}"]
    for kind, mark, message in rows(report):
        first, *more = message.splitlines() or [""]
        lines += [f"  [{mark:>3}] {kind:<11}{first}", *(f"{' ' * 19}{line}" for line in more)]
    if report.note and not report.verdicts:
        lines.append(f"  {report.note}")
    lines += [f"  {line}" for line in (*extra.splitlines(), _foot(card, report)) if line]
    return "\n".join(lines)


def html_panel(card: Card, report: Report, extra: str = "") -> str:
    """The panel as HTML. Everything that came from an answer is escaped; dollar signs stay dollar signs."""
    tone = {"yes": "yes", "no": "no", "–": "off"}
    symbol = {"yes": "✓", "no": "✗", "–": "–"}
    body = "".join(
        f'<tr><td class="mark {tone[m]}">{symbol[m]} {kind}</td><td>{escape(message)}</td></tr>'
        for kind, m, message in rows(report)
    )
    table = f'<table role="presentation">{body}</table>' if body else ""
    more = "".join(f"<p>{escape(line)}</p>" for line in extra.splitlines() if line)
    label = escape(f"{card.title}: {headline(report)}")
    return (
        f'{_STYLE}<div class="course-panel mathjax_ignore {look(report)}" role="status" aria-label="{label}">'
        f'<div class="head"><b>{escape(happened(report))}</b><span class="title">{escape(card.title)}</span>'
        f'<span class="points">{escape(_score(report))}</span></div>'
        f'{table}{_html_note(report)}{more}<div class="small">{_html_foot(card, report)}</div></div>'
    )


def look(report: Report) -> str:
    """The CSS class that colors the panel's edge."""
    if report.passed:
        return "partly" if any(v.mistake == MISSED for v in report.verdicts) else "passed"
    if report.state == "not answered":
        return "open"
    return "partly" if report.points else "failed"


def _html_note(report: Report) -> str:
    """Why there are no verdicts, without repeating the headline."""
    if report.verdicts or not report.note:
        return ""
    said, _, rest = report.note.partition(": ")
    if said == happened(report) and rest:
        return f"<p>{escape(rest[0].upper() + rest[1:])}</p>"
    return f"<pre>{escape(report.note)}</pre>"


def _html_foot(card: Card, report: Report) -> str:
    """The last line, with the call to type set as code."""
    said, colon, call = _foot(card, report).rpartition(": ")
    return f"{escape(said + colon)}<code>{escape(call)}</code>"


def _foot(card: Card, report: Report) -> str:
    ran = f"{count_text(report.cases, 'run')}"  # more than the cases if some ran twice
    if report.passed:
        return f"{ran}. The worked answer, why, and where PyTorch does it: answer({card.id!r})"
    looked = f"{ran}. " if report.cases and report.state != "not answered" else ""
    return f"{looked}A hint: hint({card.id!r})"
