"""A program for torchrun on metered ranks: each thread sees what a process of its own would see.

Ranks take turns. Before a rank runs, its environment variables (RANK, LOCAL_RANK and the others that torchrun sets),
its `__main__` and its own copy of each module beside the script are put in place, so that a module-level variable
belongs to one rank. Everything else of the process is shared: the working directory, other modules, torch's settings.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType

from course_lib.cluster.comm import Comm
from course_lib.cluster.endpoint import endpoint, here
from course_lib.cluster.run import Run
from course_lib.cluster.simulation import attempt
from course_lib.cluster.source_lines import standing_of
from course_lib.cluster.topology import Topology


def run_script(
    path: str | Path,
    ranks: int,
    arguments: Sequence[str] = (),
    topology: Topology | None = None,
    timeout: float | None = None,
    capture: int | None = None,
) -> Run:
    """Run the script as `__main__` on each rank and count memory and FLOPs; a failure is in `run.error`.

    `timeout` is in seconds of wall time; `capture` keeps that many characters of output instead of printing them.
    RuntimeError if a rank does not stop after it.
    """
    file = Path(path).resolve()
    code = compile(file.read_bytes(), str(file), "exec")
    per_node = (topology or Topology()).levels[0].ranks or ranks
    script = _Script(file, code, min(per_node, ranks))
    with _process(script, arguments):
        return attempt(_rank, ranks, (script,), topology=topology, timeout=timeout, capture=capture, account=True)


class _Script:
    """What the ranks run; they share it."""

    def __init__(self, file: Path, code: CodeType, per_node: int) -> None:
        self.file, self.code, self.per_node = file, code, per_node
        self.before = frozenset(sys.modules)

    def __deepcopy__(self, memo: object) -> _Script:
        return self


def _beside(script: _Script) -> dict[str, ModuleType]:
    """The modules that the script's run has loaded from its folder, without those of the course and of libraries."""
    folder, found = f"{script.file.parent}{os.sep}", {}
    for name, module in list(sys.modules.items()):
        file = str(getattr(module, "__file__", None))
        if file.startswith(folder) and name not in script.before and standing_of(file) == 2:
            found[name] = module
    return found


class _View:
    """What one rank's thread sees of the process."""

    def __init__(self, comm: Comm, script: _Script) -> None:
        node, local = divmod(comm.rank, script.per_node)
        self.main = ModuleType("__main__")
        self.main.__file__ = str(script.file)
        self.environ = {
            "RANK": str(comm.rank),
            "LOCAL_RANK": str(local),
            "GROUP_RANK": str(node),
            "WORLD_SIZE": str(comm.size),
            "LOCAL_WORLD_SIZE": str(script.per_node),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500",
            "TORCHELASTIC_RUN_ID": "metered",
        }
        self._script, self._own, self._count = script, dict[str, ModuleType](), 0
        end = endpoint()
        self._paused, self._resumed = end.paused, end.resumed
        end.paused, end.resumed = self._leave, self._enter  # type: ignore[method-assign]

    def _enter(self) -> None:
        self._resumed()
        self.put()

    def put(self) -> None:
        """Put it in place."""
        os.environ.update(self.environ)
        sys.modules.update(self._own)
        sys.modules["__main__"] = self.main
        self._count = len(sys.modules)

    def _leave(self) -> None:
        if len(sys.modules) != self._count:
            self._own = _beside(self._script)
        for name in self._own:
            sys.modules.pop(name, None)
        self._paused()


def _rank(comm: Comm, script: _Script) -> None:
    view = _View(comm, script)
    view.put()
    try:
        exec(script.code, view.main.__dict__)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise RuntimeError(f"the script ended with exit code {end.code}") from end


@contextmanager
def _process(script: _Script, arguments: Sequence[str]) -> Iterator[None]:
    """The process as the script finds it, and as it was afterwards."""
    global _watching
    if not _watching:
        sys.addaudithook(_refuse_forks)
        _watching = True
    kept = dict(os.environ), sys.argv, list(sys.path), sys.modules["__main__"]
    config: dict[str, object] = multiprocessing.current_process().__dict__["_config"]
    was = config.get("daemon")
    config["daemon"] = True  # multiprocessing then starts no process, by whatever method
    sys.argv, sys.path[:0] = [str(script.file), *arguments], [str(script.file.parent)]
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept[0])
        sys.argv, sys.path[:] = kept[1], kept[2]
        for name in _beside(script):
            del sys.modules[name]
        sys.modules["__main__"] = kept[3]
        config["daemon"] = was


_watching = False


def _refuse_forks(event: str, _: object) -> None:
    if event == "os.fork" and getattr(here, "endpoint", None) is not None:
        raise RuntimeError("a metered rank is a thread and cannot fork; start no other process")
