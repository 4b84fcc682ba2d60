"""A notebook of five questions on tensors, as an instructor would add it to a class: what the bench of grading marks
besides chapters."""

from pathlib import Path

from course_grader.notebooks import Cell, Notebook, render, write_whole

CHAPTER, NAME = "00", "00_five"
QUESTIONS = {  # id -> (signature, the answer, the oracle)
    "bench-softmax": (
        "softmax(x)",
        "e = (x - x.amax(-1, keepdim=True)).exp()\n    return e / e.sum(-1, keepdim=True)",
        "torch.softmax(x, -1)",
    ),
    "bench-norm": (
        "norm(x)",
        "m = x.mean(-1, keepdim=True)\n    v = ((x - m) ** 2).mean(-1, keepdim=True)\n    return (x - m) / (v + "
        "1e-5).sqrt()",
        "torch.nn.functional.layer_norm(x, x.shape[-1:])",
    ),
    "bench-gram": ("gram(x)", "return x @ x.T", "torch.einsum('ij,kj->ik', x, x)"),
    "bench-logsumexp": (
        "log_sum(x)",
        "m = x.amax(-1)\n    return m + (x - m[:, None]).exp().sum(-1).log()",
        "torch.logsumexp(x, -1)",
    ),
    "bench-cumulative": ("running(x)", "return torch.stack([x[: i + 1].sum(0) for i in range(len(x))])", "x.cumsum(0)"),
}
_CARD = """from course_grader.exercises import Card

CARD = Card(id="{id}", chapter="{chapter}", title="{id}", text="Write `{signature}`.", points=2,
    minutes=1, difficulty=1, importance=1,
            kind="more", hints=("a", "b", "c"), answers=("{function}",))
"""
_JUDGING = """import torch

from course_grader.judging import Judging
from course_grader.records import Case, Verdict


def cases(params, rng):
    made = []
    for number, shape in enumerate([(3, 4), (8, 16), (5, 7), (1, 9)]):
        coin = torch.Generator().manual_seed(rng.randrange(2**31))
        made.append(Case(name=f"{{shape}}", args=(torch.randn(shape, generator=coin),), visible=number < 2, part="all"))
    return made


def verdicts(params, case, outcome):
    (x,) = case.args
    want, got = {oracle}, outcome.value
    alike = isinstance(got, torch.Tensor) and got.shape == want.shape and got.dtype == want.dtype
    ok = alike and torch.allclose(got, want, rtol=1e-4, atol=1e-4)
    return [Verdict(kind="values", part="all", ok=ok, message="" if ok else "other values", case=case.name)]


JUDGING = Judging(shares={{"values:all": 1.0}}, cases=cases, verdicts=verdicts, why="")
"""


def write_exercises(folder: Path) -> None:
    """Card and judging of each question, as a class's own exercises lie in its folder."""
    for exercise, (signature, _, oracle) in QUESTIONS.items():
        place, function = folder / exercise.replace("-", "_"), signature.split("(")[0]
        write_whole(
            place / "card.py", _CARD.format(id=exercise, chapter=CHAPTER, signature=signature, function=function)
        )
        write_whole(place / "judging.py", _JUDGING.format(oracle=oracle))


def write_source(root: Path) -> Path:
    """The source notebook below `root`/solutions."""
    path = root / "solutions" / NAME / f"{NAME}.ipynb"
    write_whole(path, render(notebook()))
    return path


def notebook() -> Notebook:
    """The source: imports, and for each question answer and check."""
    cells: list[Cell] = [_code("c00-imports", "import torch\n\nfrom course_lib import check")]
    for exercise, (signature, answer, _) in QUESTIONS.items():
        function = signature.split("(")[0]
        text = f"def {signature}:\n    ### BEGIN SOLUTION\n    {answer}\n    ### END SOLUTION"
        cells.append(_graded(exercise, text, solution=True))
        hidden = f'### BEGIN HIDDEN TESTS\ncheck("{exercise}", {function}, unseen=True)\n### END HIDDEN TESTS'
        cells.append(_graded(f"{exercise}-check", f'check("{exercise}", {function})\n{hidden}', solution=False))
    return {
        "cells": cells,
        "metadata": {
            "course": {"chapter": CHAPTER},
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _code(ident: str, source: str) -> Cell:
    return {"cell_type": "code", "id": ident, "metadata": {}, "source": source, "execution_count": None, "outputs": []}


def _graded(ident: str, source: str, *, solution: bool) -> Cell:
    meta = {
        "grade": not solution,
        "grade_id": ident,
        "locked": not solution,
        "schema_version": 3,
        "solution": solution,
        "task": False,
    }
    return {**_code(ident, source), "metadata": {"nbgrader": meta if solution else {**meta, "points": 2}}}
