"""Release a chapter to a class: the common release by nbgrader's converter, and a folder and a zip for each student."""

import hashlib
import hmac
import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from nbgrader.api import Gradebook

from course_grader.classroom.config import ClassNumbers, load
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.roster import Student
from course_grader.classroom.sources import sha256
from course_grader.exercises import VARIANT_FILE, Variant
from course_grader.notebooks import Notebook, parse, render, write_whole
from course_grader.release import generate
from course_grader.release_steps import CheckRelease, check_release, fill
from course_lib.messages import Trouble

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The result of a release."""

    chapter: str
    path: Path  # the common release's folder
    points: float
    exercises: int
    due: datetime | None
    variants: int = 0  # students with a folder of their own
    by_hand: Mapping[str, float] = field(default_factory=dict)  # cell that a person grades -> points


def release_chapter(
    folder: ClassFolder,
    chapter: str,
    *,
    exercises: Sequence[str] | None = None,
    points: Mapping[str, float] | None = None,
    due: datetime | None = None,
    variants: bool = False,
    say: Say = lambda line: None,
) -> Released:
    """Release one chapter. Afterwards `class.toml`, release folder and gradebook agree; if it fails, nothing has
    changed.

    A chapter that was released with variants keeps them: each student's files are written again, with the same numbers.
    """
    before = dict(folder.settings.chapter(chapter))
    entry = folder.settings.chapter(chapter)
    gradebook(folder).close()  # its error is clearer than nbgrader's, and nothing has changed yet
    try:
        _choose(folder, chapter, exercises, points or {})
        if due is not None:
            entry["due"] = due
        entry["sha256"] = sha256(folder.sources.path(chapter))
        folder.settings.save()
        _generate(folder, chapter)
    except (ValueError, Trouble, RuntimeError) as error:
        entry.clear()
        entry.update(before)
        folder.settings.save()
        if isinstance(error, Trouble):
            raise
        if "submissions associated" in str(error):  # nbgrader's words
            raise Trouble(
                f"Chapter {chapter} is already graded for at least one student, so the cells that give points "
                f"cannot change.",
                f"give {folder.sources.path(chapter)} its former cells again; use --exercises to leave exercises out",
            ) from error
        raise Trouble(str(error), "mend that in the class's source/, then release again") from error
    _tell_gradebook(folder, chapter)
    variants = variants or bool(folder.variants.of_everybody(chapter))
    made = _variants(folder, chapter, say) if variants else 0
    return Released(
        chapter=chapter,
        path=folder.root / "release" / folder.settings.assignment(chapter),
        points=folder.exercises.maximum(chapter),
        exercises=len(folder.exercises.chosen(chapter)),
        due=folder.settings.due("", chapter),
        variants=made,
        by_hand=folder.exercises.by_hand(chapter),
    )


def _choose(folder: ClassFolder, chapter: str, exercises: Sequence[str] | None, points: Mapping[str, float]) -> None:
    """Record which exercises count and for how many points; Trouble for one that the chapter does not have."""
    entry, known = folder.settings.chapter(chapter), [card.id for card in folder.exercises.all_cards(chapter)]
    by_hand = folder.exercises.by_hand(chapter)
    if odd := [*({*(exercises or ())} - {*known}), *(points.keys() - {*known, *by_hand})]:
        more = "".join(f"; {name} is graded by hand and counts unless --points says {name}=0" for name in by_hand)
        raise Trouble(f"Chapter {chapter} has no exercise {min(odd)!r}.", f"it has {', '.join(known)}{more}")
    if low := [name for name, value in points.items() if not 0 <= value < 10_000]:
        raise Trouble(f"{low[0]} cannot give {points[low[0]]:g} points.", "give a number that is not negative")
    if exercises is not None:
        entry["exercises"] = [name for name in known if name in exercises]
    if points:
        entry["points"] = {**entry.get("points", {}), **{name: float(value) for name, value in points.items()}}


def _generate(folder: ClassFolder, chapter: str) -> None:
    """Run nbgrader's generate_assignment, which also enters the possible points in the gradebook.

    It deletes its output if it fails, so it first runs in a separate folder without the gradebook.
    """
    name = folder.settings.assignment(chapter)
    with tempfile.TemporaryDirectory(prefix=".release-", dir=folder.root) as scratch:
        for database in (False, True):
            config = load(folder)
            config.CourseDirectory.release_directory = scratch
            generate(config, name, database=database)
        target = folder.root / "release" / name
        if target.is_dir():
            os.replace(target, Path(scratch) / f".{name}")
        os.replace(Path(scratch) / name, target)


def gradebook(folder: ClassFolder) -> Gradebook:
    """The class's gradebook, open; the caller closes it."""
    from nbgrader.api import Gradebook

    load(folder)  # finds alembic
    return Gradebook(folder.settings.db_url, folder.settings.name)


def start_gradebook(folder: ClassFolder) -> None:
    """Create the gradebook with all students. Trouble if the database cannot be reached."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with closing(gradebook(folder)) as book:
            for student in folder.roster.students():
                enter(book, student)
    except (SQLAlchemyError, ModuleNotFoundError) as error:
        if "locked" in str(error):
            raise
        raise Trouble(
            f"The gradebook at {folder.settings.db_url} cannot be opened ({type(error).__name__}: "
            f"{str(error).splitlines()[0]}).",
            "mend db_url in class.toml; PostgreSQL needs pip install 'training-at-scale[cluster]'",
        ) from error


def _tell_gradebook(folder: ClassFolder, chapter: str) -> None:
    """Enter students and due date in the gradebook."""
    with closing(gradebook(folder)) as book:
        for student in folder.roster.students():
            enter(book, student)
        due = folder.settings.due("", chapter)
        naive = due.astimezone(UTC).replace(tzinfo=None) if due else None
        book.update_or_create_assignment(folder.settings.assignment(chapter), duedate=naive)


def enter(book: Gradebook, student: Student) -> None:
    """Enter a student in the gradebook."""
    book.update_or_create_student(
        student.id,
        first_name=student.first_name,
        last_name=student.last_name,
        email=student.email,
        lms_user_id=student.lms_id,
    )


# -------------------------------------------------------------------------------------------- a folder for each student


def _variants(folder: ClassFolder, chapter: str, say: Say) -> int:
    """One folder and one zip for each student, and the record of who got which variant. Existing variants are kept."""
    with_holes, given = _with_placeholders(folder, chapter), {}
    common = folder.root / "release" / folder.settings.assignment(chapter)
    for student in folder.roster.students():
        variant = folder.variants.of(student, chapter) or draw(folder, student, chapter)
        files = _bundle(folder, chapter, with_holes, variant, common)
        _write(folder, student, chapter, files)
        given[student.id] = variant
        say(f"{student.id}: {folder.settings.assignment(chapter)}, variant {variant['id']}")
    folder.variants.record(given, chapter)
    return len(given)


def draw(folder: ClassFolder, student: Student, chapter: str) -> Variant:
    """The numbers of one student's chapter; they follow from the class's secret and are the same each time."""
    from course_grader.classroom import variants

    drawn = variants.draw_all(folder.secret, student.id, folder.exercises.all_cards(chapter))
    ident = hmac.new(
        bytes.fromhex(folder.secret), f"variant:{chapter}:{student.id}".encode(), hashlib.sha256
    ).hexdigest()[:12]
    return {"id": ident, "exercises": drawn}


def _with_placeholders(folder: ClassFolder, chapter: str) -> Notebook:
    """The release before numbers are filled in: the same steps without that one."""
    config = load(folder)
    name = folder.settings.assignment(chapter)
    with tempfile.TemporaryDirectory(prefix="course-variants-") as scratch:
        config.CourseDirectory.release_directory = scratch
        config.ClassNumbers.keep = True
        steps = config.GenerateAssignment.preprocessors
        config.GenerateAssignment.preprocessors = [
            step for step in steps if step is not CheckRelease
        ]  # it would miss the numbers
        generate(config, name, database=False)
        return parse((Path(scratch) / name / f"{name}.ipynb").read_text(encoding="utf-8"))


def _bundle(
    folder: ClassFolder, chapter: str, with_holes: Notebook, variant: Variant, common: Path
) -> dict[str, bytes]:
    """A student's files by name: the notebook with their numbers, figures, and `variant.json` for `params`."""
    notebook = fill(with_holes, chapter, variant, folder.exercises.all_cards(chapter))
    check_release(notebook)
    pictures = sorted(path for path in common.rglob("*") if path.is_file() and path.suffix != ".ipynb")
    files = {str(path.relative_to(common).as_posix()): path.read_bytes() for path in pictures}
    return {
        f"{folder.settings.assignment(chapter)}.ipynb": render(notebook).encode(),
        **files,
        VARIANT_FILE: (json.dumps(variant, indent=1, sort_keys=True) + "\n").encode(),
    }


def _write(folder: ClassFolder, student: Student, chapter: str, files: Mapping[str, bytes]) -> None:
    name = folder.settings.assignment(chapter)
    target = folder.root / "variants" / student.id / name
    if target.is_dir():
        shutil.rmtree(target)
    for inside, data in files.items():
        write_whole(target / inside, data)
    write_whole(target.parent / f"{name}.zip", zipped({f"{name}/{inside}": data for inside, data in files.items()}))


def zipped(files: Mapping[str, bytes]) -> bytes:
    """A zip of these files, with the same bytes each time."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.external_attr, info.compress_type = (
                (0o755 if name.endswith("/course") else 0o644) << 16,
                zipfile.ZIP_DEFLATED,
            )
            archive.writestr(info, files[name])
    return out.getvalue()


__all__ = ["ClassNumbers", "Released", "draw", "enter", "gradebook", "release_chapter", "start_gradebook", "zipped"]
