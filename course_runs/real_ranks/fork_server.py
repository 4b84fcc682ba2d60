"""Starting the processes of a launch: forked from an idle server that has loaded torch, or new processes where forking
fails."""

import atexit
import contextlib
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

from course_runs.real_ranks.launched_rank import play

FORKS = hasattr(os, "fork") and hasattr(socket, "AF_UNIX")
_LENGTH = struct.Struct("<I")


class ForkServer:
    """An idle process that has loaded torch and forks ranks on request. It reads small pickles from its own socket."""

    def __init__(self) -> None:
        self._sock, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from course_runs.real_ranks.fork_server import serve; serve({theirs.fileno()})"],
            pass_fds=(theirs.fileno(),),
            env=_environment(),
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C interrupts only this process, which then ends the ranks
        )
        theirs.close()
        self.owner = os.getpid()

    @property
    def alive(self) -> bool:
        """Whether this process can use it."""
        return self.owner == os.getpid() and self._sock.fileno() >= 0 and self._process.poll() is None

    def start(self, folder: str, ranks: int) -> None:
        """Fork the ranks of a launch."""
        _put(self._sock, (folder, ranks))

    def ended(self, seconds: float) -> list[tuple[int, int]]:
        """(rank, status) of ranks that ended, after waiting at most `seconds`."""
        if not select.select([self._sock], [], [], seconds)[0]:
            return []
        found = _get(self._sock)
        if found is None:
            raise RuntimeError("The server that starts ranks has ended; launch again to start another.")
        assert isinstance(found, tuple)
        return [found]

    def stop(self) -> None:
        """End every rank that still runs, and wait until they have exited.

        A server that does not answer within a second is still loading torch. It is left: it then ends its ranks and
        itself.
        """
        try:
            _put(self._sock, None)
            self._sock.settimeout(1.0)
            while (found := _get(self._sock)) is not None and found != "stopped":
                pass
            self._sock.settimeout(None)
        except OSError:
            self._sock.close()

    def close(self) -> None:
        """End the server and the processes that it started; one that was left ends by itself."""
        answers = self._sock.fileno() >= 0
        self._sock.close()
        if answers and self.owner == os.getpid():
            try:
                self._process.wait(3)
            except subprocess.TimeoutExpired:
                self._process.kill()


class FreshProcesses:
    """Starts a fresh process for each rank."""

    def start(self, folder: str, ranks: int) -> None:
        """Start the ranks of a launch."""
        self._left = {
            rank: subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    f"from course_runs.real_ranks.launched_rank import play; play({folder!r}, {rank})",
                ],
                env=_environment(),
            )
            for rank in range(ranks)
        }

    def ended(self, seconds: float) -> list[tuple[int, int]]:
        """(rank, status) of ranks that ended, after waiting `seconds`."""
        time.sleep(seconds)
        gone = [(rank, process.returncode) for rank, process in self._left.items() if process.poll() is not None]
        for rank, _ in gone:
            del self._left[rank]
        return gone

    def stop(self) -> None:
        """End every rank that still runs."""
        for process in self._left.values():
            process.kill()
            process.wait()


def _environment() -> dict[str, str]:
    """The environment of a process that must find the course and use one thread."""
    path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep), "OMP_NUM_THREADS": "1"}


_current: ForkServer | None = None


def server() -> ForkServer:
    """The fork server of this process, started if there is none."""
    global _current
    if _current is None or not _current.alive:
        _current = ForkServer()
        atexit.register(_current.close)
    return _current


def _put(sock: socket.socket, value: object) -> None:
    data = pickle.dumps(value)
    sock.sendall(_LENGTH.pack(len(data)) + data)


def _get(sock: socket.socket) -> object:
    head = sock.recv(4, socket.MSG_WAITALL)
    return pickle.loads(sock.recv(_LENGTH.unpack(head)[0], socket.MSG_WAITALL)) if len(head) == 4 else None


def serve(descriptor: int) -> None:
    """The server's main loop: load torch, then fork ranks on request until the parent exits."""
    import numpy.random  # noqa: F401
    import torch.distributed  # noqa: F401

    from course_runs.real_ranks import gloo  # noqa: F401

    sock = socket.socket(fileno=descriptor)
    children: dict[int, int] = {}  # process -> rank
    while True:
        if select.select([sock], [], [], 0.002 if children else None)[0]:
            head = sock.recv(4, socket.MSG_WAITALL)
            if len(head) < 4:
                _end(children)
                return
            job = pickle.loads(sock.recv(_LENGTH.unpack(head)[0], socket.MSG_WAITALL))
            if job is None:
                _end(children)
                _put(sock, "stopped")
            else:
                folder, ranks = job
                children.update({_fork(folder, rank, sock): rank for rank in range(ranks)})
        for pid in list(children):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                _put(sock, (children.pop(pid), os.waitstatus_to_exitcode(status)))


def _fork(folder: str, rank: int, sock: socket.socket) -> int:
    pid = os.fork()
    if pid:
        return pid
    sock.close()
    os.setsid()  # so that processes started by the rank end with it
    code = 1
    try:
        code = play(folder, rank)
    finally:
        os._exit(code)


def _end(children: dict[int, int]) -> None:
    for pid in children:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    for pid in children:
        os.waitpid(pid, 0)
    children.clear()
