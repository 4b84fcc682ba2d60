from course_grader.exercises import Anything, Card, Number, Rows, Worth, rows, watched

KEEPS = {
    "position": "those of the **lower token numbers**",
    "weight": "those with the **larger weights**; of equal weights, the lower token number goes first",
}

CARD = Card(
    title="Capacity: which copies fit",
    text="""An expert with a fixed buffer takes at most `capacity` copies of tokens. Write two functions: one sizes the
buffer, and one decides which copies are dropped.

- `capacity(tokens, k, experts, factor)` returns `factor` times the mean number of copies per expert, rounded **up** to
  a whole number, and at least 1.
- `kept(ids, weights, capacity)` returns a bool tensor in the shape of `ids`: whether each copy is kept.
- `ids` and `weights` have shape (tokens, k). `ids` holds expert numbers, and the `k` numbers of a token are different.
- An expert with at most `capacity` copies keeps all of them. Any other keeps exactly `capacity`: {{means}}.
- Each copy is decided by itself: a token may lose one copy and keep another. Leave the tensors as they are.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=4),
    hints=(
        "In the queue of its expert, which place does each copy have?",
        "Put the copies in order of priority, and sort them by expert with a stable sort. The place of a copy is its "
        "position minus the start of its expert.",
        "`flat = ids.flatten()`; `order = flat.argsort(stable=True)`; `starts = counts.cumsum(0) - counts`; "
        "`place[order] = torch.arange(len(flat)) - starts[flat[order]]`; `place < capacity`.",
    ),
    answers=("capacity", "kept"),
    allowed="torch and `math`; the library's dispatch is switched off.",
    hides=("course_lib.parallel.expert.costs:capacity", "course_lib.parallel.expert.expert_capacity:keep"),
    params={"keeps": "position", "means": KEEPS["position"]},
    vary=lambda draw: {"keeps": "weight", "means": KEEPS["weight"]},
    structural="keeps",
    probe=watched(rows),
    returns=Rows(Number("copies", whole=True), Anything("a bool tensor")),
)
