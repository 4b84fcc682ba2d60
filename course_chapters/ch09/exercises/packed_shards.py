from course_chapters.ch09.exercises.probes import packed
from course_grader.exercises import Anything, Card, Rows, Worth

CARD = Card(
    title="Three matrices packed into one",
    text="""Write two functions that split and merge packed matrices. Queries, keys and values are often one matrix,
[q | k | v] stacked along its rows, and so are a gated MLP's first two, [gate | up]: one product instead of several.

The ranks' pieces are stacked in the same way: rank r holds **its** rows of q, then its rows of k, then of v. Cutting
the stack like one matrix gives the first ranks all queries and the last all values. That has happened when weights were
loaded, merged and converted (*tunib-ai/parallelformers, issue 41, 2022; ndif-team/nnsight, pull request 719, 2026*).

- `packed_shard(weight, sizes, rank, ranks)` returns this rank's piece. `sizes` are the rows of the stacked whole
  matrices, such as `({{sizes}})`, and may differ. A bias has only one dimension.
- `packed_merge(shards, sizes)` returns the whole stack from all ranks' pieces in order. A checkpoint needs it before
  you split it for another number of ranks.
- If `ranks` does not divide every size, `packed_shard` raises `ValueError`.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Write down, for two ranks and sizes (4, 2, 2), which rows of the whole each rank holds. Are they neighbors?",
        "Split first by `sizes`, then each part by ranks; stack the rank's parts. Merging does the reverse: "
        "what are the sizes inside one piece?",
        "`torch.cat([part.chunk(ranks)[rank] for part in weight.split(list(sizes))])`; merge: `pieces = "
        "[shard.split([s // n for s in sizes]) for shard in shards]`, then for each matrix the parts of all ranks.",
    ),
    answers=("packed_shard", "packed_merge"),
    params={"sizes": "16, 8, 8", "rows": (16, 8, 8)},
    vary=lambda draw: (lambda rows: {"sizes": ", ".join(map(str, rows)), "rows": rows})(
        draw.choice(((24, 8, 8), (32, 16, 16), (16, 4, 4)))
    ),
    probe=packed,
    returns=Rows(Anything("a tensor"), Anything("a tensor")),
)
