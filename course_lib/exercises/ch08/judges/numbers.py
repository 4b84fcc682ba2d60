"""Judges of chapter 08's times and floors: gathering ahead, the wire to the host, and the largest model without another cut."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.draws import plain, safely_off_whole
from course_lib.judging.optional_columns import Column, judge, results, told
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import BILLION, GB, TFLOP

# --- how far ahead


def crossover(flops: float, bandwidth: float, ranks: int, gather: float, reduce: float) -> float:
    """Tokens per GPU at which sending takes as long as computing."""
    return (2 * gather + reduce) * (ranks - 1) / ranks * flops / bandwidth / 6


def exposed(gathers: Sequence[float], computes: Sequence[float], depth: int) -> float:
    """Seconds for which the GPU stands still in a forward pass that gathers `depth` units ahead."""
    wire, done = 0.0, []
    for place, (gather, compute) in enumerate(zip(gathers, computes, strict=True)):
        wire = max(wire, done[place - 1 - depth] if place > depth else 0.0) + gather
        done.append(max(wire, done[-1] if done else 0.0) + compute)
    return done[-1] - sum(computes)


def least_depth(gathers: Sequence[float], computes: Sequence[float], most: float) -> int | None:
    """The smallest depth that leaves at most so much."""
    return next((depth for depth in range(len(gathers)) if exposed(gathers, computes, depth) <= most + 1e-12), None)


def _no_limit(gathers: Sequence[float], computes: Sequence[float], depth: int) -> float:
    return exposed(gathers, computes, len(gathers))


def _one_behind(gathers: Sequence[float], computes: Sequence[float], depth: int) -> float:
    return exposed(gathers, computes, max(depth - 1, 0))


def _together(gathers: Sequence[float], computes: Sequence[float], depth: int) -> float:
    """As if the wire carried any number of gathers at once."""
    done: list[float] = []
    for place, (gather, compute) in enumerate(zip(gathers, computes, strict=True)):
        came = (done[place - 1 - depth] if place > depth else 0.0) + gather
        done.append(max(came, done[-1] if done else 0.0) + compute)
    return done[-1] - sum(computes)


CROSSOVER = Column(
    part="crossover",
    unit="tokens",
    want=crossover,
    words=lambda f, b, n, g, r: f"{f / TFLOP:g} TFLOP/s, {b / GB:g} GB/s, {n} ranks, {g:g} and {r:g} bytes",
    slips=(
        Mistake(
            "data-parallel",
            lambda f, b, n, g, r: 2 * r * (n - 1) / n * f / b / 6,
            "these are data parallelism's: a gradient's all-reduce alone.",
        ),
        Mistake(
            "one-gather",
            lambda f, b, n, g, r: crossover(f, b, n, g / 2, r),
            "weights are gathered twice, forward and backward.",
        ),
        Mistake(
            "reduced-twice",
            lambda f, b, n, g, r: crossover(f, b, n, g, 2 * r),
            "a reduce-scatter is half of an all-reduce: once a gradient's bytes.",
        ),
        Mistake("no-reduce", lambda f, b, n, g, r: crossover(f, b, n, g, 0), "gradients are reduced as well."),
        Mistake(
            "no-ring",
            lambda f, b, n, g, r: crossover(f, b, 10**12, g, r),
            "a rank does not send itself its own part: (N − 1)/N.",
        ),
        Mistake(
            "reduced-like-gathered",
            lambda f, b, n, g, r: crossover(f, b, n, g, g),
            "a gradient's bytes are the last argument.",
        ),
        Mistake(
            "two-flops",
            lambda f, b, n, g, r: crossover(f, b, n, g, r) * 3,
            "a step has 6 FLOPs per parameter and token.",
        ),
        Mistake(
            "backward-only",
            lambda f, b, n, g, r: crossover(f, b, n, g, r) * 1.5,
            "the whole step hides it: 6 FLOPs per parameter and token.",
        ),
        Mistake(
            "twice",
            lambda f, b, n, g, r: crossover(f, b, n, g, r) * 2,
            "an all-gather and a reduce-scatter are half an all-reduce each.",
        ),
        Mistake(
            "all-gpus",
            lambda f, b, n, g, r: crossover(f, b, n, g, r) * n,
            "these are all GPUs' tokens; one GPU's are asked for.",
        ),
    ),
)

EXPOSED = Column(
    part="exposed",
    unit="seconds",
    want=exposed,
    rel=1e-9,
    words=lambda g, c, d: f"{len(g)} units, depth {d}",
    slips=(
        Mistake(
            "makespan",
            lambda g, c, d: exposed(g, c, d) + sum(c),
            "this is when the pass ends; the time that the GPU stands still is asked for.",
        ),
        Mistake(
            "no-limit",
            _no_limit,
            "as if everything were gathered as early as can be: at most `depth` units may be ahead.",
        ),
        Mistake(
            "one-behind",
            _one_behind,
            "this is one unit less ahead than `depth` says: beside the unit at work, `depth` others may be there.",
        ),
        Mistake("one-more", lambda g, c, d: exposed(g, c, d + 1), "this is one unit more ahead than `depth` allows."),
        Mistake("wires-in-parallel", _together, "gathers go one after another; here several are on their way at once."),
        Mistake(
            "without-the-first",
            lambda g, c, d: exposed(g, c, d) - g[0],
            "the first gather is part of it: the GPU stands still until it has come.",
        ),
        Mistake(
            "no-overlap", lambda g, c, d: sum(g), "these are all gathers; some of them pass while the GPU computes."
        ),
        Mistake(
            "unit-by-unit",
            lambda g, c, d: sum(max(0.0, a - b) for a, b in zip(g, c, strict=True)),
            "each gather was set against its own unit's computing; it hides behind the units before it.",
        ),
    ),
)

LEAST = Column(
    part="least",
    unit="units",
    want=least_depth,
    rel=1e-9,
    none="no depth leaves so little; the first gather hides behind nothing: `None`",
    some="there is one. Exactly as much is allowed; `None` is for where no depth is enough",
    words=lambda g, c, m: f"{len(g)} units, at most {m:g} s",
    slips=(
        Mistake(
            "one-more",
            lambda g, c, m: (least_depth(g, c, m) or 0) + 1,
            "one less is enough; exactly as much is allowed.",
        ),
        Mistake(
            "one-less",
            lambda g, c, m: least_depth(g, c, m) - 1 if least_depth(g, c, m) else None,
            "this leaves more than that.",
        ),
        Mistake("everything", lambda g, c, m: len(g) - 1, "that gathers everything; less is enough."),
    ),
)


def _ahead_cases(params: Params, rng: random.Random) -> list[Case]:
    f, b, n = params["flops"], params["bandwidth"], params["ranks"]

    def pass_(units: int) -> tuple[list[float], list[float]]:
        return [rng.randrange(1, 13) * 0.25 for _ in range(units)], [rng.randrange(1, 13) * 0.25 for _ in range(units)]

    def row() -> tuple[float, ...]:
        return (
            rng.choice((200, 400, 800)) * TFLOP,
            rng.choice((25, 50, 200, 450)) * GB,
            rng.choice((2, 3, 8, 100, 1024)),
            rng.choice((1, 2, 4)),
            rng.choice((2, 4)),
        )

    def wish() -> tuple[Any, ...]:
        gathers, computes = pass_(rng.randrange(3, 10))
        depth = rng.randrange(0, 4)
        return gathers, computes, exposed(gathers, computes, depth) + rng.choice((0.0, 0.1, -0.1))

    passed = pass_(5)
    uneven = ([1.0, 4.0, 1.0, 1.0, 4.0], [2.0, 1.0, 3.0, 1.0, 2.0])
    return [
        Case(name="the crossover", args=(0, [(f, b, n, 2, 2)]), part="crossover"),
        Case(name="five units", args=(1, [(*uneven, depth) for depth in (0, 1, 2)]), part="exposed"),
        Case(name="the least depth", args=(2, [(*uneven, 3.0), (*uneven, 0.5)]), part="least"),
        Case(
            name="other GPUs and wires",
            args=(0, [row() for _ in range(15)] + [(f, b, n, 2, 4), (f, b, n, 1, 2)]),
            kind="generality",
            part="machines",
            visible=False,
        ),
        plain("exposed", 1, "another five units", [(*passed, depth) for depth in (0, 1, 2)]),
        plain(
            "least",
            2,
            "the least depth of other units",
            [(*passed, exposed(*passed, depth) + more) for depth, more in ((1, 0.0), (0, 0.1))]
            + [(*passed, passed[0][0] / 2)],
        ),
        Case(
            name="other passes",
            args=(
                1,
                [(*pass_(rng.randrange(2, 12)), rng.randrange(0, 6)) for _ in range(30)]
                + [([2.0], [5.0], 0), ([2.0], [5.0], 3)],
            ),
            kind="generality",
            part="passes",
            visible=False,
        ),
        Case(
            name="other limits", args=(2, [wish() for _ in range(30)]), kind="generality", part="passes", visible=False
        ),
    ]


def _verdicts_by(columns: Sequence[Column]) -> Any:
    def verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
        found = results(case, outcome.value)
        return found if told(found) else [judge(columns[case.args[0]], case, found, part=case.part)]

    return verdicts


# --- the wire to the host


def step_seconds(params: float, tokens: float, ranks: int, flops: float, moved: float, bandwidth: float) -> float:
    """Seconds of a step whose computing and moving run side by side."""
    return max(6 * params * tokens / flops, params / ranks * moved / bandwidth)


def hidden_tokens(ranks: int, flops: float, moved: float, bandwidth: float) -> float:
    """Tokens per GPU at which the wire stops being what the step waits for."""
    return moved * flops / (6 * ranks * bandwidth)


STEP = Column(
    part="step",
    unit="seconds",
    want=step_seconds,
    words=lambda p, t, n, f, m, b: f"{p / BILLION:g}B, {t:,} tokens, {n} ranks, {m:g} bytes at {b / GB:g} GB/s",
    slips=(
        Mistake(
            "compute-divided",
            lambda p, t, n, f, m, b: max(6 * p * t / n / f, p / n * m / b),
            "sharding shares out the state, not the work: each GPU computes all parameters on its tokens.",
        ),
        Mistake(
            "sum",
            lambda p, t, n, f, m, b: 6 * p * t / f + p / n * m / b,
            "both run side by side: the longer one counts, not the sum.",
        ),
        Mistake(
            "compute-only", lambda p, t, n, f, m, b: 6 * p * t / f, "this is the computing; the wire takes longer."
        ),
        Mistake("wire-only", lambda p, t, n, f, m, b: p / n * m / b, "this is the wire; the computing takes longer."),
        Mistake(
            "whole-model-moved",
            lambda p, t, n, f, m, b: max(6 * p * t / f, p * m / b),
            "a GPU moves its own share of the parameters only.",
        ),
        Mistake(
            "two-flops",
            lambda p, t, n, f, m, b: max(2 * p * t / f, p / n * m / b),
            "a step has 6 FLOPs per parameter and token.",
        ),
        Mistake(
            "both-ways",
            lambda p, t, n, f, m, b: max(6 * p * t / f, 2 * p / n * m / b),
            "`moved` counts all bytes, there and back.",
        ),
        Mistake(
            "backward-only",
            lambda p, t, n, f, m, b: max(4 * p * t / f, p / n * m / b),
            "forward and backward together have 6 FLOPs per parameter and token.",
        ),
        Mistake(
            "bits",
            lambda p, t, n, f, m, b: max(6 * p * t / f, 8 * p / n * m / b),
            "`moved` and `bandwidth` are both in bytes.",
        ),
        Mistake(
            "shorter",
            lambda p, t, n, f, m, b: min(6 * p * t / f, p / n * m / b),
            "the step waits for the longer of the two.",
        ),
    ),
)

HIDDEN = Column(
    part="hidden",
    unit="tokens",
    want=hidden_tokens,
    words=lambda n, f, m, b: f"{n} ranks, {f / TFLOP:g} TFLOP/s, {m:g} bytes at {b / GB:g} GB/s",
    slips=(
        Mistake("one-gpu", lambda n, f, m, b: hidden_tokens(1, f, m, b), "each of the ranks moves its share only."),
        Mistake("all-tokens", lambda n, f, m, b: hidden_tokens(1, f, m, b) * n, "these are not one GPU's tokens."),
        Mistake(
            "two-flops", lambda n, f, m, b: 3 * hidden_tokens(n, f, m, b), "a step has 6 FLOPs per parameter and token."
        ),
        Mistake(
            "both-ways", lambda n, f, m, b: 2 * hidden_tokens(n, f, m, b), "`moved` counts all bytes, there and back."
        ),
        Mistake(
            "backward-only",
            lambda n, f, m, b: 1.5 * hidden_tokens(n, f, m, b),
            "forward and backward together have 6 FLOPs per parameter and token.",
        ),
        Mistake("bits", lambda n, f, m, b: 8 * hidden_tokens(n, f, m, b), "`moved` and `bandwidth` are both in bytes."),
        Mistake("upside-down", lambda n, f, m, b: 1 / hidden_tokens(n, f, m, b), "this is one over it."),
        Mistake(
            "one-byte",
            lambda n, f, m, b: hidden_tokens(n, f, 1, b),
            "the bytes that are moved per parameter are missing.",
        ),
    ),
)


def _host_cases(params: Params, rng: random.Random) -> list[Case]:
    f, moved, n = params["flops"], params["moved"], params["ranks"]
    wires = [(moved, params["pcie"]), (params["nvme_moved"], params["nvme"])]

    def row() -> tuple[float, ...]:
        ranks, rate, each, wire = (
            rng.choice((1, 2, 3, 8, 64)),
            rng.choice((100, 400, 700)) * TFLOP,
            rng.choice((2, 4, 16, 24)),
            rng.choice((3, 16, 32, 63)) * GB,
        )
        tokens = round(hidden_tokens(ranks, rate, each, wire) * rng.choice((0.1, 0.4, 0.8, 1.3, 4)))
        return rng.choice((1, 7, 70)) * BILLION, max(tokens, 1), ranks, rate, each, wire

    return [
        Case(
            name="one GPU and several, host and disk",
            args=(0, [(7 * BILLION, 2048, ranks, f, *wire) for ranks in (1, n) for wire in wires]),
            part="step",
        ),
        Case(
            name="where the wire stops binding",
            args=(1, [(ranks, f, *wire) for ranks in (1, n) for wire in wires]),
            part="hidden",
        ),
        Case(
            name="other steps", args=(0, [row() for _ in range(25)]), kind="generality", part="machines", visible=False
        ),
        Case(
            name="other wires",
            args=(1, [row()[2:] for _ in range(25)]),
            kind="generality",
            part="machines",
            visible=False,
        ),
    ]


# --- without any other cut


def largest(ranks: int, memory: float, layers: int, activations: float, per_param: float) -> float:
    """Parameters of the largest model that fits."""
    return max(0.0, memory - activations) / (per_param / ranks + 4 / layers)


def ranks_for(params: float, memory: float, layers: int, activations: float, per_param: float) -> int | None:
    """The fewest GPUs on which a model fits, or None."""
    room = memory - activations - 4 * params / layers
    return max(1, math.ceil(per_param * params / room * (1 - 1e-12))) if room > 0 else None


def _limits(m: float, layers: int, a: float, b: float) -> str:
    return f"GPUs of {m / GB:g} GB, {layers} layers, {a / GB:g} GB of activations, {b:g} bytes"


LARGEST = Column(
    part="largest",
    unit="parameters",
    want=largest,
    words=lambda n, *rest: f"{n:,} {_limits(*rest)}",
    slips=(
        Mistake(
            "state-only",
            lambda n, m, layers, a, b: n * m / b,
            "this is as if a GPU held nothing but its share of the state.",
        ),
        Mistake(
            "nothing-gathered",
            lambda n, m, layers, a, b: n * max(0.0, m - a) / b,
            "two layers' weights lie whole on every GPU.",
        ),
        Mistake(
            "no-activations", lambda n, m, layers, a, b: largest(n, m, layers, 0, b), "the activations are missing."
        ),
        Mistake(
            "one-layer",
            lambda n, m, layers, a, b: max(0.0, m - a) / (b / n + 2 / layers),
            "two layers lie whole: the one at work and the next.",
        ),
        Mistake(
            "two-and-two",
            lambda n, m, layers, a, b: max(0.0, m - a) / (b / n + 8 / layers),
            "two layers have two bytes per weight, and nothing but weights: 4 / layers.",
        ),
        Mistake(
            "own-part-off",
            lambda n, m, layers, a, b: max(0.0, m - a) / (b / n + 4 / layers * (1 - 1 / n)),
            "the two layers lie whole beside the GPU's own share.",
        ),
        Mistake(
            "whole-weights",
            lambda n, m, layers, a, b: max(0.0, m - a) / (b / n + 2),
            "only two layers' weights lie whole, not the model's.",
        ),
        Mistake(
            "not-16-bits",
            lambda n, m, layers, a, b: max(0.0, m - a) / (b / n + 2 * b / layers),
            "a gathered layer has weights only, 2 bytes each.",
        ),
        Mistake(
            "activations-shared",
            lambda n, m, layers, a, b: max(0.0, m - a / n) / (b / n + 4 / layers),
            "activations are each GPU's own; sharding does not touch them.",
        ),
        Mistake(
            "negative",
            lambda n, m, layers, a, b: (m - a) / (b / n + 4 / layers) if m < a else None,
            "nothing fits; that is 0.",
        ),
        Mistake(
            "other-bytes",
            lambda n, m, layers, a, b: largest(n, m, layers, a, 16),
            "the bytes per parameter are the last argument.",
        ),
    ),
)

RANKS_FOR = Column(
    part="ranks",
    unit="GPUs",
    want=ranks_for,
    rel=1e-9,
    words=lambda p, *rest: f"{p / BILLION:g}B on {_limits(*rest)}",
    none="two layers and the activations alone are more than the memory, however many GPUs there are: `None`",
    slips=(
        Mistake(
            "rounded-down",
            lambda p, m, layers, a, b: (ranks_for(p, m, layers, a, b) or 0) - 1 or None,
            "it does not fit there yet; one more does.",
        ),
        Mistake(
            "state-only",
            lambda p, m, layers, a, b: math.ceil(b * p / m),
            "this is as if a GPU held nothing but its share of the state.",
        ),
        Mistake(
            "nothing-gathered",
            lambda p, m, layers, a, b: math.ceil(b * p / (m - a)) if m > a else None,
            "two layers' weights lie whole on every GPU.",
        ),
        Mistake(
            "no-activations", lambda p, m, layers, a, b: ranks_for(p, m, layers, 0, b), "the activations are missing."
        ),
        Mistake(
            "one-more",
            lambda p, m, layers, a, b: (ranks_for(p, m, layers, a, b) or 0) + 1,
            "one less is enough; exactly full fits.",
        ),
        Mistake(
            "two-and-two",
            lambda p, m, layers, a, b: math.ceil(b * p / room) if (room := m - a - 8 * p / layers) > 0 else None,
            "two layers have two bytes per weight, and nothing but weights: 4 / layers.",
        ),
        Mistake(
            "other-bytes",
            lambda p, m, layers, a, b: ranks_for(p, m, layers, a, 16),
            "the bytes per parameter are the last argument.",
        ),
    ),
)


def _alone_cases(params: Params, rng: random.Random) -> list[Case]:
    own = params["memory"], params["layers"], params["activations"], params["per_param"]

    def row() -> tuple[Any, ...]:
        memory = rng.choice((24, 40, 80, 141, 192)) * GB
        return (
            memory,
            rng.choice((16, 32, 61, 80, 126)),
            rng.choice((0.05, 0.2, 0.5)) * memory,
            rng.choice((8, 12, 16, 18)),
        )

    def model() -> tuple[Any, ...]:
        while True:
            size, (memory, layers, activations, per_param) = rng.choice((1, 7, 30, 70, 180, 405, 1000)) * BILLION, row()
            room = memory - activations - 4 * size / layers
            if abs(room) > 1e-3 * memory and safely_off_whole(per_param * size / room):
                return size, memory, layers, activations, per_param

    floor = own[1] * (own[0] - own[2]) / 4  # of a model whose two layers fill what is left
    edges = [
        (floor * 2, *own),
        (floor * 0.45, *own),
        (10e9, 50e9, 40, 60e9, 16),
        (8e9, 41e9, 32, 8e9, 16),
    ]  # the last exactly full, in any order
    return [
        Case(
            name=f"{params['ranks']} GPUs",
            args=(0, [(params["ranks"], *own), (1, *own), (1 << 20, *own)]),
            part="largest",
        ),
        Case(name="70B and 405B", args=(1, [(70e9, *own), (405e9, *own)]), part="ranks"),
        Case(
            name="other clusters",
            args=(0, [(rng.choice((1, 2, 8, 100, 4096)), *row()) for _ in range(20)] + [(8, 20e9, 32, 24e9, 16)]),
            kind="generality",
            part="clusters",
            visible=False,
        ),
        Case(
            name="other models, too large ones among them",
            args=(1, [*(model() for _ in range(25)), *edges]),
            kind="generality",
            part="clusters",
            visible=False,
        ),
    ]


NUMBERS = {
    "prefetch-depth": Judging(
        shares={
            "values:crossover": 0.2,
            "values:exposed": 0.3,
            "values:least": 0.15,
            "generality:machines": 0.1,
            "generality:passes": 0.25,
        },
        cases=_ahead_cases,
        verdicts=_verdicts_by((CROSSOVER, EXPOSED, LEAST)),
        why="Below the crossover the wire is the longer of the two, and no depth helps: something must be computed behind which to hide. Above it, depth 1 is enough where "
        "units are alike; it takes more where a large unit follows small ones. The first gather hides behind nothing. Every unit ahead is a unit more in memory.",
        pytorch="`set_modules_to_forward_prefetch` and `set_modules_to_backward_prefetch` on modules that `fully_shard` has taken; without, the next unit is prefetched.",
    ),
    "offload-boundary": Judging(
        shares={"values:step": 0.4, "values:hidden": 0.3, "generality:machines": 0.3},
        cases=_host_cases,
        verdicts=_verdicts_by((STEP, HIDDEN)),
        why="Both sides grow with the parameters, so they cancel: what counts is bytes per parameter against FLOPs per parameter, and those grow with the tokens. With N ranks "
        "each wire carries an N-th, and the boundary falls with N; a disk puts it far out.",
        pytorch="`fully_shard(..., offload_policy=CPUOffloadPolicy())`; DeepSpeed's `offload_optimizer` with device `cpu` or `nvme`.",
    ),
    "largest-alone": Judging(
        shares={"values:largest": 0.35, "values:ranks": 0.3, "generality:clusters": 0.35},
        cases=_alone_cases,
        verdicts=_verdicts_by((LARGEST, RANKS_FOR)),
        why="Only the state is divided by N. Two gathered layers grow with the model and the activations do not fall: together they are a floor, and with ever more GPUs the "
        "largest model tends to (memory − activations) · layers / 4, not to infinity. Below the floor other cuts are needed: of the layer, of the depth, of the sequence.",
        pytorch="`fully_shard` on half a block makes the gathered unit smaller; tensor parallelism cuts the layer itself.",
    ),
}
