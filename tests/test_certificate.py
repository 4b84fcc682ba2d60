"""A certificate says what the work folder holds, and a page that says something else is found out."""

import copy
import json
import re
import shutil
from pathlib import Path

import pytest

from course_app import cli
from course_app.certificate.issued import note
from course_app.certificate.page import page
from course_app.certificate.record import counts, gather
from course_app.certificate.verify import differences, read
from course_app.learner import progress
from course_app.learner.work import Folders
from course_grader.notebooks import parse, render
from course_lib.messages import Trouble
from tests.grading_kit import cell_of, mine, small_course
from tests.tables import each_alone


@pytest.fixture(scope="module")
def learner(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """A learner who has solved the small chapter, with one recorded prediction."""
    where = small_course(tmp_path_factory.mktemp("course"))
    base = {"state": "answered", "points": 1, "maximum": 1, "passed": True, "chapter": "01"}
    progress.record({**base, "id": "state-13b"}, where.work)
    progress.record({**base, "id": "predict-weeks", "interval": [1.0, 1.5], "truth": 1.2, "held": True}, where.work)
    return where


@pytest.fixture(scope="module")
def record(learner: Folders) -> dict:
    return gather(learner, "Ada <b>Lovelace</b>", "2026-11-23")


@pytest.fixture
def written(learner: Folders, record: dict, tmp_path: Path) -> Path:
    path = tmp_path / "certificate.html"
    path.write_text(page(record), encoding="utf-8")
    note(record, learner.work)
    return path


def test_the_record_is_judged_now_and_leaves_the_work_folder_as_it_was(learner, record):
    (chapter,) = record["chapters"]
    assert chapter["chapter"] == "01" and len(chapter["exercises"]) == 4
    assert all(each["passed"] and each["answer"] for each in chapter["exercises"])
    held, asked = counts(chapter["exercises"])["values"]
    assert held == asked > 0
    (prediction,) = record["predictions"]
    assert prediction["truth"] != 1.2 and not prediction["held"], "the truth is computed, not believed"
    assert progress.load(learner.work)["exercises"]["state-13b"]["tries"] == 1


def test_a_page_that_nobody_touched_holds(learner, written, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_ROOT", str(learner.root))
    monkeypatch.setenv("COURSE_WORK", str(learner.work))
    assert cli.run(["certificate", "--verify", str(written)]) == 0
    assert "nothing differs" in capsys.readouterr().out


@each_alone(
    "change, says",
    (lambda data: data | {"name": "Eve"}, "The page names Eve; this work folder wrote its certificate for Ada"),
    (lambda data: data | {"date": "2025-01-01"}, "The page is dated 2025-01-01"),
    (lambda data: data | {"chapters": []}, "leaves out chapter 01"),
    ids=["another name", "another day", "a chapter less"],
)
def test_a_page_whose_text_and_data_were_changed_alike_is_refused(learner, record, written, tmp_path, change, says):
    """Judging the answers again cannot show a name; the work folder remembers what it wrote."""
    path = tmp_path / "other.html"
    path.write_text(page(change(copy.deepcopy(record))), encoding="utf-8")
    said = differences(path, learner)
    assert sum(says in each for each in said) == 1 and not any("page's text" in each for each in said), said


def test_one_byte_of_the_page_is_enough(learner, written):
    text = written.read_text(encoding="utf-8")
    written.write_text(text.replace("Lovelace", "Lovelacf", 1), encoding="utf-8")
    assert [each for each in differences(written, learner) if "page's text" in each]


def test_a_work_folder_that_wrote_no_certificate_says_so(learner, written, tmp_path):
    other = Folders(root=learner.root, work=tmp_path / "work")
    shutil.copytree(learner.work, other.work, ignore=shutil.ignore_patterns("certificates.json"))
    (said,) = differences(written, other)
    assert "no record of a certificate" in said


def test_what_a_page_claims_too_much_is_named(learner, record, written, tmp_path):
    """More points, a verdict, a prediction, parts of the trainer, and an exercise that is not in the course."""
    false = copy.deepcopy(record)
    first, second, third, _ = false["chapters"][0]["exercises"]
    first["points"] += 1
    second["answer"] = "0" * 16
    third["id"] = "state-14b"
    false["predictions"][0]["held"] = True
    false["trainer"]["yours"] = 28
    path = tmp_path / "false.html"
    path.write_text(page(false).replace("Every answer was", "Every single answer was"), encoding="utf-8")
    found = differences(path, learner)
    for word in (
        f"{first['id']}: the page says",
        f"{second['id']}: the answer",
        "state-14b: the course has no such",
        "the page does not mention it",
        "predictions",
        "28 parts",
        "page's text",
        "something else than the certificate",
    ):
        assert sum(word in each for each in found) == 1, (word, found)
    assert len(found) == 8


def test_an_answer_that_was_broken_after_the_page_was_written_is_named(learner, written, tmp_path):
    other = Folders(root=learner.root, work=tmp_path / "work")
    shutil.copytree(learner.work, other.work)
    notebook = parse(mine(other).read_text(encoding="utf-8"))
    cell = cell_of(notebook, "train-days-7b")
    cell["source"] = re.sub(r"return .*", "return 0", cell["source"])
    mine(other).write_text(render(notebook), encoding="utf-8")
    (said,) = differences(written, other)
    assert said.startswith("train-days-7b: the answer in the work folder is another one; it now earns 0 of")


def test_the_page_needs_no_other_file_and_shows_names_as_text(record):
    text = page(record)
    assert page(copy.deepcopy(record)) == text
    assert not re.search(r"https?://|src=|@import|url\(|<link", text)
    assert "<b>Lovelace" not in text.split("</head>")[1].split("<script")[0]
    assert "Ada &lt;b&gt;Lovelace" in text and "prefers-color-scheme: dark" in text
    nasty = {**record, "name": "</script><script>alert(1)</script>"}
    assert page(nasty).count("</script>") == 1


def test_a_page_reads_back_as_its_record(record, written):
    assert read(written) == record


@each_alone(
    "text, says",
    ("<html></html>", "not a certificate"),
    ('<script type="application/json" id="record">\n{\n</script>', "not a certificate"),
    ids=["another page", "broken data"],
)
def test_a_file_that_is_no_certificate_is_answered_in_words(learner, tmp_path, text, says):
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Trouble, match=says):
        differences(path, learner)
    with pytest.raises(Trouble, match="cannot be read"):
        read(tmp_path / "nothing.html")


def test_a_page_of_another_form_is_not_judged(record, tmp_path):
    path = tmp_path / "old.html"
    path.write_text(page({**record, "form": 0}), encoding="utf-8")
    with pytest.raises(Trouble, match="another version"):
        read(path)


def test_where_nothing_is_passed_there_is_nothing_to_certify(tmp_path):
    (tmp_path / "work").mkdir()
    with pytest.raises(Trouble, match="Nothing is passed"):
        gather(Folders(root=tmp_path, work=tmp_path / "work"), "", "2026-11-23")


def test_the_command_writes_the_page_into_the_work_folder(learner, record, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_ROOT", str(learner.root))
    monkeypatch.setenv("COURSE_WORK", str(learner.work))
    monkeypatch.setattr("course_app.certificate.record.gather", lambda *_: record)
    assert cli.run(["certificate", "--name", "Ada", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["chapters"] == record["chapters"]
    assert read(learner.work / "certificate.html") == record
