"""Core exercises of chapter 09: columns and rows of a matrix, the two operators, an MLP and attention on several ranks."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch09.probes import BOTH_PASSES, OPERATOR, PIECE, attention, cut, mlp, pair
from course_lib.exercises.probes import PREDICTION
from course_lib.units import GB

_NAMES = ("copy_in", "sum_out", "gather_in", "scatter_out", "split", "gather")
OPERATORS = tuple(f"tensor_parallel.operators:{name}" for name in _NAMES)
LAYOUTS: Mapping[str, str] = {
    "torch": "as `nn.Linear` stores it, (out, in): y = x Wᵀ",
    "textbook": "as textbooks write it, (in, out): Y = X W",
}


COLUMN_AND_ROW = Card(
    id="column-and-row",
    chapter="09",
    title="Two ways to split a matrix",
    text="""Write the two functions that split a weight; every later exercise uses such pieces. The weight is stored {{held}}. Split it for
`ranks` ranks, in order:

- `column_shard(weight, rank, ranks)`: the piece that computes this rank's **outputs** from the whole input. The concatenated
  outputs of all ranks are the product.
- `row_shard(weight, rank, ranks)`: the piece that needs only this rank's **inputs** and computes a part of every output. The sum of
  all ranks' outputs is the product.

The names come from Y = X W, where outputs are columns of W and inputs are rows. `ranks` divides the split dimension.
A piece of several has its own memory: a view would keep the whole weight in memory. `weight` does not require gradients; on one
rank the piece may be the weight itself.""",
    **Worth(points=5, minutes=5, difficulty=1, importance=5),
    hints=(
        "Which of the two dimensions of `weight` counts outputs in this layout?",
        "A column split takes a range of outputs, a row split a range of inputs. Both ranges are [rank · n / ranks, (rank + 1) · n / ranks).",
        "`weight.chunk(ranks, dim=…)[rank].clone()`; in the layout (out, in) outputs are dimension 0. "
        "In which layout is your weight?",
    ),
    answers=("column_shard", "row_shard"),
    params={"layout": "torch", "held": LAYOUTS["torch"], "width": 24},
    vary=lambda draw: {"layout": "textbook", "held": LAYOUTS["textbook"], "width": draw.choice((24, 36, 48))},
    structural="layout",
    probe=cut,
    returns=PIECE,
)


def _wire(layers: int, hidden: int, tokens: int, ranks: int, bandwidth: float) -> dict[str, Any]:
    return {"layers": layers, "hidden": hidden, "tokens": tokens, "ranks": ranks, "bandwidth": bandwidth}


def _vary_wire(draw: random.Random) -> Mapping[str, Any]:
    layers, hidden = draw.choice(((32, 4096), (40, 5120), (80, 8192), (126, 16384)))
    return _wire(layers, hidden, draw.choice((4096, 8192)), draw.choice((8, 16)), draw.choice((25, 50)) * GB)


PREDICT_TP_TIME = Card(
    id="predict-tp-time",
    chapter="09",
    title="Prediction: the slow link",
    text="""Predict how long the all-reduces of tensor parallelism take across servers. It splits a model of {{layers}} layers and hidden size {{hidden:int}} over {{ranks}} GPUs: per layer, two
all-reduces of 16-bit activations in the forward pass and two in the backward pass. No two of these GPUs are in one server, so all
traffic uses the network, {{bandwidth:gbps}} one way out of each GPU. Latency is left out.

Before you compute anything, commit to an interval for the time of these all-reduces, forward and backward, for one micro-batch of
{{tokens:int}} tokens. `tp_interval()` returns `(low, high)` in seconds, with `high` at most four times `low`. You earn the points for
committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=3, importance=4),
    **PREDICTION,
    hints=(
        "How many bytes does each all-reduced tensor have, and how many all-reduces are there?",
        "A ring all-reduce sends almost twice its tensor, however many ranks there are.",
        "`layers * 4 * 2 * (1 - 1 / ranks) * tokens * hidden * 2 / bandwidth`; a factor of two either way is safe.",
    ),
    answers=("tp_interval",),
    params=_wire(80, 8192, 8192, 8, 50 * GB),
    vary=_vary_wire,
)

CONJUGATE_PAIR = Card(
    id="conjugate-pair",
    chapter="09",
    title="Two operators, each the other's gradient",
    text="""Write the two operators that surround every split pair of matrices, for `torch.autograd` (Megatron-LM calls them *f* and *g*). Nearly
all communication of tensor parallelism is in them.

- `copy_in(x, comm)`: `x` is the same on all ranks and enters the region unchanged. Every rank uses it, so its gradient is the
  **sum** of the gradients of all ranks.
- `sum_out(x, comm)`: every rank has one term; every rank gets the **sum**. What follows is the same on all ranks, and so is the
  gradient that comes back: it passes unchanged.
- **Bytes:** each operator communicates in one of its two passes: one all-reduce of that tensor, as many bytes as a ring sends.
- **No side effects:** neither may change a tensor of others. The residual branch also reads the gradient that `copy_in` gets, and
  the caller may still read `sum_out`'s input. Gradients may be views of any layout.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "If each of N ranks adds its own contribution to a loss that all compute alike, how often is it counted when the backward "
        "pass sums over ranks as well?",
        "Subclass `torch.autograd.Function` twice. The backward pass of each looks like the forward pass of the other. "
        "`comm.all_reduce` works in place, so give it a copy.",
        "`class _Copy(torch.autograd.Function)`: `forward(ctx, x, comm)`: `ctx.comm = comm; return x.view_as(x)`; `backward(ctx, "
        "grad)`: `total = grad.clone(); ctx.comm.all_reduce(total); return total, None`. In the other one, the two "
        "passes are exchanged. `copy_in` calls `_Copy.apply(x, comm)`.",
    ),
    answers=("copy_in", "sum_out"),
    allowed="every operation of `comm`; torch.",
    hides=OPERATORS,
    params={"numbers": 12},
    vary=lambda draw: {"numbers": draw.choice((8, 12, 16))},
    probe=pair,
    returns=OPERATOR,
)

KINDS: Mapping[str, Mapping[str, str]] = {
    "gelu": {
        "mlp": "y = gelu(x Uᵀ + b) Dᵀ + c",
        "shards": "`up` (ffn / N, hidden) and `up_bias` (ffn / N), rows of U and b; `down` (hidden, ffn / N), columns of D; and "
        "`down_bias`, c **whole**, on every rank",
        "buggy": """def parallel_mlp(comm, x, weights):
    part = F.gelu(F.linear(copy_in(x, comm), weights["up"], weights["up_bias"]))
    inner = gather(part, comm, dim=2)                   # (batch, seq, ffn), on every rank
    mine = split(inner, comm, dim=2)                    # back to this rank's columns
    return sum_out(F.linear(mine, weights["down"]), comm) + weights["down_bias"]""",
    },
    "gated": {
        "mlp": "y = (silu(x Gᵀ) ⊙ x Uᵀ) Dᵀ",
        "shards": "`gate` and `up` (ffn / N, hidden), rows of G and U; `down` (hidden, ffn / N), columns of D; no biases",
        "buggy": """def parallel_mlp(comm, x, weights):
    gate = F.silu(F.linear(copy_in(x, comm), weights["gate"]))
    part = gate * F.linear(copy_in(x, comm), weights["up"])
    inner = gather(part, comm, dim=2)                   # (batch, seq, ffn), on every rank
    mine = split(inner, comm, dim=2)                    # back to this rank's columns
    return sum_out(F.linear(mine, weights["down"]), comm)""",
    },
}


PARALLEL_MLP = Card(
    id="parallel-mlp",
    chapter="09",
    title="An MLP with one all-reduce per pass",
    text="""Write `parallel_mlp(comm, x, weights)`, which computes {{mlp}} over N ranks with the least communication. `weights` is a dictionary
of this rank's pieces: {{shards}}.

A compiler for tensor parallelism communicated between the two products, where no communication is needed (*Lightning-AI/
lightning-thunder, issue 594, 2024*). Every number is right, forward and backward:

```python
{{buggy}}
```

`x` (batch, seq, hidden) is the same on every rank.

- **Values:** as in one process with the whole weights: `y` on every rank, and after `y.backward(…)` the gradients of `x`, of this rank's
  pieces{{and_bias}}.
- **Bytes:** **one all-reduce of a tensor like `x` in the forward pass and one in the backward pass**, as many bytes as rings send.
- Weights are never sent, and no rank holds a tensor of (batch, seq, ffn).""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "The nonlinearity acts on each number. After a column split, does a rank lack anything that it needs for its own numbers?",
        "Column split first, row split second: the first product leaves on a rank exactly what the second needs there. One operator "
        "before, one after; a tensor that is used twice needs only one operator. Where do you add a bias that must count once?",
        "`x = copy_in(x, comm)`; `inner = F.gelu(F.linear(x, up, up_bias))` (gated: `F.silu(F.linear(x, gate)) * F.linear(x, up)`); "
        "`y = sum_out(F.linear(inner, down), comm)`, then `+ down_bias`.",
    ),
    answers=("parallel_mlp",),
    allowed="every operation of `comm`; torch; `copy_in(x, comm)` and `sum_out(x, comm)`, yours or those of `course_lib.tensor_parallel`.",
    params={"kind": "gelu", "and_bias": " and of `down_bias`, complete on every rank", "tokens": 24, **KINDS["gelu"]},
    vary=lambda draw: {"kind": "gated", "and_bias": "", "tokens": draw.choice((18, 24, 30)), **KINDS["gated"]},
    structural="kind",
    probe=mlp,
    returns=BOTH_PASSES,
)

PARALLEL_ATTENTION = Card(
    id="parallel-attention",
    chapter="09",
    title="Attention by heads",
    text="""Write `parallel_attention(comm, copies, x, weights, head_dim)`: causal attention without positions, scaled by head_dim^−½, in which
each rank has some query heads with their keys and values.

- `weights` has this rank's pieces: rows of `wq`, `wk`, `wv` (heads here × head_dim, hidden) and columns of `wo` (hidden, query heads
  here × head_dim). Numbers of heads follow from their shapes. With `q` query heads and `k` KV heads in the whole model, query head i
  uses KV head i // (q / k).
- If there are more ranks than KV heads, neighboring ranks hold **copies** of the same KV head. `copies` is a communicator of the
  ranks that hold the same KV heads as this one; its size is 1 if there are no others.
- `x` (batch, seq, hidden) is the same on every rank.

Requirements:

- **Values:** as in one process with the whole weights: `y` on every rank, and the gradients of `x` and of this rank's pieces. A copy
  of a KV head sees only its own query heads, but **the gradients of `wk` and `wv` are complete on every copy**; otherwise copies
  diverge in the first step.
- **Bytes:** per pass one all-reduce of a tensor like `x` among all ranks; in addition only the gradients of copied `wk` and `wv`, among
  their copies. Heads, keys, values and scores are never sent.""",
    **Worth(points=12, minutes=25, difficulty=4, importance=5),
    hints=(
        "Compare it with the MLP: which product is split by columns, and which by rows? What acts on each number there and on each "
        "head here? And which operator fits a weight that several ranks use?",
        "`copy_in` before x, once for all three products; `sum_out` after `wo`. If several ranks hold the same weight and use it for "
        "different heads, the same operator sums its gradient, among the copies.",
        "`wk, wv = copy_in(weights['wk'], copies), copy_in(weights['wv'], copies)`; `q = F.linear(x, wq).unflatten(-1, (-1, "
        "head_dim)).transpose(1, 2)`; `F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)`; back with "
        "`.transpose(1, 2).flatten(2)`.",
    ),
    answers=("parallel_attention",),
    allowed="every operation of `comm` and `copies`; torch; `copy_in` and `sum_out` of `course_lib.tensor_parallel`.",
    params={"tokens": 6, "head_dim": 4},
    vary=lambda draw: {"tokens": draw.choice((5, 6, 7)), "head_dim": draw.choice((2, 4))},
    probe=attention,
    returns=BOTH_PASSES,
)

CORE = (COLUMN_AND_ROW, PREDICT_TP_TIME, CONJUGATE_PAIR, PARALLEL_MLP, PARALLEL_ATTENTION)
