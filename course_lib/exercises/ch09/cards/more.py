"""More exercises of chapter 09: overlap, a row layer's bias, packed matrices, plans, randomness, links."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch09.probes import BOTH_PASSES, OVERLAPPED, STREAMS, columns, overlapped, packed, streams
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import Anything, ListOf, Number, Rows, TupleOf, Word

OVERLAP_BACKWARD = Card(
    id="overlap-backward",
    chapter="09",
    title="Hide the all-reduce",
    text="""Write `column_backward(comm, matmul, grad, x, weight)`, the backward pass of a column-parallel layer y = x Wᵀ. It computes two
products: dx = dy W, which must be summed over ranks, and dW = dyᵀ x, which belongs to this rank. Neither needs the other.

- Return `(dx, dw)`. `grad` is (tokens, out here), `x` (tokens, hidden), and `weight` (out here, hidden).
- `matmul(a, b)` multiplies two matrices and takes time on the cluster's clock. Use it for both products, once each.
- **Time:** at most two products plus the part of the all-reduce that outlasts the second product: **the sum is in flight while the
  other product is computed**. While it is in flight, its tensor is neither read nor written.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "Which of the two products do you compute first, if its result takes long to send?",
        "`comm.all_reduce(…, async_op=True)` returns at once, with a handle to wait for.",
        "`dx = matmul(grad, weight)`; `work = comm.all_reduce(dx, async_op=True)`; `dw = matmul(grad.T, x)`; `work.wait()`; both.",
    ),
    answers=("column_backward",),
    allowed="every operation of `comm`.",
    params={"tokens": 16},
    vary=lambda draw: {"tokens": draw.choice((12, 16, 20))},
    probe=overlapped,
    returns=OVERLAPPED,
)

ROW_BIAS = Card(
    id="row-bias",
    chapter="09",
    title="How often does the bias count?",
    text="""Repair this row-parallel layer, which more than one serving library had (*huggingface/text-generation-inference, issue 1036, 2023;
Wenyueh/MinivLLM, issue 80, 2026*):

```python
def row_linear(comm, x, weight, bias):
    return sum_out(F.linear(x, weight, bias), comm)
```

`x` (…, in / N) and `weight` (out, in / N) are this rank's columns; every rank has a copy of the whole `bias` (out). With {{ranks}}
ranks the output has an error that a test on one rank does not show.

- **Values:** output and gradients as in one process, on every rank.
- **The bias's gradient is complete on every rank**, because each rank updates its own copy with its own gradient. A trainer with the
  right output had this wrong three years later (*pytorch/torchtitan, pull request 4332, 2026*).
- **Bytes:** one all-reduce of the output, and nothing else.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=5),
    kind="more",
    form="bug",
    hints=(
        "What does an all-reduce do to a number that every rank adds before it?",
        "There are three ways to add it once: after the sum, a fraction of it on each rank, or on one rank only. What is the gradient "
        "of each rank's copy in each case?",
        "`sum_out(F.linear(x, weight), comm) + bias`: after the sum all ranks compute the same, so all get the same gradient.",
    ),
    answers=("row_linear",),
    allowed="every operation of `comm`; torch; `copy_in` and `sum_out` of `course_lib.tensor_parallel`.",
    params={"ranks": 3},
    vary=lambda draw: {"ranks": draw.choice((3, 5))},
    probe=columns,
    returns=BOTH_PASSES,
)

PACKED_SHARDS = Card(
    id="packed-shards",
    chapter="09",
    title="Three matrices packed into one",
    text="""Write two functions that split and merge packed matrices. Queries, keys and values are often one matrix, [q | k | v] stacked along its
rows, and so are a gated MLP's first two, [gate | up]: one product instead of several.

The ranks' pieces are stacked in the same way: rank r holds **its** rows of q, then its rows of k, then of v. Cutting the stack like one
matrix gives the first ranks all queries and the last all values. That has happened when weights were loaded, merged and converted
(*tunib-ai/parallelformers, issue 41, 2022; ndif-team/nnsight, pull request 719, 2026*).

- `packed_shard(weight, sizes, rank, ranks)` returns this rank's piece. `sizes` are the rows of the stacked whole matrices, such as
  `({{sizes}})`, and may differ. A bias has only one dimension.
- `packed_merge(shards, sizes)` returns the whole stack from all ranks' pieces in order. A checkpoint needs it before you split it for
  another number of ranks.
- If `ranks` does not divide every size, `packed_shard` raises `ValueError`.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Write down, for two ranks and sizes (4, 2, 2), which rows of the whole each rank holds. Are they neighbors?",
        "Split first by `sizes`, then each part by ranks; stack the rank's parts. Merging does the reverse: "
        "what are the sizes inside one piece?",
        "`torch.cat([part.chunk(ranks)[rank] for part in weight.split(list(sizes))])`; merge: `pieces = [shard.split([s // n for s in "
        "sizes]) for shard in shards]`, then for each matrix the parts of all ranks.",
    ),
    answers=("packed_shard", "packed_merge"),
    hides=("tensor_parallel.pieces:packed_rows",),
    params={"sizes": "16, 8, 8", "rows": (16, 8, 8)},
    vary=lambda draw: (lambda rows: {"sizes": ", ".join(map(str, rows)), "rows": rows})(
        draw.choice(((24, 8, 8), (32, 16, 16), (16, 4, 4)))
    ),
    probe=packed,
    returns=Rows(Anything("a tensor"), Anything("a tensor")),
)

VERIFY_PLAN = Card(
    id="verify-plan",
    chapter="09",
    title="The plan that shards nothing",
    text="""Write a `verify(plan, whole, held, ranks)` that finds a plan that shards nothing. Libraries take a plan of patterns,
`{"layers.*.mlp.up": "column", "layers.*.mlp.down": "row"}`, and some ignored a misspelled pattern silently: the layer stays whole on
every rank, the loss is right to the last digit, and nothing is saved (*huggingface/transformers, pull request 37893, 2025; a head that
was replaced by the whole one: huggingface/picotron, issue 23*). So a check of the loss,

```python
def verify(plan, whole, held, ranks):
    return []            # "the loss is the same, so it works"
```

checks nothing. `whole` and `held` map every weight's name to its shape (rows, columns), in the whole model and as this rank really
holds it. Weights are stored (out, in), so `"column"` splits the rows and `"row"` the columns. Patterns match as in
`fnmatch.fnmatchcase`; at most one pattern matches a name. Return the complaints, a sorted list of pairs, empty if all is as planned:

- `("unused", pattern)`: the pattern matches no weight;
- `("whole", name)`: the plan splits this weight, but it is held whole;
- `("wrong side", name)`: it is held in any other shape than the plan's. That includes a weight that no pattern matches and that is
  not held whole.

`ranks` divides the split dimension. On one rank, a split weight is whole, and that is no complaint.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    form="bug",
    hints=(
        "What does a plan promise about shapes? Which of these promises can the loss see?",
        "Use two loops: over the patterns, which must each match a weight; and over the weights, which must each have the shape of "
        "their pattern, or their whole shape without one.",
        "`styles = [style for pattern, style in plan.items() if fnmatchcase(name, pattern)]`; `want = (rows // ranks, columns)` for "
        "column, `(rows, columns // ranks)` for row; compare `tuple(held[name])` with it, then with the whole.",
    ),
    answers=("verify",),
    allowed="the standard library.",
    params={"ranks": 4, "layers": 3},
    vary=lambda draw: {"ranks": draw.choice((2, 4, 8)), "layers": draw.choice((2, 3))},
    probe=rows,
    returns=Rows(ListOf(TupleOf({"complaint": Word(("unused", "whole", "wrong side")), "name": Anything()}))),
)

TWO_STREAMS = Card(
    id="two-streams",
    chapter="09",
    title="The same outside, different inside",
    text="""Write `two_streams(seed, rank)`, which returns a pair of `torch.Generator`s, `(outside, inside)`. Dropout on tensors that all ranks hold
must zero the same numbers on all of them, or the copies diverge. On a rank's own heads or columns it must zero different ones, or
patterns appear. One library used the same numbers everywhere (*InternLM, pull request 405, 2023*).

- `outside` draws the same numbers on every rank; another seed gives other numbers.
- `inside` draws numbers of its own: different from those of every other rank, and from the outside stream, on rank 0 too.
- Replicas are seeded with consecutive numbers, `seed`, `seed + 1`, …, up to {{seeds}} of them with up to {{ranks}} ranks each:
  no two of all these streams are the same.
- The same arguments give the same numbers again, in any process. torch's own generator stays unchanged.""",
    **Worth(points=5, minutes=10, difficulty=2, importance=3),
    kind="more",
    hints=(
        "With `seed + rank`, who else draws what rank 1 of the replica with seed 7 draws?",
        "You need one number for each pair (seed, rank), and no two pairs may share it. How do you number the seats of a cinema?",
        "`torch.Generator().manual_seed(…)` with `seed * 1_000_003` outside and `seed * 1_000_003 + 1 + rank` inside: room for a "
        "million ranks between two seeds.",
    ),
    answers=("two_streams",),
    may_change=("generators",),  # the probe seeds torch's generator itself, to see that the answer leaves it alone
    params={"seeds": 64, "ranks": 64},
    vary=lambda draw: {"seeds": draw.choice((32, 48, 64)), "ranks": draw.choice((32, 64))},
    probe=streams,
    returns=STREAMS,
)

PASSES: Mapping[str, str] = {
    "none": "Nothing is recomputed: two all-reduces forward, two backward",
    "full": "Activations are recomputed in full: the forward pass with its two all-reduces and its products runs once more before the "
    "backward pass",
}

LARGEST_TP = Card(
    id="largest-tp",
    chapter="09",
    title="How many ranks are worthwhile?",
    text="""Write two functions: the time of a layer's all-reduces, and the largest number of ranks at which that time is acceptable. A layer has
attention (every head has its own keys: four matrices hidden × hidden) and a gated MLP (three matrices hidden × ffn). {{passes}}.
Activations have 16 bits, all-reduces use a ring without latency, and a product takes 2 FLOPs per weight and token forward and 4
backward. Scores, norms and all other operations are left out.

- `tp_seconds(tokens, hidden, ranks, bandwidth)`: seconds that a rank spends on one layer's all-reduces for a micro-batch, forward
  and backward; `bandwidth` in bytes/s one way. With one rank: 0.
- `largest_tp(tokens, hidden, ffn, flops, inside, across, per_node, share)`: the largest power of two of ranks for which these seconds
  are at most `share` times the seconds of the rank's own products. `flops` is one rank's FLOP/s. Up to `per_node` ranks the
  bandwidth is `inside`; beyond that, the whole ring runs at `across`. Try at most 1,024 ranks.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "What happens to a rank's products when N doubles, and to its all-reduces?",
        "Bytes per rank: all-reduces per layer × 2 (1 − 1/N) × tokens × hidden × 2. FLOPs per rank: 6 (8 where the forward pass runs "
        "twice) × tokens × weights / N.",
        "`for n in (1024, 512, …, 1)`: `bandwidth = inside if n <= per_node else across`; return the first n with `tp_seconds(tokens, "
        "hidden, n, bandwidth) <= share * seconds_of_products(n)`.",
    ),
    answers=("tp_seconds", "largest_tp"),
    hides=(
        "tensor_parallel.traffic:tp_bytes_per_layer",
        "tensor_parallel.traffic:tp_cost_per_layer",
        "tensor_parallel.traffic:tp_calls_per_layer",
    ),
    params={"recompute": "none", "passes": PASSES["none"], "hidden": 8192},
    vary=lambda draw: {"recompute": "full", "passes": PASSES["full"], "hidden": draw.choice((4096, 8192, 12288))},
    structural="recompute",
    probe=rows,
    returns=Rows(Number("seconds"), Number("ranks")),
)

FIRST = (OVERLAP_BACKWARD, ROW_BIAS)
LAST = (PACKED_SHARDS, VERIFY_PLAN, TWO_STREAMS, LARGEST_TP)
