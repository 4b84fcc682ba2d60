"""A chapter's program and the same in PyTorch on metered ranks: what each line of either sends."""

import warnings
from collections.abc import Callable, Mapping

from IPython.display import Markdown

from course_chapters.table import table
from course_lib.cluster import simulate


def bytes_by_line(programs: Mapping[str, Callable[..., object]], ranks: int = 2) -> Markdown:
    """A table of the lines that send, one program after the other, with bytes and messages of all ranks together."""
    rows = []
    for name, program in programs.items():
        with warnings.catch_warnings():  # the program may set filters
            run = simulate(program, ranks)
        for line, (nbytes, messages) in run.by_line().items():
            source = (line.partition(": ")[2] or line).replace("|", "\\|")
            rows.append({"": name, "line": f"`{source}`", "bytes": f"{nbytes:,}", "messages": messages})
    return table(rows, f"Bytes and messages of all {ranks} ranks together, on the metered cluster.")
