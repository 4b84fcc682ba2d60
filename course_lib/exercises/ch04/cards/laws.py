"""Further exercises of chapter 04 on batches, data and scaling: critical batch, packing, a scaling law, two runs, a batch ramp."""

from course_lib.exercises import Card, Worth
from course_lib.exercises.card_parts import functions
from course_lib.exercises.drilling import pick
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import ListOf, Number, Rows, Tensor, TupleOf

CRITICAL_BATCH = Card(
    id="critical-batch",
    chapter="04",
    title="Where a larger batch stops paying",
    text="""Several runs reached the same loss with different batch sizes. Fit the trade-off between steps and examples, and use it to choose
the batch of the next run.

The runs lie on the hyperbola (S/S_min − 1)·(E/E_min − 1) = 1. S is the number of steps, E = B·S the number of examples, and the
critical batch is E_min / S_min.

- `fit(batches, steps)`: return `(min_steps, min_examples, critical)` from two or more runs, in any order. They lie on the curve
  exactly, except that `steps` is rounded to whole numbers.
- `largest_batch(min_steps, min_examples, extra)`: return `(batch, steps)` for the largest batch that needs at most `1 + extra` times
  `min_examples` examples.

Shown: {{runs}} runs, then `extra` = {{extra}}. Values within 0.1 % pass.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Replace E by B·S in the formula and solve for S. How does S depend on 1/B?",
        "S = S_min + E_min / B: a straight line in 1/B. Its intercept and slope are two of the answers.",
        "`np.polyfit(1 / B, S, 1)` returns slope and intercept. For the second function: E/E_min = 1 + B/B_crit, so `batch = extra * "
        "min_examples / min_steps`, and `steps = min_steps * (1 + 1 / extra)`.",
    ),
    answers=("fit", "largest_batch"),
    allowed="the standard library and numpy.",
    hides=functions("optimizer.noise", "fit_critical_batch"),
    params={"runs": 5, "extra": 0.25},
    vary=pick(runs=(4, 6), extra=(0.1, 0.5)),
    probe=rows,
    returns=Rows(
        TupleOf({"min_steps": Number(), "min_examples": Number(), "critical": Number()}),
        TupleOf({"batch": Number(), "steps": Number()}),
    ),
)

PACK_DOCUMENTS = Card(
    id="pack-documents",
    chapter="04",
    title="Many documents in one row",
    text="""Padding wastes compute, so training packs several documents into one row of `room` positions. Write the packing, and the mask and
positions that keep the documents apart.

- `pack(lengths, room)`: return a list of rows. A row is a list of document numbers (0 is the first). Every document is in exactly
  one row, and the lengths in a row add up to at most `room`. No document is longer than `room`. Use at most as many rows as
  **first-fit decreasing** does: it takes the longest document first and puts each into the first row with room for it.
- `mask(lengths, room)`: one row holds documents of these lengths, in this order, then padding. Return a boolean (room, room) tensor,
  true where position i (first index) may attend to position j: j is not after i, and both belong to the same document. Padding attends
  to nothing, and nothing attends to it.
- `positions(lengths, room)`: the position of each token within its own document, from 0, as a list of `room` numbers; 0 for padding.

Shown: {{documents}} documents in rows of {{room}}.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Which documents are hardest to place: the long ones or the short ones? When should you place them?",
        "Sort document numbers by length, longest first; keep the room left in each row. For the mask, give each position the number of its "
        "document, and padding a number of its own.",
        "`ids = [k for k, n in enumerate(lengths) for _ in range(n)]`, padded with -1; `d = torch.tensor(ids)`; `(d[:, None] == d) & (d >= 0) & "
        "torch.ones(room, room, dtype=torch.bool).tril()`.",
    ),
    answers=("pack", "mask", "positions"),
    allowed="the standard library and torch.",
    hides=functions(
        "packing", "in_order", "first_fit_decreasing", "document_ids", "document_mask", "document_positions"
    ),
    params={"documents": 9, "room": 16},
    vary=pick(documents=(8, 10, 12), room=(12, 20)),
    probe=rows,
    returns=Rows(
        ListOf(ListOf(Number("a document", whole=True)), what="row"),
        Tensor("a boolean tensor"),
        ListOf(Number("positions", whole=True)),
    ),
)
