"""Judge of network-roof: the third roof."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from course_lib import facts
from course_lib.exercises.ch03.judges.shared import MEMORIES, PEAKS
from course_lib.exercises.ch03.network_roof import twelve
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.columns import Column, Word, table
from course_lib.judging.draws import generality, log_uniform, one_apart
from course_lib.records import Case
from course_lib.units import bytes_text, flops_text

WIRES = (1e9, 12.5e9, 25e9, 50e9, 64e9, 300e9, 450e9, 900e9)

Times = dict[str, float]


def roofs(kind: str, flop: float, memory: float, sent: float, flops: float, bandwidth: float, network: float) -> Times:
    """Seconds that each of the three parts is busy."""
    wire = network / (2 if kind == "both ways" else 1)
    return {"compute": flop / flops, "memory": memory / bandwidth, "network": sent / wire}


def _work_words(flop: float, memory: float, sent: float, *_: float) -> str:
    return f"{flops_text(flop)}, {bytes_text(memory)} through memory, {bytes_text(sent)} sent"


def _roof_columns(kind: str) -> tuple[Column, Word]:
    other, direction = {
        "both ways": ("one way", "the wire's rate has both directions added; the bytes go one way."),
        "one way": ("both ways", "the wire's rate is one direction already; do not halve it."),
    }[kind]

    def times(*row: float) -> Times:
        return roofs(kind, *row)

    def at_memory_speed(flop: float, memory: float, sent: float, f: float, b: float, w: float) -> Times:
        return {**times(flop, memory, sent, f, b, w), "network": sent / b}

    def one_intensity(flop: float, memory: float, sent: float, *rates: float) -> Times:
        return times(flop, memory, memory if sent else 0.0, *rates)

    def sum_of_bytes(flop: float, memory: float, sent: float, f: float, b: float, w: float) -> Times:
        return {"compute": flop / f, "memory": (memory + sent) / b, "network": 0.0}

    def rate(of: Callable[..., Times]) -> Callable[..., float]:
        return lambda *row: row[0] / max(of(*row).values())

    def bound(of: Callable[..., Times]) -> Callable[..., str]:
        return lambda *row: max(busy := of(*row), key=busy.__getitem__)

    wrong_times = (
        Mistake("no-network", lambda *row: {**times(*row), "network": 0.0}, "the bytes sent need a third roof."),
        Mistake("wire-at-memory-speed", at_memory_speed, "the bytes sent go over the wire, not through the memory."),
        Mistake("one-intensity", one_intensity, "the wire carries the bytes sent, not the memory's bytes."),
        Mistake("other-direction", lambda *row: roofs(other, *row), direction),
        Mistake("sum-of-bytes", sum_of_bytes, "this adds memory bytes and sent bytes; each kind has its own rate."),
    )
    return (
        Column(
            part="roof",
            unit="FLOP/s",
            want=rate(times),
            words=_work_words,
            hint="Which of the three is busy the longest, and for how long?",
            mistakes=(
                *(Mistake(wrong.name, rate(wrong.value), wrong.message) for wrong in wrong_times),
                Mistake("sum-of-times", lambda *row: row[0] / sum(times(*row).values()), "everything overlaps here."),
                Mistake("the-peak", lambda *row: row[3], "this is the peak; the work does not reach it."),
                Mistake("seconds", lambda *row: max(times(*row).values()), "these are seconds; give FLOP/s."),
                Mistake(
                    "highest-roof", lambda *row: row[0] / min(filter(None, times(*row).values())), "the lowest binds."
                ),
            ),
        ),
        Word(
            part="bound",
            choices=("compute", "memory", "network"),
            want=bound(times),
            words=_work_words,
            mistakes=[Mistake(wrong.name, bound(wrong.value), wrong.message) for wrong in wrong_times],
        ),
    )


def _roof_rows(kind: str, rng: random.Random, bound: str, count: int) -> list[tuple[float, ...]]:
    """Random work that the part `bound` clearly limits."""
    rows: list[tuple[float, ...]] = []
    for _ in range(count):
        f, b, w = rng.choice(PEAKS), rng.choice(MEMORIES), rng.choice(WIRES)
        longest = log_uniform(rng, 1e-6, 1e2)
        times = {name: longest * rng.uniform(0.05, 0.9) for name in ("compute", "memory", "network")}
        times[bound] = longest
        if bound != "network" and rng.random() < 0.3:
            times["network"] = 0.0
        one_way = w / (2 if kind == "both ways" else 1)
        amounts = (times["compute"] * f, times["memory"] * b, times["network"] * one_way)
        rows.append((*(float(f"{amount:.4g}") for amount in amounts), f, b, w))
    return rows


def roof_and_bound(kind: str, *row: float) -> tuple[float, str]:
    """FLOP/s that the work can reach, and the part that limits it."""
    busy = roofs(kind, *row)
    return row[0] / max(busy.values()), max(busy, key=busy.__getitem__)


def _clear(busy: Times) -> bool:
    """Whether one part is clearly the busiest."""
    *_, second, longest = sorted(busy.values())
    return longest > 1.02 * second


def _roof_cases(params: Params, rng: random.Random) -> list[Case]:
    kind = params["network_kind"]

    def rows(cases: Any, flops: float, bandwidth: float, directions: int = 1) -> list[tuple[float, ...]]:
        keys = ("flop", "memory_bytes", "network_bytes")
        return [(*(case[key] for key in keys), flops, bandwidth, case["network"] * directions) for case in cases]

    others = [row for bound in ("compute", "memory", "network") for row in _roof_rows(kind, rng, bound, 20)]
    others += one_apart(others, partial(roof_and_bound, kind), lambda *row: _clear(roofs(kind, *row)))
    chosen = facts.device(rng.choice(("H100 SXM", "B200 SXM")))
    directions = 2 if kind == "both ways" else 1
    more = rows(twelve(chosen.name), float(chosen.dense_flops), float(chosen.bandwidth), directions)
    others += [(work * 1e15, (1.9 - work) * 3e12, 0.0, 1e15, 3e12, 5e10) for work in (1.0, 0.9)]  # nothing sent
    rng.shuffle(others)
    shown_twelve = rows(params["cases"], params["flops"], params["bandwidth"])
    return [Case(name="the twelve", args=(0, shown_twelve)), generality("", 0, "other work", [*others, *more])]


JUDGING = Judging(
    shares={"values:roof": 0.2, "values:bound": 0.25, "generality:roof": 0.3, "generality:bound": 0.25},
    cases=_roof_cases,
    verdicts=lambda params, *given: table(_roof_columns(params["network_kind"]))(params, *given),
    why="Each resource is busy for its amount divided by its rate. With perfect overlap the longest of the three is the time of "
    "the step, and FLOP divided by that time is the attainable rate. Arithmetic limits a layer inside a server and the network limits "
    "the same layer across servers, at the same memory intensity; a single x axis cannot show that. More tokens per device move "
    "a step with a gradient sum away from the network roof; a layer split over servers stays under it with any number of tokens.",
    pytorch="`torch.profiler` shows the three as busy time of compute kernels, memory-bound kernels and communication kernels.",
)

ANSWERS = r"""# %% right: three times, the longest
def three_roofs(flop, memory_bytes, network_bytes, flops, bandwidth, network):
    times = {"compute": flop / flops, "memory": memory_bytes / bandwidth, "network": network_bytes / network}
    bound = max(times, key=times.get)
    return flop / times[bound], bound


# %% right: three roofs, the lowest
import math


def three_roofs(flop, memory_bytes, network_bytes, flops, bandwidth, network):
    roofs = [
        (flops, "compute"),
        (bandwidth * flop / memory_bytes, "memory"),
        (network * flop / network_bytes if network_bytes else math.inf, "network"),
    ]
    return list(min(roofs))


# %% right: any variant  from: three times, the longest
# - def three_roofs(flop, memory_bytes, network_bytes, flops, bandwidth, network):
# + from course_lib import params
# + WAYS = 2 if params("network-roof").network_kind == "both ways" else 1
# + def three_roofs(flop, memory_bytes, network_bytes, flops, bandwidth, network):
# ~ : network_bytes ==> : WAYS * network_bytes

# %% wrong: sends through the memory => values no-network  from: three times, the longest
# ~ network} ==> bandwidth}

# %% wrong: one intensity for both => values one-intensity  from: three roofs, the lowest
# ~ network * flop / network_bytes ==> network * flop / memory_bytes

# %% wrong: halves a one-way wire => values other-direction unless network_kind=both ways  from: three times, the longest
# ~ : network_bytes ==> : 2 * network_bytes

# %% wrong: nothing overlaps => values sum-of-times  from: three times, the longest
# ~ return flop / times[bound], bound ==> return flop / sum(times.values()), bound

# %% wrong: the peak => values the-peak  from: three times, the longest
# ~ flop / times[bound], bound ==> flops, "compute"

# %% wrong: names of its own => values no-such-word  from: three times, the longest
# -     times = {"compute": flop / flops, "memory": memory_bytes / bandwidth, "network": network_bytes / network}
# +     times = {"FLOPs": flop / flops, "HBM": memory_bytes / bandwidth, "NIC": network_bytes / network}

# %% wrong: the highest roof => values -  from: three times, the longest
# ~ max(times, key=times.get) ==> min(filter(times.get, times), key=times.get)

# %% wrong: the seconds => values seconds  from: three times, the longest
# ~ flop / times ==> times

# %% wrong: one H100 by heart => values -  from: three times, the longest
# ~ flop / flops, "memory": memory_bytes / bandwidth ==> flop / 989e12, "memory": memory_bytes / 3.35e12

# %% wrong: stumbles over nothing sent => raised  from: three times, the longest
# ~ network_bytes / network} ==> 1 / (network / network_bytes)}

# %% half: the names only => 3.75  from: three times, the longest
# ~ return flop / times[bound], bound ==> return 0.0, bound
"""
