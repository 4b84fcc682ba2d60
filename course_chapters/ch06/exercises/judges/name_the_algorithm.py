from collections.abc import Callable
from typing import Any

from course_chapters.ch06.exercises.name_the_algorithm import ALGORITHMS
from course_grader.judging import Case, Fault, Judging, Params, Random, Wrong, judged
from course_lib.cluster.collective import chunk_sizes

Matrix = list[list[int]]


def _blank(n: int) -> Matrix:
    return [[0] * n for _ in range(n)]


def _ring(counted: Matrix, ring: list[int], chunks: list[int]) -> None:
    """Add the elements that a ring all-reduce of these chunks sends among the ranks of `ring`."""
    n = len(ring)
    for place, rank in enumerate(ring):
        if n > 1:
            counted[rank][ring[(place + 1) % n]] += 2 * sum(chunks) - chunks[place] - chunks[(place + 1) % n]


def ring(n: int, elements: int, per_node: int) -> Matrix:
    """Reduce-scatter and all-gather of chunks."""
    counted = _blank(n)
    _ring(counted, list(range(n)), chunk_sizes(elements, n))
    return counted


def tree(n: int, elements: int, per_node: int) -> Matrix:
    """Up and down a binomial tree with root 0."""
    counted, reach = _blank(n), 1
    while reach < n:
        for rank in range(min(reach, n - reach)):
            counted[rank][rank + reach] = counted[rank + reach][rank] = elements
        reach *= 2
    return counted


def halving_doubling(n: int, elements: int, per_node: int) -> Matrix:
    """Halves exchanged with partners at powers of two; surplus ranks are folded in first."""
    counted, core = _blank(n), 1 << (n.bit_length() - 1)
    for rank in range(core, n):
        counted[rank][rank - core] = counted[rank - core][rank] = elements
    chunks = chunk_sizes(elements, core)
    for rank in range(core):
        low, high = 0, core
        while (distance := (high - low) // 2) >= 1:
            middle = low + distance
            mine, theirs = ((low, middle), (middle, high)) if not rank & distance else ((middle, high), (low, middle))
            counted[rank][rank ^ distance] += sum(chunks[slice(*theirs)]) + sum(chunks[slice(*mine)])
            low, high = mine
    return counted


def hierarchical(n: int, elements: int, per_node: int) -> Matrix:
    """Rings inside nodes, and rings of chunk i among the i-th ranks of all nodes."""
    counted, chunks = _blank(n), chunk_sizes(elements, per_node)
    for node in range(n // per_node):
        _ring(counted, list(range(node * per_node, (node + 1) * per_node)), chunks)
    for place in range(per_node):
        _ring(counted, list(range(place, n, per_node)), chunk_sizes(chunks[place], n // per_node))
    return counted


TRAFFIC: dict[str, Callable[[int, int, int], Matrix]] = {
    "naive root": lambda n, elements, _: [
        [elements * ((src == 0) != (dst == 0)) for dst in range(n)] for src in range(n)
    ],
    "tree": tree,
    "ring": ring,
    "whole-tensor ring": lambda n, elements, _: [
        [(n - 1) * elements * (dst == (src + 1) % n) for dst in range(n)] for src in range(n)
    ],
    "halving-doubling": halving_doubling,
    "hierarchical": hierarchical,
    "all-to-all": lambda n, elements, _: [
        [chunk * (src != dst) for dst, chunk in enumerate(chunk_sizes(elements, n))] for src in range(n)
    ],
    "everyone to everyone": lambda n, elements, _: [[elements * (src != dst) for dst in range(n)] for src in range(n)],
}


def matrix_of(name: str, n: int, elements: int, item: int, per_node: int) -> Matrix:
    """Bytes from each rank to each other in one call."""
    return [[count * item for count in row] for row in TRAFFIC[name](n, elements, per_node)]


def _cases(params: Params, rng: Random) -> list[Case]:
    def cases(n: int, elements: int, per_node: int, **more: Any) -> list[Case]:
        names = rng.sample([*ALGORITHMS], len(ALGORITHMS))
        return [
            Case(
                name=f"{n} ranks, matrix {letter}",
                args=(matrix_of(name, n, elements, 4, per_node), 4 * elements),
                secret=name,
                **more,
            )
            for letter, name in zip("ABCDEFGH", names, strict=True)
        ]

    found = list(cases(8, params["numbers"], 4, part="eight"))
    for n, per_node in ((n, p) for n in range(5, 17) for p in [p for p in (2, 3, 4) if n % p == 0] or [1]):
        elements = rng.choice((rng.randrange(500, 9000), 2_000_003 + 7 * n))
        part = "others" if n & (n - 1) else "powers"
        more = cases(n, elements, per_node, kind="generality", part=part, visible=False)
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
