"""Grades into the LMS without files, through Canvas's or Moodle's web service.

What is there is read first. A grade is sent where there is none, or where the last one sent is still there; what a
person set there stays. `pushed.json` holds what is sent from before it is sent, so the same command goes on after a
stop.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from course_grader.classroom.export import Grade, grades
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.json_record import read_record, write_record
from course_grader.classroom.lms_services import Canvas, Person, gradebook_at
from course_grader.classroom.roster import Student
from course_lib.messages import Trouble

RECORD = "pushed.json"  # address -> student -> the grades of ours that may be there
AT_ONCE = 50  # grades in a request
_CLOSE = 0.005  # points: both sides round to two decimals
Does = Literal["send", "sent", "there", "kept", "left out", "problem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What happens to one student's grade."""

    student: str
    does: Does
    grade: float | None = None  # ours
    now: float | None = None  # the LMS's
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What was or would be sent for one chapter."""

    chapter: str
    lms: str
    address: str
    assignment: str
    lines: tuple[Line, ...]

    @property
    def exit_code(self) -> int:
        """1 if something is left for a person to do."""
        return int(any(line.does in ("problem", "left out") for line in self.lines))


def push(
    folder: ClassFolder,
    chapter: str,
    *,
    to: str = "",
    send: bool = False,
    overwrite: Collection[str] = (),
    say: Callable[[str], None] = lambda line: None,
) -> Pushed:
    """Compare a chapter's grades with the LMS, and with `send` send those that may be sent.

    `to` is the assignment's address, which the class remembers. `overwrite` names students whose grade is replaced even
    if a person set it.
    """
    entry = folder.settings.chapter(chapter)
    overwrite = {folder.roster.student(name).id for name in overwrite}
    lms, address = gradebook_at(to or entry.get("lms", ""))
    found = grades(folder, [chapter])
    maximum = max((each.maximum for each in found), default=0.0)
    if abs(lms.maximum - maximum) > _CLOSE:
        raise Trouble(
            f"“{lms.title}” gives {lms.maximum:g} points in {lms.name}, and chapter {chapter} gives {maximum:g}.",
            f"set the assignment's points to {maximum:g} in {lms.name}, then the same command",
        )
    if entry.get("lms") != address:
        entry["lms"] = address
        folder.settings.save()
    people, record = lms.people(), read_record(folder.root / RECORD)
    ours: dict[str, list[float | None]] = record.setdefault(address, {})
    whose = _matched(folder.roster.students(), people, lms.name)
    lines = [_line(each, whose[each.student.id], ours, overwrite, lms.name) for each in found]
    wanted = [line for line in lines if line.does == "send"]
    if send and wanted:
        for start in range(0, len(wanted), AT_ONCE):
            batch, given = wanted[start : start + AT_ONCE], {}
            for line in batch:
                person = whose[line.student]
                assert isinstance(person, Person)
                given[person.number] = line.grade or 0.0
                ours[line.student] = [line.grade, *(each for each in [line.now] if each != line.grade)]
            write_record(folder.root / RECORD, record)
            lms.send(given)
            say(f"{min(start + AT_ONCE, len(wanted))} of {len(wanted)}")
        there = {person.number: person.grade for person in lms.people()}
        lines = [_confirmed(line, whose[line.student], there, lms.name) if line in wanted else line for line in lines]
        for line in lines:
            if line.does == "sent":
                ours[line.student] = [line.grade]
        write_record(folder.root / RECORD, record)
    return Pushed(chapter=chapter, lms=lms.name, address=address, assignment=lms.title, lines=tuple(lines))


def _line(
    grade: Grade, person: Person | str, ours: Mapping[str, list[float | None]], overwrite: Collection[str], lms: str
) -> Line:
    """What is to happen to one grade."""

    def line(does: Does, why: str = "") -> Line:
        now = person.grade if isinstance(person, Person) else None
        return Line(student=who, does=does, grade=grade.score if grade.handed_in else None, now=now, why=why)

    who = grade.student.id
    if not grade.handed_in:
        return line("kept", "no graded work")
    if grade.unreadable:
        return line("left out", "could not be read")
    if grade.waits:
        return line("left out", "waits for a person's grade")
    if not isinstance(person, Person):
        return line("problem", person)
    if person.fixed:
        return line("kept", person.fixed)
    if _same(person.grade, grade.score):
        return line("there")
    if who in overwrite or any(_same(person.grade, each) for each in ours.get(who, [None])):
        return line("send")
    return line("kept", f"changed in {lms} by a person; --overwrite {who} replaces it")


def _confirmed(line: Line, person: Person | str, there: Mapping[str, float | None], lms: str) -> Line:
    """A line that was sent, after the LMS was read again."""
    now = there.get(person.number) if isinstance(person, Person) else None
    taken = _same(now, line.grade)
    why = "" if taken else f"{lms} did not take it, without saying why; enter it there"
    return Line(student=line.student, does="sent" if taken else "problem", grade=line.grade, now=now, why=why)


def _same(one: float | None, other: float | None) -> bool:
    return one is other if one is None or other is None else abs(one - other) <= _CLOSE


def _matched(students: Iterable[Student], people: Iterable[Person], lms: str) -> dict[str, Person | str]:
    """Student -> who that is in the LMS, or why it is not known."""
    by_key: dict[str, set[Person]] = {}
    for person in people:
        for key in person.keys:
            by_key.setdefault(key, set()).add(person)
    found: dict[str, set[Person]] = {}
    for each in students:
        number = f"#{each.lms_id}" if lms == Canvas.name and each.lms_id else ""
        keys = {text.casefold() for text in (each.id, each.login, each.email, each.sis_id, number) if text}
        found[each.id] = set().union(*(by_key.get(key, set()) for key in keys))
    matched: dict[str, Person | str] = {}
    for student, who in found.items():
        others = [name for name, theirs in found.items() if name != student and theirs & who]
        if len(who) == 1 and not others:
            matched[student] = next(iter(who))
        else:
            shared = (
                f"is one person with {others[0]} in {lms}" if others else f"could be any of {len(who)} people in {lms}"
            )
            matched[student] = shared if who else f"is no student of this course in {lms}"
    return matched
