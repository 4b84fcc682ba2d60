"""The small plain files next to a notebook, and a scratch folder with copies of them."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BESIDE_BYTES = 20_000_000  # of all files next to one notebook


def files_beside(folder: Path) -> dict[str, Path]:
    """Relative path -> file, in order, up to the size limit; no links, hidden files or notebooks."""
    found: dict[str, Path] = {}
    room = BESIDE_BYTES
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in inside.parts)
        if path.is_symlink() or not path.is_file() or path.suffix == ".ipynb" or hidden:
            continue
        room -= path.stat().st_size
        if room < 0:
            break
        found[inside.as_posix()] = path
    return found


@contextmanager
def copy_of(folder: Path | None) -> Iterator[Path]:
    """A scratch folder with copies of those files, so that cells write nowhere else."""
    with tempfile.TemporaryDirectory(prefix="course-worker-", ignore_cleanup_errors=True) as scratch:
        target = Path(scratch).resolve() / "notebook"
        target.mkdir()
        for inside, path in files_beside(folder).items() if folder is not None else ():
            (target / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target / inside)
        yield target
