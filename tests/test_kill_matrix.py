"""Every shipped answer meets its fate: right ones full points, wrong ones the verdict meant for them.

Together the wrong ones lose every share of the exercise's points: a condition that no shipped answer breaks is not
known to be judged. All of them are judged in this process. Those that the run's rotation names are judged in a worker
of a class too, in its sandbox, with the same result.
"""

import pytest

from course_grader import exercises
from course_grader.bank import kill_matrix
from course_grader.bank.remembering import keeps_nothing
from course_grader.judge import grade
from course_grader.judging.shipped import answers
from course_grader.worker.in_worker import InWorker, run_cell
from tests import run_costs
from tests.left_behind import LEFT, left_behind, settings
from tests.rotation import chosen
from tests.tables import each_of

EXERCISES = [exercise for chapter in chosen for exercise, _ in kill_matrix.judges(chapter)]


def facts(report):
    return report.state, report.points, [(v.kind, v.part, v.ok, v.mistake) for v in report.verdicts]


def in_a_worker(answer, workers, folder):
    """The report on an answer that ran in a worker of a class."""
    with workers.worker(folder) as worker:
        assert run_cell(worker, answer.source).state == "answered", answer.name
        with InWorker(worker) as place:
            report = grade(exercises.card(answer.exercise), place, seconds=kill_matrix.PATIENCE)
            place.settle()
    assert place.lost is None, answer.name
    return report


@pytest.mark.rotates("course_grader/", "course_lib/cluster/", "requirements.lock")
@pytest.mark.parametrize("exercise", EXERCISES)
def test_answers_come_out_in_a_worker_as_they_do_here(exercise, warm, the_rotation, tmp_path):
    crossing = answers(exercise)
    if exercises.card(exercise).chapter not in the_rotation.crossing:
        crossing = the_rotation.sample(exercise, crossing)
    for answer in crossing:
        there = in_a_worker(answer, warm, tmp_path)
        if answer.mistake == "~":  # it races with its own messages
            assert not there.passed, answer.name
        else:
            here = kill_matrix.judge(answer).report
            assert facts(there) == facts(here), f"{answer.name!r} comes out otherwise in a worker"


@pytest.mark.parametrize("exercise", EXERCISES)
def test_every_answer_to_an_exercise_meets_its_fate(exercise):
    """The first right answer is judged beside settings that a notebook may leave behind, and they stay as they were
    left."""
    wrong_fates = []
    first = next(answer for answer in answers(exercise) if answer.sort == "right")
    with left_behind():
        rows = {first.name: kill_matrix.judge(first)}
        assert settings() == LEFT
    for answer in answers(exercise):
        row = rows[answer.name] = rows.get(answer.name) or kill_matrix.judge(answer)
        run_costs.give_back_memory()
        if not row.ok:
            meant = f"{answer.expected} {answer.mistake}".strip(" -") or "full points"
            wrong_fates.append(f"{answer.sort} answer {answer.name!r} meant {meant}; got {row.got}: {row.message}")
    assert not wrong_fates, "\n".join(wrong_fates)
    assert not kill_matrix.never_lost(list(rows.values()))


def test_an_answer_with_the_wrong_fate_fails_the_matrix(tmp_path, monkeypatch):
    shipped = next(answer for answer in answers(EXERCISES[0]) if answer.sort == "right")
    bank = tmp_path / "a_judge.py"
    bank.write_text(f"ANSWERS = {f'# %% wrong: in truth right => values -{chr(10)}{shipped.source}{chr(10)}'!r}\n")
    monkeypatch.setattr(kill_matrix, "judges", lambda *_: [(shipped.exercise, bank)])
    assert kill_matrix.main(["--workers", "1"]) == 1


def test_a_share_that_no_answer_loses_is_told(monkeypatch, capsys):
    right = [answer for answer in answers("pair-exchange") if answer.sort == "right"]
    monkeypatch.setattr(kill_matrix, "bank", lambda *_: right)
    assert kill_matrix.main(["--exercise", "pair-exchange", "--workers", "1"]) == 1
    assert "No answer loses pair-exchange: cost:bytes." in capsys.readouterr().out


@each_of(
    "source, nothing",
    ("import torch\ndef f(x, n=3):\n    y = [x]\n    y.grad = 1\n    return y", True),
    ("import math\nn, m = 3, (1.0, math.inf)\ndef f(x):\n    return n", False),
    ("import math\nn = 3\nm = (1.0, math.inf)\ndef f(x):\n    return n", True),
    ("n = (3, [])\ndef f(x):\n    n[1].append(x)", False),
    ("n = 0\ndef f(x):\n    global n\n    n += 1", False),
    ("def f(x):\n    class Seen:\n        @staticmethod\n        def g(): pass\n    return x", True),
    ("seen = []\ndef f(x):\n    seen.append(x)", False),
    ("def f(x, seen=[]):\n    return seen", False),
    ("def f(x):\n    f.seen = x", False),
    ("import torch\ndef f(x):\n    torch.seen = x", False),
    ("from functools import cache\n@cache\ndef f(x):\n    return x", False),
    ("def f(x):\n    globals()['seen'] = x", False),
    ("def outer(x):\n    n = 0\n    def inner():\n        nonlocal n\n        n += 1\n    return inner", False),
)
def test_only_answers_that_keep_nothing_are_remembered_by_what_they_did(source, nothing):
    space = {}
    exec(source, space)
    assert keeps_nothing(source, space) is nothing
