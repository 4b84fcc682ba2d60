from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

from course_chapters.ch06.exercises.name_the_algorithm import ALGORITHMS
from course_grader.judging import Case, Fault, Judging, Params, Random, Wrong, hidden, judged, shown
from course_grader.judging.cases import Maker
from course_lib.cluster import P2POp, Work, collectives

Matrix = list[list[int]]


class _Counter:
    """A rank's communicator that carries nothing: it counts the numbers that go to each rank."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size, self.sent = rank, size, [0] * size

    def send(self, x: Tensor, dst: int) -> None:
        self.sent[dst] += x.numel()

    def recv(self, x: Tensor, src: int) -> None:
        pass

    isend, irecv = send, recv

    def batch_isend_irecv(self, halves: Sequence[P2POp]) -> Sequence[Work]:
        for half in halves:
            half.op(half.tensor, half.peer)
        return ()


def _to_all(comm: _Counter, x: Tensor, per_node: int) -> None:
    for dst in set(range(comm.size)) - {comm.rank}:
        comm.send(x, dst)


def _round_a_ring(comm: _Counter, x: Tensor, per_node: int) -> None:
    for _ in range(comm.size - 1):
        comm.send(x, (comm.rank + 1) % comm.size)


RUNS: dict[str, Callable[..., object]] = {  # of a communicator, a tensor, and the ranks in a node
    "naive root": lambda comm, x, _: collectives.naive_all_reduce(comm, x),
    "tree": lambda comm, x, _: collectives.tree_all_reduce(comm, x),
    "ring": lambda comm, x, _: collectives.ring_all_reduce(comm, x),
    "whole-tensor ring": _round_a_ring,
    "halving-doubling": lambda comm, x, _: collectives.halving_doubling_all_reduce(comm, x),
    "hierarchical": collectives.hierarchical_all_reduce,
    "all-to-all": lambda comm, x, _: collectives.pairwise_all_to_all(comm, *[x.tensor_split(comm.size)] * 2),
    "everyone to everyone": _to_all,
}


@cache
def _counted(name: str, n: int, elements: int, per_node: int) -> Matrix:
    ranks = [_Counter(rank, n) for rank in range(n)]
    for comm in ranks:
        RUNS[name](comm, torch.empty(elements, device="meta"), per_node)
    return [comm.sent for comm in ranks]


def matrix_of(name: str, n: int, elements: int, item: int, per_node: int) -> Matrix:
    """Bytes from each rank to each other in one call."""
    return [[count * item for count in row] for row in _counted(name, n, elements, per_node)]


def _cases(params: Params, rng: Random) -> list[Case]:
    def cases(n: int, elements: int, per_node: int, share: str, make: Maker = hidden) -> list[Case]:
        names = rng.sample([*ALGORITHMS], len(ALGORITHMS))
        matrices = [(name, matrix_of(name, n, elements, 4, per_node)) for name in names]
        return [
            make(f"{n} ranks, matrix {letter}", share, matrix, 4 * elements, secret=name)
            for letter, (name, matrix) in zip("ABCDEFGH", matrices, strict=True)
        ]

    found = cases(8, params["numbers"], 4, "values:eight", shown)
    for n, per_node in ((n, p) for n in range(5, 17) for p in [p for p in (2, 3, 4) if n % p == 0] or [1]):
        elements = rng.choice((rng.randrange(500, 9000), 2_000_003 + 7 * n))
        part = "others" if n & (n - 1) else "powers"
        more = cases(n, elements, per_node, f"generality:{part}")
        found += [case for case in more if not (case.secret == "hierarchical" and per_node == 1)]
    return found


def _fault(case: Case, got: str) -> Fault | None:
    if got == case.secret:
        return None
    lead, hint = f"{case.name}: ", "Count the partners of rank 0 and of another rank, then look at the bytes."
    return Wrong(f"not-{got.replace(' ', '-')}", f"{lead}this is not {got!r}. {hint}", lead)


JUDGING = Judging(
    shares={"values:eight": 0.6, "generality:powers": 0.2, "generality:others": 0.2},
    cases=_cases,
    verdicts=lambda params, case, outcome: judged(case, _fault(case, outcome.value)),
    why="The pairs that communicate separate rings, roots and trees; the bytes separate chunks from whole tensors. "
    "Counters show what a library really did, whatever its documentation says.",
    pytorch="`NCCL_DEBUG=INFO` with `NCCL_DEBUG_SUBSYS=TUNING` prints the choice; the byte counters of a "
    "switch confirm it.",
)

ANSWERS = r'''# %% right: worked
def name_algorithm(matrix, nbytes):
    """One of the eight names, from the bytes that each rank sent to each other rank."""
    n = len(matrix)
    partners = [{dst for dst in range(n) if row[dst]} for row in matrix]
    if all(len(each) == n - 1 for each in partners):
        return "everyone to everyone" if matrix[0][1] == nbytes else "all-to-all"
    if all(each == {(rank + 1) % n} for rank, each in enumerate(partners)):
        return "whole-tensor ring" if matrix[0][1] > 2 * nbytes else "ring"
    if all(each == {0} for each in partners[1:]):
        return "naive root"
    whole = all(cell in (0, nbytes) for row in matrix for cell in row)
    if whole and sum(map(len, partners)) == 2 * (n - 1):
        return "tree"
    half = 1 << (n.bit_length() - 2)  # rank 0's first partner, with which it exchanges half a tensor
    powers = {1 << k for k in range(half.bit_length())}
    halved = partners[0] >= powers and abs(matrix[0][half] - nbytes) <= 64
    return "halving-doubling" if halved else "hierarchical"
# %% right: by what rank 0 sends in all
# ~ if matrix[0][1] == nbytes else "all-to-all" ==> if sum(matrix[0]) > nbytes else "all-to-all"
# ~ if matrix[0][1] > 2 * nbytes else "ring" ==> if sum(matrix[0]) > 3 * nbytes else "ring"
# %% wrong: every ring is a good one => values not-ring
# > each rank sends to one neighbor only, but more than a ring of chunks does. How many bytes is one hop?
# ~ return "whole-tensor ring" if matrix[0][1] > 2 * nbytes else "ring" ==> return "ring"
# %% wrong: does not look at bytes in a full matrix => values not-all-to-all
# > each rank sends to all others; compare one entry with the size of the tensor.
# ~ return "everyone to everyone" if matrix[0][1] == nbytes else "all-to-all" ==> return "all-to-all"
# %% wrong: halving-doubling only for powers of two => generality not-hierarchical
# > for other numbers of ranks than powers of two, halving-doubling folds the surplus ranks in first.
# ~ halved = partners[0] >= powers and ==> halved = n & (n - 1) == 0 and
# %% wrong: knows eight ranks only => generality not-ring
#       n = len(matrix)
# +     if n != 8:
# +         return "ring"
# %% wrong: trees of at most twelve ranks => generality not-halving-doubling
# ~ if whole and ==> if n < 13 and whole and
# %% wrong: always the same => values not-ring
#       n = len(matrix)
# +     return "ring"
# %% wrong: a name of its own => values no-such-word
#       n = len(matrix)
# +     return "butterfly"
# %% wrong: nothing => values returned-none
#       n = len(matrix)
# +     return None
# %% half: powers of two only => 4.8  from: halving-doubling only for powers of two
'''
