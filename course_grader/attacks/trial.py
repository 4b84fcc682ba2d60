"""Tries attacks: hands each submission in, marks it as a class would, and says whether anything was gained or
harmed."""

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from course_grader.attacks.sheet import ATTACKS, Attack, Sheet, small_source, whole_source
from course_grader.attacks.stage import Stage
from course_grader.judge.report import ReportData
from course_grader.notebooks import render
from course_grader.sandbox import Wall
from course_grader.service.pool_cache import let_go
from course_grader.service.results import Result
from course_grader.service.task import make_task, run_task
from course_lib.messages import Trouble

if TYPE_CHECKING:
    from course_grader.classroom.folder import ClassFolder

HONEST = {
    "00": "match-the-cuts",
    "01": "mfu-waste",
    "02": "state-of-a-plan",
    "06": "wait-for-cycle",
}  # what the next student hands in
PATIENCE = 90.0  # s after which an attack counts as one that holds up the marker, on a machine with nothing else to do
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
        parts = [f"gained {self.gained:g} points"] * bool(self.gained) + [
            f"cost honest work {self.lost:g} points"
        ] * bool(self.lost)
        parts += (
            [f"read {each}" for each in self.read] + list(self.touched) + [f"reached {each}" for each in self.reached]
        )
        return "; ".join([*parts, *([self.others] if self.others else []), *self.wrong])

    def as_data(self) -> dict[str, object]:
        """Plain JSON data."""
        return {
            "attack": self.attack.name,
            "kind": self.attack.kind,
            "words": self.attack.words,
            "held": self.held,
            "gained": self.gained,
            "kept": self.kept,
            "lost": self.lost,
            "read": list(self.read),
            "touched": list(self.touched),
            "reached": list(self.reached),
            "others": self.others,
            "wrong": list(self.wrong),
            "seconds": round(self.seconds, 3),
            "grown": self.grown,
        }


def _class_of(sheet: Sheet, path: Path, secret: str) -> "ClassFolder":
    """As much of a class folder as a task is made of: one student's submission, without variants and exercises of the
    class."""

    def source(chapter: str) -> Path:
        """The pinned source: every exercise that some attack uses."""
        pinned = path.parent.parent / f"source-{chapter}.ipynb"
        if not pinned.exists():
            pinned.write_text(render(small_source(chapter, every_exercise(chapter))), encoding="utf-8")
        return pinned

    made = SimpleNamespace(
        secret=secret,
        settings=SimpleNamespace(assignment=lambda chapter: whole_source(chapter)[0]),
        sources=SimpleNamespace(path=source),
        submissions=SimpleNamespace(notebook=lambda student, chapter: path),
        exercises=SimpleNamespace(cards=lambda chapter: sheet.cards, overlay=Path("/nowhere")),
        variants=SimpleNamespace(of=lambda student, chapter: {}, of_everybody=lambda chapter: {}),
    )
    return cast("ClassFolder", made)


class Range:
    """Where attacks are tried: a stage, and a marker behind one wall. A context manager."""

    def __init__(self, stage: Stage, wall: Wall) -> None:
        self.stage = stage
        self.wall = replace(
            wall,
            memory_bytes=600_000_000,  # little, so that it is soon used up
            folder_bytes=60_000_000,
            file_bytes=30_000_000,
            hidden=(str(stage.root), str(stage.neighbor)),
        )
        self._warm: set[tuple[str, bool]] = set()  # markers that have begun

    def __enter__(self) -> "Range":
        return self

    def __exit__(self, *_: object) -> None:
        let_go()

    @property
    def strong(self) -> bool:
        """Whether attacks may be tried that would harm a machine without a wall."""
        return self.wall.level == "namespaces"

    def hand_in(self, sheet: Sheet, brief: bool = False) -> Result:
        """What the service makes of a submission. It tells every word of the answer here, so that what the answer read
        is seen."""
        wall = self.wall
        if brief:  # for attacks that never end
            wall = replace(wall, cell_seconds=2.5, case_seconds=2.5, notebook_seconds=15.0)
        with tempfile.TemporaryDirectory(prefix="handed-in-", dir=self.stage.root) as folder:
            place = Path(folder) / "submission"
            place.mkdir()
            task = make_task(_class_of(sheet, sheet.write(place), self.stage.secret), "me", sheet.chapter, wall=wall)
            return run_task(json.loads(json.dumps(task | {"closed_words": False})))

    def trial(self, attack: Attack) -> Row:
        """One attack tried, then the next student's honest submission in the same marker."""
        if (attack.chapter, attack.brief) not in self._warm:
            self._warm.add((attack.chapter, attack.brief))
            self._begin(attack)
        about = {**self.stage.about, "memory": self.wall.memory_bytes, "folder": self.wall.folder_bytes}
        sheet = Sheet(attack.chapter, about, attack.exercises)
        attack.fill(sheet)
        base = _peak(reset=True)
        start = time.monotonic()
        result = self.hand_in(sheet, attack.brief)
        seconds, grown = time.monotonic() - start, max(_peak() - base, 0)
        read = tuple(self.stage.leaked(json.dumps(result, ensure_ascii=False)))
        wrong = tuple(_wrong(sheet, result, seconds, grown))
        others = self._next_student(attack)
        row = Row(
            attack=attack,
            seconds=seconds,
            grown=grown,
            read=read,
            **_points(sheet, result),
            wrong=wrong,
            touched=tuple(self.stage.touched()),
            reached=tuple(self.stage.reached),
            others=others,
        )
        if row.touched or row.reached:
            self.stage.restore()
        return row

    def _begin(self, attack: Attack) -> None:
        """Start what all later submissions are forked from, which may fill caches; Trouble if honest work is not marked
        at all."""
        for again in (False, True):  # short limits may be over before everything is loaded
            trouble = self._next_student(attack)
            if not trouble:
                break
            if again:
                raise Trouble(
                    f"The grader does not mark honest work here: {trouble}.",
                    "`./course doctor` looks at the installation",
                )
        self.stage.restore()

    def _next_student(self, attack: Attack) -> str:
        """How an honest submission fares in the same marker: "" if it gets all its points."""
        result = self.hand_in(Sheet(attack.chapter, self.stage.about, (HONEST[attack.chapter],)), attack.brief)
        if result["state"] == "graded" and result["points"] == result["maximum"]:
            return ""
        notes = "; ".join(report["note"] for report in result["reports"]) if "reports" in result else ""
        return (
            f"the next submission was {result['state']}: {result.get('points', 0):g} points {result['why']} {notes}"
        ).rstrip()


def chosen(names: Iterable[str] = (), walled: bool = True) -> list[Attack]:
    """The attacks with these words in their name or kind, those together that one marker can try; all without words."""
    wanted = tuple(names)
    fits = [each for each in every() if not wanted or any(word in each.name or word == each.kind for word in wanted)]
    return sorted((each for each in fits if walled or not each.walled), key=lambda each: (each.chapter, each.brief))


def every() -> list[Attack]:
    """The attacks that ship with the grader, and those that were entered besides."""
    from course_grader.attacks import accidents, cluster, exhausting, forging, leaking, tampering  # noqa: F401

    return list(ATTACKS.values())


def every_exercise(chapter: str) -> tuple[str, ...]:
    """The exercises of a chapter that attacks use, in the order of the chapter."""
    from course_grader import exercises
    from course_grader.attacks.sheet import MATERIALS

    used = {name for each in every() if each.chapter == chapter for name in each.exercises} | set(
        MATERIALS[chapter].exercises
    )
    return tuple(card.id for card in exercises.cards(chapter) if card.id in used)


def try_all(attacks: Iterable[Attack], ground: Range, say: Callable[[Row], None] | None = None) -> list[Row]:
    """Every attack in turn."""
    rows = []
    for each in attacks:
        rows.append(ground.trial(each))
        if say is not None:
            say(rows[-1])
    return rows


# ------------------------------------------------------------------------------------------------ looking at what came


def _points(sheet: Sheet, result: Result) -> dict[str, float]:
    """Points gained, and honest points lost and kept."""
    earned = {report["id"]: report["points"] for report in result.get("reports", ())}
    gained = lost = kept = 0.0
    for exercise, deserved in sheet.points.items():
        if deserved is None or sheet.refused:
            continue
        difference = earned.get(exercise, 0.0) - deserved
        gained, lost, kept = (
            gained + max(difference, 0.0),
            lost + max(-difference, 0.0),
            kept + min(deserved, earned.get(exercise, 0.0)),
        )
    if sheet.refused:
        gained = sum(earned.values())
    return {"gained": round(gained, 2), "lost": round(lost, 2), "kept": round(kept, 2)}


def _wrong(sheet: Sheet, result: Result, seconds: float, grown: int) -> list[str]:
    """States and words that are not as they should be, and limits that did not hold."""
    found = []
    expected = ("refused", "graded") if sheet.refused == "perhaps" else ("refused",) if sheet.refused else ("graded",)
    if result["state"] not in expected or (sheet.refused not in ("", "perhaps") and sheet.refused not in result["why"]):
        found.append(f"the submission is “{result['state']}”: {result['why'] or sheet.refused}")
    reports = result.get("reports", ())
    for report in reports:
        if report["state"] not in sheet.states.get(report["id"], (report["state"],)):
            found.append(f"{report['id']} is “{report['state']}”: {report['note'][:120]}")
    told = "\n".join(
        [
            result["why"],
            *_texts(reports),
            *result.get("notes", ()),
            *(each["text"] for each in result.get("anomalies", ())),
        ]
    )
    found += [f"nobody was told “{words}”" for words in sheet.said if words not in told]
    if any(ord(letter) < 32 and letter not in "\n\t" for letter in told) or "\x9b" in told or "\u202e" in told:
        found.append("control codes stand in a report")
    if active := _active(result.get("autograded", "")):
        found.append(f"what graders see holds {active}")
    if seconds > PATIENCE * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)):
        found.append(f"held the marker up for {seconds:.0f} s")
    if grown > JUDGE_BYTES:
        found.append(f"the judge grew by {grown / 1e6:,.0f} MB")
    return found


def _texts(reports: Iterable[ReportData]) -> list[str]:
    return [
        text for report in reports for text in (report["note"], *(verdict["message"] for verdict in report["verdicts"]))
    ]


def _active(notebook: str) -> str:
    """What would run, or come from a learner unescaped, in the outputs of the notebook that graders see; "" for
    nothing."""
    outputs = (
        [output for cell in json.loads(notebook)["cells"] for output in cell.get("outputs", ())] if notebook else []
    )
    for output in outputs:
        data = output.get("data", {})
        page = "".join(data.get("text/html", ""))
        for sign in ("<script", "<iframe", "<img", "javascript:"):
            if sign in page.lower():
                return f"{sign!r}"
        if odd := set(data) - {"text/html", "text/plain"}:
            return f"outputs of type {sorted(odd)}"
    return ""


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
