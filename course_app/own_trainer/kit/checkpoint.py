"""A training that is stopped half-way and goes on in a new trainer, from a file."""

import io
import os
from dataclasses import replace
from pathlib import Path

import torch


class Disk:
    """A folder with the calls that the parts `save` and `load` make."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, data: bytes) -> None:
        """Write a file; its content is safe only after `sync`."""
        (self.folder / name).write_bytes(data)

    def read(self, name: str) -> bytes:
        """A file's content."""
        return (self.folder / name).read_bytes()

    def names(self) -> list[str]:
        """The files that there are."""
        return sorted(path.name for path in self.folder.iterdir())

    def rename(self, old: str, new: str) -> None:
        """Give a file another name."""
        os.replace(self.folder / old, self.folder / new)

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.folder / name).unlink()

    def sync(self, name: str) -> None:
        """Make a file's content safe."""
        with open(self.folder / name, "rb+") as file:
            os.fsync(file.fileno())

    def sync_folder(self) -> None:
        """Make the names safe."""
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def move_to_a_new_trainer(trainer, make, parts, folder: Path):
    """Save `trainer` on `folder`, and return a new one, made by `make(settings)`, that goes on from the file."""
    disk, blob = Disk(folder), io.BytesIO()
    torch.save(parts.snapshot(trainer), blob)
    parts.save(disk, trainer.schedule.done, blob.getvalue())
    other = make(replace(trainer.s, seed=trainer.s.seed + 1))
    other.step()
    _, data = parts.load(disk)
    parts.restore(other, torch.load(io.BytesIO(data), weights_only=True))
    return other
