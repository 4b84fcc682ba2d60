import math
from collections.abc import Mapping

from course_chapters.ch08.exercises.zero_state import BUCKETS
from course_grader.judging import EXACT, FINE, Case, Column, Judging, Params, Random, Worked, one_verdict, shown, table
from course_grader.judging.random_inputs import draw_rows, generality, plain, safely_off_whole
from course_lib.estimate.memory import CONVENTIONS
from course_lib.estimate.units import BILLION, GB

right = Worked("zero-state")
NONE = "the part that stays whole leaves no memory for the rest on any number of ranks; return None"
HELD = Column("held", "bytes", words=right.words(0), rel=FINE)
FEWEST = Column("fewest", "ranks", words=right.words(1), rel=EXACT, none=NONE)


def _clear(row: tuple[float, int, Mapping[str, float], float]) -> bool:
    """Whether no memory is exactly full, because rounding would decide there."""
    p, stage, buckets, memory = row
    whole = right[0](p, stage, math.inf, buckets)
    ranks = (right[0](p, stage, 1, buckets) - whole) / (memory - whole) if memory != whole else 0.0
    return abs(memory - whole) > 1e-3 * memory and safely_off_whole(ranks)


def _cases(params: Params, rng: Random) -> list[Case]:
    own = {name: params[name] for name in BUCKETS}
    p, n, m = params["params"], params["ranks"], params["memory"]
    sizes, counts = (1e9, 3e9, 7e9, 13e9, 34e9, 70e9, 180e9, 405e9), (1, 2, 3, 7, 48, 640, 24_576)
    rooms = [room * GB for room in (16, 24, 40, 80, 141, 192)]
    optimizers = {letter: {name: CONVENTIONS[letter].buckets[name] for name in BUCKETS} for letter in "ABCDFG"}
    unlike = optimizers[rng.choice(sorted(set("ACDFG") - {params["convention"]}))]
    many = [(size, 3, unlike, room) for size in (70e9, 180e9, 405e9) for room in (40 * GB, 44 * GB, 46 * GB)]
    others = [*optimizers.values()]
    rows = [row for stage in range(4) for row in draw_rows(rng, 5, sizes, (stage,), counts, others)]
    limits = [row for stage in (1, 2, 3) for row in draw_rows(rng, 12, sizes, (stage,), others, rooms, keep=_clear)]
    sixteen = {"weights": 2, "grads": 2, "master": 4, "moments": 8}
    turned: dict[str, float] = {"moments": 4, "master": 3, "grads": 4, "weights": 1}  # other bytes, in another order
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
        plain("fewest", 1, "the fewest with another optimizer", [*filter(_clear, many)]),
        generality("optimizers", 0, "other optimizers", rows),
        generality("cards", 1, "other GPUs", limits),
        generality("cards", 1, "one rank, exactly full, and never", edges),
    ]


JUDGING = Judging(
    shares={"values:held": 0.4, "values:fewest": 0.25, "generality:optimizers": 0.15, "generality:cards": 0.2},
    cases=_cases,
    verdicts=one_verdict(table(HELD, FEWEST, right=right)),
    why="""Each stage divides one more bucket by N. The rest is a floor that no number of ranks lowers: 4 bytes per
parameter in stage 1, 2 in stage 2, none in stage 3. The stages shard the largest bucket first.""",
    pytorch="`ZeroRedundancyOptimizer` is stage 1, `fully_shard` stage 3; DeepSpeed takes the number as "
    "`zero_optimization.stage`.",
)

ANSWERS = r'''# %% right: worked
SINCE = {"master": 1, "moments": 1, "grads": 2, "weights": 3}  # the stage that shards a bucket


def held(params: float, stage: int, ranks: int, buckets: dict[str, float]) -> float:
    """Bytes of training state on one rank; `buckets` has bytes per parameter."""
    return sum(params * size / (ranks if stage >= SINCE[name] else 1) for name, size in buckets.items())


def fewest_ranks(params: float, stage: int, buckets: dict[str, float], memory: float) -> int | None:
    """The fewest ranks on which the state fits into `memory` bytes each; None if no number helps."""
    whole = params * sum(size for name, size in buckets.items() if stage < SINCE[name])
    shared = params * sum(buckets.values()) - whole
    if shared == 0:
        return 1 if whole <= memory else None
    if whole >= memory:
        return None
    return max(1, math.ceil(shared / (memory - whole)))
# %% right: the fewest by halving  from: worked
from bisect import bisect_left


def fewest_ranks(params, stage, buckets, memory):
    counts = range(1, 10**12)
    place = bisect_left(counts, True, key=lambda n: held(params, stage, n, buckets) <= memory * (1 + 1e-12))
    return counts[place] if place < len(counts) else None
# %% wrong: everything divided at every stage => values all-shared
# > some buckets stay whole.
# ~ ranks if stage >= SINCE[name] ==> ranks if stage
# %% wrong: nothing shared => values
# > no bucket is divided.
# ~ ranks if stage >= SINCE[name] else 1 ==> 1
# %% wrong: the stages begin one too early => values one-stage-more
# > this is the state of the next stage.
# ~ ranks if stage >= SINCE[name] ==> ranks if stage and stage + 1 >= SINCE[name]
# %% wrong: the stages counted from zero => values one-stage-more
# ~ ranks if stage >= SINCE[name] ==> ranks if stage + 1 >= SINCE[name]
# %% wrong: gradients sharded from stage 1 => values
# > gradients are sharded from stage 2 on.
# ~ "grads": 2 ==> "grads": 1
# %% wrong: one stage less => values
# > this is the state of the previous stage.
# ~ ranks if stage >= SINCE[name] ==> ranks if stage > SINCE[name]
# %% wrong: the master copy left out, as a published table does => values no-master
# > the master copy is missing.
# ~ else 1) for name, size in buckets.items() ==> else 1) for name, size in buckets.items() if name != "master"
# %% wrong: the master copy counted with the weights => values master-whole
# > the master copy is sharded with the optimizer, from stage 1 on.
# ~ "master": 1 ==> "master": 3
# %% wrong: no gradients => values
# > gradients are missing.
# ~ else 1) for name, size in buckets.items() ==> else 1) for name, size in buckets.items() if name != "grads"
# %% wrong: only shared => values
# > the buckets that stay whole are missing.
# ~ else 1) for name, size in buckets.items() ==> else 1) for name, size in buckets.items() if stage >= SINCE[name]
# %% wrong: all ranks => values
# > this is the sum over all ranks, not one rank.
# ~ return sum(params * size ==> return ranks * sum(params * size
# %% wrong: the fewest as if all were shared => values all-shared
# > this is total bytes over memory, as if every bucket were divided.
# ~ if stage < SINCE[name]) ==> if stage < SINCE[name]) * 0
# %% wrong: rounded down => values
# > it does not fit on so few ranks.
# ~ math.ceil(shared / (memory - whole)) ==> int(shared / (memory - whole))
# %% wrong: one rank more where it is exactly full => values one-more
# > one rank fewer is enough; exactly full fits.
# ~ math.ceil(shared / (memory - whole)) ==> int(shared / (memory - whole)) + 1
# %% wrong: powers of two only => values power-of-two
# > any number of ranks is allowed, not only powers of two.
# ~ max(1, math.ceil(shared / (memory - whole)))
# ~~ ==> 1 << (max(1, math.ceil(shared / (memory - whole))) - 1).bit_length()
# %% wrong: the card's GB taken for GiB => values in-GiB
# > a GB is 10⁹ bytes, not a GiB.
# ~ shared = params ==> memory, shared = memory * 2**30 / 1e9, params
# %% wrong: a negative number where nothing helps => values none-is-right
# ~ if whole >= memory: ==> if False:
# ~ max(1, math.ceil(shared / (memory - whole))) ==> math.ceil(shared / (memory - whole))
# %% wrong: the example's bytes, whatever comes => values
# > these are the bytes of the shown `buckets`, whatever buckets are given.
# ~ SINCE = {"master" ==> from course_lib import params as numbers; SINCE = {"master"
# ~ buckets.items()) ==> ((each, getattr(numbers("zero-state"), each)) for each in SINCE))
# %% half: the first function only => 1.6
# ~ shared = params * sum(buckets.values()) - whole ==> raise NotImplementedError
# %% wrong: buckets by their places => generality
# > buckets are taken by their places in the dictionary; take them by name.
# ~ buckets.items()) ==> zip(("weights", "grads", "master", "moments"), buckets.values()))
'''
