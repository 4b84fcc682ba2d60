"""Judges of chapter 08 on memory: what each stage of ZeRO holds, and the largest model under sharding alone."""

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from course_lib.exercises.ch08.cards.core import BUCKETS
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, FINE, Column, one_verdict, table
from course_lib.judging.draws import generality, plain, safely_off_whole
from course_lib.judging.mistakes import scaled
from course_lib.memory import CONVENTIONS
from course_lib.records import Case
from course_lib.units import BILLION, GB


def least_ranks(shared: float, room: float) -> int | None:
    """The fewest ranks on which a part of `shared` bytes fits into `room`, or None; exactly full fits."""
    if room < 0 or (room == 0 and shared):
        return None
    return max(1, math.ceil(shared / room * (1 - 1e-12))) if shared else 1


# --- the state in each stage

Buckets = Mapping[str, float]  # bytes per parameter
SINCE = {"master": 1, "moments": 1, "grads": 2, "weights": 3}  # the first stage that shards a bucket


def split(stage: int, buckets: Buckets) -> tuple[float, float]:
    """Bytes per parameter that every rank holds whole, and those that are sharded."""
    shared = sum(per for name, per in buckets.items() if stage >= SINCE[name])
    return sum(buckets.values()) - shared, shared


def held(params: float, stage: int, ranks: int, buckets: Buckets) -> float:
    """Bytes of state on one rank."""
    whole, shared = split(stage, buckets)
    return params * (whole + shared / ranks)


def fewest(params: float, stage: int, buckets: Buckets, memory: float) -> int | None:
    """The fewest ranks on which the state fits, or None."""
    whole, shared = split(stage, buckets)
    return least_ranks(params * shared, memory - params * whole)


def _without(buckets: Buckets, name: str) -> Buckets:
    return {**buckets, name: 0.0}


def _all_shared(params: float, stage: int, buckets: Buckets, memory: float) -> int | None:
    return math.ceil(params * sum(buckets.values()) / memory) if stage else None


def _power_of_two(*row: Any) -> int | None:
    return 1 << (ranks - 1).bit_length() if (ranks := fewest(*row)) else None


def _buckets_text(buckets: Buckets) -> str:
    return f"{'+'.join(f'{per:g}' for per in buckets.values())} bytes"


HELD = Column(
    part="held",
    unit="bytes",
    want=held,
    words=lambda p, s, n, b: f"{p / BILLION:g}B, stage {s}, {n:,} ranks, {_buckets_text(b)}",
    rel=FINE,
).knowing(
    Mistake("all-shared", lambda p, s, n, b: held(p, 3 if s else 0, n, b), "some buckets stay whole."),
    Mistake("nothing-shared", lambda p, s, n, b: held(p, 0, n, b), "no bucket is divided."),
    Mistake("one-stage-more", lambda p, s, n, b: held(p, min(s + 1, 3), n, b), "this is the next stage."),
    Mistake("one-stage-less", lambda p, s, n, b: held(p, max(s - 1, 0), n, b), "this is the previous stage."),
    Mistake("no-master", lambda p, s, n, b: held(p, s, n, _without(b, "master")), "the master copy is missing."),
    Mistake(
        "master-whole",
        lambda p, s, n, b: held(p, s, n, _without(b, "master")) + p * b["master"],
        "the master copy is sharded with the optimizer, from stage 1 on.",
    ),
    Mistake("no-gradients", lambda p, s, n, b: held(p, s, n, _without(b, "grads")), "gradients are missing."),
    Mistake("only-shared", lambda p, s, n, b: p * split(s, b)[1] / n, "the buckets that stay whole are missing."),
    Mistake("all-ranks", lambda p, s, n, b: held(p, s, n, b) * n, "this is the sum over all ranks, not one rank."),
    Mistake("in-GB", scaled(held, 1 / GB), "this is in GB; return bytes."),
)

FEWEST = Column(
    part="fewest",
    unit="ranks",
    want=fewest,
    words=lambda p, s, b, m: f"{p / BILLION:g}B, stage {s}, {_buckets_text(b)}, GPUs of {m / GB:g} GB",
    rel=EXACT,
    none="the part that stays whole does not fit on any number of ranks; return None",
).knowing(
    Mistake("rounded-down", lambda *row: (fewest(*row) or 0) - 1 or None, "it does not fit on so few ranks."),
    Mistake("all-shared", _all_shared, "this is total bytes over memory, as if every bucket were divided."),
    Mistake("one-more", lambda *row: (fewest(*row) or 0) + 1, "one rank fewer is enough; exactly full fits."),
    Mistake("power-of-two", _power_of_two, "any number of ranks is allowed, not only powers of two."),
    Mistake("in-GiB", lambda p, s, b, m: fewest(p, s, b, m / GB * 2**30), "a GB is 10⁹ bytes, not a GiB."),
)


def _state_cases(params: Params, rng: random.Random) -> list[Case]:
    own = {name: params[name] for name in BUCKETS}
    p, n, m = params["params"], params["ranks"], params["memory"]
    sizes = (1e9, 3e9, 7e9, 13e9, 34e9, 70e9, 180e9, 405e9)

    def buckets_of(letter: str) -> dict[str, float]:
        return {name: CONVENTIONS[letter].buckets[name] for name in BUCKETS}

    def other() -> dict[str, float]:
        return buckets_of(rng.choice("ABCDFG"))

    def limit(stage: int) -> tuple[Any, ...]:
        """A row in which no memory is exactly full, because rounding would decide there."""
        while True:
            row = rng.choice(sizes), stage, other(), rng.choice((16, 24, 40, 80, 141, 192)) * GB
            whole, shared = (row[0] * per for per in split(stage, row[2]))
            if abs(row[3] - whole) > 1e-3 * row[3] and safely_off_whole(shared / (row[3] - whole)):
                return row

    counts = (1, 2, 3, 7, 48, 640, 24_576)
    rows = [(rng.choice(sizes), stage, rng.choice(counts), other()) for stage in range(4) for _ in range(5)]
    unlike = buckets_of(rng.choice(sorted(set("ACDFG") - {params["convention"]})))
    many = [(size, 3, unlike, room) for size in (70e9, 180e9, 405e9) for room in (40 * GB, 44 * GB, 46 * GB)]
    many = [row for row in many if safely_off_whole(row[0] * sum(unlike.values()) / row[3])]
    limits = [limit(stage) for stage in (1, 2, 3) for _ in range(12)]
    sixteen = {"weights": 2, "grads": 2, "master": 4, "moments": 8}
    turned = {"moments": 4, "master": 3, "grads": 4, "weights": 1}  # other bytes, in another order
    rows += [(7e9, stage, 24_576, turned) for stage in (1, 2)]
    full = [(10e9, 3, sixteen, 20e9), (5e9, 0, sixteen, 80e9), (10e9, 1, sixteen, 40e9), (10e9, 3, turned, 20e9)]
    full += [(10e9, 1, sixteen, 40.013e9)]
    no_optimizer = {"weights": 4, "grads": 4, "master": 0, "moments": 0}
    edges = [(1e9, 0, own, m), (405e9, 0, own, m), *full, (5e9, 2, no_optimizer, 25e9)]
    shown_limits = [(70e9, 3, own, m), (40e9, 3, own, m), (70e9, 1, own, m), (13e9, 1, own, m)]
    drawn = [(rng.choice(sizes), stage, 48, unlike) for stage in range(4)]
    return [
        shown(f"{p / BILLION:g}B on {n} ranks", "values:held", 0, [(p, stage, n, own) for stage in range(4)]),
        shown("405B on 1,024 ranks", "values:held", 0, [(405e9, stage, 1024, own) for stage in (1, 3)]),
        shown("the fewest", "values:fewest", 1, shown_limits),
        plain("held", 0, "another optimizer", drawn),
        plain("fewest", 1, "the fewest with another optimizer", many),
        generality("optimizers", 0, "other optimizers", rows),
        generality("cards", 1, "other GPUs", limits),
        generality("cards", 1, "one rank, exactly full, and never", edges),
    ]


# --- sharding alone


def largest(ranks: int, memory: float, layers: int, activations: float, per_param: float) -> float:
    """Parameters of the largest model that fits."""
    return max(0.0, memory - activations) / (per_param / ranks + 4 / layers)


def ranks_for(params: float, memory: float, layers: float, activations: float, per_param: float) -> int | None:
    """The fewest GPUs on which a model fits, or None."""
    return least_ranks(per_param * params, memory - activations - 4 * params / layers)


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
    clusters += [(8, 20e9, 32, 24e9, 16), (8, 24e9, 32, 4e9, 16), (8, 24e9, 32, 4e9, 12)]
    models = [*(model() for _ in range(25)), *edges, *full]
    return [
        shown(f"{params['ranks']} GPUs", "values:largest", 0, [(n, *own) for n in (params["ranks"], 1, 1 << 20)]),
        shown("70B and 405B", "values:ranks", 1, [(70e9, *own), (405e9, *own)]),
        generality("clusters", 0, "other clusters", clusters),
        generality("clusters", 1, "other models, some of them too large", models),
    ]


MEMORY = {
    "zero-state": Judging(
        shares={"values:held": 0.4, "values:fewest": 0.25, "generality:optimizers": 0.15, "generality:cards": 0.2},
        cases=_state_cases,
        verdicts=one_verdict(table(HELD, FEWEST)),
        why="""Each stage divides one more bucket by N. The rest is a floor that no number of ranks lowers: 4 bytes per parameter in stage 1, 2
in stage 2, none in stage 3. The stages shard the largest bucket first.""",
        pytorch="`ZeroRedundancyOptimizer` is stage 1, `fully_shard` stage 3; DeepSpeed takes the number as `zero_optimization.stage`.",
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
