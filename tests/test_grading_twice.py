"""A notebook is gone through twice at most: what passes in its own process is judged once, all else again, on
clones."""

import pytest

from course_grader import exercises
from course_grader.bank.kill_matrix import bank
from course_grader.blank_notebook import STUB
from course_grader.judge.grade_notebook import grade_notebook
from course_grader.records import Report
from course_grader.submission import Step, Submission
from course_grader.worker.in_worker import InWorker
from course_grader.worker.worker_pool import WorkerPool, can_fork
from tests.patience import patience
from tests.tables import each_alone

NAMES = ("train-days-7b", "mfu-waste", "cost-sensitivity")
FORKED, ITSELF = True, False  # where an exercise is judged

pytestmark = pytest.mark.skipif(not can_fork(), reason="without forks there are no clones")


@pytest.fixture(scope="module")
def workers():
    with WorkerPool(chapters=("01",), imports=("course_lib.estimate.units", "course_lib.estimate.compute")) as made:
        yield made


@pytest.fixture
def places(monkeypatch):
    """Where exercises were judged, in order: (exercise, whether on a clone)."""
    seen: list[tuple[str, bool]] = []

    class Place(InWorker):
        def __init__(self, *given, **more):
            super().__init__(*given, **more)
            self.named = False

        def run(self, card, case):
            if not self.named:
                seen.append((card.id, self.clones))
                self.named = True
            return super().run(card, case)

    monkeypatch.setattr("course_grader.judge.grade_notebook.InWorker", Place)
    return seen


def right(name: str) -> str:
    return next(each.source for each in bank("01", name) if each.sort == "right")


def graded(workers: WorkerPool, **answers: str) -> dict[str, Report]:
    """Reports of a notebook with these answers, by the exercise's name with _ for -; the right one where none is
    given."""
    steps = []
    for name in NAMES:
        source = answers.get(name.replace("-", "_"), right(name))
        steps += [Step(do="run", exercise=name, source=source, whose="answer"), Step(do="judge", exercise=name)]
    cards = [exercises.card(name) for name in NAMES]
    return {
        report.exercise: report
        for report in grade_notebook(Submission(steps=tuple(steps), exercises=NAMES), cards, workers).reports
    }


def wrapped(name: str, first: str) -> str:
    """The right answer, which does something else before."""
    function = exercises.card(name).answers[0]
    return (
        f"{right(name)}\n_right_{function} = {function}\ndef {function}(*given, **more):\n    {first}\n    return "
        f"_right_{function}(*given, **more)\n"
    )


def earned(reports: dict[str, Report]) -> list[bool]:
    return [reports[name].passed for name in NAMES]


def test_what_is_right_is_judged_once_and_in_the_notebooks_own_process(workers, places):
    assert earned(graded(workers)) == [True, True, True]
    assert places == [(name, ITSELF) for name in NAMES]


def test_what_is_wrong_is_judged_again_on_a_clone(workers, places):
    assert earned(graded(workers, mfu_waste=wrapped("mfu-waste", "return -1.0"))) == [True, False, True]
    assert places == [*((name, ITSELF) for name in NAMES), ("mfu-waste", FORKED)]


@each_alone(
    "harm, look",
    ("sys.modules['left'] = sys", "assert 'left' not in sys.modules"),
    ("os.chdir('/')", "assert os.getcwd() != '/'"),
    ("open('left', 'w').close()", "assert not os.path.exists('left')"),
    ("threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", "assert threading.active_count() == 1"),
)
def test_what_an_exercise_leaves_in_its_process_costs_the_next_ones_nothing(workers, places, harm, look):
    imports = "import os, sys, threading, time; "
    reports = graded(
        workers,
        mfu_waste=wrapped("mfu-waste", imports + harm),
        cost_sensitivity=wrapped("cost-sensitivity", imports + look),
    )
    assert earned(reports) == [True, True, True], reports
    assert places == [*((name, ITSELF) for name in NAMES), ("cost-sensitivity", FORKED)]


def test_a_stub_is_not_answered_and_judged_once(workers, places):
    function = exercises.card("mfu-waste").answers[0]
    reports = graded(workers, mfu_waste=f"def {function}(*given, **more):\n    {STUB}\n")
    assert (reports["mfu-waste"].state, earned(reports)) == ("not answered", [True, False, True])
    assert places == [(name, ITSELF) for name in NAMES]


def test_a_call_of_another_exercises_stub_is_looked_at_again(workers, places):
    reports = graded(
        workers,
        mfu_waste=wrapped("mfu-waste", "raise NotImplementedError").replace(STUB, "raise (NotImplementedError)"),
    )
    assert reports["mfu-waste"].state == "not answered"
    assert places[-1] == ("mfu-waste", FORKED)


@pytest.mark.parametrize("end", ["import os; os._exit(3)", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"])
def test_the_others_are_judged_once_where_one_ends_the_process(workers, places, end):
    reports = graded(workers, mfu_waste=wrapped("mfu-waste", end))
    assert earned(reports) == [True, False, True]
    assert reports["mfu-waste"].state == "crashed"
    assert places == [*((name, ITSELF) for name in NAMES), ("mfu-waste", FORKED)]


def test_an_answer_that_is_slow_has_all_its_time_the_second_time(workers, places, monkeypatch):
    seconds = patience(0.4)  # enough for the others on a busy machine too
    monkeypatch.setattr("course_grader.judge.grade_notebook.QUICK_SECONDS", seconds)
    sleep = f"import time; once or once.append(time.sleep({1.5 * seconds}))"
    slow = "once = []\n" + wrapped("cost-sensitivity", sleep)
    reports = graded(workers, cost_sensitivity=slow)
    assert earned(reports) == [True, True, True], reports
    assert places == [*((name, ITSELF) for name in NAMES), ("cost-sensitivity", FORKED)]


def test_a_cell_that_ends_the_process_leaves_all_to_the_second_time(workers, places, monkeypatch):
    monkeypatch.setattr("course_grader.judge.grade_notebook.QUICK_CELL_SECONDS", 0.4)
    assert earned(graded(workers, train_days_7b="import time; time.sleep(0.6)\n" + right("train-days-7b"))) == [
        True,
        True,
        True,
    ]
    assert places == [(name, FORKED) for name in NAMES]


def test_the_first_time_has_its_share_of_the_time_and_takes_none_of_the_second(workers, places, monkeypatch):
    monkeypatch.setattr("course_grader.judge.grade_notebook.QUICK_SHARE", 0.0)
    assert earned(graded(workers)) == [True, True, True]
    assert places == [(name, FORKED) for name in NAMES]


def test_processes_that_end_again_and_again_are_not_begun_without_end(workers, places):
    reports = graded(workers, **{name.replace("-", "_"): wrapped(name, "import os; os._exit(3)") for name in NAMES})
    assert earned(reports) == [False, False, False]
    assert places.count((NAMES[0], ITSELF)) == 1
    assert len(places) == 2 * len(NAMES)
