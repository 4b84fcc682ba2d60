"""The same all-reduces on eight ranks in one machine, four ways: what each takes, and what each can do."""

import threading
import time
from collections.abc import Callable

import torch

RANKS, TIMES, ELEMENTS = 8, 200, 1024  # fp32 numbers of each all-reduce


def reduces(_: object = None, x: torch.Tensor | None = None) -> float:
    """Seconds of this rank for all of them, from a common start."""
    import torch.distributed as dist

    x = torch.ones(ELEMENTS) if x is None else x
    dist.barrier()
    start = time.perf_counter()
    for _ in range(TIMES):
        dist.all_reduce(x)
    return time.perf_counter() - start


def metered() -> float:
    """torch.distributed on the metered cluster."""
    from course_lib.cluster.simulation import simulate

    return max(simulate(reduces, RANKS).results)


def processes() -> float:
    """gloo, a process for each rank."""
    from course_runs.real_ranks.launcher import launch

    return max(launch(reduces, RANKS, timeout=120).results)


def threads() -> float:
    """The threaded group that torch tests itself with."""
    import torch.distributed as dist
    from torch.testing._internal.distributed import multi_threaded_pg as threaded

    store, found = dist.HashStore(), [0.0] * RANKS
    threaded._install_threaded_pg()
    threaded.ProcessLocalGroup.reset()

    def rank(number: int) -> None:
        dist.init_process_group("threaded", rank=number, world_size=RANKS, store=store)
        found[number] = reduces()
        dist.destroy_process_group()

    torch._C._distributed_c10d._set_thread_isolation_mode(True)  # type: ignore[attr-defined]
    try:
        ranks = [threading.Thread(target=rank, args=(number,)) for number in range(RANKS)]
        for thread in ranks:
            thread.start()
        for thread in ranks:
            thread.join()
    finally:
        torch._C._distributed_c10d._set_thread_isolation_mode(False)  # type: ignore[attr-defined]
        threaded._uninstall_threaded_pg()
    return max(found)


def local_tensors() -> float:
    """LocalTensorMode: one program that holds every rank's tensor."""
    import torch.distributed as dist
    from torch.distributed._local_tensor import LocalTensor, LocalTensorMode
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=RANKS, store=FakeStore())
    try:
        with LocalTensorMode(RANKS):
            return reduces(x=LocalTensor({rank: torch.ones(ELEMENTS) for rank in range(RANKS)}))
    finally:
        dist.destroy_process_group()


WAYS: dict[str, Callable[[], float]] = {  # with what each can do -> seconds
    "metered: any program, bytes, clock, deadlocks with both lines": metered,
    "gloo processes: any program, real sockets, a deadlock is a timeout": processes,
    "torch's threads: no send or recv, no bytes, a deadlock hangs": threads,
    "LocalTensorMode: one program of all ranks, no bytes": local_tensors,
}
