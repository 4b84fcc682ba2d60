"""Judge of zero-state: who holds how much?"""

import math
import random
from typing import Any

from course_lib.exercises.ch08.judges.shared import Buckets, held, least_ranks, split
from course_lib.exercises.ch08.zero_state import BUCKETS
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, FINE, Column, one_verdict, table
from course_lib.judging.draws import generality, plain, safely_off_whole
from course_lib.judging.mistakes import scaled
from course_lib.memory import CONVENTIONS
from course_lib.records import Case
from course_lib.units import BILLION, GB


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


JUDGING = Judging(
    shares={"values:held": 0.4, "values:fewest": 0.25, "generality:optimizers": 0.15, "generality:cards": 0.2},
    cases=_state_cases,
    verdicts=one_verdict(table(HELD, FEWEST)),
    why="""Each stage divides one more bucket by N. The rest is a floor that no number of ranks lowers: 4 bytes per parameter in stage 1, 2
in stage 2, none in stage 3. The stages shard the largest bucket first.""",
    pytorch="`ZeroRedundancyOptimizer` is stage 1, `fully_shard` stage 3; DeepSpeed takes the number as `zero_optimization.stage`.",
)

ANSWERS = r"""import math


# %% right: whole and shared
SINCE = {"master": 1, "moments": 1, "grads": 2, "weights": 3}  # the stage that shares a bucket out


def held(params, stage, ranks, buckets):
    return sum(params * size / (ranks if stage >= SINCE[name] else 1) for name, size in buckets.items())


def fewest_ranks(params, stage, buckets, memory):
    whole = params * sum(size for name, size in buckets.items() if stage < SINCE[name])
    shared = params * sum(buckets.values()) - whole
    if shared == 0:
        return 1 if whole <= memory else None
    if whole >= memory:
        return None
    return max(1, math.ceil(shared / (memory - whole)))


# %% right: stage by stage, the fewest by halving
from bisect import bisect_left


def held(params, stage, ranks, buckets):
    w, g, o = buckets["weights"], buckets["grads"], buckets["master"] + buckets["moments"]
    per = [w + g + o, w + g + o / ranks, w + (g + o) / ranks, (w + g + o) / ranks][stage]
    return per * params


def fewest_ranks(params, stage, buckets, memory):
    most, counts = memory * (1 + 1e-12), range(1, 10**12)
    place = bisect_left(counts, True, key=lambda n: held(params, stage, n, buckets) <= most)
    return counts[place] if place < len(counts) else None


# %% wrong: everything divided at every stage => values all-shared  from: the fewest as if all were shared
# ~ stage >= since[name] ==> stage

# %% wrong: the stages begin one too early => values one-stage-more  from: the fewest as if all were shared
# ~ stage >= since[name] ==> stage and stage + 1 >= since[name]

# %% wrong: the master copy left out, as a published table does => values no-master  from: the fewest as if all were shared
# ~ buckets.items() ==> buckets.items() if name != "master"
# ~ math.ceil(params * sum(buckets.values()) / memory) ==> None

# %% wrong: the master copy counted with the weights => values master-whole  from: the fewest as if all were shared
# ~ "master": 1 ==> "master": 3
# ~ math.ceil(params * sum(buckets.values()) / memory) ==> 1

# %% wrong: all ranks together => values all-ranks  from: the fewest as if all were shared
# ~ return sum ==> return ranks * sum
# ~ math.ceil(params * sum(buckets.values()) / memory) ==> None

# %% wrong: in GB => values in-GB  from: all ranks together
# ~ ranks * sum ==> 1e-9 * sum


# %% wrong: the fewest as if all were shared => values all-shared
def held(params, stage, ranks, buckets):
    since = {"master": 1, "moments": 1, "grads": 2, "weights": 3}
    return sum(params * size / (ranks if stage >= since[name] else 1) for name, size in buckets.items())


def fewest_ranks(params, stage, buckets, memory):
    return math.ceil(params * sum(buckets.values()) / memory)


# %% wrong: rounded down => values rounded-down  from: the fewest as if all were shared
# -     return math.ceil(params * sum(buckets.values()) / memory)
# +     whole = held(params, stage, 10**18, buckets)
# +     if whole >= memory:
# +         return None
# +     return int((held(params, 0, 1, buckets) - whole) / (memory - whole))

# %% wrong: a negative number where nothing helps => values -  from: the fewest as if all were shared
# -     return math.ceil(params * sum(buckets.values()) / memory)
# +     whole = held(params, stage, 10**18, buckets)
# +     return math.ceil((held(params, 0, 1, buckets) - whole) / (memory - whole))


# %% wrong: the example's bytes, whatever comes => values -  from: whole and shared
# - def held(params, stage, ranks, buckets):
# + from course_lib import params as numbers
# + def held(params, stage, ranks, buckets):
# +     buckets = {name: getattr(numbers("zero-state"), name) for name in SINCE}
#   def fewest_ranks(params, stage, buckets, memory):
# +     buckets = {name: getattr(numbers("zero-state"), name) for name in SINCE}

# %% wrong: one rank more where it is exactly full => values one-more  from: the fewest as if all were shared
# -     return math.ceil(params * sum(buckets.values()) / memory)
# +     return next((n for n in range(1, 2000) if held(params, stage, n, buckets) < memory), None)

# %% wrong: powers of two only => values -  from: the fewest as if all were shared
# -     return math.ceil(params * sum(buckets.values()) / memory)
# +     return next((n for n in (2**power for power in range(24)) if held(params, stage, n, buckets) <= memory), None)

# %% wrong: the card's GB taken for GiB => values -  from: the fewest as if all were shared
# -     return math.ceil(params * sum(buckets.values()) / memory)
# +     return next((n for n in range(1, 5000) if held(params, stage, n, buckets) <= memory * 2**30 / 1e9), None)

# %% half: the first function only => 1.6  from: the fewest as if all were shared
# ~ return math.ceil(params * sum(buckets.values()) / memory) ==> raise NotImplementedError

# %% wrong: buckets by their places => generality -  from: stage by stage, the fewest by halving
# ~ w, g, o = buckets["weights"], buckets["grads"], buckets["master"] + buckets["moments"] ==> w, g, *o = buckets.values(); o = sum(o)
"""
