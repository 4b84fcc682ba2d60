"""Store one submission in `submitted/<student>/<chapter>/`, set an earlier one aside, and record when it arrived."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.lms import Label, Times
from course_grader.classroom.roster import Student
from course_grader.classroom.submissions import Arrival
from course_grader.clean_text import clean
from course_grader.exercises import VARIANT_FILE
from course_grader.notebooks import write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One submission that was stored, or was there already."""

    student: str
    chapter: str
    file: str
    at: datetime
    late: bool
    state: str  # "new", "newer", "unchanged", "older"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One notebook of one person."""

    label: Label
    name: str
    data: bytes
    chapter: str  # "" where it does not say
    why: str = ""  # why it cannot be read


def put(
    folder: ClassFolder,
    student: Student,
    chapter: str,
    chosen: Candidate,
    beside: Mapping[str, bytes],
    when: tuple[datetime | None, Times | None, datetime],
) -> Taken:
    """Store one submission, if it is newer than the current one, and its record."""
    moment, assumed, notes = _arrived(folder, student, chapter, chosen.label, *when)
    moment = moment.replace(
        microsecond=0
    )  # as the gradebook keeps it: formgrader shows work with another time as ungraded
    due, now = folder.settings.due(student, chapter), when[2]
    late = due is not None and moment > due
    digest = hashlib.sha256(chosen.data).hexdigest()
    before = folder.submissions.arrival_record(student, chapter)
    if chosen.why:
        notes.append(f"It cannot be read: {chosen.why}.")
    file = clean(_told(chosen), 300)
    record: Arrival = {
        "at": moment.isoformat(timespec="seconds"),
        "by": chosen.label.by,
        "late": late,
        "assumed": assumed,
        "file": file,
        "sha256": digest,
        "order": list(chosen.label.order),
        "collected": now.isoformat(timespec="seconds"),
        "notes": notes,
    }
    state = _state(before, record, folder.submissions.notebook(student, chapter) is not None)
    made = Taken(student=student.id, chapter=chapter, file=file, at=moment, late=late, state=state, notes=tuple(notes))
    if state in ("new", "newer"):
        notes += _write(folder, student, chapter, chosen.data, beside, moment)
    elif state == "older":
        return made
    elif when[0] is None and when[1] is None:
        return made  # the same file again, without a better arrival time
    _stamp(folder.submissions.folder(student, chapter), moment)
    folder.submissions.remember_arrival(student, chapter, record)
    return replace(made, notes=tuple(notes))


def _told(chosen: Candidate) -> str:
    """The file's name as the LMS wrote it."""
    if chosen.label.by == "canvas":
        late = "LATE_" if chosen.label.late else ""
        return f"{chosen.label.who}_{late}{chosen.label.user}_{chosen.label.order[0]}_{chosen.label.inside}"
    if chosen.label.by == "moodle":
        return f"{chosen.label.who}_{chosen.label.user}_assignsubmission_file_/{chosen.label.inside}"
    return chosen.name


def _arrived(
    folder: ClassFolder,
    student: Student,
    chapter: str,
    said: Label,
    at: datetime | None,
    times: Times | None,
    now: datetime,
) -> tuple[datetime, bool, list[str]]:
    """The arrival time, from the LMS's table, the exchange or the instructor; else derived from the LMS's late mark.

    The second value says whether the time is only derived, so that no page shows it as the time of a submission.
    """
    if at is not None:
        return at, False, []
    if times is not None and student.id in times.at:
        return times.at[student.id], False, []
    due = folder.settings.due(student, chapter)
    if said.late:
        moment = now if due is None else max(now, due + timedelta(seconds=1))
        late = (
            "The LMS marks it late without a time, so lateness counts up to now. Give --times TABLE or --at TIME "
            "to correct it."
        )
        return moment, True, [late]
    return (now if due is None else min(now, due)), True, []


def _state(before: Arrival, record: Arrival, there: bool) -> str:
    """How this submission relates to the current one."""
    if not there or not before:
        return "new"
    if before.get("sha256") == record["sha256"]:
        return "unchanged"
    if before.get("by") == record["by"] == "canvas":
        return "newer" if record["order"] > before.get("order", []) else "older"
    return "older" if datetime.fromisoformat(record["at"]) < datetime.fromisoformat(before["at"]) else "newer"


def _write(
    folder: ClassFolder, student: Student, chapter: str, data: bytes, beside: Mapping[str, bytes], moment: datetime
) -> list[str]:
    """Write the submission's folder atomically; the previous one goes to `collected/`. Returns notes on files that
    cannot be stored.
    """
    target = folder.submissions.folder(student, chapter)
    stage = folder.root / "collected" / f".{student.id}-{target.name}"
    shutil.rmtree(stage, ignore_errors=True)
    write_whole(stage / f"{target.name}.ipynb", data)
    _place_variant(folder, student, chapter, stage)
    _stamp(stage, moment)
    notes = []
    for name, blob in beside.items():
        try:
            write_whole(stage / name, blob)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            notes.append(f"{clean(name, 120)} was left out: {error.strerror}")
        except OSError as error:
            if error.errno not in (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ):
                raise
            notes.append(f"{clean(name, 120)} was left out: {error.strerror}")
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        os.replace(target, _kept(folder, student, target.name))
    os.replace(stage, target)
    return notes


def _place_variant(folder: ClassFolder, student: Student | str, chapter: str, target: Path) -> None:
    """Write the recorded variant of the student as the file that `params` reads; none for the common release."""
    variant = folder.variants.of(student, chapter)
    if variant:
        write_whole(target / VARIANT_FILE, json.dumps(variant, indent=1, sort_keys=True) + "\n")


def _stamp(target: Path, moment: datetime) -> None:
    """Write nbgrader's own record of the time."""
    write_whole(target / "timestamp.txt", moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f UTC\n"))


def _kept(folder: ClassFolder, student: Student, name: str) -> Path:
    """A free path for an earlier submission."""
    top = folder.root / "collected" / student.id
    top.mkdir(parents=True, exist_ok=True)
    return next(path for turn in range(1, 10_000) if not (path := top / f"{name}-{turn}").exists())
