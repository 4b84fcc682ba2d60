"""The printed formula, the expected terms and the measurement, side by side."""

from collections.abc import Iterable
from dataclasses import dataclass

from course_lib.estimate.units import percent_text
from course_lib.model.ledger.expecting import Expected
from course_lib.model.ledger.recording import Ledger, aligned


@dataclass(frozen=True, slots=True)
class Line:
    """One label. Bytes of the whole model."""

    label: str
    printed: float  # by s b h (34 + 5 a s / h), and by the same paper for the rest
    expected: float
    measured: int
    why: str  # reasons why expected and printed bytes differ


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """All lines, and their sums."""

    lines: tuple[Line, ...]

    @property
    def printed(self) -> float:
        """Bytes by the printed formula."""
        return sum(line.printed for line in self.lines)

    @property
    def expected(self) -> float:
        """Bytes of our own terms."""
        return sum(line.expected for line in self.lines)

    @property
    def measured(self) -> int:
        """Bytes that autograd kept."""
        return sum(line.measured for line in self.lines)

    @property
    def gap(self) -> float:
        """Excess of the measured over the expected bytes, as a fraction of the expected ones."""
        return self.measured / self.expected - 1

    @property
    def differences(self) -> tuple[Line, ...]:
        """The lines where the printed formula differs from the measurement, largest difference first."""
        apart = [line for line in self.lines if line.measured != line.printed]
        return tuple(sorted(apart, key=lambda line: -abs(line.measured - line.printed)))

    def table(self) -> str:
        """All lines as text, with their sums."""
        lines: list[tuple[str, ...]] = [("kept for backward", "printed", "expected", "measured", "why not the printed")]
        lines += [(line.label, *_sizes(line), line.why) for line in self.lines]
        lines.append(("in all", *_sizes(self), f"measured against expected: {percent_text(self.gap)}"))
        return aligned(lines, "<>>><")


def _sizes(of: Line | Reconciliation) -> tuple[str, ...]:
    return tuple(f"{value:,.0f}" for value in (of.printed, of.expected, of.measured))


def reconcile(ledger: Ledger, terms: Iterable[Expected]) -> Reconciliation:
    """The three side by side: the terms' labels in order, then labels that were measured but not expected."""
    measured = ledger.by_label
    lines = [Line(each.label, each.printed, each.nbytes, measured.pop(each.label, 0), each.why) for each in terms]
    return Reconciliation((*lines, *(Line(label, 0, 0, size, "not expected") for label, size in measured.items())))
