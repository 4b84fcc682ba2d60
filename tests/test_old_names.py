"""Release 1.0's module names: each is another name of the module that took its place, and none leads to what judges."""

import importlib
import subprocess
import sys

import pytest

from course_grader.secrecy import is_judging
from course_lib.folders import ROOT
from course_lib.old_names import MOVED, new_name
from tests.tables import each_row


@each_row("old", lambda: sorted(MOVED))
def test_an_old_name_gives_the_same_module(old):
    with pytest.warns(FutureWarning, match="the old name works until"):
        sys.modules.pop(old, None)
        module = importlib.import_module(old)
    assert module is importlib.import_module(MOVED[old]) and module.__spec__.name == MOVED[old]
    assert not is_judging(MOVED[old].split("."))


def test_old_imports_of_a_notebook_run():
    program = (
        "from course_lib.units import GB; from course_lib import memory, sharding; from course_lib.sharding import "
        "fully; from course_lib.cluster.interleave import interleavings; import course_lib; "
        "print(course_lib.tensor_parallel.__name__, GB)"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "course_lib.parallel.tensor 1000000000.0\n", done.stderr


def test_a_page_of_an_earlier_release_says_how_to_bring_the_answers_over():
    with pytest.raises(ImportError, match="course update"):
        importlib.import_module("course_lib.chapters.ch06")


def test_names_without_a_new_place_are_unknown():
    assert (
        new_name("course_lib.judging") == new_name("course_lib.grading.judge") == new_name("course_lib.estimate") == ""
    )
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("course_lib.judging")
