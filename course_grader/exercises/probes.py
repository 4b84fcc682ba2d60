"""Probes that several chapters share: an answer called on many rows of arguments in one case, and a predicted
interval."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from course_grader.exercises.values import copied

NOT_ANSWERED = "not answered"


def rows(answers: Any, case: Any, comm: object = None) -> Any:
    """What one of the answers returns for each row of `case.args = (index of the answer, rows of arguments)`.

    Every row is a fresh copy, which takes the row's place, so that the caller sees whether the answer changed its
    arguments. An unanswered first function leaves the exercise unanswered; a later one only its part.
    """
    index, table = case.args
    functions = answers if isinstance(answers, tuple) else (answers,)

    def results() -> list[Any]:
        found = []
        for at, row in enumerate(table):
            mine = copied(row)
            found.append(functions[index](*mine))
            if isinstance(table, list):
                table[at] = mine
        return found

    return unless_open(index, results)


class ArgumentChanged(Exception):
    """An answer wrote to a tensor that it was given."""


def kept_rows(answers: Any, case: Any, comm: object = None) -> Any:
    """The same as `rows` for functions that leave their tensors as they are; ArgumentChanged where one is written
    to."""

    def watched(function: Callable[..., object], *given: object) -> Any:
        before = copied(given)
        said = function(*given)
        if any(
            hasattr(mine, "shape") and not bool((mine == old).all()) for mine, old in zip(given, before, strict=True)
        ):
            raise ArgumentChanged("leave the arguments as they are, and work on a copy")
        return said

    return rows(tuple(partial(watched, answer) for answer in answers), case)


def unless_open(index: int, run: Callable[[], object]) -> Any:
    """What `run` returns, or NOT_ANSWERED where function `index` is left open; the first one raises
    NotImplementedError."""
    try:
        return run()
    except NotImplementedError:
        if index == 0:
            raise
        return NOT_ANSWERED


def interval(answer: object, case: object, comm: object = None) -> Any:
    """A predicted interval: what the function returns, or the pair itself."""
    return answer() if callable(answer) else answer


PREDICTION: Mapping[str, Any] = {"form": "prediction", "probe": interval}  # what the cards of all predictions say alike
