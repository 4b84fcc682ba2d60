"""The chapters' sources pinned by a class: copies in the class's folder, whose hashes are in `class.toml`."""

import hashlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from course_grader.classroom.settings import Settings
from course_grader.course_notebooks import sources as course_sources
from course_lib.messages import Trouble


@dataclass(frozen=True)
class Sources:
    """The pinned sources of a class."""

    settings: Settings

    def path(self, chapter: str) -> Path:
        """The pinned source notebook."""
        name = self.settings.assignment(chapter)
        return self.settings.root / "source" / name / f"{name}.ipynb"

    def pin_from(self, course: Path, chapter: str) -> None:
        """Copy a chapter's current source from the course. Trouble if the class was made under another contract."""
        self.settings.require_contract()
        self.pin(chapter, source_in(course, [chapter])[chapter])
        self.settings.save()

    def pin(self, chapter: str, source: Path) -> None:
        """Copy a chapter's source and its figures into the class, and record its hash."""
        target = self.settings.root / "source" / source.parent.name
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target / source.name)
        if (source.parent / "figures").is_dir():
            shutil.copytree(
                source.parent / "figures",
                target / "figures",
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns(".*", "__pycache__"),
            )
        entry = self.settings.data.setdefault("chapters", {}).setdefault(chapter, {})
        entry |= {"assignment": source.parent.name, "sha256": sha256(target / source.name)}

    def require_unchanged(self, chapters: Iterable[str] | None = None) -> None:
        """Trouble if a pinned source was changed after its release: reports would not match what students got."""
        for chapter in self.settings.chapters() if chapters is None else chapters:
            if sha256(self.path(chapter)) != self.settings.chapter(chapter).get("sha256"):
                raise Trouble(
                    f"{self.path(chapter)} has changed since it was pinned.",
                    f"`./course class release {chapter}` releases it anew and pins it, or bring the earlier file back",
                )


def source_in(course: Path, chapters: Iterable[str] | None = None) -> dict[str, Path]:
    """Chapter -> its source in a copy of the course, for these chapters or all; Trouble for a missing one."""
    known = course_sources(course)
    wanted = sorted(known if chapters is None else chapters)
    if odd := [chapter for chapter in wanted if chapter not in known]:
        raise Trouble(f"There is no chapter {', '.join(odd)}.", f"choose from {', '.join(known)}")
    return {chapter: known[chapter] for chapter in wanted}


def sha256(path: Path) -> str:
    """A file's hash in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
