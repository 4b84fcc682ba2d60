from course_chapters.ch12.exercises.probes import mixed
from course_chapters.ch12.exercises.shared import LAYER
from course_grader.exercises import Card, Worth

SCALES = {
    "output": "`Σⱼ weights[t, j] · experts[ids[t, j]](x[t])`: the weight scales what the expert **returns**",
    "input": "`Σⱼ experts[ids[t, j]](weights[t, j] · x[t])`: the weight scales what the expert **is given**, "
    "as in Llama 4",
}

CARD = Card(
    title="One call per expert",
    text="""Write `mixture(x, ids, weights, experts)`, the layer on one rank. GPUs need large matrix products, so each
expert must be called once, with all of its tokens.

- `x` is (tokens, width). `ids` and `weights` are (tokens, k), and the `k` ids of a token are different. `experts` is a
  list of functions from (rows, width) to (rows, width).
- Row t of the result is {{means}}.
- Call an expert **once** if it has tokens, with exactly their rows and in the order of the tokens. Do not call an
  expert without tokens.
- Gradients flow to `x`, to `weights` and into the experts.
- There may be no tokens at all. `x` may be a transposed view.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    hints=(
        "If you list all copies of tokens, sorted by expert, which rows does each expert need, and which rows of the "
        "result do they belong to?",
        "`ids.flatten()` lists the copies; copy c belongs to token c // k. Sort the copies stably by expert, split "
        "them by counts, and add the results back with `index_add`, which adds where several copies belong "
        "to one token.",
        "`for e in flat.unique().tolist(): copies = (flat == e).nonzero()[:, 0]; tokens = copies // k; "
        "out = out.index_add(0, tokens, experts[e](x[tokens]) * weights.flatten()[copies, None])`.",
    ),
    answers=("mixture",),
    allowed="torch; the library's layer is switched off.",
    hides=("course_lib.parallel.expert.experts:grouped_mixture", "course_lib.parallel.expert.experts:dense_mixture"),
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
