"""`class init`: create a class's folder, with secret, roster, nbgrader's configuration and pinned sources."""

import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import course_lib
from course_grader.classroom.class_secret import write_secret
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.roster import Student
from course_grader.classroom.settings import Settings, require_name
from course_grader.classroom.sources import source_in
from course_grader.judge.exercise import CONTRACT_VERSION
from course_grader.notebooks import write_whole
from course_lib.folders import ROOT
from course_lib.messages import Trouble

_CONFIG = '''"""nbgrader's configuration of this class; `course class init` wrote it. Formgrader and every nbgrader
command read it."""

from pathlib import Path

from course_grader.classroom.config import configure

configure(get_config(), Path(__file__).resolve().parent)  # noqa: F821 (nbgrader gives get_config to this file)
'''
_FOLDERS = ["source", "release", "submitted", "autograded", "feedback", "reports", "exercises", "exports", "collected"]


def new_class(
    path: Path | str,
    name: str,
    *,
    roster: Iterable[Student] = (),
    chapters: Iterable[str] | None = None,
    late_points_per_day: float | None = None,
    db_url: str = "",
    course: Path = ROOT,
) -> ClassFolder:
    """Create a class at `path`. Trouble if the folder is not empty."""
    root = Path(path).absolute()
    require_name(name)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise Trouble(f"{root} exists already and is not overwritten.", "choose another name, or --folder")
    wanted = source_in(course, chapters)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    data: dict[str, object] = {
        "name": name,
        "course": course_lib.__version__,
        "contract": CONTRACT_VERSION,
        "created": datetime.now().astimezone().replace(microsecond=0),
        "db_url": db_url or None,
        "late_points_per_day": late_points_per_day,
        "sandbox": {},
        "chapters": {},
    }
    folder = ClassFolder(Settings(root=root, data=data))
    write_secret(root)
    folder.roster.save(roster)
    write_whole(root / "nbgrader_config.py", _CONFIG)
    write_whole(root / ".gitignore", ".secret\n")
    if os.name == "posix":
        (root / "course").symlink_to(ROOT / "course")  # so that `./course class …` works in the folder itself
    for made in _FOLDERS:
        (root / made).mkdir()
    for chapter, source in wanted.items():
        folder.sources.pin(chapter, source)
    folder.settings.save()
    return folder
