"""Judges of chapter 08's arithmetic in the core: what each stage of ZeRO holds, and a prediction."""

import math
import random
from collections.abc import Mapping
from typing import Any

from course_lib import memory
from course_lib.exercises.ch08.cards.core import BUCKETS
from course_lib.judging import Judging, Mistake, Params, prediction
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, FINE, Column, one_verdict, table
from course_lib.judging.draws import generality, plain, safely_off_whole
from course_lib.judging.mistakes import scaled
from course_lib.records import Case
from course_lib.sharding import bytes_per_param_sent
from course_lib.units import BILLION, GB, bytes_text, duration_text

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
    room = memory - params * whole
    if room < 0 or (room == 0 and shared):
        return None
    return max(1, math.ceil(params * shared / room * (1 - 1e-12))) if shared else 1


def _without(buckets: Buckets, name: str) -> Buckets:
    return {**buckets, name: 0.0}


def _master_whole(params: float, stage: int, ranks: int, buckets: Buckets) -> float:
    return held(params, stage, ranks, _without(buckets, "master")) + params * buckets["master"]


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
    Mistake("master-whole", _master_whole, "the master copy is sharded with the optimizer, from stage 1 on."),
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


def _cases(params: Params, rng: random.Random) -> list[Case]:
    own = {name: params[name] for name in BUCKETS}
    p, n, m = params["params"], params["ranks"], params["memory"]
    sizes = (1e9, 3e9, 7e9, 13e9, 34e9, 70e9, 180e9, 405e9)

    def other() -> dict[str, float]:
        letter = rng.choice("ABCDFG")
        return {name: memory.CONVENTIONS[letter].buckets[name] for name in BUCKETS}

    def limit(stage: int) -> tuple[Any, ...]:
        """A row in which no memory is exactly full, because rounding would decide there."""
        while True:
            row = rng.choice(sizes), stage, other(), rng.choice((16, 24, 40, 80, 141, 192)) * GB
            whole, shared = (row[0] * per for per in split(stage, row[2]))
            if abs(row[3] - whole) > 1e-3 * row[3] and safely_off_whole(shared / (row[3] - whole)):
                return row

    counts = (1, 2, 3, 7, 48, 640, 24_576)
    rows = [(rng.choice(sizes), stage, rng.choice(counts), other()) for stage in range(4) for _ in range(5)]
    letter = rng.choice(sorted(set("ACDFG") - {params["convention"]}))
    unlike = {name: memory.CONVENTIONS[letter].buckets[name] for name in BUCKETS}
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


STATE = {
    "zero-state": Judging(
        shares={"values:held": 0.4, "values:fewest": 0.25, "generality:optimizers": 0.15, "generality:cards": 0.2},
        cases=_cases,
        verdicts=one_verdict(table(HELD, FEWEST)),
        why="""Each stage divides one more bucket by N. The rest is a floor that no number of ranks lowers: 4 bytes per parameter in stage 1, 2
in stage 2, none in stage 3. The stages shard the largest bucket first.""",
        pytorch="`ZeroRedundancyOptimizer` is stage 1, `fully_shard` stage 3; DeepSpeed takes the number as `zero_optimization.stage`.",
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
