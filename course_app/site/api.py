"""Pages of `course_lib`, a room each: what notebooks import, with signatures and docstrings as Sphinx's autodoc reads
them."""

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType

from course_lib.folders import ROOT

ROOMS = ("estimate", "model", "cluster", "parallel", "operate", "draw")
FOLDER = "api"
_IMPORT = re.compile(r'from course_lib\.([\w.]+) import ([^"\\\n]+)')
_CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)


def modules() -> list[str]:
    """The modules that notebooks import from, those they import whole among them."""
    found = set()
    for path in (ROOT / "notebooks").glob("*/*.ipynb"):
        for module, names in _IMPORT.findall(path.read_text(encoding="utf-8")):
            inside = [f"course_lib.{module}.{name.split()[0]}" for name in names.split(",") if name.strip()]
            whole = [name for name in inside if _is_module(name)]
            found |= set(whole) | ({f"course_lib.{module}"} if len(whole) < len(inside) else set())
    return sorted(found)


def pages() -> dict[str, str]:
    """The text of each page by its name, and of the page that lists them."""
    offered = modules()
    seen = set[int]()
    made = {f"{FOLDER}/index": "# The library\n\nWhat chapters import from `course_lib`, a page for each room.\n"}
    for room in ROOMS:
        here = [name for name in offered if f"{name}.".startswith(f"course_lib.{room}.")]
        made[f"{FOLDER}/{room}"] = f"# {room}\n\n" + "\n".join(_section(name, seen) for name in here)
    made[f"{FOLDER}/index"] += "\n```{toctree}\n:maxdepth: 1\n\n" + "\n".join(ROOMS) + "\n```\n"
    return made


def _section(module: str, seen: set[int]) -> str:
    """A module's heading and what it offers, each class or function where it is met first."""
    here = import_module(module)
    names = getattr(here, "__all__", None) or [name for name in vars(here) if not name.startswith("_")]
    ours = {name: getattr(here, name, None) for name in names}
    whole = hasattr(here, "__all__")
    shown = [
        name
        for name, one in ours.items()
        if isinstance(one, (type, FunctionType))
        and id(one) not in seen
        and (one.__module__ == module or (whole and one.__module__.startswith("course_lib.")))
    ]
    seen |= {id(ours[name]) for name in shown}
    members = f"   :members: {', '.join(shown)}\n" if shown else ""
    head = f"## {module.removeprefix('course_lib.')}\n\n```{{eval-rst}}\n.. automodule:: {module}\n"
    return f"{head}   :ignore-module-all:\n{members}```\n"


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # a name within a module
        return False


def settings() -> dict[str, object]:
    """Sphinx's settings for these pages."""
    return {
        "autodoc_member_order": "bysource",
        "autodoc_typehints_format": "short",
        "autodoc_preserve_defaults": True,
        "python_maximum_signature_line_length": 88,
    }


def restructured(app: object, what: str, name: str, one: object, options: object, lines: list[str]) -> None:
    """Make reStructuredText of a docstring, which is plain text with code in backticks; a named tuple's fields have
    none."""
    text = "" if lines and lines[0].startswith("Alias for field number") else "\n".join(lines)
    lines[:] = "".join(_escaped(text)).split("\n")


def _escaped(text: str) -> Iterator[str]:
    for part in _CODE.split(text):
        if part.startswith("`"):
            yield f"``{part.strip('`')}``"
        else:  # *a word* and **a word** stay emphasized
            yield re.sub(r"(\*{1,2}[A-Za-z][\w -]*\*{1,2})|([*|_\\])", lambda found: found[1] or f"\\{found[2]}", part)
