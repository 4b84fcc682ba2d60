from collections.abc import Mapping

from course_grader.exercises import Card, Word, Worth

ALGORITHMS: Mapping[str, str] = {
    "naive root": "all ranks send to rank 0, which sends the sum back to each",
    "tree": "reduce up a binomial tree, broadcast down",
    "ring": "reduce-scatter and all-gather of chunks around a ring",
    "whole-tensor ring": "every rank's whole tensor goes around the ring once",
    "halving-doubling": "exchanges with partners at distances of powers of two, first of halves, then of "
    "quarters, and so on",
    "hierarchical": "rings inside each node, and rings of chunks between nodes",
    "all-to-all": "no sum: every rank sends a different N-th of its tensor to each rank",
    "everyone to everyone": "every rank sends its whole tensor to all others, and each adds them up itself",
}


def _names() -> str:
    return "\n".join(f'- `"{name}"`: {meaning}' for name, meaning in ALGORITHMS.items())


CARD = Card(
    title="Which algorithm was that?",
    text=f"""Recognize a collective algorithm from the bytes that a switch counted. The documentation says what a
library should do; the counters say what it did.

- `name_algorithm(matrix, nbytes)`: `matrix[src][dst]` is the number of bytes that one rank sent to another during one
  call; `nbytes` is the size of one rank's tensor.
- It returns one of the eight names below.
- You see eight matrices of {{{{ranks}}}} ranks. The unseen ones have five to sixteen ranks and tensors of other sizes.
  Chunks are as equal as elements of 4 bytes allow.
- If the number of ranks is not a power of two, halving-doubling folds the surplus ranks in first. Nodes consist of two
  to four consecutive ranks.

The names:

{_names()}""",
    **Worth(points=6, minutes=10, difficulty=3, importance=3),
    kind="more",
    hints=(
        "Which of the eight fill the whole matrix? Which have only one entry per row? Bytes decide the rest.",
        "Count the partners of each rank. One: a ring; then compare the entry with `nbytes`. All: compare again. Only "
        "rank 0 as a partner: the root. Three algorithms are left.",
        "In a tree, N − 1 pairs of ranks exchange whole tensors, one in each direction. In halving-doubling, rank 0 "
        "first exchanges half a tensor with rank N/2 (take the largest power of two for N). The remaining one is "
        "hierarchical.",
    ),
    answers=("name_algorithm",),
    params={"ranks": 8, "numbers": 4096},
    vary=lambda draw: {"numbers": draw.choice((1024, 3072, 8192, 10240))},
    returns=Word(tuple(ALGORITHMS)),
)
