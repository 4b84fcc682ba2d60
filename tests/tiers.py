"""Two tiers of tests. `./course test` runs the quick one in a few minutes; CI runs the slower one after it.

Slower is what needs a browser, a database or processes of its own, or works for seconds on one question: tests marked
`browser`, `postgres`, `whole`, `rotates` or `slower`, those that run once for each chapter of the rotation, and all
tests of the files named here.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from tests.rotation import REPOSITORY

MARKS = ("browser", "postgres", "whole", "rotates", "slower")
# the rotation says for which ones such a test runs
ARGUMENTS = ("rotating_chapter", "solved_chapter", "rotating_exercise")
FILES: Mapping[str, str] = {  # a file or the beginning of its path -> what takes its time
    "tests/test_browser.py": "each chapter in a browser",
    "tests/test_chapters.py": "whole chapters under nbgrader",
    "tests/test_whole_course.py": "all chapters, one after another",
    "tests/test_cluster_launch.py": "ranks as real processes",
    "tests/test_cluster_notebook.py": "ranks in a notebook's kernel",
    "tests/test_cluster_remote.py": "ranks in other processes",
    "tests/test_grading_worker.py": "worker processes, and answers that end them",
    "tests/test_grading_service.py": "runs of the grading service over a class",
    "tests/test_grading_attacks.py": "hostile notebooks, graded in the sandbox",
    "tests/test_grading_crash.py": "graders that are killed",
    "tests/test_grading_sandbox.py": "namespaces and limits of real processes",
    "tests/test_grading_scales.py": "many workers at once",
    "tests/test_grading_weighed.py": "memory as the operating system counts it",
    "tests/test_class_": "classes from release to grades",
    "tests/test_mutants.py": "right answers with one small change",
    "tests/test_own_trainer.py": "trainings",
    "tests/test_runs_": "real processes that train",
    "tests/test_bench_": "benchmarks",
    "tests/test_site": "the web edition",
    "tests/test_install.py": "environments that are set up",
    "tests/test_environment.py": "environments that are set up",
    "tests/test_first_steps.py": "first starts",
}


def is_slower(item: pytest.Item) -> bool:
    """Whether a test belongs to the slower tier."""
    file = item.nodeid.split("::")[0]
    marked = not {mark.name for mark in item.iter_markers()}.isdisjoint(MARKS)
    return marked or not set(ARGUMENTS).isdisjoint(getattr(item, "fixturenames", ())) or file.startswith(tuple(FILES))


def has_none(path: Path, tier: str, chapters: Collection[str]) -> bool:
    """Whether a file certainly has no test of this tier, or of these chapters: without loading it."""
    if not path.name.startswith("test_"):
        return False
    if chapters and (own := re.match(r"test_ch(\d\d)", path.name)):
        return own[1] not in chapters
    slower = path.relative_to(REPOSITORY).as_posix().startswith(tuple(FILES))
    if tier == "quick" and slower:
        return True
    needed = (["chapter", "card", "exercise"] if chapters else []) or (
        MARKS + ARGUMENTS if tier == "slower" and not slower else [""]
    )
    text = path.read_text(encoding="utf-8")
    return not any(word in text for word in needed)
