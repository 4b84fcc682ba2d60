"""Where the course and the learner's work are."""

import os
from dataclasses import dataclass
from pathlib import Path

from course_lib.installation import PACKAGED, ROOT, installed
from course_lib.messages import Trouble

PACKAGES = ("course_lib", "course_runs", "course_grader", "course_chapters", "course_app")
OURS = tuple(
    f"{ROOT / package}{os.sep}" for package in (*PACKAGES, "bench")
)  # how the paths of the course's own modules begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Where the course and the learner's work are."""

    root: Path
    work: Path

    @property
    def released(self) -> Path:
        """The record of what each chapter was copied from."""
        return self.work / ".course" / "released"


def folders(root: Path | None = None, work: Path | None = None) -> Folders:
    """The course's and the learner's folders: as given, else from COURSE_ROOT and COURSE_WORK, else the usual ones.

    A clone has work/ inside. An installed package has the chapters, and work/ is in the folder where the command is
    given, or above it.
    """
    root = root or Path(os.environ.get("COURSE_ROOT", PACKAGED if installed() else ROOT))
    work = work or Path(os.environ.get("COURSE_WORK", _begun() if root == PACKAGED else root / "work"))
    return Folders(root=root.absolute(), work=work.absolute())


def _begun() -> Path:
    """The work folder that was begun here or above, else work/ here."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        for work in (folder, folder / "work"):
            if (work / ".course").is_dir():
                return work
    return here / "work"


def require(root: Path, part: str, what: str) -> None:
    """Trouble unless `root` has what `what` needs: "notebooks", "solutions" or "tests". Only a clone of the course has
    all three."""
    if any((root / part).glob("*.py" if part == "tests" else "[0-9][0-9]_*")):
        return
    if part == "notebooks" and (root / "solutions").is_dir():
        raise Trouble(f"{what} needs the folder notebooks/ of {root}, which is empty.", "./course release writes it")
    raise Trouble(
        f"{what} needs the folder {part}/ of the course, which {root} does not have: this is an installed package or "
        f"a student's bundle.",
        "clone the course's repository and give the same command in that folder, with ./ before it",
    )
