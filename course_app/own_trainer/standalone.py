"""An answer out of a notebook as a module of its own: the definitions that it needs, and imports that need no course
but its cluster."""

import ast
import builtins
import symtable
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from course_grader.exercises import card

CLUSTER = "course_lib.cluster"
SHARED = {"copy_in": "conjugate_pair", "sum_out": "conjugate_pair"}  # names that one part takes from another
_MODULES = {  # what chapters offer under a short name
    "F": "from torch.nn import functional as F",
    "nn": "from torch import nn",
    "np": "import numpy as np",
    "dist": "import torch.distributed as dist",
    "P2POp": f"from {CLUSTER} import P2POp",
    "AVG": f"from {CLUSTER} import AVG",
    "SUM": f"from {CLUSTER} import SUM",
    "MAX": f"from {CLUSTER} import MAX",
    "MIN": f"from {CLUSTER} import MIN",
    "Sequence": "from collections.abc import Sequence",
    "Callable": "from collections.abc import Callable",
    "nullcontext": "from contextlib import nullcontext",
    "Tensor": "from torch import Tensor",
    "SimpleNamespace": "from types import SimpleNamespace",
    "defaultdict": "from collections import defaultdict",
    "deque": "from collections import deque",
    "Counter": "from collections import Counter",
    "dataclass": "from dataclasses import dataclass",
    **{
        name: f"import {name}"
        for name in [
            "torch",
            "math",
            "random",
            "hashlib",
            "struct",
            "zlib",
            "copy",
            "itertools",
            "functools",
            "bisect",
            "heapq",
            "statistics",
            "io",
            "json",
            "operator",
        ]
    },
}
_ALLOWED = ("torch", "numpy", CLUSTER)  # besides the standard library
_TAUGHT = tuple(
    f"{CLUSTER}.{name}" for name in ("collectives", "overlap", "parity")
)  # what answers are to do themselves


class NotStandalone(ValueError):
    """An answer needs something that a package of its own cannot carry."""


@dataclass(frozen=True, slots=True)
class _Statement:
    """A top-level statement of a notebook: the names that it binds, and those that it reads, now or later."""

    source: str
    binds: frozenset[str]
    reads: frozenset[str]


def standalone(exercise: str, names: Sequence[str], cells: Sequence[str]) -> str:
    """The source of a module that defines `names`, from a notebook's code cells in order; NotStandalone if there is
    none.

    Of several definitions of a name the last one counts. The exercise's parameters are those of its card.
    """
    bound: dict[str, _Statement] = {}
    order: dict[str, int] = {}
    for place, statement in enumerate(_statements(cells)):
        for name in statement.binds:
            bound[name], order[name] = statement, place
    imports: set[str] = set()
    wanted, done, kept = list(names), set(), {}
    while wanted:
        name = wanted.pop()
        if name in done:
            continue
        done.add(name)
        if name in SHARED and name not in names:
            imports.add(f"from .{SHARED[name]} import {name}")
        elif name in bound:
            kept[order[name]] = bound[name].source
            wanted += bound[name].reads - done
        elif name == "params":
            imports.add("from types import SimpleNamespace")
        elif name in _MODULES:
            imports.add(_MODULES[name])
        elif not hasattr(builtins, name):
            raise NotStandalone(f"it uses `{name}`, which is not defined in the notebook's own cells")
    body = [kept[place] for place in sorted(kept)]
    values = [_parameters(exercise)] if "params" in done and "params" not in bound else []
    _refuse_course(body)
    order_of = sorted(imports, key=lambda line: (line.startswith("from ."), line.startswith("from course"), line))
    return "\n".join(order_of) + "\n\n\n" + "\n\n\n".join([*values, *body]) + "\n"


def _parameters(exercise: str) -> str:
    """A function `params` that answers as the course's does, for the canonical variant of one exercise."""
    fields = {name: value for name, value in card(exercise).params.items() if _is_plain(value)}
    return f"def params(exercise):\n    return SimpleNamespace(**{fields!r})"


def _is_plain(value: object) -> bool:
    return isinstance(value, int | float | str | bool | None) or (
        isinstance(value, list | tuple) and all(map(_is_plain, value))
    )


def _statements(cells: Sequence[str]) -> list[_Statement]:
    """Every definition, import and plain assignment at the top level; a cell that does not parse has none."""
    found = []
    for cell in cells:
        try:
            tree = ast.parse(cell)
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                continue
            if isinstance(node, ast.Import | ast.ImportFrom):
                found += [_one_import(node, alias) for alias in node.names if not _is_params(node, alias)]
            elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign):
                found.append(_definition(node, cell))
    return found


def _is_params(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
    """Whether an import is that of the learner's own functions `check`, `params` and the like."""
    return (
        isinstance(node, ast.ImportFrom) and node.module in ("course_lib", "course_app.notebook") and not alias.asname
    )


def _one_import(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> _Statement:
    name = alias.asname or alias.name.split(".")[0]
    text = ast.unparse(
        ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], node.level)
    )
    return _Statement(text, frozenset({name}), frozenset())


def _definition(node: ast.stmt, cell: str) -> _Statement:
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
    lines = cell.splitlines()[first - 1 : node.end_lineno]
    source = "\n".join(line for line in lines if not line.strip().startswith("### "))
    table = symtable.symtable(ast.unparse(node), "cell", "exec")
    binds = frozenset(each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_namespace())
    here = {each.get_name() for each in table.get_symbols() if each.is_referenced()}
    inside = {name for inner in table.get_children() for name in _globals_of(inner)}
    return _Statement(source, binds, frozenset((here | inside) - binds))


def _globals_of(table: symtable.SymbolTable) -> set[str]:
    names = {each.get_name() for each in table.get_symbols() if each.is_global() and each.is_referenced()}
    for inner in table.get_children():
        names |= _globals_of(inner)
    return names


def _refuse_course(body: Sequence[str]) -> None:
    """NotStandalone if an import in `body` needs the course beyond its cluster, or a package that is not torch or
    numpy."""
    for node in (each for text in body for each in ast.walk(ast.parse(text))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        else:
            continue
        for module in modules:
            top = module.split(".")[0]
            if (
                top in sys.stdlib_module_names
                or any(module == ok or module.startswith(f"{ok}.") for ok in _ALLOWED)
                and module not in _TAUGHT
            ):
                continue
            raise NotStandalone(f"it imports {module}, which a package of its own cannot carry")
