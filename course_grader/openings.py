"""The course's opening line in notebooks, and the imports that it stands for."""

import ast
import re
from functools import cache

from course_lib.folders import ROOT

OPENING = re.compile(r"^from course_chapters\.(ch\d\d)\.page import \*.*$", re.MULTILINE)


def written_out(source: str) -> str:
    """A cell's source with `from course_chapters.chNN import *` replaced by the imports that it stands for."""
    return OPENING.sub(lambda found: _imports(found[1]) or found[0], source)


@cache
def _imports(chapter: str) -> str:
    """The import statements of a chapter's module; "" where there is no such chapter."""
    home = ROOT / "course_chapters" / chapter / "page.py"
    if not home.exists():
        return ""
    body = ast.parse(home.read_text(encoding="utf-8")).body
    return "\n".join(
        ast.unparse(node) for node in body if isinstance(node, ast.Import | ast.ImportFrom) and not _is_private(node)
    )


def _is_private(node: ast.Import | ast.ImportFrom) -> bool:
    return all((each.asname or each.name).startswith("_") for each in node.names)
