"""In a notebook: errors name the cell first, prints and copies behave, real processes and pictures work."""

import re

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from tests.patience import patience

CELLS = {
    "imports": "import torch\nfrom course_lib.cluster import attempt, simulate\n"
    "from course_runs.real_ranks import launch\nshelf = []",
    "copies": """class Box:
    things = 0
def program(comm):
    print("hello from", comm.rank)
    Box.things += 1
    shelf.append(1)
    comm.barrier()
    return Box.things, len(shelf)
print(simulate(program, 2).results, Box.things, shelf)""",
    "deadlock": """def locked(comm):
    x = torch.ones(4)
    comm.send(x, (comm.rank + 1) % comm.size)
simulate(locked, 2)""",
    "raises": """def fails(comm):
    comm.barrier()
    return 1 / comm.rank
simulate(fails, 2)""",
    "processes": "print(launch(program, 2).results)",
    "picture": "simulate(program, 2).show()",
}


@pytest.fixture(scope="module")
def outputs():
    book = new_notebook(cells=[new_code_cell(source) for source in CELLS.values()])
    NotebookClient(book, allow_errors=True, timeout=int(patience(120)), kernel_name="python3").execute()
    assert nbformat.validate(book) is None
    return dict(zip(CELLS, (cell.outputs for cell in book.cells), strict=True))


def text(outputs):
    return "".join(out.get("text", "") for out in outputs if out.output_type == "stream")


def traceback(outputs):
    error = next(out for out in outputs if out.output_type == "error")
    return error.evalue, re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))


def test_names_of_the_notebook_are_copied_and_prints_carry_the_rank(outputs):
    said = text(outputs["copies"])
    assert "[rank 0] hello from 0\n" in said and "[rank 1] hello from 1\n" in said
    assert "[(1, 1), (1, 1)] 0 []" in said


def test_a_deadlock_names_the_cell_and_the_line(outputs):
    value, _ = traceback(outputs["deadlock"])
    assert "at cell In[3], line 3: comm.send(x, (comm.rank + 1) % comm.size)" in value and "0 → 1 → 0" in value


def test_an_error_shows_the_learners_cell_first(outputs):
    value, trace = traceback(outputs["raises"])
    assert value.startswith("cell In[4], line 3: return 1 / comm.rank: rank 0 raised ZeroDivisionError")
    assert trace.index("Cell In[4], line 3, in fails(comm)") < trace.index("course_lib")


def test_the_same_function_runs_on_real_processes(outputs):
    said = text(outputs["processes"])
    assert "[(1, 1), (1, 1)]" in said and "[rank 1] hello from 1" in said


def test_a_run_shows_itself(outputs):
    assert any(out.output_type in ("display_data", "execute_result") for out in outputs["picture"])
