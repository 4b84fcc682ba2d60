"""From files to reports: files of one kind are explained together, and each that cannot be read is named."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_app.recordings.flight_recorder import explain_dumps
from course_app.recordings.job_log import explain_logs
from course_app.recordings.kernel_trace import explain_traces
from course_app.recordings.memory_snapshot import explain_snapshots
from course_app.recordings.report import Report
from course_app.recordings.untrusted_file import kind_of, read
from course_lib.messages import Trouble

KINDS: Mapping[str, Callable[[Mapping[str, Any]], Report]] = {
    "flight recorder": explain_dumps,
    "trace": explain_traces,
    "memory snapshot": explain_snapshots,
    "log": explain_logs,
}


@dataclass(frozen=True, slots=True)
class Explained:
    """The reports, and by file why it has none: what was found, and the way out."""

    reports: list[Report]
    refused: dict[str, Trouble]


def files_of(paths: Iterable[Path]) -> list[Path]:
    """The files, and those directly inside of folders, hidden ones left out. Trouble for a name that is not there."""
    found: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise Trouble(f"{path} is not there.", "give files, or the folder that holds them")
        inside = (
            [each for each in path.iterdir() if each.is_file() and each.name[0] != "."] if path.is_dir() else [path]
        )
        if not inside:
            raise Trouble(
                f"{path} has no files directly in it.", "give the folder that holds the recordings themselves"
            )
        found |= dict.fromkeys(sorted(inside))
    return list(found)


def explain(paths: Iterable[Path]) -> Explained:
    """What files say, together for each kind; one bad file does not cost the others their report."""
    contents: dict[str, dict[str, object]] = {kind: {} for kind in KINDS}
    explained = Explained([], {})
    for path in files_of(paths):
        try:
            content = read(path)
            kind = kind_of(content)
            alone = KINDS[kind]({path.name: content})
            contents[kind][str(path)] = content
        except (Trouble, OSError, MemoryError) as error:
            why = Trouble(
                f"cannot be read: {error or 'out of memory'}.", "check its permissions, or record a shorter time"
            )
            explained.refused[str(path)] = error if isinstance(error, Trouble) else why
    for kind, group in contents.items():
        if group:
            explained.reports.append(alone if sum(map(len, contents.values())) == 1 else KINDS[kind](group))
    return explained
