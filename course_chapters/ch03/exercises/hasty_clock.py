from course_chapters.ch03.exercises.probes import on_a_device
from course_grader.exercises import Card, Number, Rows, Worth

CARD = Card(
    title="Find the bug: faster than the hardware",
    **Worth(points=10, minutes=10, difficulty=2, importance=5),
    kind="more",
    form="bug",
    answers=("time_kernel",),
    text="""Repair a timing function that makes kernels look faster than the hardware. A public benchmark of array
libraries reported 0.03 ms for a matmul on a desktop GPU; a reader found it [implausibly
fast](https://github.com/TristanBilot/mlx-benchmark/pull/21), and corrected it was 1.36 ms. This function, which is
ours, makes the same mistake and three more:

```python
def time_kernel(device, repeats):
    start = device.now()
    for _ in range(repeats):
        device.launch()
    return (device.now() - start) / repeats
```

`device.launch()` puts one kernel into the device's queue and returns at once; `device.now()` is the host's clock in
seconds; `device.synchronize()` waits until the queue is empty. (A GPU under PyTorch behaves the same.) Return the
median seconds of one kernel **over `repeats` repeats** ({{repeats:int}} here, never fewer than 11). Note that

- the host knows that a kernel is done only after waiting for it;
- other work may be in the queue when you start;
- the first launches are slower than all later ones;
- other work sometimes disturbs a repeat, and a mean would include the disturbance.

Results within 5 % pass; a launch and a wait take microseconds, the kernels a millisecond or more. To try it:
`from course_chapters.ch03.exercises.probes import queue_device`,
`time_kernel(queue_device(kernel=2e-3), {{repeats:int}})`.""",
    hints=(
        "Where are the kernels when this function reads the clock for the last time?",
        "Each repeat gets its own pair of clock readings, with an empty queue before the first and after the second. "
        "Then take the median.",
        "`device.synchronize(); start = device.now(); device.launch(); device.synchronize(); "
        "times.append(device.now() - start)`, and `statistics.median(times)` after a few launches to warm up.",
    ),
    allowed="the standard library and numpy.",
    params={"repeats": 25},
    vary=lambda draw: {"repeats": draw.choice((15, 21, 31))},
    probe=on_a_device,
    returns=Rows(Number("s")),
)
