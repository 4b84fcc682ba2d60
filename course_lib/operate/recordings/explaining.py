"""From files to reports: what belongs together is explained together, and each file that cannot be read is named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.messages import Trouble
from course_lib.operate.recordings.flight_recorder import explain_dumps
from course_lib.operate.recordings.job_log import explain_log
from course_lib.operate.recordings.kernel_trace import explain_traces
from course_lib.operate.recordings.memory_snapshot import explain_snapshot
from course_lib.operate.recordings.report import Report
from course_lib.operate.recordings.untrusted_file import kind_of, read

MOST_FILES = 4096


@dataclass(frozen=True, slots=True)
class Explained:
    """The reports, and by file why it has none: what was found, and the way out."""

    reports: list[Report]
    refused: dict[str, Trouble]


def files_of(paths: Iterable[Path]) -> list[Path]:
    """The files, and those directly inside of folders, hidden ones left out. Trouble for a name that is not there."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise Trouble(f"{path} is not there.", "give files, or the folder that holds them")
        inside = [each for each in sorted(path.iterdir()) if each.is_file() and each.name[0] != "."] if path.is_dir() else [path]
        if not inside:
            raise Trouble(f"{path} has no files directly in it.", "give the folder that holds the recordings themselves")
        found += inside
    if len(found) > MOST_FILES:
        raise Trouble(f"{len(found):,} files are more than the {MOST_FILES:,} that are read.", "give those of a few ranks")
    return list(dict.fromkeys(found))


def explain(paths: Iterable[Path]) -> Explained:
    """What files say: flight recorders of one job together, traces of one job together, all others one by one."""
    contents: dict[str, dict[str, Any]] = {"flight recorder": {}, "trace": {}, "memory snapshot": {}, "log": {}}
    refused: dict[str, Trouble] = {}
    for path in files_of(paths):
        try:
            content = read(path)
            contents[kind_of(content)][str(path)] = content
        except MemoryError:
            refused[str(path)] = Trouble("needs more memory than there is.", "record a shorter time")
        except OSError as error:
            refused[str(path)] = Trouble(f"cannot be read: {error.strerror}.", "check its permissions")
        except Trouble as trouble:
            refused[str(path)] = trouble
    reports: list[Report] = []
    dumps, traces = _sound(explain_dumps, contents["flight recorder"], refused), contents["trace"]
    for function, group in ((explain_dumps, dumps), (explain_traces, _sound(explain_traces, traces, refused))):
        if group:
            reports.append(function(group))
    for one, group in ((explain_snapshot, contents["memory snapshot"]), (explain_log, contents["log"])):
        for name, content in group.items():
            try:
                reports.append(one(content, name))
            except Trouble as trouble:
                refused[name] = trouble
    return Explained(reports, refused)


def _sound(function: Any, group: dict[str, Any], refused: dict[str, Trouble]) -> dict[str, Any]:
    """Those of a group that can be explained at all; one bad file must not cost the others their report."""
    sound: dict[str, Any] = {}
    for name, content in group.items():
        try:
            function({name: content})
            sound[name] = content
        except Trouble as trouble:
            refused[name] = trouble
    return sound
