"""Names of a package that are loaded when they are first used, so that a part of it can be had without what the rest
needs."""

import ast
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

Lazy = tuple[Callable[[str], object], Callable[[], list[str]], list[str]]


def on_first_use(package: str, *, older: Mapping[str, str] = MappingProxyType({})) -> Lazy:
    """`__getattr__`, `__dir__` and `__all__` of a package, from its stub, `__init__.pyi`, which type checkers and
    editors read too: lines `from .module import name as name`. `older` gives names of an earlier release their
    modules."""
    space = vars(sys.modules[package])
    stub = Path(space["__file__"]).with_suffix(".pyi").read_text(encoding="utf-8")
    imports = (each for each in ast.parse(stub).body if isinstance(each, ast.ImportFrom))
    where = {**older, **{alias.name: str(each.module) for each in imports for alias in each.names}}
    offered = sorted(where)

    def load(name: str) -> object:
        if name not in where:
            raise AttributeError(f"{package} has no {name!r}; it has {', '.join(offered)}.")
        value = space[name] = getattr(import_module(f"{package}.{where[name]}"), name)
        return value

    return load, lambda: sorted({*space, *offered}), offered
