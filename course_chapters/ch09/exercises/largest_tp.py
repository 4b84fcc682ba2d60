from collections.abc import Mapping

from course_grader.exercises import Card, Number, Rows, Worth

PASSES: Mapping[str, str] = {
    "none": "Nothing is recomputed: two all-reduces forward, two backward",
    "full": "Activations are recomputed in full: the forward pass with its two all-reduces and its products runs once "
    "more before the backward pass",
}

CARD = Card(
    title="How many ranks are worthwhile?",
    text="""Write two functions: the time of a layer's all-reduces, and the largest number of ranks at which that time
is acceptable. A layer has attention (every head has its own keys: four matrices hidden × hidden) and a gated MLP (three
matrices hidden × ffn). {{passes}}. Activations have 16 bits, all-reduces use a ring without latency, and a product
takes 2 FLOPs per weight and token forward and 4 backward. Scores, norms and all other operations are left out.

- `tp_seconds(tokens, hidden, ranks, bandwidth)`: seconds that a rank spends on one layer's all-reduces for a
  micro-batch, forward and backward; `bandwidth` in bytes/s one way. With one rank: 0.
- `largest_tp(tokens, hidden, ffn, flops, inside, across, per_node, share)`: the largest power of two of ranks for which
  these seconds are at most `share` times the seconds of the rank's own products. `flops` is one rank's FLOP/s. Up to
  `per_node` ranks the bandwidth is `inside`; beyond that, the whole ring runs at `across`. Try at most 1,024 ranks.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "What happens to a rank's products when N doubles, and to its all-reduces?",
        "Bytes per rank: all-reduces per layer × 2 (1 − 1/N) × tokens × hidden × 2. FLOPs per rank: 6 (8 where the "
        "forward pass runs twice) × tokens × weights / N.",
        "`for n in (1024, 512, …, 1)`: `bandwidth = inside if n <= per_node else across`; return the first n with "
        "`tp_seconds(tokens, hidden, n, bandwidth) <= share * seconds_of_products(n)`.",
    ),
    answers=("tp_seconds", "largest_tp"),
    hides=("course_lib.parallel.tensor.traffic:tp_bytes_per_layer, tp_cost_per_layer, tp_calls_per_layer",),
    params={"recompute": "none", "passes": PASSES["none"], "hidden": 8192},
    vary=lambda draw: {"recompute": "full", "passes": PASSES["full"], "hidden": draw.choice((4096, 8192, 12288))},
    structural="recompute",
    returns=Rows(Number("seconds"), Number("ranks")),
)
