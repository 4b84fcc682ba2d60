from collections.abc import Sequence

from course_grader.exercises import Anything, Card, Worth, unless_open
from course_grader.records import Answer, Case

GIVEN = """def clip(x, limit):
    norm = x.norm()
    if norm > limit:
        return x * (limit / norm)
    return x

def kept_mean(x, keep):
    if not keep.any():
        return x.new_zeros(())
    return x[keep].mean()

class Ramp(torch.nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps, self.calls = steps, 0

    def forward(self, x):
        self.calls += 1
        return x * min(self.calls / self.steps, 1)"""


def compiled_calls(answers: Sequence[Answer], case: Case, comm: object = None) -> object:
    """What an answer returns under torch.compile for each row of `case.args = (index, rows)`, the first row of a class
    being its arguments; the number of graphs that were compiled, and why one is not possible."""
    from course_chapters.ch18.compiled import watched

    index, table = case.args

    def calls() -> object:
        function, rows = (answers[2](*table[0]), table[1:]) if index == 2 else (answers[index], table)
        seen = watched(function, rows)
        return list(seen.values), sum(seen.graphs), seen.broke

    return unless_open(index, calls)


CARD = Card(
    title="One graph, compiled once",
    text=f"""Rewrite three pieces of a training step so that `torch.compile` makes **one** graph of each and compiles it
**once**, with the same results as in eager mode. The third is a public thread (*pytorch/pytorch, issue 128319*): a
counter in a module makes the compiler start again in every step.

```python
{GIVEN}
```

- `clip(x, limit)` scales `x` down to the norm `limit`, a positive number.
- `kept_mean(x, keep)` is the mean of `x` where the mask `keep` is true, and 0 where none is. What the mask hides may be
  infinite or NaN.
- `Ramp(steps)`, called for the n-th time, multiplies by n / `steps`, at most by 1.

The judge calls each several times under `torch.compile` and counts graphs; its ramp has {{{{steps}}}} steps.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "What must the compiler know before it can go on past an `if` on a tensor? Whose value did it check before it "
        "used a graph again?",
        "`torch.where` and `clamp` choose on the device. A tensor's size must not depend on values: keep the full "
        "size, and count what is kept. A number that changes in every step belongs in a tensor.",
        "`(limit / norm).clamp(max=1)`; `torch.where(keep, x, 0).sum() / keep.sum().clamp(min=1)`; "
        '`self.register_buffer("calls", torch.zeros(()))` and `self.calls.add_(1)`.',
    ),
    answers=("clip", "kept_mean", "Ramp"),
    allowed="everything in torch but switching its compiler off.",
    params={"steps": 3},
    vary=lambda draw: {"steps": draw.choice((2, 4))},
    probe=compiled_calls,
    returns=Anything("tensors, as in eager mode"),
)
