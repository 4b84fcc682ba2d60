"""Where the seconds of a step go: each moment belongs to one part, on the CPU's clock or on the GPU's own.

A GPU works behind the program's back, so its parts are read from events that it stamps itself, and nothing waits for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch

from course_lib.runs.place import Place

PARTS = ("data", "forward", "backward", "communication", "optimizer", "checkpoint")


class Clock:
    """`with clock.part("forward"): …`; a part inside another takes its seconds out of the outer one's."""

    def __init__(self, place: Place) -> None:
        self.gpu = place.device.type == "cuda"
        self.open: list[str] = []
        self.spans: list[tuple[str, Any, Any]] = []
        self.since: Any = None

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

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same callable, whose seconds belong to this part."""

        @wraps(work)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self.part(name):
                return work(*args, **kwargs)

        return inside

    def read(self) -> dict[str, float]:
        """Seconds of each part since the last reading, once the device has done what it was given."""
        found = dict.fromkeys(PARTS, 0.0)
        for name, start, end in self.spans:
            found[name] += start.elapsed_time(end) * 1e-3 if self.gpu else end - start
        self.spans.clear()
        return found

    def _border(self) -> None:
        now = self._now()
        if self.open:
            self.spans.append((self.open[-1], self.since, now))
        self.since = now

    def _now(self) -> Any:
        if not self.gpu:
            return time.perf_counter()
        stamp = torch.cuda.Event(enable_timing=True)
        stamp.record()
        return stamp
