"""Judge of exactly-once: every sample exactly once."""

import random
from collections.abc import Sequence
from typing import Any

from course_lib.exercises.ch14.judges.shared import told
from course_lib.judging import Fault, Judging, Params, describe, oracle
from course_lib.judging.cases import hidden, ranks_text, shown
from course_lib.records import Case


def _larger_last(ids: Sequence[int], ranks: int) -> list[list[int]]:
    starts = [len(ids) * rank // ranks for rank in range(ranks + 1)]
    return [list(ids[a:b]) for a, b in zip(starts, starts[1:], strict=False)]


def _sampler_cases(params: Params, rng: random.Random) -> list[Case]:
    def run(make: Any, name: str, share: str, samples: int, batch: int, phases: Any, consumed: int = 0) -> Case:
        return make(name, share, rng.randrange(1000), samples, batch, phases, consumed)

    drawn = [(rng.randrange(1, 5), rng.randrange(1, 7)) for _ in range(4)]
    return [
        run(shown, "20 samples, 4 ranks and then 2", "values:run", 20, 8, [(2, 4), (3, 2)]),
        run(hidden, "one rank alone", "values:run", 20, 8, [(9, 1)]),
        run(hidden, "4 ranks, then 3, then 5", "values:run", 36, 12, [(2, 4), (3, 3), (4, 5)]),
        run(hidden, "a batch that the ranks do not divide", "values:uneven", 30, 7, [(3, 4), (4, 3), (2, 2)]),
        run(hidden, "more ranks than ids", "values:uneven", 12, 3, [(3, 5), (3, 2)]),
        run(hidden, "an epoch that the batch does not divide", "generality:epochs", 17, 5, [(4, 2), (7, 3)]),
        run(hidden, "epochs shorter than a batch", "generality:epochs", 5, 12, [(3, 2), (3, 3)]),
        run(hidden, "from a checkpoint in the fifth epoch", "generality:epochs", 13, 4, [(5, 3)], 13 * 4 + 8),
        run(hidden, "from a checkpoint at the end of an epoch", "generality:epochs", 16, 4, [(5, 2)], 32),
        run(hidden, "drawn sizes", "generality:epochs", rng.randrange(9, 40), rng.randrange(2, 9), drawn),
        run(hidden, "many ranks, ids and epochs", "generality:epochs", 100, 30, [(2, 12), (1, 9)], 20_000_037),
        run(hidden, "one sample", "generality:epochs", 1, 1, [(3, 2)]),
    ]


def _sampler_fault(params: Params, case: Case, got: Any) -> Fault | None:
    short = params["batches"] == "short"
    want = told(case.args, short)
    if got == want:
        return None
    lead = "this solves the public form of the exercise: " if short else ""
    other = (
        "a batch never spans epochs here." if short else "a batch that ends with the epoch is filled from the next one."
    )
    strided = {"share": lambda ids, ranks: [list(ids[rank::ranks]) for rank in range(ranks)]}
    dropped = {
        "share": lambda ids, ranks: [list(ids[r * (n := len(ids) // ranks) : (r + 1) * n]) for r in range(ranks)]
    }
    known: list[tuple[str, bool, dict[str, Any], str]] = [
        ("public-form" if short else "short-batches", not short, {}, lead + other),
        ("strided", short, strided, "each rank reads every n-th id; contiguous parts are asked for."),
        ("remainder-dropped", short, dropped, "the ids that are left after dividing by the ranks are read by nobody."),
        ("larger-last", short, {"share": _larger_last}, "the larger parts come first."),
        ("first-order-again", short, {"first": True}, "every epoch has an order of its own; `order(epoch)` gives it."),
    ]
    for name, kind, change, message in known:
        if got == told(case.args, kind, **change):
            return name, message
    steps = [(ranks, at) for count, ranks in case.args[3] for at in range(count)]
    for at, (one, two) in enumerate(zip(got, want, strict=False)):
        where = f"step {at + 1}, {ranks_text(steps[at][0])}: "
        if type(one) is not dict or len(one["consumed"]) != 1:
            return "ranks-disagree", f"{where}the ranks return different numbers, or no whole number, of consumed ids."
        read, wanted = [each for part in one["ids"] for each in part], [each for part in two["ids"] for each in part]
        if len(set(read)) < len(set(wanted)) and set(read) < set(wanted):
            return "not-read", f"{where}{len(set(wanted) - set(read))} ids of the batch are read by no rank."
        if read != wanted:
            return (
                "other-batch",
                f"{where}the ranks together read {describe(read)}, and the batch is {describe(wanted)}.",
            )
        if one["ids"] != two["ids"]:
            return "other-parts", f"{where}the parts are {describe(one['ids'])}; they must be {describe(two['ids'])}."
        if one["consumed"] != two["consumed"]:
            return "miscounted", f"{where}{one['consumed'][0]} ids are said to be consumed; it is {two['consumed'][0]}."
    return "too-few-steps", "the run ended early."


JUDGING = Judging(
    shares="values:run 0.4, values:uneven 0.2, generality:epochs 0.4",
    cases=_sampler_cases,
    verdicts=oracle(lambda params, case, outcome: _sampler_fault(params, case, outcome.value), named=True),
    why="""The stream of batches belongs to the job, not to its ranks: it follows from the seed and one number. Ranks only divide a
batch. So any number of ranks can go on from any checkpoint, and the loss is that of the undisturbed run up to rounding.""",
    pytorch="`DistributedSampler` divides the data by ranks first, so its order depends on their number; `torchdata`'s `StatefulDataLoader` saves a position per rank.",
)

ANSWERS = r"""# %% right: as written
def take(order, consumed, batch, rank, ranks):
    size, ids = len(order(0)), []
    while len(ids) < batch:
        epoch, place = divmod(consumed + len(ids), size)
        ids += order(epoch)[place : place + batch - len(ids)]
    small, extra = divmod(len(ids), ranks)
    start = rank * small + min(rank, extra)
    return ids[start : start + small + (rank < extra)], consumed + len(ids)


# %% right: id by id
def take(order, consumed, batch, rank, ranks):
    size = len(order(0))
    ids = [order(at // size)[at % size] for at in range(consumed, consumed + batch)]
    sizes = [(len(ids) + ranks - 1 - each) // ranks for each in range(ranks)]
    start = sum(sizes[:rank])
    return ids[start : start + sizes[rank]], consumed + batch


# %% right: any variant  from: as written
# - def take(order, consumed, batch, rank, ranks):
# + from course_lib import params
# + BATCHES = params("exactly-once").batches
# + def take(order, consumed, batch, rank, ranks):
#           ids += order(epoch)[place : place + batch - len(ids)]
# +         if BATCHES == "short":
# +             break

# %% wrong: short batches at the end => values short-batches unless batches=short  from: as written
#           ids += order(epoch)[place : place + batch - len(ids)]
# +         break

# %% wrong: every n-th id => values strided  from: as written
# ~ ids[start : start + small + (rank < extra)], ==> ids[rank::ranks],

# %% wrong: the remainder is dropped => values remainder-dropped  from: as written
# -     start = rank * small + min(rank, extra)
# -     return ids[start : start + small + (rank < extra)], consumed + len(ids)
# +     return ids[rank * small : (rank + 1) * small], consumed + len(ids)

# %% wrong: the larger parts last => values larger-last  from: as written
# ~ start = rank * small + min(rank, extra) ==> start, end = len(ids) * rank // ranks, len(ids) * (rank + 1) // ranks
# ~ ids[start : start + small + (rank < extra)], consumed ==> ids[start:end], consumed

# %% wrong: the first epoch's order again => values first-order-again  from: as written
# ~ (epoch) ==> (0)

# %% wrong: it counts its own ids => values -  from: as written
# -     return ids[start : start + small + (rank < extra)], consumed + len(ids)
# +     mine = ids[start : start + small + (rank < extra)]
# +     return mine, consumed + len(mine)


# %% wrong: a position per rank => values -
def take(order, consumed, batch, rank, ranks):
    mine = order(0)[rank::ranks]
    at, each = consumed // ranks, batch // ranks
    return [mine[(at + k) % len(mine)] for k in range(each)], consumed + batch


# %% wrong: a batch spans two epochs at most => generality -  from: as written
# ~ while len(ids) < batch: ==> for _ in range(2):

# %% wrong: the count stays => values -  from: as written
# -     return ids[start : start + small + (rank < extra)], consumed + len(ids)
# +     return ids[start : start + small + (rank < extra)], consumed

# %% wrong: the last rank takes the rest => values -  from: as written
# -     start = rank * small + min(rank, extra)
# -     return ids[start : start + small + (rank < extra)], consumed + len(ids)
# +     start = rank * small
# +     return ids[start:] if rank == ranks - 1 else ids[start : start + small], consumed + len(ids)

# %% wrong: it remembers orders by epoch and length => values ~  from: as written
# ~ batch, rank, ranks): ==> batch, rank, ranks, kept={}):
# ~ order(epoch)[place ==> kept.setdefault((epoch, size), order(epoch))[place
"""
