"""The exported trainer on real processes of this machine, started by torchrun."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from course_app.own_trainer.axes import Axis
from course_app.own_trainer.kit.settings import Settings
from course_lib.folders import ROOT
from course_runs import launcher


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
    command = [sys.executable, "-m", "course_runs.launcher", *launcher.flags(), "--nproc-per-node", str(ranks)]
    command += ["-m", "trainer.run", "--json", "--parts", str(parts), *(["--gpus"] if gpus else [])]
    names = ("layout", "steps", "sequences", "seq", "hidden", "layers", "stop")
    command += [word for name in names for word in (f"--{name}", str(getattr(s, name)))]
    path = os.pathsep.join(filter(None, [str(folder), str(ROOT), os.environ.get("PYTHONPATH")]))
    mine = {**launcher.variables(), **launcher.without_launcher(os.environ)}
    environment = {**mine, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the ranks too, which torchrun would leave behind
            return Timed(error=f"it was not done after {limit:g} s")
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        said = [line.removeprefix("trainer: ") for line in err.splitlines() if line.startswith("trainer: ")]
        return Timed(error=(said or err.strip().splitlines() or ["no message"])[0].strip()[:300])
    got = json.loads(out.strip().splitlines()[-1])
    steps = got["seconds"][1:] or got["seconds"]
    return Timed(losses=tuple(got["losses"]), tokens_per_second=s.sequences * s.seq / min(steps), device=got["device"])
