"""What students of a class get of the course: the library and the class's chapters, without answers and without what
judges.
"""

import zipfile
from collections.abc import Iterator
from pathlib import Path

from course_lib.grading.classroom.folder import ClassFolder
from course_lib.grading.classroom.release import zipped
from course_lib.install import ROOT
from course_lib.learner.notebooks import write_whole
from course_lib.secrecy import is_judging

TOP = ("course", "environment.yml", "LICENSE", "pyproject.toml", "README.md", "requirements.lock")
WITHOUT = ("grading/", "benchmarks/", "site/")  # below course_lib/, in addition to everything that judges
_NEVER = ("__pycache__", ".ipynb_checkpoints")


def bundle(folder: ClassFolder, root: Path = ROOT) -> dict[str, bytes]:
    """Path -> bytes. In this copy, a check in a notebook says that the answer is judged once it is handed in."""
    files = {name: (root / name).read_bytes() for name in TOP if (root / name).is_file()}
    for path in _below(root / "course_lib"):
        inside = path.relative_to(root / "course_lib").as_posix()
        if not inside.startswith(WITHOUT) and not is_judging(inside.removesuffix(".py").split("/")):
            files[f"course_lib/{inside}"] = path.read_bytes()
    for path in _below(folder.root / "release"):
        inside = path.relative_to(folder.root / "release").as_posix()
        if "/" in inside:  # a chapter's own files
            files[f"notebooks/{inside}"] = path.read_bytes()
    return {f"{folder.settings.name}/{name}": data for name, data in files.items()}


def _below(top: Path) -> Iterator[Path]:
    for path in sorted(top.rglob("*")):
        if (
            path.is_file()
            and not path.is_symlink()
            and not any(part in _NEVER or part.startswith(".") for part in path.relative_to(top).parts)
        ):
            yield path


def write_bundle(folder: ClassFolder, root: Path = ROOT) -> Path:
    """Write `release/course.zip`, in which the `course` script is executable, and return its path."""
    target = folder.root / "release" / "course.zip"
    write_whole(target, zipped(bundle(folder, root)))
    with zipfile.ZipFile(target) as made:  # do not hand out a file that cannot be read back
        made.testzip()
    return target
