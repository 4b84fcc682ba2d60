"""Placeholders in statements and prose: values as prose shows them, with no line break between a number and its
unit."""

import pytest

from course_grader.bank import kill_matrix
from course_grader.bank.answer_bank import read_bank
from course_grader.exercises.placeholders import fill_text
from tests.tables import each_of

FILLED = [
    ("{{n:count}}", {"n": 13e9}, "13B"),
    ("{{n:count}} tokens", {"n": 2e12}, "2T tokens"),
    ("{{m:gb}}", {"m": 80e9}, "80\u00a0GB"),
    ("{{x:percent}}", {"x": 0.35}, "35\u00a0%"),
    ("{{usd:musd}}", {"usd": 10e6}, "\\$10M"),
    ("{{ n }} and {{word}}", {"n": 1966, "word": "right"}, "1,966 and right"),
]


@each_of("text, values, want", FILLED)
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


@each_of("text, value, want", TOGETHER)
def test_a_number_stays_on_one_line_with_its_unit_and_nothing_else_does(text, value, want):
    assert fill_text(text, {"x": value}).replace("\u00a0", "~") == want


def test_an_unknown_placeholder_or_format_is_named():
    with pytest.raises(ValueError, match="tokens.*there are n"):
        fill_text("{{tokens}}", {"n": 1})
    with pytest.raises(ValueError, match="'furlongs'"):
        fill_text("{{n:furlongs}}", {"n": 1})


def test_a_malformed_bank_header_is_named():
    with pytest.raises(ValueError, match=r"state.py:1"):
        read_bank("# %% wrong: no fate\nx = 1\n", "state", "state.py")


def test_a_bank_answer_carries_the_files_opening():
    text = "import math\n# %% right: one\nx = math.pi\n# %% wrong: two => values -\ny = 2\n"
    one, two = read_bank(text, "state", "state.py")
    assert (one.sort, two.expected, two.mistake) == ("right", "values", "-")
    assert kill_matrix.names_of(one.source, ["x"])[0] > 3
