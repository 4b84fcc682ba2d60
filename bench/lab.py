"""JupyterLab as a learner meets it: started through `./course learn`, opened in a real browser, run, moved and read.

Nothing of a person's own JupyterLab is touched: settings, workspaces and work are in a folder of the caller's.
"""

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from playwright.sync_api import Browser, Playwright, ViewportSize

from course_app.install import Place
from course_app.learner.environment import chromium
from course_lib.folders import ROOT
from course_lib.messages import Trouble

# Nothing of the browser may reach beyond this machine, and a container's small /dev/shm is not used.
BROWSER_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
WINDOW: ViewportSize = {"width": 1400, "height": 900}
PATIENCE = 90.0  # seconds that a server may take to start, and a chapter to run


def launch(play: Playwright) -> Browser:
    """A Chromium, given playwright; Trouble in words where there is none."""
    path = chromium()
    if not path:
        raise Trouble("There is no Chromium here.", ".venv/bin/python -m playwright install chromium")
    return play.chromium.launch(executable_path=path, args=list(BROWSER_FLAGS))


@contextmanager
def served(folder: Path, chapter: str = "00") -> Iterator[str]:
    """A JupyterLab that `./course learn CHAPTER` started with its work in `folder`; the value is the address it
    opens."""
    port = free_port()
    command = [str(ROOT / "course"), "learn", chapter, "--no-browser", "--port", str(port)]
    command += ["--expose-app-in-browser"]  # so that a test may ask the page's own model what it shows
    environment = _environment(folder)
    log = folder / "jupyter.log"  # a file: a pipe that nobody reads would fill and stop the server
    with (
        log.open("wb") as out,
        subprocess.Popen(
            command, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        ) as server,
    ):
        try:
            yield _address(server, port, log)
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)


def _environment(folder: Path) -> dict[str, str]:
    """This environment's variables, with everything that JupyterLab keeps for a person kept in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    ours = {"COURSE_VENV": door(folder / "venv"), "COURSE_WORK": folder / "work", "IPYTHONDIR": folder / "ipython"}
    ours |= {f"JUPYTER_{what}_DIR": folder / f"jupyter-{what.lower()}" for what in ("CONFIG", "DATA", "RUNTIME")}
    left = ("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR", "JUPYTER_TOKEN")
    kept = {name: value for name, value in os.environ.items() if name not in left}
    return kept | {name: str(path) for name, path in ours.items()}


def door(folder: Path) -> Path:
    """This environment if `./course` made it; else a door to it, because `./course` would set up one that it did not
    make."""
    here, wanted = Place(venv=Path(sys.prefix)), Place().wanted_stamp()
    if here.stamp.is_file() and here.stamp.read_text(encoding="utf-8") == wanted:
        return here.venv
    door = Place(venv=folder)
    for path in (door.python, door.stamp):
        path.parent.mkdir(parents=True, exist_ok=True)
    way_in = f'#!/bin/sh\nPYTHONPATH="{ROOT}:${{PYTHONPATH:-}}" exec "{sys.executable}" "$@"\n'
    door.python.write_text(way_in, encoding="utf-8")
    door.python.chmod(0o755)
    door.stamp.write_text(wanted, encoding="utf-8")
    return folder


def free_port() -> int:
    """A port on which nothing listens, below those that Linux gives to connections: none takes it before its server."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _address(server: subprocess.Popen, port: int, log: Path) -> str:
    """The address with its token, as the server says it, once something answers there."""
    until, found = time.monotonic() + PATIENCE, None
    while time.monotonic() < until and server.poll() is None:
        found = re.search(rb"http://127\.0\.0\.1:%d/lab\S*token=\w+" % port, log.read_bytes())
        if found and answers(port):
            return found.group(0).decode()
        time.sleep(0.1)
    said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise Trouble(f"`./course learn` did not come up at port {port}:\n{said}", "see its words above")


def answers(port: int) -> bool:
    """Whether somebody listens at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
