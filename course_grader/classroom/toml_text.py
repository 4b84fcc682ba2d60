"""Write plain data as TOML, as far as `class.toml` needs it. The standard library's `tomllib` reads it."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def render(data: Mapping[str, object], head: str = "") -> str:
    """`data` as TOML, tables after plain values, with `head` as a comment at the top."""
    comment = [f"# {line}".rstrip() for line in head.splitlines()]
    return "\n".join([*comment, *([""] if comment else []), *_table(data, ())]).strip() + "\n"


def _table(data: Mapping[str, object], path: tuple[str, ...]) -> list[str]:
    lines = [
        f"{_key(name)} = {_value(value)}"
        for name, value in data.items()
        if value is not None and not isinstance(value, Mapping)
    ]
    for name, value in data.items():
        if isinstance(value, Mapping) and value:
            inside = (*path, name)
            below = _table(value, inside)
            lines += ["", f"[{'.'.join(map(_key, inside))}]", *below]
    return lines


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case datetime():
            return value.isoformat(sep=" ", timespec="seconds")
        case date():
            return value.isoformat()
        case Sequence():
            return f"[{', '.join(_value(each) for each in value)}]"
    raise TypeError(f"{type(value).__name__} has no place in class.toml")
