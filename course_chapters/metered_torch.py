"""A chapter's program and the same in PyTorch on metered ranks: what each line of either sends."""

import warnings
from collections.abc import Callable, Mapping

from IPython.display import Markdown

from course_chapters.table import table
from course_lib.cluster import simulate
from course_lib.parallel.mesh import Mesh


def bytes_by_line(
    programs: Mapping[str, Callable[..., object]],
    ranks: int = 2,
    mesh: Mesh | None = None,
    predicted: Mapping[str, Mapping[str, float]] | None = None,
) -> Markdown:
    """A table of the lines that send, one program after the other, with bytes and messages of all ranks together.

    With `mesh`, which says how many ranks there are, a line has a row for each axis along which it sends; rows of
    `predicted` bytes by axis come last.
    """
    ranks, rows = mesh.size if mesh else ranks, []

    def row(name: str, along: str, line: str, nbytes: float, messages: object) -> None:
        on_mesh = {"along": along} if mesh else {}
        rows.append({"": name, **on_mesh, "line": line, "bytes": f"{nbytes:,.0f}", "messages": messages})

    for name, program in programs.items():
        with warnings.catch_warnings():  # the program may set filters
            run = simulate(program, ranks)
        counts: dict[tuple[str, str], tuple[int, int]] = {}
        for message in run.messages:
            along = " ".join(mesh.axes_between(message.src, message.dst)) if mesh else ""
            nbytes, number = counts.get((along, message.line), (0, 0))
            counts[along, message.line] = nbytes + message.nbytes, number + 1
        for (along, line), found in counts.items():
            source = (line.partition(": ")[2] or line).replace("|", "\\|")
            row(name, along, f"`{source}`", *found)
    for name, by_axis in (predicted or {}).items():
        for along, sent in by_axis.items():
            row(name, along, "", sent, "")
    return table(rows, f"Bytes and messages of all {ranks} ranks together, on the metered cluster.")
