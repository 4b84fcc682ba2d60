from course_chapters.ch03.exercises.shared import CHIPS
from course_grader.exercises import Card, Maybe, Number, Random, Rows, TupleOf, Worth
from course_lib.estimate import facts

_WORDS = {
    "durations": "the seconds of each repeat, in the order in which they ran",
    "readings": "readings of a running clock in seconds: one before the first repeat, then one after each "
    "repeat, in order",
}
_MATMULS = {512: 0.25, 1024: 0.5, 2048: 0.8, 4096: 0.92, 8192: 1.0}  # size: share of the roof that it reaches
ELEMENT = 2  # bytes
LEAST_BEYOND = 0.1  # a run that cannot be true beats the sheet by more than this share; noise alone does not reach it


def log(
    draw: Random,
    flops: float,
    bandwidth: float,
    sheet_flops: float,
    sheet_bandwidth: float,
    cache: float,
    clock: str,
    subtle: bool = False,
) -> list[dict[str, object]]:
    """A list of timed kernels on a device whose true roofs are `flops` and `bandwidth`, in no order.

    In a subtle log the flaws lie just beyond their limits, and names say nothing: a kernel whose bytes fill the cache
    exactly is faster than the memory but not than the sheet, a run that cannot be true may beat the sheet by little
    more than `LEAST_BEYOND`, the memory's kernels hardly exceed the cache, and the best arithmetic is that of a kernel
    in the cache, which moves more bytes than the sheet allows.
    """
    runs: list[dict[str, object]] = []

    def add(name: str, flop: float, nbytes: float, seconds: float) -> None:
        runs.append(_run(draw, name, flop, nbytes, seconds, clock))

    def matmul(size: int, rate: float) -> None:
        flop = 2.0 * size**3
        add(f"matmul {size}", flop, 3.0 * size**2 * ELEMENT, flop / rate)

    def hasty(most: float) -> float:
        return draw.uniform(1.02, 1.09) + LEAST_BEYOND if subtle else draw.uniform(1.4, most)

    for size, reached in _MATMULS.items():
        matmul(size, flops * reached * (0.9 if subtle else 1))
    if subtle:
        nbytes = cache * draw.uniform(0.3, 0.9)
        flop = nbytes * flops / sheet_bandwidth * draw.uniform(0.4, 0.8)
        add("", flop, nbytes, flop / flops)
    beyond = 1.03 * cache if subtle else 8 * cache
    best = draw.randrange(3)
    for index, (name, flop, tensors) in enumerate((("copy", 0, 2), ("scale", 1, 2), ("add", 1, 3))):
        reached = 1.0 if index == best else draw.uniform(0.75, 0.9)
        sizes = {"large": beyond * draw.uniform(1, 1.1 if subtle else 3), "small": cache * draw.uniform(0.2, 0.7)}
        for kind, nbytes in sizes.items():
            rate = bandwidth * reached * (1.0 if kind == "large" else draw.uniform(2.2, 4))
            count = nbytes // (tensors * ELEMENT)
            moved = count * tensors * ELEMENT
            add(f"{name}, {kind}", flop * count, moved, moved / rate)
    matmul(draw.choice((3072, 5120, 6144)), sheet_flops * hasty(9))
    count = beyond * draw.uniform(1, 3) // (2 * ELEMENT)
    moved = count * 2 * ELEMENT
    add("gelu, large", 8 * count, moved, moved / (sheet_bandwidth * hasty(5)))
    if subtle:
        rate = draw.uniform((bandwidth + 2 * sheet_bandwidth) / 3, 0.98 * sheet_bandwidth)
        add("", cache // ELEMENT, cache, cache / rate)
        for run, number in zip(runs, draw.sample(range(100, 1000), len(runs)), strict=True):
            run["name"] = f"kernel {number}"
    draw.shuffle(runs)
    return runs


def _run(draw: Random, name: str, flop: float, nbytes: float, seconds: float, clock: str) -> dict[str, object]:
    slow = draw.choice((2, 3))
    factors = [draw.uniform(3, 12) for _ in range(slow)]
    factors += [draw.uniform(0.99, 1.01) for _ in range(draw.randint(9, 12))]
    for _ in range(2):
        factors[draw.randrange(slow, len(factors))] = draw.uniform(1.5, 4)
    spent = [seconds * factor for factor in factors]
    if clock == "readings":
        reading, shown = draw.uniform(1, 9), []
        for each in (0.0, *spent):
            reading += each
            shown.append(reading)
        spent = shown
    return {"name": name, "flop": float(flop), "bytes": float(nbytes), "seconds": spent}


def bench(draw: Random, device: str, clock: str, subtle: bool = False) -> dict[str, object]:
    """A device's sheet and a log of it: the parameters of one variant."""
    one = facts.device(device)
    flops, bandwidth, cache = float(one.dense_flops), float(one.bandwidth), float(facts.chip(device).l2)
    true = flops * draw.uniform(0.55, 0.85), bandwidth * draw.uniform(0.75, 0.85 if subtle else 0.92)
    sheet = {"device": device, "cache": cache, "sheet_flops": flops, "sheet_bandwidth": bandwidth}
    runs = log(draw, *true, flops, bandwidth, cache, clock, subtle)
    return {**sheet, "clock": clock, "clock_words": _WORDS[clock], "runs": runs, "least_beyond": LEAST_BEYOND}


CARD = Card(
    title="Two roofs from a noisy log",
    **Worth(points=20, minutes=20, difficulty=4, importance=5),
    answers=("fit_roofs",),
    text="""Find the two roofs of one {{device}} in a noisy benchmark log, as you would on a real machine. The log,
`params("fit-roofs").runs`, is an unordered list of dictionaries, each with `"name"`, `"flop"`, `"bytes"` (read and
written) and `"seconds"`: {{clock_words}}.

`fit_roofs(runs, cache, sheet_flops, sheet_bandwidth)` returns the triple `(flops, bandwidth, ridge)`: the highest rates
that **this** device's arithmetic and memory reach, in FLOP/s and bytes/s, and the FLOP per byte where both roofs meet.
No kernel is faster than its roof, and the best kernel of each kind reaches it. The log has the usual flaws:

- two or three warm-up repeats at the start of every run, and a disturbed repeat now and then;
- kernels that are poorly written;
- kernels whose bytes fit into the cache of `cache` bytes: they do not use the memory;
- runs whose clock stopped before the kernel did. They are at least {{least_beyond:percent}} faster than the data sheet
  (`sheet_flops`, `sheet_bandwidth`) allows, and they measure nothing.

Numbers within 5 % pass. The data sheet says {{sheet_flops:tflops}} and {{sheet_bandwidth:gbps}}; a real device reaches
less.""",
    hints=(
        "Which statistic of a run would not change if one repeat had been ten times slower?",
        "First find one time per run, then drop the runs that cannot be true, then take the highest rate of each "
        "kind. A bandwidth above the sheet proves nothing if the bytes fit into the cache.",
        "`t = statistics.median(run['seconds'])`; `bad = flop / t > sheet_flops or (nbytes > cache and nbytes / t > "
        "sheet_bandwidth)`; `flops = max(flop / t)` over the rest; `bandwidth = max(nbytes / t)` where "
        "`nbytes > cache`.",
    ),
    allowed="the standard library and numpy.",
    hides=("course_lib.estimate.roofline.fitting:fit_roofs", "course_lib.estimate.roofline.fitting:above_roof"),
    params=bench(Random("fit-roofs"), "H100 SXM", "durations"),
    vary=lambda draw: bench(draw, draw.choice(CHIPS), "readings"),
    structural="clock",
    returns=Rows(TupleOf({name: Maybe(Number()) for name in ("FLOP/s", "bytes/s", "FLOP per byte")})),
)
