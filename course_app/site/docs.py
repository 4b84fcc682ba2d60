"""What the repository's own pages show of the course: its picture, and the plan for a term. `./course release` writes
both."""

from pathlib import Path

from course_app.site import syllabus
from course_app.site.course_picture import course_picture
from course_lib.folders import ROOT

GUIDE = ROOT / "docs" / "instructors.md"
PICTURE = ROOT / "docs" / "course.svg"


def pages() -> dict[Path, str]:
    """The text of each file by its path, as it should be now."""
    return {GUIDE: syllabus.filled(GUIDE.read_text(encoding="utf-8")), PICTURE: course_picture().svg(outlines=True)}


def write() -> None:
    """Write the files that differ."""
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8", newline="\n")
