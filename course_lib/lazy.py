"""Names of a package that are loaded when they are first used, so that a part of it can be had without what the rest
needs."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def on_first_use(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, from each of its modules' names that it offers."""
    where = {name: home for home, names in homes.items() for name in names}
    offered = sorted(where)
    space = vars(sys.modules[package])

    def load(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"{package} has no {name!r}; it has {', '.join(offered)}.")
        value = space[name] = getattr(import_module(f"{package}.{where[name]}"), name)
        return value

    return load, lambda: sorted({*space, *offered}), offered


def named(place: str) -> Any:
    """What `module:name` names; the module is imported only now."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
