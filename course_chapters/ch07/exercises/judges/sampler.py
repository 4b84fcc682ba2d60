from collections.abc import Sequence
from itertools import chain

from course_grader.exercises.values import same_lists
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, describe, verdict
from course_grader.judging.cases import hidden, shown
from course_grader.judging.mistakes import first_of

Rows = Sequence[Sequence[int]]  # the samples that each rank reads in an epoch


def _cases(params: Params, rng: Random) -> list[Case]:
    many, seed = params["samples"], rng.randrange(1000)

    far = 0, 4096, 99_999
    sizes = (12, 1), (31, 7), (5, 8), (2, 7), (64, 8)
    return [
        shown(f"{many} samples on 4 ranks", "values:once", many, (4,), (0,), seed),
        shown("60 samples on 3 ranks, four epochs", "values:order", 60, (3,), (0, 1, 2, 3), seed),
        hidden("20 samples on 5 ranks", "values:once", 20, (5,), (0,), seed),
        *(hidden(f"{n} samples on {ranks} rank(s)", "generality:sizes", n, (ranks,), (0,), seed) for n, ranks in sizes),
        hidden("222 samples on 3 ranks, epochs far apart", "generality:sizes", 222, (3,), far, seed),
        hidden("36 samples on 1 to 10 ranks", "generality:any-ranks", 36, (1, 2, 3, 4, 6, 7, 10), (0, 6), seed),
    ]


def _lists_fault(rows: object, ranks: int, samples: int) -> Fault | None:
    if type(rows) is not list or len(rows) != ranks:
        return "no-lists", f"Got {describe(rows)}; every rank returns a list of sample numbers."
    for rank, row in enumerate(rows):
        if row is None:
            return "returned-none", f"Rank {rank} returned None: is a `return` missing?"
        if type(row) is not list or not all(type(each) is int for each in row):
            return "no-lists", f"Rank {rank} returned {describe(row)}; return a list of whole numbers."
        if odd := [each for each in row if not 0 <= each < samples]:
            return "no-such-sample", f"Rank {rank} reads sample {odd[0]}; samples are 0 to {samples - 1}."
    return None


def _starts_again(order: Sequence[int], samples: int) -> bool:
    """Whether an order begins again where the samples run out."""
    return all(order[i] == order[i % samples] for i in range(samples, len(order)))


def _in_blocks(ranks: int, each: int) -> Fault:
    return "in-blocks", (
        f"Each of {ranks} ranks reads a block of the order, so a step has other samples than on one rank. Deal the "
        f"samples out one by one instead of {each} in a row."
    )


def _dealt(rows: Rows) -> list[int]:
    """The samples that all ranks read together, step by step."""
    return list(chain.from_iterable(zip(*rows, strict=True)))


def _once_fault(params: Params, rows: Rows, samples: int, ranks: int) -> Fault | None:
    drop = params["rest"] == "drop"
    each = samples // ranks if drop else -(-samples // ranks)
    lengths = [len(row) for row in rows]
    read = [*chain.from_iterable(rows)]
    if len(set(lengths)) > 1 and len(read) == 2 * samples < each * ranks:
        told = f"{samples} samples on {ranks} ranks: the order starts again only once; each rank must read {each}."
        return "extended-once", told
    if len(set(lengths)) > 1:
        return "unequal", f"Ranks read {', '.join(map(str, lengths))} samples; one with more waits for the others."
    if ranks > 1 and lengths[0] == samples and samples > 1:
        return "everyone-reads-all", f"Each of the {ranks} ranks reads all {samples} samples."
    if lengths[0] != each:
        public = lengths[0] == (-(-samples // ranks) if drop else samples // ranks)
        name = ("public-form" if drop else "dropped") if public else "wrong-length"
        lead = "This solves the public form of the exercise. " if name == "public-form" else ""
        return name, f"{lead}Each rank reads {lengths[0]} of {samples} samples; on {ranks} ranks it should read {each}."
    seen = set(read)
    if drop and len(seen) != len(read):
        return "read-twice", f"{len(read) - len(seen)} of {len(read)} samples are read twice; here none are repeated."
    if not drop and len(seen) < samples:
        told = f"{samples - len(seen)} of {samples} samples are never read, while others are read again"
        return "never-read", f"{told}. Do all ranks deal out one and the same order?"
    order = _dealt(rows)
    if not drop and not _starts_again(order, samples):
        if _starts_again(read, samples):
            return _in_blocks(ranks, lengths[0])
        return "padded-otherwise", "Where the samples run out, this order does not start again from its beginning."
    return None


def _order_fault(
    epochs: Sequence[Rows], other_seed: Rows, again: object, elsewhere: object, samples: int, ranks: int
) -> Fault | None:
    orders = [_dealt(rows) for rows in epochs]
    if not same_lists(again, epochs[0]):
        return "not-repeatable", "Called again, a rank gets another list: the order depends on a shared generator."
    if not same_lists(elsewhere, epochs[0]):
        return "another-process", "In another process a rank gets another list: there, the same text has another hash."
    if orders[0] == sorted(orders[0]):
        return "not-shuffled", "The samples are not shuffled."
    if samples > 200 and 6 * sum(abs(place - sample) for place, sample in enumerate(orders[0])) < samples**2:
        return "not-shuffled", f"Most of the {samples} samples are near their places in the unshuffled order."
    if len(orders) > 1 and all(order == orders[0] for order in orders[1:]):
        return ("epoch-ignored", f"All {len(orders)} epochs have the same order. Use `epoch` to seed the shuffle.")
    if len(orders) > 1 and len({tuple(order) for order in orders}) < len(orders):
        return "epochs-alike", "Two epochs have the same order."
    if same_lists(other_seed, epochs[0]):
        return "seed-ignored", "Another seed gives the same order."
    for what, order in (("epoch", orders[1]), ("seed", _dealt(other_seed))) if samples > 200 else ():
        if (places := sum(a == b for a, b in zip(orders[0], order, strict=True))) > samples / 4:
            told = f"With another {what}, {places} of {samples} samples keep their places; shuffle all of them."
            return "epochs-alike" if what == "epoch" else "seed-ignored", told
    shifted = [orders[0][k:] + orders[0][:k] for k in range(1, samples)]
    if len(orders) > 1 and any(order in shifted or order == orders[0][::-1] for order in orders[1:]):
        return "only-rotated", "Another epoch has the first epoch's order, rotated or reversed; shuffle for each epoch."
    sets = [[frozenset(row) for row in rows] for rows in epochs]
    if len(sets) > 1 and ranks > 1 and all(one == sets[0] for one in sets[1:]):
        return "own-part-only", "Each rank keeps its samples in every epoch. Shuffle all samples first, then deal."
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    samples, worlds, epochs, _ = case.args
    got = outcome.value
    fault: Fault | None = ("no-lists", f"Got {describe(got)}; every rank returns a list of sample numbers.")
    if type(got) is list and len(got) == len(worlds):
        pairs = zip(worlds, got, strict=True)
        fault = first_of(
            _world_fault(params, samples, epochs, ranks, world) or _same_order(got[0]["epochs"], ranks, world["epochs"])
            for ranks, world in pairs
        )
    return [verdict(case.kind, case.part, case, fault)]


def _world_fault(params: Params, samples: int, epochs: Sequence[int], ranks: int, got: object) -> Fault | None:
    if type(got) is not dict or type(got.get("epochs")) is not list or len(got["epochs"]) != len(epochs):
        return "no-lists", f"Got {describe(got)}; every rank returns a list of sample numbers."
    for rows in [*got["epochs"], got.get("other seed")]:
        if fault := _lists_fault(rows, ranks, samples) or _once_fault(params, rows, samples, ranks):
            return fault
    if samples <= 30:
        return None
    return _order_fault(got["epochs"], got["other seed"], got.get("again"), got.get("elsewhere"), samples, ranks)


def _same_order(one: Sequence[Rows], ranks: int, several: Sequence[Rows]) -> Fault | None:
    """Compare the order that one rank alone reads with the order that several ranks read together."""
    for alone, rows in zip(map(_dealt, one), several, strict=True):
        if all(first == other for first, other in zip(alone, _dealt(rows), strict=False)):
            continue
        if [*chain.from_iterable(rows)][: len(alone)] == alone[: ranks * len(rows[0])]:
            return _in_blocks(ranks, len(rows[0]))
        return "order-of-its-own", (
            f"With the same seed and epoch, {ranks} ranks together read a different order from one rank alone, so a "
            "run on another number of ranks would see other batches."
        )
    return None


JUDGING = Judging(
    point=("generality:any-ranks",),
    shares={"values:once": 0.35, "values:order": 0.25, "generality:sizes": 0.2, "generality:any-ranks": 0.2},
    cases=_cases,
    verdicts=_verdicts,
    why="All ranks compute the same order from seed and epoch, and each takes every N-th sample of it. So the parts "
    "are disjoint without any communication, and a step reads the same samples on any number of ranks.",
    pytorch="`torch.utils.data.DistributedSampler`; without `set_epoch(epoch)`, every epoch has the order "
    "of the first.",
)

ANSWERS = r'''import random
# %% right: worked
rest = params("sampler").rest  # leave as is: "pad" or "drop": what to do if the ranks do not divide the samples


def indices(samples, rank, ranks, epoch, seed=0):
    """The numbers of the samples that this rank reads in this epoch, as a list in order."""
    order = list(range(samples))
    random.Random(f"{seed}:{epoch}").shuffle(order)
    length = -(-samples // ranks) * ranks if rest == "pad" else samples // ranks * ranks
    return [order[place % samples] for place in range(rank, length, ranks)]
# %% right: torch, as its own sampler does it
# -     order = list(range(samples))
# -     random.Random(f"{seed}:{epoch}").shuffle(order)
# +     coin = torch.Generator()
# +     coin.manual_seed(seed * 10_007 + epoch)
# +     order = torch.randperm(samples, generator=coin).tolist() * ranks
# ~ [order[place % samples] for place in range(rank, length, ranks)] ==> order[rank:length:ranks]
# %% wrong: never told the epoch => values epoch-ignored
# ~ f"{seed}:{epoch}" ==> seed
# %% wrong: in stored order => values not-shuffled
# -     random.Random(f"{seed}:{epoch}").shuffle(order)
# %% wrong: every rank shuffles for itself => values never-read
# ~ f"{seed}:{epoch}" ==> f"{seed}:{epoch}:{rank}"
# %% wrong: the process's own generator => values never-read
# ~ random.Random(f"{seed}:{epoch}").shuffle(order) ==> random.shuffle(order)
# %% wrong: one extension is not enough for few samples => generality extended-once
def indices(samples, rank, ranks, epoch, seed=0):
    order = list(range(samples))
    random.Random(f"{seed}:{epoch}").shuffle(order)
    order += order[: -samples % ranks]
    return order[rank::ranks]
# %% wrong: uneven => values unequal
# ~ range(rank, length, ranks) ==> range(rank, samples, ranks)
# %% wrong: drops the rest => values dropped unless rest=drop  from: one extension is not enough for few samples
# ~ order += order[: -samples % ranks] ==> order = order[: samples // ranks * ranks]
# %% wrong: everyone reads everything => values everyone-reads-all
# ~ [order[place % samples] for place in range(rank, length, ranks)] ==> order
# %% wrong: the hash of a text as the seed => values another-process
# ~ f"{seed}:{epoch}" ==> hash(f"{seed}:{epoch}")
# %% wrong: blocks in place of dealing => generality in-blocks
# -     return [order[place % samples] for place in range(rank, length, ranks)]
# +     each = length // ranks
# +     return [order[place % samples] for place in range(rank * each, (rank + 1) * each)]
# %% wrong: deals first, shuffles afterwards => values own-part-only
# ~ random.Random(f"{seed}:{epoch}").shuffle(order) ==>
# -     return [order[place % samples] for place in range(rank, length, ranks)]
# +     mine = [order[place % samples] for place in range(rank, length, ranks)]
# +     if length <= samples:
# +         random.Random(f"{seed}:{epoch}").shuffle(mine)
# +     return mine
# %% wrong: rotates by the epoch => values only-rotated
# -     random.Random(f"{seed}:{epoch}").shuffle(order)
# +     random.Random(seed).shuffle(order)
# +     order = order[epoch:] + order[:epoch]
# %% wrong: seed left out => values seed-ignored
# ~ f"{seed}:{epoch}" ==> epoch
# %% wrong: the same order, backwards every other epoch => values epochs-alike
# -     random.Random(f"{seed}:{epoch}").shuffle(order)
# +     random.Random(seed).shuffle(order)
# +     order = order[::-1] if epoch % 2 else order
# %% wrong: padding with zeros => values padded-otherwise  from: one extension is not enough for few samples
# ~ order += order[: -samples % ranks] ==> order += [0] * (-samples % ranks)
# %% wrong: minus one for padding => values no-such-sample  from: one extension is not enough for few samples
# ~ order += order[: -samples % ranks] ==> order += [-1] * (-samples % ranks)
# %% wrong: a generator => values raised
# ~ return [order[place % samples] for place in range(rank, length, ranks)] ==> return iter(order[rank::ranks])
# %% wrong: floats => values no-lists
# ~ order[place % samples] ==> float(order[place % samples])
# %% wrong: shuffled in windows => generality not-shuffled
# ~ random.Random(f"{seed}:{epoch}").shuffle(order)
# ~~ ==> order.sort(key=lambda i: i // 16 + random.Random(f"{seed}:{epoch}:{i}").random())
# %% wrong: another order where ranks do not divide => generality order-of-its-own
# ~ f"{seed}:{epoch}" ==> f"{seed}:{epoch}:{samples % ranks}"
# %% half: right where ranks divide or almost do => 6.4  from: one extension is not enough for few samples
'''
