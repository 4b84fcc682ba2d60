from collections.abc import Mapping

from course_grader.exercises import Anything, Card, ListOf, Rows, Worth

SPEED: Mapping[str, tuple[str, str]] = {
    "seconds": ("`seconds` of a step", "smaller is better in all of them"),
    "speed": ("`speed` in tokens per second", "smaller is better in all of them but `speed`"),
}

CARD = Card(
    title="Do not optimize one metric",
    text="""The fastest run may have the worst loss, and the cheapest may not fit. Write `front(runs)`, which returns
the names of the runs that no other run dominates.

- `runs` is a list of dictionaries with `name`, `loss`, {{measure}}, `memory` in bytes and `usd`; {{better}}.
- Run A **dominates** run B if A is at least as good in **all four** and better in **at least one**. So equal runs do
  not dominate each other: all of them stay.
- A run whose `loss` is `nan` or infinite has diverged. It is never on the front, and it dominates no run.
- Return the names in the order of `runs`. Names are unique. The list may be empty.""",
    **Worth(points=5, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "When does a run leave the front: when another is better in one number, or in which sense?",
        "For each run look for one that dominates it; first drop what has diverged.",
        "`all(x <= y) and any(x < y)` over the four numbers, with the sign flipped where larger is better; "
        "`math.isfinite(run['loss'])`.",
    ),
    answers=("front",),
    allowed="plain Python; the library's `pareto` is switched off.",
    hides=("course_lib.parallel.planner.search:pareto",),
    params={"metric": "seconds", "measure": SPEED["seconds"][0], "better": SPEED["seconds"][1]},
    vary=lambda draw: {"metric": "speed", "measure": SPEED["speed"][0], "better": SPEED["speed"][1]},
    structural="metric",
    needs=("04",),
    returns=Rows(ListOf(Anything("a name"), what="place")),
)
