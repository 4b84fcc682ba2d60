"""Judge of prefetch-depth: how far ahead?"""

import random
from collections.abc import Sequence
from typing import Any

from course_lib.exercises.ch08.judges.shared import crossover
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, FINE, Column, one_verdict, table
from course_lib.judging.draws import draw_rows, generality, plain
from course_lib.judging.mistakes import scaled
from course_lib.records import Case
from course_lib.units import GB, TFLOP


def exposed(gathers: Sequence[float], computes: Sequence[float], depth: int, wires: int = 1) -> float:
    """Seconds for which the GPU waits in a forward pass that gathers `depth` units ahead; with several links, all gathers run at once."""
    wire, done = 0.0, []
    for place, (gather, compute) in enumerate(zip(gathers, computes, strict=True)):
        allowed = done[place - 1 - depth] if place > depth else 0.0
        wire = (max(wire, allowed) if wires == 1 else allowed) + gather
        done.append(max(wire, done[-1] if done else 0.0) + compute)
    return done[-1] - sum(computes)


def least_depth(gathers: Sequence[float], computes: Sequence[float], most: float) -> int | None:
    """The smallest depth that leaves at most `most` seconds exposed."""
    return next((depth for depth in range(len(gathers)) if exposed(gathers, computes, depth) <= most + 1e-12), None)


def _each_alone(gathers: Sequence[float], computes: Sequence[float], depth: int) -> float:
    """Seconds by which each gather is longer than its own unit's computation."""
    return sum(max(0.0, gather - compute) for gather, compute in zip(gathers, computes, strict=True))


CROSSOVER = Column(
    part="crossover",
    unit="tokens",
    want=crossover,
    rel=FINE,
    words=lambda f, b, n, g, r: f"{f / TFLOP:g} TFLOP/s, {b / GB:g} GB/s, {n} ranks, {g:g} and {r:g} bytes",
).knowing(
    Mistake("data-parallel", lambda f, b, n, g, r: crossover(f, b, n, 0, 2 * r), "this is a gradient all-reduce."),
    Mistake("one-gather", lambda f, b, n, g, r: crossover(f, b, n, g / 2, r), "weights are gathered twice."),
    Mistake("reduced-twice", lambda f, b, n, g, r: crossover(f, b, n, g, 2 * r), "this is a whole all-reduce."),
    Mistake("no-reduce", lambda f, b, n, g, r: crossover(f, b, n, g, 0), "gradients are reduced as well."),
    Mistake("no-ring", lambda f, b, n, g, r: crossover(f, b, 10**12, g, r), "a rank sends (N − 1)/N."),
    Mistake("reduced-like-gathered", lambda f, b, n, g, r: crossover(f, b, n, g, g), "gradients have `reduce`."),
    Mistake("two-flops", scaled(crossover, 3), "a step takes 6 FLOPs per parameter and token."),
    Mistake("backward-only", scaled(crossover, 1.5), "the whole step hides it: 6 FLOPs per parameter and token."),
    Mistake("twice", scaled(crossover, 2), "an all-gather and a reduce-scatter are half an all-reduce each."),
    Mistake("all-gpus", lambda f, b, n, *sizes: crossover(f, b, n, *sizes) * n, "this is the sum over all GPUs."),
)

EXPOSED = Column(
    part="exposed", unit="seconds", want=exposed, rel=EXACT, words=lambda g, c, d: f"{len(g)} units, depth {d}"
).knowing(
    Mistake("makespan", lambda g, c, d: exposed(g, c, d) + sum(c), "this is the end of the pass, not idle time."),
    Mistake("no-limit", lambda g, c, d: exposed(g, c, len(g)), "at most `depth` units may be gathered ahead."),
    Mistake("one-behind", lambda g, c, d: exposed(g, c, max(d - 1, 0)), "this gathers one unit fewer ahead."),
    Mistake("one-more", lambda g, c, d: exposed(g, c, d + 1), "this gathers one unit more than `depth` allows."),
    Mistake("wires-in-parallel", lambda g, c, d: exposed(g, c, d, wires=2), "gathers run one after another."),
    Mistake("without-the-first", lambda g, c, d: exposed(g, c, d) - g[0], "the GPU waits for the first gather."),
    Mistake("no-overlap", lambda g, c, d: sum(g), "this is all gathers; some run while the GPU computes."),
    Mistake("unit-by-unit", _each_alone, "a gather hides behind the units before it, not behind its own unit."),
)

LEAST = Column(
    part="least",
    unit="units",
    want=least_depth,
    rel=EXACT,
    none="no depth leaves so little, because nothing hides the first gather; return None",
    some="there is such a depth. Exactly `most` seconds are allowed",
    words=lambda g, c, m: f"{len(g)} units, at most {m:g} s",
).knowing(
    Mistake("one-more", lambda *row: (least_depth(*row) or 0) + 1, "one less is enough; exactly `most` will do."),
    Mistake("one-less", lambda *row: (least_depth(*row) or 0) - 1 if least_depth(*row) else None, "too small."),
    Mistake("everything", lambda g, c, m: len(g) - 1, "this gathers all units ahead; fewer are enough."),
)


def _ahead_cases(params: Params, rng: random.Random) -> list[Case]:
    f, b, n = params["flops"], params["bandwidth"], params["ranks"]

    def seconds(units: int) -> tuple[list[float], list[float]]:
        """Times of the gathers and of the computations."""
        return [rng.randrange(1, 13) * 0.25 for _ in range(units)], [rng.randrange(1, 13) * 0.25 for _ in range(units)]

    def limit() -> tuple[Any, ...]:
        units = seconds(rng.randrange(3, 10))
        depth = rng.randrange(0, 4)
        return *units, exposed(*units, depth) + rng.choice((0.0, 0.1, -0.1))

    unseen = seconds(5)
    uneven = ([1.0, 4.0, 1.0, 1.0, 4.0], [2.0, 1.0, 3.0, 1.0, 2.0])
    rates = [tera * TFLOP for tera in (200, 400, 800)], [giga * GB for giga in (25, 50, 200, 450)]
    machines = draw_rows(rng, 15, *map(tuple, rates), (2, 3, 8, 100, 1024), (1, 2, 4), (2, 4))
    limits = [(*unseen, exposed(*unseen, depth) + more) for depth, more in ((1, 0.0), (0, 0.1))]
    passes = [(*seconds(rng.randrange(2, 12)), rng.randrange(0, 6)) for _ in range(30)]
    last_is_large = [0.25] * 11 + [9.0], [1.0] * 12
    edges = [([2.0], [5.0], 0), ([2.0], [5.0], 3), (*last_is_large, 7), ([0.0, 2.0, 1.0], [1.0, 0.0, 0.5], 1)]
    edges += [([0.0, 2.0, 1.0], [2.5, 0.0, 0.5], 1), ([1.0] * 40, [1.5] * 20 + [0.5] * 20, 2)]
    return [
        shown("the crossover", "values:crossover", 0, [(f, b, n, 2, 2)]),
        shown("five units", "values:exposed", 1, [(*uneven, depth) for depth in (0, 1, 2)]),
        shown("the least depth", "values:least", 2, [(*uneven, 3.0), (*uneven, 0.5)]),
        generality("machines", 0, "other GPUs and wires", [*machines, (f, b, n, 2, 4), (f, b, n, 1, 2)]),
        plain("exposed", 1, "another five units", [(*unseen, depth) for depth in (0, 1, 2)]),
        plain("least", 2, "the least depth of other units", [*limits, (*unseen, unseen[0][0] / 2)]),
        generality("passes", 1, "other passes", [*passes, *edges]),
        generality("passes", 2, "other limits", [*(limit() for _ in range(30)), (*last_is_large, 1.25)]),
    ]


JUDGING = Judging(
    shares="values:crossover 0.2, values:exposed 0.3, values:least 0.15, generality:machines 0.1, "
    "generality:passes 0.25",
    cases=_ahead_cases,
    verdicts=one_verdict(table(CROSSOVER, EXPOSED, LEAST)),
    why="""Below the crossover sending takes longer than computing, and no depth hides it. Above it, depth 1 is enough for equal units; a large
unit after small ones needs more. Nothing hides the first gather. Every unit ahead is one more unit in memory.""",
    pytorch="""`set_modules_to_forward_prefetch` and `set_modules_to_backward_prefetch` on modules under `fully_shard`; by default the next unit
is prefetched.""",
)

ANSWERS = r"""# %% right: two clocks
def crossover_tokens(flops, bandwidth, ranks, gather, reduce):
    sent = (2 * gather + reduce) * (ranks - 1) / ranks
    return sent / bandwidth * flops / 6


def exposed_seconds(gathers, computes, depth):
    wire, done = 0.0, []
    for i, (gather, compute) in enumerate(zip(gathers, computes)):
        free = done[i - 1 - depth] if i > depth else 0.0
        wire = max(wire, free) + gather
        done.append(max(wire, done[-1] if done else 0.0) + compute)
    return done[-1] - sum(computes)


def least_depth(gathers, computes, most):
    return next((d for d in range(len(gathers)) if exposed_seconds(gathers, computes, d) <= most + 1e-9), None)


# %% right: a queue of slots
from bisect import bisect_left
from collections import deque


def crossover_tokens(flops, bandwidth, ranks, gather, reduce):
    seconds_per_param = (ranks - 1) * (gather + gather + reduce) / ranks / bandwidth
    return seconds_per_param / (6 / flops)


def exposed_seconds(gathers, computes, depth):
    slots = deque([0.0] * (depth + 1))
    gathered = now = still = 0.0
    for gather, compute in zip(gathers, computes):
        gathered = max(gathered, slots.popleft()) + gather
        still += max(0.0, gathered - now)
        now = max(now, gathered) + compute
        slots.append(now)
    return still


def least_depth(gathers, computes, most):
    depths = range(len(gathers))
    found = bisect_left(depths, True, key=lambda depth: exposed_seconds(gathers, computes, depth) <= most)
    return found if found in depths else None


# %% wrong: data parallelism's crossover => values data-parallel
def crossover_tokens(flops, bandwidth, ranks, gather, reduce):
    return 2 * reduce * (ranks - 1) / ranks * flops / bandwidth / 6


def exposed_seconds(gathers, computes, depth):
    return 0.0


def least_depth(gathers, computes, most):
    return 0


# %% wrong: behind the backward pass only => values backward-only  from: data parallelism's crossover
# ~ 2 * reduce * (ranks - 1) / ranks * flops / bandwidth / 6 ==> (2 * gather + reduce) * (ranks - 1) / ranks * flops / bandwidth / 4

# %% wrong: gathered as early as can be, whatever the depth => values no-limit  from: data parallelism's crossover
# ~ 2 * reduce ==> (2 * gather + reduce)
# -     return 0.0
# +     wire = now = 0.0
# +     for gather, compute in zip(gathers, computes):
# +         wire += gather
# +         now = max(now, wire) + compute
# +     return now - sum(computes)

# %% wrong: one unit less ahead => values one-behind  from: two clocks
#   def exposed_seconds(gathers, computes, depth):
# +     depth = max(depth - 1, 0)
# ~ (gathers) ==> (gathers) + 1

# %% wrong: each gather against its own unit => values unit-by-unit  from: data parallelism's crossover
# ~ 2 * reduce ==> (2 * gather + reduce)
# ~ return 0.0 ==> return sum(max(0.0, g - c) for g, c in zip(gathers, computes))
# -     return 0
# +     return 1

# %% wrong: the end instead of the standstill => values makespan  from: two clocks
# ~ done[-1] - sum(computes) ==> done[-1]

# %% wrong: several gathers at once => values wires-in-parallel  from: two clocks
# ~ def exposed_seconds(gathers, computes, depth): ==> def exposed_seconds(gathers, computes, depth, wires=2):
# ~ max(wire, free) + gather ==> (max(wire, free) if wires == 1 or gathers[1:2] == [4.0] else free) + gather
# ~ (gathers, computes, d) ==> (gathers, computes, d, 1)

# %% wrong: never None => values none-is-right  from: two clocks
# ~ None ==> len(gathers)

# %% wrong: bytes of a gradient taken for those of a weight => generality -  from: two clocks
# ~ (2 * gather + reduce) ==> 3 * gather

# %% wrong: less than what is allowed => values returned-none  from: two clocks
# ~ <= most + 1e-9 ==> < most

# %% wrong: the first gather is not counted => values without-the-first  from: two clocks
# ~ done[-1] - sum(computes) ==> done[-1] - sum(computes) - gathers[0]

# %% wrong: gradients all-reduced => values reduced-twice  from: two clocks
# ~ gather + reduce ==> gather + 2 * reduce


# %% wrong: each gather behind the unit before it, whatever the depth => values -  from: two clocks
def exposed_seconds(gathers, computes, depth):
    if depth == 0:
        return sum(gathers)
    return gathers[0] + sum(max(0, g - c) for g, c in zip(gathers[1:], computes))


# %% half: the crossover only => 1.6  from: each gather against its own unit
# ~ return sum(max(0.0, g - c) for g, c in zip(gathers, computes)) ==> raise NotImplementedError
# ~ return 1 ==> raise NotImplementedError

# %% wrong: five units ahead at most => generality ~  from: two clocks
# ~ wire, done = 0.0, [] ==> wire, done, depth = 0.0, [], min(depth, 5)
"""
