"""Released chapters, run from top to bottom without an answer, as a page shows them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from nbformat import NotebookNode

from course_lib.messages import Trouble

if TYPE_CHECKING:
    from nbclient import NotebookClient

TIMEOUT = 300  # seconds for one cell
QUIET = ("--IPKernelApp.log_level=40",)  # without its warning that a kernel on this machine listens unencrypted


class Executor:
    """Runs notebooks from several threads, each in a kernel of its own, until it is stopped."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
        self._clients: list[NotebookClient] = []
        self._stopped = False

    def run(self, path: Path) -> NotebookNode:
        """The notebook at `path` with the outputs of all its cells; Trouble that names the cell if one fails."""
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

        book = nbformat.read(path, as_version=4)
        running = ""

        def begin(cell: NotebookNode, cell_index: int) -> None:
            nonlocal running
            running = cell.id
            if self._stopped:
                raise DeadKernelError

        client = NotebookClient(
            book,
            timeout=TIMEOUT,
            kernel_name="python3",
            resources={"metadata": {"path": str(path.parent)}},
            extra_arguments=list(QUIET),
            on_cell_start=begin,
        )
        self._clients.append(client)
        try:
            client.execute(env=self._environment)
        except CellExecutionError as error:
            why = f"raised {error.ename}: {error.evalue.strip()}"
            raise _trouble(path, running, why) from error
        except CellTimeoutError as error:
            raise _trouble(path, running, f"took more than {TIMEOUT} s") from error
        except DeadKernelError as error:
            raise _trouble(path, running, "ended its kernel; the memory may be too small") from error
        finally:
            self._clients.remove(client)
        return book

    def stop(self) -> None:
        """End all kernels, from another thread than those that wait for them; `run` then raises Trouble there."""
        self._stopped = True
        for client in list(self._clients):
            process = getattr(getattr(client.km, "provisioner", None), "process", None)
            if process is not None:
                process.kill()


def _trouble(path: Path, cell: str, why: str) -> Trouble:
    number = path.stem[:2]
    return Trouble(f"chapter {number} does not run: cell {cell!r} {why}", f"`./course test {number}` shows more")
