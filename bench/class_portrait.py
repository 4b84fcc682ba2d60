"""The pictures of the instructor's guide, taken anew from a graded class:

`.venv/bin/python -m bench.class_portrait CLASS_FOLDER STUDENT EXERCISE` writes `docs/feedback.png` and
`docs/formgrader.png`: the student's page, and their answer to the exercise in formgrader.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

from bench.lab import PATIENCE, launch
from course_grader.classroom.feedback import make_feedback
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.release import gradebook
from course_lib.folders import ROOT
from course_lib.messages import Trouble

DOCS = ROOT / "docs"
PAGE = {"width": 1000, "height": 920}
WINDOW = {"width": 1100, "height": 760}


@contextmanager
def opened(folder: ClassFolder, scratch: Path) -> Iterator[str]:
    """The address, with its token, of the JupyterLab that `course class formgrader` starts."""
    log = scratch / "jupyter.log"
    command = [str(ROOT / "course"), "class", "formgrader", "--folder", str(folder.root), "--no-browser"]
    environment = {
        **os.environ,
        **{f"JUPYTER_{what}_DIR": str(scratch / what.lower()) for what in ("CONFIG", "DATA", "RUNTIME")},
    }
    with (
        log.open("wb") as out,
        subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True) as server,
    ):
        try:
            until = time.monotonic() + PATIENCE
            while (found := re.search(rb"(http://127\.0\.0\.1:\d+)/lab\S*(token=\w+)", log.read_bytes())) is None:
                if server.poll() is not None or time.monotonic() > until:
                    raise Trouble(log.read_text(encoding="utf-8", errors="replace")[-2000:], "see its words above")
                time.sleep(0.1)
            yield f"{found.group(1).decode()}/formgrader?{found.group(2).decode()}"
        finally:
            os.killpg(server.pid, signal.SIGTERM)


def take(folder: ClassFolder, student: str, exercise: str) -> list[Path]:
    """Write both pictures; their paths."""
    (chapter,) = [each for each in folder.settings.chapters() if exercise in folder.exercises.chosen(each)]
    name = folder.settings.assignment(chapter)
    page_of = next(path for path in make_feedback(folder, students=[student], chapters=[chapter]).written)
    with closing(gradebook(folder)) as book:
        ident = book.find_submission_notebook(name, name, student).id
    pictures = [DOCS / "feedback.png", DOCS / "formgrader.png"]
    with tempfile.TemporaryDirectory(prefix="course-portrait-") as scratch, sync_playwright() as play:
        browser = launch(play)
        page = browser.new_page(viewport=PAGE)
        page.goto(page_of.as_uri())
        page.screenshot(path=pictures[0])
        with opened(folder, Path(scratch)) as address:
            page = browser.new_page(viewport=WINDOW)
            page.goto(address)
            page.goto(f"{address.partition('?')[0]}/submissions/{ident}/")
            box = page.locator(f'[id="{exercise}-check"]')
            box.wait_for()
            page.wait_for_timeout(1500)  # until formgrader has the points
            page.locator(f'[id="{exercise}-comment"]').scroll_into_view_if_needed()
            page.evaluate(
                "window.scrollTo(0, document.getElementById(arguments_id).getBoundingClientRect().top + scrollY - 420)".replace(
                    "arguments_id", f"'{exercise}-comment'"
                )
            )
            page.screenshot(path=pictures[1])
        browser.close()
    return pictures


if __name__ == "__main__":
    for path in take(ClassFolder.open(sys.argv[1]), sys.argv[2], sys.argv[3]):
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
