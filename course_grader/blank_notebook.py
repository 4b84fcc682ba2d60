"""A source as an untouched release: stubs for answers, no hidden tests."""

import json
import re
from collections.abc import Callable, Mapping

from course_grader.notebooks import Cell, Notebook, is_answer, is_by_hand

STUB = "raise NotImplementedError"
TEXT_STUB = "*Your answer here.*"
_REGION = re.compile(r"^([ \t]*)[^\n]*BEGIN SOLUTION.*?END SOLUTION[^\n]*$", re.DOTALL | re.MULTILINE)
_RUBRIC = re.compile(r"BEGIN (?:SOLUTION|MARK SCHEME)[^\n]*\n(.*?)\n[^\n]*END (?:SOLUTION|MARK SCHEME)", re.DOTALL)
_SETTING = re.compile(
    r'^(?P<name>\w+) = params\("(?P<exercise>[\w-]+)"\)\.(?P<parameter>\w+)(?P<comment>  # .*)?$', re.MULTILINE
)
_SET = "  # leave as is: the exercise sets it"
_HIDDEN = re.compile(r"^[^\n]*BEGIN HIDDEN TESTS.*?END HIDDEN TESTS[^\n]*\n?", re.DOTALL | re.MULTILINE)


def stubbed(source: str, kind: str = "code") -> str:
    """An answer cell's source as it is released: a stub in place of every solution region; `kind` is the cell's
    type."""
    stub = STUB if kind == "code" else TEXT_STUB
    return _REGION.sub(lambda region: f"{region.group(1)}{stub}", source)


def rubric(cell: Cell) -> str:
    """What a source's cell says to those who grade it by hand; "" if no person grades it."""
    return "\n\n".join(_RUBRIC.findall(cell["source"])).strip() if is_by_hand(cell) else ""


def with_values(source: str, values: Callable[[str], Mapping[str, object]]) -> str:
    """An answer cell whose lines `name = params("exercise").parameter` hold the value itself, from `values(exercise)`.

    A value that is no number, text or truth value stays with `params`. Where its comment speaks
    of variants, the cell has `_SET` instead.
    """

    def filled(found: re.Match[str]) -> str:
        value = values(found["exercise"]).get(found["parameter"])
        if not isinstance(value, str | int | float):
            return found[0]
        comment = found["comment"] or ""
        written = json.dumps(value) if isinstance(value, str) else repr(value)
        return f"{found['name']} = {written}{_SET if 'variant' in comment else comment}"

    return _SETTING.sub(filled, source)


def without_values(source: str, stub: str) -> str:
    """A cell's source without the lines in which `stub` takes a parameter, however they are written."""
    names = {found["name"] for found in _SETTING.finditer(stub)}
    return re.sub(rf"^(?:{'|'.join(names)}) = .*$", "", source, flags=re.MULTILINE) if names else source


def without_hidden(source: str) -> str:
    """A check cell's source as it is released: without hidden tests."""
    return _HIDDEN.sub("", source)


def blank(source: Notebook) -> Notebook:
    """The source as an untouched release: stubs for answers, no hidden tests."""
    cells = [
        {
            **cell,
            "source": stubbed(cell["source"], cell["cell_type"]) if is_answer(cell) else without_hidden(cell["source"]),
        }
        for cell in source["cells"]
    ]
    return {**source, "cells": cells}
