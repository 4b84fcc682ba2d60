"""Bad input: whatever happened to a notebook, `check` says what was lost and why, and changes nothing."""

import copy
import json
import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_app.check.command import check_main, grade_all
from course_grader import exercises, intake
from course_grader.blank_notebook import stubbed
from course_grader.intake import load
from course_grader.judge import grade_notebook
from course_grader.notebooks import grade_meta, parse, render
from course_grader.submission import MOST_JUDGED, NOT_GRADED, rebuild
from course_grader.worker.in_worker import run_cell
from course_grader.worker.worker_pool import WorkerPool
from course_lib.messages import Trouble
from tests.grading_kit import (
    IMPORTS,
    SMALL,
    as_released,
    cell_of,
    digest,
    full,
    marked,
    mine,
    own,
    points,
    small_course,
    small_source,
)
from tests.tables import each_alone


@pytest.fixture(scope="module")
def workers():
    with WorkerPool(chapters=["01"]) as made:
        yield made


@pytest.fixture
def where(tmp_path):
    return small_course(tmp_path)


def test_a_solved_copy_has_every_point(workers):
    reports, notes = marked(small_source(), workers)
    assert points(reports) == full() and not notes


def test_an_untouched_copy_has_none_and_says_not_answered(workers):
    reports, notes = marked(as_released(), workers)
    assert points(reports) == full(*SMALL) and not notes
    assert {report.state for report in reports.values()} == {"not answered"}


# ---------------------------------------------------------------------------- files that are not a notebook


def conflict(text: str) -> str:
    line = next(line for line in text.splitlines() if "return" in line)
    return text.replace(line, f"<<<<<<< HEAD\n{line}\n=======\n{line}\n>>>>>>> theirs", 1)


@each_alone(
    "damage, words",
    (lambda text: "", "is empty"),
    (lambda text: text[: len(text) // 2], "not a whole notebook"),
    (conflict, "unfinished git merge (line "),
    (lambda text: "[1, 2]", "is JSON, but not a notebook"),
    (lambda text: text.replace('"cells"', '"zellen"', 1), "not a notebook"),
    (lambda text: "[" * 200_000, "not a whole notebook"),
    ids=["empty", "cut off", "merge conflict", "a list", "no cells", "nested without end"],
)
def test_a_file_that_is_no_notebook_is_refused_in_words_and_left_alone(where, damage, words, capsys, monkeypatch):
    path = mine(where)
    path.write_text(damage(path.read_text()))
    before = path.read_bytes()
    [result] = grade_all(["01"], where)
    assert result.trouble is not None and words in result.trouble.problem, result.trouble
    assert len(result.trouble.way_out) > 20 and "Traceback" not in str(result.trouble)
    assert path.read_bytes() == before
    monkeypatch.setenv("COURSE_ROOT", str(where.root))
    assert check_main(["01"], False, False, False, False) == 1
    assert words in " ".join(capsys.readouterr().out.split()).replace("_ ", "_")


def test_bytes_that_are_no_text_are_refused(where):
    mine(where).write_bytes(mine(where).read_text().encode("utf-16"))
    [result] = grade_all(["01"], where)
    assert "UTF-8" in result.trouble.problem


def test_a_byte_order_mark_is_no_trouble(where):
    mine(where).write_text("\ufeff" + mine(where).read_text(), encoding="utf-8")
    [result] = grade_all(["01"], where)
    assert result.points == result.maximum


def test_a_link_and_an_oversize_file_are_refused(where, tmp_path, monkeypatch):
    link = tmp_path / "link.ipynb"
    link.symlink_to(mine(where))
    with pytest.raises(Trouble, match="link"):
        load(link)
    monkeypatch.setattr(intake, "MAX_BYTES", 1000)
    with pytest.raises(Trouble, match="MB"):
        load(mine(where))


def test_a_missing_copy_and_a_missing_chapter_say_what_to_do(where):
    mine(where).unlink()
    [copyless, unknown] = grade_all(["01", "77"], where)
    assert "course learn" in copyless.trouble.way_out
    assert "no chapter 77" in unknown.trouble.problem and "01" in unknown.trouble.way_out


# ---------------------------------------------------------------------------- cells that are not where they were


def without_check(notebook):
    notebook["cells"].remove(cell_of(notebook, "train-days-7b-check"))


def without_all_checks(notebook):
    notebook["cells"] = [cell for cell in notebook["cells"] if not grade_meta(cell).get("grade")]


def renamed_grade_id(notebook):
    cell_of(notebook, "train-days-7b")["metadata"]["nbgrader"]["grade_id"] = "my-train-days"


def renamed_both_ids(notebook):
    cell = cell_of(notebook, "train-days-7b")
    cell["metadata"]["nbgrader"]["grade_id"] = cell["id"] = "my-train-days"


def stripped_metadata(notebook):
    for cell in notebook["cells"]:
        cell["metadata"] = {}


def copied_answer(notebook):
    cell = cell_of(notebook, "train-days-7b")
    notebook["cells"].insert(notebook["cells"].index(cell) + 1, {**copy.deepcopy(cell), "id": "copied"})


def copied_check(notebook):
    notebook["cells"].append({**copy.deepcopy(cell_of(notebook, "train-days-7b-check")), "id": "copied"})


def stub_first(notebook):
    copied_answer(notebook)
    cell = cell_of(notebook, "train-days-7b")
    cell["source"] = stubbed(cell["source"])


def broken_copy_at_the_end(notebook):
    cell = copy.deepcopy(cell_of(notebook, "train-days-7b"))
    notebook["cells"].append({**cell, "id": "copied", "source": cell["source"].replace("6 *", "2 *")})


def wrong_copy_at_the_top(notebook):
    cell = copy.deepcopy(cell_of(notebook, "train-days-7b"))
    notebook["cells"].insert(1, {**cell, "id": "copied", "source": cell["source"].replace("6 *", "2 *")})


def split_in_two(notebook):
    cell = cell_of(notebook, "train-days-7b")
    first, second = cell["source"].split("def gpus_for_deadline")
    cell["source"] = first
    place = notebook["cells"].index(cell) + 1
    notebook["cells"].insert(place, {**copy.deepcopy(cell), "id": "half", "source": "def gpus_for_deadline" + second})


def split_in_two_without_checks(notebook):
    split_in_two(notebook)
    without_all_checks(notebook)


def check_before_its_answer(notebook):
    check = cell_of(notebook, "train-days-7b-check")
    notebook["cells"].remove(check)
    notebook["cells"].insert(1, check)


def cells_in_reverse(notebook):
    notebook["cells"] = notebook["cells"][:2] + notebook["cells"][:1:-1]


def deleted_imports(notebook):
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"] != "c01-imports"]


def an_answer_retyped_in_an_own_cell(notebook):
    cell = cell_of(notebook, "train-days-7b")
    notebook["cells"][notebook["cells"].index(cell)] = own(cell["source"])


def edited_imports(notebook):
    cell = next(cell for cell in notebook["cells"] if cell["id"] == "c01-imports")
    cell["source"] += "\nimport json as my_own_json"
    answer = cell_of(notebook, "train-days-7b")
    answer["source"] = "my_own_json.dumps(1)\n" + answer["source"]


def checks_in_own_cells(notebook):
    notebook["cells"].append(
        own('assert check("train-days-7b", train_days, gpus_for_deadline) == 0.0  # silent in a worker')
    )


def noise(notebook):
    cell_of(notebook, "train-days-7b")["source"] += (
        '\nimport sys, warnings\nwarnings.warn("careful")\nprint("to stderr", file=sys.stderr)\nprint("x" * '
        "10_000_000)\ninput_is_fine = 1"
    )


HARMLESS = [
    (without_check, ""),
    (without_all_checks, ""),
    (renamed_grade_id, "nothing is lost"),
    (renamed_both_ids, "no points are lost"),
    (stripped_metadata, "nothing is lost"),
    (copied_answer, "counts"),
    (copied_check, ""),
    (stub_first, "counts"),
    (broken_copy_at_the_end, "counts"),
    (wrong_copy_at_the_top, "counts"),
    (deleted_imports, ""),
    (split_in_two, ""),
    (split_in_two_without_checks, ""),
    (check_before_its_answer, ""),
    (cells_in_reverse, ""),
    (an_answer_retyped_in_an_own_cell, "no points are lost"),
    (edited_imports, ""),
    (checks_in_own_cells, ""),
    (noise, ""),
]


@pytest.mark.parametrize(("damage", "note"), HARMLESS, ids=[damage.__name__ for damage, _ in HARMLESS])
def test_nothing_is_lost(workers, damage, note):
    learner = small_source()
    damage(learner)
    before = digest(learner)
    reports, notes = marked(learner, workers)
    assert points(reports) == full(), notes
    assert note in " ".join(notes) and (note or not notes)
    assert digest(learner) == before


def deleted_answer(notebook):
    notebook["cells"].remove(cell_of(notebook, "train-days-7b"))


def deleted_answer_with_a_namesake(notebook):
    deleted_answer(notebook)
    text = "from course_lib.estimate.compute import train_seconds as train_days, train_seconds as gpus_for_deadline"
    notebook["cells"].insert(2, own(text))


def turned_to_markdown(notebook):
    cell = cell_of(notebook, "train-days-7b")
    cell["cell_type"] = "markdown"


def conflict_in_the_cell(notebook):
    cell = cell_of(notebook, "train-days-7b")
    cell["source"] = conflict(cell["source"])


def syntax_error(notebook):
    cell_of(notebook, "train-days-7b")["source"] = "def train_days(:\n    return 1"


def function_renamed(notebook):
    cell = cell_of(notebook, "train-days-7b")
    cell["source"] = cell["source"].replace("def gpus_for_deadline", "def gpus_needed")


def exit_in_the_cell(notebook):
    cell_of(notebook, "train-days-7b")["source"] += "\nimport os\nos._exit(3)"


def quit_in_the_cell(notebook):
    cell_of(notebook, "train-days-7b")["source"] = "quit()\n" + cell_of(notebook, "train-days-7b")["source"]


def killed_in_the_cell(notebook):
    cell_of(notebook, "train-days-7b")["source"] += "\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)"


def closes_everything(notebook):
    cell_of(notebook, "train-days-7b")["source"] += "\nimport os\nos.closerange(3, 1000)"


def kills_the_process_it_was_forked_from(notebook):
    cell_of(notebook, "train-days-7b")["source"] += (
        "\nimport os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nimport time; time.sleep(60)"
    )


def raises_in_the_answer(notebook):
    cell = cell_of(notebook, "train-days-7b")
    cell["source"] += "\n\n\ndef train_days(*_):\n    raise RuntimeError('[red]no[/red] \\x1b[31mway\\x07')"


LOSES_ONE = [
    (deleted_answer, "is missing", "not answered"),
    (deleted_answer_with_a_namesake, "is missing", "not answered"),
    (turned_to_markdown, "markdown cell now", "not answered"),
    (conflict_in_the_cell, "unfinished git merge", "raised"),
    (syntax_error, "SyntaxError", "raised"),
    (function_renamed, "does not define `gpus_for_deadline`", "raised"),
    (exit_in_the_cell, "ended the process: exit(3)", "crashed"),
    (quit_in_the_cell, "SystemExit", "raised"),
    (killed_in_the_cell, "signal 9 (SIGKILL)", "crashed"),
    (closes_everything, "closed its connection", "crashed"),
    (kills_the_process_it_was_forked_from, "While the answer cell ran", "crashed"),
    (raises_in_the_answer, "RuntimeError", "raised"),
]


@pytest.mark.parametrize(("damage", "words", "state"), LOSES_ONE, ids=[damage.__name__ for damage, *_ in LOSES_ONE])
def test_one_exercise_is_lost_and_the_line_says_why(workers, damage, words, state):
    learner = small_source()
    damage(learner)
    reports, _ = marked(learner, workers)
    assert points(reports) == full("train-days-7b")
    lost = reports["train-days-7b"]
    assert lost.state == state and words in lost.note, lost
    assert "\x1b" not in lost.note and "\x07" not in lost.note


def test_a_missing_answer_names_the_heading_it_stood_under(workers):
    learner = small_source()
    deleted_answer(learner)
    reports, _ = marked(learner, workers)
    note = reports["train-days-7b"].note
    assert "“One GPU, in days” under “The exercises”" in note and "course update 01" in note


def test_own_cells_that_crash_are_left_out_and_nothing_else(workers):
    learner = small_source()
    learner["cells"].insert(3, own("import os\nos.abort()", "first"))
    learner["cells"].append(own("import os\nos._exit(0)", "last"))
    reports, notes = marked(learner, workers)
    assert points(reports) == full()
    assert "cell 4" in notes[0] and "SIGABRT" in notes[0] and "exit(0)" in notes[1]


def test_a_cell_that_hangs_costs_only_its_exercise(workers, monkeypatch):
    """The limit is short for the cell that hangs alone, so that a busy machine changes nothing."""
    monkeypatch.setattr(
        grade_notebook,
        "run_cell",
        lambda worker, source, seconds: run_cell(worker, source, 1.0 if "while True" in source else 60.0),
    )
    learner = small_source()
    cell_of(learner, "predict-weeks")["source"] += (
        "\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass"
    )
    reports, _ = marked(learner, workers)
    assert points(reports) == full("predict-weeks")
    assert reports["predict-weeks"].state == "timed out" and "longer than 1 s" in reports["predict-weeks"].note


def test_a_notebook_that_takes_too_long_as_a_whole_keeps_what_it_earned(workers, monkeypatch):
    late = [0.0]

    def run_and_be_late(worker, source, seconds):
        late[0] += 10 * grade_notebook.NOTEBOOK_SECONDS * ("an hour" in source)
        return run_cell(worker, source, seconds)

    monkeypatch.setattr(grade_notebook, "run_cell", run_and_be_late)
    monkeypatch.setattr(grade_notebook, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + late[0]))
    learner = small_source()
    place = learner["cells"].index(cell_of(learner, "mfu-waste"))
    learner["cells"].insert(place, own("'an hour'"))
    reports, _ = marked(learner, workers)
    assert points(reports) == full("mfu-waste") and "not reached" in reports["mfu-waste"].note


def test_without_forking_a_crash_costs_one_exercise_too():
    learner = small_source()
    exit_in_the_cell(learner)
    cell_of(learner, "state-13b")["source"] += "\n\n\ndef headroom(*_):\n    import os\n    os._exit(4)"
    with WorkerPool(fork=False, chapters=["01"]) as fresh:
        reports, _ = marked(learner, fresh)
    assert points(reports) == full("train-days-7b", "state-13b")
    assert "exit(3)" in reports["train-days-7b"].note and "exit(4)" in reports["state-13b"].note


def test_a_renamed_or_moved_notebook_is_found_by_what_it_says_of_itself(where):
    moved = where.work / "elsewhere" / "my walls.ipynb"
    moved.parent.mkdir()
    mine(where).rename(moved)
    [result] = grade_all(["01"], where)
    assert result.points == result.maximum and result.path == moved and "recognized by its content" in result.notes[0]
    [by_path] = grade_all([str(moved)], where)
    assert by_path.chapter == "01" and by_path.points == by_path.maximum


def test_a_path_without_course_metadata_is_known_by_its_exercises(where):
    notebook = parse(mine(where).read_text())
    del notebook["metadata"]["course"]
    mine(where).write_text(render(notebook))
    [result] = grade_all([str(mine(where))], where)
    assert result.chapter == "01" and result.points == result.maximum


def test_check_writes_nothing_into_the_learners_folder_but_progress(where, monkeypatch):
    notebook = parse(mine(where).read_text())
    notebook["cells"].append(own("open('left behind.txt', 'w').write('x')\nprint(open('data.csv').read())"))
    mine(where).write_text(render(notebook))
    (mine(where).parent / "data.csv").write_text("1,2")
    before = {path: path.read_bytes() for path in mine(where).parent.iterdir()}
    [result] = grade_all(["01"], where)
    assert result.points == result.maximum
    assert {path: path.read_bytes() for path in mine(where).parent.iterdir()} == before
    stored = json.loads((where.work / ".course" / "progress.json").read_text())["exercises"]
    assert stored["train-days-7b"]["passed"] and stored["train-days-7b"]["chapter"] == "01"


SOURCE = small_source()


@given(
    st.lists(st.integers(0, len(SOURCE["cells"]) - 1), max_size=20),
    st.sets(st.integers(0, 19)),
    st.sets(st.integers(0, 19)),
)
def test_whatever_was_dropped_copied_and_shuffled_each_exercise_is_judged(picked, without_metadata, without_id):
    cells = [copy.deepcopy(SOURCE["cells"][index]) for index in picked]
    for place, cell in enumerate(cells):
        if place in without_metadata:
            cell["metadata"] = {}
        if place in without_id:
            del cell["id"]
    submission = rebuild(SOURCE, {**SOURCE, "cells": cells}, exercises.cards("01"))
    judged = [step.exercise for step in submission.steps if step.do == "judge"]
    assert set(judged) == set(SMALL) and all(judged.count(name) <= MOST_JUDGED for name in SMALL)
    ran = {step.exercise for step in submission.steps if step.whose == "answer"}
    assert ran | set(submission.missing) == set(SMALL) and not ran & set(submission.missing)
    places = {step.where for step in submission.steps if step.do == "run"}
    assert not [
        place for place, cell in enumerate(cells) if grade_meta(cell).get("grade") and f"cell {place + 1}" in places
    ]


def test_a_rebuilt_notebook_never_holds_a_check_cell():
    submission = rebuild(small_source(), small_source(), exercises.cards("01"))
    assert [step.exercise for step in submission.steps if step.do == "judge"] == list(SMALL)
    assert not any(
        "check(" in step.source or "predict(" in step.source for step in submission.steps if step.do == "run"
    )


def test_a_measuring_cell_runs_only_where_the_learner_changed_it():
    source = small_source()
    measuring = {
        "cell_type": "code",
        "id": "c01-measuring",
        "metadata": {"tags": [NOT_GRADED]},
        "outputs": [],
        "execution_count": None,
        "source": "seconds = measure()",
    }
    source["cells"].insert(2, measuring)
    learner, cards = copy.deepcopy(source), exercises.cards("01")
    runs = [step.source for step in rebuild(source, learner, cards).steps if step.do == "run"]
    assert measuring["source"] not in runs and IMPORTS in runs
    learner["cells"][2]["source"] = "seconds = 1.0"
    assert "seconds = 1.0" in [step.source for step in rebuild(source, learner, cards).steps]
    del learner["cells"][2]
    assert measuring["source"] not in [step.source for step in rebuild(source, learner, cards).steps]
