"""How chapter 20 calls answers that refuse bad input."""

from collections.abc import Callable

from course_grader.exercises.probes import or_refusal, rows
from course_grader.records import Answer, Case


def rows_or_error(answers: Answer | tuple[Answer, ...], case: Case, comm: object = None) -> object:
    """As `rows`; where an answer raises ValueError, {"refused": its text} comes back."""

    def told(function: Callable[..., object]) -> Callable[..., object]:
        return lambda *given: or_refusal(function, *given)

    functions = answers if isinstance(answers, tuple) else (answers,)
    return rows(tuple(map(told, functions)), case)
