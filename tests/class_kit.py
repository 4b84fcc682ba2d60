"""A class in miniature for the tests of classes: six students, the small chapter 01, and what they hand in."""

import io
import json
import shutil
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.new_class import new_class
from course_grader.classroom.roster import Student
from course_grader.notebooks import Notebook, parse, render
from course_lib.messages import Trouble
from tests.grading_kit import cell_of, small_course, small_source, solved_copy

CANVAS_ROSTER = """Student,ID,SIS User ID,SIS Login ID,Section,Old Assignment (12)
    Points Possible,,,,,10
"Lovelace, Ada",1001,u1,ada@uni.edu,A,9
"Hopper, Grace",1002,u2,grace@uni.edu,A,
"Turing, Alan",1003,u3,alan@uni.edu,B,
"Núñez Ångström, Zoë",1004,u4,zoe@uni.edu,B,
"Lamport, Leslie",1005,u5,leslie@uni.edu,B,
"Liskov, Barbara",1006,u6,barbara@uni.edu,A,
"Student, Test",1999,,abcdef,A,
"""
SIX = tuple(
    Student(
        id=name,
        first_name=first,
        last_name=last,
        email=f"{name}@uni.edu",
        lms_id=f"100{number}",
        login=f"{name}@uni.edu",
        section=section,
        sis_id=f"u{number}",
    )
    for name, first, last, number, section in (
        ("ada", "Ada", "Lovelace", 1, "A"),
        ("alan", "Alan", "Turing", 3, "B"),
        ("barbara", "Barbara", "Liskov", 6, "A"),
        ("grace", "Grace", "Hopper", 2, "A"),
        ("leslie", "Leslie", "Lamport", 5, "B"),
        ("zoe", "Zoë", "Núñez Ångström", 4, "B"),
    )
)
NAME = "01_small"


@dataclass(frozen=True)
class Links:
    """An entry of an archive that is a link."""

    to: str


def course_at(root: Path) -> Path:
    """A course with the small chapter alone; its root."""
    return small_course(root).root


def class_at(root: Path, course: Path, name: str = "autumn-26") -> ClassFolder:
    """A class of six on that course."""
    return new_class(root / name, name, roster=SIX, course=course)


def work(
    folder: ClassFolder, student: str, *, wrong: Mapping[str, str] | None = None, blank: tuple[str, ...] = ()
) -> Notebook:
    """What a student makes of their release: everything right but what `wrong` replaces and what stays `blank`."""
    own = folder.root / "variants" / student / NAME / f"{NAME}.ipynb"
    given = own if own.is_file() else folder.root / "release" / NAME / f"{NAME}.ipynb"
    release = parse(given.read_text(encoding="utf-8"))
    solved = solved_copy(release, small_source())
    for exercise, source in (wrong or {}).items():
        cell_of(solved, exercise)["source"] = source
    for exercise in blank:
        cell_of(solved, exercise)["source"] = cell_of(release, exercise)["source"]
    return solved


def as_bytes(notebook: Notebook) -> bytes:
    """A notebook's file."""
    return render(notebook).encode()


def archive(files: Mapping[str, bytes | Links]) -> bytes:
    """A zip of these files, links among them."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFLNK | 0o777) << 16 if isinstance(data, Links) else 0o644 << 16
            made.writestr(info, data.to if isinstance(data, Links) else data)
    return out.getvalue()


def saved(path: Path, data: bytes) -> Path:
    """A file with these bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def at(text: str) -> datetime:
    """A moment in this machine's time zone."""
    return datetime.fromisoformat(text).astimezone()


def tiny(text: str = "print('mine')", chapter: str = "01") -> bytes:
    """A notebook of a chapter with one cell in it, for what only looks at files."""
    cells = [{"cell_type": "code", "id": "own", "metadata": {}, "source": text, "outputs": [], "execution_count": None}]
    return json.dumps(
        {
            "cells": cells,
            "metadata": {"course": {"chapter": chapter}} if chapter else {},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    ).encode()


def copy_of(folder: ClassFolder, target: Path) -> ClassFolder:
    """A copy of a class, to change."""
    shutil.copytree(folder.root, target, symlinks=True)
    return ClassFolder.open(target)


def parse_here(data: bytes) -> Notebook:
    """What a child under limits does when collecting, in this process: no time is lost on starting one."""
    try:
        return parse(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Trouble("It is not UTF-8 text.", "hand in the .ipynb file") from error
