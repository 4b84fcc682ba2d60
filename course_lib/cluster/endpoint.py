"""A rank's endpoint: it numbers the rank's calls and passes them to the kernel. `observed` adds what a run checks and
counts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

import torch

from course_lib.cluster.protocol import Reply, Request, Work
from course_lib.cluster.source_lines import Line

here = threading.local()  # .endpoint: the Endpoint of the rank that this thread runs

Flight = tuple[int, Request, Sequence[torch.Tensor], Sequence[torch.Tensor]]  # its number, what it reads and fills


def endpoint() -> Endpoint:
    """The endpoint of the rank that this thread runs."""
    found: Endpoint | None = getattr(here, "endpoint", None)
    if found is None:
        raise RuntimeError("This communicator works only inside simulate(...), in the function that it was given to.")
    return found


class Endpoint:
    """One rank's connection to the kernel. The host creates it; a communicator finds it through the thread.

    A communicator's call goes `enter`, `post` (for each tensor), `start` (if it does not wait), `call`, and `exit` or
    `over`.
    """

    is_remote = False  # whether the kernel is in another process
    ranks = 0  # of the run, where torch.distributed is available
    torch_world: Any = None  # the rank's groups in torch.distributed, once it uses that

    def __init__(self, rank: int, ask: Callable[[Request], Reply], speed: float = 1e12) -> None:
        self.rank, self.ask, self.speed = rank, ask, speed  # speed: FLOP/s
        self.calls = 0
        self.work: list[tuple[str, str, float]] = []  # computing not yet reported to the kernel
        self.handles: WeakSet[object] = WeakSet()  # those of its operations that the program still holds

    def run(self, body: Callable[..., object], *arguments: object) -> object:
        """Run the rank's function; its result."""
        return body(*arguments)

    def spent(self) -> Work:
        """The rank's computing since the last report to the kernel."""
        work = tuple(self.work)
        self.work.clear()
        return work

    def call(self, request: Request) -> Any:
        """Pass a request to the kernel; the value of its reply."""
        if self.work:
            request.work = self.spent()
        return self.ask(request).value

    def enter(self) -> None:
        """A communicator's call begins: it may use tensors itself."""

    def exit(self) -> None:
        """The communicator's call ends."""

    def post(
        self, sent: Sequence[torch.Tensor] = (), into: Sequence[torch.Tensor] = (), collective: bool = False
    ) -> int:
        """The number of a new call that reads some tensors and fills others."""
        self.calls += 1
        return self.calls

    def start(self, flights: Sequence[Flight], handles: Sequence[object]) -> None:
        """The tensors of these calls are in flight from now on; the program gets these handles."""
        self.handles.update(handles)

    def land(self, call: int, line: Line) -> None:
        """The rank waits for the call that it posted at the line."""

    def over(self, call: int) -> None:
        """The call is complete, and ends: its tensors may be used again."""

    def paused(self) -> None:
        """Another rank is about to run."""

    def resumed(self) -> None:
        """This rank runs."""

    def leave(self) -> None:
        """The rank has ended: remove everything from its thread."""
