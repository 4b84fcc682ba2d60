"""The grading service: what one run over a class gives, in reports, gradebook and the notebook that a grader opens."""

import ast
import json
import os
import signal
from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from pathlib import Path

import nbformat
import pytest
from nbgrader import utils
from nbgrader.api import Gradebook

from course_grader import exercises
from course_grader.blank_notebook import blank
from course_grader.classroom.export import waiting
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.release import release_chapter
from course_grader.classroom.sources import sha256
from course_grader.committed_form import CHECK_SUFFIX
from course_grader.dependencies import missed, needed
from course_grader.judge import resolve
from course_grader.notebooks import Notebook, grade_meta, parse, render
from course_grader.records import Report, Verdict
from course_grader.service import anomalies
from course_grader.service import task as task_module
from course_grader.service.autograded import autograded, outputs_of
from course_grader.service.events import Event, Summary
from course_grader.service.gradebook_writer import Writer
from course_grader.service.grading import grade_class
from course_grader.service.pool import Markers
from course_grader.service.progress_view import line_of, show
from course_grader.service.regrade import regrade_exercise
from course_grader.service.report_cache import all_latest, autograded_path, latest
from course_grader.service.task import make_task
from course_grader.submission import READ, Step, Submission, rebuild
from course_lib.messages import Trouble
from tests.class_kit import NAME, as_bytes, at, class_at, copy_of, course_at, saved, work
from tests.conftest import cell
from tests.crash_kit import Made
from tests.grading_kit import SMALL, cell_of, own, small_source, solved_copy
from tests.tables import each_of

HOG = (
    "def train_days(params, tokens, gpu_flops, utilisation):\n    return len(bytearray(3_000_000_000))\n\n\ndef "
    "gpus_for_deadline(*_): return 1"
)
HANG = "def money_lost(spent, usd_per_hour, mfu, baselines):\n    while True: pass"
QUIT = "import os\nos._exit(3)"
CLUMSY = '''def train_days(params: float, tokens: float, gpu_flops: float, utilisation: float) -> float:
    """Mine."""
    work = 6 * params * tokens
    speed = gpu_flops * utilisation
    seconds = work / speed
    hours = seconds / 3600
    days = hours / 24
    return days


def gpus_for_deadline(params: float, tokens: float, gpu_flops: float, utilisation: float, days: float) -> int:
    alone = train_days(params, tokens, gpu_flops, utilisation)
    whole = int(alone // days)
    return max(1, whole if whole * days >= alone else whole + 1)'''
WASTE = """spent_in = params("mfu-waste").spent_in


def money_lost(spent: float, usd_per_hour: float, mfu: float, baselines: dict) -> dict:
    found = {}
    usd = spent if spent_in == "dollars" else spent * usd_per_hour
    for name in baselines:
        reach = baselines[name]
        if reach < mfu:
            reach = mfu
        found[name] = (usd * (1 - mfu / reach), reach / mfu - 1)
    return found"""
RENAMED = {
    "train-days-7b": CLUMSY.replace("alone", "solo").replace("whole", "n").replace('"""Mine."""', "# copied"),
    "mfu-waste": WASTE.replace("found", "result").replace("reach", "best"),
}


def hand_in(folder: ClassFolder, student: str, work_: Notebook | bytes) -> Path:
    place = folder.submissions.folder(student, "01")
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{NAME}.ipynb"
    path.write_bytes(work_ if isinstance(work_, bytes) else as_bytes(work_))
    return path


def tampered(folder: ClassFolder) -> Notebook:
    """Work with an edited test cell and edited metadata, and a cell that looks around."""
    mine = work(folder, "zoe", wrong=RENAMED)
    cell_of(mine, "state-13b-check")["source"] = "127.0"
    cell_of(mine, "mfu-waste-check")["metadata"]["nbgrader"]["points"] = 100
    mine["cells"].append(own("import inspect\nprint('<script>alert(1)</script>')"))
    mine["cells"][-1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "OUTPUT OF MINE"}]
    return mine


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    return course_at(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="module")
def released(course, tmp_path_factory) -> ClassFolder:
    folder = class_at(tmp_path_factory.mktemp("service"), course)
    folder.settings.data["sandbox"] |= {"memory_bytes": 500_000_000, "case_seconds": 2.0}
    folder.settings.save()
    release_chapter(folder, "01")
    return ClassFolder.open(folder.root)


class Wounded(Markers):
    """Two markers, of which the first is killed at its first task."""

    wounds = 1

    def start(self, task):
        super().start(task)
        if self.wounds and self.all[0].key is not None:
            self.wounds = 0
            os.kill(self.all[0].process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def graded(released, tmp_path_factory) -> tuple[ClassFolder, Summary, list[Event]]:
    """The class after a run with real markers behind the best wall of this machine."""
    folder = copy_of(released, tmp_path_factory.mktemp("graded") / "class")
    hand_in(folder, "ada", work(folder, "ada", wrong={"train-days-7b": CLUMSY, "mfu-waste": WASTE}))
    hand_in(folder, "alan", work(folder, "alan", wrong={"state-13b": QUIT, "mfu-waste": HANG}))
    hand_in(folder, "barbara", work(folder, "barbara", blank=("state-13b", "mfu-waste")))
    hand_in(folder, "grace", b'{"cells": [')
    hand_in(folder, "leslie", work(folder, "leslie", wrong={"train-days-7b": HOG, "state-13b": "def training_state(:"}))
    hand_in(folder, "zoe", tampered(folder))
    said: list[Event] = []
    summary = grade_class(folder, crew=Wounded(2), say=said.append)
    return folder, summary, said


def state_of(folder: ClassFolder, student: str) -> dict[str, tuple[str, float]]:
    report = latest(folder, student, "01")
    assert report is not None
    return {each["id"]: (each["state"], each["points"]) for each in report["reports"]}


def scores(folder: ClassFolder) -> dict[str, float]:
    with Gradebook(folder.settings.db_url, folder.settings.name) as book:
        return {each.student.id: each.score for each in book.assignment_submissions(NAME)}


# ------------------------------------------------------------------------------------------------ one run


@pytest.mark.slower
def test_every_submission_gets_what_it_earned_and_each_state_stays_itself(graded):
    folder, summary, _ = graded
    full = {name: ("answered", float(exercises.card(name).points)) for name in SMALL}
    assert state_of(folder, "ada") == state_of(folder, "zoe") == full
    assert state_of(folder, "alan") == full | {"state-13b": ("crashed", 0.0), "mfu-waste": ("timed out", 0.0)}
    assert state_of(folder, "barbara") == full | {
        "state-13b": ("not answered", 0.0),
        "mfu-waste": ("not answered", 0.0),
    }
    assert state_of(folder, "grace") == dict.fromkeys(SMALL, ("refused", 0.0))
    leslie = state_of(folder, "leslie")
    assert leslie["state-13b"] == ("raised", 0.0) and leslie["train-days-7b"][1] == 0.0
    assert leslie["train-days-7b"][0] in ("crashed", "raised")
    assert summary.exit_code == 0 and summary.graded == 6 and not summary.not_graded


@pytest.mark.slower
def test_the_gradebook_says_the_same_and_why(graded):
    folder, _, _ = graded
    reports = all_latest(folder, "01")
    assert scores(folder) == {student: report["points"] for student, report in reports.items()}
    with Gradebook(folder.settings.db_url, folder.settings.name) as book:

        def comment(student, exercise):
            return book.find_comment(exercise, NAME, NAME, student).comment

        assert comment("ada", "state-13b") is None
        assert comment("barbara", "state-13b") == "No response."
        assert comment("alan", "state-13b").startswith(
            "Crashed: While the answer cell ran: your code ended the process: exit(3)"
        )
        assert comment("alan", "mfu-waste").startswith("Timed out: Your code ran longer than 2 s")
        assert comment("grace", "state-13b").startswith("Refused: ") and "notebook" in comment("grace", "state-13b")
        assert comment("leslie", "state-13b").startswith("Raised an error: SyntaxError")
        assert not any(
            grade.needs_manual_grade
            for each in book.assignment_submissions(NAME)
            for notebook in each.notebooks
            for grade in notebook.grades
        )


@pytest.mark.slower
def test_a_line_is_said_for_each_that_needs_somebodys_eyes(graded):
    _, summary, said = graded
    lines = [f"{event.student}: {event.text}" for event in said if event.kind == "line"]
    assert any("its marker died" in line and "tried once more, alone" in line for line in lines)
    assert [line.student for line in summary.refused] == ["grace"]
    assert ("alan", "state-13b") in [(line.student, line.exercise) for line in summary.crashed]
    assert [(line.student, line.exercise) for line in summary.timed_out] == [("alan", "mfu-waste")]
    zoe = [line.text for line in summary.anomalies if line.student == "zoe"]
    assert any("test cell 'state-13b-check' was edited" in text for text in zoe)
    assert any("metadata of cell 'mfu-waste-check' was edited (points)" in text for text in zoe)
    assert any("names inspect" in text for text in zoe)
    assert any("ada and zoe gave the same answer but for names" in line.text for line in summary.anomalies)
    assert [event.kind for event in said if event.kind != "line"] == ["start", *["done"] * 6, "end"]
    assert [event.done for event in said if event.kind == "done"] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slower
def test_grading_again_judges_nothing_and_with_again_gives_the_same(graded):
    folder, _, _ = graded
    before, reports = scores(folder), all_latest(folder, "01")

    class Nobody(Made):
        def start(self, task):
            raise AssertionError("nothing is to be judged")

    summary = grade_class(folder, crew=Nobody())
    assert summary.already == 6 and summary.graded == 0 and scores(folder) == before
    with Writer(folder.settings.db_url, folder.settings.name) as writer:
        assert sorted(key for _, _, key in writer.journal()) == sorted(report["key"] for report in reports.values())
        assert writer.sound() == ""


@pytest.mark.slower
def test_formgraders_notebook_has_our_points_where_nbgrader_reads_them(graded):
    folder, _, _ = graded
    for student, report in all_latest(folder, "01").items():
        path = autograded_path(folder, student, "01")
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        assert notebook.metadata.course.key == report["key"]
        found = {
            cell.metadata.nbgrader.grade_id: utils.determine_grade(cell)
            for cell in notebook.cells
            if utils.is_grade(cell)
        }
        assert found == {each["id"] + CHECK_SUFFIX: (each["points"], each["maximum"]) for each in report["reports"]}
        text = path.read_text(encoding="utf-8")
        assert "OUTPUT OF MINE" not in text and "HIDDEN TESTS" not in text, student


# ------------------------------------------------------------------------------------------------ after it


@pytest.fixture
def one(released, tmp_path) -> ClassFolder:
    """A class with one submission, to be graded by markers that make up reports."""
    folder = copy_of(released, tmp_path / "class")
    hand_in(folder, "ada", work(folder, "ada"))
    return folder


def made_up(folder: ClassFolder, **more) -> Summary:
    return grade_class(ClassFolder.open(folder.root), no_sandbox=True, crew=Made(0.0), **more)


def test_a_score_set_by_hand_stays_whatever_is_judged_again(one):
    made_up(one)
    with Gradebook(one.settings.db_url, one.settings.name) as book:
        book.find_grade("mfu-waste-check", NAME, NAME, "ada").manual_score = 7.5
        book.db.commit()
    made_up(one, again=True)
    changes = regrade_exercise(one, "mfu-waste", no_sandbox=True, crew=Made(0.0))
    assert [change.kept_by for change in changes] in ([""], ["set by hand"])
    with Gradebook(one.settings.db_url, one.settings.name) as book:
        grade = book.find_grade("mfu-waste-check", NAME, NAME, "ada")
        assert grade.manual_score == grade.score == 7.5 and grade.needs_manual_grade


def test_lateness_costs_what_nbgraders_plugin_says_and_an_extension_gives_it_back(one):
    one.settings.data["late_points_per_day"] = 2.0
    one.settings.chapter("01")["due"] = at("2026-09-01T12:00:00")
    one.settings.save()
    folder = ClassFolder.open(one.root)
    release_chapter(folder, "01", due=at("2026-09-01T12:00:00"))
    folder.submissions.remember_arrival("ada", "01", {"at": at("2026-09-02T13:00:00").isoformat(), "by": "canvas"})
    folder.submissions.save_arrivals()
    made_up(one)
    full = scores(one)["ada"]
    with Gradebook(one.settings.db_url, one.settings.name) as book:
        submission = book.find_submission(NAME, "ada")
        assert submission.total_seconds_late == 25 * 3600 and submission.late_submission_penalty == 4.0
    folder = ClassFolder.open(one.root)
    folder.settings.extend("ada", "01", at("2026-09-02T12:30:00"))
    summary = made_up(one)
    assert summary.graded == 1
    with Gradebook(one.settings.db_url, one.settings.name) as book:
        submission = book.find_submission(NAME, "ada")
        assert submission.late_submission_penalty == 2.0 and submission.extension == timedelta(days=1, minutes=30)
        assert submission.score == full
    assert made_up(one).already == 1


def test_a_new_submission_takes_the_place_of_the_old_one_and_the_old_one_again(one):
    made_up(one)
    first = latest(one, "ada", "01")["key"]
    path = one.submissions.notebook("ada", "01")
    text = path.read_text(encoding="utf-8")
    hand_in(one, "ada", work(one, "ada", wrong={"mfu-waste": WASTE}))
    assert made_up(one).graded == 1 and latest(one, "ada", "01")["key"] != first
    path.write_text(text, encoding="utf-8")
    assert made_up(one).graded == 1 and latest(one, "ada", "01")["key"] == first
    with Writer(one.settings.db_url, one.settings.name) as writer:
        assert [key == first for _, _, key in writer.journal()] == [True, False, True]


def test_regrading_takes_over_what_is_more_and_what_is_less_only_when_told(one):
    made_up(one)
    report = latest(one, "ada", "01")
    place = one.submissions.reports("ada", "01") / f"{report['key']}.json"
    now = next(each["points"] for each in report["reports"] if each["id"] == "train-days-7b")

    def as_if(points):
        for each in report["reports"]:
            if each["id"] == "train-days-7b":
                each["points"] = points
        place.write_text(json.dumps(report), encoding="utf-8")
        (place.parent / "latest.json").write_text(json.dumps({"key": report["key"]}), encoding="utf-8")

    def regraded(**more):
        (change,) = regrade_exercise(one, "train-days-7b", no_sandbox=True, crew=Made(0.0), **more)
        points = next(each["points"] for each in latest(one, "ada", "01")["reports"] if each["id"] == "train-days-7b")
        return change.old, change.new, change.kept_by, points

    as_if(now + 1)
    assert regraded() == (now + 1, now, "higher before", now + 1)
    assert regraded(lower=True) == (now + 1, now, "", now)
    assert regraded() == (now, now, "", now)
    as_if(now - 1)
    assert regraded() == (now - 1, now, "", now)
    assert latest(one, "ada", "01")["key"].endswith("-r1")
    with Gradebook(one.settings.db_url, one.settings.name) as book:
        assert book.find_grade("train-days-7b-check", NAME, NAME, "ada").auto_score == now
    assert made_up(one).already == 1


def test_what_cannot_be_graded_at_all_is_said_before_it_begins(one):
    source = json.loads(one.sources.path("01").read_text(encoding="utf-8"))
    source["cells"].append(cell("assert True", "mine-own-test", "code", grade=True, locked=True, points=3))
    one.sources.path("01").write_text(json.dumps(source), encoding="utf-8")
    with pytest.raises(Trouble, match="has changed since it was pinned"):
        made_up(one)
    one.settings.chapter("01")["sha256"] = sha256(one.sources.path("01"))
    one.settings.save()
    with pytest.raises(Trouble, match="'mine-own-test', which is not an exercise of this class"):
        made_up(one)


def test_a_chapter_that_was_not_released_ends_with_the_way_out(course, tmp_path):
    folder = class_at(tmp_path, course)
    place = folder.submissions.folder("ada", "01")
    place.mkdir(parents=True)
    (place / f"{NAME}.ipynb").write_bytes(as_bytes(small_source()))
    with pytest.raises(Trouble, match="no assignment '01_small'") as told:
        made_up(folder)
    assert "class release 01" in told.value.way_out


# ------------------------------------------------------------------------------------------------ its parts


def test_a_task_is_plain_json_and_its_key_is_that_of_all_that_decides_points(one):
    task = make_task(one, "ada", "01")
    assert json.loads(json.dumps(task)) == task
    (one.submissions.folder("ada", "01") / "helper.py").write_text("x = 1\n")
    (one.submissions.folder("ada", "01") / "timestamp.txt").write_text("2026-01-01 00:00:00 UTC")
    other = make_task(one, "ada", "01")
    assert other["key"] != task["key"] and list(other["files"]) == ["helper.py"]
    one.settings.data["chapters"]["01"]["points"] = {"mfu-waste": 3}
    assert make_task(one, "ada", "01")["key"] not in (task["key"], other["key"])


def test_each_hand_in_has_hidden_cases_of_its_own(one):
    """What an answer has read of its hidden cases is worth nothing to the next hand-in, and nothing to a neighbor."""
    path = one.submissions.notebook("ada", "01")

    def unseen(task):
        card = exercises.card("mfu-waste")
        return [
            repr((case.args, case.kwargs)) for case in resolve(card, secret=task["secret"]).cases if not case.visible
        ]

    first, again = make_task(one, "ada", "01"), make_task(one, "ada", "01")
    saved(one.submissions.folder("ben", "01") / path.name, path.read_bytes())
    neighbor = make_task(one, "ben", "01")
    path.write_bytes(path.read_bytes() + b" ")
    later = make_task(one, "ada", "01")
    saved(one.submissions.folder("ada", "01") / "which-bit.txt", b"7")  # which the same notebook may read
    beside = make_task(one, "ada", "01")
    saved(one.submissions.folder("ada", "01") / "which-bit.txt", b"8")
    changed = make_task(one, "ada", "01")
    assert unseen(first) == unseen(again) and unseen(changed) == unseen(make_task(one, "ada", "01"))
    assert one.secret not in json.dumps(first)
    drawn = [set(unseen(each)) for each in (first, later, neighbor, beside, changed)]
    assert all(drawn) and not any(mine & other for mine, other in combinations(drawn, 2))


def test_a_task_carries_other_students_numbers_to_the_judge(tmp_path, monkeypatch):
    folder = class_at(tmp_path, course_at(tmp_path / "course"))
    release_chapter(folder, "01", variants=True)
    hand_in(folder, "ada", work(folder, "ada"))
    given = {}

    def graded(*_, **more):
        given.update(more)
        raise Trouble("far enough", "none")

    monkeypatch.setattr(task_module, "grade_needed_cells", graded)
    task = make_task(folder, "ada", "01")
    assert task_module.run_task(task)["state"] == "failed"
    assert given["others"] == task["others"] and given["others"]["state-13b"]


def test_text_of_a_student_is_escaped_wherever_we_show_it():
    nasty = "<script>alert(1)</script>\x1b[31m <img src=x onerror=alert(1)>"
    report = Report(
        exercise="mfu-waste",
        state="raised",
        points=1.0,
        maximum=10.0,
        note=nasty,
        verdicts=(Verdict(kind="values", part="a", ok=False, message=nasty),),
    )
    page, result = outputs_of(report)
    assert "<script" not in page["data"]["text/html"] and "<img" not in page["data"]["text/html"]
    assert "\x1b" not in json.dumps(page)
    assert result["data"] == {"text/plain": "1.0"}
    assert "\x1b" not in line_of(Event("line", nasty, student=nasty)).plain


def test_the_notebook_for_graders_has_every_graded_cell_once_and_nothing_else_of_the_course():
    source = small_source()
    learner = blank(source)
    cells = [
        each for each in learner["cells"] if grade_meta(each).get("grade_id") not in ("state-13b-check", "mfu-waste")
    ]
    copied = [
        *cells,
        cell_of(learner, "train-days-7b"),
        {"cell_type": "raw", "id": "r", "metadata": {"nbgrader": {"grade_id": "x"}}, "source": "raw"},
    ]
    shown = autograded(source, {**learner, "cells": copied}, exercises.cards("01"), [], "key")
    ids = [grade_meta(cell)["grade_id"] for cell in shown["cells"] if grade_meta(cell)]
    assert sorted(ids) == sorted(grade_meta(cell)["grade_id"] for cell in source["cells"] if grade_meta(cell))
    assert ids.index("state-13b-check") == ids.index("state-13b") + 1
    assert "BEGIN SOLUTION" not in json.dumps(shown) and "HIDDEN TESTS" not in json.dumps(shown)


def test_a_cell_graded_by_hand_waits_for_a_person_unless_it_is_as_it_was_released(released, tmp_path):
    text = "Say why.\n\n### BEGIN SOLUTION\nBecause.\n### END SOLUTION"
    essay = cell(text, "essay", grade=True, points=5, solution=True)
    folder = copy_of(released, tmp_path / "class")
    source = parse(folder.sources.path("01").read_text(encoding="utf-8"))
    folder.sources.path("01").write_text(render({**source, "cells": [*source["cells"], essay]}), encoding="utf-8")
    release_chapter(folder, "01")
    release = parse((folder.root / "release" / NAME / f"{NAME}.ipynb").read_text(encoding="utf-8"))
    hand_in(folder, "ada", release)
    stub, cell_of(release, "essay")["source"] = cell_of(release, "essay")["source"], "My essay."
    hand_in(folder, "alan", release)
    hand_in(
        folder,
        "zoe",
        {**release, "cells": [cell for cell in release["cells"] if grade_meta(cell).get("grade_id") != "essay"]},
    )
    at = next(place for place, cell in enumerate(release["cells"]) if cell["id"] == "essay")
    below = {"cell_type": "markdown", "id": "mine", "metadata": {}, "source": "Below the question."}
    untouched = {**release["cells"][at], "source": stub}
    for student, cells in {
        "grace": [untouched, below],
        "barbara": [{**untouched, "cell_type": "code", "source": "Retyped.", "outputs": [], "execution_count": None}],
        "leslie": [untouched, {**untouched, "id": "copy", "source": "In the copy."}],
    }.items():
        hand_in(folder, student, {**release, "cells": [*release["cells"][:at], *cells, *release["cells"][at + 1 :]]})
    made_up(folder)
    for student, text in {"grace": below["source"], "barbara": "Retyped.", "leslie": "In the copy."}.items():
        shown = cell_of(parse(autograded_path(folder, student, "01").read_text(encoding="utf-8")), "essay")
        assert shown["source"].endswith(text) and waiting(folder, "01").count(student) == 1
    with Gradebook(folder.settings.db_url, folder.settings.name) as book:
        ada, alan = (book.find_grade("essay", NAME, NAME, student) for student in ("ada", "alan"))
        assert (ada.auto_score, ada.needs_manual_grade) == (0.0, False)
        assert (alan.auto_score, alan.needs_manual_grade) == (None, True)
        zoe = book.find_grade("essay", NAME, NAME, "zoe")
        assert (zoe.auto_score, zoe.needs_manual_grade) == (0.0, False)
        assert book.find_comment("essay", NAME, NAME, "ada").comment == "No response."
    assert "My essay." in autograded_path(folder, "alan", "01").read_text(encoding="utf-8")


FORBIDDEN = {  # answer, and what of it is the library's
    "def train_flops(n): return 6 * n": set(),
    "def f(n): return train_flops(n)\n\ndef train_flops(n): return 6 * n": set(),
    "class My:\n    def train_flops(self): return 6\n\nvalue = My().train_flops()": set(),
    "%time 1\ntrain_flops = lambda n: 6 * n\nvalue = train_flops(2)": set(),
    "def f(n): return compute.train_flops(n)": {"train_flops"},
    "from course_lib.estimate.compute import train_flops as mine": {"train_flops"},
    "import course_lib.estimate.compute as c\nf = c.train_flops": {"train_flops"},
    "f = getattr(compute, 'train_flops')": {"train_flops"},
    "f = train_flops": {"train_flops"},
}


@each_of("answer, taken", FORBIDDEN.items())
def test_a_name_is_forbidden_where_it_is_the_librarys_not_a_learners_own(answer, taken):
    cells = ["from course_lib import check; from course_lib.estimate import compute", answer]
    own, library = (set().union(*found) for found in zip(*map(anomalies.names_in, cells), strict=True))
    used = anomalies.names_used(answer, own, library)
    assert used & {"train_flops"} == taken


def test_whose_a_chain_of_attributes_is_is_asked_once_for_each_chain():
    chain = "m" + ".b" * 300 + ".train_flops()\n"
    assert "train_flops" in anomalies.names_used(chain, set(), {"m"})
    assert "train_flops" not in anomalies.names_used(chain, {"m"}, set())
    known: dict[int, str] = {}
    [call] = [
        node for node in ast.walk(ast.parse(chain)) if isinstance(node, ast.Attribute) and node.attr == "train_flops"
    ]
    assert anomalies._root(call, known) == "m" and len(known) == 301


def test_cells_too_long_to_read_are_left_whole_and_said():
    long = Step(do="run", source="x = 1\n" * (READ // 6 + 1), whose="own")
    whole = Submission(steps=(long, Step(do="run", source="import gc", whose="own")), exercises=())
    assert needed(whole, {"cells": []}) is whole
    told = [anomaly["text"] for anomaly in anomalies._reaching(whole, (), {})]
    assert "more than 200,000 characters" in told[0] and "names gc" in told[1]


def test_points_that_the_class_gave_are_no_edited_metadata():
    cards = [
        replace(card, points=7 if card.id == "mfu-waste" else card.points)
        for card in exercises.cards("01")
        if card.id in SMALL
    ]
    source = small_source()
    mine = parse(render(solved_copy(blank(source), source)))
    check = cell_of(mine, "mfu-waste-check")
    said = {}
    for points in (7, 99):
        check["metadata"]["nbgrader"]["points"] = points
        said[points] = [
            line["text"] for line in anomalies.anomalies_of(source, mine, cards, rebuild(source, mine, cards), ())
        ]
    assert said[7] == [] and any("was edited (points)" in text for text in said[99])


def test_answers_alike_are_told_only_where_they_are_long_shared_by_few_and_not_published():
    long = {"shape": "a", "size": 99}
    pair = {
        "x": {"answers": {"one": long, "two": long}},
        "y": {"answers": {"one": long, "two": long}},
        "z": {"answers": {}},
    }
    (line,) = anomalies.alike(pair)
    assert "x and y" in line["text"] and line["exercise"] == "one, two"
    assert not anomalies.alike(pair, {"one": [long], "two": [long]})
    assert not anomalies.alike({name: {"answers": {"one": long}} for name in "xy"})
    assert not anomalies.alike(
        {name: {"answers": {"one": {"shape": "a", "size": 9}, "two": {"shape": "a", "size": 9}}} for name in "xy"}
    )
    assert not anomalies.alike({str(name): {"answers": {"one": long, "two": long}} for name in range(9)})
    assert (
        anomalies.fingerprint("def f(a):\n    return a + 1")["shape"]
        == anomalies.fingerprint("# mine\ndef f(b):\n  'Doc.'\n  return b + 1")["shape"]
    )
    assert (
        anomalies.fingerprint("def f(a): return a + 1")["shape"]
        != anomalies.fingerprint("def f(a): return a + 2")["shape"]
    )


@pytest.mark.slower
def test_the_end_of_a_run_is_shown_with_what_to_do(capsys, graded):
    _, summary, _ = graded
    show(summary)
    out = capsys.readouterr().out
    assert "6 graded" in out and "refused (1)" in out and "to look at" in out
    assert json.loads(json.dumps(summary.as_data()))["exit_code"] == 0


# ------------------------------------------------------------------------------------------------ which cells are run

SHOWN = "rows = []\nfor name in ('a', 'b'):\n    rows.append(name)\nprint(rows)"
NEEDED = {
    "a cell that only shows": (SHOWN, "def f(x): return x", False),
    "a name that the answer reads": ("factor = 2", "def f(x): return factor * x", True),
    "a name that it binds itself": ("factor = 2", "factor = 3\ndef f(x): return factor * x", False),
    "a local name of its function": (SHOWN, "def f(x):\n    rows = [x]\n    return rows", False),
    "a name read through another cell": ("base = 2\n", "def f(x): return double(x)", True),
    "a list that a cell fills": ("table.append(1)", "def f(x): return len(table)", True),
    "an attribute that a cell sets": ("box.size = 3", "def f(x): return box.size", True),
    "a seed": ("import torch\ntorch.manual_seed(3)", "def f(x): return x", True),
    "a branch": ("if True:\n    factor = 2", "def f(x): return factor", True),
    "a loop's variable": ("for factor in (1, 2):\n    pass", "def f(x): return factor", True),
    "eval": (SHOWN, "def f(x): return eval('rows')", True),
    "globals": (SHOWN, "def f(x): return globals()['rows']", True),
    "a magic": (SHOWN, "%time 1\ndef f(x): return x", True),
    "a slip of the pen that names it": (SHOWN, "def f(x: return rows", True),
    "a slip of the pen that does not": (SHOWN, "def f(x: return 1", False),
    "a default argument": ("factor = 2", "def f(x, by=factor): return by", True),
    "a decorator": ("def twice(f): return f", "@twice\ndef f(x): return x", True),
    "a class body": ("factor = 2", "class A:\n    size = factor\ndef f(x): return A.size", True),
}


@each_of("name", NEEDED)
def test_a_chapters_own_cell_is_run_if_something_stands_on_it(name):
    shown, answer, wanted = NEEDED[name]
    middle = [own("def double(x): return base * x", "double")] if "double" in answer else []
    answers = cell("def f(x): ...", "state-13b", "code", solution=True)
    source = {"cells": [own(shown, "shown"), *middle, answers], "metadata": {}}
    learner = {**source, "cells": [*source["cells"][:-1], {**source["cells"][-1], "source": answer}]}
    whole = rebuild(source, learner, exercises.cards("01"))
    part = needed(whole, source)
    assert (shown in [step.source for step in part.steps]) is wanted
    assert [step for step in part.steps if step.do == "judge"] == [step for step in whole.steps if step.do == "judge"]
    assert missed(whole, part, ["NameError: name 'rows' is not defined"]) is (not wanted and "rows" in shown)


def test_a_changed_cell_and_a_cell_of_their_own_always_run():
    source = {"cells": [own(SHOWN, "shown")], "metadata": {}}
    learner = {**source, "cells": [own(SHOWN + "  # mine", "shown"), own("1 + 1", "other")]}
    whole = rebuild(source, learner, ())
    assert needed(whole, source) == whole
