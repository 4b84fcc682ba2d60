"""Exercises of chapter 03 on wires: level by level to the cluster, α and β, which upgrade helps, a clock that did not wait."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib import facts
from course_lib.exercises import Card, Worth
from course_lib.exercises.card_parts import CLOSE, functions
from course_lib.exercises.ch03.cards.core import rates
from course_lib.exercises.ch03.probes import on_a_device
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import Anything, ListOf, Maybe, Number, Rows, TupleOf
from course_lib.units import GB, bytes_text, flops_text

OTHERS = ("H200 SXM", "A100 SXM 80GB", "B200 SXM")  # devices of variants
_PHASES = {
    "in turn": "one after another: a level starts when the one before is done",
    "at once": "all at the same time, each level on its own wires; the last one to finish determines the time",
}


def sheet_levels(device: str, oversubscription: float) -> list[dict[str, Any]]:
    """Levels as documents print them: some with both directions, some per server, and an oversubscribed top."""
    one = facts.device(device)
    servers = int(facts.topology("Llama 3 cluster").devices("server"))
    adapter = float(one.network_one_way)
    return [
        {"name": "server", "rate": float(one.link_both_ways), "shared_by": 1, "directions": 2, "oversubscription": 1},
        {"name": "rack", "rate": adapter * servers, "shared_by": servers, "directions": 1, "oversubscription": 1},
        {"name": "pod", "rate": adapter, "shared_by": 1, "directions": 1, "oversubscription": 1},
        {"name": "cluster", "rate": adapter, "shared_by": 1, "directions": 1, "oversubscription": oversubscription},
    ]


def _hierarchy(phases: str, device: str, oversubscription: float) -> dict[str, Any]:
    levels = sheet_levels(device, oversubscription)
    names = {"server": "NVLink", "rack": "all adapters of a server", "pod": "one adapter", "cluster": "one adapter"}
    lines = [
        f"| {one['name']} | {names[one['name']]} | {one['rate'] / GB:,.4g} GB/s | {one['shared_by']} | {one['directions']} | "
        f"{one['oversubscription']:g} |"
        for one in levels
    ]
    head = ["| level | wire | `rate` | `shared_by` | `directions` | `oversubscription` |", "|---|---|---|---|---|---|"]
    table = "\n".join([*head, *lines])
    return {"phases": phases, "phases_words": _PHASES[phases], "device": device, "levels": levels, "table": table}


HIERARCHY = Card(
    id="hierarchical-bandwidth",
    chapter="03",
    title="From the server to the cluster, in one direction",
    **Worth(points=15, minutes=15, difficulty=3, importance=5),
    kind="more",
    answers=("cross_bandwidth", "effective_bandwidth"),
    text=f"""Find the bandwidth that one device really gets at each level of a cluster, and over several levels at once. Four documents
describe four levels of one cluster, each in its own way:

{{{{table}}}}

`rate` is in bytes a second; `shared_by` devices share it; `directions` is 2 if both directions were added;
`oversubscription` is what the units inside could send divided by what this level lets pass.

- `cross_bandwidth(levels)`: a list with one number per level, from the inside out: the bytes a second that **one device**
  gets in **one direction** when all devices send across that level at once. Bytes that cross a level have crossed all the
  levels inside it, so they get at most what those let pass.
- `effective_bandwidth(shares, rates)`: a device sends one buffer, of which the fraction `shares[i]` goes over a wire of
  `rates[i]` bytes a second, {{{{phases_words}}}}. Return the buffer's bytes divided by the time. Shares add up to one;
  some may be 0.

The visible case has the four levels (`params("hierarchical-bandwidth").levels`), and a buffer, a quarter of which leaves the server over the rack's wires.
{CLOSE}""",
    hints=(
        "Is the number in each row for one device or eight, for one direction or two, and for all devices at once?",
        "Convert each level to one device and one direction, divide by its oversubscription, and never let the result grow on "
        "the way out. For the buffer, add seconds, not bandwidths.",
        "`own = rate / shared_by / directions / oversubscription`; `passed = min(passed, own)`; `1 / sum(s / r)` in turn, "
        "`1 / max(s / r)` at once.",
    ),
    allowed="the standard library and numpy.",
    hides=("roofline.wires:levels", "roofline.wires:bandwidth_across", "roofline.wires:phases_seconds"),
    params=_hierarchy("in turn", "H100 SXM", float(facts.topology("Llama 3 cluster").levels[-1].oversubscription)),
    vary=lambda draw: _hierarchy("at once", draw.choice(OTHERS), draw.choice((2.0, 3.0, 4.0))),
    structural="phases",
    probe=rows,
    returns=Rows(ListOf(Number("bytes/s"), what="level"), Number("bytes/s")),
)


def points(
    draw: random.Random, alpha: float, bandwidth: float, count: int = 24, noise: float = 0.03
) -> tuple[list[float], list[float]]:
    """Sizes in bytes over six decades, and times of messages with a relative error, in no order."""
    sizes = [float(round(8 * 10 ** (index * 7.6 / (count - 1)))) for index in range(count)]
    draw.shuffle(sizes)
    return sizes, [(alpha + size / bandwidth) * (1 + draw.uniform(-noise, noise)) for size in sizes]


def _alpha_params(draw: random.Random, small: tuple[float, float], large: tuple[float, float]) -> dict[str, Any]:
    sizes, seconds = points(draw, *small)
    return {
        "sizes": sizes,
        "seconds": seconds,
        "small": list(small),
        "large": list(large),
        "small_words": f"α = {small[0] * 1e6:g} µs, {small[1] / GB:g} GB/s",
        "large_words": f"α = {large[0] * 1e6:g} µs, {large[1] / GB:g} GB/s",
    }


def _alpha_variant(draw: random.Random) -> Mapping[str, Any]:
    small = draw.choice((3e-6, 4e-6, 6e-6)), draw.choice((6 * GB, 8 * GB, 12 * GB))
    return _alpha_params(draw, small, (draw.choice((15e-6, 25e-6, 30e-6)), draw.choice((36 * GB, 42 * GB, 48 * GB))))


ALPHA_BETA = Card(
    id="alpha-beta-regimes",
    chapter="03",
    title="What a message costs, and when to switch methods",
    **Worth(points=15, minutes=15, difficulty=3, importance=4),
    kind="more",
    answers=("fit_line", "switch_size", "best_bandwidth"),
    text=f"""Fit α and β to measured messages, and find the size at which another method of sending is faster. A message of n bytes
takes α + n/β seconds. Libraries have several methods: one starts at once (small α) but copies on the way (small β), another first
agrees with the receiver (large α) and then runs at full speed.

- `fit_line(sizes, seconds)`: the pair (α in seconds, β in bytes/s) of measured messages. The sizes range from bytes to
  hundreds of megabytes, and every time has an error of up to 3 % **of itself**. Results within 8 % pass.
- `switch_size(small, large)`: two methods as pairs (α, β); the smallest size in bytes, a float, from which the second is at
  least as fast as the first: `0.0` if it always is, `math.inf` if it never is. (The two β differ.)
- `best_bandwidth(nbytes, small, large)`: the bytes a second that a message gets by the faster of the two methods.

The visible case has measured messages (`params("alpha-beta-regimes")` has `.sizes` and `.seconds`), and two methods: {{{{small_words}}}} and
{{{{large_words}}}}. {CLOSE}""",
    hints=(
        "In a plot of raw seconds against raw bytes, which points determine the line?",
        "Every point should count by its *relative* error: divide each equation α + n/β = t by its own t, or look at both ends. "
        "The switch is where the two lines meet.",
        "`np.linalg.lstsq(np.stack([1/t, n/t], 1), np.ones(len(t)))` gives α and 1/β; `(a2 - a1) / (1/b1 - 1/b2)`, after the "
        "cases where one method is always faster.",
    ),
    allowed="the standard library and numpy.",
    hides=functions("roofline.wires", "fit_alpha_beta", "fit_regimes", "effective_bandwidth", "message_seconds"),
    params=_alpha_params(random.Random("alpha-beta"), (4e-6, 10 * GB), (20e-6, 45 * GB)),
    vary=_alpha_variant,
    probe=rows,
    returns=Rows(TupleOf({"α": Number("s"), "β": Number("bytes/s")}), Anything("a number of bytes"), Number("bytes/s")),
)

PARTS = ("compute", "memory", "link", "network")
_OVERLAP = {
    "everything": "Everything overlaps: a step takes as long as its busiest part",
    "wires wait": "Arithmetic and memory overlap, the wires do not: a step takes the longer of compute and memory, plus the "
    "time of the link, plus the time of the network",
}


def workloads(device: str) -> list[dict[str, Any]]:
    """Five kinds of work of one device, as the amounts that each of its parts has to do."""
    shape = facts.model("llama3-8b")
    weights, layers, hidden = float(shape.params), shape.layers, shape.hidden
    rows = [
        ("training, 16,384 tokens", 6 * weights * 16_384, 48 * weights, 0.0, 4 * weights),
        ("training, 4,096 tokens", 6 * weights * 4_096, 40 * weights, 0.0, 4 * weights),
        ("generating, one user", 2 * weights, 2 * weights, 0.0, 0.0),
        (
            "layers split over the server, 1,024 tokens, sums in fp32",
            2 * weights * 1_024 / 8,
            2.4 * weights / 8,
            14.0 * 1_024 * hidden * layers,
            0.0,
        ),
        ("reading prompts, 32,768 tokens", 2 * weights * 32_768, 6 * weights, 0.0, 0.0),
    ]
    return [{"name": name, "work": dict(zip(PARTS, map(float, need), strict=True))} for name, *need in rows]


def _upgrade(overlap: str, device: str, factor: float) -> dict[str, Any]:
    own = rates(device)
    link = float(facts.device(device).link_one_way)
    speeds = {"compute": own["flops"], "memory": own["bandwidth"], "link": link, "network": own["network"]}
    cases = workloads(device)
    lines = [
        f"| {case['name']} | {flops_text(case['work']['compute'])} | "
        + " | ".join(bytes_text(case["work"][part]) if case["work"][part] else "—" for part in PARTS[1:])
        + " |"
        for case in cases
    ]
    head = ["| a step of | compute | memory | link | network |", "|---|---|---|---|---|"]
    rate = " | ".join(f"{speeds[part] / GB:,.5g} GB/s" for part in PARTS[1:])
    return {
        "overlap": overlap,
        "overlap_words": _OVERLAP[overlap],
        "device": device,
        "factor": factor,
        "rates": speeds,
        "cases": cases,
        "table": "\n".join(
            [*head, *lines, f"| *rates of one {device}* | {flops_text(speeds['compute'])}/s | {rate} |"]
        ),
    }


WHICH_UPGRADE = Card(
    id="which-upgrade",
    chapter="03",
    title="Which upgrade helps?",
    **Worth(points=15, minutes=15, difficulty=3, importance=4),
    kind="more",
    answers=("best_upgrade",),
    text=f"""Find the upgrade that shortens a step the most. You can make **one** part {{{{factor}}}} times as fast: the arithmetic,
the memory, the links inside the server, or the network. Each step needs this much of each part:

{{{{table}}}}

{{{{overlap_words}}}}.

`best_upgrade(work, rates, factor)` gets two dictionaries with the keys `"compute"`, `"memory"`, `"link"`, `"network"`: FLOP
and bytes, FLOP/s and bytes/s in one direction; an amount may be 0. Return the pair `(part, speed-up)`: the part that, made
`factor` times as fast, shortens the step most, and the step's time before divided by its time after. Rates vary, so
the part with the most bytes is not always the slowest. {CLOSE}""",
    hints=(
        "If the busiest part becomes twice as fast, does the step become twice as fast?",
        "Write the time of a step as a function of the four rates. Then try the four upgrades one by one and compare.",
        "`step = lambda r: …`; `gains = {p: step(rates) / step({**rates, p: rates[p] * factor}) for p in rates}`; "
        "`best = max(gains, key=gains.get)`.",
    ),
    allowed="the standard library and numpy.",
    hides=("roofline.roofs:speedups", "roofline.roofs:seconds", "roofline.roofs:part_seconds"),
    params=_upgrade("everything", "H100 SXM", 2.0),
    vary=lambda draw: _upgrade("wires wait", draw.choice(OTHERS), draw.choice((1.5, 3.0))),
    structural="overlap",
    probe=rows,
    returns=Rows(TupleOf({"part": Maybe(Anything()), "speed-up": Maybe(Number())})),
)

HASTY_CLOCK = Card(
    id="hasty-clock",
    chapter="03",
    title="Find the bug: faster than the hardware",
    **Worth(points=10, minutes=10, difficulty=2, importance=5),
    kind="more",
    form="bug",
    answers=("time_kernel",),
    text="""Repair a timing function that makes kernels look faster than the hardware. A public benchmark of array libraries reported
0.03 ms for a matmul on a desktop GPU; a reader found it
[implausibly fast](https://github.com/TristanBilot/mlx-benchmark/pull/21), and corrected it was 1.36 ms. This function, which is
ours, makes the same mistake and three more:

```python
def time_kernel(device, repeats):
    start = device.now()
    for _ in range(repeats):
        device.launch()
    return (device.now() - start) / repeats
```

`device.launch()` puts one kernel into the device's queue and returns at once; `device.now()` is the host's clock in
seconds; `device.synchronize()` waits until the queue is empty. (A GPU under PyTorch behaves the same.) Return the median
seconds of one kernel **over `repeats` repeats** ({{repeats:int}} here, never fewer than 11). Note that

- the host knows that a kernel is done only after waiting for it;
- other work may be in the queue when you start;
- the first launches are slower than all later ones;
- other work sometimes disturbs a repeat, and a mean would include the disturbance.

Results within 5 % pass; a launch and a wait take microseconds, the kernels a millisecond or more. To try it:
`from course_lib.exercises.ch03.probes import queue_device`, `time_kernel(queue_device(kernel=2e-3), {{repeats:int}})`.""",
    hints=(
        "Where are the kernels when this function reads the clock for the last time?",
        "Each repeat gets its own pair of clock readings, with an empty queue before the first and after the second. Then take "
        "the median.",
        "`device.synchronize(); start = device.now(); device.launch(); device.synchronize(); "
        "times.append(device.now() - start)`, and `statistics.median(times)` after a few launches to warm up.",
    ),
    allowed="the standard library and numpy.",
    params={"repeats": 25},
    vary=lambda draw: {"repeats": draw.choice((15, 21, 31))},
    probe=on_a_device,
    returns=Rows(Number("s")),
)
