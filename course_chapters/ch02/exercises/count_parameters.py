from course_chapters.ch02.exercises.shared import shape_of
from course_grader.exercises import Card, Worth, rows

_BIASES = {
    "none": "No matrix has a bias.",
    "qkv": "The query, key and value matrices have biases (one number per output); the other matrices have none.",
}


def _count(model: str, biases: str) -> dict[str, object]:
    shape = shape_of(model)
    stated = {"model": model, "shape": shape, "shape_words": str(shape)}
    return {**stated, "biases": biases, "biases_words": _BIASES[biases]}


CARD = Card(
    title="Every parameter, by part",
    **Worth(points=15, minutes=15, difficulty=2, importance=4),
    kind="more",
    answers=("count_parameters",),
    text="""Write `count_parameters(shape)`: the number of parameters of a decoder, by part. `shape` is a dictionary
like that of {{model}}: `{{shape_words}}`.

It returns a dictionary of whole numbers for the **whole model**, with the keys `"embedding"`, `"attention"`, `"mlp"`,
`"norms"` and `"head"`.

- **Attention** has four matrices. The query and output matrices have `heads` heads of `head_dim` numbers; the key and
  value matrices have only `kv_heads`. `heads * head_dim` can differ from `hidden`. {{biases_words}}
- **MLP:** from `hidden` to `ffn` and back. If `"gated"` is true, there is a third matrix of the same size as the first.
- **Norms** are RMSNorms, with one number per feature: two in every layer and one at the end. Positions are rotary and
  have no parameters.
- **Head:** maps to the vocabulary, without a bias. If `"tied"` is true, it *is* the embedding, so the head has 0.

The check compares your numbers with the sizes of real tensors, created without memory (`device="meta"`).""",
    hints=(
        "Which of the four attention matrices become smaller when several query heads share one key and value head?",
        "Write down the shape of every matrix of one layer, multiply, add, and multiply by the number of layers. Then "
        "add what exists once: the embedding, the last norm and the head.",
        "`q = hidden * heads * head_dim`, `kv = 2 * hidden * kv_heads * head_dim`, `o = heads * head_dim * hidden`; "
        "`mlp = (3 if gated else 2) * hidden * ffn`; `norms = (2 * layers + 1) * hidden`.",
    ),
    allowed="the standard library and numpy.",
    hides=("course_lib.estimate.memory:count_params, params_by_part, layer_params",),
    params=_count("llama3-8b", "none"),
    vary=lambda draw: _count(draw.choice(("qwen2.5-0.5b", "qwen2.5-7b", "qwen2.5-72b")), "qkv"),
    structural="biases",
    probe=rows,
)
