from course_grader.exercises import Card, ListOf, Number, Rows, Worth

KINDS = {
    "scaled": "the reward minus the mean of its question's rewards, over their standard deviation (over n; the cell "
    "above divides by n − 1)",
    "centered": "the reward minus the mean of its question's rewards; Dr. GRPO leaves out the standard deviation",
}

CARD = Card(
    title="Better than the group",
    text="""Turn rewards into advantages, and choose the questions that a step can learn from. In an asynchronous job,
answers arrive mixed, and a question can have any number of them.

- `advantages(rewards, questions)`: `rewards[i]` belongs to an answer to question `questions[i]`, a whole number. Return
  a list with the advantage of each answer, in the same order: {{rule}}.
- If all rewards of a question are equal, its answers get exactly 0. A single answer to a question gets 0, too.
- `useful(rewards, questions)`: the questions with at least one advantage other than 0, each once, in increasing order.

For example, rewards of {{first}}, 0, 1 and {{first}} to questions 7, 7, 3 and 7.""",
    **Worth(points=5, minutes=10, difficulty=2, importance=5),
    hints=(
        "What can you learn from one answer to a question if you know nothing about the others?",
        "Collect the rewards of each question in a dictionary. Find equal rewards before any division: the mean of "
        "three times 0.1 is not 0.1 in floating point.",
        "`group = by[question]`; 0.0 if `max(group) == min(group)`; otherwise the difference from "
        "`sum(group) / len(group)`, divided by the root of the mean square difference if the variant asks for it.",
    ),
    answers=("advantages", "useful"),
    allowed="the standard library; the library's function is switched off.",
    hides=("course_chapters.ch19.policy:advantages",),
    params={"kind": "scaled", "rule": KINDS["scaled"], "first": 1},
    vary=lambda draw: {"kind": "centered", "rule": KINDS["centered"], "first": draw.choice((2, 3, 5))},
    structural="kind",
    returns=Rows(ListOf(Number("an advantage")), ListOf(Number("a question", whole=True))),
)
