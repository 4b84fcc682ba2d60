"""The fork server: it has imported what notebooks need, runs no learner code, and forks a worker on request.

`python -m course_grader.worker.fork_server SOCKET [--torch] [--fresh] [--chapter NN …] [--import MODULE …] [--walled
SCRATCH]`, started by `worker_pool`. With `--fresh` it becomes the only worker itself, for systems where forking is
missing or unsafe. With `--walled` the first message describes the sandbox, and every worker enters it before it runs
anything.
"""

import argparse
import contextlib
import gc
import os
import select
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from course_grader.exercises import class_exercises
from course_grader.sandbox import memory_gauge, usage
from course_grader.worker import huge_pages
from course_grader.worker.notebook_worker import Worker
from course_grader.worker.preload import Refuse, preload
from course_grader.worker.process_cleanup import end_descendants, pair, wait_for
from course_grader.worker.process_state import CHILD_SUBREAPER, end_with_judge, end_with_parent, prctl, silence
from course_grader.worker.protocol import Channel, Gone, WorkerChannel
from course_grader.worker.warm_up import warm_up
from course_runs.processes import descendants

if TYPE_CHECKING:  # Linux only
    from IPython.core.interactiveshell import InteractiveShell

    from course_grader.sandbox.entry import Gate

READY = b"forkserver-ready"


class ForkRequest(TypedDict, total=False):
    """What the judge asks of the fork server; `do` says which of the others it has."""

    do: str
    folder: str
    pid: int
    grace: float
    on: bool


@dataclass
class _Kept:
    """A worker, and the reason if it or one of its processes was ended."""

    folder: Path | None  # on disk; what it writes is counted and removed
    over: str = ""


class ForkServer:
    """Forks workers, watches their resource use, and removes everything that they leave behind."""

    def __init__(self, channel: Channel, shell: "InteractiveShell", gate: "Gate | None" = None) -> None:
        self.channel = channel
        self.shell = shell
        self.gate = gate
        self.base = usage.quick_bytes(os.getpid())
        self.workers: dict[int, _Kept] = {}
        self.gauge: memory_gauge.Gauge | None = None  # while an answer's memory is measured

    def serve(self) -> None:
        """Answer the judge until it closes the connection."""
        prctl(CHILD_SUBREAPER, 1)  # orphans of workers become our children
        gc.collect()
        gc.freeze()  # forked pages stay shared
        from course_grader.sandbox.linux import gather_memory

        gather_memory()
        if tuning := sys.modules.get("course_lib.cluster.process_tuning"):
            with tuning.young_garbage():  # counts the frozen objects here, so that workers need not
                pass
        self.channel.send(READY, {"pid": os.getpid()})
        while True:
            try:
                self._watch_until_asked()
                token, request = self.channel.receive()
            except Gone:
                return
            self.channel.send(token, self.answer_to(request))

    def _watch_until_asked(self) -> None:
        """Return when the judge sends a request. Until then, watch the resources of sandboxed workers."""
        while (self.gate is not None or self.gauge is not None) and self.workers:
            if select.select([self.channel.sock], [], [], usage.EVERY if self.gauge is None else memory_gauge.EVERY)[0]:
                return
            if self.gauge is not None:
                self.gauge.look()
            for pid in list(self.workers):
                self._watch(pid)
            if self.gauge is None:  # which looks ten times as often
                self._watch_together()

    def _watch(self, pid: int) -> None:
        """End whatever uses too much: the process that a worker started, or the worker itself."""
        kept = self.workers[pid]
        folders = [kept.folder] if kept.folder is not None else []
        if found := self._excess(pid, descendants(pid), folders):
            kept.over = found
            end_descendants(keep=self.workers, of=pid)
            if self._excess(pid, [], folders):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _watch_together(self) -> None:
        """If the rank processes of one submission use too much together, end the largest of them."""
        if self.gate is None or len(self.workers) < 2:
            return
        trees = {pid: [pid, *descendants(pid)] for pid in self.workers}
        if found := usage.too_much_memory(
            [each for tree in trees.values() for each in tree], self.gate.wall, self.base
        ):
            largest = max(trees, key=lambda pid: sum(map(usage.quick_bytes, trees[pid])))
            self.workers[largest].over = found
            end_descendants(keep=self.workers, of=largest)
            with contextlib.suppress(ProcessLookupError):
                os.kill(largest, signal.SIGKILL)

    def _excess(self, pid: int, others: Sequence[int], folders: Sequence[Path]) -> str:
        return usage.excess(pid, others, self.gate.wall, self.base, folders) if self.gate is not None else ""

    def answer_to(self, request: ForkRequest) -> dict[str, object]:
        """Answer one request.

        "fork" gives a worker's pid. "sweep" ends everything that the worker started; "end" also ends the worker and
        gives its status. Both say why something had to be ended before, or "". "gauge" begins or ends a memory
        measurement.
        """
        match request["do"]:
            case "fork":
                return self.fork(request["folder"])
            case "sweep":
                end_descendants(keep=self.workers, of=request["pid"])
                return {"over": self._over(request["pid"])}
            case "end":
                over = self._over(request["pid"])
                return {"status": self.end(request["pid"], request["grace"]), "over": over}
            case "gauge":
                return {"grown": self.weigh(request["on"])}
        return {}

    def _over(self, pid: int) -> str:
        kept = self.workers.get(pid)
        said = kept.over if kept else ""
        if kept:
            kept.over = ""
        return said

    def weigh(self, on: bool) -> int:
        """Begin to measure the memory of all workers and their processes, or end it and return the bytes by which they
        grew.
        """
        grown = self.gauge.grown() if self.gauge is not None else 0
        self.gauge = memory_gauge.Gauge(lambda: descendants(os.getpid()), self.base) if on else None
        return 0 if on else grown

    def fork(self, folder: str) -> dict[str, object]:
        """Fork a worker that serves the socket sent with the request. It runs in `folder`, or in the sandbox with a
        copy of it.
        """
        _, (fd, *_), _, _ = socket.recv_fds(self.channel.sock, 1, 1)
        mine, theirs = os.pipe()
        pid = os.fork() if self.gate is None else self.gate.fork()
        if pid == 0:
            try:
                self._become_worker(Path(folder), fd, theirs)
            finally:
                os._exit(70)
        os.close(fd)
        os.close(theirs)
        with os.fdopen(mine, "rb") as pipe:
            trouble = pipe.read(4000).decode(errors="replace")
        self.workers[pid] = _Kept(self.gate.room if self.gate is not None else None)
        return {"pid": pid, "trouble": trouble}

    def _become_worker(self, folder: Path, fd: int, told: int) -> None:
        try:
            self.channel.close()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setsid()
            if self.gate is None:
                os.chdir(folder)
            else:
                self.gate.enter(folder, fd, told)
            end_with_parent()
        except BaseException as error:
            os.write(told, f"{type(error).__name__}: {error}"[:2000].encode())
            os._exit(70)
        os.close(told)
        Worker(WorkerChannel(socket.socket(fileno=fd)), self.shell).serve()

    def end(self, pid: int, grace: float) -> int | None:
        """The wait status of a worker that ended by itself within `grace` seconds; None if it had to be killed."""
        try:
            status = wait_for(pid, grace)
            if status is None:
                os.kill(pid, signal.SIGKILL)
                wait_for(pid, 5.0)
        except ChildProcessError:
            status = None
        kept = self.workers.pop(pid, None)
        end_descendants(keep=self.workers)
        if kept is not None and kept.folder is not None:
            shutil.rmtree(kept.folder, ignore_errors=True)
        return status


def inherited(name: str) -> socket.socket:
    """The socket passed by the judge: a descriptor number, or on Windows "stdin", where its description is read."""
    if name == "stdin":
        return socket.fromshare(sys.stdin.buffer.read())  # type: ignore[attr-defined]
    return socket.socket(fileno=int(name))


def main(argv: Sequence[str] | None = None) -> int:
    """Load, report ready, serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("socket")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--folder", default=".")
    parser.add_argument("--chapter", action="append", default=[])
    parser.add_argument("--import", dest="imports", action="append", default=[])
    parser.add_argument("--many", action="store_true", help="many workers will be forked: make that cheap")
    parser.add_argument(
        "--walled",
        type=Path,
        help="a folder to mount things in; the caller deletes it, outside of this process's mounts",
    )
    given = parser.parse_args(argv)
    sys.meta_path.insert(0, Refuse())
    channel = WorkerChannel(inherited(given.socket))
    gate_in = _separated(channel) if given.walled else None
    shell = preload(given.torch, given.chapter, given.imports)
    os.environ.pop(class_exercises.VARIABLE, None)  # the class's own cards are loaded; workers need not know their path
    if given.many:
        if not given.fresh:
            warm_up(shell, given.torch)
        huge_pages.collapse()
    gate = gate_in(given.walled) if gate_in is not None else None
    sys.dont_write_bytecode, os.environ["PYTHONDONTWRITEBYTECODE"] = (
        True,
        "1",
    )  # ours is written by now; answers write none
    silence()
    if given.fresh:
        os.chdir(given.folder)
        threading.Thread(target=end_with_judge, args=(os.getppid(),), daemon=True).start()
        channel.send(READY, {"pid": os.getpid()})
        Worker(channel, shell).serve()
    if threading.active_count() > 1 or len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError(
            "a process with threads cannot be forked safely; set OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1."
        )
    ForkServer(channel, shell, gate).serve()
    end_descendants()
    return 0


def _separated(channel: Channel) -> "Callable[[Path], Gate]":
    """Receive the sandbox settings, and make the changes that are possible only before anything is loaded. Returns a
    function that makes the rest.
    """
    from course_grader.sandbox.entry import Gate, wall_of
    from course_grader.sandbox.namespaces import separate

    wall = wall_of(channel.receive()[1]["wall"])
    if wall.level == "namespaces":
        separate()
    else:
        pair()
    return lambda scratch: Gate(wall, scratch)


if __name__ == "__main__":
    raise SystemExit(main())
