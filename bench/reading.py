"""How much one has to read to understand a capability: the definitions that it is made of, and the modules that its
import loads.

`./course bench reading` prints a row for each capability. Definitions are followed by name from the entry points
through the modules of `course_lib`, a class with all its methods; pictures and what is not of `course_lib` do not
count. Docstrings, comments and blank lines do. What a function imports only when it needs it (an error's words, checks,
other forms of the same) is in the second column alone.
"""

import argparse
import ast
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from course_lib.folders import ROOT

WANTED: Mapping[
    str, tuple[Sequence[str], int]
] = {  # capability -> (its entry points, the most lines that one should have to read)
    "simulate: ranks, messages, clock, meter, deadlock": (
        ("course_lib.cluster.simulation:simulate", "course_lib.cluster.thread_host:ThreadHost"),
        1500,
    ),
    "ring all-reduce": (("course_lib.cluster.collectives:ring_all_reduce",), 65),
    "GPipe and 1F1B, with their timeline": (
        (
            "course_lib.parallel.schedules:gpipe",
            "course_lib.parallel.schedules:one_f_one_b",
            "course_lib.parallel.timeline:play",
        ),
        400,
    ),
    "ZeRO-3 / FSDP": (("course_lib.parallel.sharding.fsdp:FullySharded",), 300),
    "ring attention with its backward pass": (("course_lib.parallel.context.ring:ring_attention",), 250),
    "memory of a training step": (("course_lib.estimate.memory:stage_peak",), 700),
    "a trainer on four axes": (("course_lib.parallel.four_axes:train",), 400),
}
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
BASE = (
    "course_lib.lazy",
    "course_lib.messages",
    "course_lib.folders",
    "course_lib.estimate.units",
)  # read once, for everything
CLUSTER = "course_lib.cluster"
KNOWN: Mapping[str, Sequence[str]] = {  # capability -> what its reader knows from earlier chapters, besides the cluster
    "ring all-reduce": ("course_lib.model.accounting",),
    "ZeRO-3 / FSDP": ("course_lib.model.accounting",),
    "a trainer on four axes": (
        "course_lib.model.",
        "course_lib.parallel.mesh.layout",
        "course_lib.parallel.schedules.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one reads for a capability."""

    capability: str
    lines: int  # of the definitions that it needs
    looked_up: int  # with those that a function imports only when it needs them
    files: int  # that hold them
    loaded: int  # lines of all modules of `course_lib` that importing it loads
    wanted: int


@dataclass(frozen=True, slots=True)
class _Module:
    definitions: Mapping[str, ast.stmt]
    imported: Mapping[str, tuple[str, str]]  # name here -> (module, name there); "" is the module itself
    at_once: frozenset[str]  # those of them that importing the module imports


@cache
def _module(name: str) -> _Module | None:
    spec = find_spec(name)
    if spec is None or not spec.origin:
        return None
    definitions: dict[str, ast.stmt] = {}
    imported: dict[str, tuple[str, str]] = {}
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, FUNCTIONS) for part in ast.walk(node)}
    at_once = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("course_lib"):
            at_once |= {each.asname or each.name for each in node.names if id(node) not in inside}
            for each in node.names:
                whole = f"{node.module}.{each.name}"
                imported[each.asname or each.name] = (
                    (whole, "") if _is_module(whole) else (node.module or "", each.name)
                )
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=defined) | ast.ClassDef(name=defined):
                definitions[defined] = node
            case ast.Assign(targets=targets):
                definitions |= {
                    each.id: node for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)
                }
            case ast.AnnAssign(target=ast.Name(id=defined)):
                definitions[defined] = node
    return _Module(definitions, imported, frozenset(at_once))


@cache
def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ModuleNotFoundError, AttributeError):
        return False


@cache
def _home(module: str, name: str) -> tuple[str, str]:
    """Where a package's name is defined: packages hand on the names of their modules."""
    known = _module(module)
    if known and name in known.definitions:
        return module, name
    if known and name in known.imported and known.imported[name][1]:
        return _home(*known.imported[name])
    package = find_spec(module)
    for folder in (package.submodule_search_locations or ()) if package else ():
        for path in sorted(Path(folder).glob("*.py")):
            inner = _module(f"{module}.{path.stem}")
            if path.stem != "__init__" and inner and name in inner.definitions:
                return f"{module}.{path.stem}", name
    return module, name


def needed(
    entries: Sequence[str], without: Sequence[str] = (), looked_up: bool = False
) -> dict[tuple[str, str], ast.stmt]:
    """The definitions that are reached by name from `module:name` entries, not following modules that begin as in
    `without`.

    With `looked_up`, imports within functions are followed as well.
    """
    found: dict[tuple[str, str], ast.stmt] = {}
    todo = [_home(*entry.split(":")) for entry in entries]
    own = {module for module, _ in todo}
    while todo:
        module, name = todo.pop()
        known = _module(module)
        if (module, name) in found or known is None or name not in known.definitions:
            continue
        if module in BASE or (module.startswith(("course_lib.draw", *without)) and module not in own):
            continue
        found[module, name] = node = known.definitions[name]
        imported = {one: at for one, at in known.imported.items() if looked_up or one in known.at_once}
        for each in ast.walk(node):
            if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in imported:
                at, inner = imported[each.value.id]
                todo.append(_home(at, each.attr) if not inner else _home(at, inner))
            elif isinstance(each, ast.Name):
                if each.id in known.definitions:
                    todo.append((module, each.id))
                elif each.id in imported and imported[each.id][1]:
                    todo.append(_home(*imported[each.id]))
    return found


def loaded(entries: Sequence[str]) -> int:
    """Lines of the modules of `course_lib` that importing the entries' modules loads, pictures aside."""
    modules = sorted({_home(*entry.split(":"))[0] for entry in entries})
    program = (
        f"import sys, json, {', '.join(modules)}; print(json.dumps([m.__file__ for n, m in sys.modules.items() "
        f"if n.startswith('course_lib')]))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return sum(
        Path(path).read_text(encoding="utf-8").count("\n") for path in json.loads(done.stdout) if "/draw/" not in path
    )


def _lines(definitions: Mapping[tuple[str, str], ast.stmt]) -> int:
    places = {(module, node.lineno, node.end_lineno or node.lineno) for (module, _), node in definitions.items()}
    return sum(end - start + 1 for _, start, end in places)


def rows() -> list[Reading]:
    """A row for each capability; what stands on the cluster takes the cluster as known."""
    found = []
    for capability, (entries, wanted) in WANTED.items():
        without: tuple[str, ...] = () if entries[0].startswith(f"{CLUSTER}.simulation") else (f"{CLUSTER}.",)
        definitions = needed(entries, (*without, *KNOWN.get(capability, ())))
        more = needed(entries, (*without, *KNOWN.get(capability, ())), looked_up=True)
        found.append(
            Reading(
                capability=capability,
                lines=_lines(definitions),
                looked_up=_lines(more),
                files=len({module for module, _ in definitions}),
                loaded=loaded(entries),
                wanted=wanted,
            )
        )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if something takes more reading than it should."""
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(
        prog="course bench reading", description=__doc__.partition("\n")[0] if __doc__ else ""
    )
    parser.add_argument("--json", action="store_true", help="the rows as JSON")
    given = parser.parse_args(arguments)
    measured = rows()
    if given.json:
        print(json.dumps([{name: getattr(row, name) for name in row.__slots__} for row in measured], indent=1))
    else:
        table = Table("capability", "lines to read", "in files", "wanted", "with what is looked up", "its import loads")
        for row in measured:
            table.add_row(
                row.capability,
                f"{row.lines:,}",
                str(row.files),
                f"≤ {row.wanted:,}",
                f"{row.looked_up:,}",
                f"{row.loaded:,}",
            )
        Console().print(table)
    return int(any(row.lines > row.wanted for row in measured))


if __name__ == "__main__":
    raise SystemExit(main())
