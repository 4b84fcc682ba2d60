"""`Work`, an operation in progress, and `P2POp`, one send or receive of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from course_lib.cluster.endpoint import Endpoint, endpoint, identical
from course_lib.cluster.protocol import Request
from course_lib.cluster.source_lines import caller_line, line_text
from course_lib.model.accounting import unseen


class Work:
    """An operation in progress. Do not use its tensors before `wait()` returns."""

    __slots__ = ("__weakref__", "_done", "_guard", "_line", "call")

    def __init__(self, call: int, line: Any, guard: tuple[torch.Tensor, torch.Tensor] | None = None) -> None:
        self.call, self._line, self._guard, self._done = call, line, guard, False

    def wait(self) -> bool:
        """Wait for the operation; return True when its tensors may be used."""
        if not self._done:
            end = endpoint()
            end.unwatch()
            self._check(end)
            end.watch.land(self.call)
            end.call(Request(end.rank, "wait", handle=self.call, line=caller_line()))
            self._finish(end)
        return True

    def is_completed(self) -> bool:
        """Whether the operation is complete; each call costs a little virtual time."""
        if not self._done:
            end = endpoint()
            end.unwatch()
            if end.call(Request(end.rank, "test", handle=self.call, line=caller_line())):
                self._check(end)
                end.watch.land(self.call)
                self._finish(end)
            elif end.watch.flights:
                end.watch.resume()
        return self._done

    def _finish(self, end: Endpoint) -> None:
        self._done, self._guard = True, None
        end.over(self.call)

    def _check(self, end: Endpoint) -> None:
        if self._guard is None:
            return
        with unseen():
            intact = identical(*self._guard)
        if not intact:
            self._guard = None
            raise RuntimeError(
                f"rank {end.rank} changed a tensor between its isend and wait(): posted at {line_text(self._line)}. "
                "What is in flight may be read until wait() returns; wait first, or send a copy."
            )


class P2POp(NamedTuple):
    """One send or receive for `batch_isend_irecv`: `P2POp(comm.isend, tensor, peer)`."""

    op: Callable[..., Work]
    tensor: Any
    peer: int
    tag: int = 0
