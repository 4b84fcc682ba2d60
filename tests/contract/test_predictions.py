"""A prediction earns its points for committing to an interval of a factor of four at most, whatever the truth is."""

import json
import math

from contract.kit import PREDICTIONS, as_kept, graded, mistakes, wrong
from course_grader.exercises import Card
from course_grader.judge.report import progress_entry
from course_grader.judging import judging
from tests.tables import each_card, each_of

by_card = each_card(PREDICTIONS.__contains__)
SEEDS = ("s1", "s2", "s3")

ACCEPTED = [(1.0, 4.0), [0.1, 0.4], (2, 8), (5.0, 5.0), (1e-9, 4e-9), (1e9, 2e9), (3, 12.0), (0.3, 1.2)]
REFUSED = {  # by the name of the mistake
    "too-wide": ((1.0, 4.001), (1.0, 40.0), (1e-320, 1.0)),
    "reversed": ((4.0, 1.0),),
    "not-positive": ((0, 4), (0.0, 0.0), (-1.0, 1.0), (-4.0, -1.0), (1.0, -1.0)),
    "not-numbers": (
        *((math.nan, 1.0), (1.0, math.nan), (1.0, math.inf), (True, 2), ("1", "2"), (None, None)),
        (10**400, 10**400),
    ),
    "not-a-pair": (2.0, "1 to 2", "12", (1.0,), (1.0, 2.0, 3.0), {1.0: 2.0}, {1: 2, 3: 4}, [[1.0, 2.0]], {1.0, 2.0}),
}


@by_card
def test_an_interval_of_a_factor_of_four_passes_and_a_wider_one_does_not(card: Card) -> None:
    for given in ACCEPTED:
        assert graded(card.id, lambda given=given: given).passed, given
    for name, given in ((name, given) for name, those in REFUSED.items() for given in those):
        report = graded(card.id, lambda given=given: given)
        assert report.points == 0 and (report.note or wrong(report.verdicts)[0].message), given
        assert report.state != "answered" or mistakes(report) == {name}, given


@by_card
def test_the_truth_is_revealed_and_stands_in_no_statement_or_hint(card: Card) -> None:
    contract = judging(card.id)
    for params in (card.params, *(as_kept(card.variant(seed)) for seed in SEEDS)):
        truth, said = contract.truth(params), contract.reveal(params)
        assert truth > 0 and any(character.isdigit() for character in said) and "nan" not in said
        for text in (card.markdown(params), *card.hints):
            assert not [each for each in (f"{truth:,.3g}", f"{truth:,.4g}") if len(each) > 2 and f" {each} " in text]


@each_of("high, words", [(1000.0, "is 1,000 times"), (4.001, "is 4.001 times"), (1e308, "times the low end")])
def test_a_wide_interval_is_told_how_wide_it_is(high: float, words: str) -> None:
    report = graded(PREDICTIONS[0].id, lambda: (1.0, high))
    assert words in wrong(report.verdicts)[0].message


@by_card
def test_progress_keeps_the_interval_and_whether_it_held_the_truth(card: Card) -> None:
    truth = judging(card.id).truth(card.params)
    for interval, held in (((truth / 2, 2 * truth), True), ((2 * truth, 4 * truth), False)):
        kept = json.loads(json.dumps(progress_entry(graded(card.id, lambda given=interval: given), card, truth)))
        assert (kept["interval"], kept["truth"], kept["held"]) == (list(interval), truth, held)
