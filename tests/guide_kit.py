"""The instructor's guide as a test reads it: its commands, and somebody who types them."""

import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path
from unittest import mock

from bench.lab import answers, door, free_port
from course_app.cli import run
from course_lib.folders import ROOT
from tests.class_kit import CANVAS_ROSTER, course_at
from tests.patience import patience

GUIDE = ROOT / "docs" / "instructors.md"
BLOCK = re.compile(r"^```sh ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(kind: str = "") -> list[str]:
    """The commands of the guide, a line each: of its plain blocks, or of those of a kind."""
    return [
        line
        for found, text in BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
        if found == kind
        for line in text.splitlines()
        if line.strip()
    ]


class Instructor:
    """A person with a shell: a folder they are in, a course of one small chapter, nothing of a person's own."""

    def __init__(self, scratch: Path) -> None:
        self.at = self.course = scratch / "training-at-scale"
        course_at(self.at)
        for name in ("pyproject.toml", "requirements.lock"):
            shutil.copy(ROOT / name, self.at)
        (self.at / "canvas.csv").write_text(CANVAS_ROSTER, encoding="utf-8")
        own = {f"JUPYTER_{what}_DIR": scratch / what.lower() for what in ("CONFIG", "DATA", "RUNTIME")}
        self.environment = {name: str(value) for name, value in {"COURSE_VENV": door(scratch / "venv"), **own}.items()}

    def types(self, line: str) -> str:
        """What a command says; it must succeed. It runs in this process: what `./course` does before is tested with
        it."""
        words, said = shlex.split(line), io.StringIO()
        if words[0] == "cd":
            self.at = (self.at / words[1]).resolve()
            return ""
        assert words[0] == "./course", line
        with (
            contextlib.chdir(self.at),
            mock.patch.dict(os.environ, {"COURSE_ROOT": str(self.course)}),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
        ):
            code = run(words[1:])
        assert code == 0, f"{line}\n{said.getvalue()}"
        return said.getvalue()

    def opens(self, line: str) -> None:
        """Start a command that goes on until Ctrl-C; something must answer at its port."""
        port = free_port()
        command = [*shlex.split(line), "--no-browser", "--port", str(port)]
        with subprocess.Popen(
            command,
            cwd=self.at,
            env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as server:
            try:
                until = time.monotonic() + patience(120)
                while not answers(port):
                    assert server.poll() is None and time.monotonic() < until, f"{line}: nothing answers"
                    time.sleep(0.1)
            finally:
                os.killpg(server.pid, signal.SIGINT)
                time.sleep(0.1)
                os.killpg(server.pid, signal.SIGTERM)
