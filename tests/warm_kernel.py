"""Jupyter kernels that have loaded torch before they are asked for: each start of one by hand takes seconds to load the
same.

`python -m tests.warm_kernel` does what lines of JSON on its input say: "start" forks a kernel, "poll" says whether it
has ended. What a chapter finds in such a kernel is what it finds in any other; that its imports are complete,
`test_browser` sees in kernels of JupyterLab.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
# Nothing that asks at its import whether a kernel is running: `matplotlib_inline` would then never show a figure.
LOADED = (
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "ipykernel.zmqshell",
    "IPython.core.completer",
    "ipywidgets",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "torch",
    "torch._dynamo",
    "torch.fx.experimental.symbolic_shapes",
)
ALONE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}  # only a process of one thread is forked safely
INLINE = {
    "MPLBACKEND": "module://matplotlib_inline.backend_inline"
}  # matplotlib reads it when it is loaded, and here that is before a kernel sets it


class Nursery:
    """A process that forks kernels. A context manager: on leaving, none of them is left."""

    def __enter__(self) -> "Nursery":
        command = [sys.executable, "-P", "-m", "tests.warm_kernel"]
        environment = {**os.environ, **ALONE, **INLINE, "PYTHONPATH": str(REPOSITORY)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait(20)

    def ask(self, *request: Any) -> Any:
        """The answer to a request."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def launch(
        self, command: Sequence[str], *, cwd: str | None = None, env: dict[str, str] | None = None, **_: Any
    ) -> "Kernel":
        """A kernel as `jupyter_client` would start it with this command; stands in for its `launch_kernel`."""
        given = list(command)[list(command).index("ipykernel_launcher") + 1 :]
        return Kernel(self, self.ask("start", given, cwd or os.getcwd(), env or dict(os.environ)))


@dataclass(frozen=True)
class Kernel:
    """A kernel, with what `jupyter_client` asks of a `subprocess.Popen`."""

    nursery: Nursery
    pid: int
    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        return self.nursery.ask("poll", self.pid)

    wait = poll  # only asked for once it has ended

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


# ----------------------------------------------------------------------------------------- in the nursery's own process


def start(given: list[str], cwd: str, env: dict[str, str]) -> int:
    """The process id of a forked kernel, which leads a process group of its own."""
    pid = os.fork()
    if pid:
        os.setpgid(pid, pid)  # here too: the caller may signal the group at once
        return pid
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)  # the other end of 1 waits for answers
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        sys.argv = ["ipykernel_launcher", *given]
        from ipykernel import kernelapp

        kernelapp.launch_new_instance()
    finally:
        os._exit(0)


def serve() -> None:
    """Answer requests until there are no more; then end all kernels."""
    codes: dict[int, int | None] = {}
    for line in sys.stdin:
        match json.loads(line):
            case ["start", given, cwd, env]:
                answer = start(given, cwd, env)
                codes[answer] = None
            case ["poll", pid]:
                if codes[pid] is None and (ended := os.waitpid(pid, os.WNOHANG))[0]:
                    codes[pid] = os.waitstatus_to_exitcode(ended[1])
                answer = codes[pid]
        print(json.dumps(answer), flush=True)
    for pid in [pid for pid, code in codes.items() if code is None]:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    serve()
