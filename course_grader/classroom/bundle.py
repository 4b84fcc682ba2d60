"""What students of a class get of the course: the library and the class's chapters, without answers and without what
judges.
"""

import zipfile
from collections.abc import Iterator
from pathlib import Path

from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.release import zipped
from course_grader.notebooks import write_whole
from course_grader.secrecy import is_judging
from course_lib.folders import PACKAGES, ROOT

TOP = ("course", "environment.yml", "LICENSE", "pyproject.toml", "requirements.lock")
WITHOUT = ("course_app/site/", "course_app/check/", "course_app/certificate/")  # in addition to everything that judges
OF_THE_GRADER = (
    "__init__.py",
    "arithmetic.py",
    "notebooks.py",
    "records.py",
    "secrecy.py",
    "exercises/",
)  # that cards and notebooks need
README = """# {name}

This folder is what students of {name} need of the course "Training at Scale": {chapters}, and the library that they
import. It needs Python 3.11, 3.12 or 3.13, about 2 GB of disk, and neither an account nor a GPU.

```sh
sh course learn         # sets everything up in .venv, once, copies the chapters to work/ and opens JupyterLab
./course learn {first}       # from then on: opens a chapter
./course submit {first}      # writes the file that you hand in, and a receipt; save the notebook first
```

On Windows: `py -m course_app learn`, and the same with the other commands.

Your answers are judged after you hand them in: a check in a notebook says so, and runs nothing. Hints, predictions and
pictures work as you read. Work in `work/`; nothing there is ever overwritten. When your instructor gives out a newer
`course.zip`, unpack it over this folder; `./course update {first}` then brings your answers into a newer release of
that chapter.

| Command | |
|---|---|
| `./course doctor` | looks at this machine and says what is missing |
| `./course run` | real runs on this machine's processors or GPUs |
| `./course plan` | the best layouts of a model on a cluster |
| `./course --help` | all commands; those that need judges or the course's answers are not in this copy, and say so |
"""
_NEVER = ("__pycache__", ".ipynb_checkpoints")


def bundle(folder: ClassFolder, root: Path = ROOT) -> dict[str, bytes]:
    """Path -> bytes. In this copy, a check in a notebook says that the answer is judged once it is handed in."""
    files = {name: (root / name).read_bytes() for name in TOP if (root / name).is_file()}
    files["README.md"] = _readme(folder).encode()
    for path in (path for package in PACKAGES for path in _below(root / package)):
        inside = path.relative_to(root).as_posix()
        if inside.startswith("course_grader/") and not inside.removeprefix("course_grader/").startswith(OF_THE_GRADER):
            continue
        if not inside.startswith(WITHOUT) and not is_judging(inside.removesuffix(".py").split("/")):
            files[inside] = path.read_bytes()
    for path in _below(folder.root / "release"):
        inside = path.relative_to(folder.root / "release").as_posix()
        if "/" in inside:  # a chapter's own files
            files[f"notebooks/{inside}"] = path.read_bytes()
    return {f"{folder.settings.name}/{name}": data for name, data in files.items()}


def _readme(folder: ClassFolder) -> str:
    numbers = sorted(path.name[:2] for path in (folder.root / "release").glob("[0-9][0-9]_*"))
    chapters = f"{'chapter' if len(numbers) == 1 else 'chapters'} {', '.join(numbers)}" if numbers else "no chapter yet"
    return README.format(name=folder.settings.name, chapters=chapters, first=(numbers or ["01"])[0])


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
