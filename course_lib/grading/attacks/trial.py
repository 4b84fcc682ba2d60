"""Tries attacks: hands each submission in, marks it as a class would, and says whether anything was gained or harmed."""

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_lib.grading.attacks.sheet import ATTACKS, Attack, Sheet
from course_lib.grading.attacks.stage import Stage
from course_lib.grading.judge import report_dict
from course_lib.grading.mark import Marked, mark
from course_lib.grading.notebook import load, rebuild
from course_lib.grading.seats import Workers
from course_lib.install import Trouble

HONEST = {"00": "match-the-cuts", "01": "mfu-waste", "06": "wait-for-cycle"}  # what the next student hands in
PATIENCE = 60.0  # s after which an attack counts as one that holds up the marker
JUDGE_BYTES = 500_000_000  # that a marker may grow by while it marks one submission


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one attack achieved: nothing, if all of its lists are empty and nothing was gained or lost."""

    attack: Attack
    gained: float = 0.0  # points above what the work deserves
    lost: float = 0.0  # points that honest work in the same notebook lost
    kept: float = 0.0  # points that honest work kept
    read: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    reached: tuple[str, ...] = ()
    others: str = ""  # how the next student was affected
    wrong: tuple[str, ...] = ()  # states and words that are not as they should be
    seconds: float = 0.0
    grown: int = 0  # bytes by which the judge grew meanwhile

    @property
    def held(self) -> bool:
        """Whether the grader withstood it."""
        return not (self.gained or self.lost or self.read or self.touched or self.reached or self.others or self.wrong)

    @property
    def why(self) -> str:
        """What it achieved, in words; "" for nothing."""
        parts = [f"gained {self.gained:g} points"] * bool(self.gained) + [f"cost honest work {self.lost:g} points"] * bool(self.lost)
        parts += [f"read {each}" for each in self.read] + list(self.touched) + [f"reached {each}" for each in self.reached]
        return "; ".join([*parts, *([self.others] if self.others else []), *self.wrong])

    def as_data(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "attack": self.attack.name, "kind": self.attack.kind, "words": self.attack.words, "held": self.held, "gained": self.gained,
            "kept": self.kept, "lost": self.lost, "read": list(self.read), "touched": list(self.touched), "reached": list(self.reached),
            "others": self.others, "wrong": list(self.wrong), "seconds": round(self.seconds, 3), "grown": self.grown,
        }  # fmt: skip


@dataclass
class Range:
    """Where attacks are tried: a stage, and the workers of each chapter behind one wall."""

    stage: Stage
    wall: Any = None
    _workers: dict[bool, Workers] = field(default_factory=dict)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> "Range":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._workers.clear()

    @property
    def strong(self) -> bool:
        """Whether attacks may be tried that would harm a machine without a wall."""
        return getattr(self.wall, "level", "none") == "namespaces"

    def workers(self, chapter: str) -> Workers:
        """The warm workers for a chapter; started once."""
        torch = chapter != "01"
        if torch not in self._workers:
            made = Workers(torch=torch, chapters=("00", "06") if torch else ("01",), **({"wall": self.wall} if self.wall else {}))
            self._workers[torch] = self._stack.enter_context(made)
        return self._workers[torch]

    def hand_in(self, sheet: Sheet, limits: Mapping[str, float]) -> tuple[Marked | None, str]:
        """A submission marked, or why it was refused as a whole."""
        with tempfile.TemporaryDirectory(prefix="handed-in-", dir=self.stage.root) as folder:
            path = sheet.write(Path(folder))
            workers = self.workers(sheet.chapter)
            try:
                submission = rebuild(sheet.source, load(path), sheet.cards)
                marked = mark(submission, sheet.cards, workers, beside=path.parent, secret=self.stage.secret, **_known(limits))
            except Trouble as trouble:
                return None, str(trouble)
            return Marked(reports=marked.reports, notes=(*submission.notes, *marked.notes)), ""

    def trial(self, attack: Attack) -> Row:
        """One attack tried, then the next student's honest submission in the same marker."""
        room = {name: getattr(self.wall, f"{name}_bytes", 0) for name in ("memory", "folder")}
        sheet = Sheet(attack.chapter, {**self.stage.about, **room}, attack.exercises)
        attack.make(sheet)
        base = _peak(reset=True)
        start = time.monotonic()
        marked, trouble = self.hand_in(sheet, attack.limits)
        seconds, grown = time.monotonic() - start, max(_peak() - base, 0)
        text = _everything(marked, trouble)
        row = {"attack": attack, "seconds": seconds, "grown": grown, "read": tuple(self.stage.leaked(text)),
               **_points(sheet, marked), "wrong": tuple(_wrong(sheet, marked, trouble, text, seconds, grown))}  # fmt: skip
        others = self._next_student(sheet)
        row |= {"touched": tuple(self.stage.touched()), "reached": tuple(self.stage.reached), "others": others}
        if row["touched"] or row["reached"]:
            self.stage.restore()
        return Row(**row)

    def _next_student(self, sheet: Sheet) -> str:
        """How an honest submission fares in the same marker: "" if it gets all its points."""
        honest = Sheet(sheet.chapter, self.stage.about, (HONEST[sheet.chapter],))
        marked, trouble = self.hand_in(honest, {})
        if marked is None:
            return f"the next submission was refused: {trouble}"
        report = marked.reports[0]
        return "" if report.passed else f"the next submission got {report.points:g} of {report.maximum:g} points: {report.note}"


def chosen(names: Iterable[str] = (), walled: bool = True) -> list[Attack]:
    """The attacks with these words in their name or kind, in the order of the list; all without words."""
    wanted = tuple(names)
    fits = [each for each in every() if not wanted or any(word in each.name or word == each.kind for word in wanted)]
    return [each for each in fits if walled or not each.walled]


def every() -> list[Attack]:
    """All attacks."""
    from course_lib.grading.attacks import accidents, cluster, escapes, exhausting, forging, leaking, tampering  # noqa: F401

    return list(ATTACKS.values())


def try_all(attacks: Iterable[Attack], ground: Range, say: Callable[[Row], None] | None = None) -> list[Row]:
    """Every attack in turn; what an attack left to happen later is looked for once more at the end."""
    rows = []
    for each in attacks:
        rows.append(ground.trial(each))
        if say is not None:
            say(rows[-1])
    return rows


# ------------------------------------------------------------------------------------------------ looking at what came


def _points(sheet: Sheet, marked: Marked | None) -> dict[str, float]:
    """Points gained, and honest points lost and kept."""
    earned = {report.exercise: report.points for report in marked.reports} if marked is not None else {}
    gained = lost = kept = 0.0
    for exercise, deserved in sheet.points.items():
        if deserved is None or sheet.refused:
            continue
        difference = earned.get(exercise, 0.0) - deserved
        gained, lost, kept = gained + max(difference, 0.0), lost + max(-difference, 0.0), kept + min(deserved, earned.get(exercise, 0.0))
    if sheet.refused:
        gained = sum(earned.values())
    return {"gained": round(gained, 2), "lost": round(lost, 2), "kept": round(kept, 2)}


def _wrong(sheet: Sheet, marked: Marked | None, trouble: str, text: str, seconds: float, grown: int) -> list[str]:
    """States and words that are not as they should be, and limits that did not hold."""
    found = []
    if bool(trouble) != bool(sheet.refused) or sheet.refused not in trouble:
        found.append(f"refused: {trouble}" if trouble else f"was not refused (“{sheet.refused}”)")
    for report in marked.reports if marked is not None else ():
        if report.state not in sheet.states.get(report.exercise, (report.state,)):
            found.append(f"{report.exercise} is “{report.state}”: {report.note[:120]}")
    found += [f"nobody was told “{words}”" for words in sheet.said if words not in text]
    if any(ord(letter) < 32 and letter not in "\n\t" for letter in text) or "\x9b" in text or "\u202e" in text:
        found.append("control codes stand in a report")
    if seconds > PATIENCE:
        found.append(f"held the marker up for {seconds:.0f} s")
    if grown > JUDGE_BYTES:
        found.append(f"the judge grew by {grown / 1e6:,.0f} MB")
    return found


def _everything(marked: Marked | None, trouble: str) -> str:
    """All that anybody is told of a submission."""
    if marked is None:
        return trouble
    said = [json.dumps(report_dict(report), ensure_ascii=False).replace("\\n", "\n").replace("\\t", "\t") for report in marked.reports]
    return "\n".join([*said, *(text for report in marked.reports for text in _texts(report)), *marked.notes])


def _texts(report: Any) -> list[str]:
    return [report.note, *(verdict.message for verdict in report.verdicts)]


def _peak(reset: bool = False) -> int:
    """This process's peak of resident bytes, since it was last reset."""
    with contextlib.suppress(OSError):
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    return 0


def on_linux() -> bool:
    """Whether the suite can be run here at all."""
    return os.path.isdir("/proc/self/task")


def _known(limits):
    import inspect
    return {k: v for k, v in limits.items() if k in inspect.signature(mark).parameters}
