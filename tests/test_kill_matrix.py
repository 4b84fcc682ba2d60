"""Every shipped answer meets its fate: right ones full points, wrong ones the verdict meant for them, here and across the boundary."""

import pytest

from course_lib import exercises
from course_lib.exercises import killmatrix
from course_lib.grading.imports import TRAINING
from course_lib.grading.judge import grade
from course_lib.grading.remote import WorkerPlace, run_cell
from course_lib.grading.seats import Workers

ANSWERS = killmatrix.bank()
CHAPTERS = sorted({exercises.card(answer.exercise).chapter for answer in ANSWERS})


@pytest.fixture(scope="session")
def warm():
    """One warm process for all chapters, as `./course check --all` has it: each answer is judged in a fork of its own."""
    with Workers(torch=True, chapters=CHAPTERS, imports=TRAINING, many=True) as workers:
        yield workers


def facts(report):
    return report.state, report.points, [(v.kind, v.part, v.ok, v.mistake) for v in report.verdicts]


@pytest.mark.parametrize("answer", ANSWERS, ids=[f"{a.exercise}: {a.name}" for a in ANSWERS])
def test_answer(answer, warm, tmp_path):
    row = killmatrix.judge(answer)
    assert row.ok, (
        f"{answer.sort} answer {answer.name!r} meant {answer.expected} {answer.mistake}; got {row.got}: {row.message}"
    )
    card = exercises.card(answer.exercise)
    with warm.seat(tmp_path) as seat:
        assert run_cell(seat, answer.source).state == "answered"
        with WorkerPlace(seat) as place:
            there = grade(card, place)
            place.settle()
    assert place.lost is None and (answer.races or facts(there) == facts(row.report)), (
        "in a worker of a class it comes out otherwise"
    )
    assert not answer.races or not (there.passed or row.report.passed)


def test_an_answer_with_the_wrong_fate_fails_the_matrix(tmp_path, monkeypatch):
    shipped = next(a for a in ANSWERS if a.sort == "right")
    folder = tmp_path / "ch00"
    folder.mkdir()
    (folder / f"{shipped.exercise}.py").write_text(f"# %% wrong: in truth right => values -\n{shipped.source}\n")
    monkeypatch.setattr(killmatrix, "BANK", tmp_path)
    assert killmatrix.main(["--workers", "1"]) == 1
