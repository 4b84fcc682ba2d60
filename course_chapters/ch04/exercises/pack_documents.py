from course_grader.exercises import Card, ListOf, Number, Rows, Tensor, Worth, pick

CARD = Card(
    title="Many documents in one row",
    text="""Padding wastes compute, so training packs several documents into one row of `room` positions. Write the
packing, and the mask and positions that keep the documents apart.

- `pack(lengths, room)`: return a list of rows. A row is a list of document numbers (0 is the first). Every document is
  in exactly one row, and the lengths in a row add up to at most `room`. No document is longer than `room`. Use at most
  as many rows as **first-fit decreasing** does: it takes the longest document first and puts each into the first row
  with room for it.
- `mask(lengths, room)`: one row holds documents of these lengths, in this order, then padding. Return a boolean (room,
  room) tensor, true where position i (first index) may attend to position j: j is not after i, and both belong to the
  same document. Each padding position attends to itself alone, so that its softmax is defined.
- `positions(lengths, room)`: the position of each token within its own document, from 0, as a list of `room` numbers.
  Padding counts like one more document.

Shown: {{documents}} documents in rows of {{room}}.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Which documents are hardest to place: the long ones or the short ones? When should you place them?",
        "Sort document numbers by length, longest first; keep the room left in each row. For the mask, give each "
        "position the number of its document, and each padding position one of its own.",
        "`ids = [k for k, n in enumerate(lengths) for _ in range(n)]`, then -1, -2, … for padding; `d = "
        "torch.tensor(ids)`; `(d[:, None] == d) & torch.ones(room, room, dtype=torch.bool).tril()`.",
    ),
    answers=("pack", "mask", "positions"),
    allowed="the standard library and torch.",
    hides=(
        "course_lib.model.packing:in_order, first_fit_decreasing, document_ids, document_mask",
        "course_lib.model.packing:document_positions",
    ),
    params={"documents": 9, "room": 16},
    vary=pick(documents=(8, 10, 12), room=(12, 20)),
    returns=Rows(
        ListOf(ListOf(Number("a document", whole=True)), what="row"),
        Tensor("a boolean tensor"),
        ListOf(Number("positions", whole=True)),
    ),
)
