"""Exercises as data: placeholders, variants, registry, the bank's format, and rules that hold for every card."""

import random
import re

import pytest

from course_lib import exercises
from course_lib.exercises import killmatrix
from course_lib.exercises.placeholders import PLACEHOLDER, chapter_values, fill_text
from course_lib.judging import judging

FILLED = [
    ("{{n:count}}", {"n": 13e9}, "13B"),
    ("{{n:count}} tokens", {"n": 2e12}, "2T tokens"),
    ("{{m:gb}}", {"m": 80e9}, "80\u00a0GB"),
    ("{{x:percent}}", {"x": 0.35}, "35\u00a0%"),
    ("{{usd:musd}}", {"usd": 10e6}, "\\$10M"),
    ("{{ n }} and {{word}}", {"n": 1966, "word": "right"}, "1,966 and right"),
]


@pytest.mark.parametrize(("text", "values", "want"), FILLED, ids=[f[2] for f in FILLED])
def test_placeholders_become_the_values_as_prose_shows_them(text, values, want):
    assert fill_text(text, values) == want


TOGETHER = [  # (template, value, with ~ for a space at which no line ends)
    ("about {{x}} of it", "43.5 %", "about 43.5~% of it"),
    ("{{x}} over the wire", "450 GB/s", "450~GB/s over the wire"),
    ("{{x}}", "3.15 × 10²³ FLOP", "3.15~×~10²³~FLOP"),
    ("{{x}} more", "18 ×", "18~× more"),
    ("{{x}} a day", "\\$2.1 million", "\\$2.1~million a day"),
    ("{{x}} µs for every message", 10, "10~µs for every message"),
    ("{{x}} sequences", 10, "10 sequences"),
    ("{{x}} bytes", "many", "many bytes"),
    ("{{x}}", "295 FLOP per byte", "295~FLOP per byte"),
    ("{{x}}", "def f(n):\n    return n + 80 GB", "def f(n):\n    return n + 80 GB"),
    ("{{x}}", "`sleep 5 s`", "`sleep 5 s`"),
    ("{{x}}", "rank 3 sends 4 chunks", "rank 3 sends 4 chunks"),
]


@pytest.mark.parametrize(("text", "value", "want"), TOGETHER, ids=[f[2] for f in TOGETHER])
def test_a_number_stays_on_one_line_with_its_unit_and_nothing_else_does(text, value, want):
    assert fill_text(text, {"x": value}).replace("\u00a0", "~") == want


@pytest.mark.parametrize("card", exercises.cards(), ids=lambda card: card.id)
def test_code_in_a_statement_can_be_copied_as_it_stands(card):
    for params in (card.params, card.variant("a")):
        for code in re.findall(r"```.*?```|`[^`\n]*`", card.statement(params), flags=re.DOTALL):
            assert "\u00a0" not in code


def test_an_unknown_placeholder_or_format_is_named():
    with pytest.raises(ValueError, match="tokens.*there are n"):
        fill_text("{{tokens}}", {"n": 1})
    with pytest.raises(ValueError, match="'furlongs'"):
        fill_text("{{n:furlongs}}", {"n": 1})


def test_an_unknown_exercise_is_answered_by_the_nearest_names():
    name = exercises.cards()[0].id
    with pytest.raises(ValueError, match=name):
        exercises.card(name[:-1])
    with pytest.raises(ValueError, match="chapter '99'"):
        exercises.cards("99")


def test_ids_are_unique_over_the_course():
    ids = [card.id for card in exercises.cards()]
    assert len(ids) == len(set(ids)) > 0


@pytest.mark.parametrize("card", exercises.cards(), ids=lambda card: card.id)
def test_a_card_is_complete(card):
    contract = judging(card.id)
    assert card.text.strip() and card.title and all(hint.strip() for hint in card.hints) and contract.why.strip()
    assert card.minutes > 0 and card.points > 0 and card.answers
    assert not PLACEHOLDER.search(card.markdown())
    for seed in ("a", "b"):
        params = card.variant(seed)
        assert set(params) == set(card.params) and not PLACEHOLDER.search(card.markdown(params))
    assert card.variant() == card.params


@pytest.mark.parametrize("card", exercises.cards(), ids=lambda card: card.id)
def test_cases_are_the_same_on_every_repeat_and_visible_ones_come_first(card):
    contract = judging(card.id)
    first, again = ([repr(c) for c in contract.cases(card.params, random.Random("s"))] for _ in range(2))
    assert first == again
    cases = contract.cases(card.params, random.Random("s"))
    seen = [case.visible for case in cases]
    assert seen[0] and seen == sorted(seen, reverse=True)
    asked = any(case.args or case.kwargs or case.ranks for case in cases)
    assert not asked or not all(seen), "no unseen case: the example can be hard-coded"


@pytest.mark.parametrize("chapter", exercises.chapters())
def test_a_chapter_rises_and_holds_what_every_chapter_holds(chapter):
    cards = exercises.cards(chapter)
    core = [card for card in cards if card.kind == "core"]
    assert sum(card.minutes for card in core) <= 90
    assert any(card.structural for card in cards), "no structural variant"
    if chapter != "00":
        assert {"prediction", "audit", "bug"} <= {card.form for card in cards}
        assert core[0].minutes <= 5


@pytest.mark.parametrize("card", exercises.cards(), ids=lambda card: card.id)
def test_the_bank_holds_enough_answers(card):
    answers = [a for a in killmatrix.bank(card.chapter) if a.exercise == card.id]
    right = [a for a in answers if a.sort == "right"]
    wrong = [a for a in answers if a.sort == "wrong"]
    assert len(right) >= 2 and len(wrong) >= 4
    assert len({a.source for a in right}) == len(right)


@pytest.mark.parametrize("chapter", exercises.chapters())
def test_numbers_in_prose_are_texts(chapter):
    values = chapter_values(chapter, {})
    numbers = {name: value for name, value in values.items() if name.startswith(f"{chapter}.")}
    assert all(isinstance(value, str) and value.strip() for value in numbers.values())


@pytest.mark.parametrize("chapter", exercises.chapters())
def test_drills_are_answered_by_their_keys_and_by_nothing_else(chapter):
    import importlib

    keys = importlib.import_module(f"course_lib.exercises.ch{chapter}.judges").DRILLS
    for drill in exercises.drills(chapter):
        for seed in ("a", "b", "c"):
            drawn = drill.variant(seed)
            key = keys[drill.id]
            want = key.answer(drawn.params)
            assert not PLACEHOLDER.search(drawn.question())
            assert exercises.drill_verdict(drawn, want)[0]
            for wrong in (want * 1.5 + 1, -want - 1, float("nan")):
                ok, message = exercises.drill_verdict(drawn, wrong)
                assert not ok and message
            for value, told in key.mistakes_on(drawn.params):
                ok, message = exercises.drill_verdict(drawn, value)
                assert not ok and told in message


def test_a_malformed_bank_header_is_named(tmp_path):
    path = tmp_path / "state.py"
    path.write_text("# %% wrong: no fate\nx = 1\n")
    with pytest.raises(ValueError, match=r"state.py:1"):
        killmatrix.read_bank(path)


def test_a_bank_answer_carries_the_files_opening(tmp_path):
    path = tmp_path / "state.py"
    path.write_text("import math\n# %% right: one\nx = math.pi\n# %% wrong: two => values -\ny = 2\n")
    one, two = killmatrix.read_bank(path)
    assert (one.sort, two.expected, two.mistake) == ("right", "values", "-")
    assert killmatrix.names_of(one.source, ["x"])[0] > 3
