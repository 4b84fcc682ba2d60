"""Judges of chapter 08's limits: the link to the host, and the largest model under sharding alone."""

import math
import random
from collections.abc import Callable
from typing import Any

from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, FINE, Column, one_verdict, table
from course_lib.judging.draws import generality, safely_off_whole
from course_lib.judging.mistakes import scaled
from course_lib.records import Case
from course_lib.units import BILLION, GB, TFLOP

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

    steps = [(7 * BILLION, 2048, *share) for share in shares]
    return [
        shown("one GPU and several, host and disk", "values:step", 0, steps),
        shown("where the step no longer waits for the transfer", "values:hidden", 1, shares),
        generality("machines", 0, "other steps", [row() for _ in range(25)]),
        generality("machines", 1, "other wires", [row()[2:] for _ in range(25)]),
    ]


# --- sharding alone


def largest(ranks: int, memory: float, layers: int, activations: float, per_param: float) -> float:
    """Parameters of the largest model that fits."""
    return max(0.0, memory - activations) / (per_param / ranks + 4 / layers)


def ranks_for(params: float, memory: float, layers: float, activations: float, per_param: float) -> int | None:
    """The fewest GPUs on which a model fits, or None."""
    room = memory - activations - 4 * params / layers
    return max(1, math.ceil(per_param * params / room * (1 - 1e-12))) if room > 0 else None


def _whole(held: Callable[[int, int, float], float]) -> Callable[..., float]:
    """The largest model if `held(ranks, layers, per_param)` bytes per parameter are on a GPU."""
    return lambda n, m, layers, a, b: max(0.0, m - a) / held(n, layers, b)


def _limits(m: float, layers: int, a: float, b: float) -> str:
    return f"GPUs of {m / GB:g} GB, {layers} layers, {a / GB:g} GB of activations, {b:g} bytes"


STATE_ONLY = "a GPU holds more than its share of the state."
GATHERED = "two layers' weights are whole on every GPU."
TWO_BYTES = "only the weights of two layers are whole, at two bytes each."
NO_ACTIVATIONS = "the activations are missing."
LAST_ARGUMENT = "the bytes per parameter are the last argument."

LARGEST = Column(
    part="largest", unit="parameters", want=largest, rel=FINE, words=lambda n, *rest: f"{n:,} {_limits(*rest)}"
).knowing(
    Mistake("state-only", lambda n, m, layers, a, b: n * m / b, STATE_ONLY),
    Mistake("nothing-gathered", lambda n, m, layers, a, b: n * max(0.0, m - a) / b, GATHERED),
    Mistake("no-activations", lambda n, m, layers, a, b: largest(n, m, layers, 0, b), NO_ACTIVATIONS),
    Mistake("one-layer", _whole(lambda n, k, b: b / n + 2 / k), GATHERED),
    Mistake("two-and-two", _whole(lambda n, k, b: b / n + 8 / k), TWO_BYTES),
    Mistake("own-part-off", _whole(lambda n, k, b: b / n + 4 / k * (1 - 1 / n)), "the share is held beside them."),
    Mistake("whole-weights", _whole(lambda n, k, b: b / n + 2), TWO_BYTES),
    Mistake("not-16-bits", _whole(lambda n, k, b: b / n + 2 * b / k), TWO_BYTES),
    Mistake(
        "activations-shared", lambda n, m, k, a, b: largest(n, m, k, a / n, b), "each GPU has its own activations."
    ),
    Mistake("negative", lambda n, m, k, a, b: (m - a) / (b / n + 4 / k), "if nothing fits, return 0."),
    Mistake("other-bytes", lambda n, m, layers, a, b: largest(n, m, layers, a, 16), LAST_ARGUMENT),
)

RANKS_FOR = Column(
    part="ranks",
    unit="GPUs",
    want=ranks_for,
    rel=EXACT,
    words=lambda p, *rest: f"{p / BILLION:g}B on {_limits(*rest)}",
    none="two layers and the activations already exceed the memory; return None",
).knowing(
    Mistake("rounded-down", lambda *row: (ranks_for(*row) or 0) - 1 or None, "it needs one GPU more."),
    Mistake("state-only", lambda p, m, layers, a, b: math.ceil(b * p / m), STATE_ONLY),
    Mistake("nothing-gathered", lambda p, m, k, a, b: math.ceil(b * p / (m - a)) if m > a else None, GATHERED),
    Mistake("no-activations", lambda p, m, layers, a, b: ranks_for(p, m, layers, 0, b), NO_ACTIVATIONS),
    Mistake("one-more", lambda *row: (ranks_for(*row) or 0) + 1, "one fewer is enough; exactly full fits."),
    Mistake("two-and-two", lambda p, m, layers, a, b: ranks_for(p, m, layers / 2, a, b), TWO_BYTES),
    Mistake("other-bytes", lambda p, m, layers, a, b: ranks_for(p, m, layers, a, 16), LAST_ARGUMENT),
)


def _alone_cases(params: Params, rng: random.Random) -> list[Case]:
    own = params["memory"], params["layers"], params["activations"], params["per_param"]

    def row() -> tuple[Any, ...]:
        memory, layers = rng.choice((24, 40, 80, 141, 192)) * GB, rng.choice((2, 16, 32, 61, 80, 126))
        return memory, layers, rng.choice((0.05, 0.2, 0.5)) * memory, rng.choice((8, 12, 16, 18))

    def model() -> tuple[Any, ...]:
        while True:
            size, (memory, layers, activations, per_param) = rng.choice((1, 7, 30, 70, 180, 405, 1000)) * BILLION, row()
            room = memory - activations - 4 * size / layers
            if abs(room) > 1e-3 * memory and safely_off_whole(per_param * size / room):
                return size, memory, layers, activations, per_param

    floor = own[1] * (own[0] - own[2]) / 4  # parameters of a model whose two layers fill the remaining memory
    edges = [(floor * 2, *own), (floor * 0.45, *own), (10e9, 50e9, 40, 60e9, 16)]
    full = [(8e9, 41e9, 32, 8e9, per_param) for per_param in (16, 12)]  # exactly full, in any order of operations
    clusters = [(rng.choice((1, 2, 8, 100, 4096)), *row()) for _ in range(20)]
    models = [model() for _ in range(25)]
    return [
        shown(f"{params['ranks']} GPUs", "values:largest", 0, [(n, *own) for n in (params["ranks"], 1, 1 << 20)]),
        shown("70B and 405B", "values:ranks", 1, [(70e9, *own), (405e9, *own)]),
        generality(
            "clusters",
            0,
            "other clusters",
            [*clusters, (8, 20e9, 32, 24e9, 16), *((8, 24e9, 32, 4e9, b) for b in (16, 12))],
        ),
        generality("clusters", 1, "other models, some of them too large", [*models, *edges, *full]),
    ]


LIMITS = {
    "offload-boundary": Judging(
        shares={"values:step": 0.4, "values:hidden": 0.3, "generality:machines": 0.3},
        cases=_host_cases,
        verdicts=one_verdict(table(STEP, HIDDEN)),
        why="""Both times grow with the parameters, so the parameters cancel. What remains is bytes per parameter against FLOPs per parameter, and only the FLOPs
grow with the tokens. With N ranks, each link carries one N-th. With a disk, the boundary lies at many more tokens.""",
        pytorch="`fully_shard(..., offload_policy=CPUOffloadPolicy())`; DeepSpeed's `offload_optimizer` with device `cpu` or `nvme`.",
    ),
    "largest-alone": Judging(
        shares={"values:largest": 0.35, "values:ranks": 0.3, "generality:clusters": 0.35},
        cases=_alone_cases,
        verdicts=one_verdict(table(LARGEST, RANKS_FOR)),
        why="""Only the state is divided by N. Two gathered layers grow with the model, and activations stay. With ever more GPUs the largest model
tends to (memory − activations) · layers / 4, not to infinity. Beyond that the layers or the sequence must be cut as well.""",
        pytorch="`fully_shard` on half a block makes the gathered unit smaller; tensor parallelism cuts the layer itself.",
    ),
}
