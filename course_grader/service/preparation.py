"""What a grading run needs: a clean folder, sources that can be judged, a sandbox, and processes that grade."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from course_grader.classroom.folder import ClassFolder
from course_grader.notebooks import read
from course_grader.sandbox.policy import Wall
from course_grader.service.pool import Crew, Markers
from course_lib.messages import Trouble
from course_runs.cores import cores


def sweep(root: Path) -> None:
    """Remove files that a killed run left incomplete."""
    for kind in ("reports", "autograded"):
        for part in root.glob(f"{kind}/*/*/.*.part"):
            part.unlink(missing_ok=True)


def wall_of(folder: ClassFolder, no_sandbox: bool) -> Wall | None:
    """The sandbox to grade in, or None; Trouble if there is none and this was not confirmed."""
    wall = None if no_sandbox else folder.settings.wall()
    if wall is not None and wall.level == "none":
        raise Trouble(
            "This machine has no sandbox to run students' work in.",
            "`./course doctor` says what is missing; --no-sandbox grades work that you trust",
        )
    return wall


@contextlib.contextmanager
def hands(crew: Crew | None, scheduler: str | None, jobs: int | None) -> Iterator[Crew]:
    """The processes that grade; ended when the run is over."""
    made = crew or _crew(scheduler, jobs)
    try:
        yield made
    finally:
        made.close(0.0)


def require_judged(folder: ClassFolder, chapter: str) -> None:
    """Trouble for a pinned source with its own test cells, which cannot be judged."""
    from course_grader.classroom.config import check_tests

    try:
        check_tests(read(folder.sources.path(chapter)), {card.id for card in folder.exercises.all_cards(chapter)})
    except ValueError as error:
        raise Trouble(
            f"Chapter {chapter}: {error}", f"mend the source and `./course class release {chapter}`"
        ) from error


def _crew(scheduler: str | None, jobs: int | None) -> Crew:
    if scheduler is None:
        return Markers(jobs or cores())
    from course_grader.service.dask_workers import Crew as DaskCrew

    return DaskCrew(scheduler, size=jobs)
