from course_grader.judging import Case, Column, Judging, Params, Random, generality, log_uniform, plain, shares, table
from course_grader.judging.cases import shown


def _device(rng: Random) -> dict[str, object]:
    quiet = [rng.uniform(0.99, 1.01) for _ in range(rng.choice((5, 6, 7)))]
    slow, quick = rng.sample(range(len(quiet)), 2)
    quiet[slow], quiet[quick] = rng.uniform(3, 8), rng.uniform(0.6, 0.85)
    return {
        "kernel": log_uniform(rng, 1.5e-3, 5e-2),
        "launch": rng.choice((3e-6, 5e-6, 8e-6)),
        "wait": rng.choice((5e-6, 1e-5)),
        "warm_up": [rng.uniform(20, 60), rng.uniform(4, 12), rng.uniform(1.5, 3)][: rng.choice((2, 3))],
        "disturbed": quiet,
        "pending": rng.uniform(0.5, 3),
    }


def _cases(params: Params, rng: Random) -> list[Case]:
    quiet = {"launch": 5e-6, "wait": 8e-6, "warm_up": [40.0, 8.0, 2.0], "pending": 0.8}
    example = {"kernel": 1.36e-3, **quiet, "disturbed": [1.0, 1.0, 6.0, 1.0, 0.8, 1.0]}
    rows = [(_device(rng), rng.choice((11, 15, 25, 40, 101))) for _ in range(16)]
    rows.append(({**_device(rng), "disturbed": [5.0] * 16 + [1.0] * 60}, 40))  # most of the first repeats
    usual = [({**example, "kernel": log_uniform(rng, 1e-3, 2e-2)}, params["repeats"]) for _ in range(3)]
    return [
        shown("the desktop's matmul", "values:kernel", 0, [(example, params["repeats"])]),
        plain("kernel", 0, "three more kernels", usual),
        generality("kernel", 0, "other devices", rows),
    ]


JUDGING = Judging(
    shares=shares(kernel=(0.4, 0.6)),
    cases=_cases,
    verdicts=table(
        Column(
            "kernel",
            "seconds",
            rel=0.05,
            want=lambda spec, count: spec["kernel"],
            words=lambda spec, count: f"a kernel timed {count} times",
            hint="Wait for an empty queue before both readings of the clock, and take the median repeat.",
        )
    ),
    within=0.05,
    why="Launching is not computing. The clock must start and stop on an empty queue, once for every repeat, so that "
    "you can take the median repeat. It is free of the warm-up and of other work on the machine. The quickest "
    "check of a benchmark is its roof: a matmul above the device's peak was timed without waiting for its end.",
    pytorch="`torch.cuda.synchronize()` before and after, or `torch.cuda.Event(enable_timing=True)`; best of all "
    "`torch.utils.benchmark.Timer`, which does both and takes the median.",
)

ANSWERS = r'''# %% right: worked
def time_kernel(device, repeats: int) -> float:
    """Median seconds of one kernel of `device` over `repeats` repeats."""
    for _ in range(10):  # the first launches are slow for reasons of their own
        device.launch()
    times = []
    for _ in range(repeats):
        device.synchronize()
        start = device.now()
        device.launch()
        device.synchronize()
        times.append(device.now() - start)
    return statistics.median(times)
# %% right: no warm-up but a median, wait carried over  from: worked
def time_kernel(device, repeats):
    device.synchronize()
    marks = [device.now()]
    for _ in range(repeats):
        device.launch()
        device.synchronize()
        marks.append(device.now())
    return np.median(np.diff(marks))
# %% wrong: hasty => values  from: the card
# > this is the time to put a kernel into the queue; the clock does not wait for the kernel to finish.
# %% wrong: waits before, not after => values hasty
#           device.launch()
# -         device.synchronize()
# %% wrong: pending work => values  from: the card
# > the clock started while other work was in the queue, or while the device was warming up.
#           device.launch()
# +     device.synchronize()
# %% wrong: warm-up counted => values
# > the mean includes the first launches.
# -     for _ in range(10):  # the first launches are slow for reasons of their own
# -         device.launch()
# ~ median ==> fmean
# %% wrong: mean => values
# > the mean includes the disturbed repeats; return the median.
# ~ range(10) ==> range(5)
# ~ median ==> fmean
# %% wrong: all repeats => values
# > this adds up all repeats.
# ~ range(10) ==> range(5)
# ~ statistics.median ==> sum
# %% wrong: fastest repeat => values
# > this is the fastest repeat; return the median.
# ~ statistics.median ==> min
# %% wrong: the slowest repeat => values -
# ~ statistics.median ==> max
# %% wrong: milliseconds => values
# > these are milliseconds; give seconds.
# ~ statistics.median(times) ==> 1e3 * statistics.median(times)
# %% wrong: never stops => raised
# ~ for _ in range(repeats) ==> while device.now() < 1e9
# %% wrong: right for the matmul shown only => values only-the-example
# ~ statistics.median(times) ==> min(statistics.median(times), 1.38e-3)
# %% wrong: eleven repeats, whatever is asked for => generality -
# ~ range(repeats) ==> range(11)
'''
