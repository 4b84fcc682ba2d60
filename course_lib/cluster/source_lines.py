"""The line of the learner's code that made a call: a notebook cell or file, and a line number."""

import linecache
import sys
import types
from pathlib import Path

from course_lib.folders import OURS

Line = tuple[str, int] | str

_CLUSTER = str(Path(__file__).resolve().parent)
_STDLIB = str(Path(linecache.__file__).resolve().parent)
_rank: dict[types.CodeType, int] = {}  # what `standing` has found


def standing(code: types.CodeType) -> int:
    """Whose code it is: 2 the learner's, 1 the course library's, 0 this package's, torch's or the standard
    library's."""
    value = _rank[code] = standing_of(code.co_filename)
    return value


def standing_of(file: str) -> int:
    """The same by the name of a file."""
    if file.startswith(_CLUSTER) or "site-packages" in file or file.startswith((_STDLIB, "<frozen")):
        return 0
    return 1 if file.startswith(OURS) else 2


def caller_line() -> tuple[str, int]:
    """File name and line of the innermost learner's frame; if there is none, of the course library's."""
    frame: types.FrameType | None = sys._getframe(1)
    library = ("", 0)
    while frame is not None:
        code = frame.f_code
        value = _rank.get(code)
        if value is None:
            value = standing(code)
        if value == 2:
            return code.co_filename, frame.f_lineno
        if value == 1 and not library[0]:
            library = (code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return library


def line_text(line: Line) -> str:
    """The line in words: "cell In[3], line 5: comm.send(x, 1)" or "ring.py, line 12: …"."""
    if isinstance(line, str):
        return line
    name, number = line
    if not name:
        return "an unknown line"
    source = linecache.getline(name, number).strip()
    label = f"{_label(name)}, line {number}"
    return f"{label}: {source[:100]}" if source else label


def _label(name: str) -> str:
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    if shell is not None:
        try:
            found = shell.compile.format_code_name(name)
        except AttributeError:
            found = None
        if found:
            return " ".join(found).replace("Cell", "cell")
    return name if name.startswith("<") else Path(name).name
