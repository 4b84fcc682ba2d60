"""Judges of chapter 08 on times: gathers hidden by prefetch, the link to the host, and a step over all GPUs."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from course_lib.judging import Judging, Mistake, Params, prediction
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, FINE, Column, one_verdict, table
from course_lib.judging.draws import draw_rows, generality, plain
from course_lib.judging.mistakes import scaled
from course_lib.records import Case
from course_lib.sharding import bytes_per_param_sent
from course_lib.units import BILLION, GB, TFLOP, bytes_text, duration_text

# --- prefetch


def crossover(flops: float, bandwidth: float, ranks: int, gather: float, reduce: float) -> float:
    """Tokens per GPU at which sending takes as long as computing."""
    return (2 * gather + reduce) * (ranks - 1) / ranks * flops / bandwidth / 6


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


# --- the link to the host


def step_seconds(params: float, tokens: float, ranks: int, flops: float, moved: float, bandwidth: float) -> float:
    """Seconds of a step that computes and transfers at the same time."""
    return max(6 * params * tokens / flops, params / ranks * moved / bandwidth)


def hidden_tokens(ranks: int, flops: float, moved: float, bandwidth: float) -> float:
    """Tokens per GPU above which computing takes longer than the transfer."""
    return moved * flops / (6 * ranks * bandwidth)


def _step(combine: Callable[..., float], computed: float = 1.0, moved: float = 1.0) -> Callable[..., float]:
    """The step from its two times, each multiplied by a factor."""

    def value(p: float, t: float, n: int, f: float, m: float, b: float) -> float:
        return combine(computed * 6 * p * t / f, moved * p / n * m / b)

    return value


NO_WORK = "sharding divides no work."
SIX_FLOPS = "forward and backward together take 6 FLOPs per parameter and token."

STEP = Column(
    part="step",
    unit="seconds",
    want=step_seconds,
    rel=FINE,
    words=lambda p, t, n, f, m, b: f"{p / BILLION:g}B, {t:,} tokens, {n} ranks, {m:g} bytes at {b / GB:g} GB/s",
).knowing(
    Mistake("compute-divided", lambda p, t, n, *rest: step_seconds(p, t / n, n, *rest), NO_WORK),
    Mistake("sum", _step(lambda *both: sum(both)), "both run at the same time; the longer one counts."),
    Mistake("compute-only", _step(max, moved=0), "the transfer takes longer than computing."),
    Mistake("wire-only", _step(max, computed=0), "computing takes longer than the transfer."),
    Mistake("whole-model-moved", lambda p, t, n, *rest: step_seconds(p, t, 1, *rest), "a GPU moves only its share."),
    Mistake("two-flops", _step(max, computed=1 / 3), SIX_FLOPS),
    Mistake("both-ways", _step(max, moved=2), "`moved` counts all bytes, in both directions."),
    Mistake("backward-only", _step(max, computed=2 / 3), SIX_FLOPS),
    Mistake("bits", _step(max, moved=8), "`moved` and `bandwidth` are both in bytes."),
    Mistake("shorter", _step(min), "the step waits for the longer of the two."),
)

HIDDEN = Column(
    part="hidden",
    unit="tokens",
    want=hidden_tokens,
    rel=FINE,
    words=lambda n, f, m, b: f"{n} ranks, {f / TFLOP:g} TFLOP/s, {m:g} bytes at {b / GB:g} GB/s",
).knowing(
    Mistake("one-gpu", lambda n, *rest: hidden_tokens(1, *rest), "each rank moves only its share."),
    Mistake("all-tokens", lambda n, *rest: hidden_tokens(1, *rest) * n, "return the tokens of one GPU."),
    Mistake("two-flops", scaled(hidden_tokens, 3), SIX_FLOPS),
    Mistake("both-ways", scaled(hidden_tokens, 2), "`moved` counts all bytes, in both directions."),
    Mistake("backward-only", scaled(hidden_tokens, 1.5), SIX_FLOPS),
    Mistake("bits", scaled(hidden_tokens, 8), "`moved` and `bandwidth` are both in bytes."),
    Mistake("upside-down", lambda *row: 1 / hidden_tokens(*row), "this is its reciprocal."),
    Mistake("one-byte", lambda n, f, m, b: hidden_tokens(n, f, 1, b), "the bytes moved per parameter are missing."),
)


def _host_cases(params: Params, rng: random.Random) -> list[Case]:
    f, moved, n = params["flops"], params["moved"], params["ranks"]
    wires = [(moved, params["pcie"]), (params["nvme_moved"], params["nvme"])]
    shares = [(ranks, f, *wire) for ranks in (1, n) for wire in wires]

    def row() -> tuple[float, ...]:
        ranks, rate = rng.choice((1, 2, 3, 8, 1024)), rng.choice((100, 400, 700)) * TFLOP
        machine = ranks, rate, rng.choice((2, 4, 16, 28)), rng.choice((3, 16, 32, 63)) * GB
        tokens = round(hidden_tokens(*machine) * rng.choice((0.1, 0.4, 0.8, 1.3, 4)))
        return rng.choice((1, 7, 405)) * BILLION, max(tokens, 1), *machine

    others = [(7 * BILLION, tokens, n, 2 * f, moved, 20 * GB) for tokens in (0, 2048)]
    return [
        shown("one GPU and several, host and disk", "values:step", 0, [(7e9, 2048, *share) for share in shares]),
        shown("where the step no longer waits for the transfer", "values:hidden", 1, shares),
        generality("machines", 0, "other steps", [row() for _ in range(25)] + others),
        generality("machines", 1, "other wires", [row()[2:] for _ in range(25)]),
    ]


# --- the prediction


def talking_seconds(params: Params) -> float:
    """Seconds for which a GPU sends in a step of FSDP over all GPUs."""
    n = params["gpus"]
    return bytes_per_param_sent(3) * (n - 1) / n * params["params"] / params["bandwidth"]


def computing_seconds(params: Params) -> float:
    """Seconds for which a GPU computes in the same step."""
    return 6 * params["params"] * params["tokens"] / params["gpus"] / params["rate"]


def _reveal(params: Params) -> str:
    weights, rate = bytes_text(2 * params["params"]), bytes_text(params["bandwidth"])
    sends, computes = duration_text(talking_seconds(params)), duration_text(computing_seconds(params))
    batch = f"{params['tokens'] / 2**20:g} Mi tokens"
    return f"{sends}: three times the {weights} of weights, at {rate}/s. For {batch}, each GPU computes for {computes}."


TIMES = {
    "prefetch-depth": Judging(
        shares="values:crossover 0.2, values:exposed 0.3, values:least 0.15, generality:machines 0.1, "
        "generality:passes 0.25",
        cases=_ahead_cases,
        verdicts=one_verdict(table(CROSSOVER, EXPOSED, LEAST)),
        why="""Below the crossover sending takes longer than computing, and no depth hides it. Above it, depth 1 is enough for equal units; a large
unit after small ones needs more. Nothing hides the first gather. Every unit ahead is one more unit in memory.""",
        pytorch="""`set_modules_to_forward_prefetch` and `set_modules_to_backward_prefetch` on modules under `fully_shard`; by default the next unit
is prefetched.""",
    ),
    "offload-boundary": Judging(
        shares={"values:step": 0.4, "values:hidden": 0.3, "generality:machines": 0.3},
        cases=_host_cases,
        verdicts=one_verdict(table(STEP, HIDDEN)),
        why="""Both times grow with the parameters, so the parameters cancel. What remains is bytes per parameter against FLOPs per parameter, and only the FLOPs
grow with the tokens. With N ranks, each link carries one N-th. With a disk, the boundary lies at many more tokens.""",
        pytorch="`fully_shard(..., offload_policy=CPUOffloadPolicy())`; DeepSpeed's `offload_optimizer` with device `cpu` or `nvme`.",
    ),
    "predict-all-shards": prediction(
        unit="seconds",
        truth=talking_seconds,
        reveal=_reveal,
        why="""Each GPU receives the whole model twice and passes on gradients of the whole model, however many GPUs there are. Only its
computation shrinks. So we gather inside a server (HSDP), or cut the model in other ways as well.""",
        pytorch="`fully_shard` with a two-dimensional mesh is HSDP.",
    ),
}
