"""Bank files: answers written as changes of another one, and what is said of a change that cannot be made."""

import ast

import pytest

from course_grader import exercises
from course_grader.bank import kill_matrix
from course_grader.bank.answer_bank import read_answers, read_bank, worked_cell
from tests.tables import each_row

RIGHT = """import math

# %% right: by steps
def area(radius):
    if radius < 0:
        return 0.0

    square = radius * radius
    return math.pi * square


def twice(radius):
    return 2 * area(radius)
"""


@pytest.fixture
def read():
    """The answers of a file: the right one and further sections."""

    def read(sections, right=RIGHT):
        return read_bank(f"{right}\n\n{sections}", "area", "area.py")

    return read


def value(answer, call):
    space = {}
    exec(answer.source, space)
    return eval(call, space)


def test_hunks_change_another_answer(read):
    changed = read("""# %% wrong: the diameter => values diameter unless radius=1  from: by steps
# -     square = radius * radius
# +     square = (2 * radius) ** 2
#   def twice(radius):
# +     radius = abs(radius)
""")[1]
    assert (changed.name, changed.expected, changed.mistake) == ("the diameter", "values", "diameter")
    assert changed.unless == "radius=1"
    assert value(changed, "area(1) / math.pi") == 4
    assert value(changed, "twice(-1) / math.pi") == 8
    assert "        return 0.0\n\n    square = (2 * radius) ** 2\n    return math.pi" in changed.source


def test_a_hunk_may_only_delete_and_its_lines_may_lie_apart_in_the_base(read):
    changed = read("""# %% wrong: below zero, too => values negative  from: by steps
# -     if radius < 0:
# -         return 0.0
# -     square = radius * radius
# -     return math.pi * square
# +     return math.pi * radius * abs(radius)
""")[1]
    assert value(changed, "area(-1)") < 0


def test_a_change_within_a_line_names_what_goes_and_what_comes(read):
    changed = read("""# %% wrong: the diameter => values diameter  from: by steps
# ~ radius * radius ==> (2 * radius) ** 2
# -     return 2 * area(radius)
# +     return 3 * area(radius)
""")[1]
    assert value(changed, "area(1) / math.pi") == 4 and value(changed, "twice(1) / math.pi") == 12


def test_a_long_heading_or_change_goes_on_below_and_errors_keep_their_lines(read):
    long = (
        "# %% wrong: the diameter => values diameter\n# ~~ from: by steps\n# ~ radius * radius\n# ~~ ==> (2 * "
        "radius)\n# ~~ ** 2\n"
    )
    assert value(read(long)[1], "area(1) / math.pi") == 4
    below = f"{RIGHT}\n\n{long}".count("\n") + 1
    with pytest.raises(ValueError, match=rf":{below}: .*matches no places"):
        read(long + "# ~ cube ==> square\n")


def test_a_change_with_nothing_on_its_right_removes_text(read):
    changed = read(
        "# %% wrong: a length => values length  from: by steps\n# ~ radius * radius ==> radius\n# ~ math.pi * ==>\n"
    )[1]
    assert value(changed, "area(3)") == 3


def test_definitions_replace_those_of_the_same_name_where_they_stand(read):
    changed = read("""# %% half: the first only => 2  from: by steps
FACTOR = 3


# what the second one returns
def twice(radius):
    return FACTOR * area(radius)
""")[1]
    assert value(changed, "twice(1) / math.pi") == 3
    names = [getattr(node, "name", "-") for node in ast.parse(changed.source).body]
    assert names == ["-", "area", "-", "twice"] and changed.source.count("# what") == 1


def test_the_same_answer_may_be_of_two_sorts_and_of_one_name(read):
    _, wrong, half = read("# %% wrong: x => values -\ny = 1\n# %% half: x => 2.5  from: x\n")
    assert (half.sort, half.expected) == ("half", "2.5") and value(half, "y") == value(wrong, "y") == 1


def test_an_answer_may_be_the_program_of_its_card_or_a_change_of_it():
    text = (
        "# %% wrong: as it was found => values -  from: the card\n\n# %% wrong: x => values -  from: the "
        "card\n# ~ 0 ==> 1\n"
    )
    found, changed = read_bank(text, "ring-that-hangs", "ring_that_hangs.py")
    assert found.source in exercises.card("ring-that-hangs").text
    assert "total = torch.empty_like(block), 1" in changed.source
    with pytest.raises(ValueError, match="run-report: its statement has no program"):
        read_bank(text, "run-report", "run_report.py")


def test_a_change_may_be_changed_once_more(read):
    sections = """# %% wrong: one => values -  from: by steps
# -     return 2 * area(radius)
# +     return 3 * area(radius)

# %% wrong: two => values -  from: one
# -     return 3 * area(radius)
# +     return 4 * area(radius)
"""
    assert value(read(sections)[2], "twice(1) / math.pi") == 4
    half = read(f"{sections}\n# %% half: right for two => 1  from: two\n")[3]  # the same program is no change
    assert value(half, "twice(1) / math.pi") == 4
    with pytest.raises(ValueError, match=r"area.py:24: 'three' is 3 changes deep; at most 2"):
        read(
            f"""{sections}
# %% wrong: three => values -  from: two
# -     return 4 * area(radius)
# +     return 5 * area(radius)
"""
        )


HUNK = "# -     return 2 * area(radius)\n# +     return 3\n"
BAD = {
    "a base that is not there": (f"# %% wrong: x => values -  from: nobody\n{HUNK}", "16: from: 'nobody' names no sec"),
    "a base that is there twice": (
        f"# %% wrong: y => values -\n# %% wrong: y => cost -\n# %% wrong: x => values -  from: y\n{HUNK}",
        "18: from: 'y' names 2 sections",
    ),
    "a change of itself": (f"# %% wrong: x => values -  from: x\n{HUNK}", "16: from: 'x' names no sec"),
    "a circle": (
        f"# %% wrong: x => values -  from: y\n{HUNK}# %% wrong: y => cost -  from: x\n{HUNK}",
        "19: from: 'x' makes a circle",
    ),
    "a hunk that matches nothing": (
        f"# %% wrong: x => values -  from: by steps\n{HUNK}# -     return 7\n",
        "19: this hunk matches no places of 'by steps', not one. No line there is '    return 7'.",
    ),
    "a hunk that matches twice": (
        "# %% wrong: y => values -\nx = 1\nx = 1\n# %% wrong: x => values -  from: y\n# - x = 1\n",
        "20: this hunk matches 2 places",
    ),
    "a hunk of new lines only": ("# %% wrong: x => values -  from: by steps\n# + x = 1\n", "17: this hunk matches no"),
    "nothing to replace": (
        "# %% wrong: x => values -  from: by steps\n# ~ ==> square\n",
        "17: '==> square' matches no places of 'by steps', not one",
    ),
    "text that is there twice": (
        "# %% wrong: x => values -  from: by steps\n# ~ return ==> yield\n",
        "17: 'return ==> yield' matches 3 places of 'by steps', not one",
    ),
    "text that is not there": (
        "# %% wrong: x => values -  from: by steps\n# ~ cube ==> square\n",
        "17: 'cube ==> square' matches no places of 'by steps', not one",
    ),
    "text without what comes": (
        "# %% wrong: x => values -  from: by steps\n# ~ square\n",
        "17: 'square' matches no places",
    ),
    "hunks in another order": (
        f"# %% wrong: x => values -  from: by steps\n{HUNK}# -         return 0.0\n# +         return 0\n",
        "19: this hunk comes before the one above it",
    ),
    "no change": ("# %% wrong: x => values -  from: by steps\n\n", "16: 'x' changes nothing of 'by steps'"),
    "definitions of nothing that was there": (
        "# %% wrong: x => values -  from: by steps\ndef other():\n    pass\n",
        "16: 'x' defines no name that 'by steps' defines",
    ),
    "a hunk without the space before its code": (
        "# %% wrong: x => values -  from: by steps\n# -return 2 * area(radius)\n",
        "this one differs: '# -return 2 * area(radius)'",
    ),
    "what is no Python": ("# %% wrong: x => values -  from: by steps\ndef area(:\n", "16: invalid syntax"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_change_that_cannot_be_made_is_named_with_its_line(read, what):
    sections, message = BAD[what]
    with pytest.raises(ValueError) as error:
        read(sections)
    assert message in str(error.value) and str(error.value).startswith("area.py:")


def test_a_fault_in_a_judges_answers_is_named_with_the_line_of_the_file(tmp_path):
    path = tmp_path / "area.py"
    path.write_text("PI = 3\n\nANSWERS = r'''import math\n\n# %% wrong: no fate\n'''\n")
    with pytest.raises(ValueError, match=r"^area.py:5: '# %% wrong: no fate' is not"):
        read_answers(path, "area")
    path.write_text("PI = 3\n")
    with pytest.raises(ValueError, match=r"area.py has no bank of answers; end it with a text ANSWERS = "):
        read_answers(path, "area")


def test_the_answers_of_a_chapter_share_imports_and_a_worked_cell_gets_its_marks(tmp_path):
    (tmp_path / "__init__.py").write_text("IMPORTS = 'import math'\n")
    path = tmp_path / "area.py"
    text = '# %% right: worked\ndef area(radius):\n    """m²."""\n    return math.pi * radius**2\n'
    path.write_text(f"ANSWERS = r'''{text}# %% wrong: half => values\n# ~ * radius**2 ==> * radius**2 / 2\n'''\n")
    assert [value(each, "area(1) / math.pi") for each in read_answers(path, "area")] == [1, 0.5]
    marked = worked_cell(text)
    assert marked.splitlines()[2:] == [
        "    ### BEGIN SOLUTION",
        "    return math.pi * radius**2",
        "    ### END SOLUTION",
    ]
    assert worked_cell(f"# %% right: worked\n{marked}\n") == marked


def test_a_prediction_has_every_answer_that_commits_to_nothing_once():
    uncommitted = ["not-a-pair", "not-positive", "reversed", "too-wide"]
    for card in (card for card in exercises.cards() if card.form == "prediction"):
        wrong = [each.mistake for each in kill_matrix.bank(card.chapter, card.id) if each.sort == "wrong"]
        assert sorted(each for each in wrong if each in uncommitted) == uncommitted, card.id


@each_row("judge", kill_matrix.judges, label=lambda judge: judge[0])
def test_every_bank_is_python_and_so_is_every_answer(judge):
    exercise, path = judge
    *_, last = ast.parse(path.read_text(encoding="utf-8")).body
    ast.parse(ast.literal_eval(last.value))
    assert last.targets[0].id == "ANSWERS", "a judge's file ends with its bank"
    for answer in read_answers(path, exercise):
        ast.parse(answer.source)


def test_every_exercise_of_a_chapter_has_a_judge_and_its_modules_are_no_helpers():
    assert [each for each, _ in kill_matrix.judges()] == [
        card.id for name in exercises.chapters() for card in sorted(exercises.cards(name), key=lambda card: card.id)
    ]
    assert [exercises.module_of(each) for each in ("ring-shift", "70b-state", "shared")] == [
        "ring_shift",
        "exercise_70b_state",
        "exercise_shared",
    ]
