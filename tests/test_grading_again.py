"""An answer that stumbles over its second call earns nothing for it, on ranks too, in a notebook and in a class's
worker."""

import os
import random
from dataclasses import replace

import pytest
import torch

from course_grader import exercises
from course_grader.bank import kill_matrix, mutation
from course_grader.exercises import Card
from course_grader.judge import grade, resolve
from course_grader.judge.report import failures
from course_grader.judge.second_calls import SECOND_CALL, of_the_last_call, second_calls
from course_grader.records import Case, Outcome
from course_grader.worker.in_worker import InWorker, run_cell
from course_grader.worker.runners import InProcess
from course_grader.worker.second_call import CALLS
from course_grader.worker.worker_pool import WorkerPool

OF_RANKS = (
    "mean-metrics", "all-to-all-sizes", "vocab-embedding", "run-any-schedule", "ulysses-exchange", "expert-parallel",
)  # fmt: skip
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


@pytest.fixture(autouse=True)
def settings_put_back():
    """What these answers do to the process ends with each test."""
    dtype, variables = torch.get_default_dtype(), dict(os.environ)
    yield
    torch.set_default_dtype(dtype)
    for name in set(os.environ) - set(variables):
        del os.environ[name]


HARMS = {  # what a right answer does besides -> the mistake, and words of the message
    "args[0].clear()": ("changed-arguments", "Work on a copy"),
    "args[0].reverse()": ("changed-arguments", "Work on a copy"),
    "__import__('os').environ['LEFT'] = str(_calls[0])": ("changed-settings", "the environment variables"),
    "__import__('torch').set_default_dtype(__import__('torch').float64 if _calls[0] % 2 else "
    "__import__('torch').float32)": ("changed-settings", "torch's default dtype"),
    "__import__('torch').manual_seed(3)": ("changed-generators", "torch"),
    "__import__('random').seed(3)": ("changed-generators", "Python's random"),
    "_kept.append(args)": ("changed-memory", "`_kept`"),
    "_seen[_calls[0]] = result": ("changed-memory", "`_seen`"),
}
HARMFUL = """
_calls, _kept, _seen, _first = [0], [], {{}}, {name}
def {name}(*args, **named):
    _calls[0] += 1
    result = _first(*args, **named)
    {harm}
    return result
"""
REMEMBERS = """
_memory, _first = {{}}, {name}
def {name}(*args, **named):
    return _memory.setdefault("first", _first(*args, **named))
"""
HARMLESS = {  # what a right answer may do
    "a memo": "_seen[repr(args)] = result",
    "a draw": "__import__('random').random()",
    "a copy": "args = [list(args[0])]; args[0].clear()",
    "a setting put back": "__import__('torch').set_default_dtype(__import__('torch').get_default_dtype())",
}


def spoiled(exercise: str, how: str) -> str:
    """A shipped right answer whose first function is right once."""
    card = exercises.card(exercise)
    right = next(each for each in kill_matrix.bank(card.chapter) if each.exercise == exercise and each.sort == "right")
    return right.source + how.format(name=card.answers[0])


@pytest.mark.parametrize("exercise", OF_RANKS)
def test_an_answer_that_raises_when_a_rank_calls_it_again_earns_nothing(exercise):
    card = exercises.card(exercise)
    report = grade(card, InProcess(*kill_matrix.names_of(spoiled(exercise, RAISES), card.answers)))
    assert report.points == 0 and not report.passed
    told = failures(report)["values"]
    assert told.startswith(SECOND_CALL) and "nothing is left" in told


def test_an_answer_with_another_result_for_the_same_numbers_is_told_so():
    card = exercises.card("vocab-embedding")
    report = grade(card, InProcess(*kill_matrix.names_of(spoiled(card.id, DRIFTS), card.answers)))
    assert report.points <= card.points / 2 and failures(report)["values"].startswith(SECOND_CALL)


class Slow(InProcess):
    """Each run takes as long as it may, says the computer."""

    def run(self, card: Card, case: Case) -> Outcome:
        """The outcome of one case, with the seconds of a very busy computer."""
        return replace(super().run(card, case), seconds=case.seconds - 0.1)


def test_a_busy_computer_changes_nothing_about_what_is_called_again():
    card = exercises.card("mfu-waste")
    quick, slow = (
        runner(*kill_matrix.names_of(spoiled(card.id, DRIFTS), card.answers)) for runner in (InProcess, Slow)
    )
    at_ease, busy = grade(card, quick), grade(card, slow)
    assert busy.points == at_ease.points < card.points and busy.verdicts == at_ease.verdicts


def test_a_run_of_three_calls_may_take_three_times_as_long():
    cases = resolve(exercises.card("mfu-waste")).cases
    chosen = second_calls(cases)
    assert chosen and all(again.seconds == CALLS * case.seconds for case, again in chosen)


@pytest.mark.slower
def test_a_worker_of_a_class_calls_again_too(tmp_path):
    card = exercises.card("mean-metrics")
    with WorkerPool(torch=True, chapters=("07",)) as workers, workers.worker(tmp_path) as worker:
        assert run_cell(worker, spoiled(card.id, RAISES)).state == "answered"
        with InWorker(worker) as place:
            report = grade(card, place)
    assert report.points == 0 and failures(report)["values"].startswith(SECOND_CALL)


def with_harm(exercise: str, harm: str) -> str:
    name = exercises.card(exercise).answers[0]
    right = next(
        each
        for each in kill_matrix.bank(exercises.card(exercise).chapter)
        if (each.exercise, each.sort) == (exercise, "right")
    )
    return right.source + HARMFUL.format(name=name, harm=harm)


@pytest.mark.parametrize("harm", HARMS)
def test_a_right_result_whose_call_harms_its_caller_earns_half(harm):
    card = exercises.card("shared-adapter")
    report = grade(card, InProcess(*kill_matrix.names_of(with_harm(card.id, harm), card.answers)))
    mistake, words = HARMS[harm]
    told = next(verdict for verdict in report.verdicts if not verdict.ok)
    assert report.points == card.points / 2 and not report.passed
    assert told.mistake == mistake and words in told.message


@pytest.mark.parametrize("harmless", HARMLESS.values(), ids=HARMLESS)
def test_what_harms_nobody_costs_nothing(harmless):
    card = exercises.card("shared-adapter")
    assert grade(card, InProcess(*kill_matrix.names_of(with_harm(card.id, harmless), card.answers))).passed


def test_the_check_leaves_the_learners_generators_as_they_were():
    card = exercises.card("shared-adapter")
    random.seed(5)
    torch.manual_seed(5)
    before = random.getstate(), torch.get_rng_state()
    assert grade(card, InProcess(*kill_matrix.names_of(with_harm(card.id, "pass"), card.answers))).passed
    assert random.getstate() == before[0] and torch.equal(torch.get_rng_state(), before[1])


@pytest.mark.parametrize("exercise", ["vocab-embedding", "all-to-all-sizes", "ulysses-exchange"])
def test_ranks_are_called_on_other_arguments_before(exercise):
    card = exercises.card(exercise)
    report = grade(card, InProcess(*kill_matrix.names_of(spoiled(exercise, REMEMBERS), card.answers)))
    assert not report.passed and report.points <= card.points / 2


def test_a_send_that_nobody_waits_for_is_told_with_its_line():
    card = exercises.card("reduce-scatter-half")
    source = mutation.right_answer(card.id)
    assert source.count("work.wait()") == 1
    report = grade(card, InProcess(*kill_matrix.names_of(source.replace("work.wait()", "pass"), card.answers)))
    told = next(verdict for verdict in report.verdicts if not verdict.ok)
    assert report.points == card.points / 2 and told.mistake == "changed-handles" and "never waited" in told.message


@pytest.mark.parametrize("exercise", ["ring-all-reduce", "average-gradients"])
def test_what_a_card_allows_to_overwrite_may_be_overwritten(exercise):
    assert "overwrite" in exercises.card(exercise).text and exercises.card(exercise).may_change == ("arguments",)


@pytest.mark.slower
def test_a_worker_of_a_class_sees_the_harm_too(tmp_path):
    card = exercises.card("shared-adapter")
    with WorkerPool(torch=True, chapters=("13",)) as workers, workers.worker(tmp_path) as worker:
        assert run_cell(worker, with_harm(card.id, "args[0].clear()")).state == "answered"
        with InWorker(worker) as place:
            report = grade(card, place)
    assert next(verdict.mistake for verdict in report.verdicts if not verdict.ok) == "changed-arguments"


def test_harm_is_not_blamed_on_another_variant():
    card = exercises.card("uneven-layers")
    params = next(each for each in map(card.variant, "abcdef") if each != card.params)
    report = grade(
        card, InProcess(*kill_matrix.names_of(with_harm(card.id, "args[0].clear()"), card.answers)), params=params
    )
    assert {verdict.mistake for verdict in report.verdicts if not verdict.ok} == {"changed-arguments"}


def test_arguments_are_compared_on_every_case_in_a_worker_too(tmp_path):
    card, name = exercises.card("uneven-layers"), "the costs are used up where stages are layers"
    source = next(each.source for each in kill_matrix.bank("10") if (each.exercise, each.name) == (card.id, name))
    with WorkerPool(chapters=("10",)) as workers, workers.worker(tmp_path) as worker:
        assert run_cell(worker, source).state == "answered"
        with InWorker(worker) as place:
            report = grade(card, place)
    told = next(verdict for verdict in report.verdicts if not verdict.ok)
    assert (told.mistake, told.case, report.points) == ("changed-arguments", "as many stages as layers", 4)


@pytest.mark.parametrize(
    "sent", [None, 3, [1], [1, 2, 3], [[1, {"arguments": 3}]], [1, {"no such": "x"}], [1, {3: "x"}], {"a": 1}]
)
def test_a_worker_may_send_anything_as_the_last_calls_value(sent):
    case = Case(name="a case", args=((), ()), twice=True)
    outcome, changed = of_the_last_call(case, Outcome(state="answered", value=sent))
    assert changed == {} and outcome.value in (None, 1)
