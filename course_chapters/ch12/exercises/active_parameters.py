from collections.abc import Mapping

from course_grader.exercises import Card, Number, Rows, Worth

SHARED: Mapping[int, str] = {
    0: "Every layer has `experts` experts, and each token uses `k` of them.",
    1: "Every layer has `experts` routed experts, and each token uses `k` of them. One **shared** expert of the same "
    "size comes on top; every token uses it, and the router does not score it.",
}

CARD = Card(
    title="Total and active parameters",
    text="""Count the parameters of a model with experts: all that must be stored, and those that one token uses. Memory
follows the first number, and compute follows the second. Write two functions with the same arguments
`(layers, width, ffn, experts, k, other)`:

- `total_parameters` returns all parameters. `active_parameters` returns those that take part in the computation for one
  token.
- {{means}} An expert is a gated MLP: three matrices of `width` × `ffn`.
- The router of a layer is one matrix of `width` × `experts`, without a bias. It computes a score for every expert.
- `other` counts everything else in the whole model (attention, norms, embeddings). Every token uses it.""",
    **Worth(points=4, minutes=5, difficulty=1, importance=5),
    hints=(
        "Which of the matrices of a layer does a token multiply with, and which does it skip?",
        "Per layer, the total has `experts` experts and the router. The active count has `k` experts, and the "
        "same router.",
        "`expert = 3 * width * ffn`; `layers * (k * expert + width * experts) + other`.",
    ),
    answers=("total_parameters", "active_parameters"),
    allowed="plain Python.",
    params={"shared": 0, "means": SHARED[0]},
    vary=lambda draw: {"shared": 1, "means": SHARED[1]},
    structural="shared",
    returns=Rows(Number("parameters"), Number("parameters")),
)
