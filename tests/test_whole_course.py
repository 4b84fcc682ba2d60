"""A learner from day zero to the last day, in one browser and one work folder: every chapter, every core exercise once
wrong and once right, then progress, drill, the learner's own trainer and the certificate.

With COURSE_LEARNER=00,06 only these chapters are solved, and the checks at the end are about these.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from course_grader import exercises
from course_grader.bank.answer_bank import BankAnswer
from course_grader.bank.kill_matrix import bank
from course_lib.folders import ROOT
from tests.rotation import CHAPTERS
from tests.test_browser import NAMES

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from bench.chapter_page import ChapterPage

pytestmark = [pytest.mark.browser, pytest.mark.whole]

CHOSEN = tuple(filter(None, os.environ.get("COURSE_LEARNER", "").split(","))) or CHAPTERS
_SAVE = "async () => { await jupyterapp.shell.currentWidget.context.save(); }"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all that this learner has."""
    return tmp_path_factory.mktemp("learner") / "home"


def course(home: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON of a command, run on the learner's work."""
    given = {**os.environ, "COURSE_WORK": str(home / "work"), "COURSE_ROOT": str(ROOT)}
    command = [sys.executable, "-P", "-m", "course_app", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=given)
    assert done.stdout, done.stderr[-2000:]
    return done.returncode, json.loads(done.stdout)


def answers(card: exercises.Card) -> tuple[BankAnswer, BankAnswer]:
    """A wrong answer and a right one of the bank; the wrong one is the first that ends by itself and is wrong in the
    public form."""
    known = bank(card.chapter, card.id)
    right = next(each for each in known if each.sort == "right")
    wrong = [each for each in known if each.sort == "wrong" and not each.unless and "while True" not in each.source]
    return wrong[0], right


def solve(page: "ChapterPage", card: exercises.Card) -> list[str]:
    """Write a wrong answer to an exercise, then a right one; what did not go as it should, in words."""
    check, wrong = f"{card.id}-check", []
    for answer in answers(card):
        page.write(card.id, answer.source)
        page.run(card.id)
        page.run(check)
        try:
            points = float(page.result(check))
            words = page.cell(check).locator(".course-panel").inner_text().strip()
        except page.Late:
            wrong.append(f"{card.id}, {answer.name!r}: no points but {page.cell(check).inner_text()[-400:]!r}")
            continue
        if answer.sort == "right" and points != card.points:
            wrong.append(f"{card.id}, {answer.name!r}: {points:g} of {card.points} points: {words[:300]}")
        if answer.sort == "wrong" and (points >= card.points or len(words) < 40):
            wrong.append(f"{card.id}: the wrong answer {answer.name!r} got {points:g} points: {words[:300]}")
    return wrong


def test_a_learner_solves_the_whole_course_in_the_browser(browser: "Browser", home: Path) -> None:
    from bench.chapter_page import open_chapter
    from bench.lab import served

    problems: list[str] = []
    with served(home, CHOSEN[0]) as address:
        page = open_chapter(browser, address)
        for place, chapter in enumerate(CHOSEN):
            name = NAMES[chapter]
            if place:
                page.turn_to(f"{name}/{name}.ipynb")
            page.run_all()
            problems += [f"{chapter}, before the first answer: {error}" for error in page.errors()]
            for card in exercises.cards(chapter):
                if card.kind == "core":
                    problems += solve(page, card)
            page.page.evaluate(_SAVE)
    assert problems == [], "\n".join(problems)


def test_progress_counts_every_core_exercise(home: Path) -> None:
    rows = {row["chapter"]: row for row in course(home, "progress")[1]["chapters"]}
    assert [chapter for chapter in CHOSEN if not rows[chapter]["passed"]] == []
    assert [chapter for chapter in CHAPTERS if chapter not in CHOSEN and rows[chapter]["passed"]] == []


def test_the_drill_asks_about_the_chapters_that_were_passed(home: Path) -> None:
    code, said = course(home, "drill")
    assert code == 0 and said["chapters"] == list(CHOSEN) and said["due"]


def test_the_learners_own_trainer_runs_and_holds_against_the_librarys(home: Path) -> None:
    code, said = course(home, "mine", "--ranks", "1,2", "--steps", "3")
    assert code == 0 and said["runs"]


def test_the_certificate_holds_when_all_answers_are_judged_again(home: Path) -> None:
    code, said = course(home, "certificate", "--name", "Ada")
    assert code == 0 and {chapter["chapter"] for chapter in said["chapters"]} >= set(CHOSEN)
    code, found = course(home, "certificate", "--verify", said["page"])
    assert code == 0 and found["holds"] and found["differences"] == []
