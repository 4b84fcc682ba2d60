"""What a grading run reports while it runs and at its end: plain data, for a terminal, a program or a test."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Line:
    """One message about one submission."""

    student: str
    chapter: str
    exercise: str
    text: str


@dataclass(frozen=True, slots=True)
class Event:
    """A message of a running run: "start" (total known), "done" (one more), "line" (a message), "end"."""

    kind: Literal["start", "done", "line", "end"]
    text: str = ""
    done: int = 0
    total: int = 0
    student: str = ""
    chapter: str = ""


Say = Callable[[Event], None]


@dataclass
class Summary:
    """The result of a run."""

    graded: int = 0
    already: int = 0
    refused: list[Line] = field(default_factory=list)
    crashed: list[Line] = field(default_factory=list)
    timed_out: list[Line] = field(default_factory=list)
    not_graded: list[Line] = field(default_factory=list)
    anomalies: list[Line] = field(default_factory=list)
    seconds: float = 0.0
    level: str = ""
    interrupted: bool = False
    problem: str = ""  # what stopped the run, if something did
    way_out: str = ""

    @property
    def exit_code(self) -> int:
        """0: all graded; 1: some could not be; 130: interrupted."""
        if self.interrupted:
            return 130
        return int(bool(self.not_graded or self.problem))

    def as_data(self) -> dict[str, object]:
        """Plain JSON data."""
        return {**asdict(self), "exit_code": self.exit_code}
