"""The work folder: `learn` and `update` never lose what a person wrote."""

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from course_app.learner import work
from course_app.learner.work import Folders
from course_grader import notebooks
from course_lib.messages import Trouble
from tests.conftest import cell, small_chapter
from tests.tables import each_alone

NAME = "01_three_walls"


def mine(where: Folders, name: str = NAME) -> Path:
    return where.work / name / f"{name}.ipynb"


def write(path: Path, edit: str, id: str = "answer-f") -> None:
    """Change one cell's text, as a person does."""
    book = notebooks.read(path)
    next(each for each in book["cells"] if each.get("id") == id)["source"] = edit
    notebooks.write_whole(path, notebooks.render(book))


def sources(path: Path) -> list[str]:
    return [each["source"] for each in notebooks.read(path)["cells"]]


def commits(where: Folders) -> list[str]:
    log = ["git", "--git-dir", str(where.work / ".git"), "log", "--format=%s"]
    return subprocess.run(log, capture_output=True, text=True, check=True).stdout.splitlines()


NEWER = {**small_chapter("01", intro="A better chapter.")}


def test_first_start_copies_chapters_with_figures_and_keeps_a_history(where):
    assert work.copy_chapters(where) == ["00_start_here: copied", "01_three_walls: copied"]
    assert mine(where).read_bytes() == (where.root / "notebooks" / NAME / f"{NAME}.ipynb").read_bytes()
    assert (where.work / NAME / "figures" / "one.svg").is_file()
    assert commits(where)[0] == "Chapters of the course"


def test_a_second_start_does_nothing(where):
    work.copy_chapters(where)
    before = {
        path: path.stat().st_mtime_ns for path in where.work.rglob("*") if path.is_file() and ".git" not in path.parts
    }
    count = len(commits(where))
    assert work.copy_chapters(where) == []
    after = {
        path: path.stat().st_mtime_ns for path in where.work.rglob("*") if path.is_file() and ".git" not in path.parts
    }
    assert before == after and len(commits(where)) == count


def test_an_unchanged_chapter_is_replaced_by_a_newer_one_figures_too(where, release):
    work.copy_chapters(where)
    release(NAME, NEWER, figure="<svg>new</svg>")
    assert work.copy_chapters(where) == [f"{NAME}: replaced by the newer release (you had not changed it)"]
    assert "A better chapter." in sources(mine(where))
    assert (where.work / NAME / "figures" / "one.svg").read_text() == "<svg>new</svg>"


def test_a_chapter_that_was_only_run_counts_as_unchanged(where, release):
    work.copy_chapters(where)
    book = notebooks.read(mine(where))
    book["cells"][2] |= {"outputs": [{"output_type": "stream", "name": "stdout", "text": "1"}], "execution_count": 1}
    notebooks.write_whole(mine(where), notebooks.render(book))
    release(NAME, NEWER)
    work.copy_chapters(where)
    assert "A better chapter." in sources(mine(where))


def test_a_changed_chapter_is_kept_byte_for_byte_and_a_line_names_update(where, release):
    work.copy_chapters(where)
    write(mine(where), "def f():\n    return 1")
    before = mine(where).read_bytes()
    release(NAME, NEWER, figure="<svg>new</svg>")
    for _ in range(2):
        (line,) = work.copy_chapters(where)
        assert "./course update 01" in line
    assert mine(where).read_bytes() == before
    assert (where.work / NAME / "figures" / "one.svg").read_text() == "<svg/>"  # the old text has its old pictures


def test_update_brings_answers_and_own_cells_along_and_keeps_the_old_file(where, release):
    work.copy_chapters(where)
    write(mine(where), "def f():\n    return 1")
    book = notebooks.read(mine(where))
    book["cells"].append(cell("my own words", "mine"))
    notebooks.write_whole(mine(where), notebooks.render(book))
    before = mine(where).read_bytes()
    release(NAME, NEWER, figure="<svg>new</svg>")
    done = work.update("1", where, now=time.struct_time((2026, 11, 20, 23, 59, 0, 0, 0, 0)))
    assert done.merged.kept == ("answer-f",)
    assert {"def f():\n    return 1", "my own words", "A better chapter."} <= set(sources(mine(where)))
    assert done.old.name == f"{NAME}.before-2026-11-20-2359.ipynb" and done.old.read_bytes() == before
    assert (where.work / NAME / "figures" / "one.svg").read_text() == "<svg>new</svg>"
    assert work.copy_chapters(where) == []
    assert work.update("01", where).merged is None
    assert commits(where)[0] == f"{NAME} updated"


def test_two_updates_within_a_minute_keep_two_old_files(where, release):
    work.copy_chapters(where)
    now = time.localtime()
    for number in range(2):
        write(mine(where), f"f = {number}")
        release(NAME, small_chapter("01", intro=f"Release {number}."))
        work.update("01", where, now=now)
    assert len(list((where.work / NAME).glob("*.before-*.ipynb"))) == 2


def test_a_renamed_notebook_is_found_by_its_metadata_and_not_copied_again(where, release):
    work.copy_chapters(where)
    write(mine(where), "def f():\n    return 1")
    renamed = where.work / "notes" / "walls, my way.ipynb"
    renamed.parent.mkdir()
    mine(where).rename(renamed)
    shutil.rmtree(where.work / NAME)
    assert work.copy_chapters(where) == []
    assert not mine(where).exists()
    release(NAME, NEWER)
    assert "./course update 01" in work.copy_chapters(where)[0]
    assert work.update("01", where).path == renamed
    assert {"def f():\n    return 1", "A better chapter."} <= set(sources(renamed))


def test_an_old_file_is_never_taken_for_the_learners_copy(where, release):
    work.copy_chapters(where)
    write(mine(where), "f = 1")
    release(NAME, NEWER)
    work.update("01", where)
    mine(where).unlink()
    assert work.copy_chapters(where) == [f"{NAME}: copied"]


def test_a_new_chapter_arrives_beside_the_others(where, release):
    work.copy_chapters(where)
    release("02_memory", small_chapter("02"))
    assert work.copy_chapters(where) == ["02_memory: copied"]


def test_a_file_of_the_learners_own_is_not_overwritten_by_a_released_one(where, release):
    work.copy_chapters(where)
    figure = where.work / NAME / "figures" / "one.svg"
    figure.write_text("<svg>mine</svg>")
    release(NAME, NEWER, figure="<svg>new</svg>")
    work.copy_chapters(where)
    assert figure.read_text() == "<svg>mine</svg>"


@each_alone(
    "content, words",
    ("", "is empty"),
    ('{"cells": [', "not a whole notebook"),
    ("<<<<<<< HEAD\n{}\n=======\n{}\n>>>>>>> theirs\n", "unfinished git merge"),
    ("[]", "not a notebook"),
    ('{"worksheets": []}', "before 2015"),
    ('{"cells": [{"cell_type": "code", "source": 3}]}', "not text"),
    ('{"cells": [7]}', "cell 1"),
    ("[" * 100_000, "not a whole notebook"),
    ids=["empty", "cut off", "merge marks", "other JSON", "very old", "number for text", "number for a cell", "deep"],
)
def test_a_broken_notebook_is_refused_in_words_and_nothing_is_touched(where, release, content, words):
    work.copy_chapters(where)
    mine(where).write_text(content)
    release(NAME, NEWER)
    before = {path: path.read_bytes() for path in where.work.rglob("*") if path.is_file() and ".git" not in path.parts}
    with pytest.raises(Trouble, match=words):
        work.update("01", where)
    (line,) = work.copy_chapters(where)
    assert "kept as it is" in line
    assert before == {
        path: path.read_bytes() for path in where.work.rglob("*") if path.is_file() and ".git" not in path.parts
    }


def test_a_start_cut_off_between_copying_and_recording_heals(where, release):
    work.copy_chapters(where)
    release(NAME, NEWER)
    shutil.copy(where.root / "notebooks" / NAME / f"{NAME}.ipynb", mine(where))  # copied, not yet recorded
    work.copy_chapters(where)
    write(mine(where), "f = 1")
    assert work.copy_chapters(where) == []


def test_a_cut_off_write_leaves_the_old_file(where, monkeypatch):
    work.copy_chapters(where)
    before = mine(where).read_bytes()

    def no_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(notebooks.os, "fsync", no_disk)
    with pytest.raises(OSError, match="No space"):
        notebooks.write_whole(mine(where), "half")
    assert mine(where).read_bytes() == before
    assert not list(mine(where).parent.glob(".*part"))


def test_without_git_everything_works_and_says_so(where, monkeypatch):
    monkeypatch.setenv("PATH", "")
    said = work.copy_chapters(where)
    assert mine(where).exists() and "git is not installed" in said[-1]


def test_the_history_is_the_work_folders_own_even_inside_another_repository(where):
    subprocess.run(["git", "init", "-q", str(where.root)], check=True)
    work.copy_chapters(where)
    outer = subprocess.run(["git", "-C", str(where.root), "log"], capture_output=True, text=True)
    assert outer.returncode != 0  # nothing was committed there
    assert commits(where)


def test_the_history_is_kept_whatever_the_persons_git_settings(where, monkeypatch, tmp_path):
    settings = tmp_path / "gitconfig"
    settings.write_text("[commit]\n\tgpgsign = true\n[core]\n\thooksPath = /nowhere\n[user]\n\tuseConfigOnly = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")  # as inside a git hook
    assert work.copy_chapters(where) == ["00_start_here: copied", "01_three_walls: copied"]
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert commits(where)


def test_a_course_without_chapters_says_what_to_do(tmp_path):
    with pytest.raises(Trouble, match="needs the folder notebooks/"):
        work.copy_chapters(Folders(root=tmp_path, work=tmp_path / "work"))


@pytest.mark.parametrize("name", ["1", "01", NAME, f"work/{NAME}/{NAME}.ipynb"])
def test_a_chapter_has_several_names(where, name):
    work.copy_chapters(where)
    assert work.find_chapter(name, where).name == NAME


def test_an_unknown_chapter_is_answered_with_those_that_exist(where):
    with pytest.raises(Trouble, match="no chapter '09'") as trouble:
        work.find_chapter("09", where)
    assert NAME in trouble.value.way_out


def test_the_work_folder_is_found_from_inside_and_only_there(where, tmp_path):
    work.copy_chapters(where)
    assert work.find_work(where.work / NAME / "figures") == where.work
    assert work.find_work(tmp_path) is None


def test_notebooks_are_written_as_jupyterlab_writes_them(where):
    import nbformat

    work.copy_chapters(where)
    book = notebooks.read(mine(where))
    theirs = nbformat.writes(nbformat.from_dict(json.loads(json.dumps(book)))) + "\n"
    assert notebooks.render(book) == theirs
