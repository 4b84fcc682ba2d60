"""Where runs keep what `torch.compile` has made: a folder that only runs that ended well pass on to the next.

torch writes its libraries in place, and trusts every file that it finds. A process that is killed while it writes, or a
full disk, leaves half a file, with which each later run fails until somebody deletes the folder.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows: each run compiles for itself
    fcntl = None  # type: ignore[assignment]

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"  # torch's, and where somebody has set it, the place of our folders too


@dataclass(frozen=True)
class Folder:
    """A run's folder for compiled files; those of earlier runs are in it if all of them ended well."""

    path: Path
    mark: IO[str] | None = None  # locked as long as this run lives; None where the folder is this run's alone

    @classmethod
    def take(cls, say: Callable[[str], None] | None = None) -> Folder:
        """One that no run has spoilt; `say` is told where one has."""
        try:
            return cls(*_shared(_home(), say))
        except OSError:  # no locks, a full disk, another user's folder
            return cls(Path(tempfile.mkdtemp(prefix="course-compiled-")))

    def give_back(self, well: bool) -> None:
        """The run has ended. Unless it ended well, no later one uses what it left."""
        if self.mark is None:
            shutil.rmtree(self.path, ignore_errors=True)
            return
        if well:
            Path(self.mark.name).unlink(missing_ok=True)
        self.mark.close()


def _home() -> Path:
    """Where the folders lie. OSError where it is not ours alone: a process runs what it finds there."""
    if fcntl is None:
        raise OSError("no locks")
    home = Path(os.environ.get(VARIABLE) or Path(tempfile.gettempdir()) / f"course-compiled-{os.getuid()}")
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if home.stat().st_uid != os.getuid():
        raise OSError(f"{home} is another user's")
    return home


def _shared(home: Path, say: Callable[[str], None] | None) -> tuple[Path, IO[str]]:
    """The first folder that no run has spoilt, and a mark in it that is locked as long as this run lives."""
    with (home / "lock").open("w") as door:
        fcntl.flock(door, fcntl.LOCK_EX)
        for number in itertools.count():
            path = home / str(number)
            alive = [_is_locked(each) for each in path.glob("used-*")]
            if not all(alive):
                if any(alive):  # another run has it open
                    continue
                shutil.rmtree(path)
                if say is not None:
                    say(f"run: an earlier run broke off while it may have compiled; what it left in {path} is not used")
            path.mkdir(exist_ok=True)
            mark = tempfile.NamedTemporaryFile("w", dir=path, prefix="used-", delete=False)  # noqa: SIM115 - until the run has ended
            fcntl.flock(mark, fcntl.LOCK_EX)
            return path, mark
    raise AssertionError


def _is_locked(mark: Path) -> bool:
    with mark.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
