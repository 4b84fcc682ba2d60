"""Where the parts of a trainer come from: the learner's passed answers, else the course's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from course_app.learner import progress, work
from course_app.own_trainer.kit.parts import PARTS
from course_app.own_trainer.standalone import NotStandalone, standalone
from course_grader import notebooks
from course_grader.exercises import Card, card
from course_grader.notebooks import grade_meta
from course_lib.folders import folders
from course_lib.messages import Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a trainer: an exercise's functions as a module of their own."""

    file: str  # name of the module, "ring_all_reduce"
    source: str
    yours: bool
    passed: str = ""  # when the learner first passed it
    why: str = ""  # why it is the course's although the learner passed the exercise

    @property
    def exercise(self) -> str:
        """The id of the exercise."""
        return exercise_of(self.file)

    @property
    def card(self) -> Card:
        """The exercise's card."""
        return card(self.exercise)


def exercise_of(file: str) -> str:
    """The exercise of a part's file."""
    return file.replace("_", "-")


def collected(where: work.Folders) -> dict[str, Part]:
    """Every part: the learner's where the exercise is passed and the answer can stand alone, else the course's."""
    parts = course_parts(where.root)
    done = progress.load(where.work)["exercises"] if where.work.is_dir() else {}
    copies = {chapter.number: chapter.mine for chapter in work.chapters(where)} if where.work.is_dir() else {}
    for file in PARTS:
        entry = done.get(exercise_of(file), {})
        if entry.get("passed"):
            parts[file] = _yours(parts[file], entry, copies)
    return parts


def _yours(part: Part, entry: progress.Entry, copies: Mapping[str, Path | None]) -> Part:
    """The learner's part, or the course's with the reason why theirs cannot be used."""
    path, chapter = copies.get(part.card.chapter), part.card.chapter
    if path is None:
        return _with_reason(part, f"there is no copy of chapter {chapter} in the work folder")
    try:
        source = standalone(part.exercise, PARTS[part.file], code_cells(path, part.exercise))
    except Trouble as trouble:
        return _with_reason(part, trouble.problem.rstrip("."))
    except NotStandalone as reason:
        return _with_reason(part, str(reason))
    if "raise NotImplementedError" in source:
        return _with_reason(part, f"you passed it, but {path.name} was not saved since: save it, and run this again")
    return Part(file=part.file, source=source, yours=True, passed=(entry.get("first_pass") or "")[:10])


def _with_reason(part: Part, why: str) -> Part:
    return Part(file=part.file, source=part.source, yours=False, why=why)


def code_cells(path: Path, exercise: str) -> list[str]:
    """The code cells of a notebook up to an exercise's answer, in order; all of them where the answer's cell is not
    marked."""
    cells = [cell for cell in notebooks.read(path)["cells"] if cell["cell_type"] == "code"]
    marked = [place for place, cell in enumerate(cells, 1) if grade_meta(cell).get("grade_id") == exercise]
    return [cell["source"] for cell in cells[: marked[-1] if marked else None]]


def course_parts(root: Path | None = None) -> dict[str, Part]:
    """The course's own answers; Trouble where this copy of the course has none."""
    return dict(_course_parts(root or folders().root))


@cache
def _course_parts(root: Path) -> dict[str, Part]:
    found = {}
    for file, names in PARTS.items():
        exercise = exercise_of(file)
        chapter = card(exercise).chapter
        paths = sorted(root.glob(f"solutions/{chapter}_*/{chapter}_*.ipynb"))
        if not paths:
            raise Trouble(
                f"The course's own answers to chapter {chapter} are not in this copy, so a trainer cannot be "
                f"completed with them.",
                "use the whole course; a student bundle leaves its answers to the instructor",
            )
        found[file] = Part(file=file, source=standalone(exercise, names, code_cells(paths[0], exercise)), yours=False)
    return found


def write_parts(parts: Mapping[str, Part], folder: Path) -> None:
    """Write every part to `folder`, with a line on whose it is."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, part in parts.items():
        owner = f"Yours, passed {part.passed}" if part.yours else "The course's"
        about = f'"""{part.card.title} (chapter {part.card.chapter}, exercise {part.exercise}). {owner}."""\n\n'
        (folder / f"{file}.py").write_text(about + part.source, encoding="utf-8")
