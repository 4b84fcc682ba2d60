"""The sandbox of a worker: its levels, its limits, and the parts of the system that it can see."""

import os
import shutil
import stat
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from course_grader.secrecy import is_judging
from course_lib.folders import PACKAGES, ROOT

LEVELS = ("namespaces", "contained", "none")
"""Strongest first: a file tree, network and process space of its own; Landlock and seccomp only; limits only."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/nix/store")
_OF_PYTHON = ("bin", "lib", "lib64", "share", "pyvenv.cfg")  # of a prefix, not what lies next to the environment
_OF_THE_GRADER = {
    "__init__",
    "arithmetic",
    "clean_text",
    "exercises",
    "intake",
    "notebooks",
    "records",
    "remote_ranks",
    "secrecy",
    "worker.__init__",
    "worker.notebook_worker",
    "worker.plain_values",
    "worker.process_state",
    "worker.protocol",
    "worker.rank_worker",
    "worker.ranks_in_process",
    "worker.runners",
}  # modules and packages of the grader that a worker needs
_NOT_IN_WORKER = (  # a worker has nothing that judges
    ("course_app", "cli"),
    ("course_app", "check"),
    ("course_app", "certificate"),
    ("course_grader", "remote_ranks", "remote_judge"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """Settings of the sandbox. Sizes use 10**6 and 10**9 bytes; limits hold for one submission's worker and everything
    it starts.
    """

    level: str = "namespaces"
    memory_bytes: int = 2_000_000_000  # of all its processes together, in addition to the fork server's
    processes: int = 64  # in addition to threads, of which there may be a thousand
    folder_bytes: int = 200_000_000  # its folder, /tmp and /dev/shm together
    file_bytes: int = 100_000_000
    cpu_seconds: int = 600  # of one process
    open_files: int = 256
    cell_seconds: float = 30.0  # wall time of one cell
    case_seconds: float = 30.0  # of one run of an answer, if its exercise does not allow less
    notebook_seconds: float = 300.0  # of all cells and runs together
    hidden: tuple[str, ...] = ()  # hidden even inside folders that are shown

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"Wall.level is {self.level!r}; choose from {', '.join(LEVELS)}.")
        if odd := [path for path in self.hidden if not os.path.isabs(path)]:
            raise ValueError(f"Wall.hidden holds {odd}; give whole paths.")


def trees() -> list[Path]:
    """The folders and files of the system that are shown, none inside another: Python and the system's programs."""
    prefixes = {Path(each) for each in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)}
    found = {Path(each) for each in _SYSTEM}
    found |= {prefix / part for prefix in prefixes for part in _OF_PYTHON}
    found |= {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {path.resolve() for path in found if not path.is_symlink()}
    there = sorted(path for path in found if path.exists() or path.is_symlink())
    return [path for path in there if not any(path != other and path.is_relative_to(other) for other in there)]


def course_files(root: Path = ROOT) -> Iterator[str]:
    """The course's files that a worker may have, relative to `root`: nothing that judges, no chapters."""
    for folder, _, files in sorted(each for package in PACKAGES for each in os.walk(root / package)):
        parts = tuple(part for part in os.path.relpath(folder, root).split(os.sep) if part != "__pycache__")
        yield from (
            os.path.relpath(os.path.join(folder, name), root)
            for name in sorted(files)
            if _is_workers((*parts, name.split(".")[0]))
        )


def _is_workers(parts: tuple[str, ...]) -> bool:
    """Whether a module is on the worker's side; a compiled module belongs with its source."""
    if parts[0] == "course_grader" and not ({".".join(parts[1:3]), parts[1]} & _OF_THE_GRADER):
        return False
    return not is_judging(parts) and all(parts[: len(each)] != each for each in _NOT_IN_WORKER)


def too_wide(hidden: tuple[str, ...]) -> str:
    """A hidden path inside a shown folder, which only namespaces can cover; "" if there is none."""
    shown = trees()
    return next((each for each in hidden for tree in shown if Path(each).resolve().is_relative_to(tree)), "")


def copy_plain(folder: Path, target: Path) -> None:
    """Copy plain files and folders only."""
    target.mkdir(0o700)
    for path in sorted(folder.rglob("*")):
        kind = path.lstat().st_mode
        if stat.S_ISDIR(kind):
            (target / path.relative_to(folder)).mkdir()
        elif stat.S_ISREG(kind):
            shutil.copy2(path, target / path.relative_to(folder))
