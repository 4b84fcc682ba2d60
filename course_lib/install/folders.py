"""Where the course and the learner's work are."""

import os
from dataclasses import dataclass
from pathlib import Path

from course_lib.install.setting_up import ROOT


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
    """The course's and the learner's folders: as given, else from COURSE_ROOT and COURSE_WORK, else the usual ones."""
    root = root or Path(os.environ.get("COURSE_ROOT", ROOT))
    work = work or Path(os.environ.get("COURSE_WORK", root / "work"))
    return Folders(root=root.absolute(), work=work.absolute())
