"""Hand-ins whose cells were copied, split, retyped, moved or damaged: the notebook's own check, `course check` and the
class agree."""

import contextlib
import copy
import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from course_app import notebook
from course_app.check.command import grade_all
from course_grader import exercises
from course_grader.blank_notebook import stubbed
from course_grader.classroom.export import export
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.release import release_chapter
from course_grader.classroom.status import status
from course_grader.notebooks import Notebook, grade_meta, parse, render, salvaged
from course_grader.service.grading import grade_class
from course_grader.service.report_cache import latest
from course_grader.service.task import make_task, run_task
from course_grader.submission import rebuild
from course_grader.worker.worker_pool import WorkerPool
from course_lib.messages import Trouble
from tests.class_kit import NAME, as_bytes, class_at, course_at, saved, work
from tests.grading_kit import SMALL, as_released, cell_of, full, marked, mine, own, points, small_course, small_source
from tests.tables import each_alone

WEEKS, DAYS = "predict-weeks", "train-days-7b"
RIGHT = {name: cell_of(small_source(), name)["source"] for name in SMALL}
TEXTS = {  # what a copy of an answer can hold
    "right": lambda name: RIGHT[name],
    "wrong": lambda name: RIGHT[name].replace("return ", "return 0 if True else ").replace("(weeks", "(0 * weeks"),
    "stub": lambda name: stubbed(RIGHT[name]),
    "broken": lambda name: "def broken(:\n",
    "empty": lambda name: "",
}


@pytest.fixture(scope="module")
def workers():
    with WorkerPool(chapters=["01"]) as made:
        yield made


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    return small_course(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> ClassFolder:
    made = class_at(tmp_path_factory.mktemp("class"), course_at(tmp_path_factory.mktemp("its-course")))
    release_chapter(made, "01")
    return ClassFolder.open(made.root)


# ------------------------------------------------------------------------------------------------ the same everywhere


def seen_by_its_own_checks(learner: Notebook, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Exercise -> the most points that a check of the notebook gives when its code cells run from top to bottom.

    The value of a check cell is also what plain nbgrader would enter.
    """
    seen = dict.fromkeys(SMALL, 0.0)
    judge = notebook._judged

    def remembered(exercise, *rest, **more):
        got = judge(exercise, *rest, **more)
        seen[exercise] = max(seen[exercise], float(got))
        return got

    space: dict[str, object] = {"__name__": "__main__"}
    with monkeypatch.context() as patched, contextlib.redirect_stdout(io.StringIO()):
        patched.setattr(notebook, "_judged", remembered)
        patched.setattr("course_app.learner.progress.record", lambda *_, **__: None)
        for cell in learner["cells"]:
            if cell["cell_type"] == "code" and isinstance(cell["source"], str):
                with contextlib.suppress(Exception):
                    exec(compile(cell["source"], "cell", "exec"), space)
    return seen


@st.composite
def hand_ins(draw: st.DrawFn) -> Notebook:
    """The released chapter with every answer right, then changed in the ways in which people change notebooks."""
    made = small_source()
    for name in draw(st.lists(st.sampled_from(SMALL), max_size=3)):
        cell = next((each for each in made["cells"] if grade_meta(each).get("grade_id") == name), None)
        if cell is None:  # an earlier change took its metadata
            continue
        match draw(st.sampled_from(["copy", "text", "type", "move", "bare", "own", "check", "damage", "rename"])):
            case "copy":
                text = TEXTS[draw(st.sampled_from(sorted(TEXTS)))](name)
                kind = draw(st.sampled_from(["code", "code", "markdown", "raw"]))
                twin = {**copy.deepcopy(cell), "id": f"copy-{len(made['cells'])}", "source": text, "cell_type": kind}
                made["cells"].insert(draw(st.integers(0, len(made["cells"]))), twin)
            case "text":
                cell["source"] = TEXTS[draw(st.sampled_from(sorted(TEXTS)))](name)
            case "type":
                cell["cell_type"] = draw(st.sampled_from(["markdown", "raw"]))
            case "move":
                made["cells"].remove(cell)
                made["cells"].insert(draw(st.integers(0, len(made["cells"]))), cell)
            case "bare":
                cell["metadata"] = {}
                if draw(st.booleans()):
                    cell["id"] = f"lost-{len(made['cells'])}"
            case "own":
                made["cells"][made["cells"].index(cell)] = own(RIGHT[name], f"own-{len(made['cells'])}")
            case "check":
                cell["source"] = stubbed(RIGHT[name])
                check = cell_of(made, f"{name}-check")
                check["source"] = f"{RIGHT[name]}\n\n{check['source']}"
            case "rename":
                check = cell_of(made, f"{name}-check")
                for answer in exercises.card(name).answers:
                    for each in (cell, check):
                        each["source"] = re.sub(rf"\b{answer}\b", f"my_{answer}", each["source"] or "")
            case "damage":
                cell["source"] = None
    return made


@pytest.mark.rotates("course_grader/", "course_grader/notebooks.py", "course_app/notebook.py")
@given(learner=hand_ins())
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_no_hand_in_gets_less_than_its_own_checks_gave(learner, where, folder, monkeypatch):
    text = json.dumps(learner)
    seen = seen_by_its_own_checks(learner, monkeypatch)
    mine(where).write_text(text)
    [checked] = grade_all(["01"], where, record=False)
    hand_in(folder, "ada", text.encode())
    result = run_task(make_task(folder, "ada", "01"))
    in_class = {each["id"]: each["points"] for each in result["reports"]}
    assert result["state"] == "graded"
    assert {report.exercise: report.points for report in checked.reports} == in_class
    assert all(in_class[name] >= seen[name] for name in SMALL), (seen, in_class, result["anomalies"])
    kinds = [each["kind"] for each in result["anomalies"]]
    assert len(kinds) == len(set(kinds))
    if any(None is cell["source"] for cell in learner["cells"]):
        assert "damaged" in kinds
    for name in SMALL:  # an answer that is there and does not count is listed
        retyped = [cell for cell in learner["cells"] if cell["cell_type"] != "code" and RIGHT[name] == cell["source"]]
        if retyped and not in_class[name] and all(cell["metadata"] for cell in retyped):
            listed = {kind for kind in kinds if kind in ("answer retyped", "answer copied")}
            assert listed, (name, result["anomalies"])


def hand_in(folder: ClassFolder, student: str, data: bytes) -> Path:
    return saved(folder.submissions.folder(student, "01") / f"{NAME}.ipynb", data)


# ------------------------------------------------------------------------------------------------ which copy counts


def with_copy(text: str, place: int, kind: str = "code") -> Notebook:
    made = small_source()
    cell = cell_of(made, DAYS)
    made["cells"].insert(made["cells"].index(cell) + place, {**copy.deepcopy(cell), "id": "copy", "source": text})
    made["cells"][made["cells"].index(cell) + place]["cell_type"] = kind
    return made


@each_alone(
    "learner, earned, said",
    (with_copy(TEXTS["wrong"](DAYS), 1), False, "Its check sees cell 11"),  # both run, and the check sees the second
    (with_copy(TEXTS["stub"](DAYS), 1), True, "Its check sees cell 10"),  # an untouched copy undoes nothing
    (with_copy(TEXTS["wrong"](DAYS), 2), True, "Its check sees cell 10"),  # after the check
    (with_copy(TEXTS["wrong"](DAYS), -1), True, "Its check sees cell 11"),
    ids=["wrong before the check", "stub before the check", "wrong after the check", "wrong at the top"],
)
def test_what_the_check_sees_counts(workers, learner, earned, said):
    reports, notes = marked(learner, workers)
    assert points(reports) == full(*([] if earned else [DAYS])) and said in " ".join(notes)


def test_a_later_copy_counts_where_it_earns_more(workers):
    learner = with_copy(RIGHT[DAYS], 2)
    cell_of(learner, DAYS)["source"] = TEXTS["wrong"](DAYS)
    reports, notes = marked(learner, workers)
    assert points(reports) == full() and any("earned more after cell 12" in note for note in notes)


def test_a_later_answer_in_an_own_cell_counts_and_is_listed(folder):
    learner = small_source()
    cell_of(learner, DAYS)["source"] = TEXTS["wrong"](DAYS)
    learner["cells"].append(own(RIGHT[DAYS] + f'\ncheck("{DAYS}", train_days, gpus_for_deadline)'))
    learner["cells"].insert(2, own("import os\nos._exit(1)", "ends"))
    hand_in(folder, "ada", as_bytes(learner))
    result = run_task(make_task(folder, "ada", "01"))
    texts = {each["kind"]: each["text"] for each in result["anomalies"]}
    assert result["points"] == sum(full().values())
    assert "earned more after cell 16" in texts["later answer"] and "(cell 3) was left out" in texts["cell left out"]


def test_a_stub_below_retyped_work_does_not_hide_why_it_was_not_run(workers):
    learner = with_copy(TEXTS["stub"](DAYS), 1)
    cell_of(learner, DAYS)["cell_type"] = "markdown"
    reports, notes = marked(learner, workers)
    assert "markdown cell now" in reports[DAYS].note and "no points are lost" not in " ".join(notes)


def test_an_answer_written_into_its_check_cell_counts(workers):
    learner = as_released()
    check = cell_of(learner, DAYS + "-check")
    check["source"] = f"{RIGHT[DAYS]}\n{check['source']}"
    reports, _ = marked(learner, workers)
    assert reports[DAYS].passed


def test_an_answer_under_another_name_counts_where_the_check_names_it(workers):
    learner = small_source()
    for name in (DAYS, f"{DAYS}-check"):
        cell_of(learner, name)["source"] = cell_of(learner, name)["source"].replace("train_days", "my_days")
    reports, _ = marked(learner, workers)
    assert points(reports) == full()
    cell_of(learner, f"{DAYS}-check")["source"] = f'check("{DAYS}", my_days)'  # one of two
    assert marked(learner, workers)[0][DAYS].points == 0


def signs(learner: Notebook) -> dict[str, str]:
    cards = exercises.cards("01")
    return {sign.kind: sign.text for sign in rebuild(small_source(), learner, cards).signs}


@pytest.mark.parametrize("kind", ["markdown", "raw"])
def test_a_retyped_answer_is_listed_and_its_copy_in_code_counts(workers, kind):
    learner = small_source()
    cell_of(learner, DAYS)["cell_type"] = kind
    assert f"is a {kind} cell now" in signs(learner)["answer retyped"]
    reports, notes = marked(learner, workers)
    assert points(reports) == full(DAYS) and f"{kind} cell now" in reports[DAYS].note
    learner = with_copy(RIGHT[DAYS], 1, kind)
    assert points(marked(learner, workers)[0]) == full() and "answer retyped" in signs(learner)


def test_a_split_answer_is_no_copy():
    first, second = RIGHT[DAYS].split("def gpus_for_deadline")
    learner = with_copy(f"def gpus_for_deadline{second}", 1)
    cell_of(learner, DAYS)["source"] = first
    assert not signs(learner)


# ------------------------------------------------------------------------------------------------ damage


def text_of(change) -> bytes:
    learner = json.loads(render(small_source()))
    change(learner["cells"])
    return json.dumps(learner).encode()


def at(cells, name):
    return next(
        index for index, cell in enumerate(cells) if cell["metadata"].get("nbgrader", {}).get("grade_id") == name
    )


DAMAGED = {
    "source: null": (lambda cells: cells[at(cells, DAYS)].update(source=None), "Cell 10 (train-days-7b) has no text"),
    "lines that are null": (lambda cells: cells[at(cells, DAYS)].update(source=["a", None]), "has no text"),
    "an unknown type": (lambda cells: cells[at(cells, DAYS)].update(cell_type="sql"), "is not a notebook cell"),
    "no type": (lambda cells: cells[at(cells, DAYS)].pop("cell_type"), "is not a notebook cell"),
    "no cell": (lambda cells: cells.__setitem__(at(cells, DAYS), None), "Cell 10 is not a notebook cell"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_one_damaged_cell_costs_its_exercise_alone_and_is_listed(workers, name):
    change, words = DAMAGED[name]
    learner = salvaged(text_of(change))
    reports, notes = marked(learner, workers)
    assert points(reports) == full(DAYS) and words in signs(learner)["damaged"] and words in " ".join(notes)
    with pytest.raises(Trouble, match="cell 10"):  # a command that writes the notebook again must not lose the cell
        parse(text_of(change).decode())


@each_alone(
    "data, words",
    (text_of(lambda cells: None) + b"\n}\n", "1 characters behind the notebook's end"),
    (text_of(lambda cells: None) * 2, "characters behind the notebook's end"),
    (text_of(lambda cells: None) + b"\0" * 4096, ""),
    (text_of(lambda cells: cells[0].update(source="# caf@")).replace(b"caf@", b"caf\xe9"), "not UTF-8"),
    (b'{"damage": ["mine"], ' + text_of(lambda cells: cells[9].update(damaged="mine"))[1:], ""),
    ids=[
        "a brace behind its end",
        "twice in one file",
        "zeros behind its end",
        "one letter of Latin-1",
        "our own word",
    ],
)
def test_what_is_behind_the_end_or_not_utf_8_costs_nothing(workers, data, words):
    learner = salvaged(data)
    assert points(marked(learner, workers)[0]) == full()
    assert words in " ".join(learner.get("damage", ())) and bool(words) == ("damage" in learner)


UNREADABLE = {
    "0 bytes": b"",
    "UTF-16": render(small_source()).encode("utf-16"),
    "format 3": b'{"worksheets": [{"cells": []}], "nbformat": 3, "metadata": {}}',
    "truncated": render(small_source()).encode()[:4000],
}


def test_what_cannot_be_read_is_named_and_left_out_of_every_export(folder, tmp_path):
    names = dict(zip(("alan", "barbara", "grace", "leslie"), UNREADABLE.values(), strict=True))
    for student, data in {"zoe": as_bytes(work(folder, "zoe")), **names}.items():
        hand_in(folder, student, data)
        record = {
            "at": "2026-10-12T12:00:00+00:00",
            "by": "canvas",
            "sha256": make_task(folder, student, "01")["notebook_sha256"],
        }
        folder.submissions.remember_arrival(student, "01", record)
    folder.submissions.save_arrivals()
    summary = grade_class(folder, students=["zoe", *names], no_sandbox=True, jobs=1)
    assert sorted(line.student for line in summary.refused) == sorted(names)
    assert {latest(folder, name, "01")["state"] for name in names} == {"refused"}
    assert status(folder)[0].refused == tuple(names) and status(folder)[0].mean == sum(full().values())
    for to in ("canvas", "moodle", "csv", "exercises"):
        for zero in (False, True):
            made = export(folder, to, ["01"], missing_as_zero=zero, path=tmp_path / f"{to}.csv")
            assert any("alan, barbara, grace, leslie" in note for note in made.notes)
            lines = {line for name in names for line in made.path.read_text().splitlines() if name in line}
            assert to == "exercises" or not lines
        asked = export(folder, to, ["01"], unreadable_as_zero=True, path=tmp_path / "asked.csv")
        assert all(name in asked.path.read_text() for name in names)
