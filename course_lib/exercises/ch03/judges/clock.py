"""Judge of the hasty clock: each way to time a device too early, too cold or together with its disturbances."""

import random
import statistics
from collections.abc import Mapping
from typing import Any

from course_lib.exercises.ch03.probes import QueueDevice, queue_device
from course_lib.judging import Judging, Mistake, Params, near
from course_lib.judging.draws import log_uniform, plain
from course_lib.judging.old_columns import Column, columns
from course_lib.records import Case


def honest(device: QueueDevice, count: int) -> float:
    """The middle of `count` repeats, each waited for before and after."""
    for _ in range(5):
        device.launch()
    times = []
    for _ in range(count):
        device.synchronize()
        start = device.now()
        device.launch()
        device.synchronize()
        times.append(device.now() - start)
    return statistics.median(times)


def _total(device: QueueDevice, count: int, *, first: bool, last: bool, warm: int) -> float:
    """One pair of readings around all launches, over their number."""
    for _ in range(warm):
        device.launch()
    if first:
        device.synchronize()
    start = device.now()
    for _ in range(count):
        device.launch()
    if last:
        device.synchronize()
    return (device.now() - start) / count


def _middle(device: QueueDevice, count: int, *, before: bool, after: bool) -> float:
    times = []
    for _ in range(count):
        if before:
            device.synchronize()
        start = device.now()
        device.launch()
        if after:
            device.synchronize()
        times.append(device.now() - start)
    return statistics.median(times)


def _mean(device: QueueDevice, count: int) -> float:
    for _ in range(5):
        device.launch()
    device.synchronize()
    return _total(device, count, first=True, last=True, warm=0)


_CLOCKS: tuple[tuple[str, Any, str], ...] = (
    (
        "hasty",
        lambda d, n: _total(d, n, first=False, last=False, warm=0),
        "that is what it takes to put a kernel into the queue; nobody waited for it.",
    ),
    (
        "hasty",
        lambda d, n: _middle(d, n, before=True, after=False),
        "that is what it takes to put a kernel into the queue; nobody waited for it to end.",
    ),
    (
        "hasty",
        lambda d, n: _total(d, n, first=True, last=False, warm=5),
        "that is what it takes to put a kernel into the queue; nobody waited for it.",
    ),
    (
        "pending-work",
        lambda d, n: _total(d, n, first=False, last=True, warm=0),
        "the clock started while somebody else's work was in the queue, or while the device was warming up.",
    ),
    (
        "warm-up-counted",
        lambda d, n: _total(d, n, first=True, last=True, warm=0),
        "the first, slow launches are in the mean.",
    ),
    ("mean", _mean, "the disturbed repeats are in the mean; the middle repeat is asked for."),
    (
        "mean",
        lambda d, n: _total(d, n, first=True, last=True, warm=5),
        "the disturbed repeats are in the mean; the middle one is asked for.",
    ),
)


def _clock_column() -> Column:
    def on(way: Any) -> Any:
        def value(spec: Mapping[str, Any], count: int) -> float | None:
            wrong = way(queue_device(**spec), count)
            return None if near(wrong, spec["kernel"], 0.05) else wrong

        return value

    def waited_only_once(spec: Mapping[str, Any], count: int) -> float:
        return _total(queue_device(**spec), count, first=True, last=True, warm=5) * count

    return Column(
        part="kernel",
        unit="s",
        rel=0.05,
        want=lambda spec, count: spec["kernel"],
        words=lambda spec, count: f"a kernel timed {count} times",
        hint="An empty queue before the first reading, an empty queue before the second, and the middle repeat.",
        slips=(
            *(Mistake(name, on(way), message) for name, way, message in _CLOCKS),
            Mistake("all-repeats", waited_only_once, "this is the time of all repeats together."),
            Mistake("milliseconds", lambda spec, count: 1e3 * spec["kernel"], "these are milliseconds; give seconds."),
        ),
    )


def _device(rng: random.Random) -> dict[str, Any]:
    quiet = [rng.uniform(0.99, 1.01) for _ in range(rng.choice((5, 6, 7)))]
    quiet[rng.randrange(len(quiet))] = rng.uniform(3, 8)
    return {
        "kernel": log_uniform(rng, 1.5e-3, 5e-2),
        "launch": rng.choice((3e-6, 5e-6, 8e-6)),
        "wait": rng.choice((5e-6, 1e-5)),
        "warm_up": [rng.uniform(20, 60), rng.uniform(4, 12), rng.uniform(1.5, 3)][: rng.choice((2, 3))],
        "disturbed": quiet,
        "pending": rng.uniform(0.5, 3),
    }


def _clock_cases(params: Params, rng: random.Random) -> list[Case]:
    shown = {
        "kernel": 1.36e-3,
        "launch": 5e-6,
        "wait": 8e-6,
        "warm_up": [40.0, 8.0, 2.0],
        "disturbed": [1.0, 1.0, 6.0, 1.0, 1.0, 1.0],
        "pending": 0.8,
    }
    rows = [(_device(rng), rng.choice((11, 15, 25, 40, 101))) for _ in range(16)]
    usual = [({**shown, "kernel": log_uniform(rng, 1e-3, 2e-2)}, params["repeats"]) for _ in range(3)]
    return [
        Case(name="the desktop's matmul", args=(0, [(shown, params["repeats"])]), part="kernel"),
        plain("kernel", 0, "three more kernels", usual),
        Case(name="other devices", args=(0, rows), kind="generality", part="kernel", visible=False),
    ]


HASTY_CLOCK = Judging(
    shares={"values:kernel": 0.4, "generality:kernel": 0.6},
    cases=_clock_cases,
    verdicts=columns(_clock_column()),
    why="Launching is not computing. The clock must start on an empty queue and stop on an empty queue, once for every repeat, so "
    "that the middle one can be taken: it forgets the warm-up and whatever else the machine was doing. The quickest test of a "
    "benchmark is its roof: a matmul above the device's peak was never waited for.",
    pytorch="`torch.cuda.synchronize()` before and after, or `torch.cuda.Event(enable_timing=True)`; best of all "
    "`torch.utils.benchmark.Timer`, which does both and takes the median.",
)
