from collections.abc import Sequence

import torch

from course_chapters.ch11.exercises.judges.shared import once
from course_grader.judging import FINE, Case, Checked, Column, Fault, Judging, Params, Random, Worked, table
from course_grader.judging.cases import hidden, shown

right = Worked("zig-zag-positions")
OVER = "A query at position p sees p + 1 keys. Divide the most work of a rank by the mean over all ranks."
RATIO = Column("imbalance", "times the mean", words=lambda parts: f"parts {parts}", rel=FINE, hint=OVER)

Parts = list[list[int]]


def _layout_cases(params: Params, rng: Random) -> list[Case]:
    def some(ranks: int) -> tuple[int, int]:
        return (rng.randrange(2, 5) * 2 * ranks, ranks)

    def anywhere(length: int, ranks: int) -> tuple[Parts]:
        parts: Parts = [[] for _ in range(ranks)]
        for p in range(length):
            parts[rng.randrange(ranks)].append(p)
        return (parts,)

    rest = [(2999, 4), (rng.randrange(50, 57), 4), (11, 3), (23, 5), (9, 2), (40, 9), (100, 16)]
    empty = [([[0, 1, 2], [], [3]],), ([[], [0]],), ([[2, 0], [1, 3], []],), ([[0], [1], [2], [6, 3], [4], [5], []],)]
    blocks = torch.arange(16).view(8, 2).tolist()
    both = [([blocks[2 * r] + blocks[2 * r + 1] for r in range(4)],), ([blocks[r] + blocks[-1 - r] for r in range(4)],)]
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


def _layout_fault(row: tuple[int, int], got: Sequence[Sequence[int]], want: Parts) -> Fault | None:
    (length, ranks), parts = row, [[int(p) for p in own] for own in got]
    if parts == want:
        return None
    if len(parts) != ranks:
        return "wrong-shape", f"{len(parts)} lists came back; return one for each rank."
    if fault := once(parts, length):
        return fault
    if [sorted(own) for own in parts] == [sorted(own) for own in want]:
        return "other-order", "each rank has the right tokens, in another order."
    if sorted(map(sorted, parts)) == sorted(map(sorted, want)):
        return "other-ranks", "the parts are right, but they belong to other ranks."
    told = "the parts are not those asked for. Where the length does not divide, which blocks are longer?"
    return "other-parts", told


LAYOUT = Checked("", _layout_fault, words=lambda length, ranks: f"{length} tokens on {ranks} ranks")
JUDGING = Judging(
    shares="values:layout 0.4, values:imbalance 0.3, generality:lengths 0.3",
    cases=_layout_cases,
    verdicts=table(LAYOUT, RATIO, right=right),
    why="""A query at position p sees p + 1 keys. Pairing an early token with a late one makes every pair cost the same,
so all ranks finish together. Where the length does not divide, a few longer blocks cost almost nothing.""",
    pytorch="`context_parallel` reorders its buffers in this way by default (its load balancer for causal masks).",
)

ANSWERS = r'''# %% right: worked
def spread_tokens(length: int, ranks: int) -> list[list[int]]:
    """Each rank's positions."""
    if params("zig-zag-positions").dealt == "snake":
        turns = [p % (2 * ranks) for p in range(length)]
        return [[p for p, turn in enumerate(turns) if min(turn, 2 * ranks - 1 - turn) == r] for r in range(ranks)]
    blocks = torch.arange(length).tensor_split(2 * ranks)
    return [blocks[r].tolist() + blocks[-1 - r].tolist() for r in range(ranks)]


def work_ratio(parts: list[list[int]]) -> float:
    """The busiest rank's work over the mean, under a causal mask."""
    work = [sum(position + 1 for position in part) for part in parts]
    return max(work) * len(work) / sum(work)
# %% right: either turn, and a mean
# ~ min(turn, 2 * ranks - 1 - turn) == r ==> turn in (r, 2 * ranks - 1 - r)
# ~ max(work) * len(work) / sum(work) ==> max(work) / (sum(work) / len(work))
# %% wrong: contiguous => values
# > these are contiguous parts: the last rank has the most work.
# ~ if params("zig-zag-positions").dealt == "snake": ==> if False:
# ~ blocks[r].tolist() + blocks[-1 - r].tolist() ==> blocks[2 * r].tolist() + blocks[2 * r + 1].tolist()
# %% wrong: half apart => values
# > rank r got blocks r and r + N; take the blocks from both ends.
# ~ if params("zig-zag-positions").dealt == "snake": ==> if False:
# ~ blocks[-1 - r] ==> blocks[r + ranks]
# %% wrong: striped => values
# > these are stripes: rank r has r, r + N, r + 2N, …, so that of two ranks the same one always has the later token.
# ~ if params("zig-zag-positions").dealt == "snake": ==> if True:
# ~ min(turn, 2 * ranks - 1 - turn) == r ==> p % ranks == r
# %% wrong: snake => values snake unless dealt=snake
# > this deals tokens one by one; blocks are asked for.
# ~ if params("zig-zag-positions").dealt == "snake": ==> if True:
# %% wrong: the rest is cut off => generality missing
# ~ for p in range(length)] ==> for p in range(length // (2 * ranks) * 2 * ranks)]
# ~ blocks = torch.arange(length) ==> blocks = torch.arange(length // (2 * ranks) * 2 * ranks)
# %% wrong: the last tokens first => values other-order
# ~ == r] for ==> == r][::-1] for
# ~ blocks[r].tolist() + blocks[-1 - r].tolist() ==> blocks[-1 - r].tolist() + blocks[r].tolist()
# %% wrong: the ranks are turned around => values other-ranks
# ~ == r] for r in range(ranks)] ==> == r] for r in reversed(range(ranks))]
# ~ .tolist() for r in range(ranks)] ==> .tolist() for r in reversed(range(ranks))]
# %% wrong: keys before => values
# > a query sees its own key, too.
# ~ position + 1 for position in part ==> part
# ~ / sum(work) ==> / max(sum(work), 1e-9)
# %% wrong: tokens => values
# > these are tokens; count the keys that each query sees.
# ~ sum(position + 1 for position in part) ==> len(part)
# %% wrong: without empty => values
# > the mean is over all ranks, empty ones included.
# ~ for part in parts] ==> for part in parts if part]
# %% wrong: inverse => values
# > this is the mean over the busiest; take the reciprocal.
# ~ max(work) * len(work) / sum(work) ==> sum(work) / len(work) / max(work)
# %% wrong: own keys => values
# > these are the keys on the same rank; a query sees those of all ranks.
# ~ position + 1 for position in part ==> key <= position for position in part for key in part
# %% wrong: the first and last two ranks alone => values ~
# ~ max(work) ==> max(work[:2] + work[-2:])
'''
