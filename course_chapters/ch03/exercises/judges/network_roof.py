import random
from collections.abc import Sequence

from course_chapters.ch03.exercises.judges.shared import MEMORIES, PEAKS
from course_chapters.ch03.exercises.network_roof import Work, twelve
from course_grader.judging import Case, Column, Judging, Params, Word, Worked, generality, log_uniform, one_apart, table
from course_lib.estimate import facts
from course_lib.estimate.units import bytes_text, flops_text

WIRES = (1e9, 12.5e9, 25e9, 50e9, 64e9, 300e9, 450e9, 900e9)

PARTS = ("compute", "memory", "network")
right = Worked("network-roof")


def _work_words(flop: float, memory: float, sent: float, *_: float) -> str:
    return f"{flops_text(flop)}, {bytes_text(memory)} through memory, {bytes_text(sent)} sent"


def _work(rng: random.Random, directions: int, bound: str) -> tuple[float, ...]:
    """Random work that the part `bound` clearly limits."""
    f, b, w = rng.choice(PEAKS), rng.choice(MEMORIES), rng.choice(WIRES)
    longest = log_uniform(rng, 1e-6, 1e2)
    times = {name: longest * rng.uniform(0.05, 0.9) for name in PARTS} | {bound: longest}
    if bound != "network" and rng.random() < 0.3:
        times["network"] = 0.0
    amounts = (times["compute"] * f, times["memory"] * b, times["network"] * w / directions)
    return (*(float(f"{amount:.4g}") for amount in amounts), f, b, w)


def _clear(*row: float) -> bool:
    """Whether one part is clearly the busiest: it stays so where all others take a fiftieth longer."""
    bound = right(*row)[1]
    slower = [value if name == bound else value / 1.02 for name, value in zip(PARTS, row[3:], strict=True)]
    return right(*row[:3], *slower)[1] == bound


def _roof_cases(params: Params, rng: random.Random) -> list[Case]:
    directions = 2 if params["network_kind"] == "both ways" else 1

    def rows(cases: Sequence[Work], flops: float, bandwidth: float, directions: int = 1) -> list[tuple[float, ...]]:
        return [
            (case["flop"], case["memory_bytes"], case["network_bytes"], flops, bandwidth, case["network"] * directions)
            for case in cases
        ]

    others = [_work(rng, directions, bound) for bound in PARTS for _ in range(20)]
    others += one_apart(others, right, _clear)
    chosen = facts.device(rng.choice(("H100 SXM", "B200 SXM")))
    more = rows(twelve(chosen.name), float(chosen.dense_flops), float(chosen.bandwidth), directions)
    others += [(work * 1e15, (1.9 - work) * 3e12, 0.0, 1e15, 3e12, 5e10) for work in (1.0, 0.9)]  # nothing sent
    rng.shuffle(others)
    shown_twelve = rows(params["cases"], params["flops"], params["bandwidth"])
    return [Case(name="the twelve", args=(0, shown_twelve)), generality("", 0, "other work", [*others, *more])]


JUDGING = Judging(
    shares={"values:roof": 0.2, "values:bound": 0.25, "generality:roof": 0.3, "generality:bound": 0.25},
    cases=_roof_cases,
    verdicts=table(
        (
            Column(
                "roof", "FLOP/s", words=_work_words, hint="Which of the three is busy the longest, and for how long?"
            ),
            Word("bound", PARTS, words=_work_words),
        ),
        right=right,
    ),
    why="Each resource is busy for its amount divided by its rate. With perfect overlap the longest of the three is "
    "the time of the step, and FLOP divided by that time is the attainable rate. Arithmetic limits a layer inside "
    "a server and the network limits the same layer across servers, at the same memory intensity; a single x axis "
    "cannot show that. More tokens per device move a step with a gradient sum away from the network roof; a layer "
    "split over servers stays under it with any number of tokens.",
    pytorch="`torch.profiler` shows the three as busy time of compute kernels, memory-bound kernels and "
    "communication kernels.",
)

ANSWERS = r'''# %% right: worked
kind = params("network-roof").network_kind  # leave as is: what `network` counts: "one way" or "both ways"


def three_roofs(
    flop: float, memory_bytes: float, network_bytes: float, flops: float, bandwidth: float, network: float
) -> tuple[float, str]:
    """The highest FLOP/s that the work can reach, and its roof: "compute", "memory" or "network"."""
    one_way = network if kind == "one way" else network / 2
    busy = {"compute": flop / flops, "memory": memory_bytes / bandwidth, "network": network_bytes / one_way}
    bound = max(busy, key=busy.get)
    return flop / busy[bound], bound
# %% right: three roofs, the lowest
# -     bound = max(busy, key=busy.get)
# -     return flop / busy[bound], bound
# +     roofs = [(flop / each if each else math.inf, name.upper()) for name, each in busy.items()]
# +     return list(min(roofs))
# %% wrong: no network => values
# > the bytes sent need a third roof.
# ~ "network": network_bytes / one_way ==> "network": 0.0
# %% wrong: wire at memory speed => values
# > the bytes sent go over the wire, not through the memory.
# ~ network_bytes / one_way ==> network_bytes / bandwidth
# %% wrong: one intensity => values
# > the wire carries the bytes sent, not the memory's bytes.
# ~ network_bytes / one_way ==> memory_bytes / one_way
# %% wrong: other direction => values
# > the bytes go one way, and the wire's rate counts {{network_kind}}.
# ~ network if kind == "one way" else network / 2 ==> network if kind != "one way" else network / 2
# %% wrong: sum of bytes => values
# > this adds memory bytes and sent bytes; each kind has its own rate.
# ~ memory_bytes / bandwidth, "network": network_bytes / one_way
# ~~ ==> (memory_bytes + network_bytes) / bandwidth, "network": 0.0
# %% wrong: sent bytes in memory too => generality sum-of-bytes
# ~ memory_bytes / bandwidth, ==> (memory_bytes + network_bytes) / bandwidth,
# %% wrong: first roof below the peak => generality
# > two roofs can lie below the peak; the lowest binds.
# ~ max(busy, key=busy.get)
# ~~ ==> next((part for part in ("network", "memory") if busy[part] > busy["compute"]), "compute")
# %% wrong: memory before network => generality first-roof-below-the-peak
# ~ max(busy, key=busy.get)
# ~~ ==> next((part for part in ("memory", "network") if busy[part] > busy["compute"]), "compute")
# %% wrong: sum of times => values
# > everything overlaps here.
# ~ flop / busy[bound] ==> flop / sum(busy.values())
# %% wrong: the peak => values
# > this is the peak; the work does not reach it.
# ~ flop / busy[bound], bound ==> flops, "compute"
# %% wrong: seconds => values
# > these are seconds; give FLOP/s.
# ~ flop / busy[bound] ==> busy[bound]
# %% wrong: highest roof => values
# > the lowest binds.
# ~ max(busy, key=busy.get) ==> min(filter(busy.get, busy), key=busy.get)
# %% wrong: names of its own => values no-such-word
# ~ "memory": memory_bytes / bandwidth, "network" ==> "HBM": memory_bytes / bandwidth, "NIC"
# %% wrong: one H100 by heart => values -
# ~ flop / flops, "memory": memory_bytes / bandwidth ==> flop / 989e12, "memory": memory_bytes / 3.35e12
# %% wrong: stumbles over nothing sent => raised
# ~ network_bytes / one_way ==> 1 / (one_way / network_bytes)
# %% half: the names only => 3.75
# ~ return flop / busy[bound], bound ==> return 0.0, bound
'''
