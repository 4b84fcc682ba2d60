"""Read files from an untrusted folder or archive. Links, odd paths, zip bombs and floods are refused, with a line for
each.
"""

import contextlib
import io
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from course_grader.classroom.lms import is_notebook
from course_grader.clean_text import clean
from course_grader.intake import MAX_BYTES
from course_lib.messages import Trouble

MAX_FILES = 50_000  # in one archive or folder
MAX_TOTAL = 20_000_000_000  # bytes that an archive may claim to unpack to
_BOMB = 300  # largest compression ratio; a notebook full of zeros reaches 20
_SMALL = 1_000_000  # smaller files are not zip bombs
_ODD = re.compile(r"[\x00-\x1f\x7f:]")
_LEAVES = ("__MACOSX", ".ipynb_checkpoints", "__pycache__", "Thumbs.db", "desktop.ini")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One file: its path in the archive, and how to read it (Refused if it turns out to be something else)."""

    name: str
    size: int
    read: Callable[[], bytes]

    @property
    def path(self) -> PurePosixPath:
        """The path inside."""
        return PurePosixPath(self.name)


class Refused(Exception):
    """A file that is not taken, and why."""


@dataclass
class Heap:
    """The files that can be taken, and a line for each one that is not."""

    pieces: list[Piece] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def refuse(self, name: str, why: str) -> None:
        """Record that a file is not taken."""
        self.refused.append(f"{clean(name, 200)}: {why}")


def unpack(source: Path) -> Heap:
    """The files of a folder, an archive, or one notebook; Trouble if `source` is none of these."""
    if source.is_dir():
        return _folder(source)
    if not source.is_file():
        raise Trouble(f"There is no {source}.", "give the folder or the zip that was downloaded")
    if is_notebook(source.name):
        heap = Heap()
        _take(heap, source, source.name)
        return heap
    try:
        with source.open("rb") as file:
            return (
                _archive(file.read(), source.name)
                if source.stat().st_size < MAX_BYTES
                else _archive(source, source.name)
            )
    except zipfile.BadZipFile as error:
        raise Trouble(
            f"{source} is not a whole zip archive ({error}).",
            "download it again; other kinds of archive: unpack them and give the folder",
        ) from error


# ------------------------------------------------------------------------------------------------ a folder


def _folder(top: Path) -> Heap:
    heap = Heap()
    for folder, names, files in os.walk(top):
        for name in sorted(names):
            if (Path(folder) / name).is_symlink():
                heap.refuse(_inside(Path(folder) / name, top), "a link to another folder")
        names[:] = sorted(name for name in names if not _is_leaf(name) and not (Path(folder) / name).is_symlink())
        for name in sorted(files):
            if not _is_leaf(name):
                _take(heap, Path(folder) / name, _inside(Path(folder) / name, top))
        if len(heap.pieces) > MAX_FILES:
            raise Trouble(
                f"{top} holds more than {MAX_FILES:,} files.", "give the folder of one assignment's submissions"
            )
    return heap


def _inside(path: Path, top: Path) -> str:
    return path.relative_to(top).as_posix()


def _take(heap: Heap, path: Path, name: str) -> None:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        heap.refuse(name, "a link to another file")
    elif not stat.S_ISREG(found.st_mode):
        heap.refuse(name, "not a plain file")
    elif found.st_size > MAX_BYTES:
        heap.refuse(name, _too_large(found.st_size))
    else:
        heap.pieces.append(Piece(name=name, size=found.st_size, read=lambda: _read(path, name)))


def _read(path: Path, name: str) -> bytes:
    """A file's bytes. A file that has become a link since it was listed is not followed."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise Refused(f"{clean(name, 200)}: cannot be read ({error.strerror})") from error
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Refused(f"{clean(name, 200)}: not a plain file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Refused(f"{clean(name, 200)}: {_too_large(len(data))}")
    return data


def _too_large(size: int) -> str:
    return f"{size / 1e6:,.0f} MB; at most {MAX_BYTES / 1e6:.0f} MB are taken"


def _is_leaf(name: str) -> bool:
    return name.startswith(".") or name in _LEAVES


# ------------------------------------------------------------------------------------------------ an archive


def archive_in(data: bytes, name: str) -> Heap:
    """The files of an archive inside a submission, with the archive's name in theirs."""
    try:
        inside = _archive(data, name)
    except (zipfile.BadZipFile, Trouble) as error:
        heap = Heap()
        heap.refuse(name, f"not a whole zip archive ({error.problem if isinstance(error, Trouble) else error})")
        return heap
    return Heap(pieces=inside.pieces, refused=[f"{clean(name, 200)} → {line}" for line in inside.refused])


def _archive(source: bytes | Path, name: str) -> Heap:
    """The files of an archive, not read yet."""
    archive = zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source)
    entries = [(path, info) for info in archive.infolist() if not (path := _path_of(info)).endswith("/")]
    total = sum(info.file_size for _, info in entries)
    if len(entries) > MAX_FILES or total > MAX_TOTAL:
        raise Trouble(
            f"{name} says that it holds {len(entries):,} files of {total / 1e9:,.1f} GB together.",
            "look at it by hand: no class hands in so much",
        )
    heap = Heap()
    seen: dict[str, list[tuple[str, zipfile.ZipInfo]]] = {}
    for path, info in entries:
        seen.setdefault(_folded(path), []).append((path, info))
    for same in seen.values():
        path, info = same[0]
        if len(same) > 1:
            heap.refuse(path, f"is in the archive {len(same)} times")
        elif why := _why_not(path, info):
            heap.refuse(path, why)
        elif not any(_is_leaf(part) for part in PurePosixPath(path).parts):
            heap.pieces.append(Piece(name=path, size=info.file_size, read=_reader(archive, info)))
    return heap


def _path_of(info: zipfile.ZipInfo) -> str:
    """An entry's path. Some programs write UTF-8 names without saying so (macOS's Finder), or `\\` for `/` (older
    Windows).
    """
    name = info.filename
    if not info.flag_bits & 0x800:
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode("utf-8")
    return name.replace("\\", "/")


def _folded(name: str) -> str:
    return str(PurePosixPath(name)).casefold()


def _why_not(name: str, info: zipfile.ZipInfo) -> str:
    """Why an entry is refused; "" if it is not."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or _ODD.search(name):
        return "its path leads out of the archive, or holds characters that no file's name needs"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "a link to another file"
    if info.flag_bits & 1:
        return "it is encrypted"
    if info.file_size > MAX_BYTES:
        return _too_large(info.file_size)
    if info.file_size > _SMALL and info.file_size > _BOMB * max(info.compress_size, 1):
        return f"{info.file_size / 1e6:,.0f} MB packed into {info.compress_size / 1e3:,.0f} kB: not unpacked"
    return ""


def _reader(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Callable[[], bytes]:
    def read() -> bytes:
        try:
            with archive.open(info) as file:
                data = file.read(MAX_BYTES + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
            raise Refused(f"{clean(info.filename, 200)}: cannot be unpacked ({error})") from error
        if len(data) > MAX_BYTES:
            raise Refused(f"{clean(info.filename, 200)}: {_too_large(len(data))}")
        return data

    return read


def each_with_archives(heap: Heap, read: Callable[[Piece], bytes | None]) -> Iterator[Piece]:
    """The pieces, with every zip replaced by its content (one level deep)."""
    for piece in list(heap.pieces):
        if piece.path.suffix.lower() != ".zip":
            yield piece
            continue
        data = read(piece)
        if data is None:
            continue
        inside = archive_in(data, piece.name)
        heap.refused += inside.refused
        for each in inside.pieces:
            if each.path.suffix.lower() == ".zip":
                heap.refuse(f"{piece.name} → {each.name}", "an archive in an archive in an archive")
            else:
                yield Piece(name=f"{piece.name}/{each.name}", size=each.size, read=each.read)
