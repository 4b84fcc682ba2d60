"""An exception of a rank, reduced to the learner's own line and frames."""

import traceback
import types

from course_lib.cluster.advice import without_group
from course_lib.cluster.errors import RankError
from course_lib.cluster.source_lines import line_text, standing


def rank_error(rank: int, error: BaseException) -> RankError:
    """The learner's exception, with their own line and frames."""
    line, frames, first = traceback_lines(error)
    if first is not None:
        error = error.with_traceback(first)
    trace = "".join(traceback.format_exception(error)) if frames else "".join(traceback.format_exception_only(error))
    text = f"{error} {without_group(error)}".rstrip()
    told = RankError(rank, type(error).__name__, text, line_text(line) if line[0] else "", trace)
    told.original = error
    return told


def traceback_lines(
    error: BaseException,
) -> tuple[tuple[str, int], list[tuple[str, int, str]], types.TracebackType | None]:
    """Line of the innermost learner's frame, the learner's frames as (file, line, function), and the traceback from
    there."""
    tb = error.__traceback__
    frames: list[tuple[str, int, str]] = []
    first, last_library = None, ("", 0)
    while tb is not None:
        code = tb.tb_frame.f_code
        value = standing(code)
        if value == 2:
            first = first or tb
            frames.append((code.co_filename, tb.tb_lineno, code.co_name))
        elif value == 1:
            last_library = (code.co_filename, tb.tb_lineno)
        tb = tb.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno or 0, ""))
    return (frames[-1][:2] if frames else last_library), frames, first
