"""What the repository's own pages show of the course: its picture, the plan for a term, and links that open it.
`./course release` writes them."""

import re
from pathlib import Path

from course_app.site import syllabus
from course_app.site.course_picture import course_picture
from course_chapters import course
from course_grader.hosts import badges, repository
from course_lib.folders import ROOT

GUIDE = ROOT / "docs" / "instructors.md"
PICTURE = ROOT / "docs" / "course.svg"
README = ROOT / "README.md"
BEGIN, END = "<!-- open -->", "<!-- end: open -->"


def pages() -> dict[Path, str]:
    """The text of each file by its path, as it should be now."""
    return {
        GUIDE: syllabus.filled(GUIDE.read_text(encoding="utf-8")),
        PICTURE: course_picture().svg(outlines=True),
        README: opened(README.read_text(encoding="utf-8"), repository()),
    }


def opened(readme: str, name: str) -> str:
    """README with badges that open the first chapter, or with none if the repository is not known."""
    shown = f"{badges(name, course.chapter('00').folder)}\n" if name else ""
    return re.sub(f"{BEGIN}\n.*?{END}", lambda _: f"{BEGIN}\n{shown}{END}", readme, count=1, flags=re.DOTALL)


def write() -> None:
    """Write the files that differ."""
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8", newline="\n")
