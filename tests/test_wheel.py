"""The wheel, built offline and installed beside the libraries that are there: chapters come with it, and commands work
or say what a clone adds."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from course_chapters.course import chapters
from course_lib.folders import ROOT
from tests.tables import each_of

pytestmark = pytest.mark.slower

MOST = 10_000_000  # bytes


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    flags = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", str(ROOT), *flags], check=True, timeout=300)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def course(wheel, tmp_path_factory):
    """Runs `course` of the installed wheel in a folder, an empty one of its own if none is given: exit code, and all
    that it prints."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*pip, str(wheel)], check=True, timeout=300)
    own = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    (Path(own.stdout.strip()) / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COURSE_", "PYTHONPATH"))}

    environment["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), environment["PATH"]])

    def run(*words, program=("-m", "course_app"), folder=None):
        command = [str(python), *program, *words]
        here = folder or tmp_path_factory.mktemp("empty")
        done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout + done.stderr

    return run


def test_the_wheel_is_small_and_has_the_chapters_and_no_tests(wheel):
    assert wheel.stat().st_size <= MOST
    names = zipfile.ZipFile(wheel).namelist()
    notebooks = [
        name for name in names if name.startswith("course_chapters/released/notebooks/") and name.endswith(".ipynb")
    ]
    assert len(notebooks) == len(list((ROOT / "notebooks").glob("*/*.ipynb")))
    assert not [name for name in names if name.startswith(("tests/", "bench/", "work/"))]


CLONE = "clone the course's repository"


@each_of(
    "words, code, said",
    (["update"], 0, "No chapter is in"),
    (["progress"], 0, "Next: two-ranks-wait in chapter 00"),
    (["check", "01", "--solved"], 0, "Together"),
    (["check", "05"], 1, "`course learn` copies the chapters there"),
    (["check", "--all"], 1, "`course learn` copies the chapters there"),
    (["drill"], 1, "or choose: course drill --chapter 01"),
    (["submit", "06"], 1, "`course learn` copies the chapters there"),
    (["certificate"], 1, "`course learn` opens the course"),
    (["certificate", "--verify", "none.html"], 1, "`course certificate` wrote"),
    (["run", "verify", "none.json"], 1, ""),
    (["plan", "--model", "llama3-8b", "--gpus", "8xH100"], 0, "The quickest"),
    (["doctor"], None, f"{len(chapters())} chapters in"),
    (["class", "init", "autumn-26"], 1, CLONE),
    (["release", "--check"], 1, CLONE),
    (["site", "01"], 1, CLONE),
    (["test", "01"], 1, CLONE),
    (["bench", "cells", "01"], 1, "not part of this copy"),
)
def test_a_command_works_or_says_what_a_clone_adds(course, words, code, said):
    found, text = course(*words)
    assert said in " ".join(text.split()) and "Traceback" not in text and "./course" not in text
    assert code is None or found == code


def test_chapters_are_laid_out_where_the_command_is_given(course, tmp_path):
    lay_out = "from course_app.learner import work; print(*work.copy_chapters(work.folders()))"
    assert "00_start_here: copied" in course(program=("-c", lay_out), folder=tmp_path)[1]
    assert (tmp_path / "work" / "01_three_walls" / "01_three_walls.ipynb").is_file()
    assert "newest release" in course("update", folder=tmp_path)[1]
    assert "./course" not in course("check", "01", folder=tmp_path)[1] + course("progress", folder=tmp_path)[1]


def test_without_a_group_torch_is_answered_with_the_command_of_the_wheel(course):
    ask = "from course_lib.cluster.advice import without_group as where; print(where(ValueError("
    said = course(program=("-c", ask + "'Default process group has not been initialized, please make sure')))"))[1]
    assert "a script with `course meter --ranks 4 train.py`" in said
