import random
from collections.abc import Sequence

from course_grader.judging import Case, Fault, Judging, Params, Worked, describe, hidden, oracle, ranks_text, shown
from course_grader.judging.cases import Maker

right = Worked("exactly-once")


def _sampler_cases(params: Params, rng: random.Random) -> list[Case]:
    def run(make: Maker, name: str, share: str, samples: int, batch: int, phases: object, consumed: int = 0) -> Case:
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


def _sampler_fault(case: Case, got: Sequence[object]) -> Fault | None:
    want = right.value(case)
    if all(type(one) is dict and one["changed"] is False for one in got) and got == want:
        return None
    steps = [(ranks, at) for count, ranks in case.args[3] for at in range(count)]
    for at, (one, two) in enumerate(zip(got, want, strict=False)):
        where = f"step {at + 1}, {ranks_text(steps[at][0])}: "
        if type(one) is dict and one["changed"] is not False:
            return "order-changed", f"{where}the list that `order` returned was changed; make a new one."
        if type(one) is not dict or len(one["consumed"]) != 1:
            return "ranks-disagree", f"{where}the ranks return different numbers, or no whole number, of consumed ids."
        read, wanted = [each for part in one["ids"] for each in part], [each for part in two["ids"] for each in part]
        if len(set(read)) < len(set(wanted)) and set(read) < set(wanted):
            return "not-read", f"{where}{len(set(wanted) - set(read))} ids of the batch are read by no rank."
        if read != wanted:
            told = f"{where}the ranks together read {describe(read)}, and the batch is {describe(wanted)}."
            return "other-batch", told
        if one["ids"] != two["ids"]:
            return "other-parts", f"{where}the parts are {describe(one['ids'])}; they must be {describe(two['ids'])}."
        if one["consumed"] != two["consumed"]:
            return "miscounted", f"{where}{one['consumed'][0]} ids are said to be consumed; it is {two['consumed'][0]}."
    return "too-few-steps", "the run ended early."


JUDGING = Judging(
    shares="values:run 0.4, values:uneven 0.2, generality:epochs 0.4",
    cases=_sampler_cases,
    verdicts=oracle(lambda params, case, outcome: _sampler_fault(case, outcome.value), named=True),
    why="""The stream of batches belongs to the job, not to its ranks: it follows from the seed and one number. Ranks
only divide a batch. So any number of ranks can go on from any checkpoint, and the loss is that of the undisturbed run
up to rounding.""",
    pytorch="`DistributedSampler` divides the data by ranks first, so its order depends on their number; "
    "`torchdata`'s `StatefulDataLoader` saves a position per rank.",
)

ANSWERS = r'''# %% right: worked
batches = params("exactly-once").batches  # leave as is: they "span" epochs, or the last one of an epoch is "short"


def take(order, consumed: int, batch: int, rank: int, ranks: int) -> tuple[list[int], int]:
    """The ids that this rank reads in the next step, and how many all ranks have read after it."""
    size, ids = len(order(0)), []
    while len(ids) < batch:
        epoch, place = divmod(consumed + len(ids), size)
        ids += order(epoch)[place : place + batch - len(ids)]
        if batches == "short":
            break
    small, extra = divmod(len(ids), ranks)
    start = rank * small + min(rank, extra)
    return ids[start : start + small + (rank < extra)], consumed + len(ids)
# %% right: id by id  from: worked
def take(order, consumed, batch, rank, ranks):
    size = len(order(0))
    end = min(consumed + batch, (consumed // size + 1) * size) if batches == "short" else consumed + batch
    ids = [order(at // size)[at % size] for at in range(consumed, end)]
    sizes = [(len(ids) + ranks - 1 - each) // ranks for each in range(ranks)]
    start = sum(sizes[:rank])
    return ids[start : start + sizes[rank]], end
# %% wrong: other batches => values short-batches
# > the last batch of an epoch is different: {{means}}
# ~ batches == "short" ==> batches != "short"
# %% wrong: strided => values
# > each rank reads every n-th id; the parts must be contiguous.
# ~ ids[start : start + small + (rank < extra)] ==> ids[rank::ranks]
# %% wrong: remainder dropped => values
# > no rank reads the ids that are left over after dividing by the ranks.
# ~ ids[start : start + small + (rank < extra)] ==> ids[rank * small : (rank + 1) * small]
# %% wrong: rounded up => values
# > all parts have the size rounded up, so the last ranks get too few; sizes differ by at most one.
# ~ small, extra = divmod(len(ids), ranks) ==> small, extra = -(-len(ids) // ranks), 0
# %% wrong: larger last => values
# > the larger parts come first.
# ~ start = rank * small + min(rank, extra) ==> start, end = len(ids) * rank // ranks, len(ids) * (rank + 1) // ranks
# ~ ids[start : start + small + (rank < extra)] ==> ids[start:end]
# %% wrong: first order again => values
# > every epoch has an order of its own; `order(epoch)` gives it.
# ~ (epoch) ==> (0)
# %% wrong: own ids counted => values
# > `consumed` is what all ranks together have read, not one rank's part.
# ~ , consumed + len(ids) ==> , consumed + small + (rank < extra)
# %% wrong: position per rank => values
# > each rank goes on in a part of its own, so the batches depend on the number of ranks.
def take(order, consumed, batch, rank, ranks):
    mine = order(0)[rank::ranks]
    at, each = consumed // ranks, batch // ranks
    return [mine[(at + k) % len(mine)] for k in range(each)], consumed + batch
# %% wrong: two epochs at most => generality two-epochs unless batches=short
# > here a batch spans at most two epochs; it may span more.
# ~ while len(ids) < batch: ==> for _ in range(2):
# %% wrong: the order is used up => values order-changed
# ~ ids += order(epoch)[place ==> ids += (own := order(epoch))[place
# +         own.clear()
# %% wrong: the count stays => values
# > the second value is how many ids all ranks have read after the step.
# ~ (rank < extra)], consumed + len(ids) ==> (rank < extra)], consumed
# %% wrong: the last rank takes the rest => values
# > the last rank takes all that is left over; sizes may differ by one.
# ~ start = rank * small + min(rank, extra) ==> start = rank * small
# ~ ids[start : start + small + (rank < extra)] ==> (ids[start:] if rank == ranks - 1 else ids[start : start + small])
# %% wrong: it remembers orders by epoch and length => values ~
# ~ rank: int, ranks: int) ==> rank: int, ranks: int, kept={})
# ~ order(epoch)[place ==> kept.setdefault((epoch, size), order(epoch))[place
'''
