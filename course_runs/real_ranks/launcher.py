"""`launch`: run the same function on real processes, over torch.distributed.

The processes are forked from a server that has loaded torch. It starts with the first launch, which takes a second or
two, and stays idle until this process ends; a later launch takes tenths of a second. Functions are sent by value. The
processes rendezvous through a new file, never a fixed port. If a rank dies, the others are ended, and no rank outlives
the call. Where processes cannot fork (Windows), each rank starts a new process.
"""

import pickle
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.cluster.errors import RankError, Unfinished
from course_lib.cluster.isolate import pack
from course_lib.cluster.program import check_ranks, own_arguments
from course_runs.real_ranks import fork_server

GRACE = 0.2  # s during which other ranks may still report why they failed
_LOST = ("gloo", "NCCL", "Connection", "connection")  # words in the error of a rank that lost another


@dataclass(frozen=True, slots=True)
class Launched:
    """The outcome of a launch: each rank's result, and the wall time in seconds."""

    results: list[Any]
    seconds: float


def launch(
    fn: Callable[..., object],
    ranks: int,
    args: Sequence[object] = (),
    per_rank: Sequence[object] | None = None,
    backend: str = "gloo",
    timeout: float = 60.0,
    seed: int = 0,
) -> Launched:
    """Run `fn(comm, *args, *per_rank[rank])` in `ranks` processes over torch.distributed's `backend`.

    Raises `RankError` with the traceback of the first rank that failed, or `Unfinished` after `timeout` seconds. The
    output of a rank is printed with its number. With "nccl", rank r uses GPU r: what `comm` is given on the CPU goes
    there and comes back, so the same function runs.
    """
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
        starter = fork_server.server() if fork_server.FORKS else fork_server.FreshProcesses()
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
        """The first error, unless it only reports the loss of another rank, and that rank died without an error."""
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
