"""Releasing to a class: what students get, what they must not, what the gradebook and our record then say."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from contextlib import closing
from datetime import timedelta

import pytest

from course_app import cli
from course_app.cli import class_
from course_grader.classroom import bundle, release
from course_grader.classroom.config import PointsPerDay, load
from course_grader.classroom.extensions import extend
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.release import release_chapter
from course_grader.classroom.toml_text import render as toml
from course_grader.notebooks import grade_meta, parse, read, render
from course_grader.release import released
from course_lib.folders import ROOT
from course_lib.messages import Trouble
from tests.class_kit import CANVAS_ROSTER, NAME, SIX, at, class_at, copy_of, course_at, saved
from tests.conftest import tried
from tests.grading_kit import SMALL, as_released, cell_of, small_source
from tests.tables import each_alone

DUE = at("2026-10-12 23:59:59")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return course_at(tmp_path_factory.mktemp("course") / "course")


@pytest.fixture(scope="module")
def made(tmp_path_factory, course) -> ClassFolder:
    """A class whose chapter is released, with variants."""
    folder = class_at(tmp_path_factory.mktemp("class"), course)
    release_chapter(folder, "01", due=DUE, variants=True)
    return ClassFolder.open(folder.root)


@pytest.fixture
def folder(made, tmp_path) -> ClassFolder:
    return copy_of(made, tmp_path / "class")


def notebook_of(folder):
    return read(folder.root / "release" / NAME / f"{NAME}.ipynb")


def refused(capsys, *arguments):
    code = cli.run(["class", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out + said.err


# ------------------------------------------------------------------------------------------------ a class begins


def test_init_makes_a_class_that_keeps_its_secret_and_is_never_overwritten(course, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COURSE_ROOT", str(course))
    roster = saved(tmp_path / "canvas.csv", CANVAS_ROSTER.encode())
    assert refused(capsys, "init", "autumn-26", "--roster", roster, "--folder", tmp_path / "c")[0] == 0
    folder = ClassFolder.open(tmp_path / "c")
    assert folder.roster.students() == SIX and folder.settings.chapters() == ("01",)
    assert folder.exercises.chosen("01") == SMALL
    assert stat.S_IMODE((folder.root / ".secret").stat().st_mode) == 0o600 and len(folder.secret) == 64
    with closing(release.gradebook(folder)) as book:
        assert sorted(student.id for student in book.students) == [student.id for student in SIX]
    for arguments, words in [
        (("init", "autumn-26", "--folder", tmp_path / "c"), "is not overwritten"),
        (("init", "a/b", "--folder", tmp_path / "d"), "cannot be a class's name"),
        (("init", "x", "--folder", course / "x"), "lies in the course's own folder"),
        (("init", "x", "--folder", tmp_path / "d", "--chapters", "01,99"), "There is no chapter 99"),
        (("init", "x", "--folder", tmp_path / "d", "--db-url", "nonsense://"), "cannot be opened"),
        (("status", "--folder", tmp_path), "is not a class folder"),
    ]:
        code, said = refused(capsys, *arguments)
        assert code == 1 and words in said and "Way out" in said


@pytest.mark.parametrize(
    "command", [*class_.COMMANDS, class_.class_selftest.self_test], ids=lambda command: command.__name__
)
def test_every_class_command_has_help_with_examples(command, capsys):
    name = command.__name__.replace("_", "-")
    assert cli.run(["class", name, "--help"]) == 0
    assert f"course class {name}" in capsys.readouterr().out.split("Examples")[1]


def test_class_toml_holds_what_it_was_given(tmp_path):
    import tomllib

    data = {
        "name": 'a "b" \\ ü\n',
        "n": 3,
        "x": 0.5,
        "yes": True,
        "when": DUE,
        "list": ["a", "b"],
        "none": None,
        "deep": {"01": {"points": {"ring bytes": 2.5}}, "empty": {}},
    }
    want = {key: value for key, value in data.items() if value is not None} | {
        "deep": {"01": {"points": {"ring bytes": 2.5}}}
    }
    assert tomllib.loads(toml(data, "A head\nof two lines")) == want


# ------------------------------------------------------------------------------------------------ what is released


def test_the_common_release_is_the_courses_own_bytes(made, course):
    ours = {
        path.relative_to(made.root / "release").as_posix(): path.read_bytes()
        for path in (made.root / "release").rglob("*")
        if path.is_file()
    }
    assert ours == released(course)


def test_the_gradebook_knows_points_students_and_the_due_date(made):
    with closing(release.gradebook(made)) as book:
        assignment = book.find_assignment(NAME)
        assert assignment.max_score == sum(made.exercises.points("01").values())
        assert (
            assignment.duedate.isoformat()
            == DUE.astimezone(tz=None).astimezone(release.UTC).replace(tzinfo=None).isoformat()
        )
        assert {cell.name for notebook in assignment.notebooks for cell in notebook.grade_cells} == {
            f"{name}-check" for name in SMALL
        }


def test_exercises_and_points_are_chosen_and_headings_follow(folder):
    done = release_chapter(folder, "01", exercises=["state-13b", "mfu-waste"], points={"mfu-waste": 7.5})
    again = ClassFolder.open(folder.root)
    assert again.exercises.chosen("01") == ("state-13b", "mfu-waste")
    assert again.exercises.points("01")["mfu-waste"] == 7.5
    assert done.points == sum(again.exercises.points("01").values())
    text = render(notebook_of(folder))
    assert "**7.5 points**" in text and text.count("practice, no points") == 2
    points = {
        grade_meta(cell)["grade_id"]: grade_meta(cell)["points"]
        for cell in notebook_of(folder)["cells"]
        if grade_meta(cell).get("grade")
    }
    assert points["mfu-waste-check"] == 7.5 and points["predict-weeks-check"] == 0
    with closing(release.gradebook(folder)) as book:
        assert book.find_assignment(NAME).max_score == done.points


def test_each_student_has_numbers_of_their_own_and_keeps_them(folder):
    first = {student.id: folder.variants.params(student, "01", folder.exercises.known("01")) for student in SIX}
    assert len({json.dumps(each, sort_keys=True, default=str) for each in first.values()}) > 3
    for student in SIX:
        top = folder.root / "variants" / student.id / NAME
        assert json.loads((top / "variant.json").read_text()) == folder.variants.of(student, "01")
        assert read(top / f"{NAME}.ipynb")["metadata"]["course"]["variant"] == folder.variants.of(student, "01")["id"]
        with zipfile.ZipFile(top.with_suffix(".zip")) as zipped:
            inside = {name: zipped.read(name) for name in zipped.namelist()}
        assert inside == {
            f"{NAME}/{path.relative_to(top).as_posix()}": path.read_bytes() for path in top.rglob("*") if path.is_file()
        }
    shutil.rmtree(folder.root / "variants")
    again = release_chapter(folder, "01", points={"state-13b": 5})  # a later release keeps them
    assert again.variants == len(SIX)
    assert {
        student.id: ClassFolder.open(folder.root).variants.params(student, "01", folder.exercises.known("01"))
        for student in SIX
    } == first


def test_a_variant_is_what_nbgraders_converter_makes_of_it(made, course):
    own = made.root / "variants" / "zoe" / NAME
    assert (
        released(course, variant=own / "variant.json")[f"{NAME}/{NAME}.ipynb"] == (own / f"{NAME}.ipynb").read_bytes()
    )


def hidden_texts():
    """What no student may find: each answer, each hidden test."""
    shown = "\n".join(cell["source"] for cell in as_released()["cells"])
    for cell in small_source()["cells"]:
        for what in ("SOLUTION", "HIDDEN TESTS"):
            for region in re.findall(rf"BEGIN {what}[^\n]*\n(.*?)\n[^\n]*END {what}", cell["source"], re.DOTALL):
                yield from (line.strip() for line in region.splitlines() if line.strip() and line.strip() not in shown)


def test_no_byte_of_a_students_folder_tells_answers_tests_secret_or_others(made):
    secrets = [made.secret, "course_grader.judging", "BEGIN SOLUTION", "HIDDEN TESTS", "unseen=True", *hidden_texts()]
    assert len(secrets) > 10
    for student in SIX:
        others = [
            text
            for other in SIX
            if other.id != student.id
            for text in (made.variants.of(other, "01")["id"], other.email)
        ]
        for path in (made.root / "variants" / student.id).rglob("*.ipynb"):
            text = "".join(cell["source"] for cell in read(path)["cells"]) + path.read_text()
            assert not [secret for secret in (*secrets, *others) if secret in text]
        whole = b"".join(
            path.read_bytes()
            for path in (made.root / "variants" / student.id).rglob("*")
            if path.is_file() and path.suffix != ".zip"
        )
        assert not [secret for secret in (*secrets, *others) if secret.encode() in whole]


def test_the_bundle_runs_but_holds_nothing_that_judges(folder, tmp_path):
    student = tmp_path / "student"
    with zipfile.ZipFile(bundle.write_bundle(folder)) as zipped:
        zipped.extractall(student)
    files = [path for path in student.rglob("*") if path.is_file()]
    whole = {path.relative_to(student).as_posix(): path.read_bytes() for path in files}
    assert f"{folder.settings.name}/notebooks/{NAME}/{NAME}.ipynb" in whole
    assert f"{folder.settings.name}/course_app/notebook.py" in whole
    judges = [
        path.read_text().partition("\nANSWERS = ")[0].splitlines()
        for path in ROOT.glob("course_chapters/ch*/exercises/judges/*.py")
        if path.name != "__init__.py"
    ]
    told = [max((line for line in lines[1:] if " import " not in line), key=len).strip().encode() for lines in judges]
    assert len(told) > 50
    everything = b"".join(whole.values())
    assert not [text for text in (*told, folder.secret.encode(), b"BEGIN HIDDEN TESTS\\n") if text in everything]
    assert not [
        text
        for text in hidden_texts()
        if text.encode() in b"".join(data for name, data in whole.items() if name.endswith(".ipynb"))
    ]
    assert not [
        name
        for name in whole
        if "judging" in name or "judges" in name or "solutions" in name or "/tests/" in name or "/grading/" in name
    ]
    program = "from course_lib import check, hint; print(check('state-13b', lambda: 1)); hint('state-13b')"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        capture_output=True,
        text=True,
        cwd=student / folder.settings.name,
        env={**os.environ, "PYTHONPATH": str(student / folder.settings.name), "COURSE_WORK": str(student)},
    )
    assert "judged when you hand it in" in done.stdout and "0.0" in done.stdout and "Hint 1 of 3" in done.stdout, (
        done.stderr
    )


def test_every_command_in_the_bundle_works_or_says_what_is_not_there(folder, tmp_path):
    with zipfile.ZipFile(bundle.write_bundle(folder)) as zipped:
        zipped.extractall(tmp_path)
    home = tmp_path / folder.settings.name
    readme = (home / "README.md").read_text()
    assert "chapter 01, and" in readme and "./course submit 01" in readme and "docs/" not in readme
    assert len(readme) < 2000
    refused = ["check 01", "certificate", "drill --chapter 01", "mine", "class status", "release", "site", "test"]
    refused += ["bench architecture", "exercise new 01 my-id"]
    told = tried(home, [*refused, "doctor --json", "update", "update 01", "progress"])
    for command in refused:
        code, said = told[command]
        assert code == 1 and "Way out: " in said, (command, said)
    code, said = told["doctor --json"]
    assert json.loads(said)["ok"] is (code == 0) and '"what": "chapters", "state": "ok"' in said, said
    assert told["update"][0] == told["progress"][0] == 0 and "./course learn" in told["update 01"][1]


def test_the_roster_as_json_is_one_object(made, capsys, tmp_path):
    code, said = refused(capsys, "roster", "--json", "--folder", made.root)
    assert code == 0 and [each["id"] for each in json.loads(said)["students"]] == [student.id for student in SIX]


# ------------------------------------------------------------------------------------------------ what is refused


def with_source(folder, change):
    source = read(folder.sources.path("01"))
    change(source)
    folder.sources.path("01").write_text(render(source), encoding="utf-8")


def own_test(source):
    check = cell_of(source, "state-13b-check")
    source["cells"].append(
        {
            **check,
            "id": "mine",
            "metadata": {"nbgrader": {**grade_meta(check), "grade_id": "mine"}},
            "source": "assert f() == 1",
        }
    )


def unclosed(source):
    cell_of(source, "state-13b")["source"] += "\n### BEGIN SOLUTION"


@pytest.mark.parametrize(
    ("change", "words"),
    [(own_test, "gives points for 'mine', which is not an exercise"), (unclosed, "SOLUTION regions")],
    ids=["an instructor's own test", "an unclosed region"],
)
def test_a_source_that_cannot_be_released_changes_nothing(folder, change, words):
    before = (folder.root / "class.toml").read_text(), notebook_of(folder)
    with_source(folder, change)
    with pytest.raises(Trouble, match=words):
        release_chapter(folder, "01", exercises=["state-13b"])
    assert ((folder.root / "class.toml").read_text(), notebook_of(folder)) == before


def test_what_was_changed_after_the_release_or_made_under_other_rules_is_not_graded(folder):
    folder.settings.require_contract()
    folder.sources.require_unchanged()
    with_source(folder, lambda source: source["cells"].pop())
    with pytest.raises(Trouble, match="has changed since it was pinned"):
        folder.sources.require_unchanged()
    release_chapter(folder, "01")
    ClassFolder.open(folder.root).sources.require_unchanged()
    folder.settings.data["contract"] = "0"
    folder.settings.save()
    other = ClassFolder.open(folder.root)
    with pytest.raises(Trouble, match="made under contract version 0"):
        other.settings.require_contract()
    other.settings.require_contract(other=True)


@each_alone(
    "arguments, words",
    (("release",), "name a chapter"),
    (("release", "07"), "has no chapter '07'"),
    (("release", "01", "--exercises", "state-13"), "has no exercise 'state-13'"),
    (("release", "01", "--points", "state-13b"), "not of the form id=points"),
    (("release", "01", "--points", "state-13b=-1"), "cannot give -1 points"),
    (("release", "01", "--due", "soon"), "cannot be read as a time"),
    (("extend", "ada", "01", "--until", "2026-10-01"), "before the due date of all"),
    (("extend", "adda", "01", "--until", "2026-12-01"), "did you mean ada"),
    (("export", "--to", "excel"), "There is no format"),
    (("collect",), "give a folder, a zip or a notebook"),
)
def test_a_command_that_cannot_be_meant_is_answered_in_words(folder, capsys, arguments, words):
    code, said = refused(capsys, *arguments, "--folder", folder.root)
    assert code in (1, 2) and words in " ".join(said.replace("│", " ").split())


def test_a_day_that_is_past_is_said_to_be_so(folder, capsys):
    for due, said in (("2020-01-01", True), ("2999-01-01", False)):
        assert cli.run(["class", "release", "01", "--due", due, "-C", str(folder.root)]) == 0
        assert ("was due 2020-01-01" in capsys.readouterr().out) is said


def test_a_chapter_is_added_or_renewed_from_the_course_when_told(folder, course, capsys, monkeypatch):
    monkeypatch.setenv("COURSE_ROOT", str(course))
    with_source(folder, lambda source: source["cells"].pop())
    del folder.settings.data["chapters"]["01"]
    folder.settings.save()
    assert refused(capsys, "release", "01", "--folder", folder.root)[0] == 1
    assert refused(capsys, "release", "01", "--pin", "--folder", folder.root)[0] == 0
    again = ClassFolder.open(folder.root)
    again.sources.require_unchanged()
    assert again.sources.path("01").read_bytes() == (course / "solutions" / NAME / f"{NAME}.ipynb").read_bytes()
    assert "no chapter 44" in refused(capsys, "release", "44", "--pin", "--folder", folder.root)[1]


def test_who_came_since_is_in_roster_and_gradebook(folder, tmp_path, capsys):
    newer = saved(tmp_path / "new.csv", b"student_id,first_name,last_name\nedsger,Edsger,Dijkstra\n")
    code, said = refused(capsys, "roster", newer, "--folder", folder.root)
    assert code == 0 and "7 students: 1 new" in said and "they stay" in said
    assert "Dijkstra" in refused(capsys, "roster", "--folder", folder.root)[1]
    with closing(release.gradebook(folder)) as book:
        assert book.find_student("edsger").last_name == "Dijkstra"


def test_a_lost_secret_or_a_broken_file_is_told_with_the_way_out(folder):
    (folder.root / ".secret").write_text("short")
    with pytest.raises(Trouble, match="does not hold the class's secret"):
        _ = ClassFolder.open(folder.root).secret
    (folder.root / "class.toml").write_text("name = ")
    with pytest.raises(Trouble, match="cannot be read"):
        ClassFolder.open(folder.root)


# ------------------------------------------------------------------------------------------------ time


def test_an_extension_moves_what_is_late_at_once(folder):
    folder.submissions.remember_arrival(
        "ada", "01", {"at": (DUE + timedelta(days=2)).isoformat(), "late": True, "by": "canvas"}
    )
    assert "in time" in extend(folder, "ada", "01", DUE + timedelta(days=3))
    again = ClassFolder.open(folder.root)
    assert again.settings.due("ada", "01") == DUE + timedelta(days=3) and again.settings.due("alan", "01") == DUE
    assert again.submissions.arrival_record("ada", "01")["late"] is False


@pytest.mark.parametrize(("seconds", "points"), [(0, None), (1, 1.5), (86_400, 1.5), (86_401, 3.0), (10**7, 4.0)])
def test_lateness_costs_points_by_the_day_and_never_more_than_there_are(folder, seconds, points):
    folder.settings.data["late_points_per_day"] = 1.5
    folder.settings.save()
    config = load(ClassFolder.open(folder.root))
    assert config.AssignLatePenalties.plugin_class is PointsPerDay
    assert PointsPerDay(config=config).late_submission_penalty("ada", 4.0, seconds) == points


def test_the_configuration_file_is_read_by_nbgrader_itself(made):
    from traitlets.config import PyFileConfigLoader

    config = PyFileConfigLoader("nbgrader_config.py", path=str(made.root)).load_config()
    assert config.CourseDirectory.course_id == made.settings.name
    assert config.CourseDirectory.db_url == made.settings.db_url
    assert parse(render(notebook_of(made)))["metadata"]["course"]["variant"] == "canonical"


def test_class_toml_lists_the_limits_with_their_values(folder):
    folder.settings.save()
    text = (folder.root / "class.toml").read_text()
    assert "#   cell_seconds = 30 " in text and "#   memory_bytes = 2_000_000_000 " in text
