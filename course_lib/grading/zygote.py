"""The warm process: it has imported what notebooks need, runs no learner's code itself, and forks a worker on request.

`python -m course_lib.grading.zygote SOCKET [--torch] [--fresh] [--chapter NN …]`, started by `remote`. With `--fresh` it
becomes the one worker itself: for systems where forking is missing or unsafe.
"""

import argparse
import contextlib
import gc
import importlib.abc
import importlib.machinery
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from course_lib import exercises
from course_lib.grading.channel import Channel, Gone
from course_lib.grading.worker import Worker, end_with_parent, make_shell, prctl

PRIVATE = ("course_lib.exercises.judging", "course_lib.grading.judge", "course_lib.grading.panel", "course_lib.grading.check")
READY = b"zygote-is-ready."
_SET_CHILD_SUBREAPER = 36


class Refuse(importlib.abc.MetaPathFinder):
    """Makes the judging unimportable here and in everything forked from here."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """ImportError for a private module, "not mine" for every other."""
        if any(fullname == name or fullname.startswith(f"{name}.") for name in PRIVATE):
            raise ImportError(f"{fullname} is not to be had where answers run.", name=fullname)
        return None


def preload(torch: bool, chapters: Sequence[str]) -> Any:
    """Import what notebooks need, nothing that judges; the value is the shell that they will run in."""
    import numpy  # noqa: F401

    for chapter in chapters:
        exercises.cards(chapter)
    if torch:
        import torch as module

        import course_lib.cluster.remote
        import course_lib.grading.ranks  # noqa: F401

        module.set_num_threads(1)
    shell = make_shell()
    if held := [name for name in sys.modules if name.startswith(PRIVATE)]:
        raise RuntimeError(f"{held} must not be loaded in a worker's parent.")
    return shell


class Zygote:
    """Forks workers, and sees to it that nothing of theirs is left."""

    def __init__(self, channel: Channel, shell: Any) -> None:
        self.channel = channel
        self.shell = shell

    def serve(self) -> None:
        """Answer the judge until it has gone."""
        prctl(_SET_CHILD_SUBREAPER, 1)  # what a worker leaves behind becomes ours to end
        gc.collect()
        gc.freeze()  # forked pages stay shared
        self.channel.send(READY, {"pid": os.getpid()})
        while True:
            try:
                token, request = self.channel.receive()
            except Gone:
                return
            self.channel.send(token, self.answer_to(request))

    def answer_to(self, request: dict[str, Any]) -> dict[str, Any]:
        """ "fork" gives a worker's pid, "sweep" ends all that the worker started, "end" the worker too, with its status."""
        match request["do"]:
            case "fork":
                return {"pid": self.fork(request["folder"])}
            case "sweep":
                end_descendants(keep=request["pid"])
                return {}
            case "end":
                return {"status": self.end(request["pid"], request["grace"])}
        return {}

    def fork(self, folder: str) -> int:
        """A worker that serves the socket which comes with the request; runs in `folder`."""
        _, (fd, *_), _, _ = socket.recv_fds(self.channel.sock, 1, 1)
        pid = os.fork()
        if pid == 0:
            try:
                self.channel.close()
                os.setsid()
                end_with_parent()
                os.chdir(folder)
                Worker(Channel(socket.socket(fileno=fd)), self.shell).serve()
            finally:
                os._exit(70)
        os.close(fd)
        return pid

    def end(self, pid: int, grace: float) -> int | None:
        """The wait status of a worker that ended within `grace` seconds by itself; None if it had to be killed."""
        try:
            status = _wait(pid, grace)
            if status is None:
                os.kill(pid, signal.SIGKILL)
                _wait(pid, 5.0)
        except ChildProcessError:
            status = None
        end_descendants()
        return status


def _wait(pid: int, seconds: float) -> int | None:
    """The wait status of a child, None if it still lives after `seconds`."""
    done = threading.Event()
    for _ in range(int(seconds / 0.002) + 1):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        done.wait(0.002)
    return None


def descendants(root: int) -> list[int]:
    """The living processes below `root`, nearest first. Linux."""
    found, front = [], [root]
    while front:
        children = []
        for pid in front:
            try:
                for thread in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{thread}/children") as file:
                        children += [int(child) for child in file.read().split()]
            except (OSError, ValueError):
                continue
        front = [child for child in children if not _ended(child)]
        found += front
    return found


def _ended(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def end_descendants(keep: int | None = None) -> None:
    """Kill everything below this process but `keep`, again until nothing is left, and reap it."""
    for _ in range(1000):
        alive = [pid for pid in descendants(os.getpid()) if pid != keep]
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _reap(keep)
        if not alive:
            return


def _reap(keep: int | None) -> None:
    """Bury our dead children, but leave `keep`'s status to be asked for."""
    for pid in _children_of_ours():
        if pid != keep:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _children_of_ours() -> list[int]:
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def inherited(name: str) -> socket.socket:
    """The socket that the judge handed down: a descriptor's number, or, on Windows, "stdin" for its description there."""
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
    given = parser.parse_args(argv)
    sys.meta_path.insert(0, Refuse())
    channel = Channel(inherited(given.socket))
    shell = preload(given.torch, given.chapter)
    silence()
    if given.fresh:
        os.chdir(given.folder)
        threading.Thread(target=end_with_judge, args=(os.getppid(),), daemon=True).start()
        channel.send(READY, {"pid": os.getpid()})
        Worker(channel, shell).serve()
    if threading.active_count() > 1 or len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("a process with threads cannot be forked safely; set OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1.")
    Zygote(channel, shell).serve()
    end_descendants()
    return 0


def end_with_judge(judge: int) -> None:
    """End this process once its parent is no longer `judge`: it may be in a learner's loop and see no closed socket."""
    while os.getppid() == judge:
        time.sleep(0.5)
    os._exit(0)


def silence() -> None:
    """Input from nowhere, output to nowhere, for this process and everything it starts."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)


if __name__ == "__main__":
    raise SystemExit(main())
