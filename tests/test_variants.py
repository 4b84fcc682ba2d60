"""Variants: every student another one, as hard as the next, told from the public one; the kill matrix on any of
them."""

import json
import random
import re
import time
from collections import defaultdict
from dataclasses import replace

import pytest

from course_app.notebook import worked_source
from course_grader import exercises
from course_grader.bank import kill_matrix
from course_grader.bank.answer_bank import read_bank
from course_grader.classroom.variants import difficulty, draw, draw_all, others, seed_of
from course_grader.exercises.placeholders import PLACEHOLDER, format_value
from course_grader.judge import decide, grade, resolve
from course_grader.judge.exercise import as_text
from course_grader.judge.explanation import ANOTHER_STUDENTS, PUBLIC_FORM, explain, needs_explanation
from course_grader.judge.grade_notebook import grade_notebook
from course_grader.judging import judging
from course_grader.records import Outcome
from course_grader.submission import Step, Submission
from course_grader.worker.runners import InProcess
from course_grader.worker.worker_pool import WorkerPool
from tests.tables import each_card

CARDS = exercises.cards()
VARYING = [card for card in CARDS if card.vary is not None]
STUDENTS = [f"student-{number}" for number in range(200)]
SECRET = "5e" * 32
by_id = each_card(lambda card: card.vary is not None)


def drawn(card, students=STUDENTS):
    """The different parameters that some students get of a card."""
    found = {json.dumps(params, sort_keys=True): params for params in (draw(SECRET, who, card) for who in students)}
    return list(found.values())


def answers(exercise, sort="right", reading=None):
    """The shipped answers of one sort, by whether they read their variant's numbers."""
    return [a for a in kill_matrix.bank(exercise=exercise) if a.sort == sort and reading in (None, a.reads_params)]


# --- who gets what


def test_a_draw_depends_on_secret_student_and_exercise_and_on_nothing_else():
    card = exercises.card("train-days-7b")
    assert draw(SECRET, "ada", card) == draw(SECRET, "ada", card)
    seeds = {
        seed_of(*each)
        for each in (
            (SECRET, "ada", card.id),
            ("00", "ada", card.id),
            (SECRET, "bo", card.id),
            (SECRET, "ada", "x"),
            (SECRET, "ad", "a" + card.id),
        )
    }
    assert len(seeds) == 5


def test_what_is_drawn_survives_json_and_judges_alike():
    for card in VARYING:
        params = draw(SECRET, "ada", card)
        assert json.loads(json.dumps(params)) == params and params.keys() == card.params.keys()
        assert as_text(params) == as_text(card.variant(seed_of(SECRET, "ada", card.id)))
    assert draw_all(SECRET, "ada", CARDS).keys() == {card.id for card in VARYING}


def test_others_are_those_with_other_numbers_each_once():
    given = {who: draw_all(SECRET, who, exercises.cards("06")) for who in STUDENTS[:40]}
    found = others(given, "student-3", "reduce-scatter-half", most=5)
    own = given["student-3"]["reduce-scatter-half"]
    assert 1 < len(found) <= 5 and "student-3" not in found and all(each != own for each in found.values())
    assert len({json.dumps(each, sort_keys=True) for each in found.values()}) == len(found)
    assert others(given, "student-3", "audit-free-scaling") == {}


# --- what varies


def test_whatever_can_vary_does():
    """Audits quote what was printed: their numbers are facts."""
    assert {card.form for card in CARDS if card.vary is None} == {"audit"}


@pytest.mark.parametrize("chapter", exercises.chapters())
def test_two_hundred_students_of_a_chapter_have_different_numbers(chapter):
    cards = exercises.cards(chapter)
    sheets = {json.dumps(draw_all(SECRET, who, cards), sort_keys=True) for who in STUDENTS}
    assert len(sheets) == len(STUDENTS)
    assert any(card.structural for card in cards)


@each_card(lambda card: bool(card.structural))
def test_nobody_in_a_class_has_the_public_structure(card):
    assert all(params[card.structural] != card.params[card.structural] for params in drawn(card))


# --- as hard as the next


@pytest.mark.rotates
@by_id
def test_all_variants_of_a_card_are_equally_hard(card):
    found = [difficulty(card, params) for params in drawn(card)[:10]]
    assert all(each == found[0] for each in found)
    if not card.structural:
        assert found[0] == difficulty(card, card.params)
    truth = judging(card.id).truth
    if truth is not None:
        assert all(truth(params) > 0 for params in drawn(card))


MEANT = {("reconcile-ledger", "128")}  # the least size that an unseen block has


@by_id
def test_no_number_of_the_public_variant_is_typed_where_another_is_meant(card):
    """In no template, hint, worked answer or reason; a single digit says nothing."""
    said = {
        "text": PLACEHOLDER.sub("…", card.text),
        "hints": " ".join(card.hints),
        "answer": worked_source(card),
        "title": card.title,
    }
    slots = {match.groups() for match in PLACEHOLDER.finditer(card.text)}
    for params in drawn(card, STUDENTS[:50]):
        assert not PLACEHOLDER.search(card.statement(params))
        for name, form in slots:
            public, own = format_value(card.params[name], form), format_value(params[name], form)
            assert own != "None" and "{{" not in own
            if (
                public != own
                and (card.id, public) not in MEANT
                and len(public) < 60
                and len(re.findall(r"\w", public)) > 1
                and re.search(r"\d", public)
            ):
                for where, written in said.items():
                    assert not re.search(rf"(?<![\w.,]){re.escape(public)}(?!\w|[.,]\d)", written), (
                        where,
                        name,
                        public,
                    )


def test_statements_of_all_variants_are_about_as_long():
    for card in VARYING:
        lengths = [len(card.statement(params)) for params in drawn(card, STUDENTS[:50])]
        assert max(lengths) < 1.25 * min(lengths), card.id


# --- right and wrong


@pytest.mark.parametrize("chapter", exercises.chapters())
def test_a_variant_is_solved_by_its_own_answer_and_the_public_one_is_told_apart(chapter):
    """Of the chapter's shortest exercise with another structure."""
    reading = [card for card in exercises.cards(chapter) if card.structural and answers(card.id, reading=True)]
    card = min(reading, key=lambda card: (card.minutes, -card.importance))
    seed = seed_of(SECRET, "ada", card.id)
    own = kill_matrix.judge(answers(card.id, reading=True)[0], seed)
    assert own.ok and own.got != PUBLIC_FORM, own.message
    public = [kill_matrix.judge(answer, seed) for answer in answers(card.id, reading=False)[:2]]
    assert all(row.ok and row.got == PUBLIC_FORM and row.message for row in public), [
        (row.answer.name, row.got) for row in public
    ]


@pytest.mark.slower
@pytest.mark.parametrize(("chapter", "seed"), [("01", "one"), ("03", "two")])
def test_on_a_variant_every_shipped_answer_meets_its_fate(chapter, seed):
    rows = kill_matrix.matrix(chapter, workers=1, seed=seed)
    assert not [(row.answer.exercise, row.answer.name, row.got, row.message) for row in rows if not row.ok]


def test_the_matrix_takes_a_variant(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(kill_matrix, "matrix", lambda *given: asked.append(given) or [])
    with pytest.raises(SystemExit) as ended:
        kill_matrix.main(["--chapter", "01", "--variant", "s"])
    assert ended.value.code == 2 and asked == [("01", None, "s", None)]
    assert "no bank of answers" in capsys.readouterr().err


def test_a_wrong_answer_may_be_the_right_one_of_another_structure_and_says_so():
    bank = (
        "# %% wrong: the other way => values turned unless direction=-1\n# %% wrong: junk => values -\n# %% "
        "half: some => 2\n"
    )
    other, junk, half = read_bank(bank, "x", "x.py")
    assert (other.expected, other.mistake, other.unless) == ("values", "turned", "direction=-1")
    assert (junk.unless, half.unless, half.expected) == ("", "", "2")


def test_a_wrong_answer_that_reads_its_variant_passes_where_its_heading_says_so():
    right = answers("years-to-weeks", reading=True)[0]
    claimed = replace(right, sort="wrong", expected="values", unless="law=serial")
    assert kill_matrix.judge(claimed, "s").ok and not kill_matrix.judge(claimed).ok
    assert not kill_matrix.judge(replace(claimed, unless="law=doubling"), "s").ok


# --- whose numbers


def shift(step):
    def ring_shift(comm, x):
        if comm.size == 1:
            return x
        got = x.clone()
        work = comm.isend(x, (comm.rank + step) % comm.size)
        comm.recv(got, (comm.rank - step) % comm.size)
        work.wait()
        return got

    return ring_shift


def letters(params):
    from course_chapters.ch00.exercises.judges.match_the_cuts import rows

    return lambda: rows(params)


def test_an_answer_to_another_students_letters_is_told_so_and_gets_the_same_points():
    card = exercises.card("match-the-cuts")
    mine, hers, third = (draw(SECRET, who, card) for who in ("ada", "bo", "cy"))
    known = {"bo": hers, "cy": third}
    report = grade(card, InProcess(letters(hers)), params=mine, others=known)
    assert {v.mistake for v in report.verdicts if not v.ok} >= {ANOTHER_STUDENTS}
    alone = decide(resolve(card, mine), InProcess(letters(hers)))
    assert report.points == alone.points and [v.ok for v in report.verdicts] == [v.ok for v in alone.verdicts]
    told = next(v for v in report.verdicts if v.mistake == ANOTHER_STUDENTS)
    assert told.message.startswith("These are another student's numbers") and "bo" not in told.message.split()
    public = grade(card, InProcess(letters(card.params)), params=mine, others=known)
    assert {v.mistake for v in public.verdicts if not v.ok} >= {PUBLIC_FORM}
    assert grade(card, InProcess(letters(mine)), params=mine, others=known).passed


def test_a_worker_says_so_too_and_an_answer_that_hangs_on_others_numbers_keeps_its_report():
    card = exercises.card("match-the-cuts")
    mine, hers = draw(SECRET, "ada", card), draw(SECRET, "bo", card)
    hangs = (
        f"{card.answers[0]}.seen = 0\ndef {card.answers[0]}():\n    import os, time\n    if "
        f"os.path.exists('seen'):\n        time.sleep(60)\n    open('seen', 'w')\n    return {{}}"
    )
    with WorkerPool(wall=None) as workers:
        told = {}
        for name, source in (
            ("hers", f"def {card.answers[0]}():\n    return {letters(hers)()!r}"),
            ("hangs", hangs.split("\n", 1)[1]),
        ):
            steps = (
                Step(do="run", exercise=card.id, source=source, whose="answer"),
                Step(do="judge", exercise=card.id),
            )
            submission = Submission(steps=steps, exercises=(card.id,))
            (told[name],) = grade_notebook(
                submission, [card], workers, params={card.id: mine}, others={card.id: {"bo": hers}}
            ).reports
    assert ANOTHER_STUDENTS in {v.mistake for v in told["hers"].verdicts}
    assert told["hers"].points == decide(resolve(card, mine), InProcess(letters(hers))).points
    assert (told["hangs"].state, told["hangs"].points) == ("answered", 0.0)


def test_another_owner_is_another_students():
    card = exercises.card("reduce-scatter-half")
    given = {who: draw(SECRET, who, card) for who in STUDENTS[:20]}
    by_owner = {params["owner"]: params for params in given.values()}
    assert set(by_owner) == {1, 2, -1}
    with kill_matrix.beside(card, by_owner[2]):
        (answer,) = kill_matrix.names_of(answers(card.id, reading=True)[0].source, card.answers)
    report = grade(card, InProcess(answer), params=by_owner[-1], others={"b": by_owner[2]}, seconds=10.0)
    assert report.points == 0 and ANOTHER_STUDENTS in {v.mistake for v in report.verdicts}


def test_an_answer_that_is_wrong_for_everybody_is_told_nothing_of_others():
    card = exercises.card("match-the-cuts")
    mine, hers = draw(SECRET, "ada", card), draw(SECRET, "bo", card)
    report = grade(card, InProcess(lambda: {"data": ("A", "ring")}), params=mine, others={"bo": hers})
    assert not {v.mistake for v in report.verdicts} & {PUBLIC_FORM, ANOTHER_STUDENTS}


def test_nothing_is_asked_twice_of_the_public_variant_of_a_right_answer_or_of_an_audit():
    card, audit = exercises.card("ring-shift"), exercises.card("audit-free-scaling")
    mine = draw(SECRET, "ada", card)
    wrong = decide(resolve(card, mine), InProcess(lambda comm, x: x * 0))
    assert needs_explanation(resolve(card, mine), wrong)
    assert not needs_explanation(resolve(card, dict(card.params)), wrong)
    assert not needs_explanation(resolve(card), wrong)
    assert not needs_explanation(resolve(card, mine), decide(resolve(card, mine), InProcess(shift(-1))))
    assert not needs_explanation(resolve(audit), decide(resolve(audit), InProcess(lambda: {})))


class Slow:
    """A place that takes its time, and counts."""

    def __init__(self, seconds, state="answered"):
        self.seconds, self.state, self.runs = seconds, state, 0

    def run(self, card, case):
        self.runs += 1
        time.sleep(self.seconds)
        assert case.seconds <= 1.0
        return Outcome(state=self.state, value={})


def test_explaining_is_bounded_and_costs_no_point_whatever_happens():
    card = exercises.card("match-the-cuts")
    mine = draw(SECRET, "ada", card)
    known = {who: draw(SECRET, who, card) for who in STUDENTS}
    report = decide(resolve(card, mine), InProcess(lambda: {}))
    for place in (Slow(0.0), Slow(0.4), Slow(0.0, "timed out"), Slow(0.0, "crashed")):
        told = explain(resolve(card, mine), place, report, others=known)
        assert told.points == report.points and place.runs <= 24, place.state
        assert [v.message for v in told.verdicts] == [v.message for v in report.verdicts]
    counted = defaultdict(int)

    class Counts(InProcess):
        def run(self, card, case):
            counted[case.name] += 1
            return super().run(card, case)

    explain(resolve(card, mine), Counts(lambda: {}), report, others=known)
    assert sum(counted.values()) == 1, "cases that look alike to an answer are run once"


def test_a_number_by_heart_is_the_public_ones():
    card = exercises.card("predict-weeks")
    assert grade(card, InProcess(lambda: (1.0, 3.0)), params=draw(SECRET, "ada", card)).passed, (
        "a prediction is right whatever it says"
    )
    rng = random.Random(0)
    seeds = [str(rng.random()) for _ in range(5)]
    for seed in seeds:
        assert exercises.card("state-13b").variant(seed)["convention"] != "B"
