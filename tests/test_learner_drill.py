"""Drills: what was missed returns soon, what was known returns late, and stopping loses nothing."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from course_app.learner import drill
from course_app.learner.drill import DAYS, answered, due, number_in, sit
from tests.tables import each_of


@dataclass(frozen=True)
class Sum:
    """A question with one number in it."""

    id: str
    chapter: str = "01"
    unit: str = "GB"
    number: int = 1

    def variant(self, seed: str) -> "Sum":
        return replace(self, number=int(seed) % 1000)

    def question(self) -> str:
        return f"{self.id}: {self.number} + 1?"


QUESTIONS = tuple(map(Sum, "abc"))


def verdict(question: Sum, number: float) -> tuple[bool, str]:
    return number == question.number + 1, f"It is {question.number + 1}."


class Person:
    """Answers right, except to the questions named; stops after some."""

    def __init__(self, wrong: tuple[str, ...] = (), stop_after: int = 99, lines: tuple[str, ...] = ()) -> None:
        self.wrong, self.left, self.heard, self.lines = wrong, stop_after, [], list(lines)

    def say(self, text: str) -> None:
        self.heard.append(text)

    def ask(self, prompt: str) -> str:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        if self.lines:
            return self.lines.pop(0)
        text = self.heard[-1].split(". ", 1)[-1]
        name, number = text.split(": ")
        return "-1" if name in self.wrong else str(int(number.split()[0]) + 1)


def ask(person: Person, work: Path, day: float, questions=QUESTIONS, **more):
    start = [day * 86400]

    def clock() -> float:
        return start[0]

    return sit(questions, verdict, work, ask=person.ask, say=person.say, clock=clock, seed="0", **more)


def ids(questions, work: Path, day: float) -> list[str]:
    return [question.id for question in due(questions, drill.load(work), day)]


def test_what_was_missed_returns_at_once_and_first_and_the_rest_rests(tmp_path):
    sitting = ask(Person(wrong=("b",)), tmp_path, day=100)
    assert (sitting.asked, sitting.right, sitting.missed) == (3, 2, ("b",))
    assert ids(QUESTIONS, tmp_path, 100) == ["b"]
    assert ids((*QUESTIONS, Sum("new")), tmp_path, 100) == ["b", "new"]
    assert ids(QUESTIONS, tmp_path, 101) == ["b", "a", "c"]


def test_a_question_known_again_and_again_returns_ever_later(tmp_path):
    day, gaps = 100.0, []
    for _ in range(6):
        ask(Person(), tmp_path, day, questions=(Sum("a"),))
        later = next(days for days in range(100) if ids((Sum("a"),), tmp_path, day + days))
        gaps.append(later)
        day += later
    assert gaps == [1, 3, 7, 21, 21, 21]


def test_stopping_keeps_what_was_answered(tmp_path):
    person = Person(stop_after=1)
    assert ask(person, tmp_path, day=100).asked == 1
    assert ids(QUESTIONS, tmp_path, 100) == ["b", "c"]
    assert "kept" in person.heard[-1]


def test_time_is_up_between_questions(tmp_path):
    person, now = Person(), [0.0]

    def clock() -> float:
        now[0] += 100.0
        return now[0]

    sitting = sit(QUESTIONS, verdict, tmp_path, ask=person.ask, say=person.say, clock=clock, seconds=300, seed="0")
    assert 0 < sitting.asked < 3
    assert "over" in person.heard[-1]


def test_a_line_that_is_no_number_is_asked_again_and_an_empty_one_passes(tmp_path):
    person = Person(lines=("many", "", "0", "0"))
    sitting = ask(person, tmp_path, day=100)
    assert (sitting.asked, sitting.right) == (3, 0)
    assert any("type a number" in line for line in person.heard)
    assert any("Not yet. It is" in line for line in person.heard)


def test_numbers_are_fresh_each_time(tmp_path):
    shown = []
    for seed in "12":
        person = Person(wrong=("a",))
        sit((Sum("a"),), verdict, tmp_path, ask=person.ask, say=person.say, seed=seed)
        shown.append(person.heard[0])
    assert shown[0] != shown[1]


@each_of(
    "typed, unit, number",
    ("208", "GB", 208.0),
    ("208 GB", "GB", 208.0),
    ("1,966", "", 1966.0),
    ("1.5e9", "", 1.5e9),
    ("70B", "parameters", 70e9),
    ("2/4", "", 0.5),
    ("35%", "fraction", 0.35),
    ("35 %", "%", 35.0),
    ("$3M", "USD", 3e6),
    ("8.8B", "billion parameters", 8.8),
    ("8.8", "billion parameters", 8.8),
    ("-2", "", -2.0),
    (".5", "", 0.5),
    ("many", "", None),
    ("", "", None),
    ("1/0", "", None),
    ("1e999", "", None),
    ("__import__('os')", "", None),
)
def test_a_number_may_be_typed_as_people_write_it(typed, unit, number):
    assert number_in(typed, unit) == number


@given(st.text(max_size=20), st.sampled_from(["", "GB", "%", "USD"]))
def test_no_line_breaks_the_reader(typed, unit):
    number = number_in(typed, unit)
    assert number is None or math.isfinite(number)


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_boxes_stay_in_range_and_count_every_answer(history):
    entry = None
    for right in history:
        entry = answered(entry, right, today=1.0)
        assert 0 <= entry["box"] < len(DAYS)
    assert entry["right"] + entry["wrong"] == len(history)
    assert entry["missed"] is not history[-1]
