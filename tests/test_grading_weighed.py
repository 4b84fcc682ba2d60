"""Memory that was measured inside a worker, confirmed by the operating system: the gauge, and what a report keeps."""

import os
from dataclasses import replace

import pytest

from course_grader import exercises
from course_grader.judge import Exercise, resolve
from course_grader.judge.closed_words import closed
from course_grader.judge.confirmed_memory import UNCONFIRMED, confirm_memory, needs_confirmation, weighed_case
from course_grader.judge.decision import HALF
from course_grader.judging import judging
from course_grader.records import Outcome, Report, Verdict
from course_grader.remote_ranks import trusted_pickle
from course_grader.sandbox.memory_gauge import Gauge
from course_grader.worker.process_state import exact_memory
from tests.conftest import printed
from tests.tables import each_alone

WEIGHED = [card.id for card in exercises.cards() if judging(card.id).weighed is not None]
BYTES = ("cost:memory", "cost:state")  # the shares that are bytes in memory; others count calls, graphs or steps
MB = 1_000_000


def child(nbytes: int, forget: bool):
    """A process that takes so many bytes when told to, lets go of them, and may set its own highest value back, twice:
    its pid, how to go on, and how to end it (it lives until then: of one that has gone the system says nothing)."""
    (told, tell), (hear, said) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        for _ in range(2):
            os.read(told, 1)
            block = bytearray(nbytes)
            block[::4096] = b"x" * len(block[::4096])
            os.write(said, b"x")
            os.read(told, 1)
            del block
            # as a worker does before it is weighed: the tests before may have left so much free that none is given back
            exact_memory()
            if forget:
                with open("/proc/self/clear_refs", "w") as file:
                    file.write("5")
            os.write(said, b"x")
        os.read(told, 1)
        os._exit(0)

    def step() -> None:
        os.write(tell, b"x")
        os.read(hear, 1)

    def end() -> None:
        os.write(tell, b"x")
        os.waitpid(pid, 0)

    return pid, step, end


@pytest.mark.parametrize("forget", [False, True], ids=["with its highest value", "which it sets back"])
def test_the_gauge_sees_what_a_process_takes_to_within_a_few_megabytes(forget):
    pid, step, end = child(64 * MB, forget)
    try:
        step(), step()  # what it took before does not count
        gauge = Gauge(lambda: [pid], 0)
        step()
        if forget:
            gauge.look()  # of the highest value nothing will be left
        step()
        assert 63 * MB < gauge.grown() < 70 * MB, gauge.seen
    finally:
        end()


def test_a_process_that_comes_later_counts_and_one_that_has_gone_stays_counted():
    pids: list[int] = []
    gauge = Gauge(lambda: pids, 0)
    pid, step, end = child(32 * MB, False)
    pids.append(pid)
    step()
    gauge.look()
    step(), step(), step()
    end()
    assert gauge.grown() > 31 * MB


def test_memory_that_lay_free_before_counts_where_it_is_used_again():
    """A block is small enough to come from the heap, and many of them are kept there free, as an exercise before may
    leave them."""
    code = """
import ctypes, os
from course_grader.worker.process_state import exact_memory
from course_grader.sandbox.memory_gauge import Gauge
ctypes.CDLL(None).mallopt(-1, 2**30)  # nothing is given back by itself
blocks = [bytearray(100_000) for _ in range(640)]
last = bytearray(100_000)
del blocks
told = []
for exact in (lambda: None, exact_memory):
    exact()
    gauge = Gauge(lambda: [os.getpid()], 0)
    blocks = [bytearray(b"x" * 100_000) for _ in range(640)]
    told.append(gauge.grown())
    del blocks
print(*told)
"""
    without, exact = map(int, printed(code).split())
    assert without < 20 * MB and 60 * MB < exact < 75 * MB


class Scales:
    """A place that says of the weighed case what it is told to."""

    def __init__(self, outcome: Outcome, grown: int) -> None:
        self.said = outcome, grown

    def weigh(self, card, warm, case):
        return self.said


def full_report(name: str) -> tuple[Exercise, Report]:
    card = exercises.card(name)
    verdicts = tuple(Verdict(kind=key.split(":")[0], part=key.split(":")[1], ok=True) for key in judging(name).shares)
    return resolve(card), Report(
        exercise=name, state="answered", points=float(card.points), maximum=float(card.points), verdicts=verdicts
    )


@pytest.mark.parametrize("name", WEIGHED)
def test_a_weighed_case_is_large_the_same_at_every_repeat_and_about_memory(name):
    card = exercises.card(name)
    for params in (card.params, card.variant("one")):
        one, two, other = (weighed_case(resolve(card, params, secret)) for secret in ("a", "a", "b"))
        first, again, another = (
            trusted_pickle.pack([each.case.args, each.case.per_rank]) for each in (one, two, other)
        )
        assert one.most >= 64 * MB and first == again != another
        assert set(one.shares) <= set(judging(name).shares) and set(judging(name).measured_by_worker) <= set(one.shares)
        assert one.warm.ranks == one.case.ranks and not one.case.visible and one.case.kind == "cost"


def test_all_memory_that_a_worker_measures_is_weighed():
    assert {card.id for card in exercises.cards() if set(BYTES) & set(judging(card.id).measured_by_worker)} == set(
        WEIGHED
    )
    assert len(WEIGHED) >= 11


@each_alone(
    "outcome, grown, words",
    (Outcome(state="answered", value={}), 10**9, "your code used 1,000 MB by the operating system's figure"),
    (Outcome(state="answered", value={}), 1, "the result is not the right one"),
    (
        Outcome(state="answered", value=[{"a": ()}] * 8, meter={"bytes_sent": None}),
        1,
        "the result is not the right one",
    ),
    (Outcome(state="timed out", error="ran longer than 30 s"), 1, "gave no answer: ran longer than 30 s"),
)
@pytest.mark.parametrize("name", WEIGHED)
def test_what_the_system_does_not_confirm_costs_the_shares_of_memory_and_no_other(name, outcome, grown, words):
    exercise, report = full_report(name)
    assert needs_confirmation(exercise, report)
    left = confirm_memory(exercise, Scales(outcome, grown), report)
    shares = weighed_case(exercise).shares
    lost = sum(exercise.contract.shares[key] for key in shares)
    most = HALF if set(shares) & set(exercise.contract.point) else 1.0
    assert left.points == pytest.approx(exercise.card.points * min(1 - lost, most)) and lost >= 0.05
    (told, *_) = [v for v in left.verdicts if not v.ok]
    assert told.mistake == UNCONFIRMED and words in told.message


def test_of_the_weighed_run_a_class_quotes_nothing():
    exercise, report = full_report("ring-all-reduce")
    error = Outcome(state="raised", error="cell, line 2: rank 1 raised ValueError: /srv/secret (line 2 of your cell)")
    left = confirm_memory(exercise, Scales(error, 1), report, closed("def f():\n    pass"))
    (told, *_) = [v.message for v in left.verdicts if not v.ok]
    assert "secret" not in told and "rank 1 raised ValueError, line 2 of the cell" in told
    left = confirm_memory(exercise, Scales(Outcome(state="answered", value={}), 123_456_789), report)
    assert "used 120 MB" in [v.message for v in left.verdicts if not v.ok][0]


def test_only_an_answer_that_earned_its_memory_is_weighed():
    exercise, report = full_report("graphs-kept-alive")
    for kind, part in (("values", "loss"), ("cost", "memory")):
        less = replace(report, verdicts=tuple(replace(v, ok=(v.kind, v.part) != (kind, part)) for v in report.verdicts))
        assert not needs_confirmation(exercise, less)
    assert not needs_confirmation(exercise, replace(report, state="crashed"))
    assert not needs_confirmation(*full_report("state-of-a-plan"))
