from course_grader.exercises import Anything, Card, ListOf, Number, Rows, Worth

CARD = Card(
    title="Fuse or not",
    text="""Divide a chain of operations into kernels so that the fewest bytes pass through memory. This is the choice
that a compiler makes for every layer.

An operation is a tuple `(result, kind, inputs)`: a name, a word and a list of names. `sizes[name]` is a tensor's size
in bytes. A kernel is a run of consecutive operations.

- It reads each tensor that it takes from outside **once**, and writes the results that a later kernel reads or that are
  in `keep`. All else stays in registers.
- A `"matmul"` is a kernel of its own. A `"reduction"` ends its kernel: every value must be there before any other
  operation can use it. `"pointwise"` operations go anywhere.
- A kernel reads at most `most` tensors.

Write two functions:

- `traffic(ops, sizes, keep, kernels)` returns the bytes that the kernels read and write together. `kernels` is a list
  of lists of result names, in order.
- `fuse(ops, sizes, keep, most)` returns such a list with the least traffic. Every operation alone fits.

The visible chain has {{count}} operations, and its kernels read at most {{most}} tensors.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "Which tensors does a kernel read that none of its own operations made? Which of its results does another "
        "kernel need?",
        "Fusing as much as fits from the left is not always the cheapest: try every place for the last cut, with the "
        "best division of what lies before it.",
        "`best[j] = min(best[i] + cost(ops[i:j]) for i < j if ops[i:j] may be one kernel)`; keep the i that won. A run "
        "may be a kernel if it has one operation, or no matmul, no reduction before its end, and few enough inputs.",
    ),
    answers=("traffic", "fuse"),
    allowed="plain Python; the library's planner is switched off.",
    hides=("course_chapters.ch18.fusion:fuse", "course_chapters.ch18.fusion:groups"),
    params={"count": 9, "most": 4},
    vary=lambda draw: {"count": draw.choice((8, 10, 11)), "most": draw.choice((3, 4, 5))},
    returns=Rows(Number("bytes"), ListOf(ListOf(Anything("a name")))),
)
