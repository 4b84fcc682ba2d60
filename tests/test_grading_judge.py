"""The judge: shares, gates, states, and what may cross from an answer."""

import random
import time
from collections import Counter, OrderedDict, defaultdict
from dataclasses import replace

import pytest

from course_app.check import table
from course_grader.exercises import Card
from course_grader.judge import decision, exercise, grade
from course_grader.judge.exercise import hidden_seed
from course_grader.judge.report import report_dict, report_of_dict
from course_grader.judge.result_panel import html_panel, rows, text_panel
from course_grader.judging import Judging, number_fault, verdict
from course_grader.judging.prediction import prediction
from course_grader.records import Case, Report, Verdict
from course_grader.worker.plain_values import NotPlain, plain
from course_grader.worker.runners import InProcess, switched_off


def doubled_card(**more) -> Card:
    return Card(
        id="doubled",
        chapter="00",
        title="Twice",
        text="Twice {{n}}.",
        points=4,
        minutes=1,
        difficulty=1,
        importance=1,
        hints=("a", "b", "c"),
        answers=("doubled",),
        params={"n": 21},
        **more,
    )


def doubled_cases(params, rng: random.Random):
    yield Case(name="the example", args=(params["n"],))
    yield Case(name="another", args=(rng.randint(100, 999),), kind="generality", part="any", visible=False)


def doubled_verdicts(params, case, outcome):
    want = 2 * case.args[0]
    halved = ("halved", "That is half, not twice.") if outcome.value == case.args[0] / 2 else None
    fault = halved or number_fault(case.name, outcome.value, want, unit="apples")
    return [verdict(case.kind, case.part or "twice", case, fault), Verdict(kind="cost", part="calls", ok=True)]


SHARES = {"values:twice": 0.5, "generality:any": 0.25, "cost:calls": 0.25}


@pytest.fixture(autouse=True)
def contract(monkeypatch):
    made = Judging(shares=SHARES, cases=doubled_cases, verdicts=doubled_verdicts, why="because")
    monkeypatch.setattr(exercise, "judging", lambda name: made)


def stop():
    raise SystemExit(3)


def stub(n):
    raise NotImplementedError


ANSWERS = [
    ("right", lambda n: 2 * n, "answered", 4.0),
    ("hard-coded to the example loses generality only", lambda n: 42, "answered", 3.0),
    ("wrong values void the cost that held", lambda n: n / 2, "answered", 0.0),
    ("stub", stub, "not answered", 0.0),
    ("raises", lambda n: n + "a", "raised", 0.0),
    ("exits", lambda n: stop(), "raised", 0.0),
    ("raises beyond the example", lambda n: 42 if n == 21 else 1 / 0, "answered", 3.0),
    ("None", lambda n: None, "answered", 0.0),
    ("text", lambda n: "42", "answered", 0.0),
    ("True is not a number", lambda n: True, "answered", 0.0),
    ("nan", lambda n: float("nan"), "answered", 0.0),
]


@pytest.mark.parametrize(("answer", "state", "points"), [a[1:] for a in ANSWERS], ids=[a[0] for a in ANSWERS])
def test_points_follow_the_shares_that_held(answer, state, points):
    report = grade(doubled_card(), InProcess(answer))
    assert (report.state, report.points) == (state, points)


@pytest.mark.parametrize(("seconds", "told"), [(0.02, True), (600, False)])
def test_an_answer_that_may_run_out_of_time_in_a_class_is_told_the_limit(seconds, told, monkeypatch):
    limited = Judging(
        shares=SHARES,
        cases=lambda *given: [replace(case, seconds=seconds) for case in doubled_cases(*given)],
        verdicts=doubled_verdicts,
        why="because",
    )
    monkeypatch.setattr(exercise, "judging", lambda name: limited)
    report = grade(doubled_card(), InProcess(lambda n: time.sleep(0.1) or 2 * n))
    assert report.passed and ("it may take 0.02 s" in report.slow if told else not report.slow)


def test_an_answer_that_misses_the_point_earns_at_most_half(monkeypatch):
    made = Judging(
        point=("generality:any",), shares=SHARES, cases=doubled_cases, verdicts=doubled_verdicts, why="because"
    )
    monkeypatch.setattr(exercise, "judging", lambda name: made)
    assert grade(doubled_card(), InProcess(lambda n: 42)).points == 2.0
    assert grade(doubled_card(), InProcess(lambda n: 2 * n)).points == 4.0
    with pytest.raises(ValueError, match="'generality:all'.* is no share"):
        replace(made, point=("generality:all",))


def test_an_object_that_always_agrees_earns_nothing():
    class AgreesAsFloat(float):
        def __eq__(self, other):
            return True

    class Agrees:
        def __eq__(self, other):
            return True

    assert grade(doubled_card(), InProcess(lambda n: AgreesAsFloat(1.0))).points == 0
    report = grade(doubled_card(), InProcess(lambda n: Agrees()))
    assert report.points == 0 and "Agrees" in report.note


def test_a_number_that_carries_its_source_is_a_number():
    from course_lib.estimate import facts

    memory = facts.device("H100 SXM").memory
    assert type(plain(memory)) is float and plain([memory, memory / 2]) == [80e9, 40e9]


def test_a_known_mistake_answers_by_name_and_does_not_tell_the_answer():
    report = grade(doubled_card(), InProcess(lambda n: n / 2))
    assert report.verdicts[0].mistake == "halved" and "42" not in text_panel(doubled_card(), report)


def test_numpy_numbers_are_welcome():
    import numpy as np

    assert grade(doubled_card(), InProcess(lambda n: np.float64(2 * n))).passed
    assert grade(doubled_card(), InProcess(lambda n: np.int64(2 * n))).passed


def test_the_answer_cannot_change_the_case_it_is_judged_by():
    seen = []

    def greedy(box):
        box.append(1)
        seen.append(len(box))
        return 2

    case = Case(name="a list", args=([],))
    card = doubled_card()
    assert [InProcess(greedy).run(card, case).value for _ in range(2)] == [2, 2]
    assert seen == [1, 1] and case.args == ([],)


def test_unseen_cases_are_the_same_on_every_repeat_and_differ_between_secrets():
    assert hidden_seed(doubled_card()) == hidden_seed(doubled_card())
    assert hidden_seed(doubled_card(), "a") != hidden_seed(doubled_card(), "b")


def test_shares_must_make_one():
    with pytest.raises(ValueError, match="must make 1"):
        Judging(shares={"values:a": 0.5}, cases=doubled_cases, verdicts=doubled_verdicts, why="")


def test_what_the_worker_measures_itself_is_worth_a_quarter_at_most():
    with pytest.raises(ValueError, match="quarter"):
        Judging(
            shares={"values:a": 0.5, "cost:memory": 0.5},
            cases=doubled_cases,
            verdicts=doubled_verdicts,
            why="",
            measured_by_worker=("cost:memory",),
        )


def test_a_card_cannot_need_a_later_chapter():
    with pytest.raises(ValueError, match="later"):
        doubled_card(needs=("06",))


def test_a_switched_off_function_raises_by_every_name_and_comes_back():
    from course_lib.estimate import compute
    from course_lib.estimate.compute import train_flops

    before = train_flops(1e9, 1e9)
    with switched_off(("course_lib.estimate.compute:train_flops",)):
        with pytest.raises(RuntimeError, match="switched off"):
            train_flops(1e9, 1e9)
        with pytest.raises(RuntimeError, match="train_flops"):
            compute.train_flops(1e9, 1e9)
    assert train_flops(1e9, 1e9) == before


@pytest.mark.parametrize(
    "kind", [OrderedDict, lambda rows: defaultdict(tuple, rows), Counter], ids=["ordered", "default", "counter"]
)
def test_kinds_of_dictionaries_cross_as_dictionaries(kind):
    crossed = plain(kind({"a": 1, "b": 2}))
    assert crossed == {"a": 1, "b": 2} and type(crossed) is dict


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", len, 1j, type], ids=lambda v: type(v).__name__)
def test_only_plain_data_crosses(value):
    with pytest.raises(NotPlain, match="return numbers"):
        plain([value])


def test_what_an_answer_prints_is_kept_apart_and_capped(capsys):
    def chatty(n):
        print("x" * 100_000)
        return 2 * n

    outcome = InProcess(chatty).run(doubled_card(), Case(name="one", args=(1,)))
    assert outcome.value == 2 and len(outcome.output) == 20_000
    assert capsys.readouterr().out == ""


def test_the_panel_escapes_what_came_from_the_answer():
    report = grade(doubled_card(), InProcess(lambda n: "<script>alert(1)</script>"))
    assert "<script>" not in html_panel(doubled_card(), report)


def test_the_panel_names_the_learners_own_line():
    report = grade(doubled_card(), InProcess(lambda n: n + "a"))
    assert "TypeError" in text_panel(doubled_card(), report) and "line" in report.note


def test_a_report_is_plain_json():
    import json

    data = json.loads(json.dumps(report_dict(grade(doubled_card(), InProcess(lambda n: 2 * n)))))
    assert data["points"] == data["maximum"] == 4
    assert {v["kind"] for v in data["verdicts"]} == {"values", "generality", "cost"}


def test_late_messages_are_not_blamed_for_values_that_are_wrong_anyway():
    wrong = Verdict(kind="values", part="sum", ok=False, message="That is the mean.", mistake="mean")
    late = Verdict(
        kind="protocol", part="late", ok=False, message="A tensor is used while it is under way.", mistake="in-flight"
    )
    other = Verdict(
        kind="protocol", part="late", ok=False, message="Ranks 0 and 1 wait for each other.", mistake="deadlock"
    )
    told = decision.without_premature_blame([wrong, late, other])
    assert [v.ok for v in told] == [False] * 3 and told[0] is wrong and told[2] is other
    assert told[1].message == decision.UNSEEN and told[1].mistake == ""
    right = Verdict(kind="values", part="sum", ok=True)
    assert decision.without_premature_blame([right, late]) == [right, late]


def report(*verdicts: Verdict, ranks=()) -> Report:
    """A report with these verdicts, for its words."""
    return Report(exercise="doubled", state="answered", points=0.0, maximum=4.0, verdicts=verdicts, ranks=ranks)


def found(kind: str, case: str, part: str = "twice", message: str = "") -> Verdict:
    return Verdict(kind=kind, part=part, ok=not message, message=message, case=case)


def test_what_holds_is_a_statement_with_its_cases():
    held = report(
        found("values", "one"),
        found("values", "two"),
        found("generality", "three"),
        found("cost", "one"),
        ranks=(1, 4, 8),
    )
    assert rows(held) == [
        ("values", "yes", "The answer is right in both cases, on 1 to 8 ranks."),
        ("cost", "yes", "The cost stays within its bounds."),
        ("generality", "yes", "The answer is right in 1 further case."),
    ]
    assert not any("?" in message for _, _, message in rows(held))


def test_every_function_that_fails_is_reported_and_each_message_once():
    wrong = report(
        found("values", "one", "sums", "`sums` is twice too large."),
        found("values", "two", "sums", "`sums` is wrong."),
        found("values", "one", "means", "`means` returned None."),
        found("generality", "three", "sums", "`sums` is twice too large."),
        found("generality", "three", "means", "`means` returned None."),
        found("cost", "one"),
    )
    both = "`sums` is twice too large.\n`means` returned None."
    assert rows(wrong) == [
        ("values", "no", both),
        ("cost", "–", "This counts once the values are right."),
        ("generality", "no", "The same is wrong in other cases."),
    ]
    assert all(line in text_panel(doubled_card(), wrong) for line in both.splitlines())
    assert all(line in table.why_not(wrong) for line in both.splitlines())  # the command line says the same, whole


@pytest.mark.parametrize(("truth", "headline"), [(2.0, "Your interval holds"), (9.0, "Your interval misses")])
def test_a_prediction_that_misses_is_shown_as_missed_and_keeps_its_points(monkeypatch, truth, headline):
    made = prediction("GB", truth=lambda params: truth, reveal=lambda params: "", why="because")
    monkeypatch.setattr(exercise, "judging", lambda name: made)
    committed = grade(doubled_card(), InProcess(lambda: (1.0, 3.0)))
    assert committed.passed and headline in text_panel(doubled_card(), committed)
    assert ("partly" in html_panel(doubled_card(), committed).split("</style>")[1]) == (truth == 9.0)


def test_a_report_comes_back_whole_from_its_json():
    made = grade(doubled_card(), InProcess(lambda n: 2 * n))
    data = report_dict(made)
    data["verdicts"] = [each | {"of another release": 1} for each in data["verdicts"]]
    assert data["verdicts"] and replace(report_of_dict(data), seconds=made.seconds) == made
