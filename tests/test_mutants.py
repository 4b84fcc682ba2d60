"""Small changes of right answers: the operators, the table of those that change nothing, and that all others lose
points."""

import json
import random

import pytest

from course_grader import exercises
from course_grader.bank import mutation
from course_grader.bank.mutants import CONDITION, mutants, sample
from course_grader.worker.worker_pool import can_fork
from tests.rotation import MOST_MUTATED
from tests.tables import each_of

forks = pytest.mark.skipif(not can_fork(), reason="mutants run in forks")

OPERATORS = [  # a line, one of its mutants
    ("x = a < b", "x = a <= b"),
    ("x = a == b", "x = a != b"),
    ("x = a in b", "x = a not in b"),
    ("x = a and b", "x = b"),
    ("x = a or b or c", "x = a or c"),
    ("x = not a", "x = a"),
    ("x = 1 if a else 2", "x = 1 if True else 2"),
    ("x = min(a, b)", "x = max(a, b)"),
    ("x = math.ceil(a)", "x = math.floor(a)"),
    ("x = a // b", "x = -(-a // b)"),
    ("x = a % n", "x = a"),
    ("x = a + 1", "x = a + 0"),
    ("x = a + b", "x = a - b"),
    ("x = a * 2.5", "x = a * 5.0"),
    ("x = 86400", "x = 172800"),
    ("x = sorted(a)", "x = a"),
    ("x = a[b:c]", "x = a[b:c + 1]"),
    ("x = a[b:]", "x = a[:]"),
    ("x = range(a)", "x = range(1, a)"),
    ("x = range(a)", "x = range(a - 1)"),
    ("x = range(a, b)", "x = range(a + 1, b)"),
    ("f(a, b)", "f(b, a)"),
    ("x = a.clone()", "x = a"),
    ("x = a.sum(dim=1)", "x = a.sum()"),
    ("work.wait()", ""),
    ("x[0] = a", ""),
    ("x += a", "x = a"),
    ("x = [a for a in b if a]", "x = [a for a in b]"),
    ("x = f(flag=True)", "x = f(flag=False)"),
]


@each_of("line, changed", OPERATORS)
def test_each_operator_changes_a_line_in_its_way(line, changed):
    found = {mutant.changed: mutant for mutant in mutants("an-id", line)}
    assert changed in found
    assert all(mutant.line == line and mutant.source != line for mutant in found.values())


def test_whether_zip_checks_lengths_is_not_changed():
    assert not mutants("an-id", "x = zip(a, b, strict=True)")


def test_two_conditions_that_end_a_function_change_places():
    source = "def f(x):\n    if x > 2:\n        return 'a'\n    if x > 1:\n        return 'b'\n    return 'c'"
    other = next(mutant for mutant in mutants("an-id", source) if mutant.operator == "order of two conditions")
    space: dict = {}
    exec(other.source, space)
    assert space["f"](3) == "b" and space["f"](0) == "c"


def test_a_mutant_believes_the_shown_value_of_an_argument():
    found = [
        m for m in mutants("an-id", "def f(a, b):\n    return a + b", {"f": {"b": 7}}) if m.operator == "shown value"
    ]
    assert [mutant.changed for mutant in found] == ["b = 7"]


def test_messages_imports_and_annotations_stay():
    source = "import math\ndef f(x: int = 1) -> list[2]:\n    '''one < two'''\n    raise ValueError(f'{x} < 1')"
    assert {mutant.changed for mutant in mutants("an-id", source)} <= {
        "",
        "def f(x: int=2) -> list[2]:",
        "def f(x: int=0) -> list[2]:",
    }


def test_a_sample_takes_conditions_first_and_stays_the_same_after_an_edit_elsewhere():
    source = "def f(x):\n    y = x * 3 + 4\n    if x < 2:\n        return y\n    return 5"
    chosen = sample(mutants("an-id", source), 4)
    assert [mutant.rank for mutant in chosen] == [CONDITION] * 3
    edited = sample(mutants("an-id", "import math\n" + source), 4)
    assert [mutant.key for mutant in edited] == [mutant.key for mutant in chosen]


def test_long_lines_show_their_difference():
    line = "x = " + " + ".join(f"name_{number}" for number in range(40)) + " + (a < b)"
    found = next(mutant for mutant in mutants("an-id", line) if mutant.operator == "comparison shifted")
    assert len(found.line) < 100 and "a < b" in found.line and "a <= b" in found.changed


def test_a_row_of_the_table_needs_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(mutation, "TABLE", tmp_path)
    assert mutation.table("01") == {}
    (tmp_path / "ch01.toml").write_text(
        '[[equivalent]]\nexercise = "first-wall"\nreason = " "\n[equivalent.changed]\na = ["b"]\n'
    )
    with pytest.raises(ValueError, match="first-wall"):
        mutation.table("01")


def test_only_what_an_answer_uses_is_mutated():
    source = (
        "import math\nLEFT = 1\nUSED = 2\ndef spare(): return LEFT\ndef helper(): return USED\ndef f(): return helper()"
    )
    kept = mutation.used_lines(source, ["f"])
    assert "USED" in kept and "helper" in kept and "LEFT" not in kept and "spare" not in kept


@forks
def test_a_survivor_is_told_and_a_reason_or_a_better_case_ends_that(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(mutation, "TABLE", tmp_path)
    source = mutation.right_answer("mfu-waste").replace("    return", "    SPARE = 3\n    return", 1)
    monkeypatch.setattr(mutation, "right_answer", lambda exercise: source)
    assert mutation.main(["--exercise", "mfu-waste", "--all", "--workers", "1"]) == 1
    assert "SPARE = 4" in capsys.readouterr().out
    row = (
        '[[equivalent]]\nexercise = "mfu-waste"\nreason = "unused"\n[equivalent.changed]\n"SPARE = 3" = ["SPARE = '
        '4", "SPARE = 2"]\n'
    )
    (tmp_path / "ch01.toml").write_text(row + row.replace("SPARE = 2", "SPARE = 9"))
    assert mutation.main(["--exercise", "mfu-waste", "--all", "--workers", "1", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert {each["reason"] for each in told["survivors"] if "SPARE" in each["line"]} == {"unused"}
    assert told["stale"] == ["SPARE = 3 => SPARE = 9"]


@forks
def test_a_mutant_without_end_is_stopped(monkeypatch):
    source = mutation.right_answer("mfu-waste").replace("return", "while True:\n        pass\n    return", 1)
    from course_grader.judge import resolve

    assert not mutation._survives(resolve(exercises.card("mfu-waste")), source, 1.0)


def test_an_unknown_exercise_is_told(capsys):
    with pytest.raises(SystemExit):
        mutation.main(["--exercise", "no-such"])
    assert "no-such" in capsys.readouterr().err


def test_the_table_names_exercises_of_its_chapter():
    for path in sorted(mutation.TABLE.glob("ch*.toml")):
        for exercise in mutation.table(path.stem[2:]):
            assert exercises.card(exercise).chapter == path.stem[2:], (path.name, exercise)


def test_each_row_of_the_table_is_a_mutant():
    for path in sorted(mutation.TABLE.glob("ch*.toml")):
        for exercise, rows in mutation.table(path.stem[2:]).items():
            made = {mutant.key for mutant in mutation.mutants_of(exercise)}
            left = {(row.line, changed) for row in rows for changed in row.changed} - made
            assert not left, f"{path.name}: {exercise}: no such mutant, so the row can go"


@forks
def test_every_change_of_a_right_answer_loses_points_or_is_explained(rotating_exercise, the_rotation):
    everything = the_rotation.exercises(["a"] * 100) == ["a"] * 100
    found = mutation.tested(rotating_exercise, mutation.MOST if everything else 16)
    assert not found.unexplained, f"{rotating_exercise}: no hidden case fails with {found.unexplained[0]}"
    assert not found.stale, f"{rotating_exercise}: no mutant is, or survives as, {found.stale[0]}"


def test_a_rotation_mutates_a_few_exercises_and_everything_all(the_rotation):
    from dataclasses import replace

    names = [f"id-{number}" for number in range(50)]
    few = replace(the_rotation, chapters=("01",), seed=3).exercises(names)
    assert 0 < len(few) < 10 and few != replace(the_rotation, chapters=("01",), seed=4).exercises(names)
    assert random.Random(3).sample(names, MOST_MUTATED) == few
