"""Checkpoints that survive: a folder for each, and a manifest that makes it count.

    run/step-00000040.9f3a61c2/part-0.bin    each rank's bytes, written and synced
    run/step-00000040.9f3a61c2/part-0.json   its record: length and SHA-256 of what the rank wrote, renamed into place
    run/step-00000040.9f3a61c2/manifest.json all records, written last by rank 0; then the folder's name is synced

A checkpoint is complete once its manifest is there; before, it does not exist for a reader. So a process may be killed
and the power may fail at any moment. `newest` checks every byte it promises; if a complete checkpoint was damaged
since, it says how and takes the one before. The attempt in a folder's name keeps apart what a killed run and its
successor write for the same step. Ranks meet in the folder alone, without a collective, so saving can go on in the
background. What the parts contain is up to the caller.
"""

import errno
import hashlib
import json
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.estimate.units import require_whole
from course_lib.model.checkpoint.disk import Disk, write_durably

VERSION = 1
_FOLDER = re.compile(r"step-(\d{8,})\.([0-9a-z-]+)")
_PATIENCE = 120.0  # s that rank 0 waits for the other ranks' records


class CheckpointError(Exception):
    """What is wrong with a checkpoint, or with saving one. `.kind` is one of KINDS."""

    KINDS = (
        "missing part",
        "torn",
        "checksum",
        "manifest",
        "other model",
        "other version",
        "no space",
        "no checkpoint",
    )

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint."""

    step: int
    folder: Path
    ranks: int
    model: str  # what the saver said that it is a checkpoint of
    files: Mapping[str, tuple[int, str]]  # name -> bytes, SHA-256
    notes: Mapping[str, Any]  # the saver's own, by rank ("0", "1", …) and "all"
    damaged: tuple[CheckpointError, ...] = field(default=())  # newer ones that could not be used


class CheckpointStore:
    """The checkpoints of one run in one folder, which all ranks share."""

    def __init__(self, folder: str | Path, model: str = "", keep: int = 2, disk: Disk | None = None) -> None:
        self.folder, self.model = Path(folder), model
        self.keep = require_whole("keep", keep, "checkpoints")
        self.disk = disk or Disk()

    # --- writing

    def begin(self, step: int, attempt: str) -> Path:
        """The folder into which all ranks write step `step`. They must name the same attempt: see `new_attempt`."""
        folder = self.folder / f"step-{require_whole('step', step, least=0):08d}.{attempt}"
        if not _FOLDER.fullmatch(folder.name):
            raise ValueError(f"attempt is {attempt!r}; use digits, small letters and hyphens, as `new_attempt` does.")
        if "manifest.json" in self.disk.names(folder):
            raise ValueError(f"{folder.name} is complete; a new attempt needs a new name.")
        with _named_if_full(folder):
            self.disk.make_folder(folder)
        return folder

    def write_part(self, folder: Path, rank: int, chunks: Iterable[bytes | memoryview], notes: object = None) -> int:
        """Write this rank's bytes as one file and record it; the number of bytes."""
        path, digest, count = folder / f"part-{rank}.bin", hashlib.sha256(), 0

        def counted() -> Iterable[bytes | memoryview]:
            nonlocal count
            for chunk in chunks:
                digest.update(chunk)
                count += len(chunk)
                yield chunk

        with _named_if_full(folder):
            self.disk.write(path, counted())
            self.disk.sync(path)
            self._record(folder, rank, {path.name: (count, digest.hexdigest())}, notes)
        return count

    def record(self, folder: Path, rank: int, names: Iterable[str], notes: object = None) -> None:
        """Record files that something else wrote into the folder, such as `torch.distributed.checkpoint`."""
        files = {}
        with _named_if_full(folder):
            for name in names:
                self.disk.sync(folder / name)
                self.disk.sync_folder((folder / name).parent)
                files[name] = self._seen(folder / name)
            self._record(folder, rank, files, notes)

    def _record(self, folder: Path, rank: int, files: Mapping[str, tuple[int, str]], notes: object) -> None:
        content = {"rank": rank, "files": files, "notes": notes}
        write_durably(self.disk, folder / f"part-{rank}.json", json.dumps(content).encode())

    def commit(
        self,
        folder: Path,
        ranks: int,
        notes: object = None,
        patience: float = _PATIENCE,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """On rank 0: wait for all records, make the checkpoint count, remove the oldest. CheckpointError if a part is
        missing."""
        require_whole("ranks", ranks, "ranks")
        until, pause = time.monotonic() + patience, 0.001
        while missing := [rank for rank in range(ranks) if f"part-{rank}.json" not in self.disk.names(folder)]:
            if time.monotonic() > until:
                raise CheckpointError(
                    "missing part",
                    f"{folder.name}: no record from rank {missing[0]} of {ranks} within {patience:g} s; not committed.",
                )
            wait(pause)
            pause = min(pause * 1.5, 0.05)
        files: dict[str, object] = {}
        said = {"all": notes}
        for rank in range(ranks):
            record = json.loads(b"".join(self.disk.read(folder / f"part-{rank}.json")))
            files |= record["files"]
            said[str(rank)] = record["notes"]
        content = {
            "version": VERSION, "step": _step_of(folder), "ranks": ranks, "model": self.model,
            "files": files, "notes": said,
        }  # fmt: skip
        with _named_if_full(folder):
            for above in (
                self.folder.parent,
                self.folder,
            ):  # the folder's own name, before anything says that it counts
                self.disk.sync_folder(above)
            write_durably(self.disk, folder / "manifest.json", _sealed(content))
        self.clean()

    def clean(self) -> None:
        """Remove all but the newest `keep` complete checkpoints, and what is unfinished and older than the newest."""
        complete = self._complete()
        if not complete:
            return
        kept = set(complete[: self.keep])
        for path in self._folders():
            if path not in kept and _step_of(path) <= _step_of(complete[0]):
                self._remove(path)

    def _remove(self, path: Path) -> None:
        self.disk.remove(path / "manifest.json")  # first, so that half a folder never counts
        self.disk.sync_folder(path)
        self.disk.remove(path)

    # --- reading

    def newest(self, check: bool = True, at_most: int | None = None) -> Checkpoint | None:
        """The newest complete and undamaged checkpoint, with what was wrong with newer ones; None if nothing was ever
        completed.

        `at_most`: of this step or an earlier one.

        `check`: read and hash every file. CheckpointError if it is one of another model or of a newer version, or if
        there are complete checkpoints and all are damaged. Nothing is removed or written.
        """
        damaged: list[CheckpointError] = []
        for folder in self._complete():
            if at_most is not None and _step_of(folder) > at_most:
                continue
            try:
                found = self._manifest(folder)
                if check:
                    self.verify(found)
                return Checkpoint(**{**found.__dict__, "damaged": tuple(damaged)})
            except CheckpointError as error:
                if error.kind in ("other model", "other version"):
                    raise
                damaged.append(error)
        if damaged:
            raise CheckpointError("no checkpoint", "Every checkpoint is damaged: " + "; ".join(map(str, damaged)))
        return None

    def verify(self, found: Checkpoint, rank: int = 0, ranks: int = 1) -> None:
        """CheckpointError if a file differs from the manifest. With `ranks`, each checks its share of the files."""
        for name in sorted(found.files)[rank::ranks]:
            nbytes, digest = found.files[name]
            path = found.folder / name
            try:
                size = self.disk.size(path)
            except FileNotFoundError:
                raise CheckpointError("missing part", f"{found.folder.name}: {name} is missing.") from None
            if size != nbytes:
                raise CheckpointError("torn", f"{found.folder.name}: {name} has {size:,} bytes of {nbytes:,}.")
            if self._seen(path)[1] != digest:
                raise CheckpointError(
                    "checksum", f"{found.folder.name}: the bytes of {name} are not those that were written."
                )

    def steps(self) -> list[int]:
        """The steps of all complete checkpoints, newest first."""
        return [_step_of(folder) for folder in self._complete()]

    def _folders(self) -> list[Path]:
        return [self.folder / name for name in self.disk.names(self.folder) if _FOLDER.fullmatch(name)]

    def _complete(self) -> list[Path]:
        whole = [path for path in self._folders() if "manifest.json" in self.disk.names(path)]
        return sorted(whole, key=lambda path: (_step_of(path), path.name), reverse=True)

    def _manifest(self, folder: Path) -> Checkpoint:
        try:
            content = json.loads(b"".join(self.disk.read(folder / "manifest.json")))
            sealed, digest = {key: value for key, value in content.items() if key != "sha256"}, content["sha256"]
        except (ValueError, KeyError, TypeError, AttributeError, FileNotFoundError):
            raise CheckpointError("manifest", f"{folder.name}: its manifest cannot be read.") from None
        if json.loads(_sealed(sealed))["sha256"] != digest:
            raise CheckpointError("manifest", f"{folder.name}: its manifest is not the one that was written.")
        if content["version"] != VERSION:
            raise CheckpointError(
                "other version", f"{folder.name} has format version {content['version']}; this library reads {VERSION}."
            )
        if self.model and content["model"] != self.model:
            raise CheckpointError(
                "other model", f"{folder.name} is of {content['model']!r}, and this run is of {self.model!r}."
            )
        files = {name: (int(nbytes), digest) for name, (nbytes, digest) in content["files"].items()}
        return Checkpoint(content["step"], folder, content["ranks"], content["model"], files, content["notes"])

    def _seen(self, path: Path) -> tuple[int, str]:
        digest, count = hashlib.sha256(), 0
        for chunk in self.disk.read(path):
            digest.update(chunk)
            count += len(chunk)
        return count, digest.hexdigest()


def new_attempt() -> str:
    """A name for one attempt at writing. Draw it on one rank and send it to the others."""
    return uuid.uuid4().hex[:8]


def _step_of(folder: Path) -> int:
    found = _FOLDER.fullmatch(folder.name)
    assert found
    return int(found[1])


def _sealed(content: Mapping[str, object]) -> bytes:
    """JSON with the hash of all else in it."""
    text = json.dumps(content, sort_keys=True)
    return json.dumps(
        {**json.loads(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}, sort_keys=True
    ).encode()


class _named_if_full:  # noqa: N801 - a context manager, used like a function
    """Turns "no space left" into a CheckpointError that names the folder; what is unfinished stays unfinished."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise CheckpointError(
                "no space",
                f"No space left for {self.folder.name}; it is not complete, and earlier checkpoints are untouched.",
            ) from error
