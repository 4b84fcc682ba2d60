"""The students of a class: `roster.csv`, and reading exports of Canvas, Moodle or a spreadsheet into it."""

import csv
import io
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from course_grader.classroom.csv_tables import LINE, read_csv
from course_grader.notebooks import write_whole
from course_lib.messages import Trouble

_SAFE = re.compile(r"[A-Za-z0-9_@-][A-Za-z0-9._@-]{0,63}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._@-]+")
_CANVAS = ("student", "id", "section")  # columns of every Canvas gradebook export


@dataclass(frozen=True, slots=True, kw_only=True)
class Student:
    """One line of the roster. `id` names their folders, `lms_id` is Canvas's or Moodle's number, `login` their account.

    `sis_id` is the number that the institution's own system gave them, which Canvas keeps beside its own.
    """

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    lms_id: str = ""
    login: str = ""
    section: str = ""
    sis_id: str = ""

    @property
    def name(self) -> str:
        """First and last name; the id if there is neither."""
        return f"{self.first_name} {self.last_name}".strip() or self.id


def id_of(student: Student | str) -> str:
    """The id of a student, who may be named by it."""
    return student if isinstance(student, str) else student.id


@dataclass(frozen=True)
class Roster:
    """A class's `roster.csv`. It is read once; `save` keeps file and memory in agreement."""

    path: Path
    class_name: str

    @cached_property
    def _by_id(self) -> dict[str, Student]:
        rows = self.path.read_text(encoding="utf-8-sig").strip().splitlines() if self.path.is_file() else []
        return {student.id: student for student in read_roster(self.path, ours=True)} if len(rows) > 1 else {}

    def save(self, students: Iterable[Student]) -> None:
        """Write `roster.csv`."""
        made = tuple(students)
        write_whole(self.path, roster_text(made))
        self.__dict__["_by_id"] = {student.id: student for student in made}

    def students(self) -> tuple[Student, ...]:
        """All students, ordered by id."""
        return tuple(self._by_id.values())

    def student(self, ident: str) -> Student:
        """The student with this id; Trouble names the nearest ids."""
        if ident not in self._by_id:
            near = get_close_matches(ident, self._by_id, n=3, cutoff=0.4)
            raise Trouble(
                f"{self.class_name} has no student {ident!r}.",
                f"did you mean {', '.join(near)}?" if near else "roster.csv lists them; a new line there adds one",
            )
        return self._by_id[ident]


COLUMNS = ("student_id", *(field.name for field in fields(Student) if field.name != "id"))

# What the columns are called elsewhere, in small letters: Canvas's gradebook export, Moodle's participants and grades,
# spreadsheets.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "student_id": (
        *("student_id", "student id", "id", "matriculation number", "sid", "roster_identifier"),
        *("username", "user name", "orgdefinedid", "github_username"),
    ),
    "first_name": ("first_name", "first name", "firstname", "given name"),
    "last_name": ("last_name", "last name", "lastname", "surname", "family name", "last name (surname)"),
    "email": ("email", "email address", "e-mail", "mail"),
    "lms_id": ("lms_id", "lms id", "canvas_id", "canvas id", "moodle_id", "moodle id"),
    "login": ("login", "sis login id", "login id", "username", "user name", "account", "github_username"),
    "section": ("section", "sections", "group", "groups"),
    "sis_id": ("sis_id", "sis user id", "sis id", "orgdefinedid"),
}
_FULL_NAME = ("full name", "name", "student name", "student")
_KNOWN = {name for names in (*_NAMES.values(), _CANVAS, _FULL_NAME, ("id number", "identifier")) for name in names}
_NUMBERS = (
    "student_id",
    "student id",
    "id",
    "sid",
    "id number",
    "sis user id",
    "sis_id",
    "orgdefinedid",
    "matriculation number",
)

# Words for kinds of people, in small letters; a role is compared word by word.
_STUDENTS = (
    "student students learner learners participant estudiante estudiantes étudiant étudiante étudiants studierende "
    "studierender studentin teilnehmer teilnehmerin kursteilnehmer studente studentessa studenti aluno aluna "
    "estudante cursist deelnemer kursant uczeń studentka студент студенты elev deltagare deltaker öğrenci hallgató "
    "tanuló учень 学生 學生 学生用户 학생 수강생"
)
_STAFF = (
    "teacher teachers instructor instructors ta tas assistant grader reader marker professor lecturer faculty tutor "
    "observer designer builder leader coordinator manager admin administrator guest auditor preview lehrer lehrerin "
    "lehrende dozent dozentin trainer trainerin betreuer enseignant enseignante professeur assistante profesor "
    "profesora docente insegnante professora docent leraar nauczyciel prowadzący wykładowca učitel učitelka "
    "преподаватель учитель ассистент lärare lærer underviser öğretmen tanár oktató викладач 教师 教師 "
    "老师 助教 교수 교사 조교 gast invité invitado ospite"
)


def read_roster(path: Path, *, ours: bool = False) -> tuple[Student, ...]:
    """The students in a CSV file: our own roster, Canvas's gradebook export, Moodle's exports, or any table with a
    header. Teachers, assistants and test users are left out.

    Trouble names the line, column or value that was not understood. `ours` is the class's own file, whose numbers are
    as somebody wants them.
    """
    rows = read_csv(path)
    if not rows:
        raise Trouble(f"{path} lists no students.", "give a CSV file with a header and a line for each student")
    head = set(rows[0]) - {LINE}
    if not head & _KNOWN:
        raise Trouble(
            f"{path.name} has no column that names students; its columns are {', '.join(sorted(head))}.",
            f"rename them in a copy: {', '.join(COLUMNS)} (only the first is needed)",
        )
    if head.issuperset(_CANVAS) or head.issuperset(("lastname", "firstname", "id", "section")):
        rows = [row for row in rows if not _is_a_line_of_canvas(row)]
        read = _from_canvas
    else:
        _require_known_columns(rows, path.name)
        read = _from_columns
    rows = [row for row in rows if _is_a_student(row, path.name)]
    if not ours:
        _require_whole_numbers(rows, path.name)
    made = [student for row in rows if not _is_a_test_user(student := read(row))]
    if not made:
        raise Trouble(
            f"{path.name} lists no students: it has only lines of the LMS's own, teachers or test users.",
            "export the list of a course with students in it",
        )
    return checked(_told_apart(made), path.name)


def _is_a_line_of_canvas(row: Mapping[str, str]) -> bool:
    """Whether this is Canvas's "Points Possible" line or one of its notes."""
    name = _canvas_name(row)
    return "Points Possible" in name[0] or not (any(name) or row["id"])


def _is_a_test_user(student: Student) -> bool:
    """Whether this is the invented student through whose eyes a teacher looks at a course."""
    name = {student.first_name.casefold(), student.last_name.casefold()}
    return name in ({"test", "student"}, {"demo", "student"}) or "previewuser" in (student.login + student.id).lower()


def _is_a_student(row: Mapping[str, str], file: str) -> bool:
    """Whether a row's role, if it has one, is a student's; Trouble for a role that is not known."""
    role = row.get("role", "")
    words = set(re.findall(r"[^\W\d_]+", role.casefold()))
    if words & set(_STAFF.split()):
        return False
    if words and not words & set(_STUDENTS.split()):
        raise Trouble(
            f"{file}, line {row[LINE]}: the role {role!r} was not understood.",
            "write “student” for students and “teacher” for others, or delete the column",
        )
    return True


def _require_known_columns(rows: Sequence[Mapping[str, str]], file: str) -> None:
    """Trouble for columns that seem to hold names or addresses and are not known, where none of that kind is known."""
    unknown = [name for name in rows[0] if name and name not in {LINE, "role", *_KNOWN}]

    def holds(name: str, pattern: str) -> bool:
        return 2 * sum(re.search(pattern, row[name]) is not None for row in rows) > len(rows)

    odd = [] if rows[0].keys() & _NAMES["email"] else [name for name in unknown if holds(name, r"\S@\S+\.\S")]
    halves = [any(name in rows[0] for name in _NAMES[half]) for half in ("first_name", "last_name")]
    if not (all(halves) or rows[0].keys() & set(_FULL_NAME)):
        odd += [
            name
            for name in unknown
            if name not in odd
            and holds(name, r"^[^\W\d_][^\d@/:]+$")
            and 10 * len({row[name] for row in rows}) > 8 * len(rows)
        ]
    if odd:
        raise Trouble(
            f"{file} has columns that were not understood and may hold names or addresses: {', '.join(odd)}.",
            "rename them in a copy: first_name, last_name, email; or delete them",
        )


_POWER = re.compile(r"\d+([.,]\d+)?e\+?\d+", re.IGNORECASE)
_DATE = re.compile(
    r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}( .*)?|\d{1,2}[. -]+[^\W\d]{3,}\.?([. -]+\d{2,4})?|[^\W\d]{3}-\d{2}", re.IGNORECASE
)
_GROUPED = re.compile(r"\d{1,3}([.,]\d{3})+|\d+[.,]0+")


def _require_whole_numbers(rows: Sequence[Mapping[str, str]], file: str) -> None:
    """Trouble for a number that a spreadsheet has rewritten: with a power of ten, as a date, or without its zeros."""
    for name in (name for name in _NUMBERS if rows and name in rows[0]):
        values = [row[name].strip() for row in rows]
        longest = max((len(value) for value in values if value.isdecimal()), default=0)
        usual = 10 * sum(len(value) == longest for value in values) >= 7 * len(values)
        zeros = usual and longest > 5 and not any(value.startswith("0") for value in values)
        for row, value in zip(rows, values, strict=True):
            others = {part for other in row.values() for part in re.findall(r"\b0+(\d+)\b", other)}
            what = (
                "a number with a power of ten"
                if _POWER.fullmatch(value)
                else "a date"
                if _DATE.fullmatch(value)
                else "a number with separators"
                if _GROUPED.fullmatch(value)
                else "a number that has probably lost zeros in front"
                if value.isdecimal() and (value in others or (zeros and len(value) < longest))
                else ""
            )
            if what:
                raise Trouble(
                    f"{file}, line {row[LINE]}: {value!r} in the column {name!r} is {what}; a spreadsheet has "
                    f"rewritten it.",
                    "export the list again, and do not save it with a spreadsheet, or format that column as text "
                    "first; if the number is right, write the table into the class's roster.csv yourself",
                )


def _canvas_name(row: Mapping[str, str]) -> tuple[str, str]:
    """Last and first name; Canvas has them in one column or in two, depending on its settings."""
    if "lastname" in row:
        return row["lastname"], row["firstname"]
    last, _, first = row["student"].partition(",")
    return last.strip(), first.strip()


def _from_canvas(row: Mapping[str, str]) -> Student:
    last, first = _canvas_name(row)
    login, lms_id = row.get("sis login id", ""), row["id"]
    ident = _plain_id(login) or _plain_id(row.get("sis user id", "")) or _plain_id(lms_id)
    return Student(
        id=ident,
        first_name=first,
        last_name=last,
        email=login if "@" in login else "",
        lms_id=lms_id,
        login=login,
        section=row.get("section", ""),
        sis_id=row.get("sis user id", ""),
    )


def _from_columns(row: Mapping[str, str]) -> Student:
    got = {
        ours: next((row[name].removeprefix("#") for name in names if row.get(name)), "")
        for ours, names in _NAMES.items()
    }
    if "github_username" in row or len(row) == 2:  # GitHub Classroom's list; in Moodle an identifier is something else
        got["student_id"] = row.get("identifier") or got["student_id"]
        got["email"] = got["email"] or (got["student_id"] if "@" in got["student_id"] else "")
    if "id number" in row:  # Moodle: its own ID number is the institution's, and may be empty
        got["student_id"] = got["student_id"] or row["id number"] or got["email"].split("@")[0]
    if not got["student_id"]:
        got["student_id"] = got["login"] or got["email"].split("@")[0]
    whole = next((row[name] for name in _FULL_NAME if row.get(name)), "")
    if " " in got["student_id"] and "identifier" in row:  # where an identifier can be a name
        whole, got["student_id"] = whole or got["student_id"], got["login"] or got["student_id"]
    if whole and not (got["first_name"] or got["last_name"]):
        got["first_name"], _, got["last_name"] = (
            whole.rpartition(" ") if "," not in whole else whole.partition(",")[::-1]
        )
    return Student(id=_plain_id(got.pop("student_id")), **{name: value.strip() for name, value in got.items()})


def _told_apart(students: Sequence[Student]) -> list[Student]:
    """The students. Those who would share an id, such as j.smith of two universities, get their whole address or
    number.
    """
    others: dict[str, list[str]] = defaultdict(list)
    for student in students:
        others[student.id.lower()].append(_other_id(student).lower())
    shared = {ident for ident, found in others.items() if len(found) > 1 and len(set(found)) == len(found)}
    return [
        replace(student, id=_other_id(student)) if student.id.lower() in shared else student for student in students
    ]


def _other_id(student: Student) -> str:
    """Another id for a student whose id is taken; the same one if nothing else is known."""
    address = student.email or (student.login if "@" in student.login else "")
    return _UNSAFE.sub("-", address).strip(".-")[:64] or student.lms_id or student.id


def _plain_id(text: str) -> str:
    """A person's id as a folder name: letters without accents, digits, . _ @ -; of an address, the part before the
    @."""
    plain = unicodedata.normalize("NFKD", text.strip().split("@")[0]).encode("ascii", "ignore").decode()
    return _UNSAFE.sub("-", plain).strip(".-")[:64]


def checked(students: Iterable[Student], where: str = "The roster") -> tuple[Student, ...]:
    """The students ordered by id; Trouble for an id that is missing, taken, or cannot name a folder."""
    found: dict[str, Student] = {}
    for number, student in enumerate(students, 2):
        if not _SAFE.fullmatch(student.id):
            said = (
                f"{where}, line {number}: {student.id!r} cannot be a student's id"
                if student.id
                else f"{where}, line {number} has no id"
            )
            raise Trouble(
                f"{said}.", "an id names folders: letters, digits and . _ @ -, at most 64 characters, no dot in front"
            )
        if other := next((each for each in found if each.lower() == student.id.lower()), ""):
            raise Trouble(
                f"{where}, line {number}: the id {student.id!r} is {found[other].name}'s already.",
                "give every student an id of their own",
            )
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
    """Our roster updated from a newer list. Ids stay, because folders are named after them, and no student is
    removed."""
    by_id = {student.id: student for student in ours}
    by_lms = {student.lms_id: student.id for student in ours if student.lms_id}
    by_mail = {student.email.casefold(): student.id for student in ours if student.email}
    new, changed, seen = [], [], set()
    for student in newer:
        ident = by_lms.get(student.lms_id) or by_mail.get(student.email.casefold()) or student.id
        was = by_id.get(ident)
        if was and was.lms_id and student.lms_id and was.lms_id != student.lms_id:  # another person with the same id
            ident, was = _other_id(student), None
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
    """The text of `roster.csv`."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(asdict(student).values() for student in students)
    return out.getvalue()


def key_of(name: str) -> str:
    """A name as Canvas writes it in file names: lower case letters and digits, no accents."""
    plain = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in plain if letter.isalnum() and not unicodedata.combining(letter))
