"""Cards of chapter 12 on the layer: tokens grouped by expert on one rank, and experts on many."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch12.probes import mixed, parallel
from course_lib.exercises.returns import Anything, DictOf, ListOf, PerRank, Tensor

LAYER = DictOf(
    {"output": Anything(), "gradients": ListOf(Tensor()), "calls": ListOf(ListOf(Tensor())), "changed": Anything()}
)

SCALES: Mapping[str, str] = {
    "output": "`Σⱼ weights[t, j] · experts[ids[t, j]](x[t])`: the weight scales what the expert **returns**",
    "input": "`Σⱼ experts[ids[t, j]](weights[t, j] · x[t])`: the weight scales what the expert **is given**, as in Llama 4",
}

GROUP_BY_EXPERT = Card(
    id="group-by-expert",
    chapter="12",
    title="One call per expert",
    text="""Write `mixture(x, ids, weights, experts)`, the layer on one rank. GPUs need large matrix products, so each expert must be called once, with
all of its tokens.

- `x` is (tokens, width). `ids` and `weights` are (tokens, k), and the `k` ids of a token are different. `experts` is a list of functions
  from (rows, width) to (rows, width).
- Row t of the result is {{means}}.
- Call an expert **once** if it has tokens, with exactly their rows and in the order of the tokens. Do not call an expert without tokens.
- Gradients flow to `x`, to `weights` and into the experts.
- There may be no tokens at all. `x` may be a transposed view.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    hints=(
        "If you list all copies of tokens, sorted by expert, which rows does each expert need, and which rows of the result do they belong to?",
        "`ids.flatten()` lists the copies; copy c belongs to token c // k. Sort the copies stably by expert, split them by counts, and add "
        "the results back with `index_add`, which adds where several copies belong to one token.",
        "`for e in flat.unique().tolist(): copies = (flat == e).nonzero()[:, 0]; tokens = copies // k; "
        "out = out.index_add(0, tokens, experts[e](x[tokens]) * weights.flatten()[copies, None])`.",
    ),
    answers=("mixture",),
    allowed="torch; the library's layer is switched off.",
    hides=("expert_parallel.experts:grouped_mixture", "expert_parallel.experts:dense_mixture"),
    params={"scales": "output", "means": SCALES["output"], "tokens": 6, "experts": 4},
    vary=lambda draw: {
        "scales": "input",
        "means": SCALES["input"],
        "tokens": draw.randrange(6, 12),
        "experts": draw.randrange(4, 8),
    },
    structural="scales",
    probe=mixed,
    returns=LAYER,
)

PLACES: Mapping[str, str] = {
    "blocks": "Each rank holds n = `len(experts)` experts: rank r has experts r·n to r·n + n − 1, in this order",
    "round-robin": "Each rank holds n = `len(experts)` experts, dealt like cards: rank r has the experts r, r + ranks, r + 2·ranks and so on, "
    "in this order",
}

EXPERT_PARALLEL = Card(
    id="expert-parallel",
    chapter="12",
    title="Experts on many ranks",
    text="""Write `expert_parallel(comm, x, ids, weights, experts, exchange)`, the same layer with its experts spread over the ranks. Copies of tokens
travel to the rank of their expert, and the results travel back.

- {{means}}. `ids` are the numbers of the experts over all ranks.
- `x`, `ids` and `weights` are this rank's own tokens. Row t of the result is Σⱼ weights[t, j] · expert ids[t, j] of x[t].
- `exchange(rows, send, receive)` exchanges rows with gradients: `send[j]` rows go to rank j, `receive[i]` rows come from rank i. Use it twice.
- Call each expert at most once, with its rows alone. Gradients flow to `x`, `weights` and all experts.
- A rank may have no tokens, or its experts may receive none. It must still take part in every exchange, **in the backward pass too**.
- There may be one rank. The number of tokens differs between ranks.

Budget: every copy for another rank crosses once each way, without padding. For counts, each rank may send 8 bytes per expert on another rank.""",
    **Worth(points=12, minutes=25, difficulty=4, importance=5),
    hints=(
        "What must a rank know before it can receive rows, and how does it know which of its experts each row is for?",
        "Sort the copies by rank and then by local expert, and exchange the counts for each pair of rank and local expert. What arrives is sorted by "
        "source and then by expert. Sort it by expert, compute, undo the sorting, send back, undo the first sorting.",
        "`order = (rank_of * n + local).argsort(stable=True)`; `counts = bincount(..., minlength=ranks * n)`; all-to-all of `counts`; "
        "`which = arange(n).repeat(ranks).repeat_interleave(arrived_counts)`; start the result with a `cat` of all parts, empty ones too.",
    ),
    answers=("expert_parallel",),
    allowed="torch, `exchange` and the operations of `comm`; the library's layer is switched off.",
    hides=(
        "expert_parallel.exchange:dispatch",
        "expert_parallel.exchange:combine",
        "expert_parallel.exchange:all_to_all",
    ),
    params={"placement": "blocks", "means": PLACES["blocks"], "tokens": 5},
    vary=lambda draw: {"placement": "round-robin", "means": PLACES["round-robin"], "tokens": draw.randrange(5, 10)},
    structural="placement",
    needs=("06",),
    probe=parallel,
    returns=PerRank(LAYER),
)
