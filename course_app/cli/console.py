"""What the commands share: examples in their help, and parts of the course that may not be there."""

import importlib
import inspect
from collections.abc import Callable
from types import ModuleType

from course_lib.folders import PACKAGES
from course_lib.messages import Trouble

HELP = "Show this message and exit; after a name, the help of what it names."


def examples(*lines: str) -> str:
    """An epilogue for `--help`: one example a line."""
    return "\n".join(["[bold]Examples[/bold]", *(f"  {line}" for line in lines)])


def words_of(command: Callable[..., object]) -> str:
    """A command's docstring with its paragraphs unwrapped, so that the terminal's own width decides."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


def part(module: str, what: str) -> ModuleType:
    """A part of the course, loaded now; Trouble in words where this copy does not have it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in (*PACKAGES, "bench"):
            problem = f"{what} needs {error.name}, which is not installed here."
            raise Trouble(problem, "`./course doctor` says what is missing; `./course learn` installs it") from error
        problem = f"This copy of the course cannot do it: {what} ({error.name} is not part of this copy)."
        way_out = "in a class, ./course submit hands in; the instructor's clone of the course has the other parts"
        raise Trouble(problem, way_out) from error
