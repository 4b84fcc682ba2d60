"""The exercises of a class: those of the pinned sources and the class's own, which of them count, and for how many
points.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from course_grader import exercises
from course_grader.classroom.sources import Sources
from course_grader.exercises import Card, class_exercises
from course_grader.notebooks import grade_meta, is_answer, is_by_hand, read
from course_lib.messages import Trouble


@dataclass(frozen=True)
class ClassExercises:
    """Cards with the class's points."""

    sources: Sources

    @property
    def overlay(self) -> Path:
        """The folder of the instructor's own exercises."""
        return self.sources.settings.root / "exercises"

    def use_own(self) -> None:
        """Make the class's own exercises known to this process and its children. Trouble names a file that cannot be
        used.
        """
        any_here = self.overlay.is_dir() and any(self.overlay.glob("*/card.py"))
        try:
            class_exercises.use(self.overlay if any_here else None)
        except Exception as error:  # an instructor's own file: whatever is wrong in it
            raise Trouble(
                f"An exercise of the class's own cannot be used: {type(error).__name__}: {error}",
                f"mend it in {self.overlay}",
            ) from error

    def known(self, chapter: str) -> tuple[Card, ...]:
        """The cards that have answer cells in the pinned source, with the course's points."""
        path = self.sources.path(chapter)
        try:
            there = _answer_ids(path, path.stat().st_mtime_ns)
        except OSError as error:
            raise Trouble(
                f"{path} is not there ({error.strerror}).",
                "bring the pinned source back from your copy of the class folder",
            ) from error
        return tuple(card for card in exercises.cards(chapter) if card.id in there)

    def chosen(self, chapter: str) -> tuple[str, ...]:
        """The exercises that count, in the chapter's order; all of them by default."""
        wanted = self.sources.settings.chapter(chapter).get("exercises")
        ids = tuple(card.id for card in self.known(chapter))
        return ids if wanted is None else tuple(name for name in ids if name in wanted)

    def points(self, chapter: str) -> dict[str, float]:
        """Exercise -> points, for the exercises that count."""
        own = self.sources.settings.chapter(chapter).get("points", {})
        chosen = self.chosen(chapter)
        return {card.id: float(own.get(card.id, card.points)) for card in self.known(chapter) if card.id in chosen}

    def by_hand(self, chapter: str) -> dict[str, float]:
        """Cell -> points, for the cells of the pinned source that only a person can grade; 0 where it does not
        count."""
        own = self.sources.settings.chapter(chapter).get("points", {})
        metas = [grade_meta(cell) for cell in read(self.sources.path(chapter))["cells"] if is_by_hand(cell)]
        return {meta["grade_id"]: float(own.get(meta["grade_id"], meta.get("points", 0.0))) for meta in metas}

    def maximum(self, chapter: str) -> float:
        """The points of a chapter as formgrader shows them: exercises that count, and cells graded by hand."""
        return sum(self.points(chapter).values()) + sum(self.by_hand(chapter).values())

    def all_cards(self, chapter: str) -> tuple[Card, ...]:
        """The chapter's cards with the class's points; 0 for an exercise that is not chosen."""
        points = self.points(chapter)
        return tuple(replace(card, points=_whole(points.get(card.id, 0.0))) for card in self.known(chapter))

    def cards(self, chapter: str) -> tuple[Card, ...]:
        """The chosen exercises' cards with the class's points, as `grade_notebook` expects them."""
        return tuple(card for card in self.all_cards(chapter) if card.id in self.chosen(chapter))


@lru_cache(maxsize=64)
def _answer_ids(path: Path, changed: int) -> frozenset[str]:
    """The exercises that have answer cells in a source; read again when the file has changed."""
    return frozenset(grade_meta(cell)["grade_id"] for cell in read(path)["cells"] if is_answer(cell))


def _whole(points: float) -> float:
    """Points without a fraction as int, as cards have them."""
    return int(points) if points.is_integer() else points
