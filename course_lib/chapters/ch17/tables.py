"""Chapter 17's tables: the budget on one page."""

from collections.abc import Mapping
from typing import Any

from IPython.display import Markdown

from course_lib import capstone
from course_lib.chapters.table import table


def budget(plan: Mapping[str, Any], task: capstone.Task = capstone.COURSE) -> Markdown:
    """A plan on one page."""
    rows = capstone.budget_page(plan, task)
    return table([{"line": line, "choice": choice, "what follows": follows} for line, choice, follows in rows])
