"""The small plain files that lie beside a notebook: which they are, and a scratch folder with copies of them."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BESIDE_BYTES = 20_000_000  # of all files beside one notebook


def files_beside(folder: Path) -> dict[str, Path]:
    """Path from the folder -> file, in order, as many as fit; no links, nothing hidden and no notebooks."""
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
    """A scratch folder with copies of those files: what cells write goes nowhere else."""
    with tempfile.TemporaryDirectory(prefix="course-worker-", ignore_cleanup_errors=True) as scratch:
        target = Path(scratch).resolve() / "notebook"
        target.mkdir()
        for inside, path in files_beside(folder).items() if folder is not None else ():
            (target / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target / inside)
        yield target
