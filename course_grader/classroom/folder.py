"""A class's folder: its settings, roster, sources, exercises, variants and submissions."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from course_grader.classroom.class_exercises import ClassExercises
from course_grader.classroom.class_secret import read_secret
from course_grader.classroom.roster import Roster
from course_grader.classroom.settings import FILE, Settings
from course_grader.classroom.sources import Sources
from course_grader.classroom.submissions import Submissions
from course_grader.classroom.variants import GivenVariants
from course_lib.messages import Trouble


@dataclass(frozen=True)
class ClassFolder:
    """A class on disk. Each part is read once and keeps file and memory in agreement."""

    settings: Settings

    @classmethod
    def open(cls, path: Path | str = ".") -> "ClassFolder":
        """The class at `path` or in a parent folder, with its own exercises known to this process; Trouble if there is
        none.
        """
        start = Path(path).absolute()
        found = next((folder for folder in (start, *start.parents) if (folder / FILE).is_file()), None)
        if found is None:
            raise Trouble(
                f"{start} is not a class folder (it has no {FILE}).",
                "go to the class's folder, name it with --folder, or make one with `./course class init NAME`",
            )
        folder = cls(Settings.read(found))
        folder.exercises.use_own()
        return folder

    @property
    def root(self) -> Path:
        """The folder itself."""
        return self.settings.root

    @cached_property
    def secret(self) -> str:
        """The class's secret, in hex."""
        return read_secret(self.root)

    @cached_property
    def roster(self) -> Roster:
        """Who is in the class."""
        return Roster(self.root / "roster.csv", self.settings.name)

    @cached_property
    def sources(self) -> Sources:
        """The chapters' pinned sources."""
        return Sources(self.settings)

    @cached_property
    def exercises(self) -> ClassExercises:
        """Which exercises count, and for how many points."""
        return ClassExercises(self.sources)

    @cached_property
    def variants(self) -> GivenVariants:
        """Who was given which numbers."""
        return GivenVariants(self.root / "variants.json")

    @cached_property
    def submissions(self) -> Submissions:
        """What was handed in, and when."""
        return Submissions(self.settings)
