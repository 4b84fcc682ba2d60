"""Turn a learner's notebook into steps to run: their cells in the frame of the course's source.

Every exercise is judged by our check, even if the check cell was changed. Answers are matched by grade_id, then by cell
id. Cells that the course does not know are the learner's own and run where they are.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from course_lib.exercises import Card
from course_lib.grading.blank_notebook import stubbed, without_values
from course_lib.grading.committed_form import CHECK_SUFFIX
from course_lib.install.words import count_text
from course_lib.learner.merge import grade_meta, is_answer, is_check
from course_lib.learner.notebooks import Cell, Notebook

NOT_GRADED = "real-processes"  # tag of a cell that measures this machine; no later cell depends on it
READ = 200_000  # characters that the judge parses into syntax trees, at hundreds of bytes each
_LONG = 100_000  # characters; in longer cells definitions are found without a syntax tree
_DEFINITION = re.compile(r"^(?:def|class)\s+(\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of grading a notebook, in the notebook's order."""

    do: Literal["run", "judge"]
    exercise: str = ""  # whose answer cell this is, or what is judged now
    source: str = ""
    whose: Literal["answer", "own", "course"] = "course"
    where: str = ""  # "cell 12" of the learner's copy; "" for a cell that only the source has


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A notebook ready to be graded."""

    steps: tuple[Step, ...]
    exercises: tuple[str, ...]  # in the order of the chapter
    notes: tuple[str, ...] = ()  # what a reader should know, a sentence each
    missing: Mapping[str, str] = field(default_factory=dict)  # exercise -> why it has no answer cell


def rebuild(source: Notebook, learner: Notebook, cards: Sequence[Card]) -> Submission:
    """The learner's cells in the source's frame.

    Answers and the learner's own cells are taken from the learner. So are plain cells that were edited; deleted ones
    come from the source. Check cells never run: a "judge" step takes the place of the learner's check cell, else
    follows the answer, else comes at the end.
    """
    frame = _Frame(source, learner, cards)
    steps = tuple(frame.steps())
    return Submission(steps=steps, exercises=frame.exercises, notes=tuple(frame.notes), missing=frame.missing)


def places(source: Notebook, learner: Notebook, cards: Sequence[Card]) -> Mapping[str, int]:
    """Which source cell each of the learner's cells counts as, by position: "grade:<grade_id>" or "id:<cell id>"."""
    return _Frame(source, learner, cards).places


def _key(cell: Cell) -> str:
    """What identifies a source cell: its grade_id, else its id."""
    return _answer_key(grade_meta(cell)["grade_id"]) if grade_meta(cell) else f"id:{cell.get('id', '')}"


def _answer_key(exercise: str) -> str:
    return f"grade:{exercise}"


class _Frame:
    """The source's cells, matched with the learner's."""

    def __init__(self, source: Notebook, learner: Notebook, cards: Sequence[Card]) -> None:
        self.known = {card.id: card for card in cards}
        self.source: list[Cell] = source["cells"]
        self.cells: list[Cell] = learner["cells"]
        self.order = {_key(cell): place for place, cell in enumerate(self.source)}
        ids = (grade_meta(cell)["grade_id"] for cell in self.source if is_answer(cell))
        self.exercises = tuple(name for name in ids if name in self.known)
        self.notes: list[str] = []
        self.missing: dict[str, str] = {}
        self.places: dict[str, int] = {}  # key of a source cell -> position of the learner's cell that counts as it
        self.parts: dict[int, str] = {}  # position of a further copy that runs too -> its exercise
        self.copies: set[int] = set()  # positions of copies that do not run
        for key, found in self._found().items():
            self._choose(key, found)
        self.key_at = {position: key for key, position in self.places.items()}

    # --- which cell is which

    def _found(self) -> dict[str, list[int]]:
        """Key of a source cell -> positions of the learner's cells that may match it: by grade_id or id, else by text."""
        found: dict[str, list[int]] = {}
        for position, cell in enumerate(self.cells):
            if _key(cell) in self.order:
                found.setdefault(_key(cell), []).append(position)
        taken = {position for positions in found.values() for position in positions}
        for cell in self.source:
            if _key(cell) not in found:
                same = next(
                    (at for at, mine in enumerate(self.cells) if at not in taken and _is_same(mine, cell)), None
                )
                if same is not None:
                    found[_key(cell)] = [same]
                    taken.add(same)
                    self._note_recovered(_key(cell))
        return found

    def _note_recovered(self, key: str) -> None:
        if (name := key.removeprefix("grade:")) in self.exercises:
            self.notes.append(
                f"The answer cell of “{self.known[name].title}” had lost its grade_id; it was found by its cell "
                "id, so nothing is lost."
            )

    def _choose(self, key: str, found: list[int]) -> None:
        """Of several copies of a cell, choose the one that counts: the first with work in it whose place in the order
        matches.
        """
        exercise = key.removeprefix("grade:")
        if len(found) == 1 or exercise not in self.exercises:
            self.places[key] = found[0]
            self.copies.update(found[1:] if key.startswith("grade:") else ())
            return
        stub = stubbed(self.source[self.order[key]]["source"])
        worked = [
            position
            for position in found
            if without_values(self.cells[position]["source"], stub) != without_values(stub, stub)
        ] or found
        chosen = self.places[key] = next((at for at in worked if self._in_place(key, at)), worked[0])
        taken = _defined(self.cells[chosen]["source"])
        for position in found:
            names = _defined(self.cells[position]["source"])
            if position != chosen and names and not names & taken:  # a cell that was split in two
                self.parts[position] = exercise
                taken |= names
            elif position != chosen:
                self.copies.add(position)
        self._note_copies(exercise, chosen, found)

    def _in_place(self, key: str, position: int) -> bool:
        """Whether the course's cells before and after this one are before and after it in the source too."""
        others = [
            (at, self.order[_key(cell)])
            for at, cell in enumerate(self.cells)
            if _key(cell) in self.order and _key(cell) != key
        ]
        before = next((place for at, place in reversed(others) if at < position), -1)
        after = next((place for at, place in others if at > position), len(self.order))
        return before < self.order[key] < after

    def _note_copies(self, exercise: str, chosen: int, found: Sequence[int]) -> None:
        left = [str(position + 1) for position in found if position in self.copies]
        if left:
            plural = "s" if len(left) > 1 else ""
            others = f"the cop{'ies' if plural else 'y'} in cell{plural} {', '.join(left)} {'are' if plural else 'is'} not run"
            self.notes.append(
                f"The answer cell {exercise!r} is there {count_text(len(found), 'time')}: cell {chosen + 1} counts, {others}."
            )

    # --- what happens in which order

    def steps(self) -> Iterator[Step]:
        """The steps in the order of the learner's copy, with deleted source cells restored."""
        behind = self._deleted()
        judge_at = self._judge_positions()
        yield from behind.get(-1, ())
        for position, cell in enumerate(self.cells):
            if self._runs(position, cell):
                yield self._step(position, cell)
            yield from (Step(do="judge", exercise=name) for name in judge_at.get(position, ()))
            yield from behind.get(position, ())
        yield from (Step(do="judge", exercise=name) for name in judge_at.get(len(self.cells), ()))

    def _deleted(self) -> dict[int, list[Step]]:
        """Position in the learner's copy, -1 for the top -> the deleted plain cells of the source that belong after it.

        Deleted answers are recorded as missing, with the heading above them.
        """
        behind: dict[int, list[Step]] = {}
        anchor, section = -1, ""
        for cell in self.source:
            key, exercise = _key(cell), grade_meta(cell).get("grade_id", "")
            section = _section(cell) or section
            if key in self.places:
                anchor = self.places[key]
                if is_answer(cell) and exercise in self.known and self.cells[anchor]["cell_type"] != "code":
                    self.missing[exercise] = self._turned(exercise, anchor)
            elif is_answer(cell) and exercise in self.known:
                self.missing[exercise] = _why_missing(self.known[exercise], section)
            elif cell["cell_type"] == "code" and not is_check(cell) and not _is_not_graded(cell):
                behind.setdefault(anchor, []).append(Step(do="run", source=cell["source"]))
        return behind

    def _turned(self, exercise: str, position: int) -> str:
        return (
            f"The answer cell of “{self.known[exercise].title}” (cell {position + 1}) is a "
            f"{self.cells[position]['cell_type']} cell now: make it a code cell again (in JupyterLab: Esc, then Y)."
        )

    def _judge_positions(self) -> dict[int, list[str]]:
        """Position -> exercises to judge after the cell there: their first check cell after the answer, else the
        answer.
        """
        at: dict[int, list[str]] = {}
        for exercise in self.exercises:
            mine = [
                self.places.get(_answer_key(exercise), -1),
                *(place for place, name in self.parts.items() if name == exercise),
            ]
            answered = max(mine)
            checks = (
                place
                for place, cell in enumerate(self.cells)
                if place > answered and is_check(cell) and grade_meta(cell)["grade_id"] == exercise + CHECK_SUFFIX
            )
            at.setdefault(next(checks, answered if answered >= 0 else len(self.cells)), []).append(exercise)
        return at

    def _runs(self, position: int, cell: Cell) -> bool:
        key = self.key_at.get(position, "")
        is_ours = is_check(cell) or key.endswith(CHECK_SUFFIX)
        return (
            cell["cell_type"] == "code"
            and not is_ours
            and position not in self.copies
            and not self._measures(key, cell)
        )

    def _measures(self, key: str, cell: Cell) -> bool:
        """Whether this is an unchanged measuring cell of the source; one that the learner changed runs."""
        place = self.order.get(key)
        return (
            place is not None and _is_not_graded(self.source[place]) and cell["source"] == self.source[place]["source"]
        )

    def _step(self, position: int, cell: Cell) -> Step:
        key = self.key_at.get(position, "")
        exercise = self.parts.get(position, key.removeprefix("grade:"))
        where = f"cell {position + 1}"
        if exercise in self.exercises:
            return Step(do="run", exercise=exercise, source=cell["source"], whose="answer", where=where)
        return Step(do="run", source=cell["source"], whose="course" if key else "own", where=where)


def _is_not_graded(cell: Cell) -> bool:
    return NOT_GRADED in cell.get("metadata", {}).get("tags", ())


def _is_same(mine: Cell, released: Cell) -> bool:
    """Whether a cell without the course's metadata is a cell of the source: by its id, a plain one by its text too."""
    if mine["cell_type"] != released["cell_type"]:
        return False
    if "id" in released and mine.get("id") == released["id"]:
        return True
    return not grade_meta(released) and mine["source"] == released["source"]


def _defined(source: str) -> set[str]:
    """The functions and classes that a cell defines."""
    if len(source) > _LONG:
        return set(_DEFINITION.findall(source))
    try:
        return {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(_DEFINITION.findall(source))


def _section(cell: Cell) -> str:
    """The last first- or second-level heading of a Markdown cell, "" without one."""
    if cell["cell_type"] != "markdown":
        return ""
    return next(
        (line.lstrip("# ").strip() for line in reversed(cell["source"].splitlines()) if re.match(r"#{1,2} ", line)), ""
    )


def _why_missing(card: Card, section: str) -> str:
    under = f" under “{section}”" if section else ""
    return (
        f"The answer cell of “{card.title}”{under} is missing (its grade_id {card.id!r} is in no cell). "
        f"`./course update {card.chapter}` brings the cell back and keeps the rest."
    )
