"""One published figure of memory beside the prediction, and how a file of them is read without falling over it."""

import csv
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path

from course_lib.estimate.memory.frameworks import TrainingRun, framework_of, peak_terms, predicted_bytes

Cells = dict[str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """A published figure and its prediction, in the figure's own unit."""

    source: str
    label: str
    measured: float
    predicted: float
    fitted: bool = False  # in the half on which the constants were chosen
    framework: str = ""
    terms: float = 0.0  # the prediction before the constants, in bytes
    unit: float = 1.0  # bytes of the figure's unit
    otherwise: Mapping[str, float] = field(
        default_factory=dict
    )  # predictions with settings that the source does not print

    def __post_init__(self) -> None:
        if not (math.isfinite(self.measured) and self.measured > 0 and math.isfinite(self.predicted)):
            raise ValueError(f"the published figure is {self.measured:g}; it must be above 0")

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1

    def explained(self, setting: str, within: float) -> bool:
        """Whether the prediction with this setting is off by no more than this share of the figure."""
        return setting in self.otherwise and abs(self.otherwise[setting] / self.measured - 1) <= within


@dataclass(frozen=True, slots=True)
class Skip:
    """A row that is not predicted, and why."""

    source: str
    reason: str


Reader = Callable[[Cells, "Tables"], Iterator[Row | Skip]]


def shipped() -> Path:
    """The folder of cited rows that comes with the course."""
    return Path(str(files("course_lib.estimate.facts").joinpath("data", "published_memory")))


class Tables:
    """The files of one folder, each read when it is first asked for; a file that is not there has no rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, list[Cells]] = {}

    def __getitem__(self, name: str) -> list[Cells]:
        if name not in self._read:
            self._read[name] = self._rows(self.folder / name)
        return self._read[name]

    @staticmethod
    def _rows(path: Path) -> list[Cells]:
        if not path.is_file():
            return []
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as text:
            return [_clean(cells) for cells in csv.DictReader(text)]

    def has(self, name: str) -> bool:
        """Whether the folder has this file."""
        return (self.folder / name).is_file()

    def others(self, known: Iterable[str]) -> list[str]:
        """Tables of the folder that are not among the known ones."""
        return sorted({path.name for path in self.folder.glob("*.csv")} - set(known))


def _clean(cells: dict[str | None, str | list[str] | None]) -> Cells:
    return {key: value.strip() for key, value in cells.items() if isinstance(key, str) and isinstance(value, str)}


def whole(cells: Cells, name: str, otherwise: int | None = None) -> int:
    """A whole number from a cell; an empty or missing cell is `otherwise`, or a ValueError that names the column."""
    text = cells.get(name, "")
    if text == "":
        if otherwise is None:
            raise ValueError(f"no {name}")
        return otherwise
    return int(float(text))


def number(cells: Cells, name: str) -> float:
    """A number from a cell; a ValueError that names the column where there is none."""
    try:
        return float(cells.get(name, ""))
    except ValueError:
        raise ValueError(f"no {name}") from None


def in_fit_half(cells: Cells, names: tuple[str, ...]) -> bool:
    """Whether a row is in the half that constants are chosen on: by what was run, so that a repeat falls on the same
    side."""
    return zlib.crc32("|".join(cells.get(name, "") for name in names).encode()) % 2 == 0


def read(source: str, file: str, reader: Reader, tables: Tables) -> list[Row | Skip]:
    """All rows of one file, predicted or skipped; a row that cannot be read says why instead of ending the run."""
    found: list[Row | Skip] = []
    if not tables.has(file):
        return [Skip(source, f"{file} is not in the folder")]
    for cells in tables[file]:
        try:
            found += list(reader(cells, tables))
        except (ValueError, KeyError, ZeroDivisionError, OverflowError) as refusal:
            found.append(Skip(source, " ".join(str(refusal).split())[:120] or type(refusal).__name__))
    return found


def framework_row(
    source: str, label: str, measured: float, unit: float, framework: str, run: TrainingRun, fitted: bool
) -> Row:
    """The row of a run in a framework."""
    terms = float(sum(peak_terms(framework, run).values()))
    predicted = float(predicted_bytes(framework, run)) / unit
    otherwise = {
        word: float(predicted_bytes(framework, replace(run, words=run.words | {word}))) / unit
        for word in framework_of(framework).unprinted
    }
    return Row(source, label, measured, predicted, fitted, framework, terms, unit, otherwise)
