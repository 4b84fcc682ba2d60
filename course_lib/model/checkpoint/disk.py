"""A disk as a checkpoint sees it: seven operations, of which two make the others survive a power failure.

After `write` or `rename` returns, other processes see the result, and it survives the death of this process. It
survives a power failure only after `sync` (a file's bytes) and `sync_folder` (the names in a folder). `Disk` is the
real one; `MemoryDisk` of chapter 14 forgets what was not synced, as a real one may.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

CHUNK = 1 << 22  # bytes read at a time


class Disk:
    """The real disk. Paths are the operating system's."""

    def make_folder(self, path: str | Path) -> None:
        """Create a folder and those above it; harmless if it is there."""
        Path(path).mkdir(parents=True, exist_ok=True)

    def write(self, path: str | Path, chunks: Iterable[bytes | memoryview]) -> None:
        """Create a file, or replace its content, with these bytes."""
        with Path(path).open("wb") as file:
            for chunk in chunks:
                file.write(chunk)

    def sync(self, path: str | Path) -> None:
        """Return once a file's bytes would survive a power failure (fsync)."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, old: str | Path, new: str | Path) -> None:
        """Give a file another name in one indivisible step, replacing what has that name."""
        os.replace(old, new)

    def sync_folder(self, path: str | Path) -> None:
        """Return once the names in a folder would survive a power failure."""
        if os.name != "nt":  # Windows cannot open folders, and orders renames by itself
            self.sync(path)

    def remove(self, path: str | Path) -> None:
        """Remove a file, or a folder with everything in it; harmless if it is gone."""
        path = Path(path)
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def read(self, path: str | Path, start: int = 0, stop: int | None = None) -> Iterable[bytes]:
        """The bytes from `start` to `stop` (None: the end), in chunks. FileNotFoundError if there is no such file."""
        with Path(path).open("rb") as file:
            file.seek(start)
            left = stop - start if stop is not None else None
            while left is None or left > 0:
                chunk = file.read(CHUNK if left is None else min(CHUNK, left))
                if not chunk:
                    return
                left = None if left is None else left - len(chunk)
                yield chunk

    def size(self, path: str | Path) -> int:
        """A file's length in bytes; FileNotFoundError if there is none."""
        return Path(path).stat().st_size

    def names(self, folder: str | Path) -> list[str]:
        """The names in a folder, sorted; empty if there is no such folder."""
        try:
            return sorted(os.listdir(folder))
        except FileNotFoundError:
            return []


def write_durably(disk: Disk, path: str | Path, data: bytes) -> None:
    """A small file that is there whole or not at all, whatever happens: write another name, sync it, rename it, sync
    the folder."""
    path = Path(path)
    part = path.with_name(path.name + ".part")
    disk.write(part, [data])
    disk.sync(part)
    disk.rename(part, path)
    disk.sync_folder(path.parent)
