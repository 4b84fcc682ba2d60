"""Where a rank of a real run is: its number, its device, its backend; joining the others and leaving them."""

import os
import signal
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist

from course_lib.installation import called_here
from course_lib.messages import Trouble, count_text
from course_runs import cores, launcher, min_torch

REFUSAL_WAIT = 10.0  # s in which rank 0, which starts at the same time, will have said why it was refused
NAMED = called_here(
    "On one machine: ./course run, or torchrun --local-addr 127.0.0.1. On several: give rank 0's IP address."
)


@dataclass(frozen=True)
class Place:
    """One process of a run."""

    rank: int
    ranks: int
    local_rank: int
    local_ranks: int
    device: torch.device
    backend: str

    @property
    def cores(self) -> float:
        """Cores of the machine for each of its ranks: below 1 they take turns."""
        return cores.cores() / self.local_ranks

    @property
    def first(self) -> bool:
        """Whether this rank speaks and writes for all."""
        return self.rank == 0

    def wait(self) -> None:
        """Return once the device has done all that it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def choose(device: str, backend: str, local_ranks: int) -> tuple[str, str]:
    """The device type and backend of a run; Trouble where what is asked for is not to be had here."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    kind = device if device != "auto" else ("cuda" if gpus else "cpu")
    if kind not in ("cpu", "cuda"):
        raise Trouble(f"--device is {device!r}.", "choose auto, cpu or cuda")
    if kind == "cuda" and not gpus:
        raise Trouble(
            "There is no GPU that torch can see.",
            "`./course doctor` says why; --device cpu runs the same program on gloo",
        )
    if kind == "cuda" and gpus < local_ranks:
        raise Trouble(
            f"{local_ranks} processes were asked for, and this machine has {count_text(gpus, 'GPU')}.",
            f"--nproc {gpus}, or --device cpu",
        )
    chosen = backend if backend != "auto" else ("nccl" if kind == "cuda" else "gloo")
    if chosen == "nccl" and kind == "cpu":
        raise Trouble(
            "NCCL moves data between GPUs only, and this run is on the CPU.", "--backend gloo, or --device cuda"
        )
    if chosen not in ("gloo", "nccl"):
        raise Trouble(f"--backend is {backend!r}.", "choose auto, gloo or nccl")
    return kind, chosen


def join(device: str = "auto", backend: str = "auto", timeout: float = 120.0) -> Place:
    """Join the run that torchrun started, or be one of one. `timeout` in seconds: how long a collective may take."""
    min_torch.require(torch.__version__)
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    local, locals_ = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    kind, chosen = choose(device, backend, locals_)
    where = torch.device(kind, local) if kind == "cuda" else torch.device("cpu")
    if kind == "cuda":
        torch.cuda.set_device(where)
        torch.backends.cuda.matmul.allow_tf32 = False  # fp32 means fp32: its peak on the data sheet too
    else:
        torch.set_num_threads(cores.threads(locals_))
    patience = timedelta(seconds=timeout)
    if "RANK" in os.environ:
        _meet(chosen, patience, where if chosen == "nccl" else None)
    else:
        dist.init_process_group(chosen, store=dist.HashStore(), rank=0, world_size=1, timeout=patience)
    return Place(rank=rank, ranks=ranks, local_rank=local, local_ranks=locals_, device=where, backend=chosen)


def _meet(backend: str, timeout: timedelta, device: torch.device | None) -> None:
    """Join the others where the environment says; Trouble where that cannot be done, and a word at once where it may
    take long."""
    address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    if launcher.unknown_name(address):  # a cluster may give the name an address while this rank waits
        print(f"MASTER_ADDR={address} has no address here; waiting for one. {NAMED}", file=sys.stderr, flush=True)
    try:
        dist.init_process_group(backend, timeout=timeout, device_id=device)
    except (dist.DistNetworkError, dist.DistStoreError) as error:
        if "EADDRINUSE" in str(error):
            raise Trouble(
                f"Port {port} of this machine is in use.",
                "end what listens there (ss -ltnp), or give torchrun another --master-port; ./course run "
                "finds a free one",
            ) from error
        raise Trouble(
            f"Rank {os.environ['RANK']} of {os.environ.get('WORLD_SIZE', '')} did not meet the others at "
            f"{address}:{port} ({str(error).splitlines()[0]}).",
            f"start all ranks at the same time; {NAMED} If another launcher left RANK in the environment: unset RANK",
        ) from error


def servers(place: Place) -> list[int]:
    """The number of ranks on each machine, ordered by each machine's first rank. All ranks must call it; all get the
    same list."""
    found = [""] * place.ranks
    if place.ranks > 1:
        dist.all_gather_object(found, machine())
    return list(Counter(found).values())


def machine() -> str:
    """A name that all processes of a machine share, even in separate containers: the kernel's boot id, else the host
    name."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return socket.gethostname()


def refused(program: str, trouble: Exception) -> int:
    """Say why nothing runs, once for all ranks; the exit code.

    torchrun ends every rank as soon as one has failed. The others therefore wait until rank 0 has spoken and torchrun
    ends them; a rank that is still there after the wait was refused alone and says so itself.
    """
    if os.environ.get("RANK", "0") != "0":
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a handler that saves first has nothing to save here
        time.sleep(REFUSAL_WAIT)
    print(f"{program}: {trouble}", file=sys.stderr, flush=True)
    return 2


def leave() -> None:
    """Leave the run; harmless where there is none."""
    if dist.is_initialized():
        dist.destroy_process_group()


def end(code: int) -> NoReturn:
    """End a rank whose work is done and written.

    At once: gloo's and autograd's threads may outlive the interpreter's own end, which then aborts a rank that did
    everything right, and torchrun calls the run failed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
