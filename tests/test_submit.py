"""Handing in: the saved state as a file that reads back, with a receipt, and what is not answered yet."""

import hashlib
import json
import zipfile

import pytest

from course_app import cli
from course_app.learner import handing_in, work
from course_app.learner.handing_in import hand_in
from course_lib.messages import Trouble
from tests.class_kit import at
from tests.tables import each_alone


@pytest.fixture
def mine(where, monkeypatch):
    """A learner's copies of two small chapters; the command line stands there."""
    work.copy_chapters(where)
    monkeypatch.setenv("COURSE_ROOT", str(where.root))
    monkeypatch.setenv("COURSE_WORK", str(where.work))
    return where


def notebook(where):
    return where.work / "01_three_walls" / "01_three_walls.ipynb"


def answered(where):
    notebook(where).write_text(notebook(where).read_text().replace("raise NotImplementedError", "return 1"))


def test_the_zip_holds_the_notebook_as_saved_small_files_beside_it_and_a_receipt(mine):
    answered(mine)
    (notebook(mine).parent / "helper.py").write_text("x = 1")
    (notebook(mine).parent / "big.csv").write_bytes(b"0" * 6_000_000)
    (notebook(mine).parent / "link.py").symlink_to("/etc/passwd")
    made = hand_in("1", mine, now=at("2026-10-12 14:31"))
    assert made.path == mine.work / "submissions" / "01_three_walls-2026-10-12-1431.zip" and made.unanswered == ()
    with zipfile.ZipFile(made.path) as zipped:
        inside = {name: zipped.read(name) for name in zipped.namelist()}
    assert sorted(inside) == [
        "01_three_walls/01_three_walls.ipynb",
        "01_three_walls/helper.py",
        "01_three_walls/receipt.json",
    ]
    assert inside["01_three_walls/01_three_walls.ipynb"] == notebook(mine).read_bytes()
    receipt = json.loads(made.receipt.read_text())
    assert receipt == json.loads(inside["01_three_walls/receipt.json"])
    assert receipt["sha256"] == made.sha256 == hashlib.sha256(notebook(mine).read_bytes()).hexdigest()
    assert receipt["written"].startswith("2026-10-12T14:31") and receipt["answers"] == 1


@pytest.mark.parametrize(("name", "want"), [("lovelace_01.ipynb", "lovelace_01.ipynb"), ("lovelace", "lovelace.zip")])
def test_the_file_is_named_as_asked(mine, tmp_path, name, want):
    made = hand_in("01_three_walls", mine, to=tmp_path / "out", name=name)
    assert made.path == tmp_path / "out" / want
    assert want.endswith(".zip") or made.path.read_bytes() == notebook(mine).read_bytes()


def test_the_command_lists_what_is_open_and_a_notebook_may_lie_anywhere(mine, tmp_path, capsys):
    elsewhere = tmp_path / "my walls.ipynb"
    elsewhere.write_bytes(notebook(mine).read_bytes())
    assert cli.run(["submit", str(elsewhere), "--to", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "Not answered yet: answer-f (1 of 1)" in said and "sha256" in said and "Receipt" in said
    assert cli.run(["submit", "01", "--to", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unanswered"] == ["answer-f"]


@each_alone(
    "target, name, words",
    ("07", "", "no chapter '07'"),
    ("nowhere.ipynb", "", "There is no nowhere.ipynb"),
    ("01", "../x.zip", "cannot be a file's name"),
)
def test_what_cannot_be_handed_in_is_told(mine, target, name, words):
    with pytest.raises(Trouble, match=words):
        hand_in(target, mine, name=name)


def test_a_notebook_that_is_no_chapter_or_not_whole_is_not_handed_in(mine, tmp_path):
    (tmp_path / "x.ipynb").write_text('{"cells": [], "metadata": {}}')
    with pytest.raises(Trouble, match="no answer cells"):
        hand_in(str(tmp_path / "x.ipynb"), mine)
    notebook(mine).write_text(notebook(mine).read_text()[:-40])
    with pytest.raises(Trouble, match="not a whole notebook"):
        hand_in("01", mine)


def test_what_does_not_read_back_is_not_called_handed_in(mine, monkeypatch):
    monkeypatch.setattr(handing_in, "_zip", lambda path, data, receipt: b"a disk that forgets")
    with pytest.raises(Trouble, match="does not read back"):
        hand_in("01", mine)
