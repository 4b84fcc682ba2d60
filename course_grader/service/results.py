"""What passes between the processes that grade, as plain JSON data: a task, and its result, the report that is kept."""

from collections.abc import Mapping
from typing import TypedDict

from course_grader.judge.report import ReportData

Anomaly = dict[str, str]  # kind, exercise and text of a sign that an instructor should look at


class Fingerprint(TypedDict):
    """An answer's structure, without names, comments and layout."""

    shape: str  # a hash
    size: int  # nodes of the syntax tree


class Task(TypedDict, total=False):
    """One submission, and everything that decides its points."""

    key: str
    student: str
    chapter: str
    assignment: str
    contract: str
    source: str  # the chapter's own notebook
    points: Mapping[str, float]  # by exercise, as all of these
    drawn: Mapping[str, Mapping[str, object]]  # parameters of the student's variant
    others: Mapping[str, Mapping[str, Mapping[str, object]]]  # of other students' variants, by student
    secret: str
    overlay: str  # the folder of the class's own exercises, or ""
    wall: dict[str, object] | None  # fields of the sandbox's `Wall`
    only: list[str]
    closed_words: bool
    refused: str  # why the notebook must not be read, or ""
    notebook: str  # bytes in base64, as in `files`
    files: Mapping[str, str]
    notebook_sha256: str


class Result(TypedDict, total=False):
    """A graded submission."""

    key: str
    student: str
    chapter: str
    assignment: str
    contract: str
    notebook_sha256: str
    level: str  # of the sandbox
    state: str  # graded, refused or failed
    why: str
    points: float
    maximum: float
    reports: list[ReportData]
    notes: list[str]
    anomalies: list[Anomaly]
    answers: dict[str, Fingerprint]
    autograded: str  # the notebook for graders, which is no part of the report
    seconds: dict[str, float]
    graded_at: str
    changes: list[Mapping[str, object]]
