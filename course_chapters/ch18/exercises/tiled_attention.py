from course_chapters.ch18.exercises.tile_probes import FORWARD, attention_forward
from course_grader.exercises import Card, Worth

SEES = {
    False: "Every query sees every key",
    True: "Query i sees the keys 0 to i; a tile of keys that no query of the tile sees is not loaded",
}

CARD = Card(
    title="Attention that never writes a score",
    text="""Write `tiled_attention(memory, rows, columns)`: attention of one head through a small fast memory, in tiles
of `rows` queries and `columns` keys. No score may leave the fast memory, and no whole row of scores fits.

- `memory.load(name, tile)` returns a tile of a tensor in slow memory, `memory.store(name, tensor, tile)` writes one,
  and `memory.tiles(name, rows)` lists the tiles of a tensor as slices; the last may be shorter. `memory.shape(name)`
  is a shape.
- "q", "k" and "v" are (tokens, width) in fp32. Fill "out" (tokens, width) and "log_sum" (tokens, 1), the logarithm of
  Σ exp(score) over the keys that a query sees. A score is q · k / √width. {{sees}}.
- Scores may be large: exp(score) alone would overflow.

Budget: each tile of queries is loaded once, and the keys and values once for each tile of queries; results are stored
once. At one time, at most four tiles of queries, four of keys and four of scores are in fast memory.""",
    **Worth(points=10, minutes=20, difficulty=4, importance=5),
    hints=(
        "What do you need to know about the earlier keys when a tile of new scores arrives? And what changes if one of "
        "the new scores is the largest so far?",
        "Keep three things for each query: the largest score so far, the sum of exp(score − largest), and the output "
        "so far without division. A new largest score shrinks the other two by exp(old − new).",
        "For each tile: `new = torch.maximum(largest, s.amax(1, keepdim=True))`; `shrink = (largest - new).exp()`; "
        "`s.sub_(new).exp_()`; `total = total * shrink + s.sum(1, keepdim=True)`; `out = out * shrink + s @ v`. At the "
        "end: `out / total` and `new + total.log()`.",
    ),
    answers=("tiled_attention",),
    allowed="torch without autograd; the library's kernel is switched off.",
    hides=("course_chapters.ch18.attention:forward",),
    params={"causal": False, "sees": SEES[False], "tokens": 8},
    vary=lambda draw: {"causal": True, "sees": SEES[True], "tokens": draw.choice((8, 10, 12))},
    structural="causal",
    needs=("03", "11"),
    probe=attention_forward,
    returns=FORWARD,
)
