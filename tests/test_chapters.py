"""The names that a chapter's first cell brings, and what the grader reads in that cell."""

import ast
import builtins
import importlib
import re
import symtable
from pathlib import Path
from types import ModuleType

import nbformat
import pytest

from course_grader import exercises
from course_grader.dependencies import _course_cell, _imported
from course_grader.openings import OPENING, written_out
from course_grader.worker.imports import imports_of

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {path.parent.name[:2]: path for path in sorted(ROOT.glob("solutions/*/*.ipynb"))}
OPENED = [chapter for chapter, path in SOURCES.items() if "from course_chapters" in path.read_text(encoding="utf-8")]


RELEASED = {path.parent.name[:2]: path for path in sorted(ROOT.glob("notebooks/*/*.ipynb"))}
each_released = pytest.mark.parametrize("chapter", RELEASED)


def released_cells(chapter: str, kind: str) -> list[nbformat.NotebookNode]:
    """The cells of one kind, "code" or "markdown", that a learner gets."""
    return [cell for cell in nbformat.read(RELEASED[chapter], as_version=4).cells if cell.cell_type == kind]


@each_released
def test_the_core_path_has_at_most_5000_words(chapter):
    """Cards of the core included; what is folded is not on the core path."""
    prose = "\n".join(cell.source for cell in released_cells(chapter, "markdown"))
    words = re.sub(r"<details.*?</details>", "", prose, flags=re.DOTALL).split()
    assert len(words) <= 5000


@each_released
def test_cells_are_short_enough_to_show_their_idea(chapter):
    first, *others = released_cells(chapter, "code")
    long = [cell.id for cell in others if len(cell.source.splitlines()) > 15 and not cell.metadata.get("nbgrader")]
    plain = [line for line in first.source.splitlines() if not line.startswith(("from course_lib", "from course_runs"))]
    assert len(plain) <= 3 and len(first.source.splitlines()) <= 15 and len(long) <= 2, long


@each_released
def test_a_chapter_closes_with_the_quiz_of_four_verbs(chapter):
    prose = "\n".join(cell.source for cell in released_cells(chapter, "markdown"))
    asked = re.findall(r"<details><summary><b>(\w+)\.</b>", prose)
    assert asked == ["Fits", "Learns", "Communicates", "Resumes"]


@each_released
def test_no_plot_or_table_is_built_in_a_cell(chapter):
    """Axes, legends and Markdown strings are the library's business."""
    plumbing = re.compile(r"\b(axes|ax|plt)\.\w+\(|style\.(new|dress)\(|\bMarkdown\(")
    assert not [cell.id for cell in released_cells(chapter, "code") if plumbing.search(cell.source)]


def code_of(chapter: str) -> list[str]:
    """The sources of a chapter's code cells; of one that Python cannot parse (magics), nothing."""
    cells = [cell.source for cell in nbformat.read(SOURCES[chapter], as_version=4).cells if cell.cell_type == "code"]
    return [source for source in cells if not source.lstrip().startswith(("%", "!"))]


def globals_read(source: str) -> set[str]:
    """The global names that a piece of code reads, inside its functions too."""
    tables, names = [symtable.symtable(source, "cell", "exec")], set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        top = table.get_type() == "module"
        names |= {one.get_name() for one in table.get_symbols() if one.is_referenced() and (top or one.is_global())}
    return names


def bound(source: str) -> set[str]:
    """The global names that a piece of code binds."""
    table = symtable.symtable(source, "cell", "exec")
    return {
        one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported() or one.is_namespace()
    }


@pytest.mark.parametrize("chapter", OPENED)
def test_a_chapter_finds_every_name_it_uses_and_imports_none_in_vain(chapter):
    page = importlib.import_module(f"course_chapters.ch{chapter}.page")
    given = {name for name in vars(page) if name[0] != "_"}
    whole = "\n".join(code_of(chapter))
    read, own = globals_read(whole), bound(whole)
    assert not read - own - given - set(dir(builtins)) - {"display", "get_ipython"}
    modules = {path.stem for path in (ROOT / f"course_chapters/ch{chapter}").glob("*.py")}
    assert not given - read - modules, "imported, and used nowhere in the chapter"


@pytest.mark.parametrize("chapter", OPENED)
def test_a_module_has_every_name_that_a_chapter_takes_from_it(chapter):
    space: dict[str, object] = {}
    tree = ast.parse("\n".join(code_of(chapter)))
    imports = [line for line in tree.body if isinstance(line, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), chapter, "exec"), space)
    taken = {
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    modules = {name: each for name, each in space.items() if isinstance(each, ModuleType)}
    assert not [pair for pair in taken if pair[0] in modules and not hasattr(modules[pair[0]], pair[1])]


@pytest.mark.parametrize("chapter", OPENED)
def test_the_grader_reads_the_same_names_in_the_first_cell_as_python_binds(chapter):
    (source,) = [cell for cell in code_of(chapter) if OPENING.search(cell)]
    space: dict[str, object] = {}
    exec(source, space)
    python = {name for name in space if not name.startswith("__")}
    modules = {path.stem for path in (ROOT / f"course_chapters/ch{chapter}").glob("*.py")}
    assert python - modules == _imported(source) - modules
    assert _course_cell(source, frozenset()).binds >= _imported(source) and not _course_cell(source, frozenset()).beyond
    notebook = {"cells": [{"cell_type": "code", "source": source}]}
    assert {f"course_chapters.ch{chapter}.page", "torch"} - set(imports_of(notebook)) <= {"torch"} - set(python)


def test_a_star_import_of_anything_else_stays_what_it_is():
    for source in ("from math import *", "from course_chapters.ch99 import *", "x = 'from course_lib'"):
        assert written_out(source) == source
    assert "*" not in {
        alias.name
        for node in ast.walk(ast.parse(written_out("from course_chapters.ch06.page import *")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


@each_released
def test_the_core_is_one_run_and_the_further_sections_follow_it(chapter):
    """Core exercises stand before "That was the core", all others after it; its links lead to headings below it."""
    cells = nbformat.read(RELEASED[chapter], as_version=4).cells
    done = [cell.id for cell in cells].index(f"c{chapter}-core-done")
    kinds = {card.id: card.kind for card in exercises.cards(chapter)}
    before, after = ([kinds[cell.id] for cell in part if cell.id in kinds] for part in (cells[:done], cells[done:]))
    assert set(before) == {"core"} and set(after) == {"more"}
    below = "\n".join(cell.source for cell in cells[done + 1 :] if cell.cell_type == "markdown")
    headings = {line.lstrip("#").strip().replace(" ", "-") for line in below.splitlines() if line.startswith("#")}
    links = set(re.findall(r"\]\(#([^)]+)\)", cells[done].source))
    assert cells[done].source.startswith("## That was the core\n") and links and links <= headings
