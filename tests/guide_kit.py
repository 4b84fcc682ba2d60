"""The instructor's guide as a test reads it: its commands, and somebody who types them."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

from course_lib.benchmarks.lab import door
from course_lib.install import ROOT
from tests.class_kit import CANVAS_ROSTER, course_at
from tests.servers import answers, free_port

GUIDE = ROOT / "docs" / "instructors.md"
BLOCK = re.compile(r"^```sh ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(kind: str = "") -> list[str]:
    """The commands of the guide, a line each: of its plain blocks, or of those of a kind."""
    return [line for found, text in BLOCK.findall(GUIDE.read_text(encoding="utf-8")) if found == kind for line in text.splitlines() if line.strip()]


class Instructor:
    """A person with a shell: a folder they are in, the course's command in it."""

    def __init__(self, scratch: Path) -> None:
        self.at = scratch / "training-at-scale"
        course_at(self.at)
        for name in ("pyproject.toml", "requirements.lock"):
            shutil.copy(ROOT / name, self.at)
        (self.at / "canvas.csv").write_text(CANVAS_ROSTER, encoding="utf-8")
        ours = {"COURSE_VENV": door(scratch / "venv")}
        way_in = f'#!/bin/sh\nCOURSE_ROOT="{self.at}" exec "{ours["COURSE_VENV"]}/bin/python" -P -m course_lib "$@"\n'
        (self.at / "course").write_text(way_in, encoding="utf-8")  # as the real one ends, for a course of one small chapter
        (self.at / "course").chmod(0o755)
        ours |= {f"JUPYTER_{what}_DIR": scratch / what.lower() for what in ("CONFIG", "DATA", "RUNTIME")}
        self.environment = {**os.environ, **{name: str(value) for name, value in ours.items()}}

    def types(self, line: str) -> str:
        """What a command says; it must succeed."""
        if line.startswith("cd "):
            self.at = (self.at / line.removeprefix("cd ")).resolve()
            return ""
        done = subprocess.run(shlex.split(line), cwd=self.at, env=self.environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def opens(self, line: str) -> None:
        """Start a command that goes on until Ctrl-C; something must answer at its port."""
        port = free_port()
        command = [*shlex.split(line), "--no-browser", "--port", str(port)]
        with subprocess.Popen(command, cwd=self.at, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as server:
            try:
                until = time.monotonic() + 120
                while not answers(port):
                    assert server.poll() is None and time.monotonic() < until, f"{line}: nothing answers"
                    time.sleep(0.1)
            finally:
                os.killpg(server.pid, signal.SIGINT)
                time.sleep(0.1)
                os.killpg(server.pid, signal.SIGTERM)
