"""Chapter 00's exercises: guessing does not pay, a deadlock is explained, no message shows a stamp, the example's
numbers are known."""

import random

from contract.kit import functions_of, graded, shipped

from course_chapters import course
from course_chapters.ch00.exercises.judges.two_ranks_wait import partner_of
from course_chapters.ch00.exercises.numbers import NUMBERS, ROUTES, estimate
from course_grader import exercises
from course_grader.judging import Worked, judging
from tests.tables import each_of

ROWS = Worked("match-the-cuts")()
TALK = sorted({talk for _, talk in ROWS.values()})


def test_guessing_the_matches_blindly_earns_less_than_a_tenth():
    card = exercises.card("match-the-cuts")
    rng = random.Random(0)
    points = []
    for _ in range(200):
        guess = {cut: (letter, rng.choice(TALK)) for cut, letter in zip(ROWS, rng.sample("ABCDEF", 6), strict=True)}
        points.append(graded("match-the-cuts", lambda guess=guess: guess).points)
    assert sum(points) / len(points) < card.points / 10


@each_of("letter", "ABCDEF")
@each_of("talk", TALK)
def test_one_answer_for_every_row_of_the_matches_earns_nothing(letter, talk):
    assert graded("match-the-cuts", lambda: dict.fromkeys(ROWS, (letter, talk))).points == 0


def test_the_public_list_of_properties_is_not_in_the_order_of_the_cuts():
    letters = [letter for letter, _ in ROWS.values()]
    assert sorted(letters) == list("ABCDEF") != letters


def test_no_verdict_message_shows_a_secret_stamp_or_number():
    card = exercises.card("token-round-the-ring")
    case = judging(card.id).cases(card.params, random.Random(0))[0]
    stamps = {str(int(one.max())) for (one,) in case.per_rank} | {f"{int(one.max()):,}" for (one,) in case.per_rank}
    for answer in shipped(card.id, "wrong"):
        for verdict in graded(card.id, *functions_of(answer), secret="public").verdicts:
            assert not any(stamp in verdict.message for stamp in stamps if len(stamp) > 4), verdict.message


def test_every_symptom_leads_to_a_chapter_of_the_course_after_this_one():
    chapters = [chapter for chapter, _ in ROUTES.values()]
    assert all(f"{chapter:02d}" in course.chapters() and chapter > 0 for chapter in chapters)
    assert len(set(chapters)) == len(chapters), "one chapter for everything is no route"


def test_the_estimate_has_right_lines_and_lost_units_and_says_which():
    faults = [line.fault for line in estimate()]
    assert [bool(fault) for fault in faults] == [False, True, True, False, True, True, False]
    assert any("Cannot add" in fault for fault in faults) and any("2.8 s" in fault for fault in faults)


@each_of(
    "name, published",
    [("state", "1.12 TB"), ("cards", "14"), ("cluster", "5.12 TB"), ("share", "17.5 GB"), ("wire_factor", "9")],
)
def test_the_running_example_has_the_numbers_it_is_known_for(name, published):
    assert NUMBERS[name]() == published


def test_a_deadlock_is_explained_by_rank_and_line():
    found = next(each for each in shipped("two-ranks-wait", "wrong") if "as it was found" in each.name)
    report = graded("two-ranks-wait", *functions_of(found))
    assert report.state == "deadlock" and report.points == 0
    said = " ".join(v.message for v in report.verdicts if not v.ok)
    assert "rank 0 waits for rank 1" in said and "comm.send(x, partner)" in said


def test_the_oracle_pairs_every_rank_with_another_that_is_paired_with_it():
    for pairing in ("neighbors", "mirrored", "halves"):
        for ranks in (2, 4, 6, 10):
            of = [partner_of(pairing, rank, ranks) for rank in range(ranks)]
            assert all(of[of[rank]] == rank != of[rank] for rank in range(ranks))
