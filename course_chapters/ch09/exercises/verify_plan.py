from course_grader.exercises import Anything, Card, ListOf, Rows, TupleOf, Word, Worth

CARD = Card(
    title="The plan that shards nothing",
    text="""Write a `verify(plan, whole, held, ranks)` that finds a plan that shards nothing. Libraries take a plan of
patterns, `{"layers.*.mlp.up": "column", "layers.*.mlp.down": "row"}`, and some ignored a misspelled pattern silently:
the layer stays whole on every rank, the loss is right to the last digit, and nothing is saved
(*huggingface/transformers, pull request 37893, 2025*). So this check

```python
def verify(plan, whole, held, ranks):
    return []            # "the loss is the same, so it works"
```

checks nothing. `whole` and `held` map every weight's name to its shape (rows, columns), in the whole model and on this
rank. Weights are stored (out, in): `"column"` splits the rows, `"row"` the columns. Patterns match as in
`fnmatch.fnmatchcase`; at most one matches a name. Return the complaints, a sorted list of pairs, empty if all is as
planned:

- `("unused", pattern)`: the pattern matches no weight;
- `("whole", name)`: the plan splits this weight, but it is held whole;
- `("wrong side", name)`: it is held in another shape than planned; a weight without a pattern is planned whole.

`ranks` divides the split dimension. On one rank, a split weight is whole, and that is no complaint.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    form="bug",
    hints=(
        "What does a plan promise about shapes? Which of these promises can the loss see?",
        "Use two loops: over the patterns, which must each match a weight; and over the weights, which must each have "
        "the shape of their pattern, or their whole shape without one.",
        "`styles = [style for pattern, style in plan.items() if fnmatchcase(name, pattern)]`; `want = (rows // ranks, "
        "columns)` for column, `(rows, columns // ranks)` for row; compare `tuple(held[name])` with it, then "
        "with the whole.",
    ),
    answers=("verify",),
    allowed="the standard library.",
    params={"ranks": 4, "layers": 3},
    vary=lambda draw: {"ranks": draw.choice((2, 4, 8)), "layers": draw.choice((2, 3))},
    returns=Rows(ListOf(TupleOf({"complaint": Word(("unused", "whole", "wrong side")), "name": Anything()}))),
)
