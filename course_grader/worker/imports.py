"""The modules that a fork server loads before a submission needs them."""

import ast
import contextlib

from course_grader.notebooks import Notebook
from course_grader.openings import OPENING, written_out
from course_lib.folders import PACKAGES

TRAINING = (
    "torch._dynamo",
    "torch.fx.experimental.symbolic_shapes",
)  # torch imports them at a first backward pass and step: 2 s in every fork


def imports_of(source: Notebook) -> tuple[str, ...]:
    """The modules that one of the course's notebooks imports, and those that torch imports when it trains; the fork
    server loads them beforehand.
    """
    found: set[str] = set()
    if any(".backward(" in cell["source"] for cell in source["cells"] if cell["cell_type"] == "code"):
        found.update(TRAINING)
    for cell in source["cells"]:
        if cell["cell_type"] != "code":
            continue
        found.update(f"course_chapters.{chapter}.page" for chapter in OPENING.findall(cell["source"]))
        with contextlib.suppress(SyntaxError):  # a line that only IPython understands
            for node in ast.walk(ast.parse(written_out(cell["source"]))):
                if isinstance(node, ast.Import):
                    found |= {each.name for each in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    ours = node.module.split(".")[0] in PACKAGES  # what comes from one of our packages may be a module
                    found |= {
                        node.module,
                        *(f"{node.module}.{each.name}" for each in node.names if ours and each.name.islower()),
                    }
    return tuple(sorted(found))
