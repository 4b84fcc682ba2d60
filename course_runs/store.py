"""The evidence that chapters can read: adding to it, and listing it."""

import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from course_lib.messages import Trouble, count_text
from course_runs import evidence
from course_runs.evidence_checks import UNREADABLE, verdict
from course_runs.verify import problems, verified

MOST_FILES, MOST_BYTES = 500, 200_000_000


def add(paths: Sequence[Path], target: Path | None = None) -> int:
    """Verify each file, or each file of a zip, and copy what no gate contradicts, noisy files too; 1 if any was left
    out."""
    target = evidence.places()[0][1] if target is None else target
    taken = refused = 0
    for path in paths:
        with tempfile.TemporaryDirectory(prefix="course-evidence-") as scratch:
            for each in _files(path, Path(scratch)):
                try:
                    content, found = verified(each)
                except Trouble as trouble:
                    print(f"left out {each.name}: {trouble}", file=sys.stderr)
                    refused += 1
                    continue
                bad = [gate for gate in found if not gate.ok]
                if against := [gate for gate in bad if not gate.noise]:
                    print(f"left out {each.name}: {against[0].name}: {against[0].found}", file=sys.stderr)
                    refused += 1
                    continue
                if bad:
                    print(f"noisy: {each.name}: {bad[0].name}: {bad[0].found}")
                name = f"{path.stem}-{each.stem}" if path.suffix == ".zip" else each.stem
                evidence.write(content, target, name)
                taken += 1
    print(f"{taken} added to {target}" + (f", {refused} left out" if refused else ""))
    return 1 if refused or not taken else 0


def _files(path: Path, scratch: Path) -> Iterator[Path]:
    """The JSON files that a path names: itself, or those in a zip, unpacked under limits."""
    if not path.exists():
        raise Trouble(f"There is no {path}.", "give a tour's zip or an evidence file")
    if path.suffix != ".zip":
        yield path
        return
    try:
        with zipfile.ZipFile(path) as packed:
            members = [each for each in packed.infolist() if each.filename.endswith(".json") and not each.is_dir()]
            if len(members) > MOST_FILES or sum(each.file_size for each in members) > MOST_BYTES:
                raise Trouble(f"{path} unpacks to more than a tour makes.", "give the zip that `course run tour` made")
            for member in members:
                inside = scratch / Path(member.filename).name  # a name, never a path
                inside.write_bytes(packed.read(member))
                yield inside
    except zipfile.BadZipFile as error:
        raise Trouble(f"{path} is no zip: {error}.", "copy it once more from the rented machine") from error


def rows() -> list[dict[str, str]]:
    """A row for each evidence file that there is: where from, kind, what, device, when, verdict, file."""
    return [
        {"from": origin, **_told(content), "when": content["when"], "file": str(path)}
        for origin, path, content in evidence.found()
    ]


def _told(content: evidence.Evidence) -> dict[str, str]:
    """Kind, what, device and verdict; "malformed", and why, where the content departs from the schema."""
    if wrong := problems(content):
        return {"kind": str(content["kind"]), "what": wrong[0], "device": "", "verdict": "malformed"}
    try:
        told = what(content)
    except UNREADABLE as error:
        told = f"{type(error).__name__}: {error}"
    return {
        "kind": content["kind"],
        "what": told,
        "device": "CPU" if content["setup"].get("device") == "cpu" else content["environment"]["device"],
        "verdict": verdict(content),
    }


def what(content: evidence.Evidence) -> str:
    """One evidence file in a few words."""
    setup = content["setup"]
    if content["kind"] == "train":
        return (
            f"{setup['size']} {setup['layout']['name']} "
            f"{setup['checkpointing'] if setup['checkpointing'] != 'none' else ''}"
        ).strip()
    if content["kind"] == "parity":
        return (
            f"{setup['size']}, {count_text(content['measured']['of'], 'layout')} of "
            f"{count_text(setup['ranks'], 'rank')}"
        )
    if content["kind"] == "collectives":
        return f"{count_text(setup['ranks'], 'rank')}, {setup['backend']}"
    if content["kind"] == "matmul":
        return ", ".join(setup["dtypes"])
    return content["kind"]
