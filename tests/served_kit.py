"""What the tests of classes need running: JupyterLab on a small class, which starts and ends with the test."""

import contextlib
import copy
import json
import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from bench.lab import answers, free_port
from course_app.cli import class_formgrader
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.new_class import new_class
from course_grader.classroom.release import release_chapter, start_gradebook
from course_grader.classroom.roster import Student
from course_grader.notebooks import Notebook, parse, render
from tests.class_kit import NAME
from tests.conftest import cell
from tests.grading_kit import small_course
from tests.patience import patience
from tests.servers import ended

TEXT = "### BEGIN SOLUTION\nThe memory wall comes first.\n### END SOLUTION"
ESSAY = cell(TEXT, "essay", grade=True, points=4, solution=True)


def small_class(root: Path, *students: Student, db_url: str = "", essay: bool = False) -> ClassFolder:
    """A class with the small chapter 01, released; with `essay`, a question in it that a person grades."""
    course = root / "course"
    small_course(course)
    if essay:
        source = course / "solutions" / NAME / f"{NAME}.ipynb"
        notebook = parse(source.read_text(encoding="utf-8"))
        notebook["cells"].append(copy.deepcopy(ESSAY))
        source.write_text(render(notebook), encoding="utf-8")
    folder = new_class(root / "autumn-26", "autumn-26", roster=students, db_url=db_url, course=course)
    start_gradebook(folder)
    release_chapter(folder, "01")
    return folder


def hand_in(
    folder: ClassFolder, student: str, notebook: Notebook, at: datetime, by: str = "folder", file: str = f"{NAME}.ipynb"
) -> None:
    """Put a submission where `class collect` puts it."""
    path = folder.submissions.folder(student, "01") / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(notebook), encoding="utf-8")
    (path.parent / "timestamp.txt").write_text(at.strftime("%Y-%m-%d %H:%M:%S.%f UTC"), encoding="utf-8")
    folder.submissions.remember_arrival(
        student, "01", {"at": at.isoformat(), "by": by, "late": False, "file": file, "sha256": "", "notes": []}
    )
    folder.submissions.save_arrivals()


# ------------------------------------------------------------------------------------------- JupyterLab


@contextlib.contextmanager
def formgrader(root: Path, scratch: Path) -> Iterator[str]:
    """JupyterLab as `course class formgrader` starts it, with nothing of a person's own; the value is its address with
    the token."""
    port, token, log = free_port(), secrets.token_hex(16), scratch / "jupyter.log"
    scratch.mkdir(parents=True, exist_ok=True)
    own = {f"JUPYTER_{what}_DIR": str(scratch / what.lower()) for what in ("CONFIG", "DATA", "RUNTIME")}
    environment = (
        class_formgrader.lab_environment(dict(os.environ))
        | own
        | {"IPYTHONDIR": str(scratch / "ipython"), "JUPYTER_TOKEN": token}
    )
    command = class_formgrader.lab_command(root, ["--no-browser", "--port", str(port)])
    with log.open("wb") as out:
        server = subprocess.Popen(command, cwd=root, env=environment, stdout=out, stderr=out, start_new_session=True)
        try:
            until = time.monotonic() + patience(90)
            while not answers(port):
                if server.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"JupyterLab did not come up:\n{log.read_text(errors='replace')[-3000:]}")
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/lab?token={token}"
        finally:
            ended(server)
