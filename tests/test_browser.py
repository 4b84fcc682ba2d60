"""Chapters in a real browser, as a learner meets them: opened by `./course learn`, run whole, moved, answered, in both
themes.

A chapter is opened once and is one test with many subtests; every worker has one JupyterLab and one browser for all its
chapters, as a learner has. With COURSE_SHOTS=folder, screenshots are made and kept there to be looked at.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench import widgets as bench
from course_grader import exercises
from course_grader.bank.answer_bank import BankAnswer
from course_grader.bank.kill_matrix import bank, judge
from course_lib.folders import ROOT
from course_lib.messages import count_text

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

    from bench.chapter_page import ChapterPage

pytestmark = pytest.mark.browser

NAMES = {path.name[:2]: path.name for path in (ROOT / "notebooks").glob("[0-9][0-9]_*")}  # chapter -> its folder
# cells of a chapter with controls, at least
WIDGETS = {
    "00": 7, "01": 5, "02": 5, "03": 3, "04": 3, "05": 4, "06": 3, "07": 2, "08": 5, "09": 2, "10": 2, "12": 5, "14": 4,
    "15": 4, "16": 5, "17": 6, "18": 3, "19": 4, "20": 3,
}  # fmt: skip
LEAST_CONTRAST = 4.5  # WCAG 2.2, level AA, for text


@dataclass(frozen=True, slots=True)
class Attempt:
    """Answers of the bank to one exercise, by name: a wrong one and a right one."""

    exercise: str
    wrong: str
    right: str


ATTEMPTS = {
    "00": Attempt("two-ranks-wait", "sends everything twice to be safe", "both halves in one batch"),
    "01": Attempt("state-13b", "missing master", "worked"),
    "02": Attempt("peak-not-sum", "sum not peak", "a running total of changes"),
    "03": Attempt("network-roof", "wire at memory speed", "worked"),
    "04": Attempt("write-adamw", "no bias correction", "in place on the moments, as PyTorch does it"),
    "05": Attempt("loss-scaler", "a constant scale", "from the history"),
    "06": Attempt("ring-shift", "the other way round", "isend, recv, wait"),
    "07": Attempt("average-gradients", "the average of the averages", "worked"),
    "08": Attempt("clip-shards", "replicas count as often as there are", "worked"),
    "09": Attempt("row-bias", "as it stood", "worked"),
    "10": Attempt("three-schedules", "forwards only", "worked"),
    "11": Attempt("merge-partial-attention", "plain mean", "a softmax of the log-sums"),
    "12": Attempt("route-tokens", "smallest", "worked"),
    "13": Attempt("batch-on-mesh", "cp counted", "worked"),
    "14": Attempt("hours-between-failures", "one gpu", "by rates"),
    "15": Attempt("exposed-seconds", "wall time less computing", "worked"),
    "16": Attempt("kv-cache-bytes", "query heads", "layer by layer, a float"),
    "17": Attempt("first-remedy", "one at a time", "worked"),
    "18": Attempt("which-limit", "the times added", "without a dictionary"),
    "19": Attempt("group-advantages", "the mean of all answers", "worked"),
    "20": Attempt("sick-links", "rows and columns exchanged", "by counting, in the order of ranks"),
}


@dataclass(frozen=True, slots=True)
class Opened:
    """A chapter in the browser, after Run All Cells."""

    number: str
    page: "ChapterPage"
    shots: Path | None

    def shot(self, name: str, of: "Locator | None" = None) -> None:
        """Keep a screenshot of an element, or of the window, where they are asked for."""
        if self.shots:
            (of or self.page.page).screenshot(path=self.shots / f"{self.number}-{name}.png")

    def shown_in(self) -> list[str]:
        """The themes in which the page is to be photographed: both, or none."""
        return self.page.themes() if self.shots else []


@pytest.fixture(scope="module")
def chapter_page(
    browser: "Browser", tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[Callable[[str], ChapterPage]]":
    """A function that opens a chapter: the first with `./course learn`, each further one from the JupyterLab that is
    then there."""
    from bench.chapter_page import ChapterPage, open_chapter
    from bench.lab import served

    with ExitStack() as stack:
        opened: list[ChapterPage] = []

        def open_(name: str) -> ChapterPage:
            if opened:
                opened[0].turn_to(f"{name}/{name}.ipynb")
            else:
                address = stack.enter_context(served(tmp_path_factory.mktemp("lab") / "home", name[:2]))
                assert f"/lab/tree/{name}/{name}.ipynb" in address
                opened.append(open_chapter(browser, address))
            return opened[0]

        yield open_


def test_a_chapter_in_a_browser(
    rotating_chapter: str, chapter_page: "Callable[[str], ChapterPage]", subtests: pytest.Subtests
) -> None:
    name = NAMES[rotating_chapter]
    shots = Path(os.environ["COURSE_SHOTS"]) if os.environ.get("COURSE_SHOTS") else None
    if shots:
        shots.mkdir(parents=True, exist_ok=True)
    opened = Opened(name[:2], chapter_page(name), shots)
    assert f"{name}/{name}.ipynb" in opened.page.page.evaluate("() => jupyterapp.shell.currentWidget.context.path")
    opened.page.run_all()
    for step in (*EVERY_CHAPTER, *OF_ONE_CHAPTER.get(opened.number, ())):
        with subtests.test(step.__name__.replace("_", " ")):
            step(opened)


# -------------------------------------------------------------------------------------- the page as it is after Run All


def run_all_passes_an_untouched_chapter_and_shows_what_is_to_do(chapter: Opened) -> None:
    page = chapter.page
    assert page.errors() == []
    cards = exercises.cards(chapter.number)
    for card in cards:
        check = page.cell(f"{card.id}-check")
        panel = check.locator(".course-panel")
        assert panel.locator(".head b").text_content() == "Not answered yet", card.id
        assert panel.locator(".points").text_content() == f"0 of {count_text(card.points, 'point')}"
        assert float(page.result(f"{card.id}-check")) == 0
        assert not check.locator(".jp-OutputArea-executeResult").is_visible(), (
            f"{card.id}: an empty row below the panel"
        )
    for theme in chapter.shown_in():
        page.theme(theme)
        page.page.locator(".jp-NotebookPanel .jp-WindowedPanel-outer").evaluate("panel => { panel.scrollTop = 0; }")
        chapter.shot(f"top-{theme}")
        chapter.shot(f"open-{theme}", page.show(f"{cards[0].id}-check"))


def every_widget_is_on_the_page(chapter: Opened) -> None:
    shown = chapter.page.page.evaluate(
        """() => jupyterapp.shell.currentWidget.content.widgets.map(cell => [
             cell.model.id,
             (cell.model.sharedModel.outputs ?? []).filter(
               out => 'application/vnd.jupyter.widget-view+json' in (out.data ?? {})).length,
             cell.node.querySelectorAll('.jp-OutputArea-child .jupyter-widgets.widget-box.widget-vbox').length,
             cell.node.querySelector('.jp-OutputArea')?.innerText.includes('Error displaying widget') ?? false])"""
    )
    asked = {id: (views, found, broken) for id, views, found, broken in shown if views}
    assert not {id: each for id, each in asked.items() if each[1] < each[0] or each[2]}
    with_controls = [id for id in asked if not id.endswith("-check")]
    assert len(with_controls) >= WIDGETS.get(chapter.number, 1), with_controls


def every_picture_has_a_text_alternative(chapter: Opened) -> None:
    silent = chapter.page.page.evaluate(
        """() => [...document.querySelectorAll('.jp-Notebook .jp-RenderedHTMLCommon img')]
             .filter(image => image.alt.trim().length < 20).map(image => image.closest('[data-cell]').dataset.cell)"""
    )
    assert silent == []


def no_sum_of_money_is_set_as_a_formula(chapter: Opened) -> None:
    """Two dollars in one paragraph are a formula to MathJax: prose in italics without spaces."""
    formulas = chapter.page.page.evaluate(
        """() => [...document.querySelectorAll('.jp-Notebook mjx-container')].map(
             formula => [formula.closest('[data-cell]').dataset.cell,
               formula.querySelectorAll('mjx-math > mjx-mi').length])"""
    )
    assert formulas == [] or max(letters for _, letters in formulas) < 12, [each for each in formulas if each[1] >= 12]


# ------------------------------------------------------------------------------------------- controls


def every_slider_redraws_its_picture_when_dragged_and_by_keyboard(chapter: Opened) -> None:
    page, still, shown = chapter.page, [], []
    for id in page.cells():
        for slider in page.controls(id, "slider"):
            start, said = slider.place(), slider.value
            far, key, back = (
                (slider.count() - 1, "Right", "Left") if start < slider.count() / 2 else (0, "Left", "Right")
            )
            moves = (
                partial(slider.drag_to, far),
                partial(slider.drag_to, start),
                partial(slider.handle.press, f"Arrow{key}"),
                partial(slider.handle.press, f"Arrow{back}"),
            )
            try:
                for move in moves:
                    slider.redraw(move)
            except page.Late:
                still.append(f"{id}: {slider.label}, from {said} to {slider.value}")
            shown.append(id)
    assert not still
    assert len(shown) >= 4
    for theme in chapter.shown_in():
        page.theme(theme)
        for id in dict.fromkeys(shown):
            chapter.shot(f"{id}-{theme}", page.show(id).locator(".jp-Cell-outputWrapper"))


def every_menu_check_box_and_text_field_redraws_its_picture(chapter: Opened) -> None:
    page, still = chapter.page, []
    for id in page.cells():
        if not page.picture(id):
            continue  # what changes there is tested by name below
        for kind in ("dropdown", "checkbox", "text"):
            for control in page.controls(id, kind):
                try:
                    control.redraw(control.change)
                except page.Late:
                    still.append(f"{id}: {control.label or kind}")
    assert not still


def play_runs_through_the_pictures(chapter: Opened) -> None:
    """Play moves the slider on and the picture with it, and stop goes back to the first one.

    A busy machine leaves pictures out, so none is waited for by its number.
    """
    page = chapter.page
    players = page.page.locator(".jp-OutputArea-output .widget-play")
    for place in range(players.count()):
        player = players.nth(place)
        slider = page.beside(player)
        play, stop = (player.get_by_role("button", name=name) for name in ("play or pause", "stop"))
        first = slider.redraw(partial(slider.drag_to, 0)) if slider.place() else page.picture(slider.cell)
        play.click()
        slider.wait_for_place(min(3, slider.count() - 1))
        page.wait_for_another(slider.cell, first)
        stop.click()
        page.wait_for_picture(slider.cell, first)
        assert slider.place() == 0


# ------------------------------------------------------------------------------------- an exercise, from wrong to right


def answer(attempt: Attempt, sort: str, name: str) -> BankAnswer:
    """An answer of the bank, by its name."""
    known = bank(exercises.card(attempt.exercise).chapter, attempt.exercise)
    return next(each for each in known if (each.sort, each.name) == (sort, name))


def test_the_answers_that_are_typed_are_in_the_bank() -> None:
    for attempt in ATTEMPTS.values():
        assert answer(attempt, "wrong", attempt.wrong) and answer(attempt, "right", attempt.right)


def plain(markdown: str) -> str:
    """Markdown's words as a page shows them, on one line."""
    return " ".join(re.sub(r"[*`_]|^[-#>] ?", "", markdown, flags=re.MULTILINE).split())


def a_wrong_answer_is_told_why_and_the_right_one_gets_full_points(chapter: Opened) -> None:
    from playwright.sync_api import expect

    attempt, page = ATTEMPTS[chapter.number], chapter.page
    card, check = exercises.card(attempt.exercise), f"{attempt.exercise}-check"
    wrong, right = answer(attempt, "wrong", attempt.wrong), answer(attempt, "right", attempt.right)
    cell, panel = page.cell(check), page.cell(check).locator(".course-panel")

    page.write(card.id, wrong.source)
    page.run(card.id)
    page.run(check)
    message = " ".join(judge(wrong).message.split())
    assert message
    expect(panel).to_contain_text(message)  # the page draws outputs a moment after the cell has ended
    expect(panel.locator(".head b")).to_have_text(re.compile("^(Not right yet|Partly right)$"))
    assert float(page.result(check)) < card.points
    both_themes(chapter, "failed", check)

    button = cell.locator(".widget-button")
    while (offer := button.get_attribute("title")).startswith("Show hint"):
        button.click()
        page.wait_for_text(check, f"Hint {re.search('[0-9]', offer)[0]} of 3.")
        expect(button).not_to_have_attribute("title", offer)
    words = plain(cell.locator(".widget-output").text_content())
    assert [text for text in card.hints if plain(text)[:40] not in words] == []
    both_themes(chapter, "hints", check)
    button.click()
    page.wait_for_text(check, "Why.")

    page.write(card.id, right.source)
    page.run(card.id)
    page.run(check)
    expect(panel.locator(".head b")).to_have_text("Passed")
    expect(panel.locator(".points")).to_have_text(f"{card.points} of {count_text(card.points, 'point')}")
    page.wait_for_result(check, card.points)
    expect(button).to_have_text("Worked answer")
    both_themes(chapter, "passed", check)


def both_themes(chapter: Opened, name: str, id: str) -> None:
    """A screenshot of a check in each theme, and its text read against its ground."""
    for theme in chapter.page.themes():
        chapter.page.theme(theme)
        chapter.shot(f"{name}-{theme}", chapter.page.show(id))
        faint = {words: ratio for words, ratio in chapter.page.contrast(id) if ratio < LEAST_CONTRAST}
        assert not faint, f"{theme}: {faint}"


def matching_says_how_many_rows_are_filled_in(chapter: Opened) -> None:
    page, id = chapter.page, "c00-matching-again"
    for control in page.controls(id, "dropdown")[:2]:
        control.change()
    page.wait_for_text(id, "1 are filled in.")


# ------------------------------------------------------------------------------------------- the measurement of latency


def the_measurement_times_each_event_of_a_slider(chapter: Opened) -> None:
    slider = chapter.page.controls("c01-step-widget", "slider")[0]
    start = slider.place()
    times = bench.answers(slider, events=4)
    assert len(times) == 4 and all(1 < each < 5000 for each in times)
    assert slider.place() == start


EVERY_CHAPTER = (
    run_all_passes_an_untouched_chapter_and_shows_what_is_to_do,
    every_widget_is_on_the_page,
    every_picture_has_a_text_alternative,
    no_sum_of_money_is_set_as_a_formula,
    every_slider_redraws_its_picture_when_dragged_and_by_keyboard,
    every_menu_check_box_and_text_field_redraws_its_picture,
    play_runs_through_the_pictures,
    a_wrong_answer_is_told_why_and_the_right_one_gets_full_points,
)
OF_ONE_CHAPTER = {
    "00": (matching_says_how_many_rows_are_filled_in,),
    "01": (the_measurement_times_each_event_of_a_slider,),
}
