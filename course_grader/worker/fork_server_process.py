"""Start and end the process that runs `course_grader.worker.fork_server`, and set its environment."""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict

from course_grader.arithmetic import ONE_THREAD
from course_grader.exercises import class_exercises
from course_grader.sandbox.policy import Wall
from course_grader.worker.protocol import PATIENCE, Channel, Garbled, Gone, Late
from course_lib.folders import ROOT
from course_lib.messages import Trouble

START_SECONDS = 180.0  # importing torch from a cold disk, beside other work; one that dies is noticed at once
_KEPT = (
    "PATH",
    "HOME",
    "USERPROFILE",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TMPDIR",
    "TEMP",
    "TMP",
    "SYSTEMROOT",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "MPLCONFIGDIR",
    "XDG_CACHE_HOME",
    class_exercises.VARIABLE,
)
_KEPT_KINDS = (
    "ATEN_",
    "MKL_",
    "ONEDNN_",
    "DNNL_",
    "OPENBLAS_",
)  # instructions and kernels: the judge's are the worker's
_SET = {
    **ONE_THREAD,
    "PYTHONHASHSEED": "0",
    "MPLBACKEND": "Agg",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "PYTHONUTF8": "1",
    "COURSE_WORKER": "1",
}  # the last makes `check` in a learner's own cells silent


def environment() -> dict[str, str]:
    """The environment of a worker: the parts of ours that it needs, one thread, no secrets, `check` silent."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_KINDS)}
    return {**kept, **_SET, "PYTHONPATH": str(ROOT)}


class ForkServerProcess:
    """The process that runs `course_grader.worker.fork_server`."""

    def __init__(self, options: Sequence[str], wall: Wall | None = None) -> None:
        mine, theirs = socket.socketpair()
        self.channel = Channel(mine)
        self.complaints = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        self.scratch = tempfile.TemporaryDirectory(prefix="course-ipython-", ignore_cleanup_errors=True)
        windows = sys.platform == "win32"
        if wall is not None:
            options = [*options, "--walled", self.scratch.name]
        command = [
            sys.executable,
            "-P",
            "-m",
            "course_grader.worker.fork_server",
            "stdin" if windows else str(theirs.fileno()),
            *options,
        ]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if windows else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.complaints,
            env={**environment(), "IPYTHONDIR": self.scratch.name},
            cwd=ROOT,
            start_new_session=not windows,
            pass_fds=() if windows else (theirs.fileno(),),
        )
        if windows:
            assert self.process.stdin is not None
            self.process.stdin.write(theirs.share(self.process.pid))  # type: ignore[attr-defined]
            self.process.stdin.close()
        theirs.close()
        self.ready = False
        if wall is not None:  # not on the command line, which workers can read
            self.channel.send(secrets.token_bytes(16), {"wall": json.dumps(asdict(wall))})

    def wait_ready(self) -> None:
        """Return when it has loaded; Trouble says why it did not."""
        if self.ready:
            return
        try:
            self.channel.receive(START_SECONDS)
        except (Gone, Late, Garbled) as error:
            self.close()
            self.complaints.seek(0)
            last = self.complaints.read().decode(errors="replace").strip().splitlines()[-1:] or [str(error)]
            raise Trouble(
                f"The process that runs answers did not start: {last[0]}", "`./course doctor` looks at the installation"
            ) from error
        self.ready = True

    def close(self) -> None:
        """End it and wait for it. The fork server ends its descendants when the channel closes."""
        self.channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE if self.ready else 0.0)
        self.kill()
        self.scratch.cleanup()

    def kill(self) -> None:
        """Kill it and its process group."""
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                subprocess.run(
                    ["taskkill", "/T", "/F", "/PID", str(self.process.pid)], capture_output=True, check=False
                )
            else:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
