from course_grader.exercises import Card, Worth
from course_grader.exercises.probes import rows
from course_grader.exercises.result_schema import ListOf, Number, Rows

KINDS = {
    "scaled": "the reward minus the mean of its question's rewards, over their standard deviation, whose squares are "
    "divided by n − 1, as in `torch.std`",
    "centered": "the reward minus the mean of its question's rewards; Dr. GRPO leaves out the standard deviation",
}


def _numbers(kind: str, first: int) -> dict[str, object]:
    """A variant: the example's rewards of `first`, 0 and `first` are a third above their mean, or two thirds below."""
    better = 3**-0.5 if kind == "scaled" else first / 3
    return {"kind": kind, "rule": KINDS[kind], "first": first, "better": better, "worse": -2 * better}


CARD = Card(
    title="Better than the group",
    text="""Turn rewards into advantages, and choose the questions that a step can learn from. In an asynchronous job,
answers arrive mixed, and a question can have any number of them.

- `advantages(rewards, questions)`: `rewards[i]` belongs to an answer to question `questions[i]`, a whole number. Return
  a list with the advantage of each answer, in the same order: {{rule}}.
- If all rewards of a question are equal, its answers get exactly 0. A single answer to a question gets 0, too.
- `useful(rewards, questions)`: the questions with at least one advantage other than 0, each once, in increasing order.

For example, rewards of {{first}}, 0, 1 and {{first}} for answers to questions 7, 7, 3 and 7 give the advantages
{{better}}, {{worse}}, 0 and {{better}}, and question 7 alone is useful.""",
    **Worth(points=5, minutes=10, difficulty=2, importance=5),
    hints=(
        "What can you learn from one answer to a question if you know nothing about the others?",
        "Collect the rewards of each question in a dictionary. Find equal rewards before any division: the mean of "
        "three times 0.1 is not 0.1 in floating point.",
        "`group = by[question]`; 0.0 if `max(group) == min(group)`; otherwise the difference from "
        "`sum(group) / len(group)`, over the root of `sum(squares) / (len(group) - 1)` if the variant asks for it.",
    ),
    answers=("advantages", "useful"),
    allowed="the standard library; the library's function is switched off.",
    hides=("course_chapters.ch19.policy:advantages",),
    params=_numbers("scaled", 1),
    vary=lambda draw: _numbers("centered", draw.choice((2, 3, 5))),
    structural="kind",
    probe=rows,
    returns=Rows(ListOf(Number("an advantage")), ListOf(Number("a question", whole=True))),
)
