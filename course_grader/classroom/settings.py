"""`class.toml`: the instructor's settings for a class, its chapters, and due dates."""

import re
import tomllib
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_grader.classroom.roster import Student, id_of
from course_grader.classroom.toml_text import render
from course_grader.judge.exercise import CONTRACT_VERSION
from course_grader.notebooks import write_whole
from course_lib.messages import Trouble

if TYPE_CHECKING:
    from course_grader.sandbox import Wall

FILE = "class.toml"
_LIMITS = {
    "cell_seconds": "of one cell",
    "case_seconds": "of one run of an answer on one case; an exercise may allow less",
    "notebook_seconds": "of all cells and runs together",
    "cpu_seconds": "of computing in one process",
    "memory_bytes": "of all processes of a submission together",
    "processes": "of a submission at once",
    "folder_bytes": "of its folder, /tmp and /dev/shm together",
    "file_bytes": "of one file",
    "open_files": "of one process",
}
_HEAD = """This class. Written by `course class …`; you may edit values by hand, comments of your own are not kept.
Further lines that mean something here, above the first [table]:
  late_points_per_day = 2       points lost for each day late, or part of one; without it lateness is only recorded
  exchange_root = "/srv/…"      nbgrader's exchange folder
and below [sandbox] the limits that a submission runs under. The course's own values are:"""


@dataclass(frozen=True)
class Settings:
    """The content of `class.toml`. `save` and `extend` keep file and memory in agreement."""

    root: Path  # the class's folder
    data: dict[str, Any] = field(repr=False)

    @classmethod
    def read(cls, root: Path) -> "Settings":
        """The settings of the class at `root`; Trouble if the file cannot be used."""
        path = root / FILE
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise Trouble(
                f"{path} cannot be read: {error}.", "mend that line, or restore an earlier copy of the file"
            ) from error
        if not isinstance(data.get("name"), str) or not isinstance(data.get("chapters", {}), dict):
            raise Trouble(
                f"{path} is not what `class init` writes (no name, or no table of chapters).",
                "bring an earlier copy of it back",
            )
        return cls(root=root, data=data)

    def save(self) -> None:
        """Write `class.toml` atomically."""
        write_whole(self.root / FILE, render(self.data, "\n".join([_HEAD, *_limit_lines()])))

    # --- the class

    @property
    def name(self) -> str:
        """The class's name, which is also nbgrader's course id."""
        return self.data["name"]

    @property
    def contract(self) -> str:
        """The contract version that the class's points were promised under."""
        return str(self.data.get("contract", ""))

    @property
    def db_url(self) -> str:
        """Where the gradebook is, for SQLAlchemy."""
        return self.data.get("db_url") or f"sqlite:///{self.root / 'gradebook.db'}"

    @property
    def late_points_per_day(self) -> float | None:
        """Points lost per day late; None if lateness is only recorded."""
        value = self.data.get("late_points_per_day")
        return None if value is None else float(value)

    def require_contract(self, other: bool = False) -> None:
        """Trouble if the class was made under another contract version than this course's, unless `other` allows it."""
        if self.contract != CONTRACT_VERSION and not other:
            raise Trouble(
                f"{self.name} was made under contract version {self.contract or '?'}; this copy of the course grades "
                f"by {CONTRACT_VERSION}, so the same work could score differently.",
                f"check out course {self.data.get('course', '?')} for this class, or add --other-contract if "
                f"that is meant",
            )

    def wall(self) -> "Wall":
        """The limits of the sandbox: the course's, changed by [sandbox] in class.toml."""
        from course_grader import sandbox

        given = dict(self.data.get("sandbox", {}))
        given.setdefault("level", sandbox.best_level())
        given["hidden"] = (str(self.root), *given.get("hidden", ()))
        try:
            return sandbox.Wall(**given)
        except TypeError as error:
            raise Trouble(
                f"{self.root / FILE}: [sandbox] cannot be used: {error}.", "mend or remove that line"
            ) from error

    # --- chapters

    def chapters(self) -> tuple[str, ...]:
        """The class's chapters, in order."""
        return tuple(sorted(self.data.get("chapters", {})))

    def chapter(self, chapter: str) -> dict[str, Any]:
        """The settings of a chapter; Trouble names the class's chapters."""
        if chapter not in self.data.get("chapters", {}):
            raise Trouble(
                f"{self.name} has no chapter {chapter!r}.",
                f"it has {', '.join(self.chapters()) or 'none'}; `./course class release {chapter} --pin` adds one of "
                f"the course's",
            )
        return self.data["chapters"][chapter]

    def assignment(self, chapter: str) -> str:
        """The chapter's name as nbgrader's assignment: its folder's name."""
        return self.chapter(chapter)["assignment"]

    def due(self, student: Student | str, chapter: str) -> datetime | None:
        """When a student's work is due, including an extension."""
        entry = self.chapter(chapter)
        value = entry.get("extensions", {}).get(id_of(student)) or entry.get("due")
        return aware(datetime.fromisoformat(value) if isinstance(value, str) else value)

    def extend(self, student: Student | str, chapter: str, until: datetime) -> None:
        """Set one student's own due date."""
        self.chapter(chapter).setdefault("extensions", {})[id_of(student)] = until
        self.save()


def _limit_lines() -> list[str]:
    """The limits of the sandbox as comments, with the values that hold unless the class sets others."""
    from course_grader.sandbox import Wall

    values = {name: getattr(Wall(), name) for name in _LIMITS}
    shown = {name: f"{value:_}" if isinstance(value, int) else f"{value:g}" for name, value in values.items()}
    return [f"  {f'{name} = {shown[name]}':31} {words}" for name, words in _LIMITS.items()]


def require_name(name: str) -> None:
    """Trouble for what cannot be a class's name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise Trouble(
            f"{name!r} cannot be a class's name.",
            "letters, digits and . _ - only, such as autumn-26; --folder says where its folder goes",
        )


def aware(value: object) -> datetime | None:
    """A time with a time zone: this machine's if none is given; None if it is not a time."""
    if not isinstance(value, datetime):
        return None
    return value.astimezone() if value.tzinfo is None else value
