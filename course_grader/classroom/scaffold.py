"""`course exercise new`: create the files of an exercise, which fail their tests until they are written."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from course_grader import exercises
from course_grader.classroom.folder import ClassFolder
from course_grader.committed_form import CHECK_SUFFIX
from course_grader.course_notebooks import sources
from course_grader.notebooks import Cell, Notebook, is_check, read, render, write_whole
from course_lib.folders import ROOT
from course_lib.messages import Trouble

_POINTS = 2  # of a new exercise, on its card and in its check cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What was written, and what to do next."""

    written: tuple[Path, ...]
    steps: tuple[str, ...]


def new_exercise(chapter: str, exercise: str, class_folder: Path | None = None, root: Path = ROOT) -> Made:
    """Write card, judge with its bank, and cells of a new exercise, in the course or in a class. Trouble if it exists
    already."""
    folder = ClassFolder.open(class_folder) if class_folder else None
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", exercise):
        raise Trouble(
            f"{exercise!r} cannot be an exercise's id.", "small letters, digits and dashes, such as ring-in-reverse"
        )
    if chapter not in exercises.chapters():
        raise Trouble(
            f"There is no chapter {chapter!r} with exercises.", f"choose from {', '.join(exercises.chapters())}"
        )
    if exercise in {card.id for card in exercises.cards()}:
        raise Trouble(f"There is an exercise {exercise!r} already.", "choose another id")
    if folder is not None:
        return _in_a_class(folder, chapter, exercise)
    return _in_the_course(chapter, exercise, root)


def _in_a_class(folder: ClassFolder, chapter: str, exercise: str) -> Made:
    if any(folder.root.glob(f"reports/*/{folder.settings.assignment(chapter)}")):
        raise Trouble(
            f"Chapter {chapter} is already graded for at least one student, so no exercise can be added.",
            "add exercises before the first grading, or to another chapter",
        )
    top = folder.exercises.overlay / exercise.replace("-", "_")
    if top.exists():
        raise Trouble(f"{top} is there already.", "choose another id")
    files = {top / "card.py": _card(exercise, chapter), top / "judging.py": _judging(exercise)}
    source = folder.sources.path(chapter)
    files[source] = render(_with_cells(read(source), chapter, exercise))
    for path, text in files.items():
        write_whole(path, text)
    return Made(
        written=tuple(files),
        steps=(
            f"write the card ({top / 'card.py'}): text, points, hints, the names that an answer defines",
            f"write the judge ({top / 'judging.py'}): cases, and in ANSWERS at least two right answers and four "
            f"mistakes with their sentences",
            f"put the worked answer into the cell {exercise!r} of {source.name} too",
            f"./course exercise test {exercise} --class {folder.root}     until every answer gets the result that the "
            f"bank gives for it",
            f"./course class release {chapter} --folder {folder.root}",
        ),
    )


def _in_the_course(chapter: str, exercise: str, root: Path) -> Made:
    library = root / "course_chapters" / f"ch{chapter}" / "exercises"
    source = sources(root)[chapter]
    module = f"{exercises.module_of(exercise)}.py"
    card, judge, cards = library / module, library / "judges" / module, library / "__init__.py"
    if there := next((path for path in (card, judge) if path.exists()), None):
        raise Trouble(f"{there} is there already.", "choose another id")
    files = {
        card: _card(exercise),
        judge: _judging(exercise),
        cards: _registered(cards, exercise),
        source: render(_with_cells(read(source), chapter, exercise)),
    }
    for path, text in files.items():
        write_whole(path, text)
    return Made(
        written=tuple(files),
        steps=(
            f"write the card ({card.relative_to(root)}) and the judge ({judge.relative_to(root)}) with its ANSWERS: "
            f"at least two right ones and four mistakes",
            f"./course release writes the worked answer into {source.relative_to(root)}; if you move its three cells, "
            f"move its id in CARDS too, so that both have the same order",
            f"./course test --kill-matrix --exercise {exercise}     until every answer gets the result that the bank "
            f"gives for it",
            f"./course release && ./course check {chapter} --solved && ./course test {chapter}",
        ),
    )


def _registered(path: Path, exercise: str) -> str:
    """A chapter's module with one more id at the end of CARDS."""
    text = path.read_text(encoding="utf-8")
    found = re.search(r"^CARDS = gather\(\s*__name__[^)]*?(,?\s*)\)$", text, re.MULTILINE)
    if found is None:
        raise Trouble(
            f"{path} does not define CARDS in a form to which an exercise can be added; nothing was written.",
            "define it there as CARDS = gather(__name__, …) with the ids, then the same command again",
        )
    lead = ",\n    " if "\n" in found.group(1) else ", "  # one id a line, as the formatter keeps it
    return f"{text[: found.start(1)]}{lead}{json.dumps(exercise)}{text[found.start(1) :]}"


# ------------------------------------------------------------------------------------------------ the cells


def _with_cells(notebook: Notebook, chapter: str, exercise: str) -> Notebook:
    """The notebook with heading, answer and check of the exercise after its last check."""
    last = max((at for at, cell in enumerate(notebook["cells"]) if is_check(cell)), default=len(notebook["cells"]) - 1)
    cells = [*notebook["cells"][: last + 1], *_cells(chapter, exercise), *notebook["cells"][last + 1 :]]
    return {**notebook, "cells": cells}


def _answer(exercise: str) -> str:
    """The answer cell of a new exercise."""
    body = "### BEGIN SOLUTION\n    raise NotImplementedError\n    ### END SOLUTION"
    return f'def {exercise.replace("-", "_")}(numbers):\n    """What it returns, with its unit."""\n    {body}'


def _cells(chapter: str, exercise: str) -> list[Cell]:
    function, check = exercise.replace("-", "_"), f"{exercise}{CHECK_SUFFIX}"
    plain = {"locked": False, "schema_version": 3, "task": False}
    judged = (
        f'check("{exercise}", {function})\n### BEGIN HIDDEN TESTS\ncheck("{exercise}", {function}, '
        f"unseen=True)\n### END HIDDEN TESTS"
    )
    code: Cell = {"cell_type": "code", "execution_count": None, "outputs": []}
    return [
        {
            "cell_type": "markdown",
            "id": f"c{chapter}-{exercise}-card",
            "metadata": {},
            "source": f"{{{{{exercise}.card}}}}",
        },
        {
            **code,
            "id": exercise,
            "metadata": {"nbgrader": {**plain, "grade": False, "grade_id": exercise, "solution": True}},
            "source": _answer(exercise),
        },
        {
            **code,
            "id": check,
            "metadata": {
                "nbgrader": {
                    **plain,
                    "grade": True,
                    "grade_id": check,
                    "locked": True,
                    "points": _POINTS,
                    "solution": False,
                }
            },
            "source": judged,
        },
    ]


# ------------------------------------------------------------------------------------------------ card and judge


def _card(exercise: str, chapter: str = "") -> str:
    """The text of a card: with its id and chapter for a class, where no chapter's package gathers it."""
    function = exercise.replace("-", "_")
    place = f"    id={json.dumps(exercise)},\n    chapter={json.dumps(chapter)},\n" if chapter else ""
    return f'''from course_grader.exercises import Card, Number, Worth

CARD = Card(
{place}    title="WRITE: a title",
    text="""WRITE what is asked, with a number of the variant as {{{{count}}}}; `{function}(numbers)` returns ….""",
    **Worth(points={_POINTS}, minutes=5, difficulty=2, importance=3),
    kind="more",
    hints=("WRITE: a question.", "WRITE: a sketch.", "WRITE: near-code."),
    answers=({json.dumps(function)},),
    params={{"count": 4}},  # params["count"] for the judge, params({json.dumps(exercise)}).count for an answer
    vary=lambda draw: {{"count": draw.randrange(3, 9)}},  # without probe= the answer is called on the case's arguments
    returns=Number("WRITE"),
)
'''


def _judging(exercise: str) -> str:
    answer = _answer(exercise).replace(
        "raise NotImplementedError", "raise NotImplementedError  # WRITE the worked answer"
    )
    return f"""from random import Random

from course_grader.judging import Case, Judging, Outcome, Params, Verdict, Worked, hidden, number_verdict, shown

right = Worked({json.dumps(exercise)})  # the first answer below, on the numbers of the variant that is judged


def _cases(params: Params, rng: Random) -> list[Case]:
    drawn = [[rng.randrange(1, 100) for _ in range(params["count"] + turn)] for turn in range(3)]
    return [(hidden if turn else shown)(f"{{len(x)}} numbers", "values:number", x) for turn, x in enumerate(drawn)]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return [number_verdict("number", case, outcome.value, right.value(case), unit="WRITE")]


JUDGING = Judging(shares={{"values:number": 1.0}}, cases=_cases, verdicts=_verdicts, why="WRITE why it is right.")

ANSWERS = r\'\'\'
# %% right: worked
{answer}

# %% right: WRITE another way
# ~ raise NotImplementedError ==> raise NotImplementedError("WRITE")
# %% wrong: WRITE its name => values
# > WRITE what a learner who does this is told; it follows the name of the case.
# ~ raise NotImplementedError ==> raise NotImplementedError("WRITE the same mistake as a change of the worked answer")
\'\'\'
"""
