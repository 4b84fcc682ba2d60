"""Who is in the class: `roster.csv`, and what Canvas, Moodle or a spreadsheet export, read into it."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from course_lib.install import Trouble

_SAFE = re.compile(r"[A-Za-z0-9_@-][A-Za-z0-9._@-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Student:
    """One line of the roster. `id` names their folders, `lms_id` is Canvas's or Moodle's number, `login` their account."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    lms_id: str = ""
    login: str = ""
    section: str = ""

    @property
    def name(self) -> str:
        """First and last name, the id where there is neither."""
        return f"{self.first_name} {self.last_name}".strip() or self.id


COLUMNS = ("student_id", *(field.name for field in fields(Student) if field.name != "id"))

# What the columns are called elsewhere, in small letters: Canvas's gradebook export, Moodle's participants and grades, spreadsheets.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "student_id": ("student_id", "student id", "id", "matriculation number", "matrikelnummer", "username", "user name"),
    "first_name": ("first_name", "first name", "firstname", "given name"),
    "last_name": ("last_name", "last name", "lastname", "surname", "family name", "last name (surname)"),
    "email": ("email", "email address", "e-mail", "mail"),
    "lms_id": ("lms_id", "lms id", "canvas_id", "canvas id", "moodle_id", "moodle id"),
    "login": ("login", "sis login id", "login id", "username", "user name", "account"),
    "section": ("section", "sections", "group", "groups"),
}


def read_roster(path: Path) -> tuple[Student, ...]:
    """The students that a CSV file lists: a roster of ours, Canvas's gradebook export, Moodle's exports, or any with a header.

    Trouble names the line that cannot be used.
    """
    rows = read_csv(path)
    if not rows:
        raise Trouble(f"{path} lists nobody.", "give a CSV file with a header and a line for each student")
    head = {name.strip().lower() for name in rows[0]}
    if not head & {name for names in (*_NAMES.values(), ("student", "id number", "full name", "name")) for name in names}:
        raise Trouble(f"{path.name} has no column that names students; its columns are {', '.join(rows[0])}.",
                      f"rename them in a copy: {', '.join(COLUMNS)} (only the first is needed)")
    if {"student", "id"} <= head and ("sis login id" in head or "sis user id" in head or "section" in head):
        made = [_from_canvas(row) for row in rows if not _is_not_a_student(row)]
    else:
        made = [_from_columns(row) for row in rows]
    return checked(made, path.name)


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file by its header, with commas, semicolons or tabs; Trouble for a file that is none."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        text = path.read_text(encoding="latin-1")
    except OSError as error:
        raise Trouble(f"{path} cannot be read ({error.strerror}).", "give the path of a CSV file") from error
    if "\x00" in text:
        raise Trouble(f"{path} is not a CSV file.", "export it again as CSV (comma separated), not as a workbook")
    first = text.split("\n", 1)[0]
    mark = max(",;\t", key=first.count)
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=mark, restval="", restkey="more")
    return [{key: value.strip() for key, value in row.items() if isinstance(value, str)} for row in rows if any(row.values())]


def _is_not_a_student(row: Mapping[str, str]) -> bool:
    """Canvas's "Points Possible" line, its lines of notes, and its test student."""
    name = row.get("Student", "").strip()
    return name.startswith(("Points Possible", "Student, Test", "Test Student")) or not (name or row.get("ID"))


def _from_canvas(row: Mapping[str, str]) -> Student:
    last, _, first = row["Student"].partition(",")
    login = row.get("SIS Login ID", "").strip()
    ident = _plain_id(login) or _plain_id(row.get("SIS User ID", "")) or _plain_id(row.get("ID", ""))
    return Student(id=ident, first_name=first.strip(), last_name=last.strip(), email=login if "@" in login else "", lms_id=row.get("ID", ""),
                   login=login, section=row.get("Section", ""))  # fmt: skip


def _from_columns(row: Mapping[str, str]) -> Student:
    low = {name.strip().lower(): value for name, value in row.items()}
    got = {ours: next((low[name] for name in names if low.get(name)), "") for ours, names in _NAMES.items()}
    if "id number" in low:  # Moodle: its own ID number is the institution's, and may be empty
        got["student_id"] = got["student_id"] or low["id number"] or got["email"].split("@")[0]
    if not got["student_id"]:
        got["student_id"] = got["login"] or got["email"].split("@")[0]
    whole = low.get("full name") or low.get("name") or ""
    if whole and not (got["first_name"] or got["last_name"]):
        got["first_name"], _, got["last_name"] = whole.rpartition(" ") if "," not in whole else whole.partition(",")[::-1]
    return Student(id=_plain_id(got.pop("student_id")), **{name: value.strip() for name, value in got.items()})


def _plain_id(text: str) -> str:
    """A person's id as it may name a folder: letters without accents, digits, . _ @ -; an address's part before the @."""
    plain = unicodedata.normalize("NFKD", text.strip().split("@")[0]).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip(".-")[:64]


def checked(students: Iterable[Student], where: str = "The roster") -> tuple[Student, ...]:
    """The students in the order of their ids; Trouble for an id that is missing, taken, or cannot name a folder."""
    found: dict[str, Student] = {}
    for number, student in enumerate(students, 2):
        if not _SAFE.fullmatch(student.id):
            said = f"{where}, line {number}: {student.id!r} cannot be a student's id" if student.id else f"{where}, line {number} has no id"
            raise Trouble(f"{said}.", "an id names folders: letters, digits and . _ @ -, at most 64 characters, no dot in front")
        if other := next((each for each in found if each.lower() == student.id.lower()), ""):
            raise Trouble(f"{where}, line {number}: the id {student.id!r} is {found[other].name}'s already.", "give every student an id of their own")
        found[student.id] = student
    return tuple(found[ident] for ident in sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A roster brought up to date."""

    students: tuple[Student, ...]
    new: tuple[str, ...]
    changed: tuple[str, ...]
    gone: tuple[str, ...]  # in the class, not in the newer list: they stay


def merged(ours: Sequence[Student], newer: Sequence[Student]) -> Merged:
    """Our roster with what a newer list says. Ids stay, since folders are named by them, and nobody is taken out."""
    by_id = {student.id: student for student in ours}
    by_lms = {student.lms_id: student.id for student in ours if student.lms_id}
    new, changed, seen = [], [], set()
    for student in newer:
        ident = by_lms.get(student.lms_id, student.id) if student.lms_id else student.id
        was = by_id.get(ident)
        told = {field.name: getattr(student, field.name) or getattr(was, field.name, "") for field in fields(Student)}
        by_id[ident] = Student(**{**told, "id": ident})
        seen.add(ident)
        if was is None:
            new.append(ident)
        elif was != by_id[ident]:
            changed.append(ident)
    gone = [student.id for student in ours if student.id not in seen]
    return Merged(students=checked(by_id.values()), new=tuple(new), changed=tuple(changed), gone=tuple(gone))


def roster_text(students: Sequence[Student]) -> str:
    """`roster.csv` as it is written."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(asdict(student).values() for student in students)
    return out.getvalue()


def key_of(name: str) -> str:
    """A name as Canvas writes it into file names: small letters and digits, no accents."""
    plain = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in plain if letter.isalnum() and not unicodedata.combining(letter))
