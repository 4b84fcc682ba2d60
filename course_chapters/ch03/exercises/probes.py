"""How chapter 03 calls answers: a simulated device with its own queue and clock."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm

__all__ = ["QueueDevice", "on_a_device", "queue_device"]

MOST_LAUNCHES = 20_000


class QueueDevice(NamedTuple):
    """A device that queues kernels and runs them later, as a GPU does. Times are seconds of its own clock."""

    launch: Callable[[], None]  # put one kernel into the queue and return at once
    now: Callable[[], float]  # the host's clock
    synchronize: Callable[[], None]  # wait until the queue is empty


def queue_device(
    kernel: float,
    launch: float = 5e-6,
    wait: float = 8e-6,
    warm_up: Sequence[float] = (40.0, 8.0, 2.0),
    disturbed: Sequence[float] = (1.0,),
    pending: float = 0.0,
) -> QueueDevice:
    """A device whose kernel takes `kernel` s once warm; `launch` and `wait` are the host's seconds for a call.

    The first launches take `warm_up` times as long, later ones `disturbed` times, repeatedly; `pending` seconds of
    other work are in the queue at the start.
    """
    host, free, count = 0.0, float(pending), 0

    def put() -> None:
        nonlocal host, free, count
        if count >= MOST_LAUNCHES:
            raise RuntimeError(f"{MOST_LAUNCHES:,} launches are enough to time one kernel.")
        factor = warm_up[count] if count < len(warm_up) else disturbed[(count - len(warm_up)) % len(disturbed)]
        count += 1
        host += launch
        free = max(host, free) + kernel * factor

    def look() -> float:
        return host

    def drain() -> None:
        nonlocal host
        host = max(host, free) + wait

    return QueueDevice(put, look, drain)


def on_a_device(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The answer's seconds for each device: `case.args = (index, rows of (device's description, repeats))`."""
    _, table = case.args
    return [answer(queue_device(**copy.deepcopy(spec)), repeats) for spec, repeats in table]
