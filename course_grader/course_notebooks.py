"""The course's own notebooks: the source of each chapter, and which chapter a notebook is."""

import re
from pathlib import Path

from course_grader import exercises
from course_grader.notebooks import Notebook, chapter_of, grade_meta
from course_lib.messages import Trouble


def sources(root: Path) -> dict[str, Path]:
    """Chapter -> its source notebook."""
    found = {path.parent.name[:2]: path for path in sorted(root.glob("solutions/[0-9][0-9]_*/*.ipynb"), reverse=True)}
    return dict(sorted(found.items()))


def chapter_by_content(notebook: Notebook, path: Path, known: dict[str, Path]) -> str:
    """The chapter of a notebook: from its metadata, else from most of its answer cells, else from its name. Trouble if
    none tells.
    """
    if (said := chapter_of(notebook)) in known:
        return said
    named = (grade_meta(cell).get("grade_id", cell.get("id")) for cell in notebook["cells"])
    ids = {name for name in named if isinstance(name, str)}
    shared = {chapter: len(ids & {card.id for card in exercises.cards(chapter)}) for chapter in known}
    best = max(shared, key=lambda chapter: shared[chapter], default="")
    if best and shared[best]:
        return best
    if (name := re.match(r"(\d\d)_", path.name)) and name.group(1) in known:
        return name.group(1)
    raise Trouble(
        f"{path} does not say which chapter it is, and holds none of the course's exercises.",
        "give a copy of a chapter",
    )
