"""An answer that stumbles over its second call earns nothing for it, on ranks too, in a notebook and in a class's worker."""

import pytest

from course_lib import exercises
from course_lib.exercises import killmatrix
from course_lib.grading.judge import grade
from course_lib.grading.judge.decision import SECOND_CALL
from course_lib.grading.judge.report import failures
from course_lib.grading.worker.in_worker import InWorker, run_cell
from course_lib.grading.worker.runners import InProcess
from course_lib.grading.worker.worker_pool import WorkerPool

OF_RANKS = (
    "mean-metrics",
    "all-to-all-sizes",
    "vocab-embedding",
    "run-any-schedule",
    "ulysses-exchange",
    "expert-parallel",
)
RAISES = """
_calls, _first = [], {name}
def {name}(*args, **named):
    _calls.append(len(args))
    if len(_calls) == 2:
        raise RuntimeError("nothing is left")
    return _first(*args, **named)
"""
DRIFTS = """
_calls, _first = [], {name}
def {name}(*args, **named):
    _calls.append(len(args))
    return _first(*args, **named) * (1 if len(_calls) == 1 else 2)
"""


def spoiled(exercise: str, how: str) -> str:
    """A shipped right answer whose first function is right once."""
    card = exercises.card(exercise)
    right = next(each for each in killmatrix.bank(card.chapter) if each.exercise == exercise and each.sort == "right")
    return right.source + how.format(name=card.answers[0])


@pytest.mark.parametrize("exercise", OF_RANKS)
def test_an_answer_that_raises_when_a_rank_calls_it_again_earns_nothing(exercise):
    card = exercises.card(exercise)
    report = grade(card, InProcess(*killmatrix.names_of(spoiled(exercise, RAISES), card.answers)))
    assert report.points == 0 and not report.passed
    told = failures(report)["values"]
    assert told.startswith(SECOND_CALL) and "nothing is left" in told


def test_an_answer_with_another_result_for_the_same_numbers_is_told_so():
    card = exercises.card("vocab-embedding")
    report = grade(card, InProcess(*killmatrix.names_of(spoiled(card.id, DRIFTS), card.answers)))
    assert report.points <= card.points / 2 and failures(report)["values"].startswith(SECOND_CALL)


def test_a_worker_of_a_class_calls_again_too(tmp_path):
    card = exercises.card("mean-metrics")
    with WorkerPool(torch=True, chapters=("07",)) as workers, workers.worker(tmp_path) as worker:
        assert run_cell(worker, spoiled(card.id, RAISES)).state == "answered"
        with InWorker(worker) as place:
            report = grade(card, place)
    assert report.points == 0 and failures(report)["values"].startswith(SECOND_CALL)
