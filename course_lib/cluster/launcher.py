"""`launch`: the same function on real processes, forked from an idle server that has loaded torch, meeting in a file.

The server starts with the first launch (a second or two) and stays, idle, until this process ends; a launch then takes
tenths of a second. Functions travel by value, and processes meet in a fresh file, never on a fixed port. A rank that dies
ends the others, and no rank outlives the call. Where a process cannot fork (Windows) each rank is started afresh.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import pickle
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.cluster.errors import RankError, Unfinished
from course_lib.cluster.isolate import pack
from course_lib.cluster.source_lines import line_text, traceback_lines

_FORKS = hasattr(os, "fork") and hasattr(socket, "AF_UNIX")
GRACE = 0.2  # s in which others may still say why they failed
_LOST = ("gloo", "NCCL", "Connection", "connection")  # in the words of a rank that lost another
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Launched:
    """What a launch gave: each rank's result, and the wall time in seconds."""

    results: list[Any]
    seconds: float


def launch(
    fn: Callable[..., Any],
    ranks: int,
    args: Sequence[Any] = (),
    per_rank: Sequence[Any] | None = None,
    backend: str = "gloo",
    timeout: float = 60.0,
    seed: int = 0,
) -> Launched:
    """Run `fn(comm, *args, *per_rank[rank])` in `ranks` processes over torch.distributed's `backend`.

    Raises `RankError` with the traceback of the first rank that failed, `Unfinished` after `timeout` seconds. What ranks
    print appears with their number. "nccl" gives rank r the GPU r.
    """
    from course_lib.cluster.program import check_ranks, own_arguments

    check_ranks(ranks)
    if backend not in ("gloo", "nccl"):
        raise ValueError(f"backend={backend!r}: choose 'gloo' (CPU) or 'nccl' (one GPU per rank).")
    folder = Path(tempfile.mkdtemp(prefix="ranks-"))
    try:
        for rank, own in enumerate(own_arguments(per_rank, ranks)):
            job = {"rank": rank, "ranks": ranks, "backend": backend, "seed": seed, "timeout": timeout}
            (folder / f"job.{rank}").write_bytes(
                pickle.dumps(job) + pack((fn, (*args, *own)), ("the function", "args"))
            )
        start = time.perf_counter()
        _Launch(folder, ranks, timeout).run()
        results = [pickle.loads((folder / f"result.{rank}").read_bytes()) for rank in range(ranks)]
        return Launched(results, time.perf_counter() - start)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Launch:
    """The parent's side of one launch."""

    def __init__(self, folder: Path, ranks: int, timeout: float) -> None:
        self.folder, self.ranks, self.timeout = folder, ranks, timeout
        self._read = [0] * ranks
        self._part = [""] * ranks

    def run(self) -> None:
        """Start the ranks and wait for them; raise for the first that failed."""
        starter = _server() if _FORKS else _Processes()
        starter.start(str(self.folder), self.ranks)
        waiting: set[int] = set(range(self.ranks))
        failed: dict[int, int] = {}  # rank -> status
        deadline = time.monotonic() + self.timeout
        grace = 0.0
        try:
            while waiting:
                if failed and time.monotonic() > grace:
                    break
                if time.monotonic() > deadline and not failed:
                    raise Unfinished(
                        f"Ranks {sorted(waiting)} did not finish within {self.timeout:g} s and were ended. "
                        "Do they wait for each other? Run the function under simulate: it says who waits for whom."
                    )
                for rank, status in starter.ended(0.01):
                    waiting.discard(rank)
                    if status:
                        grace = grace if failed else time.monotonic() + GRACE
                        failed[rank] = status
                self._show()
        finally:
            starter.stop()
            self._show(last=True)
        if failed:
            raise self._error(failed)

    def _error(self, failed: dict[int, int]) -> RankError:
        """The error that came first, unless it only says that another rank has gone, and one has gone without a word."""
        told = []
        for path in self.folder.glob("error.*"):
            told.append((path.stat().st_mtime_ns, pickle.loads(path.read_bytes())))
        silent = [rank for rank in sorted(failed) if rank not in {error[0] for _, error in told}]
        first = min(told, key=lambda item: item[0])[1] if told else None
        if first is not None and not (silent and any(word in first[2] for word in _LOST)):
            return RankError(*first)
        rank, status = silent[0], failed[silent[0]]
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"
        return RankError(rank, "ProcessEnded", f"its process ended with {how}, without a word", "")

    def _show(self, last: bool = False) -> None:
        for rank in range(self.ranks):
            path = self.folder / f"out.{rank}"
            if not path.exists():
                continue
            with path.open(errors="replace") as file:
                file.seek(self._read[rank])
                text = self._part[rank] + file.read()
                self._read[rank] = file.tell()
            *lines, self._part[rank] = text.split("\n")
            if last and self._part[rank]:
                lines, self._part[rank] = [*lines, self._part[rank]], ""
            for line in lines:
                print(f"[rank {rank}] {line}")


# --- who starts processes


class _Server:
    """An idle process that has loaded torch and forks ranks when asked. Talks in small pickles over a socket of its own."""

    def __init__(self) -> None:
        self._sock, theirs = socket.socketpair()
        path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from course_lib.cluster.launcher import serve; serve({theirs.fileno()})"],
            pass_fds=(theirs.fileno(),),
            env={**os.environ, "PYTHONPATH": path.rstrip(os.pathsep), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us; we then end the ranks
        )
        theirs.close()
        self.owner = os.getpid()

    @property
    def alive(self) -> bool:
        """Whether it can be used from this process."""
        return self.owner == os.getpid() and self._process.poll() is None

    def start(self, folder: str, ranks: int) -> None:
        """Fork the ranks of a launch."""
        _put(self._sock, (folder, ranks))

    def ended(self, seconds: float) -> list[tuple[int, int]]:
        """(rank, status) of ranks that ended, after waiting at most so long."""
        if not select.select([self._sock], [], [], seconds)[0]:
            return []
        found = _get(self._sock)
        if found is None:
            raise RuntimeError("The server that starts ranks has ended; launch again to start another.")
        return [found]

    def stop(self) -> None:
        """End every rank that still runs, and wait until they are gone."""
        try:
            _put(self._sock, None)
            while (found := _get(self._sock)) is not None and found != "stopped":
                pass
        except OSError:
            pass

    def close(self) -> None:
        """End the server and what it started."""
        self._sock.close()
        if self.owner == os.getpid():
            try:
                self._process.wait(3)
            except subprocess.TimeoutExpired:
                self._process.kill()


class _Processes:
    """Starts a fresh process for each rank."""

    def start(self, folder: str, ranks: int) -> None:
        """Start the ranks of a launch."""
        path = os.pathsep.join([str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep), "OMP_NUM_THREADS": "1"}
        self._left = {
            rank: subprocess.Popen(
                [sys.executable, "-c", f"from course_lib.cluster.launcher import play; play({folder!r}, {rank})"],
                env=env,
            )
            for rank in range(ranks)
        }

    def ended(self, seconds: float) -> list[tuple[int, int]]:
        """(rank, status) of ranks that ended, after waiting so long."""
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


_current: _Server | None = None


def _server() -> _Server:
    global _current
    if _current is None or not _current.alive:
        _current = _Server()
        atexit.register(_current.close)
    return _current


def _put(sock: socket.socket, value: Any) -> None:
    data = pickle.dumps(value)
    sock.sendall(_LENGTH.pack(len(data)) + data)


def _get(sock: socket.socket) -> Any:
    head = sock.recv(4, socket.MSG_WAITALL)
    return pickle.loads(sock.recv(_LENGTH.unpack(head)[0], socket.MSG_WAITALL)) if len(head) == 4 else None


# --- the server's side


def serve(descriptor: int) -> None:
    """The server: load torch, then fork ranks on request until the parent goes away."""
    import numpy.random  # noqa: F401
    import torch.distributed  # noqa: F401

    from course_lib.cluster import gloo  # noqa: F401

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
    os.setsid()  # so that what the rank itself starts ends with it
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


# --- a rank's side


def play(folder: str, rank: int) -> int:
    """A rank's life in its own process; its exit code."""
    home = Path(folder)
    out = open(home / f"out.{rank}", "w", buffering=1)  # noqa: SIM115 - for the rest of this process's life
    os.dup2(out.fileno(), 1), os.dup2(out.fileno(), 2)
    sys.stdout = sys.stderr = out
    try:
        result = _perform(home, rank)
        part = home / f"part.{rank}"
        part.write_bytes(result)
        part.rename(home / f"result.{rank}")
        return 0
    except BaseException as error:
        line, _, first = traceback_lines(error)
        trace = "".join(traceback.format_exception(error.with_traceback(first) if first else error))
        told = (rank, type(error).__name__, str(error), line_text(line) if line[0] else "", trace)
        part = home / f"part.{rank}"
        part.write_bytes(pickle.dumps(told))
        part.rename(home / f"error.{rank}")
        return 1
    finally:
        out.flush()


def _perform(home: Path, rank: int) -> bytes:
    import datetime
    import random

    import numpy as np
    import torch
    import torch.distributed as dist

    from course_lib.cluster.gloo import RealComm

    file = io.BytesIO((home / f"job.{rank}").read_bytes())
    job = pickle.load(file)
    if sys.platform in ("linux", "darwin"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    torch.set_num_threads(1)
    torch.manual_seed(job["seed"])
    np.random.seed([job["seed"] & 0xFFFFFFFF, rank])
    random.seed(f"{job['seed']} {rank}")
    if job["backend"] == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        job["backend"],
        init_method=(home / "meet").as_uri(),
        rank=rank,
        world_size=job["ranks"],
        timeout=datetime.timedelta(seconds=job["timeout"]),
    )
    function, arguments = pickle.load(file)
    result = function(RealComm(range(job["ranks"])), *arguments)
    packed = pack(result, "the result")
    dist.barrier()  # nobody leaves while others still talk to it
    dist.destroy_process_group()
    return packed
