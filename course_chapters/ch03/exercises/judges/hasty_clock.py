"""Judge of hasty-clock: find the bug: faster than the hardware."""

import random
import statistics
from collections.abc import Callable, Mapping
from typing import Any

from course_chapters.ch03.exercises.probes import QueueDevice, queue_device
from course_grader.judging import Judging, Mistake, Params, near
from course_grader.judging.cases import shown
from course_grader.judging.per_row import Column, table
from course_grader.judging.random_inputs import generality, log_uniform, plain
from course_grader.records import Case


def honest(device: QueueDevice, count: int, after: bool = True, warm: int = 5) -> float:
    """The median of `count` repeats, with waiting before each one and, unless `after` is false, after it."""
    for _ in range(warm):
        device.launch()
    times = []
    for _ in range(count):
        device.synchronize()
        start = device.now()
        device.launch()
        if after:
            device.synchronize()
        times.append(device.now() - start)
    return statistics.median(times)


def _mean(*, first: bool, last: bool, warm: int) -> Callable[[QueueDevice, int], float]:
    """A clock with one pair of readings around all launches; `first` and `last`: whether it waits at that end."""

    def clock(device: QueueDevice, count: int) -> float:
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

    return clock


def _on(clock: Callable[[QueueDevice, int], float]) -> Callable[..., float | None]:
    """What a clock shows for a device; None where it is right."""

    def value(spec: Mapping[str, Any], count: int) -> float | None:
        shown = clock(queue_device(**spec), count)
        return None if near(shown, spec["kernel"], 0.05) else shown

    return value


_WAITED = _mean(first=True, last=True, warm=5)
_QUEUED = "this is the time to put a kernel into the queue; the clock does not wait for the kernel to finish."
_PENDING = "the clock started while other work was in the queue, or while the device was warming up."
_DISTURBED = "the mean includes the disturbed repeats; return the median."

_KERNEL = Column(
    part="kernel",
    unit="s",
    rel=0.05,
    want=lambda spec, count: spec["kernel"],
    words=lambda spec, count: f"a kernel timed {count} times",
    hint="Wait for an empty queue before both readings of the clock, and take the median repeat.",
    mistakes=(
        Mistake("hasty", _on(_mean(first=False, last=False, warm=0)), _QUEUED),
        Mistake("hasty", _on(lambda device, count: honest(device, count, after=False, warm=0)), _QUEUED),
        Mistake("hasty", _on(_mean(first=True, last=False, warm=5)), _QUEUED),
        Mistake("pending-work", _on(_mean(first=False, last=True, warm=0)), _PENDING),
        Mistake("warm-up-counted", _on(_mean(first=True, last=True, warm=0)), "the mean includes the first launches."),
        Mistake("mean", _on(_WAITED), _DISTURBED),
        Mistake("all-repeats", lambda spec, n: _WAITED(queue_device(**spec), n) * n, "this adds up all repeats."),
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
    quiet = {"launch": 5e-6, "wait": 8e-6, "warm_up": [40.0, 8.0, 2.0], "pending": 0.8}
    example = {"kernel": 1.36e-3, **quiet, "disturbed": [1.0, 1.0, 6.0, 1.0, 1.0, 1.0]}
    rows = [(_device(rng), rng.choice((11, 15, 25, 40, 101))) for _ in range(16)]
    rows.append(({**_device(rng), "disturbed": [5.0] * 12 + [1.0] * 60}, 40))  # most of the first repeats
    usual = [({**example, "kernel": log_uniform(rng, 1e-3, 2e-2)}, params["repeats"]) for _ in range(3)]
    return [
        shown("the desktop's matmul", "values:kernel", 0, [(example, params["repeats"])]),
        plain("kernel", 0, "three more kernels", usual),
        generality("kernel", 0, "other devices", rows),
    ]


JUDGING = Judging(
    shares={"values:kernel": 0.4, "generality:kernel": 0.6},
    cases=_clock_cases,
    verdicts=table(_KERNEL),
    why="Launching is not computing. The clock must start and stop on an empty queue, once for every repeat, so that you can "
    "take the median repeat. It is free of the warm-up and of other work on the machine. The quickest check of a benchmark "
    "is its roof: a matmul above the device's peak was timed without waiting for its end.",
    pytorch="`torch.cuda.synchronize()` before and after, or `torch.cuda.Event(enable_timing=True)`; best of all "
    "`torch.utils.benchmark.Timer`, which does both and takes the median.",
)

ANSWERS = r"""import statistics


# %% right: every repeat on an empty queue
def time_kernel(device, repeats):
    for _ in range(5):
        device.launch()
    times = []
    for _ in range(repeats):
        device.synchronize()
        start = device.now()
        device.launch()
        device.synchronize()
        times.append(device.now() - start)
    return statistics.median(times)


# %% right: no warm-up but a median, wait carried over
import numpy as np


def time_kernel(device, repeats):
    device.synchronize()
    marks = [device.now()]
    for _ in range(repeats):
        device.launch()
        device.synchronize()
        marks.append(device.now())
    return np.median(np.diff(marks))


# %% wrong: waits before, not after => values hasty  from: every repeat on an empty queue
# -     for _ in range(5):
# -         device.launch()
#           device.launch()
# -         device.synchronize()


# %% wrong: only the last wait was added => values pending-work
def time_kernel(device, repeats):
    start = device.now()
    for _ in range(repeats):
        device.launch()
    device.synchronize()
    return (device.now() - start) / repeats


# %% wrong: no warm-up => values warm-up-counted  from: only the last wait was added
#   def time_kernel(device, repeats):
# +     device.synchronize()

# %% wrong: a mean over the disturbed ones too => values mean  from: only the last wait was added
#   def time_kernel(device, repeats):
# +     for _ in range(5):
# +         device.launch()
# +     device.synchronize()

# %% wrong: all repeats together => values -  from: a mean over the disturbed ones too
# ~ (device.now() - start) / repeats ==> device.now() - start

# %% wrong: in milliseconds => values milliseconds  from: waits before, not after
# -         times.append(device.now() - start)
# +         device.synchronize()
# +         times.append(1e3 * (device.now() - start))

# %% wrong: the slowest repeat => values -  from: every repeat on an empty queue
# -     for _ in range(5):
# -         device.launch()
# ~ statistics.median ==> max


# %% wrong: never stops => raised
def time_kernel(device, repeats):
    while device.now() < 1e9:
        device.launch()
    return device.now()


# %% wrong: right for the matmul shown only => values -  from: the slowest repeat
# ~ max(times) ==> min(statistics.median(times), 1.38e-3)

# %% wrong: eleven repeats, whatever is asked for => generality -  from: every repeat on an empty queue
# ~ range(repeats): ==> range(11):
"""
