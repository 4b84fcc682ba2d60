"""Released chapters, run from top to bottom without an answer, as a page shows them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat

TIMEOUT = 300  # seconds for one cell


def executed(path: Path, environment: Mapping[str, str]) -> Any:
    """The notebook at `path` with the outputs of all its cells; an error in a cell is raised as nbclient's CellExecutionError."""
    from nbclient import NotebookClient

    book = nbformat.read(path, as_version=4)
    client = NotebookClient(
        book, timeout=TIMEOUT, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    client.execute(env={**os.environ, "OMP_NUM_THREADS": "1", **environment})
    return book
