"""Whatever comes back, a judge answers in words: no exception, no point, and never the answer itself."""

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.junk import JUNK, LOOP, ODD, numbers_in, resized, spoilt
from contract.kit import CARDS, by_card, cases_of, graded, is_alone, runs, silent_meter, verdicts_on, wrong
from course_grader.exercises import Card, call
from course_grader.judging import judging
from course_grader.records import Case, Outcome, Verdict
from tests.tables import each_card

SPOILT = 150  # spoilt values that are tried on an exercise
LONGEST = 1000  # characters of a message
PARTS = {  # parts of a right value that are measured or computed: nothing else may stand there
    "write-checkpointing": ("output", "gradients", "input_gradients", "moved", "bytes", "no_graph"),
    "chunked-cross-entropy": ("loss", "hidden", "weight"),
    "graphs-kept-alive": ("loss", "gradients"),
}


@pytest.mark.rotates
@by_card
def test_no_junk_gets_a_point_and_no_spoilt_value_upsets_the_judge(card: Card) -> None:
    several = []
    for case, right in runs(card, alike=1):
        said = judging(card.id).verdicts(card.params, case, right)
        assert right.state == "answered" and not wrong(said), (case.name, right.error, wrong(said))
        secrets = set() if case.visible else numbers_in(right.value) - numbers_in((case.args, dict(card.params)))
        for junk in JUNK:
            for value in _shapes(junk, case):
                found = _verdicts(card, case, value, {"meter": silent_meter(case.ranks or 1)})
                if not wrong(found) and not _alike(value, right.value):
                    raise AssertionError(f"{case.name}: {short(value)} passes")
                told = [each.message for each in wrong(found) if any(secret in each.message for secret in secrets)]
                assert not told or secrets <= numbers_in(value), f"{case.name}: a message gives the answer away: {told}"
        several.append((case, right))
    for case, right, value in _some_spoilt(several, random.Random(card.id)):
        _verdicts(card, case, value, {"meter": right.meter})


def _verdicts(card: Card, case: Case, value: object, run: dict[str, object]) -> list[Verdict]:
    """What the judge says: no exception, words for each fault, and nothing outside the exercise's shares."""
    contract = judging(card.id)
    try:
        found = list(contract.verdicts(card.params, case, Outcome(state="answered", value=value, **run)))
    except Exception as error:
        raise AssertionError(f"{case.name}: {short(value)} upsets the judge") from error
    if not found or not {f"{each.kind}:{each.part}" for each in found} <= set(contract.shares):
        raise AssertionError(f"{case.name}: {short(value)} gets {found}")
    if not all(0 < len(each.message) < LONGEST for each in found if not each.ok):
        raise AssertionError(f"{case.name}: {short(value)} is told {wrong(found)}")
    return found


def _some_spoilt(several: list[tuple[Case, Outcome]], rng: random.Random) -> Iterator[tuple[Case, Outcome, object]]:
    """Right values with something odd in one place (with ranks, on one of them), from cases that are drawn."""
    for _ in range(SPOILT // 10):
        case, right = rng.choice(several)
        found = list(resized(right.value)) if not case.ranks else []
        found += [each for odd in rng.sample(ODD, 4) for each in spoilt(right.value, odd)]
        whole = [each for each in found if not case.ranks or type(each) is list and len(each) == case.ranks]
        yield from ((case, right, value) for value in rng.sample(whole, min(10, len(whole))))


def short(value: object) -> str:
    """The two ends of how a value is written, in one line."""
    text = " ".join(repr(value).split())
    return text if len(text) < 400 else f"{text[:200]} … {text[-200:]}"


def _shapes(junk: object, case: Case) -> list[object]:
    """Junk as the result, or as that of each rank or row."""
    if case.ranks:
        return [[junk] * case.ranks]
    rows = len(case.args[1]) if len(case.args) == 2 and type(case.args[1]) is list else 0
    return [junk, [junk] * rows] if rows else [junk]


def _alike(value: object, right: object) -> bool:
    """Whether junk happens to be right: no rank in a circle, True for a sum that is right, a refusal where one is due,
    nothing sent."""
    if type(right) is dict and type(value) is dict and "refused" in right and "refused" in value:
        return True
    if type(value) in (list, tuple) and type(right) in (list, tuple):
        return len(value) == len(right) and all(map(_alike, value, right))
    if hasattr(value, "numel") and hasattr(right, "numel"):
        return value.numel() == right.numel() == 0
    return (type(value) is type(right) or {type(value), type(right)} == {int, float}) and value == right


@each_card(lambda card: card.id in PARTS)
def test_every_part_of_a_right_value_is_looked_at(card: Card) -> None:
    case, right = next(iter(runs(card)))
    for part in PARTS[card.id]:
        for odd in ODD:
            value = {**right.value, part: odd}
            assert wrong(judging(card.id).verdicts(card.params, case, replace(right, value=value))), (part, odd)


LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
WORDS = st.sampled_from(["loss", "output", "gradients", "weights", "kept", "epochs", "word", "total", "a"])
VALUE = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner, inner) | st.dictionaries(WORDS, inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=300)
@given(card=st.sampled_from(CARDS), number=st.integers(0, 2), value=VALUE)
def test_no_value_upsets_a_judge(card: Card, number: int, value: object) -> None:
    drawn = cases_of(card, 3)
    case = drawn[number % len(drawn)]
    for each in _shapes(value, case):
        assert all(verdict.message for verdict in wrong(verdicts_on(card, case, each)))


class Pretender:
    """Claims to equal whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


STRANGE = {
    "Fraction": Fraction(3, 2),
    "Pretender": Pretender(),
    "builtin": len,
    "set": {1},
    "complex": 1j,
    "bytes": b"2",
}


@pytest.mark.rotates
@each_card(is_alone)
def test_what_only_looks_like_an_answer_earns_nothing_and_is_refused_by_its_name(card: Card) -> None:
    for kind, value in STRANGE.items():
        report = graded(card.id, *[lambda *_, value=value: value] * len(card.answers))
        assert report.points == 0, kind
        if card.probe is call:
            assert report.state == "raised" and kind in report.note and "return numbers, text, lists" in report.note


@pytest.mark.rotates
@each_card(is_alone)
def test_no_function_that_returns_junk_earns_a_point(card: Card) -> None:
    """From the answer's call on: the probe that calls it may not be upset either."""
    for value in (None, True, -1.0, math.nan, 10**400, "x", [], {}, (None, None), (1, 2, 3, 4), LOOP, JUNK[-12]):
        report = graded(card.id, *[lambda *_, value=value: value] * len(card.answers))
        assert report.points <= 0.1 * report.maximum, value  # a refusal that is due may come from an error
        assert report.note or wrong(report.verdicts)[0].message
