"""How Canvas, Moodle and people name submitted files, and where their times of arrival are found."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Literal

from course_grader.classroom.csv_tables import moment_in, read_csv
from course_grader.classroom.roster import Student, key_of
from course_lib.messages import Trouble

By = Literal["canvas", "moodle", "folder", "exchange", "instructor"]

# lastfirst_LATE_12345_678_name-1.ipynb: who, whether late, Canvas's number of the person, its number of the file, the
# file.
# What was typed into Canvas's own box has no number of a file: lastfirst_12345_text.html. Anonymous work names nobody.
_ANONYMOUS = re.compile(r"(?:LATE_)?anon_[A-Za-z0-9]+_")
_CANVAS = re.compile(
    rf"(?!{_ANONYMOUS.pattern})(?P<who>[^/]+?)_(?P<late>LATE_)?(?P<user>\d+)_(?:(?P<file>\d+)_(?P<rest>.+)|(?P<typed>text|link)\.html)"
)
# Full Name_12345_assignsubmission_file_/name.ipynb, or without the slash: who, number of the participant, the file.
_MOODLE = re.compile(
    r"(?P<who>[^_/]+(?:_[^_/]+)*?)_(?P<user>\d+)_assignsubmission_(?P<kind>file|onlinetext)_?/?(?P<rest>.*)"
)
_NOTEBOOK = re.compile(
    r"\.ipynb(?:-\d{1,3}| ?\(\d{1,3}\))?(?:\.(?:txt|json))?$", re.IGNORECASE
)  # some browsers save x.ipynb.txt
AGAIN = re.compile(r"(?:-(\d{1,3})| ?\((\d{1,3})\))$")  # name-1, name (1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a file's name says: whose submission it is, and which attempt."""

    by: By
    who: str  # a name, as the source writes it
    user: str = ""  # the LMS's number
    late: bool = False
    order: tuple[int, ...] = ()  # the newest of one person's files has the largest
    inside: str = ""  # the file's path within what the person handed in

    @property
    def person(self) -> str:
        """One person within one source."""
        return self.user or self.who


def is_notebook(name: str) -> bool:
    """Whether a file's name is that of a notebook, including names that a browser or LMS extended."""
    return _NOTEBOOK.search(name) is not None


def again(stem: str) -> int:
    """The number that an LMS or browser adds to a repeated name: 2 for "name-2", else 0."""
    found = AGAIN.search(stem)
    return int(found.group(1) or found.group(2)) if found else 0


def scheme_of(names: Sequence[str]) -> By:
    """Which system named these files."""
    for by, pattern in (("moodle", _MOODLE), ("canvas", _CANVAS)):
        if names and 2 * sum(pattern.fullmatch(name) is not None for name in names) > len(names):
            return by  # type: ignore[return-value]
    return "folder"


def label(name: str, by: By) -> Label | None:
    """What a file's name says under a scheme; None if it does not match."""
    if by == "canvas":
        if (found := _CANVAS.fullmatch(name)) is None:
            return None
        rest = found["rest"] or f"{found['typed']}.html"
        stem = PurePosixPath(rest.split("/")[0]).stem
        return Label(
            by=by,
            who=found["who"],
            user=found["user"],
            late=bool(found["late"]),
            order=(int(found["file"] or 0), again(stem)),
            inside=rest,
        )
    if by == "moodle":
        if (found := _MOODLE.fullmatch(name)) is None or found["kind"] != "file" or not found["rest"]:
            return None
        return Label(
            by=by,
            who=found["who"],
            user=found["user"],
            inside=found["rest"],
            order=(again(PurePosixPath(found["rest"]).stem),),
        )
    top, _, rest = name.partition("/")
    return Label(by=by, who=top, inside=rest or name, order=(again(PurePosixPath(name).stem),))


# ------------------------------------------------------------------------------------------------ which student


class Who:
    """Finds the student for a label."""

    def __init__(self, students: Iterable[Student], users: Mapping[str, str] | None = None) -> None:
        self.students = tuple(students)
        self.users = users or {}  # the LMS's number -> id, where a table says so
        self.by_lms = {student.lms_id: student for student in self.students if student.lms_id}
        self.names: dict[str, list[Student]] = {}
        for student in self.students:
            for spelt in {
                key_of(student.last_name + student.first_name),
                key_of(student.first_name + student.last_name),
            } - {""}:
                self.names.setdefault(spelt, []).append(student)
        self.plain: dict[str, list[Student]] = {}
        for student in self.students:
            for spelt in {student.id, student.login, student.login.split("@")[0], student.email} - {""}:
                self.plain.setdefault(spelt.casefold(), []).append(student)

    def find(self, label: Label) -> Student | str:
        """The student, or a message that says why there is none."""
        if _ANONYMOUS.match(label.who):
            return "Canvas gives it out as anonymous; end that in the assignment's settings and download it again"
        if label.by in ("canvas", "moodle"):
            if label.user in self.users:
                return next(
                    (student for student in self.students if student.id == self.users[label.user]),
                    "the table names no student of the roster",
                )
            if (
                label.by == "canvas" and label.user in self.by_lms
            ):  # Moodle's number belongs to this assignment, not to the person
                return self.by_lms[label.user]
        else:
            whole = _only(self.plain.get(_stem(label.who).casefold(), []))
            if found := whole or self._in_words_of(_stem(label.who)):
                return found
        return self._by_name(label)

    def is_called(self, student: Student, who: str) -> bool:
        """Whether a name can be the student's: equal, or not comparable because one of the two is not in Latin letters
        (Canvas writes some names in other letters than the roster).
        """
        said, theirs = key_of(_stem(who)), key_of(student.last_name + student.first_name)
        return student in self.names.get(said, []) or said.isascii() != theirs.isascii()

    def _by_name(self, label: Label) -> Student | str:
        named = self.names.get(key_of(_stem(label.who)), [])
        if len(named) > 1:
            tells = "; --times with Moodle's grading worksheet tells them apart" if label.by == "moodle" else ""
            return f"{len(named)} students have this name: {', '.join(student.id for student in named)}{tells}"
        if not named:
            return "no student of the roster has this name or number"
        if label.by == "canvas" and named[0].lms_id:
            return f"the name is {named[0].id}'s, but their number in Canvas is {named[0].lms_id}"
        return named[0]

    def _in_words_of(self, stem: str) -> Student | None:
        """The student whose id or login is a word of a file's name: "01_walls_ada.ipynb"; the longest that fits."""
        fits = {
            spelt: students
            for spelt, students in self.plain.items()
            if len(spelt) > 1 and re.search(rf"(?:^|[^a-z0-9]){re.escape(spelt)}(?:$|[^a-z0-9])", stem.casefold())
        }
        longest = max(map(len, fits), default=0)
        return _only([student for spelt, students in fits.items() if len(spelt) == longest for student in students])


def _stem(name: str) -> str:
    return _NOTEBOOK.sub("", name).removesuffix(".zip")


def _only(found: Sequence[Student]) -> Student | None:
    return found[0] if len({student.id for student in found}) == 1 else None


# ------------------------------------------------------------------------------------------------ when


@dataclass(frozen=True, slots=True)
class Times:
    """Arrival times by student id, and the student id for each LMS number."""

    at: Mapping[str, datetime]
    users: Mapping[str, str]


_WHO = (
    "student_id",
    "student id",
    "email address",
    "email",
    "login",
    "sis login id",
    "username",
    "id number",
    "id",
    "user id",
)
_WHEN = ("submitted_at", "submitted at", "last modified (submission)", "arrived", "timestamp", "time")


def read_times(path: Path, students: Sequence[Student]) -> Times:
    """A table of times: Moodle's grading worksheet, or a CSV with a student and a `submitted_at` column; Trouble for
    others.
    """
    rows = read_csv(path)
    head = set(rows[0]) if rows else set()
    when = next((name for name in _WHEN if name in head), None)
    if when is None or not head & {*_WHO, "identifier", "full name"}:
        raise Trouble(
            f"{path} is not a table of arrival times.",
            f"it needs a column that names the student and one of {', '.join(_WHEN[:3])}",
        )
    known = _known_by(students)
    at: dict[str, datetime] = {}
    users: dict[str, str] = {}
    for row in rows:
        named = [row[name] for name in (*_WHO, "full name") if row.get(name)]
        student = next((known[spelt.casefold()] for spelt in named if spelt.casefold() in known), None) or known.get(
            key_of(row.get("full name", ""))
        )
        if student is None:
            continue
        if number := re.search(r"\d+", row.get("identifier", "")):
            users[number.group()] = student
        if moment := moment_in(row[when]):
            at[student] = moment
    return Times(at=at, users=users)


def _known_by(students: Sequence[Student]) -> dict[str, str]:
    known: dict[str, str] = {}
    names = [key_of(student.first_name + student.last_name) for student in students]
    for student, name in zip(students, names, strict=True):
        for spelt in (student.id, student.login, student.email, student.lms_id):
            if spelt:
                known.setdefault(spelt.casefold(), student.id)
        if name and names.count(name) == 1:
            known.setdefault(name, student.id)
    return known
