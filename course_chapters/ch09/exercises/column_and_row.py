from course_chapters.ch09.exercises.probes import PIECE, cut
from course_grader.exercises import Card, Worth

LAYOUTS = {
    "torch": "as `nn.Linear` stores it, (out, in): y = x Wᵀ",
    "textbook": "as textbooks write it, (in, out): Y = X W",
}


CARD = Card(
    title="Two ways to split a matrix",
    text="""Write the two functions that split a weight; every later exercise uses such pieces. The weight is stored
{{held}}. Split it for `ranks` ranks, in order:

- `column_shard(weight, rank, ranks)`: the piece that computes this rank's **outputs** from the whole input. The
  concatenated outputs of all ranks are the product.
- `row_shard(weight, rank, ranks)`: the piece that needs only this rank's **inputs** and computes a part of every
  output. The sum of all ranks' outputs is the product.

The names come from Y = X W, where outputs are columns of W and inputs are rows. `ranks` divides the split dimension.
With several ranks, a piece has its own memory, because a view would keep the whole weight alive. `weight` does not
require gradients; on one rank the piece may be the weight itself.""",
    **Worth(points=5, minutes=5, difficulty=1, importance=5),
    hints=(
        "Which of the two dimensions of `weight` counts outputs in this layout?",
        "A column split takes a range of outputs, a row split a range of inputs. Both ranges are [rank · n / ranks, "
        "(rank + 1) · n / ranks).",
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
