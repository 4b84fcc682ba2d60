from collections.abc import Sequence

from course_chapters.ch00.exercises.shared import SYMPTOMS
from course_grader.exercises import Anything, Card, Worth


def _symptom_list(texts: Sequence[str]) -> str:
    """Symptoms as a numbered Markdown list."""
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))


CARD = Card(
    title="Which chapter first?",
    text="""Find the chapter to open first for each of six failures. Write `open_first()`: it returns a list of six
chapter numbers, in the order of these symptoms. Every number is the chapter that explains the symptom itself, and each
chapter is used once.

{{symptoms}}""",
    **Worth(points=3, minutes=5, difficulty=2, importance=3),
    kind="more",
    hints=(
        "For each symptom: which resource ran out, or which rank waits for what? The map names the chapter for each "
        "of these ideas.",
        "Two symptoms are about memory, but in one of them a copy is the problem. Two are about ranks that wait: in "
        "one they wait forever, in the other for a part of every step.",
        "The chapters are, in rising order: 02 memory, 05 mixed precision, 06 collectives, 08 sharding, 10 pipelines, "
        "14 failures.",
    ),
    answers=("open_first",),
    params={"symptoms": _symptom_list(SYMPTOMS)},
    vary=lambda rng: {"symptoms": _symptom_list(rng.sample(SYMPTOMS, len(SYMPTOMS)))},
    returns=Anything("a list of six chapter numbers"),
)
