"""Evidence files: what a real run saw, as JSON with a version and a hash, and how they are found, written and read."""

import hashlib
import json
import os
import platform
import re
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from course_lib.folders import folders
from course_lib.messages import Trouble
from course_runs import cores
from course_runs.machine import output_of

SCHEMA = "training-at-scale/evidence"
VERSION = 1
KINDS = (
    "matmul",
    "collectives",
    "train",
    "parity",
    "failure",
    "survival",
    "serving",
    "posttraining",
    "data",
    "diloco",
    "doctor",
)
SHIPPED = Path(__file__).with_name("recorded")
BEGUN = time.monotonic()  # of this process, nearly
Evidence = dict[str, Any]


def evidence(
    kind: str,
    *,
    setup: Mapping[str, object],
    raw: Mapping[str, object],
    measured: Mapping[str, object],
    predicted: Mapping[str, object] | None = None,
    notes: tuple[str, ...] = (),
) -> Evidence:
    """An evidence file's content, sealed. `raw` holds every number as it was read, `measured` what follows from
    them."""
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; choose from {', '.join(KINDS)}.")
    when = datetime.now(timezone.utc)  # noqa: UP017 - Python 3.10 has no datetime.UTC
    content = {
        "schema": SCHEMA,
        "version": VERSION,
        "kind": kind,
        "when": when.isoformat(timespec="seconds"),
        "command": " ".join(["python -m", _module(), *sys.argv[1:]]),
        "environment": environment(),
        "setup": dict(setup),
        "predicted": dict(predicted or {}),
        "measured": dict(measured),
        "raw": dict(raw),
        "notes": list(notes),
    }
    return sealed(content)


def sealed(content: Mapping[str, object]) -> Evidence:
    """The content with the hash of all else in it, which shows a change by accident. It proves nothing about intent."""
    plain = json.loads(json.dumps({key: value for key, value in content.items() if key != "sha256"}))
    return {**plain, "sha256": digest(plain)}


def digest(content: Mapping[str, object]) -> str:
    """SHA-256 of everything but the hash itself, in one canonical form."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def write(content: Evidence, folder: str | Path, name: str) -> Path:
    """Write `<folder>/<name>.json`, whole or not at all."""
    path = Path(folder) / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(_in_lines(content) + "\n", encoding="utf-8")
    part.replace(path)
    return path


def _in_lines(content: Evidence) -> str:
    """JSON with a field on each line, and a list of numbers on one: there are hundreds of them."""
    text = json.dumps(content, indent=1)
    return re.sub(
        r"\[\s+-?[\d.][^\[\]{}\"]*\]",
        lambda found: " ".join(found[0].split()).replace("[ ", "[").replace(" ]", "]"),
        text,
    )


def read(path: str | Path) -> Evidence:
    """The evidence in a file; Trouble where it is none, is of a newer version, or was changed since it was written."""
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Trouble(
            f"{path} cannot be read: {error.strerror}.", "`./course evidence list` names the evidence that there is"
        ) from error
    except ValueError as error:
        raise Trouble(
            f"{path} is no JSON: {error}.", "copy it once more; a run writes it whole or not at all"
        ) from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise Trouble(f"{path} is no evidence of a run.", "give a file that `./course run …` wrote")
    if content.get("version") != VERSION:
        raise Trouble(
            f"{path} is of version {content.get('version')!r}; this course reads version {VERSION}.",
            "update the course",
        )
    if content.get("sha256") != digest(content):
        raise Trouble(
            f"{path} was changed after it was written: its hash does not fit.", "use the file as the run left it"
        )
    return content


def places() -> list[tuple[str, Path]]:
    """Where evidence lies: one's own (COURSE_EVIDENCE, else work/evidence), then what ships with the course."""
    own = Path(os.environ["COURSE_EVIDENCE"]) if "COURSE_EVIDENCE" in os.environ else folders().work / "evidence"
    return [("own", own), ("recorded", SHIPPED)]


def found(kind: str | None = None) -> Iterator[tuple[str, Path, Evidence]]:
    """Every evidence file that can be read, one's own first and the newest of them first: where from, path, content."""
    for origin, folder in places():
        readable = []
        for path in sorted(folder.rglob("*.json")) if folder.is_dir() else ():
            try:
                readable.append((path, read(path)))
            except Trouble:
                continue
        for path, content in sorted(readable, key=lambda pair: pair[1]["when"], reverse=True):
            if kind in (None, content["kind"]):
                yield origin, path, content


# ------------------------------------------------------------------------------------------------ the environment


def environment() -> dict[str, object]:
    """The machine and the software of this process, as far as a reader needs them to judge a number."""
    import torch

    gpu = torch.cuda.is_available()
    found = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": cpu_name(),
        "cores": cores.cores(),
        "threads": torch.get_num_threads(),
        "host": hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8],
        "device": torch.cuda.get_device_name() if gpu else "CPU",
        "gpus": torch.cuda.device_count() if gpu else 0,
        "process_seconds": round(time.monotonic() - BEGUN, 3),
    }
    if gpu:
        found |= {
            "cuda": torch.version.cuda,
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),
            "driver": _driver(),
            "capability": ".".join(map(str, torch.cuda.get_device_capability())),
            "device_memory": torch.cuda.get_device_properties(0).total_memory,
            "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count,
        }
    return found


def cpu_name() -> str:
    """The processor's name, as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(
            (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine()
        )
    except OSError:
        return platform.processor() or platform.machine()


def _driver() -> str:
    return "".join(output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split()[:1])


def _module() -> str:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec.name if spec is not None else Path(sys.argv[0]).name


def stamp() -> str:
    """Now, as part of a file's name."""
    return time.strftime("%Y%m%d-%H%M%S")
