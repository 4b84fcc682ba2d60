"""Turn a learner's notebook into steps to run: their cells in the frame of the course's source.

Every exercise is judged by our check, even if the check cell was changed, on what the notebook's own check sees when
the notebook runs from top to bottom. Answers are matched by grade_id, then by cell id. Copies of an answer run where
they are, and so do the learner's own cells. Where a later copy can earn more, the exercise is judged a second time.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from course_grader.blank_notebook import stubbed, without_hidden, without_values
from course_grader.committed_form import CHECK_SUFFIX
from course_grader.exercises import Card
from course_grader.notebooks import Cell, Notebook, grade_meta, is_answer, is_check
from course_lib.installation import called_here
from course_lib.messages import count_text

NOT_GRADED = "real-processes"  # tag of a cell that measures this machine; no later cell depends on it
READ = 200_000  # characters that the judge parses into syntax trees, at hundreds of bytes each
MOST_JUDGED = 4  # times that one exercise of a notebook is judged
_CHECK_CALL = re.compile(r"""\b(?:check|predict)\(\s*["']([\w-]+)["']""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of grading a notebook, in the notebook's order."""

    do: Literal["run", "judge"]
    exercise: str = ""  # whose answer cell this is, or what is judged now
    source: str = ""
    whose: Literal["answer", "own", "course"] = "course"
    where: str = ""  # "cell 12" of the learner's copy; "" for a cell that only the source has


@dataclass(frozen=True, slots=True)
class Sign:
    """Something about one cell that can change a grade, or that kept work from being read."""

    kind: str  # "answer copied", "answer retyped", "answer missing", "damaged", "later answer", "cell left out"
    exercise: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A notebook ready to be graded."""

    steps: tuple[Step, ...]
    exercises: tuple[str, ...]  # in the order of the chapter
    notes: tuple[str, ...] = ()  # what a reader should know, a sentence each
    missing: Mapping[str, str] = field(default_factory=dict)  # exercise -> why it has no answer cell
    signs: tuple[Sign, ...] = ()  # what an instructor should know about the cells


def rebuild(source: Notebook, learner: Notebook, cards: Sequence[Card]) -> Submission:
    """The learner's cells in the source's frame.

    Answers and the learner's own cells are taken from the learner. So are plain cells that were edited; deleted ones
    come from the source. A "judge" step takes the place of the learner's check cell, else follows the answer, else
    comes at the end. An unchanged check cell does not run; one that was edited may hold an answer, and runs before it
    is judged.
    """
    frame = _Frame(source, learner, cards)
    steps = tuple(frame.steps())
    return Submission(
        steps=steps,
        exercises=frame.exercises,
        notes=(*learner.get("damage", ()), *frame.notes),
        missing=frame.missing,
        signs=(*(Sign("damaged", "", text) for text in learner.get("damage", ())), *frame.signs),
    )


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
        self.signs: list[Sign] = []
        self.missing: dict[str, str] = {}
        self.places: dict[str, int] = {}  # key of a source cell -> position of the learner's cell that counts as it
        self.parts: dict[int, str] = {}  # position of a further copy that runs too -> its exercise
        self.copies: set[int] = set()  # positions of copies that do not run
        for key, found in self._found().items():
            self._choose(key, found)
        self.key_at = {position: key for key, position in self.places.items()}

    # --- which cell is which

    def _found(self) -> dict[str, list[int]]:
        """Key of a source cell -> positions of the learner's cells that may match it: by grade_id or id, else by
        text."""
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
        """Of several copies of a cell, choose the one to show: what the notebook's own check sees from top to bottom.

        All copies of an answer run, except untouched ones after one with work in it.
        """
        answer = is_answer(self.source[self.order[key]])
        if len(found) == 1 or not answer:
            self.places[key] = found[0]
            self.copies.update(found[1:] if key.startswith("grade:") else ())
            return
        exercise = key.removeprefix("grade:")
        worked = [position for position in found if self._has_work(key, position)]
        runs = [position for position in worked if self.cells[position]["cell_type"] == "code"]
        begin = min(runs, default=-1 if worked else len(self.cells))  # where all work is in text cells, no stub runs
        self.copies.update(at for at in found if at not in runs and at > begin)
        check = next((at for at in self._checks(exercise) if at > min(runs, default=0)), len(self.cells))
        chosen = next((at for at in reversed(runs) if at < check), (runs or worked or found)[0])
        self.places[key] = chosen
        self.copies.discard(chosen)
        if exercise in self.exercises:
            self.parts |= {at: exercise for at in found if at != chosen and at not in self.copies}
            text = (
                f"The answer cell {exercise!r} is there {count_text(len(found), 'time')}, in cells "
                f"{_listed(at + 1 for at in found)}. Its check sees cell {chosen + 1}, which counts unless a copy "
                "below earns more."
            )
        else:
            self.copies.update(at for at in found if at != chosen)
            text = f"The cell {exercise!r} is there {len(found)} times: cell {chosen + 1} is shown for grading by hand."
        defined = [_defined(self.cells[at]["source"]) for at in found]
        if not all(defined) or len(set().union(*defined)) < sum(map(len, defined)):  # else the cell was split
            self.notes.append(text)
            self.signs.append(Sign("answer copied", exercise, text))

    def _has_work(self, key: str, position: int) -> bool:
        """Whether a copy of an answer cell differs from the released one."""
        cell = self.source[self.order[key]]
        stub = stubbed(cell["source"], cell["cell_type"])
        mine = without_values(self.cells[position]["source"], stub).strip()
        return bool(mine) and mine != without_values(stub, stub).strip()

    def _checks(self, exercise: str) -> list[int]:
        """Positions of the cells that check an exercise: its check cell, its copies, and own cells that call the
        check."""
        return [
            at
            for at, cell in enumerate(self.cells)
            if (is_check(cell) and grade_meta(cell)["grade_id"] == exercise + CHECK_SUFFIX)
            or (cell["cell_type"] == "code" and exercise in _CHECK_CALL.findall(cell["source"]))
        ]

    # --- what happens in which order

    def steps(self) -> Iterator[Step]:
        """The steps in the order of the learner's copy, with deleted source cells restored."""
        behind = self._deleted()
        judge_at = self._judge_positions()
        yield from behind.get(-1, ())
        for position, cell in enumerate(self.cells):
            if self._runs(position, cell):
                yield self._step(position, cell)
            for name in judge_at.get(position, ()):
                yield from self._judgings(name, position, cell)
            yield from behind.get(position, ())
        yield from (
            Step(do="judge", exercise=name, where="the last cell") for name in judge_at.get(len(self.cells), ())
        )

    def _judgings(self, exercise: str, position: int, cell: Cell) -> Iterator[Step]:
        """Judge an exercise, and once more on what the learner's own check names, if those are other names."""
        judge = Step(do="judge", exercise=exercise, where=f"cell {position + 1}")
        yield judge
        names = self.known[exercise].answers
        given = _checked(cell, exercise) if cell["cell_type"] == "code" else []
        if len(given) == len(names) and given != list(names):
            keep = f"_course_own = {{name: globals()[name] for name in {names!r} if name in globals()}}"
            taken = f"{', '.join(names)} = {', '.join(given)}"
            yield Step(do="run", source=f"{keep}\n{taken}", whose="own", where=judge.where)
            yield judge
            yield Step(do="run", source="globals().update(_course_own)", whose="own", where=judge.where)

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
                if is_answer(cell) and exercise in self.known:
                    self._look_at(exercise, anchor)
            elif is_answer(cell) and exercise in self.known:
                self.missing[exercise] = _why_missing(self.known[exercise], section)
                self.signs.append(Sign("answer missing", exercise, f"The answer cell {exercise!r} is gone."))
            elif cell["cell_type"] == "code" and not is_check(cell) and not _is_not_graded(cell):
                behind.setdefault(anchor, []).append(Step(do="run", source=cell["source"]))
        return behind

    def _look_at(self, exercise: str, position: int) -> None:
        """Record why the answer cell that counts cannot run, or which copies of it cannot."""
        mine = [
            position,
            *(at for at in sorted(self.copies | set(self.parts)) if at != position and self._is_of(at, exercise)),
        ]
        for at in mine:
            cell, chapter = self.cells[at], self.known[exercise].chapter
            if cell.get("damaged"):
                now, way_out = cell["damaged"], called_here(f". `./course update {chapter}` brings the cell back.")
            elif cell["cell_type"] != "code":
                now = f"is a {cell['cell_type']} cell now"
                way_out = ": make it a code cell again (in JupyterLab: Esc, then Y)."
                text = f"The answer cell {exercise!r} (cell {at + 1}) {now}, so it was not run."
                self.signs.append(Sign("answer retyped", exercise, text))
            else:
                continue
            if at == position:
                self.missing[exercise] = (
                    f"The answer cell of “{self.known[exercise].title}” (cell {at + 1}) {now}{way_out}"
                )

    def _is_of(self, position: int, exercise: str) -> bool:
        return _key(self.cells[position]) == _answer_key(exercise)

    def _judge_positions(self) -> dict[int, list[str]]:
        """Position -> exercises to judge after the cell there.

        An exercise is judged at each of its checks after its first answer, and after its last answer if no check
        follows. Only places between which a cell of the learner runs differ.
        """
        at: dict[int, list[str]] = {}
        for exercise in self.exercises:
            mine = sorted(
                place
                for place, cell in enumerate(self.cells)
                if cell["cell_type"] == "code" and self._exercise_at(place) == exercise and place not in self.copies
            )
            end = mine[-1] if mine else len(self.cells)
            names = re.compile(rf"\b(?:{'|'.join(self.known[exercise].answers)})\b")
            written = (
                place
                for place, cell in enumerate(self.cells)
                if self._is_theirs(place) and names.search(cell["source"])
            )
            begin = min([*mine[:1], *written], default=0)
            wanted = [place for place in self._checks(exercise) if place >= begin]
            if not wanted or wanted[-1] < end:
                wanted.append(end)
            differ = wanted[:1]
            for place in wanted[1:]:
                between = range(differ[-1] + 1, min(place + 1, len(self.cells)))
                if any(self._is_theirs(position) for position in between):
                    differ.append(place)
            for place in [*differ[: MOST_JUDGED - 1], *differ[MOST_JUDGED - 1 :][-1:]]:
                at.setdefault(place, []).append(exercise)
        return at

    def _exercise_at(self, position: int) -> str:
        """The exercise that a cell answers, "" for none."""
        name = self.parts.get(position, self.key_at.get(position, "").removeprefix("grade:"))
        return name if name in self.exercises else ""

    def _is_theirs(self, position: int) -> bool:
        """Whether a cell that runs is not an unchanged cell of the course."""
        place = self.order.get(self.key_at.get(position, ""))
        released = self.source[place]["source"] if place is not None else None
        return self._runs(position, self.cells[position]) and (
            bool(self._exercise_at(position)) or self.cells[position]["source"] != released
        )

    def _runs(self, position: int, cell: Cell) -> bool:
        key = self.key_at.get(position, "")
        return (
            cell["cell_type"] == "code"
            and not self._is_our_check(key, cell)
            and position not in self.copies
            and not self._measures(key, cell)
        )

    def _is_our_check(self, key: str, cell: Cell) -> bool:
        """Whether this is a check cell as it was released; one that was edited may hold an answer."""
        if not is_check(cell) and not key.endswith(CHECK_SUFFIX):
            return False
        place = self.order.get(key if key else _key(cell))
        released = self.source[place]["source"] if place is not None else ""
        return cell["source"].strip() in ("", released.strip(), without_hidden(released).strip())

    def _measures(self, key: str, cell: Cell) -> bool:
        """Whether this is an unchanged measuring cell of the source; one that the learner changed runs."""
        place = self.order.get(key)
        return (
            place is not None and _is_not_graded(self.source[place]) and cell["source"] == self.source[place]["source"]
        )

    def _step(self, position: int, cell: Cell) -> Step:
        key = self.key_at.get(position, "")
        where = f"cell {position + 1}"
        if exercise := self._exercise_at(position):
            return Step(do="run", exercise=exercise, source=cell["source"], whose="answer", where=where)
        ours = bool(key) and not key.endswith(CHECK_SUFFIX)
        return Step(do="run", source=cell["source"], whose="course" if ours else "own", where=where)


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
    return set(re.findall(r"^(?:def|class)\s+(\w+)", source, re.MULTILINE))


def _listed(numbers: Iterable[int]) -> str:
    """ "3, 5 and 8"."""
    *most, last = map(str, numbers)
    return f"{', '.join(most)} and {last}" if most else last


def _checked(cell: Cell, exercise: str) -> list[str]:
    """The expressions that a cell's check of an exercise gives as answers; none if it has no such call."""
    if exercise not in _CHECK_CALL.findall(cell["source"]) or len(cell["source"]) > READ:
        return []
    try:
        nodes = list(ast.walk(ast.parse(cell["source"])))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id="check" | "predict"), args=[ast.Constant(value=name), *given]):
                if name == exercise and not any(isinstance(each, ast.Starred) for each in given):
                    return [ast.unparse(each) for each in given]
    return []


def _section(cell: Cell) -> str:
    """The last first- or second-level heading of a Markdown cell, "" without one."""
    if cell["cell_type"] != "markdown":
        return ""
    return next(
        (line.lstrip("# ").strip() for line in reversed(cell["source"].splitlines()) if re.match(r"#{1,2} ", line)), ""
    )


def _why_missing(card: Card, section: str) -> str:
    under = f" under “{section}”" if section else ""
    return called_here(
        f"The answer cell of “{card.title}”{under} is missing (its grade_id {card.id!r} is in no cell). "
        f"`./course update {card.chapter}` brings the cell back and keeps the rest."
    )
