"""A class's folder: `class.toml`, roster, secret, pinned sources, and where everything lies. nbgrader's own layout."""

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import get_close_matches
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import course_lib
from course_lib import exercises
from course_lib.exercises import Card, overlay
from course_lib.grading.classroom.roster import Student, read_roster, roster_text
from course_lib.grading.classroom.toml_text import render
from course_lib.grading.judge.exercise import CONTRACT_VERSION
from course_lib.install import ROOT, Trouble
from course_lib.learner.merge import grade_meta, is_answer
from course_lib.learner.notebooks import read, write_whole

FILE = "class.toml"
_HEAD = """This class. Written by `course class …`; you may edit values by hand, comments of your own are not kept.
Further lines that mean something here, above the first [table]:
  late_points_per_day = 2       points lost for each day late, or part of one; without it lateness is only recorded
  exchange_root = "/srv/…"      nbgrader's exchange folder
and below [sandbox] the limits that a submission runs under: memory_bytes, processes, folder_bytes, file_bytes, cpu_seconds, open_files."""
_CONFIG = '''"""nbgrader's configuration of this class; `course class init` wrote it. Formgrader and every nbgrader command read it."""

from pathlib import Path

from course_lib.grading.classroom.config import configure

configure(get_config(), Path(__file__).resolve().parent)  # noqa: F821 (nbgrader gives get_config to this file)
'''


@dataclass(frozen=True)
class ClassFolder:
    """A class on disk. What it reads is read once; `save` and the `record_…` methods keep file and memory alike."""

    root: Path
    data: dict[str, Any] = field(repr=False)

    # --- opening and making

    @classmethod
    def open(cls, path: Path | str = ".") -> "ClassFolder":
        """The class at `path`, or around it; Trouble where there is none."""
        start = Path(path).absolute()
        found = next((folder for folder in (start, *start.parents) if (folder / FILE).is_file()), None)
        if found is None:
            raise Trouble(
                f"{start} is no class folder (it has no {FILE}).",
                "go to the class's folder, name it with --folder, or make one with `./course class init NAME`",
            )
        try:
            data = tomllib.loads((found / FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise Trouble(
                f"{found / FILE} cannot be read: {error}.", "mend that line, or bring an earlier copy of the file back"
            ) from error
        if not isinstance(data.get("name"), str) or not isinstance(data.get("chapters", {}), dict):
            raise Trouble(
                f"{found / FILE} is not what `class init` writes (no name, or no table of chapters).",
                "bring an earlier copy of it back",
            )
        folder = cls(root=found, data=data)
        folder.use_own_exercises()
        return folder

    def use_own_exercises(self) -> None:
        """Let this process, and those it starts, know the class's own exercises. Trouble names a file that cannot be used."""
        any_here = self.overlay.is_dir() and any(self.overlay.glob("*/card.py"))
        try:
            overlay.use(self.overlay if any_here else None)
        except Exception as error:  # an instructor's own file: whatever is wrong in it
            raise Trouble(
                f"An exercise of the class's own cannot be used: {type(error).__name__}: {error}",
                f"mend it in {self.overlay}",
            ) from error

    @classmethod
    def create(
        cls,
        path: Path | str,
        name: str,
        *,
        roster: Iterable[Student] = (),
        chapters: Iterable[str] | None = None,
        late_points_per_day: float | None = None,
        db_url: str = "",
        course: Path = ROOT,
    ) -> "ClassFolder":
        """A new class: folder, secret, roster, configuration, pinned sources. Trouble if the folder holds anything."""
        root = Path(path).absolute()
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
            raise Trouble(f"{name!r} cannot be a class's name.", "letters, digits and . _ - only, such as autumn-26")
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise Trouble(
                f"{root} is there already, and nothing of it is overwritten.", "choose another name, or --folder"
            )
        known = _sources(course)
        wanted = sorted(known if chapters is None else chapters)
        if odd := [chapter for chapter in wanted if chapter not in known]:
            raise Trouble(f"There is no chapter {', '.join(odd)}.", f"choose from {', '.join(known)}")
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        data: dict[str, Any] = {
            "name": name,
            "course": course_lib.__version__,
            "contract": CONTRACT_VERSION,
            "created": _now(),
            "db_url": db_url or None,
            "late_points_per_day": late_points_per_day,
            "sandbox": {},
            "chapters": {},
        }
        folder = cls(root=root, data=data)
        folder._write_secret()
        write_whole(root / "roster.csv", roster_text(tuple(roster)))
        write_whole(root / "nbgrader_config.py", _CONFIG)
        write_whole(root / ".gitignore", ".secret\n")
        if os.name == "posix":
            (root / "course").symlink_to(ROOT / "course")  # so that `./course class …` works in the folder itself
        for made in (
            "source",
            "release",
            "submitted",
            "autograded",
            "feedback",
            "reports",
            "exercises",
            "exports",
            "collected",
        ):
            (root / made).mkdir()
        for chapter in wanted:
            folder.pin(chapter, known[chapter])
        folder.save()
        return folder

    def _write_secret(self) -> None:
        handle = os.open(self.root / ".secret", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32) + "\n")

    def pin_from(self, course: Path, chapter: str) -> None:
        """Take a chapter's source from the course as it is now. Trouble where the class was made under another contract."""
        self.require_contract()
        known = _sources(course)
        if chapter not in known:
            raise Trouble(f"There is no chapter {chapter}.", f"choose from {', '.join(known)}")
        self.pin(chapter, known[chapter])
        self.save()

    def pin(self, chapter: str, source: Path) -> None:
        """Copy a chapter's source and its figures here, and remember its hash."""
        target = self.root / "source" / source.parent.name
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target / source.name)
        if (source.parent / "figures").is_dir():
            shutil.copytree(
                source.parent / "figures",
                target / "figures",
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns(".*", "__pycache__"),
            )
        entry = self._chapters.setdefault(chapter, {})
        entry |= {"assignment": source.parent.name, "sha256": sha256(target / source.name)}

    def save(self) -> None:
        """Write `class.toml` in one piece."""
        write_whole(self.root / FILE, render(self.data, _HEAD))

    # --- the class

    @property
    def name(self) -> str:
        """The class's name, which is nbgrader's course id too."""
        return self.data["name"]

    @property
    def contract(self) -> str:
        """The contract version that the class's points were promised under."""
        return str(self.data.get("contract", ""))

    @cached_property
    def secret(self) -> str:
        """The class's secret, in hex: seeds of variants and of hidden cases come from it."""
        path = self.root / ".secret"
        try:
            text = path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Trouble(
                f"{path} cannot be read.",
                "bring it back from your copy of the class folder: without it the hidden cases differ",
            ) from error
        if not re.fullmatch(r"[0-9a-f]{64}", text):
            raise Trouble(
                f"{path} does not hold the class's secret (64 hex digits).",
                "bring it back from your copy of the class folder",
            )
        if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(0o600)
        return text

    @property
    def db_url(self) -> str:
        """Where the gradebook is, for SQLAlchemy."""
        return self.data.get("db_url") or f"sqlite:///{self.root / 'gradebook.db'}"

    @property
    def overlay(self) -> Path:
        """The instructor's own exercises."""
        return self.root / "exercises"

    @property
    def late_points_per_day(self) -> float | None:
        """Points lost per day late; None where lateness is only recorded."""
        value = self.data.get("late_points_per_day")
        return None if value is None else float(value)

    def require_contract(self, other: bool = False) -> None:
        """Trouble where the class was made under another contract version than this course's, unless `other` is meant."""
        if self.contract != CONTRACT_VERSION and not other:
            raise Trouble(
                f"{self.name} was made under contract version {self.contract or '?'}; this copy of the course grades by {CONTRACT_VERSION}, "
                "so the same work could score differently.",
                f"check out course {self.data.get('course', '?')} for this class, or add --other-contract if that is meant",
            )

    def require_sources(self, chapters: Iterable[str] | None = None) -> None:
        """Trouble where a pinned source was changed since it was released: reports would not fit what students got."""
        for chapter in self.chapters() if chapters is None else chapters:
            if sha256(self.source(chapter)) != self.chapter(chapter).get("sha256"):
                raise Trouble(
                    f"{self.source(chapter)} has changed since it was pinned.",
                    f"`./course class release {chapter}` releases it anew and pins it, or bring the earlier file back",
                )

    # --- chapters

    @property
    def _chapters(self) -> dict[str, dict[str, Any]]:
        return self.data.setdefault("chapters", {})

    def chapters(self) -> tuple[str, ...]:
        """The class's chapters, in order."""
        return tuple(sorted(self._chapters))

    def chapter(self, chapter: str) -> dict[str, Any]:
        """What class.toml says of a chapter; Trouble names the class's chapters."""
        if chapter not in self._chapters:
            raise Trouble(
                f"{self.name} has no chapter {chapter!r}.",
                f"it has {', '.join(self.chapters()) or 'none'}; `./course class release {chapter} --pin` adds one of the course's",
            )
        return self._chapters[chapter]

    def assignment(self, chapter: str) -> str:
        """The chapter's name as nbgrader's assignment: its folder's name."""
        return self.chapter(chapter)["assignment"]

    def source(self, chapter: str) -> Path:
        """The pinned source notebook."""
        name = self.assignment(chapter)
        return self.root / "source" / name / f"{name}.ipynb"

    def all_cards(self, chapter: str) -> tuple[Card, ...]:
        """The chapter's cards, the instructor's own among them, with the class's points; 0 where an exercise is not chosen."""
        points = self.points(chapter)
        return tuple(replace(card, points=_whole(points.get(card.id, 0.0))) for card in self._known(chapter))

    def cards(self, chapter: str) -> tuple[Card, ...]:
        """The chosen exercises' cards with the class's points: what `mark` is given."""
        return tuple(card for card in self.all_cards(chapter) if card.id in self.chosen(chapter))

    def chosen(self, chapter: str) -> tuple[str, ...]:
        """The exercises that count, in the order of the chapter; all of them where nobody chose."""
        wanted = self.chapter(chapter).get("exercises")
        ids = tuple(card.id for card in self._known(chapter))
        return ids if wanted is None else tuple(name for name in ids if name in wanted)

    def points(self, chapter: str) -> dict[str, float]:
        """Exercise -> points, for those that count."""
        own = self.chapter(chapter).get("points", {})
        chosen = self.chosen(chapter)
        return {card.id: float(own.get(card.id, card.points)) for card in self._known(chapter) if card.id in chosen}

    def _known(self, chapter: str) -> tuple[Card, ...]:
        """The cards whose answer cells the pinned source has."""
        path = self.source(chapter)
        try:
            there = _answer_ids(path, path.stat().st_mtime_ns)
        except OSError as error:
            raise Trouble(
                f"{path} is not there ({error.strerror}).",
                "bring the pinned source back from your copy of the class folder",
            ) from error
        return tuple(card for card in exercises.cards(chapter) if card.id in there)

    # --- students

    @cached_property
    def _roster(self) -> dict[str, Student]:
        path = self.root / "roster.csv"
        rows = path.read_text(encoding="utf-8-sig").strip().splitlines() if path.is_file() else []
        return {student.id: student for student in read_roster(path)} if len(rows) > 1 else {}

    def save_roster(self, students: Iterable[Student]) -> None:
        """Write `roster.csv`."""
        made = tuple(students)
        write_whole(self.root / "roster.csv", roster_text(made))
        self.__dict__["_roster"] = {student.id: student for student in made}

    def students(self) -> tuple[Student, ...]:
        """Everybody in the class, in the order of their ids."""
        return tuple(self._roster.values())

    def student(self, ident: str) -> Student:
        """The student with this id; Trouble names the nearest ids."""
        if ident not in self._roster:
            near = get_close_matches(ident, self._roster, n=3, cutoff=0.4)
            raise Trouble(
                f"{self.name} has no student {ident!r}.",
                f"did you mean {', '.join(near)}?" if near else "roster.csv lists them; a new line there adds one",
            )
        return self._roster[ident]

    # --- a student's chapter

    @cached_property
    def _variants(self) -> dict[str, Any]:
        return _json(self.root / "variants.json")

    def variant(self, student: Student | str, chapter: str) -> dict[str, Any]:
        """Our record of what a student was given: {"id": …, "exercises": {exercise: {parameter: value}}}; {} for the common release."""
        return self._variants.get(_id(student), {}).get(chapter, {})

    def params(self, student: Student | str, chapter: str) -> dict[str, Mapping[str, Any]]:
        """Exercise -> the parameters of this student's variant, by our record: the canonical ones where nothing was drawn."""
        drawn = self.variant(student, chapter).get("exercises", {})
        return {card.id: {**card.params, **drawn.get(card.id, {})} for card in self._known(chapter)}

    def given(self, chapter: str) -> dict[str, Mapping[str, Mapping[str, Any]]]:
        """Student -> exercise -> parameters, of everybody who has a variant of the chapter."""
        return {
            student: chapters[chapter]["exercises"]
            for student, chapters in self._variants.items()
            if chapter in chapters
        }

    def record_variants(self, given: Mapping[str, Mapping[str, Any]], chapter: str) -> None:
        """Remember who was given which variant of a chapter."""
        for student, variant in given.items():
            self._variants.setdefault(student, {})[chapter] = dict(variant)
        write_whole(self.root / "variants.json", json.dumps(self._variants, indent=1, sort_keys=True) + "\n")

    def due(self, student: Student | str, chapter: str) -> datetime | None:
        """When a student's work is due, by their extension if they have one."""
        entry = self.chapter(chapter)
        return _aware(entry.get("extensions", {}).get(_id(student)) or entry.get("due"))

    def extend(self, student: Student | str, chapter: str, until: datetime) -> None:
        """Give one student until then."""
        self.chapter(chapter).setdefault("extensions", {})[_id(student)] = until
        self.save()

    @cached_property
    def _arrivals(self) -> dict[str, Any]:
        return _json(self.root / "arrivals.json")

    def arrival_record(self, student: Student | str, chapter: str) -> dict[str, Any]:
        """All that we noted when a submission arrived: at, by, late, file, sha256, notes; {} where none did."""
        return self._arrivals.get(_id(student), {}).get(chapter, {})

    def arrival(self, student: Student | str, chapter: str) -> datetime | None:
        """When a submission arrived: the LMS's or exchange's record, or what the instructor said."""
        at = self.arrival_record(student, chapter).get("at")
        return _aware(datetime.fromisoformat(at)) if at else None

    def remember_arrival(self, student: Student | str, chapter: str, record: Mapping[str, Any]) -> None:
        """Note how a submission arrived; `save_arrivals` writes it down."""
        self._arrivals.setdefault(_id(student), {})[chapter] = dict(record)

    def save_arrivals(self) -> None:
        """Write our record of arrivals in one piece."""
        write_whole(
            self.root / "arrivals.json", json.dumps(self._arrivals, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        )

    def hand_in(self, student: Student | str, chapter: str) -> Path:
        """The folder of a student's submission, whether or not it is there."""
        return self.root / "submitted" / _id(student) / self.assignment(chapter)

    def submitted(self, student: Student | str, chapter: str) -> Path | None:
        """The notebook that counts, None where there is none."""
        path = self.hand_in(student, chapter) / f"{self.assignment(chapter)}.ipynb"
        return path if path.is_file() and not path.is_symlink() else None

    def reports(self, student: Student | str, chapter: str) -> Path:
        """The folder of a student's judged submissions of a chapter."""
        return self.root / "reports" / _id(student) / self.assignment(chapter)

    def wall(self) -> Any:
        """The limits of the sandbox: the course's, with what class.toml says under [sandbox]."""
        from course_lib.grading import sandbox

        given = dict(self.data.get("sandbox", {}))
        given.setdefault("level", sandbox.best())
        given["hidden"] = (str(self.root), *given.get("hidden", ()))
        try:
            return sandbox.Wall(**given)
        except TypeError as error:
            raise Trouble(
                f"{self.root / FILE}: [sandbox] cannot be used: {error}.", "mend or remove that line"
            ) from error


@lru_cache(maxsize=64)
def _answer_ids(path: Path, changed: int) -> frozenset[str]:
    """The exercises that a source has answer cells for; read anew when the file has changed."""
    return frozenset(grade_meta(cell)["grade_id"] for cell in read(path)["cells"] if is_answer(cell))


def _sources(course: Path) -> dict[str, Path]:
    from course_lib.grading.check.command import sources

    return sources(course)


def sha256(path: Path) -> str:
    """A file's hash in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _whole(points: float) -> float:
    """Points without a fraction as the integer that cards have."""
    return int(points) if points.is_integer() else points


def _id(student: Student | str) -> str:
    return student if isinstance(student, str) else student.id


def _json(path: Path) -> dict[str, Any]:
    """A record of ours; {} where there is none yet."""
    if not path.is_file():
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Trouble(f"{path} cannot be read: {error}.", "bring an earlier copy of the file back") from error


def _now() -> datetime:
    return datetime.now().astimezone().replace(microsecond=0)


def _aware(value: Any) -> datetime | None:
    """A moment with its time zone: this machine's where none is given."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        return None
    return value.astimezone() if value.tzinfo is None else value
