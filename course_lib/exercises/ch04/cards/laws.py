"""Further exercises of chapter 04 on batches, data and scaling: critical batch, packing, a scaling law, two runs."""

from course_lib.exercises import Card, Worth
from course_lib.exercises.card_parts import functions
from course_lib.exercises.drilling import pick
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import ListOf, Maybe, Number, Rows, Tensor, TupleOf

CRITICAL_BATCH = Card(
    id="critical-batch",
    chapter="04",
    title="Where a larger batch stops paying",
    text="""Several runs reached the same loss with different batch sizes. Fit the trade-off between steps and examples, and use it to choose
the batch of the next run.

The runs lie on the hyperbola (U/U_min − 1)·(E/E_min − 1) = 1. U is the number of steps, E = n·U the number of examples at batch size n, and the
critical batch is E_min / U_min.

- `fit_hyperbola(batches, steps)`: return `(min_steps, min_examples, critical)` from two or more runs, in any order. They lie on the curve
  exactly, except that `steps` is rounded to whole numbers.
- `largest_batch(min_steps, min_examples, extra)`: return `(batch, steps)` for the largest batch that needs at most `1 + extra` times
  `min_examples` examples.

Shown: {{runs}} runs, then `extra` = {{extra}}. Values within 0.1 % pass.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Replace E by n·U in the formula and solve for U. How does U depend on 1/n?",
        "U = U_min + E_min / n: a straight line in 1/n. Its intercept and slope are two of the answers.",
        "`np.polyfit(1 / n, U, 1)` returns slope and intercept. For the second function: E/E_min = 1 + n/n_crit, so `batch = extra * "
        "min_examples / min_steps`, and `steps = min_steps * (1 + 1 / extra)`.",
    ),
    answers=("fit_hyperbola", "largest_batch"),
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
  true where position i (first index) may attend to position j: j is not after i, and both belong to the same document. Each padding
  position attends to itself alone, so that its softmax is defined.
- `positions(lengths, room)`: the position of each token within its own document, from 0, as a list of `room` numbers. Padding counts
  like one more document.

Shown: {{documents}} documents in rows of {{room}}.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Which documents are hardest to place: the long ones or the short ones? When should you place them?",
        "Sort document numbers by length, longest first; keep the room left in each row. For the mask, give each position the number of its "
        "document, and each padding position one of its own.",
        "`ids = [k for k, n in enumerate(lengths) for _ in range(n)]`, then -1, -2, … for padding; `d = torch.tensor(ids)`; "
        "`(d[:, None] == d) & torch.ones(room, room, dtype=torch.bool).tril()`.",
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

SCALING_LAW = Card(
    id="fit-scaling-law",
    chapter="04",
    title="A loss that levels off",
    text="""Small runs predict a large one only if the fit knows that the loss levels off. Fit the curve, then spend a budget.

- `fit_law(compute, losses)`: return `(floor, scale, exponent)` with loss = floor + scale · C^(−exponent), where C is an entry of
  `compute`. The points lie on such a curve exactly. There are at least four, in any order; the exponent lies between 0.02 and 1.
- `spend(flops, ratio)`: return `(parameters, tokens)` that spend `flops` at 6 FLOP per parameter and token, with `ratio` tokens per
  parameter.

Shown: {{points}} runs, and a budget at {{ratio}} tokens per parameter. Values of the fit within 1 % pass, those of the plan within 0.1 %.""",
    **Worth(points=8, minutes=20, difficulty=4, importance=3),
    kind="more",
    hints=(
        "Plot loss against compute with both axes logarithmic. Is it a straight line? What would be, if you knew the floor?",
        "If you knew the exponent, floor and scale would follow from a straight line. So search over the exponent alone.",
        "For each exponent: `x = C ** -exponent`, `scale, floor = np.polyfit(x, losses, 1)`, and the sum of squared errors. Scan a grid, then "
        "refine it around the best. Divide C by its geometric mean first. `N = (flops / 6 / ratio) ** 0.5`.",
    ),
    answers=("fit_law", "spend"),
    allowed="the standard library and numpy.",
    hides=functions("scaling_laws", "fit_power_law", "split", "tokens_for"),
    params={"points": 6, "ratio": 20},
    vary=pick(points=(5, 7), ratio=(15, 25, 40)),
    probe=rows,
    returns=Rows(
        TupleOf({"floor": Number(), "scale": Number(), "exponent": Number()}),
        TupleOf({"parameters": Number(), "tokens": Number()}),
    ),
)

SECONDS_TO_A_LOSS = Card(
    id="seconds-to-a-loss",
    chapter="04",
    title="Which run was faster?",
    text="""Compare runs by the time that they take to reach a loss. One may process more tokens per second, another may learn more from each token.

A run is a dictionary: `"rate"` (tokens per second), and the lists `"tokens"` (rising) and `"losses"`, recorded at the same moments. Between
two recorded points the loss is a straight line in tokens.

- `seconds_to(run, target)`: return the seconds until the loss is **first** at or below `target`, counted from 0 tokens. If the first
  recorded point (which may be at 0 tokens) is already there, return the time of that point. Return `None` if the loss never gets there.
- `winner(runs, target)`: `runs` is a list. Return the number (0 is the first) of the run that is first to reach the target, the earlier
  one in the list if two are equal, or `None` if none reaches it.

Shown: {{runs}} runs. Values within a millionth pass.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=5),
    kind="more",
    hints=(
        "What does tokens per second say about the loss after one hour?",
        "Find the first recorded point at or below the target. The crossing lies between it and the point before.",
        "`part = (before - target) / (before - after)`; tokens = t0 + part · (t1 − t0); seconds = tokens / rate.",
    ),
    answers=("seconds_to", "winner"),
    allowed="the standard library and numpy.",
    params={"runs": 4},
    vary=pick(runs=(5, 6)),
    probe=rows,
    returns=Rows(Maybe(Number("seconds")), Maybe(Number("a run", whole=True))),
)
