"""Progress lines, one per step, and commands that run quietly behind them."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO


@dataclass(slots=True)
class Step:
    """The progress line of one step: its text, and a detail that a terminal shows while it lasts."""

    text: str
    detail: str = ""

    def show(self, detail: str) -> None:
        """Show a detail until the next one."""
        self.detail = detail


class Steps:
    """Progress lines: one per step, with the seconds since the start; live on a terminal."""

    def __init__(self, total: int, out: IO[str] | None = None) -> None:
        self.total, self.done, self.start = total, 0, time.monotonic()
        self.out = sys.stdout if out is None else out
        self.live = self.out.isatty()

    @contextmanager
    def step(self, text: str) -> Iterator["Step"]:
        """One step; its line can still change while it lasts."""
        self.done += 1
        step, over = Step(text), threading.Event()
        ticker = threading.Thread(target=self._tick, args=(step, over), daemon=True)
        if self.live:
            ticker.start()
        try:
            yield step
            ending = ""
        except BaseException:
            ending = "  stopped"
            raise
        finally:
            over.set()
            if self.live:
                ticker.join()
                self.out.write("\r\033[K")
            self.say(f"[{self.done}/{self.total}] {self.seconds():5.1f} s  {step.text}{ending}")

    def _tick(self, step: "Step", over: threading.Event) -> None:
        while not over.wait(0.2):
            line = f"[{self.done}/{self.total}] {self.seconds():5.1f} s  {step.text} … {step.detail}"
            width = shutil.get_terminal_size().columns - 1
            self.out.write(f"\r{line[:width]}\033[K")
            self.out.flush()

    def seconds(self) -> float:
        """Seconds since the first step began."""
        return time.monotonic() - self.start

    def say(self, text: str) -> None:
        """One whole line."""
        print(text, file=self.out, flush=True)


Runner = Callable[[Sequence[str], Callable[[str], None]], tuple[int, str]]


def run_quietly(command: Sequence[str], detail: Callable[[str], None]) -> tuple[int, str]:
    """Exit code and output of a command, whose progress is shown as a detail."""
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
    )
    assert process.stdout is not None
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            if found := re.match(r"\s*(?:Collecting|Downloading|Installing|Processing) (\S+)(.*)", line):
                size = re.search(r"\([\d.]+ [kMG]B\)", found[2])
                detail(f"{found[1].rsplit('/', 1)[-1]} {size[0] if size else ''}")
        return process.wait(), "".join(lines)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
