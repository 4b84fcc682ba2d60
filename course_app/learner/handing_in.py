"""`course submit`: a chapter's saved state as a file to hand in, with a receipt. Standard library only."""

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from course_app.learner import work
from course_grader import notebooks
from course_grader.blank_notebook import STUB, TEXT_STUB
from course_grader.notebooks import Notebook, grade_meta, is_answer, write_whole
from course_lib.messages import Trouble

RECEIPT = "receipt.json"
_BESIDE = (".py", ".json", ".csv", ".txt", ".npz", ".toml")  # what a notebook's own cells may need
_BESIDE_BYTES = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HandIn:
    """What was written."""

    chapter: str
    path: Path
    receipt: Path
    sha256: str  # of the notebook
    saved: datetime  # when the notebook was saved last
    answers: int
    unanswered: tuple[str, ...]  # exercise ids


def hand_in(
    target: str, where: work.Folders, *, to: Path | None = None, name: str = "", now: datetime | None = None
) -> HandIn:
    """Write a chapter, or a notebook anywhere, as a zip (or as the notebook, where `name` ends so), and read it
    back."""
    path = _notebook(target, where)
    notebook = notebooks.read(path)
    data = path.read_bytes()
    answers, open_ = _answers(notebook)
    chapter = notebooks.chapter_of(notebook) or path.stem
    if not answers:
        raise Trouble(
            f"{path} holds no answer cells of the course.", "hand in your copy of a chapter: `./course submit 06`"
        )
    now = now or datetime.now().astimezone()
    digest = hashlib.sha256(data).hexdigest()
    saved = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
    receipt = {
        "chapter": chapter,
        "notebook": path.name,
        "sha256": digest,
        "saved": saved.isoformat(timespec="seconds"),
        "written": now.isoformat(timespec="seconds"),
        "answers": answers,
        "unanswered": list(open_),
    }
    folder = (to or where.work / "submissions").expanduser()
    file = folder / _name(name, path, now)
    blob = data if file.suffix == ".ipynb" else _zip(path, data, receipt)
    write_whole(file, blob)
    _read_back(file, path.name, digest)
    beside = file.with_name(f"{file.stem}.{RECEIPT}")
    write_whole(beside, json.dumps(receipt, indent=1) + "\n")
    return HandIn(
        chapter=chapter, path=file, receipt=beside, sha256=digest, saved=saved, answers=answers, unanswered=open_
    )


def _notebook(target: str, where: work.Folders) -> Path:
    """The learner's copy of a chapter, or the notebook that a path names."""
    path = Path(target).expanduser()
    if target.endswith(".ipynb") or path.is_file():
        if not path.is_file():
            raise Trouble(f"There is no {path}.", "give the path of your notebook, or the chapter's number")
        return path
    if path.is_dir() and len(found := sorted(path.glob("*.ipynb"))) == 1:
        return found[0]
    chapter = work.find_chapter(target, where)
    if chapter.mine is None:
        raise Trouble(
            f"There is no copy of {chapter.name} in {where.work}.",
            "`./course learn` copies the chapters there; or give the notebook's path",
        )
    return chapter.mine


def _answers(notebook: Notebook) -> tuple[int, tuple[str, ...]]:
    """How many answer cells there are, and whose still hold the stub."""
    cells = [cell for cell in notebook["cells"] if is_answer(cell)]
    return len(cells), tuple(
        grade_meta(cell)["grade_id"]
        for cell in cells
        if STUB in cell["source"] or TEXT_STUB in cell["source"] or not cell["source"].strip()
    )


def _name(name: str, path: Path, now: datetime) -> str:
    """The file's name: as asked, with .zip where it says nothing; by default the notebook's with the time."""
    if not name:
        return f"{path.stem}-{now:%Y-%m-%d-%H%M}.zip"
    if "/" in name or "\\" in name or name.startswith("."):
        raise Trouble(f"{name!r} cannot be a file's name.", "--to names the folder, --name only the file")
    return name if re.search(r"\.(zip|ipynb)$", name) else f"{name}.zip"


def _zip(path: Path, data: bytes, receipt: Mapping[str, object]) -> bytes:
    """The notebook, small files of the learner's own beside it, and the receipt."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{path.stem}/{path.name}", data)
        for each in sorted(path.parent.glob("*")):
            if (
                each.suffix in _BESIDE
                and each.is_file()
                and not each.is_symlink()
                and each.stat().st_size < _BESIDE_BYTES
                and each.name != RECEIPT
            ):
                archive.writestr(f"{path.stem}/{each.name}", each.read_bytes())
        archive.writestr(f"{path.stem}/{RECEIPT}", json.dumps(receipt, indent=1) + "\n")
    return out.getvalue()


def _read_back(file: Path, name: str, digest: str) -> None:
    """Trouble unless what was written holds the notebook, whole."""
    try:
        if file.suffix == ".ipynb":
            data = file.read_bytes()
        else:
            with zipfile.ZipFile(file) as archive:
                data = archive.read(f"{Path(name).stem}/{name}")
        notebooks.parse(data.decode("utf-8-sig"), str(file))
    except (OSError, KeyError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise Trouble(f"{file} does not read back ({error}).", "write it to another folder: --to") from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise Trouble(f"{file} does not hold what was written.", "write it to another folder: --to")
