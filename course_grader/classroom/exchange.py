"""Take submissions from nbgrader's exchange with nbgrader's collector, but without following links that students may
have left.
"""

import logging
import pwd
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from nbgrader.coursedir import CourseDirectory
from nbgrader.exchange import ExchangeError
from nbgrader.exchange.default import ExchangeCollect

from course_grader.classroom.collect import collect
from course_grader.classroom.collect_student import Collected, Parse
from course_grader.classroom.config import load
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.lms import Label, Times, Who
from course_grader.clean_text import clean
from course_lib.messages import Trouble

_SLACK = 120.0  # s by which a folder's name and the file system may differ without a note


class _Careful(ExchangeCollect):
    """nbgrader's collector, except that links stay links: their targets are not copied with the instructor's rights."""

    def do_copy(self, src: str, dest: str, log: object = None) -> None:
        """Copy a submission as it is."""
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
    """Collect chapters from the exchange. A folder created by another account is refused unless `any_owner`."""
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
            f"set exchange_root in {folder.root / 'class.toml'} to nbgrader's exchange folder, and release the "
            f"chapter there first",
        ) from error
    return collector


def _records(
    folder: ClassFolder, collector: _Careful, any_owner: bool, whole: Collected
) -> tuple[dict[str, Label], Times]:
    """The owner and arrival time of each folder, from the exchange and the file system. Others are removed from the
    list.
    """
    who, labels, at, kept = Who(folder.roster.students()), {}, {}, []
    for record in collector.src_records:
        login, path = record["username"], Path(collector.inbound_path) / record["filename"]
        shown = clean(record["filename"], 160)
        if path.is_symlink() or not path.is_dir():
            whole.refused.append(f"{shown}: a link, or no folder")
            continue
        if not any_owner and (owner := _owner(path)) != login:
            whole.refused.append(
                f"{shown}: it claims to be {login}'s, but {owner}'s account created it (use --any-owner if all share "
                f"one account)"
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
    """The file system's time, which a student cannot set, if the folder's name claims an earlier one."""
    claimed = (named if named.tzinfo else named.replace(tzinfo=UTC)).astimezone()
    seen = datetime.fromtimestamp(max(each.lstat().st_ctime for each in (path, *path.rglob("*")))).astimezone()
    if (seen - claimed).total_seconds() > _SLACK:
        return (
            seen,
            f"its folder says {claimed:%Y-%m-%d %H:%M}, the file system {seen:%Y-%m-%d %H:%M}: the file system's time "
            f"counts unless you give --at",
        )
    return claimed, ""
