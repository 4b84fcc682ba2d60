from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from course_grader.exercises import Card, Worth
from course_grader.exercises.result_schema import Anything, DictOf, ListOf, Number
from course_grader.records import Answer, Case

if TYPE_CHECKING:
    from torch import Tensor

Named = dict[str, "Tensor"]


def _recurrent(named: Named) -> None:
    named["h"] = (named["h"] + named["x"]).tanh()
    named["y"] = named["h"].sum(-1)


def _plain(named: Named) -> None:
    named["y"] = named["x"] * 2


def _twice(named: Named) -> None:
    for _ in range(2):
        named["x"] = named["x"] * named["scale"] + 1


STEPS: Mapping[str, Callable[[Named], None]] = {"recurrent": _recurrent, "plain": _plain, "twice": _twice}


def replays(answer: Answer, case: Case, comm: object = None) -> object:
    """What the answer makes of the batches of `case.args = (step, batches)`, looked at after the last call; the batches
    as they are then, and how often a capture began and the step's Python ran."""
    from course_chapters.ch18.capture import Graph

    name, batches = case.args
    counts = {"captures": 0, "steps": 0}

    class Counting(Graph):
        def __init__(self) -> None:
            super().__init__()
            counts["captures"] += 1

    def step(named: Named) -> None:
        counts["steps"] += 1
        STEPS[name](named)

    given = [{key: each.clone() for key, each in batch.items()} for batch in batches]
    run = answer(step, Counting)
    found = [run(batch) for batch in given]
    return {"found": [dict(each) if isinstance(each, dict) else each for each in found], "given": given, **counts}


CARD = Card(
    title="Repair: a graph that ignores its inputs",
    text="""Repair this runner of captured steps. The same mistake was found in a public library (*pytorch/tensordict,
pull request 1788, 2026*): a step that writes a result under the name of an input kept using its first input.

```python
def replayed(step, Graph):
    graphs = {}

    def run(batch):
        shapes = tuple(each.shape for each in batch.values())
        if shapes not in graphs:
            with Graph() as graph:
                step(batch)
            graphs[shapes] = graph, batch
        graph, own = graphs[shapes]
        for name in batch:
            own[name].copy_(batch[name])
        graph.replay()
        return own

    return run
```

- `step(named)` takes a dictionary of tensors. It may add entries and bind others anew; it changes no tensor in place.
- `run(batch)` returns a new dictionary: what `step` makes of a copy of `batch`. It leaves `batch` and earlier results
  as they are.
- `step` runs **once** for each set of names, shapes and dtypes, inside a capture. All else is done by replays. `Graph`
  is `capture.Graph`, counted.

The visible batches have {{rows}} rows.""",
    **Worth(points=6, minutes=15, difficulty=3, importance=4),
    kind="more",
    form="bug",
    hints=(
        "Which tensors do the captured kernels read? Is the dictionary still bound to them after the step?",
        "Three things need tensors of their own: the inputs that the graph reads, the dictionary that the step "
        "changes, and what the caller gets.",
        "`own = {name: each.clone() …}`, `out = dict(own)`, capture `step(out)`; copy into `own`, replay, return "
        "clones of `out`.",
    ),
    answers=("replayed",),
    allowed="torch and the given Graph.",
    params={"rows": 3},
    vary=lambda draw: {"rows": draw.choice((2, 4))},
    probe=replays,
    returns=DictOf(
        {
            "found": ListOf(Anything("a dictionary of tensors")),
            "given": ListOf(DictOf({}, more=True)),
            **dict.fromkeys(("captures", "steps"), Number("times", whole=True)),
        }
    ),
)
