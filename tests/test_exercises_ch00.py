"""Chapter 00's exercises: variants keep their meaning, guessing does not pay, and nothing returned can upset the judge."""

import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import exercises
from course_lib.exercises import killmatrix
from course_lib.exercises.ch00 import CARDS, DRILLS, NUMBERS
from course_lib.exercises.ch00 import judges as ch00
from course_lib.exercises.ch00.cards import PROPERTIES
from course_lib.exercises.ch00.judges.exchange import partner_of
from course_lib.exercises.ch00.judges.match import CUTS, TALK, letters
from course_lib.exercises.ch00.judges.token import token_at
from course_lib.exercises.ch00.numbers import ROUTES, estimate
from course_lib.facts import course
from course_lib.grading.judge import grade
from course_lib.grading.worker.runners import InProcess
from course_lib.judging import drill_verdict, judging
from course_lib.records import Outcome

SEEDS = [f"student-{n}" for n in range(12)]


def public_answer(exercise: str):
    """The first right answer of the bank, which solves the public form."""
    right = next(each for each in killmatrix.bank("00") if each.exercise == exercise and each.sort == "right")
    return killmatrix.names_of(right.source, exercises.card(exercise).answers)[0]


def exchange_for(pairing):
    def exchange(comm, x):
        other = {
            "neighbours": comm.rank ^ 1,
            "mirrored": comm.size - 1 - comm.rank,
            "halves": (comm.rank + comm.size // 2) % comm.size,
        }[pairing]
        theirs = torch.empty_like(x)
        for act in ("send", "recv") if comm.rank < other else ("recv", "send"):
            getattr(comm, act)(x if act == "send" else theirs, other)
        return theirs

    return exchange


def pass_token_by(step):
    def pass_token(comm, token):
        if comm.size == 1:
            return token
        after, before = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        seen = torch.empty_like(token)
        if comm.rank:
            comm.recv(seen, before)
            seen += token
            comm.send(seen, after)
        else:
            comm.send(token, after)
            comm.recv(seen, before)
        return seen

    return pass_token


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_a_variant_is_passed_by_its_own_answer_and_tells_the_public_one_apart(seed):
    for name, build, key in (
        ("two-ranks-wait", exchange_for, "pairing"),
        ("token-round-the-ring", pass_token_by, "direction"),
    ):
        card = exercises.card(name)
        params = card.variant(seed)
        assert params[card.structural] != card.params[card.structural], (
            "a variant that is the public form tells nothing"
        )
        own = grade(card, InProcess(build(params[key])), params=params)
        assert own.passed, [v for v in own.verdicts if not v.ok]
        public = grade(card, InProcess(public_answer(name)), params=params)
        assert not public.passed and "public-form" in {v.mistake for v in public.verdicts}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_letters_of_a_variant_are_found_again_and_pass(seed):
    card = exercises.card("match-the-cuts")
    params = card.variant(seed)
    found = letters(params)
    assert sorted(found.values()) == list("ABCDEF")
    report = grade(card, InProcess(lambda: {cut: (found[cut], row[1]) for cut, row in CUTS.items()}), params=params)
    assert report.points == card.points


def test_guessing_the_matches_blindly_earns_less_than_a_tenth():
    card = exercises.card("match-the-cuts")
    rng = random.Random(0)
    points = []
    for _ in range(200):
        guess = {cut: (letter, rng.choice(TALK)) for cut, letter in zip(CUTS, rng.sample("ABCDEF", 6), strict=True)}
        points.append(grade(card, InProcess(lambda guess=guess: guess)).points)
    assert sum(points) / len(points) < card.points / 10


@pytest.mark.parametrize("letter", "ABCDEF")
@pytest.mark.parametrize("talk", TALK)
def test_one_answer_for_every_row_of_the_matches_earns_nothing(letter, talk):
    assert grade(exercises.card("match-the-cuts"), InProcess(lambda: dict.fromkeys(CUTS, (letter, talk)))).points == 0


def test_the_public_list_of_properties_is_not_in_the_order_of_the_cuts():
    in_order = [PROPERTIES.index(text) for text, _, _ in CUTS.values()]
    assert sorted(in_order) == list(range(6)) and in_order != sorted(in_order)


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        [
            torch.zeros(6),
            torch.zeros(2, 3),
            torch.full((6,), math.nan),
            torch.zeros(5, dtype=torch.int64),
            torch.ones(0),
        ]
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=4),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(JUNK)
def test_whatever_a_rank_returns_the_judge_answers_in_words(value):
    for card in CARDS:
        contract = judging(card.id)
        for case in contract.cases(card.params, random.Random(0))[:3]:
            ranks = case.ranks or 1
            meter = {name: [0] * ranks for name in ("bytes_sent", "bytes_received", "messages_sent")} | {"pairs": []}
            given_back = [value] * ranks if case.ranks else value
            verdicts = contract.verdicts(card.params, case, Outcome(state="answered", value=given_back, meter=meter))
            failing = [v for v in verdicts if not v.ok]
            assert failing and all(v.message for v in failing)


def _meter(case, sent=None, received=None, pairs=()):
    sizes = [one.numel() * one.element_size() for (one,) in case.per_rank]
    return {
        "bytes_sent": sent or sizes,
        "bytes_received": received or sizes,
        "messages_sent": [1] * len(sizes),
        "pairs": list(pairs),
    }


@pytest.mark.parametrize("exercise", ["two-ranks-wait", "token-round-the-ring"])
def test_right_values_on_too_few_received_bytes_fail_the_cost_verdict(exercise):
    card, contract = exercises.card(exercise), judging(exercise)
    case = contract.cases(card.params, random.Random(0))[0]
    given_ = [one for (one,) in case.per_rank]
    value = given_[::-1] if exercise == "two-ranks-wait" else [token_at(given_, rank, 1) for rank in range(len(given_))]
    honest = contract.verdicts(card.params, case, Outcome(state="answered", value=value, meter=_meter(case)))
    assert all(v.ok for v in honest)
    told = contract.verdicts(
        card.params, case, Outcome(state="answered", value=value, meter=_meter(case, received=[1] * len(given_)))
    )
    assert {v.mistake for v in told if not v.ok} == {"too-few-bytes"}


def test_no_verdict_message_shows_a_secret_stamp_or_number():
    card = exercises.card("token-round-the-ring")
    case = judging(card.id).cases(card.params, random.Random(0))[0]
    stamps = {str(int(one.max())) for (one,) in case.per_rank} | {f"{int(one.max()):,}" for (one,) in case.per_rank}
    for answer in killmatrix.bank("00"):
        if answer.exercise == card.id and answer.sort == "wrong":
            report = grade(card, InProcess(*killmatrix.names_of(answer.source, card.answers)), secret="public")
            for verdict in report.verdicts:
                assert not any(stamp in verdict.message for stamp in stamps if len(stamp) > 4), verdict.message


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill.id)
def test_a_drill_knows_its_answer_and_its_slips_in_every_variant(drill):
    for seed in ("", *SEEDS):
        asked = drill.variant(seed) if seed else drill
        key = ch00.DRILLS[drill.id]
        assert "{{" not in asked.question()
        right = key.answer(asked.params)
        assert drill_verdict(asked, right)[0]
        assert not drill_verdict(asked, math.nan)[0]
        for value, message in key.mistakes_on(asked.params):
            ok, said = drill_verdict(asked, value)
            assert not ok and said.startswith(message), (value, right)


def test_every_symptom_leads_to_a_chapter_of_the_course_after_this_one():
    chapters = [chapter for chapter, _ in ROUTES.values()]
    assert all(f"{chapter:02d}" in course.chapters() and chapter > 0 for chapter in chapters)
    assert len(set(chapters)) == len(chapters), "one chapter for everything is no route"


def test_the_estimate_has_right_lines_and_lost_units_and_says_which():
    faults = [line.fault for line in estimate()]
    assert [bool(fault) for fault in faults] == [False, True, True, False, True, True, False]
    assert any("Cannot add" in fault for fault in faults) and any("2.8 s" in fault for fault in faults)


def test_the_core_fits_the_chapters_twenty_five_minutes_with_time_to_read():
    assert sum(card.minutes for card in CARDS if card.kind == "core") <= 15


@pytest.mark.parametrize("seed", [None, *SEEDS[:5]])
def test_every_statement_fills_and_names_no_placeholder(seed):
    for card in CARDS:
        assert "{{" not in card.markdown(card.variant(seed))


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_a_number_of_the_prose_is_text(name):
    text = NUMBERS[name]()
    assert isinstance(text, str) and text.strip() and "nan" not in text


@pytest.mark.parametrize(
    ("name", "published"),
    [("state", "1.12 TB"), ("cards", "14"), ("cluster", "5.12 TB"), ("share", "17.5 GB"), ("wire_factor", "9")],
    ids=[
        "16 bytes for each of 70 billion",
        "fourteen cards",
        "64 cards of 80 GB",
        "a 64th each",
        "NVLink over the network adapter",
    ],
)
def test_the_running_example_has_the_numbers_it_is_known_for(name, published):
    assert NUMBERS[name]() == published


def test_a_deadlock_is_explained_by_rank_and_line():
    found = next(a for a in killmatrix.bank("00") if a.exercise == "two-ranks-wait" and "as it was found" in a.name)
    card = exercises.card("two-ranks-wait")
    report = grade(card, InProcess(*killmatrix.names_of(found.source, card.answers)))
    assert report.state == "deadlock" and report.points == 0
    said = " ".join(v.message for v in report.verdicts if not v.ok)
    assert "rank 0 waits for rank 1" in said and "comm.send(x, partner)" in said


def test_the_oracle_pairs_every_rank_with_another_that_is_paired_with_it():
    for pairing in ("neighbours", "mirrored", "halves"):
        for ranks in (2, 4, 6, 10):
            of = [partner_of(pairing, rank, ranks) for rank in range(ranks)]
            assert all(of[of[rank]] == rank != of[rank] for rank in range(ranks))
