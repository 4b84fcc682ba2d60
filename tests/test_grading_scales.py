"""Answers on the scales: every right one is confirmed by the operating system, and one that holds too much is not,
however little it says it does.

What holds too much is in the exercise's bank, or lies in `tests/weighed/<exercise>.py` in sections headed
`# %% hungry: NAME`; with `<= NAME OF THE BANK` behind it the section follows that answer.
"""

import re
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from course_grader import exercises
from course_grader.bank.kill_matrix import bank
from course_grader.judge import Exercise, confirmed_memory, resolve
from course_grader.judge.confirmed_memory import UNCONFIRMED, confirm_memory, weighed_case
from course_grader.judge.grade_notebook import grade_notebook
from course_grader.judging import Weighed, judging
from course_grader.records import Report, Verdict
from course_grader.sandbox.policy import Wall
from course_grader.submission import Step, Submission
from course_grader.worker.in_worker import InWorker, run_cell
from course_grader.worker.rank_processes import RankProcesses
from course_grader.worker.worker_pool import WorkerPool, can_fork

PATIENCE = 600.0  # s that a weighed run may take here
HUNGRY = Path(__file__).parent / "weighed"
OF_THE_BANK = {
    "write-checkpointing": ("a plain call", "computed again and kept all the same"),
    "chunked-cross-entropy": ("one checkpoint around everything", "chunks, but autograd keeps them"),
    "graphs-kept-alive": ("graphs retained", "all micro-batches in one, padded"),
    "ring-all-reduce": ("whole tensors at every hop",),
    "fsdp-by-hand": (
        "rows lie in a list, though they are gathered again",
        "copies of the rows, with the second gather for show",
        "whole gradients wait until the end",
    ),
    "loss-stands-still": ("trained without shards, sharded in the end",),
    "own-and-tell": ("every rank steps everything, and owners tell it to all",),
    "reshard-checkpoint": ("a table with an owner for every number",),
    "column-and-row": (
        "views of the whole",
        "contiguous is no copy where it is contiguous already",
        "a deep copy of a view copies what lies behind it",
    ),
    "vocab-cross-entropy": ("gathers all logits", "a row of the whole vocabulary for each token"),
    "ring-attention": ("all blocks are kept",),
    "ring-backward": ("all blocks are kept",),
    "deadlocked-1f1b": ("GPipe, which does not hang and holds everything", "one extra forward ahead"),
}
WEIGHED = [card for card in exercises.cards() if judging(card.id).weighed is not None]

pytestmark = pytest.mark.skipif(not can_fork(), reason="the operating system is asked about processes that are forked")


def hungry(name: str) -> dict[str, str]:
    """The answers to an exercise that hold too much, by what they do."""
    known = {each.name: each.source for each in bank(exercises.card(name).chapter, name)}
    found = {title: known[title] for title in OF_THE_BANK.get(name, ())}
    path = HUNGRY / f"{name}.py"
    head, *parts = re.split(
        r"^# %% hungry: ", path.read_text(encoding="utf-8") if path.exists() else "", flags=re.MULTILINE
    )
    for title, _, rest in (part.partition("\n") for part in parts):
        what, follows, first = title.partition(" <= ")
        found[what] = head + (known[first] if follows else "") + "\n" + rest
    return found


def right(name: str, chapter: str) -> dict[str, str]:
    """The right answers to an exercise, by name."""
    return {each.name: each.source for each in bank(chapter, name) if each.sort == "right"}


@cache
def full(name: str) -> Report:
    """A report without fault."""
    card = exercises.card(name)
    verdicts = tuple(Verdict(kind=key.split(":")[0], part=key.split(":")[1], ok=True) for key in judging(name).shares)  # type: ignore[arg-type]
    return Report(
        exercise=name, state="answered", points=float(card.points), maximum=float(card.points), verdicts=verdicts
    )


@pytest.fixture(scope="module")
def workers():
    with WorkerPool(torch=True, chapters=sorted({card.chapter for card in WEIGHED})) as made:
        made.wait_ready()
        yield made


@pytest.fixture
def weigh(workers, tmp_path, monkeypatch):
    """The report of an answer of which everything was right but what the operating system has yet to confirm.

    The time limit is ten minutes, so that a busy machine does not change the result.
    """

    def patient(exercise: Exercise) -> Weighed:
        large = weighed_case(exercise)
        return replace(large, case=replace(large.case, seconds=PATIENCE), warm=replace(large.warm, seconds=PATIENCE))

    monkeypatch.setattr(confirmed_memory, "weighed_case", patient)

    def weighed(name: str, source: str) -> Report:
        (tmp_path / "notebook").mkdir(exist_ok=True)
        with workers.worker(tmp_path / "notebook") as worker, closing(RankProcesses(worker)) as ranks:
            assert run_cell(worker, source, 20.0).state == "answered"
            with InWorker(worker, ranks=ranks) as place:
                return confirm_memory(resolve(exercises.card(name)), place, full(name))

    return weighed


@pytest.mark.rotates("course_grader/", "course_lib/cluster/")
@pytest.mark.parametrize(
    ("name", "answer"), [(card.id, answer) for card in WEIGHED for answer in right(card.id, card.chapter)]
)
def test_a_right_answer_is_confirmed(weigh, name, answer):
    report = weigh(name, right(name, exercises.card(name).chapter)[answer])
    assert report.passed, [verdict.message for verdict in report.verdicts if not verdict.ok]


@pytest.mark.rotates("course_grader/", "course_lib/cluster/")
@pytest.mark.parametrize(("name", "answer"), [(card.id, answer) for card in WEIGHED for answer in hungry(card.id)])
def test_one_that_holds_too_much_is_not(weigh, name, answer):
    report = weigh(name, hungry(name)[answer])
    told = [verdict for verdict in report.verdicts if not verdict.ok]
    assert told and all(
        verdict.mistake == UNCONFIRMED and "by the operating system's figure" in verdict.message for verdict in told
    )
    assert 0 < report.points < report.maximum


# --- in a whole notebook, where the ranks that are weighed have run other cases before

LIES = """
import course_lib.model.accounting


def lie():
    course_lib.model.accounting.Accounting.peak_bytes = property(lambda self: 6400, lambda self, value: None)
"""
LIAR = """
honest_or_not = ring_all_reduce


def ring_all_reduce(comm, x):
    lie()
    return honest_or_not(comm, x)
"""
SLOW = """
import time

fast = ring_all_reduce


def ring_all_reduce(comm, x):
    while x.numel() > 100_000:
        time.sleep(0.01)
    return fast(comm, x)
"""


def marked(workers, **sources: str) -> dict[str, Report]:
    """Reports of a notebook with these answers, by the exercise's name with _ for -."""
    steps = [
        step
        for name, source in sources.items()
        for step in (
            Step(do="run", exercise=name.replace("_", "-"), source=source, whose="answer"),
            Step(do="judge", exercise=name.replace("_", "-")),
        )
    ]
    names = tuple(name.replace("_", "-") for name in sources)
    limits = Wall(level="none", case_seconds=2.0)
    done = grade_notebook(
        Submission(steps=tuple(steps), exercises=names),
        exercises.cards("06"),
        workers,
        deciding_ranks=True,
        limits=limits,
    )
    return {report.exercise: report for report in done.reports}


def first_right(name: str) -> str:
    return next(iter(right(name, "06").values()))


def test_a_liar_about_its_memory_is_found_out_in_ranks_that_have_run_its_other_cases(workers):
    answer = hungry("ring-all-reduce")["keeps everything that comes"]
    reports = marked(workers, ring_shift=first_right("ring-shift"), ring_all_reduce=LIES + answer + LIAR)
    ring = reports["ring-all-reduce"]
    assert [verdict.mistake for verdict in ring.verdicts if not verdict.ok] == [UNCONFIRMED]
    assert reports["ring-shift"].passed
    assert ring.points == pytest.approx(ring.maximum * (1 - judging("ring-all-reduce").shares["cost:memory"]))


def test_one_that_never_ends_on_the_scales_costs_nobody_else_a_point(workers):
    reports = marked(
        workers, ring_all_reduce=first_right("ring-all-reduce") + SLOW, ring_shift=first_right("ring-shift")
    )
    ring = reports["ring-all-reduce"]
    assert [verdict.mistake for verdict in ring.verdicts if not verdict.ok] == [UNCONFIRMED]
    assert reports["ring-shift"].passed
