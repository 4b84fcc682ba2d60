from collections.abc import Mapping

from course_grader.exercises import Anything, Card, Maybe, Rows, Worth

RANKING: Mapping[str, str] = {
    "changes": "the one that survives the **most changes**; of those, the one whose worst ratio is smallest",
    "worst": "the one whose **worst ratio** is smallest; of those, the one that survives the most changes",
}

CARD = Card(
    title="The plan that survives",
    text="""You choose a plan before you know which change will hit it. Write `sturdiest(plans, limits)`, which returns
the name of the plan to choose.

- `plans` is a dictionary from name to what the plan takes under each condition: a dictionary from condition to (memory,
  days, usd). One condition is `"as planned"`, the others are changes. `limits` has the same conditions, with the limits
  that hold under each.
- A plan **survives** a condition if none of its three numbers exceeds the limit. A number equal to the limit does not
  exceed it.
- A plan that cannot run under a condition has `None` there: it does not survive it.
- Choose only among plans that survive `"as planned"`. If there is none, return `None`.
- The **worst ratio** of a plan is the largest of number / limit, over all three numbers and all conditions,
  `"as planned"` too. With a `None` it is infinite.
- Choose {{means}}. If both are equal, return any of them.""",
    **Worth(points=6, minutes=12, difficulty=2, importance=4),
    kind="more",
    hints=(
        "What do you need to know about each plan to compare two of them?",
        "For each plan: the number of changes it survives, and its worst ratio. Drop those that fail as planned, then "
        "take the best pair.",
        "`min(alive, key=lambda name: (-survived(name), worst(name)))`, or with the two swapped.",
    ),
    answers=("sturdiest",),
    allowed="plain Python.",
    params={"ranking": "changes", "means": RANKING["changes"]},
    vary=lambda draw: {"ranking": "worst", "means": RANKING["worst"]},
    structural="ranking",
    needs=("13", "14"),
    returns=Rows(Maybe(Anything("a plan's name"))),
)
