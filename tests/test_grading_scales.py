"""Answers on the scales: every right one is confirmed by the operating system, and one that holds too much is not, however little it says it does.

What holds too much lies in `tests/weighed/<exercise>.py`, in sections headed `# %% hungry: NAME`.
"""

import re
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from course_lib import exercises
from course_lib.exercises.judging import judging
from course_lib.exercises.killmatrix import BANK, read_bank
from course_lib.grading.confirm import UNCONFIRMED, confirmed
from course_lib.grading.processes import RankProcesses
from course_lib.grading.remote import WorkerPlace, run_cell
from course_lib.grading.seats import Workers, can_fork
from course_lib.records import Report, Verdict

HUNGRY = Path(__file__).parent / "weighed"
WEIGHED = [card for card in exercises.cards() if judging(card.id).weighed is not None]

pytestmark = pytest.mark.skipif(not can_fork(), reason="the operating system is asked about processes that are forked")


def hungry(name: str) -> dict[str, str]:
    """The answers to an exercise that hold too much, by what they do."""
    head, *parts = re.split(r"^# %% hungry: ", (HUNGRY / f"{name}.py").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {title: head + rest for title, _, rest in (part.partition("\n") for part in parts)}


def right(name: str, chapter: str) -> dict[str, str]:
    """The right answers to an exercise, by name."""
    return {each.name: each.source for each in read_bank(BANK / f"ch{chapter}" / f"{name}.py") if each.sort == "right"}


@cache
def full(name: str) -> Report:
    """A report without fault."""
    card = exercises.card(name)
    verdicts = tuple(Verdict(kind=key.split(":")[0], part=key.split(":")[1], ok=True) for key in judging(name).shares)  # type: ignore[arg-type]
    return Report(exercise=name, state="answered", points=float(card.points), maximum=float(card.points), verdicts=verdicts)


@pytest.fixture(scope="module")
def workers():
    with Workers(torch=True, chapters=sorted({card.chapter for card in WEIGHED})) as made:
        made.wait_ready()
        yield made


@pytest.fixture
def weigh(workers, tmp_path):
    """The report of an answer of which everything was right but what the operating system has yet to confirm."""

    def weighed(name: str, source: str) -> Report:
        (tmp_path / "notebook").mkdir(exist_ok=True)
        with workers.seat(tmp_path / "notebook") as seat, closing(RankProcesses(seat)) as ranks:
            assert run_cell(seat, source, 20.0).state == "answered"
            with WorkerPlace(seat, ranks=ranks) as place:
                return confirmed(exercises.card(name), place, full(name))

    return weighed


@pytest.mark.parametrize(("name", "answer"), [(card.id, answer) for card in WEIGHED for answer in right(card.id, card.chapter)])
def test_a_right_answer_is_confirmed(weigh, name, answer):
    report = weigh(name, right(name, exercises.card(name).chapter)[answer])
    assert report.passed, [verdict.message for verdict in report.verdicts if not verdict.ok]


@pytest.mark.parametrize(("name", "answer"), [(card.id, answer) for card in WEIGHED for answer in hungry(card.id)])
def test_one_that_holds_too_much_is_not(weigh, name, answer):
    report = weigh(name, hungry(name)[answer])
    told = [verdict for verdict in report.verdicts if not verdict.ok]
    assert told and all(verdict.mistake == UNCONFIRMED and "the operating system saw your code come to use" in verdict.message for verdict in told)
    assert 0 < report.points < report.maximum
