"""Why a function, or what it uses, cannot be copied for each rank: which named thing, and the reason."""

import inspect
import types
from collections.abc import Callable

Dump = Callable[[object], object]  # raises where its argument cannot be copied


def cannot_copy(dump: Dump, thing: object, name: str | tuple[str, ...], error: Exception) -> str:
    """What `dump` cannot copy and why, in words; several names are those of the parts of `thing`."""
    for part, one in zip(thing, name, strict=True) if isinstance(thing, tuple) and isinstance(name, tuple) else ():
        try:
            dump(part)
        except Exception as inner:
            return cannot_copy(dump, part, one, inner)
    path, cause = _culprit(dump, thing, str(name), error)
    return (
        f"Every rank gets its own copy of the function and what it uses, and {path} cannot be copied: {cause}. "
        "Make it inside the function, or pass in what it is made from."
    )


def _culprit(dump: Dump, thing: object, name: str, error: Exception, depth: int = 0) -> tuple[str, str]:
    """The innermost named thing that cannot be copied, and why."""
    parts: list[tuple[str, object]] = []
    if isinstance(thing, types.FunctionType):
        inside = inspect.getclosurevars(thing)
        parts = [(f"the global {key!r}", value) for key, value in inside.globals.items()]
        parts += [(f"the outer variable {key!r}", value) for key, value in inside.nonlocals.items()]
        parts += [("a default of the function", value) for value in (thing.__defaults__ or ())]
    elif isinstance(thing, (tuple, list)):
        parts = [(f"{name}[{index}]", value) for index, value in enumerate(thing)]
    elif isinstance(thing, dict):
        parts = [(f"{name}[{key!r}]", value) for key, value in thing.items()]
    for part, value in parts if depth < 6 else ():
        try:
            dump(value)
        except Exception as inner:
            return _culprit(dump, value, part, inner, depth + 1)
    return name, f"{type(error).__name__}: {error}"
