"""One rank of a launch, in a process of its own."""

import io
import os
import pickle
import sys
import traceback
from pathlib import Path

from course_lib.cluster.isolate import pack
from course_lib.cluster.rank_error import traceback_lines
from course_lib.cluster.source_lines import line_text


def play(folder: str, rank: int) -> int:
    """Run a rank in its own process; return its exit code."""
    home = Path(folder)
    out = open(home / f"out.{rank}", "w", buffering=1)  # noqa: SIM115 - for the rest of this process's life
    os.dup2(out.fileno(), 1), os.dup2(out.fileno(), 2)
    sys.stdout = sys.stderr = out
    try:
        result = _result(home, rank)
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


def _result(home: Path, rank: int) -> bytes:
    import datetime
    import random

    import numpy as np
    import torch
    import torch.distributed as dist

    from course_runs.real_ranks.gloo import RealComm

    file = io.BytesIO((home / f"job.{rank}").read_bytes())
    job = pickle.load(file)
    if sys.platform in ("linux", "darwin"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    torch.set_num_threads(1)
    torch.manual_seed(job["seed"])
    np.random.seed([job["seed"] & 0xFFFFFFFF, rank])
    random.seed(f"{job['seed']} {rank}")
    device = torch.device("cuda", rank) if job["backend"] == "nccl" else None
    if device is not None:
        torch.cuda.set_device(device)
    dist.init_process_group(
        job["backend"],
        init_method=(home / "meet").as_uri(),
        rank=rank,
        world_size=job["ranks"],
        timeout=datetime.timedelta(seconds=job["timeout"]),
    )
    function, arguments = pickle.load(file)
    result = function(RealComm(range(job["ranks"]), device=device), *arguments)
    packed = pack(result, "the result")
    dist.barrier()  # no rank exits while others still communicate with it
    dist.destroy_process_group()
    return packed
