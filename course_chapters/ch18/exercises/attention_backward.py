from course_chapters.ch18.exercises.tile_probes import BACKWARD, attention_backward
from course_grader.exercises import Card, Worth

CARD = Card(
    title="Gradients without the matrix of scores",
    text="""Write `attention_backward(memory, rows, columns)`: the gradients of attention from what its forward pass
kept, in tiles of `rows` queries and `columns` keys. Compute each tile of weights again, exp(score − log_sum).

- `memory` has the calls of `tiled-attention`. In slow memory are "q", "k", "v", "out" and "grad", the gradient of
  "out", all (tokens, width), and "log_sum" (tokens, 1), in fp32. Every query sees every key; a score is
  {{scale}}.
- Fill "dq", "dk" and "dv" (tokens, width). There is also room for "delta" (tokens, 1), if you want to store one number
  for each query. Nothing is there before you store it.
- With P the weights and δ = Σ grad · out of each query: dV = Pᵀ grad, dS = P ∘ (grad Vᵀ − δ), and dQ and dK follow
  from dS as they follow from the gradient of any scores.

Budget: keys and values are loaded and their gradients stored once; q, grad, log_sum, delta and dq move once for each
tile of keys, dq in both directions. At one time, at most six tiles of queries, six of keys and four of scores are in
fast memory.""",
    **Worth(points=10, minutes=25, difficulty=4, importance=4),
    kind="more",
    hints=(
        "Which of the three gradients are sums over queries, and which is a sum over keys? Which can stay in fast "
        "memory, if keys are the outer loop?",
        "First store delta for all queries. Then, for each tile of keys, keep dk and dv and go through all tiles of "
        "queries. The dq of a tile grows from one tile of keys to the next: load it, add, store it.",
        "`p = (scores - log_sum).exp()`; `dv += p.T @ grad`; `ds = p * (grad @ v.T - delta)`; `dk += ds.T @ q * scale`;"
        " `dq += ds @ k * scale`. The first tile of keys has no dq to load.",
    ),
    answers=("attention_backward",),
    allowed="torch without autograd; the library's kernels are switched off.",
    hides=("course_chapters.ch18.attention:backward", "course_lib.parallel.context.log_sum_exp_merge:attend_backward"),
    params={"power": 0.5, "scale": "q · k / √width", "tokens": 8},
    vary=lambda draw: {"power": 1.0, "scale": "q · k / width, as μP has it", "tokens": draw.choice((8, 10, 12))},
    structural="power",
    needs=("11",),
    probe=attention_backward,
    returns=BACKWARD,
)
