from course_grader.judging import Case, Judging, Params, Random, Worked, draw_rows, generality, plain, shown
from course_grader.judging.per_row import EXACT, FINE, Column, one_verdict, table
from course_lib.estimate.units import GB, TFLOP

right = Worked("prefetch-depth")
CROSSOVER = Column("crossover", "tokens", words=right.words(0), rel=FINE)
EXPOSED = Column("exposed", "seconds", rel=EXACT, words=lambda g, c, d: f"{len(g)} units, depth {d}")
NONE = "no depth leaves so little, because nothing hides the first gather; return None"
SOME = "there is such a depth. Exactly `most` seconds are allowed"
LEAST = Column(
    "least", "units", rel=EXACT, none=NONE, some=SOME, words=lambda g, c, m: f"{len(g)} units, at most {m:g} s"
)


def _cases(params: Params, rng: Random) -> list[Case]:
    f, b, n = params["flops"], params["bandwidth"], params["ranks"]

    def seconds(units: int) -> tuple[list[float], list[float]]:
        return [rng.randrange(1, 13) * 0.25 for _ in range(units)], [rng.randrange(1, 13) * 0.25 for _ in range(units)]

    def limit() -> tuple[object, ...]:
        units = seconds(rng.randrange(3, 10))
        depth = rng.randrange(0, 4)
        return *units, right[1](*units, depth) + rng.choice((0.0, 0.1, -0.1))

    unseen = seconds(5)
    uneven = ([1.0, 4.0, 1.0, 1.0, 4.0], [2.0, 1.0, 3.0, 1.0, 2.0])
    rates = [tera * TFLOP for tera in (200, 400, 800)], [giga * GB for giga in (25, 50, 200, 450)]
    machines = draw_rows(rng, 15, *map(tuple, rates), (2, 3, 8, 100, 1024), (1, 2, 4), (2, 4))
    limits = [(*unseen, right[1](*unseen, depth) + more) for depth, more in ((1, 0.0), (0, 0.1))]
    passes = [(*seconds(rng.randrange(2, 12)), rng.randrange(0, 6)) for _ in range(30)]
    last_is_large = [0.25] * 11 + [9.0], [1.0] * 12
    edges = [([2.0], [5.0], 0), ([2.0], [5.0], 3), (*last_is_large, 7), ([0.0, 2.0, 1.0], [1.0, 0.0, 0.5], 1)]
    slower = [(uneven[0], [9.0] * 5, most) for most in (3.0, 0.5)]
    slower += [([1.0, 1.0], [3.0, 1.0], 1.0)]  # only the largest depth will do
    edges += [([0.0, 2.0, 1.0], [2.5, 0.0, 0.5], 1), ([1.0] * 40, [1.5] * 20 + [0.5] * 20, 2)]
    return [
        shown("the crossover", "values:crossover", 0, [(f, b, n, 2, 2)]),
        shown("five units", "values:exposed", 1, [(*uneven, depth) for depth in (0, 1, 2)]),
        shown("the least depth", "values:least", 2, [(*uneven, 3.0), (*uneven, 0.5)]),
        generality("machines", 0, "other GPUs and wires", [*machines, (f, b, n, 2, 4), (f, b, n, 1, 2)]),
        plain("exposed", 1, "another five units", [(*unseen, depth) for depth in (0, 1, 2)]),
        plain("least", 2, "the least depth of other units", [*limits, (*unseen, unseen[0][0] / 2)]),
        generality("passes", 1, "other passes", [*passes, *edges]),
        generality("passes", 2, "other limits", [*(limit() for _ in range(30)), (*last_is_large, 1.25), *slower]),
    ]


JUDGING = Judging(
    shares="values:crossover 0.2, values:exposed 0.3, values:least 0.15, generality:machines 0.1, "
    "generality:passes 0.25",
    cases=_cases,
    verdicts=one_verdict(table(CROSSOVER, EXPOSED, LEAST, right=right)),
    why="""Below the crossover sending takes longer than computing, and no depth hides it. Above it, depth 1 is enough
for equal units; a large unit after small ones needs more. Nothing hides the first gather. Every unit ahead is one more
unit in memory.""",
    pytorch="""`set_modules_to_forward_prefetch` and `set_modules_to_backward_prefetch` on modules under `fully_shard`;
by default the next unit is prefetched.""",
)

ANSWERS = r'''# %% right: worked
def crossover_tokens(flops: float, bandwidth: float, ranks: int, gather: int, reduce: int) -> float:
    """Tokens per GPU and step at which communication takes as long as computing."""
    sent = (2 * gather + reduce) * (ranks - 1) / ranks  # bytes per parameter
    return sent / bandwidth * flops / 6


def exposed_seconds(gathers: list[float], computes: list[float], depth: int) -> float:
    """Seconds for which the GPU waits in a forward pass."""
    wire, done = 0.0, []
    for i, (gather, compute) in enumerate(zip(gathers, computes, strict=True)):
        wire = max(wire, done[i - 1 - depth] if i > depth else 0.0) + gather
        done.append(max(wire, done[-1] if done else 0.0) + compute)
    return done[-1] - sum(computes)


def least_depth(gathers: list[float], computes: list[float], most: float) -> int | None:
    """The smallest depth that leaves at most `most` seconds exposed; None if none does."""
    depths = range(len(gathers))
    return next((d for d in depths if exposed_seconds(gathers, computes, d) <= most + 1e-9), None)
# %% right: a queue of slots  from: worked
from collections import deque


def exposed_seconds(gathers, computes, depth):
    slots = deque([0.0] * (depth + 1))
    gathered = now = still = 0.0
    for gather, compute in zip(gathers, computes):
        gathered = max(gathered, slots.popleft()) + gather
        still += max(0.0, gathered - now)
        now = max(now, gathered) + compute
        slots.append(now)
    return still
# %% wrong: data parallelism's crossover => values data-parallel
# > this is a gradient all-reduce.
# ~ (2 * gather + reduce) ==> 2 * reduce
# %% wrong: one gather => values
# > weights are gathered twice.
# ~ (2 * gather + reduce) ==> (gather + reduce)
# %% wrong: gradients all-reduced => values reduced-twice
# > this is a whole all-reduce of the gradients; a reduce-scatter is half of it.
# ~ gather + reduce ==> gather + 2 * reduce
# %% wrong: no reduce => values
# > gradients are reduced as well.
# ~ (2 * gather + reduce) ==> 2 * gather
# %% wrong: no ring => values
# > a rank sends (N − 1)/N.
# ~ * (ranks - 1) / ranks ==>
# %% wrong: bytes of a gradient taken for those of a weight => generality reduced-like-gathered
# > gradients have `reduce` bytes.
# ~ (2 * gather + reduce) ==> 3 * gather
# %% wrong: two flops => values
# > a step takes 6 FLOPs per parameter and token.
# ~ flops / 6 ==> flops / 2
# %% wrong: behind the backward pass only => values backward-only
# > the whole step hides it: 6 FLOPs per parameter and token.
# ~ flops / 6 ==> flops / 4
# %% wrong: twice => values
# > an all-gather and a reduce-scatter are half an all-reduce each.
# ~ sent / bandwidth ==> 2 * sent / bandwidth
# %% wrong: all GPUs => values all-gpus
# > this is the sum over all GPUs.
# ~ sent / bandwidth ==> ranks * sent / bandwidth
# %% wrong: the end instead of the standstill => values makespan
# > this is the end of the pass, not idle time.
# ~ done[-1] - sum(computes) ==> done[-1]
# %% wrong: gathered as early as can be, whatever the depth => values no-limit
# > at most `depth` units may be gathered ahead.
# ~ done[i - 1 - depth] if i > depth else 0.0 ==> 0.0
# %% wrong: one unit less ahead => values one-behind
# > this gathers one unit fewer ahead.
# ~ wire, done = 0.0, [] ==> wire, done, depth = 0.0, [], max(depth - 1, 0)
# %% wrong: one unit more ahead => values one-ahead
# > this gathers one unit more than `depth` allows.
# ~ wire, done = 0.0, [] ==> wire, done, depth = 0.0, [], depth + 1
# %% wrong: several gathers at once => values wires-in-parallel
# > gathers run one after another.
# ~ max(wire, done[i - 1 - depth] if i > depth else 0.0) ==> (done[i - 1 - depth] if i > depth else 0.0)
# %% wrong: the first gather is not counted => values without-the-first
# > the GPU waits for the first gather.
# ~ done[-1] - sum(computes) ==> done[-1] - sum(computes) - gathers[0]
# %% wrong: no overlap => values
# > this is all gathers; some run while the GPU computes.
# ~ done[-1] - sum(computes) ==> sum(gathers)
# %% wrong: each gather against its own unit => values unit-by-unit
# > a gather hides behind the units before it, not behind its own unit.
# ~ done[-1] - sum(computes) ==> sum(max(0.0, g - c) for g, c in zip(gathers, computes))
# %% wrong: each gather behind the unit before it, whatever the depth => values unit-before-only
# > each gather hides behind the one unit before it, whatever the depth is.
# ~ done[-1] - sum(computes)
# ~~ ==> gathers[0] + sum(max(0, g - c) for g, c in zip(gathers[1:], computes)) if depth else sum(gathers)
# %% wrong: one more => values
# > one less is enough; exactly `most` will do.
# ~ (d for d in depths ==> (d + 1 for d in depths
# %% wrong: one less => values
# > this depth leaves more than `most` seconds exposed.
# ~ (d for d in depths ==> (d - 1 for d in depths
# %% wrong: everything => values
# > this gathers all units ahead; fewer are enough.
# ~ depths = range(len(gathers)) ==> return len(gathers) - 1
# %% wrong: never None => values none-is-right
# ~ most + 1e-9), None) ==> most + 1e-9), len(gathers))
# %% wrong: less than what is allowed => values
# > exactly `most` seconds are allowed, and this asks for less.
# ~ <= most + 1e-9 ==> < most
# %% half: the crossover only => 1.6
# ~ wire, done = 0.0, [] ==> raise NotImplementedError
# %% wrong: five units ahead at most => generality ~
# ~ wire, done = 0.0, [] ==> wire, done, depth = 0.0, [], min(depth, 5)
'''
