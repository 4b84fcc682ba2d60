"""Which of a chapter's own cells the graded answers depend on. The others only show or measure something and need not
run.

Only unchanged cells of the chapter are ever left out, because only their effect is known in advance. A cell is kept if
it binds or changes a name that a kept cell reads, or if it changes something outside the notebook's names. If a
learner's cell uses names in a way that cannot be analyzed (`eval`, `globals`, magics, …), every cell is kept.
"""

import ast
import re
import symtable
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Unpack

from course_grader.exercises import Card
from course_grader.judge.grade_notebook import GradedNotebook, Options, grade_notebook
from course_grader.notebooks import Notebook
from course_grader.openings import written_out
from course_grader.submission import READ, Submission
from course_grader.worker.worker_pool import WorkerPool

_WORDS = re.compile(r"[^\W\d]\w*")
_UNREADABLE = {
    "eval",
    "exec",
    "compile",
    "globals",
    "locals",
    "vars",
    "dir",
    "__import__",
    "__builtins__",
    "__main__",
    "_getframe",
    "currentframe",
    "get_ipython",
    "run_cell",
    "user_ns",
    "modules",
    "importlib",
    "getattr_static",
    "gc",
}
_OUTSIDE = re.compile(
    r"(manual_)?seed(_all)?$|set[_A-Z]\w*$|setattr$|setitem$|use$|use_\w+$|\w*(filter|config|register|patch)\w*$|rc\w*$|add_\w+$|putenv$|chdir$"
)
_MISSED = re.compile(r"name '(\w+)' is not defined|`(\w+)` is not defined")


@dataclass(frozen=True, slots=True)
class _Cell:
    """A cell's effect on the notebook's names. Functions read theirs when they are called, at any later time."""

    reads: frozenset[str]  # while it runs, before binding it itself
    later: frozenset[str]  # inside its functions
    binds: frozenset[str]  # for certain
    gives: frozenset[str]  # perhaps: bound in a branch, or changed in place
    beyond: bool = False  # it changes something outside the notebook's names


def grade_needed_cells(
    whole: Submission, source: Notebook, cards: Sequence[Card], workers: WorkerPool, **more: Unpack[Options]
) -> GradedNotebook:
    """`grade_notebook` on the needed cells; on all of them if it turns out that more were needed."""
    part = needed(whole, source)
    done = grade_notebook(part, cards, workers, **more)
    return (
        grade_notebook(whole, cards, workers, **more)
        if part is not whole and missed(whole, part, done.errors)
        else done
    )


def needed(submission: Submission, source: Notebook) -> Submission:
    """The submission without those unchanged cells of the chapter on which nothing graded depends."""
    if sum(len(step.source) for step in submission.steps if step.do == "run") > READ:
        return submission
    ours = {cell["source"] for cell in source["cells"] if cell["cell_type"] == "code"}
    imported = frozenset(name for text in ours for name in _imported(text))
    cells: dict[int, _Cell] = {}
    shown: set[int] = set()
    for index, step in enumerate(submission.steps):
        if step.do == "run" and step.whose == "course" and step.source in ours:
            cells[index] = _course_cell(step.source, imported)
            shown.add(index)
        elif step.do == "run":
            cell = _learners_cell(step.source)
            if cell is None:
                return submission
            cells[index] = cell
    kept = _kept(cells, shown)
    steps = tuple(step for index, step in enumerate(submission.steps) if index not in shown or index in kept)
    return replace(submission, steps=steps)


def missed(whole: Submission, part: Submission, errors: Iterable[str]) -> bool:
    """Whether an error of a run of `part` complains about a name that only a left-out cell binds. Then grade
    `whole`."""
    complained = {one or other for text in errors for one, other in _MISSED.findall(text)}
    if not complained:
        return False
    left_out = [step for step in whole.steps if step.do == "run" and step not in part.steps]
    return any(complained & _course_cell(step.source, frozenset()).gives for step in left_out)


def _kept(cells: dict[int, _Cell], shown: set[int]) -> set[int]:
    """The cells in `shown` on which the others depend, found by going back from the end until nothing is added."""
    kept: set[int] = set()
    while True:
        before, live = len(kept), frozenset[str]()
        called: dict[int, frozenset[str]] = {}  # names that functions of the cells above may read from here on
        above = frozenset[str]()
        for index in sorted(cells):
            called[index] = above
            above |= cells[index].later if index not in shown or index in kept else frozenset()
        live = above
        for index in sorted(cells, reverse=True):
            cell, live = cells[index], live | called[index]
            if index in shown and not (cell.beyond or (cell.binds | cell.gives) & live):
                continue
            if index in shown:
                kept.add(index)
            live = (live - cell.binds) | cell.reads | (cell.later - cell.binds)
        if len(kept) == before:
            return kept


@lru_cache(maxsize=2048)  # many hand in the same stubs
def _learners_cell(source: str) -> _Cell | None:
    """The effect of a learner's cell; None if the names that it reads cannot be determined from its text."""
    source = written_out(source)
    try:
        tree, table = ast.parse(source), symtable.symtable(source, "cell", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # magics, or a slip: every word may be a name
        found = frozenset(_WORDS.findall(source))
        if found & _UNREADABLE or re.search(r"^\s*[%!]|\?\s*$", source, re.MULTILINE):
            return None
        return _Cell(found, found, frozenset(), found)
    if not _UNREADABLE.isdisjoint(_WORDS.findall(source)):
        return None
    bound = {name for statement in tree.body for name in _plainly_bound(statement)}
    inside = {name for inner in table.get_children() for name in _reads(inner)}
    here = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    return _Cell(frozenset(here | (inside - bound)), frozenset(inside - bound), frozenset(bound), frozenset())


def _plainly_bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds in any case."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield statement.name
        case ast.Import() | ast.ImportFrom():
            yield from (alias.asname or alias.name.split(".")[0] for alias in statement.names)
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            yield name


@cache
def _imported(source: str) -> frozenset[str]:
    """The names that one of the chapter's own cells imports."""
    try:
        tree = ast.parse(written_out(source))
    except (SyntaxError, ValueError):
        return frozenset()
    return frozenset(
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    )


@cache
def _course_cell(source: str, imported: frozenset[str]) -> _Cell:
    """The effect of one of the chapter's own cells; a cell that cannot be analyzed is kept."""
    try:
        tree = ast.parse(written_out(source))
        cell = _names_of(tree)
    except (SyntaxError, ValueError):
        return _Cell(frozenset(), frozenset(), frozenset(), frozenset(), True)
    gives, beyond = set(cell.gives), "*" in _imported(source)
    for statement in _top_level(tree):
        for root, name in _changes(statement):
            if root in imported or root == name:
                beyond = beyond or bool(_OUTSIDE.match(name))
            else:
                gives.add(root)
    return replace(cell, gives=frozenset(gives), beyond=beyond)


def _names_of(tree: ast.Module) -> _Cell:
    """What a cell reads and binds, statement by statement; names bound in a branch are not certain."""
    flow = _Flow()
    flow.through(tree.body, flow.binds)
    return _Cell(
        frozenset(flow.reads), frozenset(flow.later), frozenset(flow.binds), frozenset(flow.gives - flow.binds)
    )


class _Flow:
    """Walks through statements in the order in which they run."""

    def __init__(self) -> None:
        self.reads: set[str] = set()
        self.later: set[str] = set()
        self.binds: set[str] = set()
        self.gives: set[str] = set()

    def through(self, statements: Sequence[ast.stmt], binds: set[str]) -> None:
        """`binds` holds the names that are certainly bound at this point; it grows."""
        for statement in statements:
            match statement:
                case ast.For():
                    self._simple(ast.Expr(statement.iter), binds)
                    self._branch([ast.Delete([statement.target])], statement.body, binds)
                    self._branch([], statement.orelse, binds)
                case ast.If() | ast.While():
                    self._simple(ast.Expr(statement.test), binds)
                    self._branch([], statement.body, binds)
                    self._branch([], statement.orelse, binds)
                case ast.Try() if all(isinstance(each, ast.Import | ast.ImportFrom) for each in statement.body):
                    self.through(statement.body, binds)
                case _:
                    self._simple(statement, binds)

    def _branch(self, first: Sequence[ast.stmt], body: Sequence[ast.stmt], binds: set[str]) -> None:
        inside = set(binds)
        for statement in first:  # a loop's variables: bound, not read
            inside |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        self.through(body, inside)
        self.gives |= inside - binds

    def _simple(self, statement: ast.stmt, binds: set[str]) -> None:
        table = symtable.symtable(ast.unparse(statement), "cell", "exec")
        inside = {name for inner in table.get_children() for name in _reads(inner)}
        here = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
        function = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
        self.reads |= (here if function else here | inside) - binds
        if function or any(
            isinstance(node, ast.Lambda | ast.FunctionDef | ast.GeneratorExp) for node in ast.walk(statement)
        ):
            self.later |= inside
        bound = {
            each.get_name()
            for each in table.get_symbols()
            if each.is_assigned() or each.is_imported() or each.is_namespace()
        }
        if isinstance(statement, ast.Try | ast.Match):
            self.gives |= bound
        else:
            binds |= bound


def _reads(table: symtable.SymbolTable) -> set[str]:
    """The global names that a scope and the scopes inside it read."""
    top = table.get_type() == "module"
    names = {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced() and (top or symbol.is_global())
    }
    for inner in table.get_children():
        names |= _reads(inner)
    return names


def _top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements that run with the cell, including those inside loops and branches."""
    todo = list(tree.body)
    while todo:
        statement = todo.pop()
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            todo += [child for child in ast.walk(statement) if isinstance(child, ast.stmt) and child is not statement]


def _changes(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """(name, attribute or method) of in-place changes by a statement: `x[i] = …`, `x.a = …`, `x.method(…)`."""
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
        targets = statement.targets if isinstance(statement, ast.Assign | ast.Delete) else [statement.target]
        for target in (node for each in targets for node in ast.walk(each)):
            if (
                isinstance(target, ast.Attribute | ast.Subscript)
                and not isinstance(target.ctx, ast.Load)
                and (root := _root(target))
            ):
                yield root, "setattr" if isinstance(target, ast.Attribute) else "setitem"
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        if isinstance(function, ast.Attribute) and (root := _root(function)):
            yield root, function.attr
        elif isinstance(function, ast.Name):
            yield function.id, function.id


def _root(node: ast.expr) -> str:
    """The name at the start of a chain of attributes, items and calls; "" if there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
