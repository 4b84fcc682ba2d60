"""nbgrader's configuration of a class: directories, release steps, late penalty. The class's own `nbgrader_config.py`
calls this.
"""

import json
import os
import sys
from collections.abc import Collection
from pathlib import Path

from nbconvert.exporters import NotebookExporter
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode, from_dict
from nbgrader.apps.api import NbGraderAPI
from nbgrader.converters.base import NbGraderException
from nbgrader.exchange.default import ExchangeList
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, Float, Unicode
from traitlets.config import Config, LoggingConfigurable

from course_grader.blank_notebook import STUB, TEXT_STUB
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.safe_html import protect
from course_grader.classroom.settings import FILE
from course_grader.committed_form import CHECK_SUFFIX, tidy
from course_grader.notebooks import Notebook, grade_meta, is_check
from course_grader.release_steps import NBGRADER_STEPS, CheckRelease, chapter_of, check_folder, check_source, fill

DAY = 86_400.0  # s


def configure(config: Config, root: Path) -> None:
    """Set what nbgrader needs to know about the class at `root`."""
    _put_alembic_on_the_path()
    folder = ClassFolder.open(root)
    config.CourseDirectory.course_id = folder.settings.name
    config.CourseDirectory.root = str(root)
    config.CourseDirectory.db_url = folder.settings.db_url
    config.GenerateAssignment.preprocessors = [ClassTidy, ClassNumbers, *NBGRADER_STEPS, CheckRelease]
    config.ClassTidy.class_folder = config.ClassNumbers.class_folder = str(root)
    config.ClearSolutions.code_stub = {"python": STUB}
    config.ClearSolutions.text_stub = TEXT_STUB
    if folder.settings.late_points_per_day is not None:
        config.AssignLatePenalties.plugin_class = PointsPerDay
        config.PointsPerDay.points = folder.settings.late_points_per_day
    config.Autograde.exporter_class = OnlyWithASandbox
    NbGraderAPI.autograde = refuse_to_autograde
    if place := folder.settings.data.get("exchange_root"):
        config.Exchange.root = str(place)
    else:
        config.ExchangeFactory.list = ReleasedInTheFolder
    protect(config)


def load(folder: ClassFolder) -> Config:
    """The class's configuration, as its `nbgrader_config.py` sets it."""
    config = Config()
    configure(config, folder.root)
    return config


def _put_alembic_on_the_path() -> None:
    """Put alembic on the PATH: nbgrader runs it by name to create a gradebook, which fails outside an activated
    environment.
    """
    ours = str(Path(sys.executable).parent)
    if ours not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = ours + os.pathsep + os.environ.get("PATH", "")


class _ClassStep(NbGraderPreprocessor):
    """A release step that knows the class."""

    class_folder = Unicode("", help="The class's folder.").tag(config=True)

    def folder(self) -> ClassFolder:
        """The class, with its files as they are now."""
        return ClassFolder.open(self.class_folder)


class ClassTidy(_ClassStep):
    """First step: the committed form, the class's points, and a clear error if a cell gives points that nothing can
    judge.
    """

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        """The tidied notebook."""
        chapter = chapter_of(resources["nbgrader"]["assignment"])
        check_folder(Path(resources["metadata"]["path"]))
        found = self.folder().exercises
        points = {card.id: card.points for card in found.all_cards(chapter)}
        notebook: Notebook = json.loads(json.dumps(nb))
        check_source(notebook)
        check_tests(notebook, points)
        return from_dict(tidy(notebook, chapter, points | found.by_hand(chapter))), resources


class ClassNumbers(_ClassStep):
    """Second step: numbers in place of `{{…}}`, the class's points in the headings."""

    keep = Bool(False, help="Leave the placeholders: each student's numbers come later.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        """The notebook with readable prose."""
        if self.keep:
            return nb, resources
        chapter = chapter_of(resources["nbgrader"]["assignment"])
        return from_dict(
            fill(json.loads(json.dumps(nb)), chapter, cards=self.folder().exercises.all_cards(chapter))
        ), resources


def check_tests(notebook: Notebook, known: Collection[str]) -> None:
    """ValueError names a test cell of the instructor's own: it would run where the answers do, and so prove nothing."""
    for cell in notebook["cells"]:
        exercise = grade_meta(cell).get("grade_id", "").removesuffix(CHECK_SUFFIX)
        if is_check(cell) and cell["cell_type"] == "code" and exercise not in known:
            raise ValueError(
                f"Cell {cell.get('id', '?')!r} gives points for {exercise!r}, which is not an exercise of this class: "
                "make it one (`./course exercise new`), or a cell that is graded by hand (nbgrader: Manually graded)."
            )


REFUSAL = "Use `./course class grade`: it grades in a sandbox. Nothing was changed."


_AUTOGRADE = NbGraderAPI.autograde


def refuse_to_autograde(api: NbGraderAPI, *args: object, **kwargs: object) -> dict[str, object]:
    """Formgrader's button "Autograde" in a class: a sentence, where nbgrader would show the traceback of the
    refusal."""
    if not (Path(api.coursedir.root) / FILE).is_file():
        return _AUTOGRADE(api, *args, **kwargs)
    return {"success": False, "log": REFUSAL}  # without an "error", which its page would call a traceback


class ReleasedInTheFolder(ExchangeList):
    """What formgrader takes for released in a class without an exchange: the chapters in the folder `release/`."""

    def start(self) -> list[dict[str, str]]:
        """One entry for each released chapter; nothing is inbound or cached."""
        if self.inbound or self.cached:
            return []
        names = sorted(path.name for path in (Path(self.coursedir.root) / "release").glob("*") if path.is_dir())
        return [
            {"course_id": self.coursedir.course_id, "assignment_id": name, "status": "released", "path": ""}
            for name in names
            if self.coursedir.assignment_id in ("", name)
        ]


class OnlyWithASandbox(NotebookExporter):
    """Replaces the first step of nbgrader's own autograder, and refuses to run before anything is changed.

    nbgrader's autograder would run students' work with the instructor's rights, and take points from what the work
    prints.
    """

    def __init__(self, *_: object, parent: LoggingConfigurable, **__: object) -> None:
        parent.log.error(REFUSAL)
        raise NbGraderException(REFUSAL)


class PointsPerDay(LateSubmissionPlugin):
    """Points lost for each started day that a submission is late."""

    points = Float(1.0, help="Points lost per day late.").tag(config=True)

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float | None:
        """Points to subtract, at most the points earned."""
        days = -(-total_seconds_late // DAY)
        return min(self.points * days, score) if days > 0 else None
