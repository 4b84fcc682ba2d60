"""Submissions from nbgrader's exchange, taken by its own collector, but without following what students may have left there."""

import logging
import pwd
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nbgrader.coursedir import CourseDirectory
from nbgrader.exchange import ExchangeError
from nbgrader.exchange.default import ExchangeCollect

from course_lib.grading.classroom.collect import collect
from course_lib.grading.classroom.collect_student import Collected, Parse
from course_lib.grading.classroom.config import load
from course_lib.grading.classroom.folder import ClassFolder
from course_lib.grading.classroom.lms import Label, Times, Who
from course_lib.grading.clean_text import clean
from course_lib.install import Trouble

_SLACK = 120.0  # s between the time in a folder's name and the file system's, before somebody is told


class _Careful(ExchangeCollect):
    """nbgrader's collector; links stay links, so that what a student points at is not copied with the instructor's rights."""

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        """Copy a submission as it lies there."""
        shutil.copytree(src, dest, symlinks=True, ignore_dangling_symlinks=True)


def collect_exchange(
    folder: ClassFolder,
    chapters: tuple[str, ...],
    *,
    any_owner: bool = False,
    now: datetime | None = None,
    parse: Parse | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Collected:
    """Collect chapters from the exchange. A folder that somebody else's account made is refused unless `any_owner`."""
    whole = Collected()
    for chapter in chapters:
        with tempfile.TemporaryDirectory(prefix="course-exchange-") as scratch:
            collector = _collector(folder, chapter, Path(scratch))
            labels, times = _records(folder, collector, any_owner, whole)
            collector.copy_files()
            done = collect(
                folder,
                Path(scratch) / "submitted",
                chapter=chapter,
                times=times,
                labels=labels,
                now=now,
                parse=parse,
                say=say,
            )
        for name in ("taken", "unmatched", "refused", "notes"):
            getattr(whole, name).extend(getattr(done, name))
    return whole


def _collector(folder: ClassFolder, chapter: str, scratch: Path) -> _Careful:
    config = load(folder)
    config.CourseDirectory.submitted_directory = str(scratch / "submitted")
    coursedir = CourseDirectory(config=config)
    coursedir.assignment_id = folder.settings.assignment(chapter)
    (scratch / "submitted").mkdir()
    collector = _Careful(coursedir=coursedir, config=config)
    collector.log.handlers = [logging.NullHandler()]
    collector.log.propagate = False
    try:
        collector.init_src()
    except ExchangeError as error:
        raise Trouble(
            f"The exchange cannot be read: {error}.",
            f"set exchange_root in {folder.root / 'class.toml'} to nbgrader's exchange folder, and release the chapter there first",
        ) from error
    return collector


def _records(
    folder: ClassFolder, collector: _Careful, any_owner: bool, whole: Collected
) -> tuple[dict[str, Label], Times]:
    """Of whom each folder is and when it came, by the exchange's and the file system's word; others are taken off the list."""
    who, labels, at, kept = Who(folder.roster.students()), {}, {}, []
    for record in collector.src_records:
        login, path = record["username"], Path(collector.inbound_path) / record["filename"]
        shown = clean(record["filename"], 160)
        if path.is_symlink() or not path.is_dir():
            whole.refused.append(f"{shown}: a link, or no folder")
            continue
        if not any_owner and (owner := _owner(path)) != login:
            whole.refused.append(
                f"{shown}: it says that it is {login}'s, but {owner}'s account made it (--any-owner where all share one account)"
            )
            continue
        said = Label(by="exchange", who=login)
        student = who.find(said)
        if isinstance(student, str):
            whole.unmatched.append(f"{shown}: {student}")
            continue
        labels[login] = said
        kept.append(record)
        at[student.id], note = _arrival(record["timestamp"], path)
        whole.notes += [f"{student.id}: {note}"] if note else []
    collector.src_records = kept
    return labels, Times(at=at, users={})


def _owner(path: Path) -> str:
    uid = path.lstat().st_uid
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"account {uid}"


def _arrival(named: datetime, path: Path) -> tuple[datetime, str]:
    """The file system's time, which a student cannot set, where the folder's name claims an earlier one."""
    claimed = (named if named.tzinfo else named.replace(tzinfo=UTC)).astimezone()
    seen = datetime.fromtimestamp(max(each.lstat().st_ctime for each in (path, *path.rglob("*")))).astimezone()
    if (seen - claimed).total_seconds() > _SLACK:
        return (
            seen,
            f"its folder says {claimed:%Y-%m-%d %H:%M}, the file system {seen:%Y-%m-%d %H:%M}: the file system's counts; --at says otherwise",
        )
    return claimed, ""
