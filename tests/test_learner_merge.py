"""Bringing a newer release and a learner's work together: nothing that a person wrote is ever left out."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from course_app.learner.merge import APPENDIX, Merged, merge
from course_grader.notebooks import Cell, Notebook, grade_meta, is_check, parse, render
from tests.conftest import cell, notebook, small_chapter
from tests.tables import each_of

STUB = "def f():\n    raise NotImplementedError"
MINE = "def f():\n    return 208e9"


def texts(merged: Merged) -> list[str]:
    return [each["source"] for each in merged.notebook["cells"]]


def find(book: Notebook, id: str) -> Cell:
    return next(each for each in book["cells"] if each.get("id") == id)


def edited(book: Notebook, id: str, text: str) -> Notebook:
    changed = copy.deepcopy(book)
    find(changed, id)["source"] = text
    return changed


def put_after(book: Notebook, id: str, *cells: Cell) -> Notebook:
    changed = copy.deepcopy(book)
    place = [each["id"] for each in changed["cells"]].index(id) + 1
    changed["cells"][place:place] = copy.deepcopy(list(cells))
    return changed


BASE = small_chapter()
NEWER = edited(small_chapter(), "intro", "A better chapter.")


def test_an_untouched_copy_becomes_the_newer_release():
    merged = merge(BASE, NEWER, copy.deepcopy(BASE))
    assert merged.notebook == NEWER
    assert (merged.kept, merged.moved, merged.notes) == ((), (), ())


def test_an_answer_moves_into_the_newer_release_with_its_outputs():
    student = edited(BASE, "answer-f", MINE)
    find(student, "answer-f")["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "hello"}]
    merged = merge(BASE, NEWER, student)
    answer = find(merged.notebook, "answer-f")
    assert answer["source"] == MINE
    assert answer["outputs"][0]["text"] == "hello"
    assert answer["metadata"] == find(NEWER, "answer-f")["metadata"]
    assert merged.kept == ("answer-f",)
    assert find(merged.notebook, "intro")["source"] == "A better chapter."


def test_an_answer_moves_with_its_exercise_to_another_place():
    newer = copy.deepcopy(BASE)
    newer["cells"] = [*newer["cells"][:2], newer["cells"][5], *newer["cells"][2:5]]
    merged = merge(BASE, newer, edited(BASE, "answer-f", MINE))
    assert [each["id"] for each in merged.notebook["cells"]] == [each["id"] for each in newer["cells"]]
    assert find(merged.notebook, "answer-f")["source"] == MINE


def test_own_cells_stay_after_the_cell_they_followed():
    student = put_after(BASE, "answer-f", cell("f()", "mine-1", "code"), cell("my note", "mine-2"))
    student = put_after(student, "end", cell("last words", "mine-3"))
    student["cells"].insert(0, cell("first words", "mine-0"))
    merged = merge(BASE, NEWER, student)
    ids = [each["id"] for each in merged.notebook["cells"]]
    assert ids == [
        "mine-0", "title", "intro", "imports", "answer-f", "mine-1", "mine-2", "answer-f-check", "end", "mine-3",
    ]  # fmt: skip


def test_an_edited_plain_cell_keeps_the_learners_text_where_the_release_left_it_alone():
    merged = merge(BASE, NEWER, edited(BASE, "imports", "from course_lib import check, hint"))
    assert find(merged.notebook, "imports")["source"] == "from course_lib import check, hint"
    assert merged.moved == ()


def test_an_edited_plain_cell_that_the_release_changed_is_there_twice_and_said():
    merged = merge(BASE, NEWER, edited(BASE, "intro", "A chapter. NB: read twice."))
    place = texts(merged).index("A better chapter.")
    assert texts(merged)[place + 1] == "A chapter. NB: read twice."
    assert len(merged.moved) == 1


def test_check_cells_are_always_the_releases():
    merged = merge(BASE, NEWER, edited(BASE, "answer-f-check", "2.0"))
    assert find(merged.notebook, "answer-f-check")["source"] == "check('answer-f', f)"
    assert "2.0" not in texts(merged)
    assert "answer-f-check" in merged.notes[0]


def test_a_doubled_check_cell_is_there_once_whatever_was_written_in_it():
    double = {**copy.deepcopy(find(BASE, "answer-f-check")), "id": "pasted", "source": "2.0"}
    student = put_after(edited(BASE, "answer-f-check", "1.0"), "answer-f-check", double)
    assert merge(BASE, NEWER, student).notebook == NEWER


def test_an_answer_whose_exercise_is_gone_is_kept_in_the_appendix():
    newer = notebook(*[each for each in NEWER["cells"] if not each["id"].startswith("answer")])
    merged = merge(BASE, newer, edited(BASE, "answer-f", MINE))
    assert texts(merged)[-1] == MINE
    assert texts(merged)[-2].startswith(APPENDIX)
    assert not grade_meta(merged.notebook["cells"][-1])
    assert "answer-f" in merged.moved[0]


def test_an_appendix_is_there_once_however_often_a_chapter_is_updated():
    without_f = notebook(*[each for each in NEWER["cells"] if not each["id"].startswith("answer")])
    with_g = put_after(without_f, "imports", cell(STUB, "answer-g", "code", solution=True))
    first = merge(BASE, without_f, edited(BASE, "answer-f", MINE)).notebook
    second = merge(without_f, with_g, first).notebook
    third = merge(with_g, without_f, edited(second, "answer-g", "g = 1"))
    assert sum(text.startswith(APPENDIX) for text in texts(third)) == 1
    assert texts(third)[-2:] == [MINE, "g = 1"]


def test_an_answer_that_nobody_wrote_leaves_with_its_exercise():
    newer = notebook(*[each for each in NEWER["cells"] if not each["id"].startswith("answer")])
    assert merge(BASE, newer, copy.deepcopy(BASE)).notebook == newer


def test_a_changed_start_is_shown_beside_the_kept_answer_once():
    newer = edited(BASE, "answer-f", "def f(devices):\n    raise NotImplementedError")
    merged = merge(BASE, newer, edited(BASE, "answer-f", MINE))
    assert find(merged.notebook, "answer-f")["source"] == MINE
    shown = [text for text in texts(merged) if "def f(devices):" in text]
    assert len(shown) == 1 and "newer release" in shown[0]
    again = merge(BASE, newer, merged.notebook)  # as after a crash between writing and recording
    assert texts(again) == texts(merged)


@each_of(
    "first, second, counts, other", [(MINE, "f = 2", MINE, "f = 2"), (STUB, MINE, MINE, None), (MINE, STUB, MINE, None)]
)
def test_of_an_answer_that_is_there_twice_the_first_with_work_counts_and_none_is_lost(first, second, counts, other):
    double = {**copy.deepcopy(find(BASE, "answer-f")), "id": "pasted", "source": second}
    merged = merge(BASE, NEWER, put_after(edited(BASE, "answer-f", first), "answer-f", double))
    answers = [each for each in merged.notebook["cells"] if grade_meta(each).get("grade_id") == "answer-f"]
    assert [each["source"] for each in answers] == [counts]
    assert texts(merged).count(STUB) == 0
    if other is not None:
        assert other in texts(merged)
        assert "more than once" in merged.notes[0]


def test_a_deleted_answer_comes_back_as_the_release_gives_it():
    student = notebook(*[each for each in BASE["cells"] if each["id"] != "answer-f"])
    merged = merge(BASE, NEWER, student)
    assert find(merged.notebook, "answer-f")["source"] == STUB
    assert "answer-f" in merged.notes[0]


def test_without_a_known_base_every_difference_counts_as_written():
    student = edited(edited(BASE, "answer-f", MINE), "intro", "old words")
    merged = merge(None, NEWER, student)
    assert find(merged.notebook, "answer-f")["source"] == MINE
    assert "old words" in texts(merged) and "A better chapter." in texts(merged)


def test_an_editor_that_drops_ids_loses_nothing():
    student = edited(BASE, "answer-f", MINE)
    for each in student["cells"]:
        del each["id"]
    student["cells"].insert(2, {"cell_type": "markdown", "metadata": {}, "source": "my note"})
    merged = merge(BASE, BASE, student)
    assert find(merged.notebook, "answer-f")["source"] == MINE
    assert texts(merged) == [text if text != STUB else MINE for text in texts(merge(BASE, BASE, student))]
    assert texts(merged).index("my note") == 2
    assert len(merged.notebook["cells"]) == len(BASE["cells"]) + 1


def test_an_editor_that_drops_metadata_keeps_the_answer_in_its_place():
    student = edited(BASE, "answer-f", MINE)
    for each in student["cells"]:
        each["metadata"] = {}
    assert find(merge(BASE, NEWER, student).notebook, "answer-f")["source"] == MINE


def test_pasted_pictures_stay_with_their_cell():
    student = edited(BASE, "intro", "![x](attachment:x.png)")
    find(student, "intro")["attachments"] = {"x.png": {"image/png": "AAAA"}}
    merged = merge(BASE, BASE, student)
    assert find(merged.notebook, "intro")["attachments"] == {"x.png": {"image/png": "AAAA"}}


def test_an_answer_turned_into_another_kind_of_cell_is_a_code_cell_again():
    student = edited(BASE, "answer-f", MINE)
    find(student, "answer-f")["cell_type"] = "markdown"
    answer = find(merge(BASE, NEWER, student).notebook, "answer-f")
    assert (answer["cell_type"], answer["source"]) == ("code", MINE)


def test_the_given_notebooks_are_not_changed():
    given_ones = [copy.deepcopy(BASE), copy.deepcopy(NEWER), put_after(BASE, "end", cell("mine", "mine"))]
    before = copy.deepcopy(given_ones)
    merged = merge(*given_ones)
    merged.notebook["cells"][0]["source"] = "changed"
    assert given_ones == before


# ------------------------------------------------------------------------------------------------- for any notebooks

WORDS = st.sampled_from(["", "one", "two", "three = 3", "def f():\n    return 1", "# four"])


@st.composite
def releases(draw: st.DrawFn) -> dict[str, object]:
    """A release: some of a stock of cells, in some order, with some texts."""
    chosen = draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=6))
    kinds = {
        "a": {"solution": True},
        "b": {"solution": True, "grade": True, "points": 1},
        "c": {"grade": True, "points": 2},
    }
    return notebook(*[cell(f"{name}: {draw(WORDS)}", name, "code", **kinds.get(name, {})) for name in chosen])


@st.composite
def students(draw: st.DrawFn, base: Notebook) -> Notebook:
    """What may become of a copy: cells edited, deleted, doubled, moved, stripped of ids or metadata, own cells
    anywhere."""
    cells = copy.deepcopy(base["cells"])
    for number in range(draw(st.integers(0, 6))):
        what = draw(st.sampled_from(["edit", "own", "delete", "double", "strip", "no id", "shuffle"]))
        place = draw(st.integers(0, max(len(cells) - 1, 0)))
        if what == "own" or not cells:
            cells.insert(
                place,
                cell(
                    f"own {number} {draw(WORDS)}",
                    f"own-{draw(st.integers(0, 3))}",
                    draw(st.sampled_from(["code", "markdown"])),
                ),
            )
        elif what == "edit":
            cells[place]["source"] = f"edit {number} {draw(WORDS)}"
        elif what == "delete":
            del cells[place]
        elif what == "double":
            cells.insert(place, {**copy.deepcopy(cells[place]), "source": f"double {number}"})
        elif what == "strip":
            cells[place]["metadata"] = {}
        elif what == "no id":
            cells[place].pop("id", None)
        else:
            cells = draw(st.permutations(cells))
    return notebook(*cells)


@st.composite
def situations(draw: st.DrawFn) -> tuple[dict[str, object] | None, dict[str, object], dict[str, object]]:
    base, new = draw(releases()), draw(releases())
    return draw(st.sampled_from([base, None])), new, draw(students(base))


@settings(max_examples=300, deadline=None)
@given(situations())
def test_whatever_happened_to_a_copy_nothing_written_is_lost_and_the_result_is_sound(situation):
    base, new, student = situation
    merged = merge(base, new, student)
    result = texts(merged)
    checks = {each["id"] for book in (base or new, new) for each in book["cells"] if is_check(each)}
    for each in student["cells"]:
        written = each["source"].startswith(("edit", "own", "double"))
        if written and each.get("id") not in checks and grade_meta(each).get("grade_id") not in checks:
            assert each["source"] in result
    ids = [each["id"] for each in merged.notebook["cells"]]
    assert len(ids) == len(set(ids))
    released = [each["id"] for each in merged.notebook["cells"] if each["id"] in {cell["id"] for cell in new["cells"]}]
    assert released == [each["id"] for each in new["cells"]]
    graded = [each for each in merged.notebook["cells"] if grade_meta(each)]
    assert [grade_meta(each) for each in graded] == [grade_meta(each) for each in new["cells"] if grade_meta(each)]
    for each in new["cells"]:
        if is_check(each):
            assert find(merged.notebook, each["id"])["source"] == each["source"]


@settings(max_examples=200, deadline=None)
@given(situations())
def test_merging_the_result_once_more_changes_nothing(situation):
    base, new, student = situation
    once = merge(base, new, student).notebook
    twice = merge(new, new, once)
    assert texts(twice) == [each["source"] for each in once["cells"]]
    assert twice.moved == ()


def test_a_merged_notebook_survives_writing_and_reading():
    merged = merge(BASE, NEWER, put_after(BASE, "end", cell("häßlich\n∑", "mine"))).notebook
    assert parse(render(merged)) == merged
