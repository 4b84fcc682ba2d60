"""Judge of zig-zag-positions: give every rank the same work."""

import random
from collections.abc import Sequence
from typing import Any

import torch

from course_lib.exercises.ch11.judges.shared import once
from course_lib.judging import Fault, Judging, Params, judged, number_fault
from course_lib.judging.cases import hidden, shown
from course_lib.judging.mistakes import mistakes
from course_lib.records import Case, Outcome, Verdict

Parts = list[list[int]]


def dealt(how: str, length: int, ranks: int) -> Parts:
    """Each rank's positions in one of the layouts that the variants ask for, or in one of the wrong ones."""
    if how == "snake":
        return [
            [p for p in range(length) if min(p % (2 * ranks), 2 * ranks - 1 - p % (2 * ranks)) == r]
            for r in range(ranks)
        ]
    if how == "striped":
        return [list(range(r, length, ranks)) for r in range(ranks)]
    blocks = [block.tolist() for block in torch.arange(length).tensor_split(2 * ranks)]
    other = {
        "zig-zag": lambda r: 2 * ranks - 1 - r,
        "half-apart": lambda r: r + ranks,
        "contiguous": lambda r: 2 * r + 1,
    }[how]
    return [blocks[2 * r if how == "contiguous" else r] + blocks[other(r)] for r in range(ranks)]


def imbalance(parts: Sequence[Sequence[int]]) -> float:
    """The causal pairs of the busiest rank over their mean."""
    work = [sum(p + 1 for p in own) for own in parts]
    return max(work) * len(work) / sum(work)


def _layout_cases(params: Params, rng: random.Random) -> list[Case]:
    def some(ranks: int) -> tuple[int, int]:
        return (rng.randrange(2, 5) * 2 * ranks, ranks)

    def anywhere(length: int, ranks: int) -> tuple[Parts]:
        parts: Parts = [[] for _ in range(ranks)]
        for p in range(length):
            parts[rng.randrange(ranks)].append(p)
        return (parts,)

    rest = [(2999, 4), (rng.randrange(50, 57), 4), (11, 3), (23, 5), (9, 2), (40, 9), (100, 16)]
    empty = [([[0, 1, 2], [], [3]],), ([[], [0]],), ([[2, 0], [1, 3], []],), ([[0], [1], [2], [6, 3], [4], [5], []],)]
    both = [(dealt("contiguous", 16, 4),), (dealt("zig-zag", 16, 4),)]
    return [
        shown("16 tokens on four ranks", "values:layout", 0, [(16, 4)]),
        shown("imbalance of contiguous and zig-zag parts", "values:imbalance", 1, both),
        hidden("lengths that divide", "values:layout", 0, [some(2), some(3), some(5)]),
        hidden("lengths that do not divide", "generality:lengths", 0, rest),
        hidden("fewer tokens than blocks", "generality:lengths", 0, [(7, 4), (3, 5), (1, 3), (4, 4), (5, 3)]),
        hidden("one rank", "generality:lengths", 0, [(6, 1), (7, 1), (1, 1)]),
        hidden("no token", "generality:lengths", 0, [(0, 1), (0, 3)]),
        hidden("tokens anywhere", "values:imbalance", 1, [anywhere(20, 3), anywhere(33, 4), anywhere(12, 1)]),
        hidden("imbalance with an empty rank", "values:imbalance", 1, empty),
    ]


SLIPS = {
    "contiguous": "these are contiguous parts: the last rank has the most work.",
    "half-apart": "rank r got blocks r and r + N; take the blocks from both ends.",
    "striped": "these are stripes, r, r + N, …; turn around after every round.",
    "zig-zag": "this solves the public form of the exercise: blocks from both ends.",
    "snake": "this deals tokens one by one; blocks are asked for.",
}


def _layout_fault(params: Params, case: Case, values: Sequence[Any]) -> Fault | None:
    for (length, ranks), got in zip(case.args[1], values, strict=True):
        want, lead = dealt(params["dealt"], length, ranks), f"{length} tokens on {ranks} ranks: "
        parts = [[int(p) for p in own] for own in got]
        if parts == want:
            continue
        if len(parts) != ranks:
            return "wrong-shape", f"{lead}{len(parts)} lists came back; return one for each rank."
        if fault := once(parts, length):
            return fault[0], lead + fault[1]
        for how, message in SLIPS.items():
            if how != params["dealt"] and all(
                [[int(p) for p in own] for own in other] == dealt(how, *row)
                for row, other in zip(case.args[1], values, strict=True)
            ):
                return how, lead + message
        if [sorted(own) for own in parts] == [sorted(own) for own in want]:
            return "other-order", f"{lead}each rank has the right tokens, in another order."
        if sorted(map(sorted, parts)) == sorted(map(sorted, want)):
            return "other-ranks", f"{lead}the parts are right, but they belong to other ranks."
        return (
            "other-parts",
            f"{lead}the parts are not those asked for. Where the length does not divide, which blocks are longer?",
        )
    return None


RATIOS = {
    "keys-before": "a query sees its own key, too.",
    "tokens": "these are tokens; count the keys that each query sees.",
    "without-empty": "the mean is over all ranks, empty ones included.",
    "inverse": "this is the mean over the busiest; turn it around.",
    "own-keys": "these are the keys on the same rank; a query sees those of all ranks.",
}


def _imbalance_fault(case: Case, values: Sequence[Any]) -> Fault | None:
    for (parts,), got in zip(case.args[1], values, strict=True):
        work, held = [sum(p + 1 for p in own) for own in parts], [own for own in parts if own]
        near = [sum(key <= p for p in own for key in own) for own in parts]
        fault = number_fault(
            f"parts {parts}",
            got,
            imbalance(parts),
            unit="times the mean",
            mistakes=mistakes(
                {
                    "keys-before": max(map(sum, parts)) * len(parts) / max(sum(map(sum, parts)), 1),
                    "tokens": max(map(len, parts)) * len(parts) / sum(map(len, parts)),
                    "without-empty": max(work) * len(held) / sum(work),
                    "inverse": sum(work) / len(work) / max(work),
                    "own-keys": max(near) * len(near) / sum(near),
                },
                RATIOS,
            ),
        )
        if fault:
            return fault
    return None


def _layout_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    if type(outcome.value) is str:  # not answered yet: the contract has said so
        return judged(case, ("not-answered", "this function is not answered yet."))
    fault = _imbalance_fault(case, outcome.value) if case.args[0] else _layout_fault(params, case, outcome.value)
    return judged(case, fault, named=True)


JUDGING = Judging(
    shares="values:layout 0.4, values:imbalance 0.3, generality:lengths 0.3",
    cases=_layout_cases,
    verdicts=_layout_verdicts,
    why="""A query at position p sees p + 1 keys. Pairing an early token with a late one makes every pair cost the same, so all ranks finish together. Where the length does
not divide, a few longer blocks cost almost nothing.""",
    pytorch="`context_parallel` reorders its buffers in this way by default (its load balancer for causal masks).",
)

ANSWERS = r"""import torch

from course_lib import params

SNAKE = params("zig-zag-positions").dealt == "snake"


# %% right: blocks of torch
def spread_tokens(length, ranks):
    if SNAKE:
        owners = [min(p % (2 * ranks), 2 * ranks - 1 - p % (2 * ranks)) for p in range(length)]
        return [[p for p, owner in enumerate(owners) if owner == rank] for rank in range(ranks)]
    blocks = torch.arange(length).tensor_split(2 * ranks)
    return [blocks[rank].tolist() + blocks[-1 - rank].tolist() for rank in range(ranks)]


def work_ratio(parts):
    work = [sum(position + 1 for position in part) for part in parts]
    return max(work) / (sum(work) / len(work))


# %% right: by counting
def spread_tokens(length, ranks):
    parts, start = [[] for _ in range(ranks)], 0
    turn = [*range(ranks), *reversed(range(ranks))]
    for block in range(length if SNAKE else 2 * ranks):
        size = 1 if SNAKE else length // (2 * ranks) + (block < length % (2 * ranks))
        parts[turn[block % (2 * ranks)]] += range(start, start + size)
        start += size
    return parts


def work_ratio(parts):
    tokens = sum(map(len, parts))
    return max(sum(part) + len(part) for part in parts) * len(parts) / (tokens * (tokens + 1) / 2)


# %% wrong: contiguous parts => values contiguous  from: blocks of torch
# ~ if SNAKE: ==> if False:
# ~ blocks[rank].tolist() + blocks[-1 - rank].tolist() ==> blocks[2 * rank].tolist() + blocks[2 * rank + 1].tolist()

# %% wrong: half a sequence apart => values half-apart  from: blocks of torch
# ~ if SNAKE: ==> if False:
# ~ blocks[-1 - rank] ==> blocks[rank + ranks]


# %% wrong: stripes => values striped  from: blocks of torch
def spread_tokens(length, ranks):
    return [list(range(rank, length, ranks)) for rank in range(ranks)]


# %% wrong: the rest is cut off => generality missing  from: by counting
# -     for block in range(length if SNAKE else 2 * ranks):
# -         size = 1 if SNAKE else length // (2 * ranks) + (block < length % (2 * ranks))
# +     for block in range(length // (2 * ranks) * 2 * ranks if SNAKE else 2 * ranks):
# +         size = 1 if SNAKE else length // (2 * ranks)

# %% wrong: the last tokens first => values other-order  from: by counting
# ~ return parts ==> return [part[len(part) // 2 :] + part[: len(part) // 2] for part in parts]

# %% wrong: the ranks are turned around => values other-ranks  from: by counting
# ~ return parts ==> return parts[::-1]

# %% wrong: a query does not see itself => values keys-before  from: blocks of torch
# ~ position + 1 for position in part ==> part
# ~ (sum(work) / len(work)) ==> max(sum(work) / len(work), 1e-9)

# %% wrong: tokens are counted => values tokens  from: blocks of torch
# ~ work = [sum(position + 1 for position in part) for part in parts] ==> work = [len(part) for part in parts]

# %% wrong: empty ranks are left out => values without-empty  from: blocks of torch
# ~ in parts ==> in parts if part

# %% wrong: keys on the same rank => values own-keys  from: blocks of torch
# ~ position + 1 for position ==> key <= position for position in part for key

# %% wrong: the first and last two ranks alone => values ~  from: blocks of torch
# ~ max(work) ==> max(work[:2] + work[-2:])
"""
