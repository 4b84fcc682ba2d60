"""A source as an untouched release: stubs for answers, no hidden tests."""

import re

from course_lib.learner.merge import is_answer
from course_lib.learner.notebooks import Notebook

STUB = "raise NotImplementedError"
_REGION = re.compile(r"^([ \t]*)[^\n]*BEGIN SOLUTION.*?END SOLUTION[^\n]*$", re.DOTALL | re.MULTILINE)
_HIDDEN = re.compile(r"^[^\n]*BEGIN HIDDEN TESTS.*?END HIDDEN TESTS[^\n]*\n?", re.DOTALL | re.MULTILINE)


def stubbed(source: str) -> str:
    """An answer cell's source as it is released: a stub in place of every solution region."""
    return _REGION.sub(lambda region: f"{region.group(1)}{STUB}", source)


def blank(source: Notebook) -> Notebook:
    """The source as an untouched release: stubs for answers, no hidden tests."""
    cells = [
        {**cell, "source": stubbed(cell["source"]) if is_answer(cell) else _HIDDEN.sub("", cell["source"])}
        for cell in source["cells"]
    ]
    return {**source, "cells": cells}
