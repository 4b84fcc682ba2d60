"""What IPython adds to two errors: of a check where the cell of its answer has not run (before it, after a restart, or
after a syntax error), and of torch.distributed where there is no group.
"""

import re
from types import TracebackType
from typing import TYPE_CHECKING

from course_grader.exercises import card
from course_lib.cluster.advice import without_group

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

_CHECKS = re.compile(r"^\s*(?:check|predict)\(\s*[\"']([\w-]+)[\"']", re.MULTILINE)
_DEFINES = re.compile(r"^(?:def|class)\s+(\w+)|^(\w+)\s*(?::[^=\n]+)?=[^=]", re.MULTILINE)
_unread: set[str] = set()  # names whose newest cell could not be read


def watch(shell: "InteractiveShell") -> None:
    """Explain, in this IPython shell, the NameError of a check without its answer and torch's error that there is no
    process group, and note cells that cannot be read."""
    shell.set_custom_exc((NameError, ValueError), _explain)
    shell.events.register("post_run_cell", _note)


def outdated(names: tuple[str, ...]) -> str:
    """A sentence on those of the names whose newest cell could not be read, so that an older one was judged; "" if
    there is none."""
    old = [f"{name}" for name in names if name in _unread]
    if not old:
        return ""
    return f"The newest cell of {', '.join(old)} has a syntax error and did not run: judged is what ran before it."


def _note(result: "ExecutionResult") -> None:
    raw = result.info.raw_cell if result.info is not None else ""
    names = {name for pair in _DEFINES.findall(raw or "") for name in pair if name}
    if isinstance(result.error_before_exec, SyntaxError):
        _unread.update(names)
    elif result.error_before_exec is None:
        _unread.difference_update(names)


def _explain(
    shell: "InteractiveShell",
    kind: type[BaseException],
    error: NameError | ValueError,
    trace: TracebackType,
    tb_offset: int | None = None,
) -> list[str] | None:
    """The traceback that is shown: a sentence where a check lacks its answer; else IPython's own, with a sentence below
    it where torch has no process group."""
    if isinstance(error, NameError):
        assert shell.history_manager
        asked = _CHECKS.findall(shell.history_manager.input_hist_raw[-1])
        words = list(filter(None, (missing(exercise, error.name or "") for exercise in asked)))
        lines = [f"{kind.__name__}: {error}"] if words else []
    else:
        words = list(filter(None, [without_group(error)]))
        lines = shell.InteractiveTB.structured_traceback(kind, error, trace, tb_offset=tb_offset) if words else []
    if not words:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
        return None
    lines += words
    shell._showtraceback(kind, error, lines)
    return lines


def missing(exercise: str, name: str) -> str:
    """What to run where a check of this exercise does not find a name; "" where the name is none of its answers."""
    try:
        answers = card(exercise).answers
    except ValueError:
        return ""
    if name not in answers:
        return ""
    if name in _unread:
        return f"Your cell of {name} has a syntax error, so it did not run: mend it, run it, then run this check again."
    return f"Your cell of {name} has not run since the kernel started: run it, then run this check again."
