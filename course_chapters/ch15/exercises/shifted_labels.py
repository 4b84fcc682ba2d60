from course_grader.exercises import Card, ListOf, Rows, Tensor, Word, Worth
from course_grader.exercises.audits import causes_text

LABEL_WORDS = {
    "shape": "the three tensors have different shapes",
    "not shifted": "each target is the token that is read, so the model learns to copy and the loss falls to zero",
    "shifted twice": "each target is the token after the next, as when the loss shifts once more",
    "wrapped": "the last target of every row is the first token of that row",
    "crosses documents": "a target counts although it is in another document than the token that is read",
    "hides labels": "a target does not count although it is in the same document",
    "fine": "the batch has no fault",
}
ENDS, BEGINS = (
    {"marks": marks, "shown": f"**{marks}** with the token `mark`", "remark": remark}
    for marks, remark in (
        ("ends", "the mark itself is a target like any other: a model must learn when to stop"),
        ("begins", "the mark is a token to read like any other, but no model can predict it"),
    )
)
CARD = Card(
    title="Labels shifted by one",
    text=f"""Repair a function that makes labels for training, and write one that finds the fault in somebody else's
labels. `targets[i]` must be `inputs[i + 1]`; getting this wrong is the most common bug in training programs: no error
is raised, and the loss falls. Shifted twice, a model learns the token after the next (*huggingface/transformers, issue
47394, 2026*; *pull request 37830, 2025*); not shifted, it learns to copy (*issue 27517, 2023*).

`stream` is a row of tokens with one document after another; each {{{{shown}}}}. We cut it into rows of `length`, each
starting where the previous one ended, and make three tensors of shape `(rows, length)`: the tokens that are read, the
next tokens of the stream, and, as bool, whether each target counts. A target in **another document** than the token
that is read does not count ({{{{remark}}}}). Make as many whole rows as have all their targets. This program does it
wrong:

```python
def labeled(stream, length, mark):
    rows = len(stream) // length
    inputs = stream[: rows * length].view(rows, length)
    targets = inputs.roll(-1, dims=1)
    counts = targets != inputs
    return inputs, targets, counts
```

1. Repair `labeled(stream, length, mark)`.
2. Write `label_fault(inputs, targets, counts, mark)`. It inspects somebody else's batch, whose rows are in any order.
   The batch has at most one fault:

{causes_text(LABEL_WORDS)}""",
    **Worth(points=6, minutes=15, difficulty=2, importance=5),
    kind="more",
    form="bug",
    hints=(
        "Write twelve tokens in two documents on paper, rows of five below them, then the targets. Which is the last "
        "target of the first row? How many rows have all theirs?",
        "The targets are the same stream, cut in the same places, one token later. A target is in another document "
        "where one token of the pair is the mark: which one?",
        "`rows = (len(stream) - 1) // length`; `targets = stream[1 : rows * length + 1].view(rows, length)`. For the "
        "fault, compare `targets[:, : length - by]` with `inputs[:, by:]` for `by` 0 and 2, the last column of "
        "targets with the first of inputs, then `counts` with what it should be.",
    ),
    answers=("labeled", "label_fault"),
    returns=Rows(ListOf(Tensor(), 3), Word(tuple(LABEL_WORDS))),
    allowed="torch; `stream` is a tensor of int64 with more than `length` tokens. Return tensors.",
    params={**ENDS, "length": 8},
    vary=lambda draw: {**BEGINS, "length": draw.choice((6, 7, 9))},
    structural="marks",
)
