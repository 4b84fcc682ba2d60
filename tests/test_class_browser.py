"""What people see of a class, in a real browser: feedback, formgrader, and nothing that a submission could make them
run."""

import json
import random
import re
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest

from course_grader import exercises
from course_grader.classroom import feedback_page
from course_grader.classroom.feedback import lms_name, make_feedback
from course_grader.classroom.feedback_page import Exercise, Page, Written
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.release import gradebook
from course_grader.classroom.roster import Student
from course_grader.classroom.safe_html import SafeCells, safe_html, safe_markdown
from course_grader.notebooks import parse
from course_grader.records import Report, State, Verdict
from course_grader.service.grading import grade_class
from course_grader.service.report_cache import latest
from tests import hostile
from tests.class_kit import NAME, copy_of, work
from tests.grading_kit import cell_of
from tests.patience import patience
from tests.served_kit import formgrader, hand_in, small_class
from tests.tables import each_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from playwright.sync_api import Page as BrowserPage

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


# ------------------------------------------------------------------------------------------- what may be shown


PIECES = (
    "<script>",
    "</script>",
    "<style>",
    "</style>",
    "<!--",
    "-->",
    "<svg>",
    "</svg>",
    "<math>",
    "<mtext>",
    "<noscript>",
    "</noscript>",
    "<table>",
    "<img src=x ",
    "onerror=boom() ",
    ">",
    '"',
    "'",
    "`",
    "```",
    "<a href=",
    "javascript:boom()",
    "](",
    "[x]",
    ")",
    "$",
    "$$",
    "\\href{",
    "}",
    "<p title='",
    "<textarea>",
    "&lt;",
    "&#x3c;",
    "<title>",
    "<xmp>",
    "\n",
    "\n\n",
    "\t",
    "x",
    "|",
    "- ",
    "    ",
    "<template>",
    "<foreignObject>",
    "<annotation-xml encoding=text/html>",
    "<select>",
)
HARMFUL = """texts => {
  const banned = 'script style iframe object embed base meta link form input button textarea select template '
    + 'video audio area';
  const allowed = {href: /^(https?:\\/\\/|mailto:|#)/i, src: /^data:image\\/(png|jpeg|gif);base64,/, class: /./,
    alt: /^/, title: /^/, width: /./, height: /./,
                   colspan: /./, rowspan: /./, start: /./};
  const bad = [];
  for (const text of texts) {
    for (const e of new DOMParser().parseFromString('<div id=here>' + text + '</div>', 'text/html')
        .querySelectorAll('#here *, #here ~ *')) {
      if (e instanceof HTMLUnknownElement || !(e instanceof HTMLElement)
          || banned.split(' ').includes(e.localName)) bad.push(e.localName + ': ' + text);
      for (const {name, value} of e.attributes) if (!(name in allowed) || !allowed[name].test(value.trim()))
        bad.push(name + '=' + value + ': ' + text);
    }
  }
  return bad.slice(0, 5);
}"""


@pytest.mark.browser
def test_no_hostile_text_and_no_mixture_of_pieces_of_such_leaves_more_than_plain_structure(browser):
    chance = random.Random(7)
    mixed = ["".join(chance.choices(PIECES, k=chance.randrange(2, 15))) for _ in range(800)]
    texts = [made(text) for text in (*hostile.MARKDOWN, *mixed) for made in (safe_markdown, safe_html)]
    with watched(browser) as (page, seen):
        # what it looks for, it sees
        assert page.evaluate(HARMFUL, ["<b onclick=x>", "<script>1</script>", "<a href='/x'>"]) != []
        assert page.evaluate(HARMFUL, texts) == []
        assert seen == []


def test_honest_markdown_keeps_its_form():
    html = safe_markdown(
        "# Why\n\nA *ring* with `send`, $x^2$ and [the paper](https://example.org/a?b=1&c=2):\n\n| a | b "
        "|\n|---|---|\n| 1 | 2 |\n\n```python\nx = 1\n```"
    )
    for kept in (
        "<h1>Why</h1>",
        "<em>ring</em>",
        "<code>send</code>",
        "$x^2$",
        'href="https://example.org/a?b=1&amp;c=2"',
        "<td>1</td>",
        '<span class="n">x</span>',
    ):
        assert kept in html


def test_a_picture_that_is_in_the_cell_stays_and_one_to_be_fetched_goes():
    pasted = {"a.png": {"image/png": "iVBORw0KGgo="}}
    assert 'src="data:image/png;base64,iVBORw0KGgo="' in safe_markdown("![a plot](attachment:a.png)", pasted)
    assert "not in this file" in safe_markdown("![x](https://example.org/x.png)")


def test_outputs_and_metadata_of_a_hostile_notebook_are_cut_to_what_may_be_shown():
    dirty = nbformat.from_dict(
        {
            "cells": hostile.cells(),
            "metadata": {"kernelspec": {"name": "</script>"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )
    clean, _ = SafeCells().preprocess(dirty, {})
    assert "raw" not in {cell.cell_type for cell in clean.cells} and "kernelspec" not in clean.metadata
    code = next(cell for cell in clean.cells if cell.id == "bad-code")
    assert code.metadata == {}
    kinds = {kind for output in code.outputs for kind in output.get("data", {})}
    assert kinds == {"text/html", "text/plain"}
    assert "<b>kept</b>" in json.dumps(code.outputs)
    assert not re.search(
        r"<(script|img|iframe)", json.dumps([output.get("data", {}).get("text/html") for output in code.outputs])
    )


# ------------------------------------------------------------------------------------------- a page of feedback


def report(exercise: str, *verdicts: Verdict, state: State = "answered", points: float = 0.0, note: str = "") -> Report:
    return Report(exercise=exercise, state=state, points=points, maximum=5.0, verdicts=verdicts, note=note, cases=3)


def hostile_page() -> Page:
    """A page in which everything that anybody wrote attacks the reader."""
    card = exercises.card("state-13b")
    everything = "\n\n".join(hostile.MARKDOWN)
    said = Verdict(kind="values", part="state", ok=False, message=everything[:1500])
    theirs = [Written(name="", source=text) for text in hostile.MARKDOWN]
    return Page(
        title=hostile.MARKDOWN[0],
        student=hostile.MARKDOWN[1],
        course=hostile.MARKDOWN[2],
        notes=hostile.MARKDOWN,
        key=hostile.MARKDOWN[3][:12],
        exercises=[
            Exercise(
                card=card, report=report(card.id, said), answer=everything, statement=everything, comment=everything
            ),
            Exercise(card=card, report=report(card.id, state="raised", note=everything), answer=hostile.RUN),
        ],
        written=[Written(name="essay", source=everything, maximum=4.0, comment=everything)],
        own=theirs,
        arrived=NOON,
        due=NOON,
    )


@contextmanager
def watched(browser: "Browser", **context: object) -> "Iterator[tuple[BrowserPage, list[str]]]":
    """A browser page, and a list that grows with each request that was let out, each dialog and each script error."""
    seen: list[str] = []
    with browser.new_context(**context) as room:
        page = room.new_page()
        page.on("requestfinished", lambda request: seen.append(f"request {request.url[:80]}"))
        page.on(
            "requestfailed",
            lambda request: request.failure != "csp" and seen.append(f"request {request.url[:80]}: {request.failure}"),
        )
        page.on("dialog", lambda dialog: (seen.append(f"dialog {dialog.message}"), dialog.dismiss()))
        # formgrader's own, without a network
        page.on(
            "pageerror", lambda error: "MathJax is not defined" not in str(error) and seen.append(f"script {error}")
        )
        page.on("popup", lambda popup: seen.append("popup"))
        yield page, seen


def look(page: "BrowserPage", path: Path) -> None:
    """Open a file and do what a reader does: scroll through it, unfold all, hover."""
    page.goto(path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.mouse.wheel(0, 4000)
    for link in page.locator("a:not([href^='#'])").all()[:40]:
        link.dispatch_event("mouseover")
    page.wait_for_timeout(150)


def without_policy(html: str) -> str:
    return re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)


@pytest.mark.browser
def test_a_hostile_page_of_feedback_runs_nothing_and_asks_nobody(browser, tmp_path):
    html = feedback_page.render(hostile_page())
    for name, text in (("both walls", html), ("cleaning alone", without_policy(html))):
        path = tmp_path / f"{name}.html"
        path.write_text(text, encoding="utf-8")
        with watched(browser) as (page, seen):
            look(page, path)
            assert [each for each in seen if not each.startswith("request file:")] == [], name
            assert "boom" not in page.title() or "&" in html  # the title is text; nothing may have set it anew
            assert page.title().startswith("<script>"), name
            assert page.locator("script, iframe, object, embed, form, base, link, svg:not(.ring)").count() == 0


@pytest.mark.browser
def test_the_content_policy_alone_stops_what_cleaning_would_have_missed(browser, tmp_path):
    raw = "".join(text for text in hostile.MARKDOWN if "refresh" not in text)
    with_policy = feedback_page.render(hostile_page()).replace("<main>", f"<main>{raw}")
    seen_by = {}
    for name, text in (("policy", with_policy), ("nothing", without_policy(with_policy))):
        path = tmp_path / f"{name}.html"
        path.write_text(text, encoding="utf-8", errors="replace")
        with watched(browser) as (page, seen):
            look(page, path)
            seen_by[name] = [each.split()[0] for each in seen if not each.startswith("request file:")]
    assert seen_by["policy"] == [] and {"dialog", "request"} <= set(seen_by["nothing"])


def plain_page(**more: object) -> Page:
    right = [Verdict(kind="values", part="state", ok=True), Verdict(kind="generality", part="state", ok=True)]
    wrong = Verdict(
        kind="values",
        part="peak",
        ok=False,
        message="the H100's `BF16` row: this is the peak with sparsity.",
        mistake="sparse",
    )
    made = [
        Exercise(
            card=exercises.card("state-13b"),
            report=report("state-13b", *right, points=5.0),
            answer="def state(p):\n    return 16 * p\n",
            statement="How many bytes?",
        ),
        Exercise(
            card=exercises.card("which-peak"),
            report=report("which-peak", wrong),
            answer="peak = 1",
            comment="See *the table* in 3.2.",
        ),
        Exercise(
            card=exercises.card("train-days-7b"),
            report=report("train-days-7b", state="not answered", note="Not answered yet: fill in the cell."),
        ),
        Exercise(
            card=exercises.card("mfu-waste"),
            report=report("mfu-waste", wrong, points=1.0),
            score=3.0,
            by_hand=True,
            answer="x = 1",
        ),
    ]
    return Page(
        title="01 · Three walls",
        student="Ada Lovelace",
        course="autumn-26",
        exercises=made,
        arrived=NOON,
        due=NOON - timedelta(hours=26),
        **more,
    )


def test_a_page_says_points_lateness_what_is_wrong_and_what_to_do_next():
    page = plain_page(penalty=2.0, key="c0ffee" * 4, written=[Written(name="essay", source="mine", maximum=4.0)])
    assert (page.score, page.maximum, page.late) == (6.0, 24.0, "1 day late")
    assert [each.card.id for each in page.first()] == ["which-peak", "mfu-waste", "train-days-7b"]
    html = feedback_page.render(page)
    for said in (
        "2 points taken off",
        "the H100&#x27;s <code>BF16</code> row",
        "See <em>the table</em>",
        "Still worth doing",
        "gave 1; a person set",
        "c0ffeec0ffee",
        "not graded yet",
        'hint("which-peak")',
        "21 November 2026, 12:00 (UTC)",
    ):
        assert said in html, said
    assert feedback_page.render(page) == html


def test_a_notebook_that_could_not_be_read_is_said_once_and_not_at_every_exercise():
    html = feedback_page.render(plain_page(trouble="01_small.ipynb is not a whole notebook."))
    assert html.count("is not a whole notebook") == 1 and "Your notebook could not be graded" in html
    assert 'class="exercise' not in html


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_readable_on_a_wide_and_on_a_narrow_screen(browser, tmp_path, scheme):
    path = tmp_path / "page.html"
    path.write_text(feedback_page.render(plain_page(penalty=2.0)), encoding="utf-8")
    for width in (1280, 360):
        with watched(browser, color_scheme=scheme, viewport={"width": width, "height": 800}) as (page, seen):
            look(page, path)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
            faint = page.evaluate(CONTRAST)
            assert not faint, faint
            assert all(each.startswith("request file:") for each in seen)


CONTRAST = """() => {
  const lum = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number)
    .map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4 });
                     return .2126 * r + .7152 * g + .0722 * b };
  const ground = e => { for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor; if (!c.endsWith(', 0)')) return c } return 'rgb(255,255,255)' };
  const faint = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || e.closest('.hidden')) continue;
    const [a, b] = [lum(getComputedStyle(e).color), lum(ground(e))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) faint.push(`${e.tagName}.${e.className}: ${((a + .05) / (b + .05)).toFixed(2)} `
      + e.textContent.slice(0, 30));
  }
  return faint;
}"""


# ---------------------------------------------------------------------------------------- a graded class, in formgrader

ADA = Student(id="ada", first_name="Ada", last_name="Lovelace", email="ada@uni.edu")
EVE = Student(id="eve", first_name=hostile.MARKDOWN[0], last_name=hostile.MARKDOWN[1], email="eve@uni.edu")
TEXT = "Memory: *the state* alone is larger than a card.\n\n![plot](attachment:p.png)"


@pytest.fixture(scope="module")
def graded(tmp_path_factory) -> ClassFolder:
    """A graded class of two: one who answers everything, and one whose notebook and name attack whoever looks at
    them."""
    folder = small_class(tmp_path_factory.mktemp("class"), ADA, EVE, essay=True)
    for student in ("ada", "eve"):
        notebook = work(folder, student, blank=() if student == "ada" else ("mfu-waste",))
        essay = cell_of(notebook, "essay")
        essay["source"], essay["attachments"] = (
            (TEXT, {"p.png": {"image/png": "iVBORw0KGgo="}})
            if student == "ada"
            else ("\n\n".join(hostile.MARKDOWN), {})
        )
        notebook["cells"] += hostile.cells() if student == "eve" else []
        hand_in(folder, student, notebook, NOON)
    summary = grade_class(folder, jobs=1)
    assert summary.graded == 2 and summary.exit_code == 0
    return ClassFolder.open(folder.root)


@pytest.fixture(scope="module")
def served(graded, tmp_path_factory) -> Iterator[tuple[str, str]]:
    """JupyterLab on it: its address, and the token's part of one."""
    with formgrader(graded.root, tmp_path_factory.mktemp("lab")) as url:
        address, _, token = url.partition("/lab?")
        yield address, token


def score_in_book(folder: ClassFolder, student: str) -> tuple[float, float]:
    with closing(gradebook(folder)) as book:
        found = book.find_submission_notebook(NAME, NAME, student)
        return found.score, found.max_score


def submission(page: "BrowserPage", address: str, student: str, folder: ClassFolder) -> None:
    with closing(gradebook(folder)) as book:
        ident = book.find_submission_notebook(NAME, NAME, student).id
    page.goto(f"{address}/formgrader/submissions/{ident}/")
    page.wait_for_function(
        "document.querySelectorAll('input.score').length == 5 && "
        "document.querySelector('input.score').placeholder != ''"
    )


@pytest.mark.browser
def test_formgrader_shows_the_reports_points_and_what_is_set_there_by_hand_stays_and_reaches_the_student(
    browser, graded, served
):
    address, token = served
    points = {student: latest(graded, student, "01")["points"] for student in ("ada", "eve")}
    assert points == {"ada": 28.0, "eve": 18.0}
    with watched(browser) as (page, seen):
        page.goto(f"{address}/formgrader?{token}")
        page.goto(f"{address}/formgrader/gradebook/{NAME}/{NAME}")
        page.wait_for_selector("td.score >> nth=1")
        assert sorted(page.locator("td.score").all_inner_texts()) == ["18 / 32", "28 / 32"]

        submission(page, address, "ada", graded)
        shown = page.eval_on_selector_all("input.score", "all => all.map(each => each.placeholder || each.value)")
        assert shown == ["5", "3", "10", "10", ""]  # a person has still to read the essay
        assert "state-13b: 5 of 5 points (answered)" in page.content()
        assert "data:image/png;base64,iVBORw0KGgo=" in page.content()
        for box, text, kind in (
            ("#essay", "3", "grade"),
            ("#essay-comment", "Well argued; *time* is missing.", "comment"),
        ):
            with page.expect_response(
                lambda answer, kind=kind: f"/api/{kind}/" in answer.url and answer.request.method == "PUT"
            ):
                page.locator(box).fill(text)
                page.locator(box).blur()
        assert score_in_book(graded, "ada") == (31.0, 32.0)

        assert grade_class(graded, jobs=1, again=True, students=["ada"]).graded == 1
        assert score_in_book(graded, "ada") == (31.0, 32.0)

        given = make_feedback(graded)
        mine = next(path for path in given.written if "ada" in path.parts)
        made = mine.read_bytes()
        page.goto(mine.as_uri())
        assert page.locator(".score b").inner_text() == "31"
        assert "Well argued; <em>time</em> is missing." in page.content()

        mine.unlink()
        page.goto(f"{address}/formgrader/manage_submissions/{NAME}")
        page.locator("tr", has_text="Lovelace").locator(".generate-feedback a").click()
        page.locator(".modal-title", has_text="Success").wait_for(timeout=1000 * patience(60))
        assert mine.read_bytes() == made  # formgrader's button makes the same page
        assert not [each for each in seen if each.startswith(("dialog", "script"))]


@pytest.mark.browser
def test_a_hostile_notebook_and_name_run_nothing_in_formgrader(browser, graded, served):
    address, token = served
    shown = graded.root / "autograded" / "eve" / NAME / f"{NAME}.ipynb"
    ours = shown.read_text(encoding="utf-8")
    with watched(browser) as (page, seen):
        page.goto(f"{address}/formgrader?{token}")
        page.goto(f"{address}/formgrader/manage_students")
        page.wait_for_selector("td.name >> nth=1")
        submission(page, address, "eve", graded)
        dirty = json.loads(ours)  # as nbgrader's own autograder would leave it: outputs and all
        dirty["cells"] += json.loads(json.dumps(hostile.cells()).replace("\\ud800", ""))
        dirty["cells"][0]["outputs"] = hostile.OUTPUTS
        shown.write_text(json.dumps(dirty), encoding="utf-8")
        try:
            submission(page, address, "eve", graded)
            page.mouse.wheel(0, 20_000)
            page.wait_for_timeout(300)
            assert (
                page.title() == NAME
                and page.locator("#notebook")
                .locator("script, iframe, object, embed, form, base, link, meta, svg")
                .count()
                == 0
            )
            assert "[a picture that is not in this file]" in page.content()
        finally:
            shown.write_text(ours, encoding="utf-8")
        for page_of_theirs in [path for path in make_feedback(graded).written if "eve" in path.parts]:
            page.goto(page_of_theirs.as_uri())
            assert page.title().startswith("01 · Small: <script>")
        outside = [
            each
            for each in seen
            if not each.startswith((f"request {address}", "request data:", "request file:"))
            and "cdnjs.cloudflare.com/ajax/libs/mathjax" not in each
        ]
        wanted = [each for each in seen if re.search(r"/(x|boom|pixel|s\.css)\b", each)]
        assert outside == [] and wanted == []


def test_a_page_holds_no_answer_of_the_course_no_hidden_case_and_nobody_elses_numbers(graded):
    make_feedback(graded, students=["eve"])
    html = (graded.root / "feedback/eve" / NAME / f"{NAME}.html").read_text(encoding="utf-8")
    solution = cell_of(parse(graded.sources.path("01").read_text(encoding="utf-8")), "mfu-waste")["source"]
    body = re.findall(r"BEGIN SOLUTION\n(.*?)\n\s*### END", solution, re.DOTALL)[0]
    assert not [line for line in body.splitlines() if len(line.strip()) > 20 and line.strip()[:40] in html]
    assert "unseen=True" not in html and "HIDDEN TESTS" not in html and "Ada" not in html.replace("Adam", "")


@each_of(
    "way, file, there",
    ("canvas", "lovelaceada_LATE_1001_678_01_small-1.ipynb", ("canvas", "lovelaceada_LATE_1001_678_01_small-1.html")),
    (
        "moodle",
        "Ada Lovelace_12345_assignsubmission_file_/mine.ipynb",
        ("moodle", "Ada Lovelace_12345_assignsubmission_file_/01_small.html"),
    ),
    (
        "moodle",
        "Ada Lovelace_12345_assignsubmission_file/mine.ipynb",
        ("moodle", "Ada Lovelace_12345_assignsubmission_file/01_small.html"),
    ),
    ("canvas", "renamed_by_hand.ipynb", None),
    ("folder", "ada.ipynb", None),
)
def test_a_page_is_named_as_the_lms_that_sent_the_work_takes_it_back(way, file, there):
    assert lms_name(way, file, "01_small.html") == there


def test_zips_hold_each_page_once_under_a_name_of_its_own_and_what_is_not_graded_is_said(graded, tmp_path):
    folder = copy_of(graded, tmp_path / "copy")
    folder.submissions.remember_arrival(
        "ada",
        "01",
        folder.submissions.arrival_record("ada", "01") | {"by": "canvas", "file": "lovelaceada_1_2_01_small.ipynb"},
    )
    folder.submissions.save_arrivals()
    given = make_feedback(folder)
    assert {path.name: zipfile.ZipFile(path).namelist() for path in given.zips} == {
        "feedback-01-canvas.zip": ["lovelaceada_1_2_01_small.html"],
        "feedback-01.zip": ["eve/01_small.html"],
    }
    assert [path.read_bytes() for path in make_feedback(folder).zips] == [path.read_bytes() for path in given.zips]
    one = make_feedback(folder, students=["ada"])  # the chapter's zips stay whole
    assert len(one.written) == 1
    assert [path.read_bytes() for path in one.zips] == [path.read_bytes() for path in given.zips]
    (folder.submissions.reports("eve", "01") / "latest.json").unlink()
    again = make_feedback(ClassFolder.open(folder.root))
    assert [path.parent.parent.name for path in again.written] == ["ada"] and again.skipped[0][:2] == ("eve", "01")


@each_of(
    "text",
    "RuntimeError: 100 78 0:40 / / ro,nosuid,nodev,relatime - tmpfs tmpfs rw",
    f"one GPU: return a number in days; got str '{sys.prefix}/bin/python",
    "KeyError: ['/root/.pyenv/versions/3.11.7/lib/python311.zip', '']",
    "ValueError: environ({'LANG': 'C.UTF-8'})",
    "OSError: /opt/course/lib/python3.11/site-packages/torch/__init__.py",
    "got str '55d0c8a00000-55d0c8a01000 r--p 00000000",
)
def test_a_page_leaves_out_what_an_answer_says_of_the_machine_that_graded_it(text):
    honest = "RuntimeError: inconsistent tensor size, expected tensor [2] and src [3] (line 3 of your cell: x @ y)"
    said = Verdict(kind="values", part="state", ok=False, message=f"{text}\n{honest}")
    page = replace(
        plain_page(), exercises=[Exercise(card=exercises.card("state-13b"), report=report("state-13b", said))]
    )
    html = feedback_page.render(page)
    assert "details of the computer" in html and "inconsistent tensor size" in html
    assert not any(word in html for word in text.split() if len(word) > 8 and word not in honest)


def test_an_assumed_time_is_not_shown_as_the_time_of_a_submission():
    page = plain_page()
    assert "handed in" in feedback_page.render(page)
    assert "handed in 21" not in feedback_page.render(replace(page, arrival_known=False))
