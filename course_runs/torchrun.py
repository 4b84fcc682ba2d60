"""Starting torchrun, watching it, and ending all of it: within its time, with what it said, nothing left behind."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from course_lib.folders import ROOT
from course_runs import compiled, cores, launcher
from course_runs.processes import GRACE, end

SAVING = 25.0  # s between SIGTERM and killing, in which a training saves; spot machines give 30 s or more
_QUIET = {
    # threads that wait sleep: spinning ones take the cores from whatever else runs, and from each other
    "OMP_WAIT_POLICY": "PASSIVE",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "PYTHONWARNINGS": "ignore::FutureWarning",
    "PYTHONUNBUFFERED": "1",
}
_TORCHRUNS = (
    "torch/distributed/elastic/",
    launcher.FAILED,
    "torchrun: got signal",
)  # lines for those who read how a run ended
_NOISE = ("Setting OMP_NUM_THREADS", "*****", "FutureWarning", "return func(*args", "torch/distributed/run.py")


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    code: int
    seconds: float
    timed_out: bool
    lines: tuple[str, ...]  # what it said last

    @property
    def ok(self) -> bool:
        """Whether it ended by itself and well."""
        return self.code == 0 and not self.timed_out


_MODULES = {"failures": "failure_drill", "survive": "fault_drill"}  # programs that `course run` calls by another name


def module_of(program: str) -> str:
    """The module of a program that `course run` starts."""
    return f"course_runs.{_MODULES.get(program, program)}"


def command(program: str, arguments: Sequence[str], nproc: int, extra: Sequence[str] = (), logs: str = "") -> list[str]:
    """The command line of a program on `nproc` processes of this machine; `extra` are torchrun's own flags, `logs` its
    folder."""
    if nproc == 1 and not extra:
        return [sys.executable, "-m", module_of(program), *arguments]
    near = [] if "cpu" in arguments or "--numa-binding" in extra else numa_binding()
    where = [*launcher.flags(extra), *near, *(["--log-dir", logs] if logs else [])]
    what = [program] if program.endswith(".py") else ["-m", module_of(program)]
    return [sys.executable, "-m", "course_runs.launcher", *where, "--nproc-per-node", str(nproc), *what, *arguments]


def numa_binding(nodes: Path = Path("/sys/devices/system/node"), driver: Path = Path("/dev/nvidiactl")) -> list[str]:
    """torchrun's flags that keep each process on the cores beside its GPU, where a server has several NUMA nodes.

    torch has them since 2.9, and wants numactl.
    """
    several = driver.exists() and len(list(nodes.glob("node[0-9]*"))) > 1 and shutil.which("numactl")
    new = tuple(int(part) for part in re.findall(r"\d+", metadata.version("torch"))[:2]) >= (2, 9)
    return ["--numa-binding", "node"] if several and new else []


def run(
    program: str,
    arguments: Sequence[str],
    nproc: int = 1,
    *,
    timeout: float | None = None,
    say: Callable[[str], None] | None = print,
    extra: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run a program to its end, or to its timeout in seconds. Ctrl-C ends all its processes and goes on up."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    env = {
        **_QUIET,
        **launcher.variables(),
        **launcher.without_launcher(os.environ),
        "OMP_NUM_THREADS": str(cores.threads(nproc)),
        "PYTHONPATH": path,
        "PYTHONIOENCODING": "utf-8",
        **(environment or {}),
    }
    made = compiled.Folder.take(say) if "--compile" in arguments or program.endswith(".py") else None
    if made is not None:
        env[compiled.VARIABLE] = str(made.path)
    start = time.monotonic()
    logs = tempfile.TemporaryDirectory(prefix="course-run-", ignore_cleanup_errors=True)  # noqa: SIM115 - until the run has ended
    process = subprocess.Popen(
        command(program, arguments, nproc, extra, logs.name),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env=env,
        start_new_session=os.name != "nt",
    )
    lines: list[str] = []
    reader = threading.Thread(target=_read, args=(process, lines, say), daemon=True)
    reader.start()
    timed_out, grace = False, GRACE
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
    except SystemExit:  # SIGTERM, as `starting` hears it
        grace = SAVING
        raise
    finally:
        end(process, grace)
        logs.cleanup()
        if made is not None:
            made.give_back(well=process.returncode == 0 and not timed_out)
    reader.join(2.0)
    return Ended(process.returncode, time.monotonic() - start, timed_out, tuple(lines[-200:]))


def _read(process: subprocess.Popen[str], lines: list[str], say: Callable[[str], None] | None) -> None:
    assert process.stdout is not None
    with contextlib.suppress(ValueError, OSError):
        for line in process.stdout:
            text = line.rstrip()
            if not text or any(noise in text for noise in _NOISE):
                continue
            lines.append(text)
            if say is not None and not any(own in text for own in _TORCHRUNS):
                say(text)
