"""The exported trainer on real processes of this machine, started by torchrun."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from course_lib.install import ROOT
from course_lib.own_trainer.axes import Axis
from course_lib.own_trainer.kit.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A run on real processes."""

    losses: tuple[float, ...] = ()
    tokens_per_second: float = 0.0  # in the fastest step
    device: str = ""
    error: str = ""


def timed(
    axis: Axis, ranks: int, folder: Path, parts: Path, s: Settings, gpus: bool = False, limit: float = 300
) -> Timed:
    """Train in `ranks` processes with the trainer in `folder` and the parts in `parts`; `limit` is in seconds."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command += ["-m", "trainer.run", "--json", "--parts", str(parts), *(["--gpus"] if gpus else [])]
    names = ("layout", "steps", "sequences", "seq", "hidden", "layers", "stop")
    command += [word for name in names for word in (f"--{name}", str(getattr(s, name)))]
    path = os.pathsep.join(filter(None, [str(folder), str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return Timed(error=f"it was not done after {limit:g} s")
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "Error" in line and "ChildFailedError" not in line]
        return Timed(error=(lines or done.stderr.strip().splitlines() or ["no message"])[0].strip()[:300])
    got = json.loads(done.stdout.strip().splitlines()[-1])
    steps = got["seconds"][1:] or got["seconds"]
    return Timed(losses=tuple(got["losses"]), tokens_per_second=s.sequences * s.seq / min(steps), device=got["device"])
