"""A certificate as one page that needs no other file and asks no other host: light, dark, wide and narrow."""

import html
import json
import math
from collections.abc import Sequence
from datetime import date

from course_app.certificate.record import Record, counts
from course_lib.draw.palette import BLUE, GRID, INK, NIGHT, NIGHT_WORDS, PAPER, SOFT, VERMILION
from course_lib.installation import called_here

KINDS = {
    "values": ("Values", "the answer is right"),
    "cost": ("Cost", "bytes, memory and time stay within their bounds"),
    "protocol": ("Protocol", "partners and order of messages are right"),
    "generality": ("Generality", "it holds for other sizes, ranks and types"),
}

STYLE = f"""
:root {{ color-scheme: light dark; --paper: {PAPER}; --ink: {INK}; --soft: {SOFT}; --line: {GRID}; --fill: {BLUE};
  --word: {BLUE}; --miss: {VERMILION}; --tint: #f5f8fa; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --paper: {NIGHT[PAPER]}; --ink: {NIGHT[INK]}; --soft: {NIGHT[SOFT]}; --line: {NIGHT[GRID]};
    --fill: {NIGHT_WORDS[BLUE]}; --word: {NIGHT_WORDS[BLUE]}; --miss: #f0883e; --tint: #191d22; }}
}}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }}
main {{ max-width: 54rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }}
header {{ border-bottom: 3px solid var(--fill); padding-bottom: 1.5rem; }}
.course {{ margin: 0; color: var(--word); font-weight: 600; letter-spacing: .02em; }}
h1 {{ margin: .2rem 0 .6rem; font-size: clamp(1.9rem, 6vw, 2.8rem); line-height: 1.15; overflow-wrap: anywhere; }}
h2 {{ margin: 2.4rem 0 .4rem; font-size: 1.3rem; }}
p {{ margin: .4rem 0; max-width: 44rem; }}
.soft {{ color: var(--soft); }}
.tiles {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); gap: .8rem; margin: 1.6rem 0 0;
  padding: 0; list-style: none; }}
.tiles li {{ background: var(--tint); border: 1px solid var(--line); border-radius: .6rem; padding: .8rem 1rem; }}
.tiles strong {{ display: block; font-size: 1.55rem; line-height: 1.2; }}
.chapter {{ border-top: 1px solid var(--line); padding: .7rem 0; }}
.chapter summary {{ display: grid; grid-template-columns: 1fr auto; gap: .2rem 1rem; align-items: center;
  cursor: pointer; }}
.chapter summary::-webkit-details-marker {{ display: none; }}
.chapter summary::after {{ content: "show exercises"; grid-column: 1 / -1; font-size: .85rem; color: var(--word); }}
.chapter[open] summary::after {{ content: "hide exercises"; }}
.bar {{ grid-column: 1 / -1; height: .5rem; border-radius: .25rem; background: var(--line); overflow: hidden; }}
.bar span {{ display: block; height: 100%; background: var(--fill); }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; margin: .6rem 0; font-size: .95rem; }}
th, td {{ text-align: left; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top;
  }}
td.number, th.number {{ text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }}
code {{ font: .85em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: nowrap; }}
pre {{ background: var(--tint); border: 1px solid var(--line); border-radius: .5rem; padding: .7rem 1rem;
  white-space: pre-wrap; }}
pre code {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
.intervals {{ list-style: none; margin: .8rem 0 0; padding: 0; }}
.intervals li {{ display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 3fr); gap: .1rem 1rem;
  align-items: center; padding: .15rem 0; }}
.track {{ position: relative; height: 1.5rem; border-left: 1px solid var(--line); border-right: 1px solid var(--line);
  }}
.track::before {{ content: ""; position: absolute; left: 50%; top: -.2rem; bottom: -.2rem;
  border-left: 2px solid var(--ink); }}
.track span {{ position: absolute; top: .45rem; height: .6rem; min-width: 4px; border-radius: .3rem;
  background: var(--fill); }}
.track .missed {{ background: var(--miss); }}
.ends {{ display: flex; justify-content: space-between; color: var(--soft); font-size: .85rem; }}
summary:focus-visible {{ outline: 3px solid var(--word); outline-offset: 3px; border-radius: .3rem; }}
@media (max-width: 40rem) {{
  .chapter summary {{ grid-template-columns: 1fr; }}
  .intervals li {{ grid-template-columns: 1fr; }}
  .exercises thead {{ position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }}
  .exercises tr {{ display: block; padding: .5rem 0; border-bottom: 1px solid var(--line); }}
  .exercises td, .exercises td.number {{ display: block; padding: 0; border: 0; text-align: left; }}
  .exercises td:first-child {{ font-weight: 600; }}
}}
@media print {{ .chapter summary::after {{ content: none; }} }}
""".strip()


def shell(title: str, kind: str, header: str, body: str, *, style: str = "", tab: str = "", end: str = "") -> str:
    """A page of the course that needs no other file: its header, its sections, and what follows them. `title` is
    text, the others are markup."""
    title = html.escape(title)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}{tab}</title>
<style>
{STYLE}
{style}</style>
</head>
<body>
<main>
<header>
<p class="course">Training at Scale · {kind}</p>
<h1>{title}</h1>
{header}
</header>
{body}
</main>
{end}</body>
</html>
"""


def page(record: Record) -> str:
    """The whole page. The same record gives the same page, to the byte."""
    exercises = [each for chapter in record["chapters"] for each in chapter["exercises"]]
    data = json.dumps(record, ensure_ascii=False, indent=1, sort_keys=True).replace("</", "<\\/")
    header = f"""<p>{_sentence(exercises)} Every answer was judged again on {_day(record["date"])}.</p>
{_tiles(record, exercises)}"""
    body = f"""<section aria-labelledby="verdicts"><h2 id="verdicts">Verdicts</h2>
<p>An exercise gets up to four verdicts, from hidden cases. It is passed if all of them hold.</p>
{_verdicts(exercises)}
</section>
<section aria-labelledby="chapters"><h2 id="chapters">Chapters</h2>
{"".join(_chapter(chapter) for chapter in record["chapters"])}
</section>
{_calibration(record["predictions"])}
<section aria-labelledby="verify"><h2 id="verify">Verify this page</h2>
<p>The page alone proves nothing. With the work folder and version {html.escape(record["course"])} of the course,
this command judges every answer again
and lists every difference:</p>
<pre><code>{called_here("./course certificate --verify certificate.html")}</code></pre>
<p class="soft">It compares points, verdicts and the fingerprint of each answer, and recomputes the truth of each
prediction. The intervals are those that the work folder recorded at the first check; name, date and chapters are
those that it recorded when this page was written. The page does not say who wrote the answers.</p>
</section>"""
    script = f'<script type="application/json" id="record">\n{data}\n</script>\n'
    name = record["name"] or "A learner"
    return shell(name, "certificate", header, body, tab=": Training at Scale", end=script)


def _day(text: str) -> str:
    day = date.fromisoformat(text)
    return f"{day:%B} {day.day}, {day.year}"


def _number(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def _sentence(exercises: Sequence[Record]) -> str:
    core = [each for each in exercises if each["core"]]
    done = sum(each["passed"] for each in core)
    more = sum(each["passed"] for each in exercises if not each["core"])
    rest = f", and {more} further exercise{'s' * (more != 1)}" if more else ""
    return f"Passed {done} of {len(core)} core exercises in these chapters{rest}."


def _tiles(record: Record, exercises: Sequence[Record]) -> str:
    points, maximum = (sum(each[name] for each in exercises) for name in ("points", "maximum"))
    held, made = sum(each["held"] for each in record["predictions"]), len(record["predictions"])
    trainer = record["trainer"]
    rows = [
        (f"{sum(each['passed'] for each in exercises)} of {len(exercises)}", "exercises passed"),
        (f"{_number(points)} of {_number(maximum)}", "points"),
        (f"{held} of {made}", "predictions held the truth") if made else ("0", "predictions recorded in the notebooks"),
        (f"{trainer['yours']} of {trainer['parts']}", "parts of the learner's own trainer"),
    ]
    items = "".join(f"<li><strong>{value}</strong>{words}</li>" for value, words in rows)
    return f'<ul class="tiles">{items}</ul>'


def _verdicts(exercises: Sequence[Record]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{KINDS[kind][0]}</th><td>{KINDS[kind][1]}</td><td class="number">{held} of '
        f"{asked}</td></tr>"
        for kind, (held, asked) in counts(exercises).items()
        if asked
    )
    head = (
        '<tr><th scope="col">Verdict</th><th scope="col">What it says</th><th scope="col" class="number">Holds '
        "for</th></tr>"
    )
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _chapter(chapter: Record) -> str:
    exercises = chapter["exercises"]
    points, maximum = (sum(each[name] for each in exercises) for name in ("points", "maximum"))
    share = round(100 * points / maximum) if maximum else 0
    rows = "".join(_row(each) for each in exercises)
    head = (
        '<tr><th scope="col">Exercise</th><th scope="col">Verdicts</th><th scope="col" class="number">Points</th>'
        '<th scope="col">Fingerprint</th></tr>'
    )
    passed = sum(each["passed"] for each in exercises)
    return f"""<details class="chapter"><summary><span><strong>{html.escape(chapter["chapter"])}</strong>
{html.escape(chapter["title"])}</span>
<span class="number">{passed} of {len(exercises)} passed · {_number(points)} of {_number(maximum)} points</span>
<span class="bar"><span style="width: {share}%"></span></span></summary>
<table class="exercises"><thead>{head}</thead><tbody>{rows}</tbody></table></details>
"""


def _row(exercise: Record) -> str:
    held = exercise["verdicts"]
    marks = ", ".join(f"{KINDS[kind][0].lower()} {'✓' if held[kind] else '✗'}" for kind in KINDS if kind in held)
    kind = "" if exercise["core"] else ' <span class="soft">(more)</span>'
    return (
        f"<tr><td>{html.escape(exercise['title'])}{kind}</td><td>{marks or 'not answered'}</td>"
        f'<td class="number">{_number(exercise["points"])} of {_number(exercise["maximum"])}</td>'
        f"<td><code>{html.escape(exercise['answer'])}</code></td></tr>"
    )


def _calibration(predictions: Sequence[Record]) -> str:
    """Each interval as a bar around its truth, on a logarithmic scale of interval over truth."""
    if not predictions:
        return ""
    held = sum(each["held"] for each in predictions)
    reach = max(2.0, *(abs(math.log2(_share(each, end))) for each in predictions for end in ("low", "high")))
    rows = "".join(_interval(each, reach) for each in predictions)
    return f"""<section aria-labelledby="calibration"><h2 id="calibration">Calibration</h2>
<p>{held} of {len(predictions)} intervals hold the truth. Of well-calibrated 90 % intervals, nine in ten do.
Each bar is an interval, divided by
the truth, on a logarithmic scale; the line marks the truth.</p>
<ul class="intervals">{rows}
<li><span></span><span class="ends"><span>too low</span><span>the truth</span><span>too high</span></span></li></ul>
</section>
"""


def _share(prediction: Record, end: str) -> float:
    truth = prediction["truth"]
    value = prediction[end] / truth if truth else 1.0
    return min(max(value, 2.0**-10), 2.0**10)


def _interval(prediction: Record, reach: float) -> str:
    low, high = (50 + 50 * math.log2(_share(prediction, end)) / reach for end in ("low", "high"))
    missed = "" if prediction["held"] else ' class="missed"'
    words = html.escape(prediction["title"]) + ("" if prediction["held"] else ' <span class="soft">(missed)</span>')
    return (
        f'<li><span>{words}</span><span class="track"><span{missed} style="left: {low:.1f}%; width: {high - low:.1f}%">'
        "</span></span></li>\n"
    )
