"""What recordings say: findings in words, each with the chapter that explains it, and the numbers behind them."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PureWindowsPath
from typing import Any

from course_lib.messages import Trouble
from course_runs.trace_events import number

__all__ = ["Finding", "Report", "line_of", "number", "rank_in", "ranks_text", "whole", "word"]

MOST_ITEMS = 20_000_000  # list entries that are visited: a small pickle can repeat a list without end


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a recording shows."""

    what: str
    chapter: str  # two digits: the chapter that explains it
    fault: str = ""  # a possible cause, of `course_chapters.ch17.diagnosis.FAULTS`


@dataclass(slots=True)
class Report:
    """What files of one kind say together."""

    kind: str
    files: list[str]
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what was left out, assumed or cannot be known
    numbers: dict[str, Any] = field(default_factory=dict)  # plain data; seconds, bytes and shares
    waits: list[tuple[int, int, str]] = field(default_factory=list)  # who waits for whom, in which operation
    traced: dict[int, Any] = field(default_factory=dict)  # a `kernel_trace.Traced` by rank
    held: dict[str, dict[str, int]] = field(default_factory=dict)  # bytes by device and role
    visited: int = 0  # entries of lists

    def add(self, what: str, chapter: str, fault: str = "") -> None:
        """One more finding."""
        self.findings.append(Finding(what, chapter, fault))

    def rows(self, value: object, what: str) -> Iterator[Mapping[str, object]]:
        """The entries of a list from a file, each a dictionary. Trouble where they are not, or have no end."""
        if not isinstance(value, (list, tuple)):
            raise Trouble(f"{what} is {type(value).__name__}, not a list.", "export it again with torch's own tool")
        self.visited += len(value)
        if self.visited > MOST_ITEMS:
            raise Trouble("has too many entries.", "record a shorter time, such as a few steps")
        for each in value:
            if not isinstance(each, dict):
                raise Trouble(f"{what} has an entry that is {type(each).__name__}.", "export it again")
            yield each


def whole(value: object, otherwise: int = 0) -> int:
    """A whole number within 64 bits, or what else it counts as."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else otherwise


def word(value: object, most: int = 80) -> str:
    """Text from a file, safe to print: no control codes, no changes of direction, of limited length."""
    text = "".join(each if each.isprintable() else " " for each in str(value)[: 4 * most]).strip()
    return text if len(text) <= most else f"{text[: most - 1]}…"


def rank_in(name: str) -> int | None:
    """The rank at the end of a file's name, as in nccl_trace_rank_3 or trace.rank3.json.gz; None if there is none."""
    found = re.search(r"(\d{1,6})(\.(json|gz|pickle|pkl|log|txt|out|err))*$", name)
    return int(found[1]) if found else None


def ranks_text(ranks: Collection[int], most: int = 8) -> str:
    """ "rank 3", "ranks 0, 1 and 2", "ranks 0, 1, 2, … and 511 (512 in all)"."""
    *first, last = map(str, ranks)
    few = first if len(ranks) <= most else [*first[:3], f"… ({len(ranks)} in all)"]
    return f"ranks {', '.join(few)} and {last}" if first else f"rank {last}"


def line_of(frames: object) -> str:
    """The innermost line of a stack that is not torch's, as in "train.py:42"; "" if there is none."""
    for each in frames[:200] if isinstance(frames, (list, tuple)) else ():
        path = str(each.get("filename", "")) if isinstance(each, dict) else ""
        if path.endswith(".py") and not re.search(r"site-packages|[/\\]torch[/\\]", path):
            return f"{word(PureWindowsPath(path).name, 40)}:{whole(each.get('line'))}"
    return ""
