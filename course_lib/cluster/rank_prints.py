"""The output of ranks: each line is prefixed with the number of its rank."""

from __future__ import annotations

import io
from typing import Any

from course_lib.cluster.endpoint import here


class RankPrints(io.TextIOBase):
    """Replaces stdout during a run. `capture`: keep that many characters instead of printing them."""

    def __init__(self, real: Any, capture: int | None) -> None:
        self._real, self._room = real, capture
        self._parts: dict[int, str] = {}
        self._kept: list[str] = []

    def write(self, text: str) -> int:
        """Print whole lines, prefixed with the rank."""
        end = getattr(here, "endpoint", None)
        if end is None:
            return self._real.write(text)
        whole = self._parts.get(end.rank, "") + str(text)
        *lines, rest = whole.split("\n")
        self._parts[end.rank] = rest
        for line in lines:
            self._say(f"[rank {end.rank}] {line}\n")
        return len(text)

    def _say(self, text: str) -> None:
        if self._room is None:
            self._real.write(text)
        elif self._room > 0:
            self._kept.append(text[: self._room])
            self._room -= len(text)
            if self._room <= 0:
                self._kept.append("\n… more was printed, and is left out\n")

    def close_lines(self) -> None:
        """Print the unfinished lines of ranks."""
        for rank, rest in self._parts.items():
            if rest:
                self._say(f"[rank {rank}] {rest}\n")

    def captured(self) -> str:
        """The captured output."""
        return "".join(self._kept)

    def flush(self) -> None:
        self._real.flush()

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self._real, "encoding", "utf-8") or "utf-8"
