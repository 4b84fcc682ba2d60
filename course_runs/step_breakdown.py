"""Where the seconds of a step go: each moment belongs to one part, on the CPU's clock or on the GPU's own.

A GPU works behind the program's back, so its parts are read from events that it stamps itself, and nothing waits for
them.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch.cuda import Event

from course_runs.process_group import Place

Given = ParamSpec("Given")
Made = TypeVar("Made")
Stamp = float | Event
PARTS = ("data", "forward", "backward", "communication", "optimizer", "checkpoint")


class Clock:
    """`with clock.part("forward"): …`; a part inside another takes its seconds out of the outer one's."""

    def __init__(self, place: Place) -> None:
        self.gpu = place.device.type == "cuda"
        self.open: list[str] = []
        self.spans: list[tuple[str, Stamp, Stamp]] = []
        self.since: Stamp = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What runs inside belongs to this part."""
        self._border()
        self.open.append(name)
        try:
            yield
        finally:
            self._border()
            self.open.pop()

    def timed(self, name: str, work: Callable[Given, Made]) -> Callable[Given, Made]:
        """The same callable, whose seconds belong to this part."""

        @wraps(work)
        def inside(*args: Given.args, **kwargs: Given.kwargs) -> Made:
            with self.part(name):
                return work(*args, **kwargs)

        return inside

    def read(self) -> dict[str, float]:
        """Seconds of each part since the last reading, once the device has done what it was given."""
        return self.seconds(self.take())

    def take(self) -> list[tuple[str, Stamp, Stamp]]:
        """Parts since the last reading with their stamps, to be read once the device is done."""
        taken, self.spans = self.spans, []
        return taken

    def seconds(self, spans: list[tuple[str, Stamp, Stamp]]) -> dict[str, float]:
        """Seconds of each part of what `take` gave."""
        found = dict.fromkeys(PARTS, 0.0)
        for name, start, end in spans:
            found[name] += self.between(start, end)
        return found

    def between(self, start: Stamp, end: Stamp) -> float:
        """Seconds from one stamp to another."""
        if isinstance(start, float) and isinstance(end, float):
            return end - start
        assert isinstance(start, torch.cuda.Event) and isinstance(end, torch.cuda.Event)
        return start.elapsed_time(end) * 1e-3

    def _border(self) -> None:
        now = self.now()
        if self.open:
            self.spans.append((self.open[-1], self.since, now))
        self.since = now

    def now(self) -> Stamp:
        """A stamp: the time, or an event that the GPU will stamp when it gets there."""
        if not self.gpu:
            return time.perf_counter()
        stamp = torch.cuda.Event(enable_timing=True)
        stamp.record()
        return stamp
