"""JupyterLab on the work folder: its command line, and what to check before handing over to it."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from course_app.learner.environment import PORT, port_is_free
from course_app.learner.work import Folders
from course_lib.messages import Trouble

SETTINGS = Path(__file__).parent / "jupyter"  # for `learn` only: no release tools in a learner's JupyterLab
DEFAULTS = Path(__file__).parent / "jupyter_defaults"  # for a class's JupyterLab too: no questions on the first start


def lab_command(where: Folders, notebook: Path | None, flags: Sequence[str]) -> list[str]:
    """The command that opens JupyterLab in the work folder, on `notebook` if given; later flags win over ours."""
    page = f"/lab/tree/{notebook.relative_to(where.work).as_posix()}" if notebook else "/lab"
    ours = [f"--ServerApp.root_dir={where.work}", f"--LabApp.default_url={page}"]
    root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # a container's usual user
    return [sys.executable, "-P", "-m", "jupyterlab", *ours, *root, *flags]


def lab_environment(where: Folders, environment: dict[str, str]) -> dict[str, str]:
    """The variables that JupyterLab and its kernels see: this environment's programs first, the work folder by name."""
    ours = dict(environment)
    ours["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", os.defpath)])
    ours["COURSE_WORK"] = str(where.work)
    ours["JUPYTER_CONFIG_PATH"] = config_path(environment, SETTINGS, DEFAULTS)
    ours.pop("PYTHONHOME", None)
    return ours


def config_path(environment: dict[str, str], *folders: Path) -> str:
    """JUPYTER_CONFIG_PATH with these folders before those that the environment already names."""
    return os.pathsep.join([*map(str, folders), *filter(None, [environment.get("JUPYTER_CONFIG_PATH")])])


def port_asked(flags: Sequence[str]) -> int | None:
    """The port that the flags ask for (`--port 8899`, `--port=8899`, `--ServerApp.port=8899`), None if they ask for
    none."""
    found = re.findall(r"(?:^|\0)--(?:ServerApp\.)?port[=\0](\d+)", "\0".join(flags))
    return int(found[-1]) if found else None


def check_port(flags: Sequence[str]) -> None:
    """Trouble in words if the port asked for is taken. Without one asked for, JupyterLab takes the next free port."""
    port = port_asked(flags)
    if port is None or port == 0:
        return
    if port > 65535:
        raise Trouble(f"There is no port {port}.", "choose one from 1024 to 65535: ./course learn --port 8899")
    if not port_is_free(port):
        free = next((each for each in range(max(port, 1024) + 1, 65536) if port_is_free(each)), PORT)
        raise Trouble(
            f"Port {port} is taken, perhaps by a JupyterLab that still runs (jupyter server list shows it).",
            f"stop that one, or choose another: ./course learn --port {free}",
        )


def hand_over(command: list[str], environment: dict[str, str], folder: Path) -> NoReturn:
    """Become JupyterLab (on Windows: wait for it)."""
    os.chdir(folder)
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "nt":
        sys.exit(subprocess.call(command, env=environment))
    os.execve(command[0], command, environment)
