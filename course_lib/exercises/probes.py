"""Probes that several chapters share: an answer called on many rows of arguments in one case, and a predicted interval."""

import copy
from collections.abc import Callable
from typing import Any

NOT_ANSWERED = "not answered"


def rows(answers: Any, case: Any, comm: Any = None) -> Any:
    """What one of the answers returns for each row of `case.args = (index of the answer, rows of arguments)`.

    Every row is a fresh copy. An unanswered first function leaves the exercise unanswered; a later one only its part.
    """
    index, table = case.args
    functions = answers if isinstance(answers, tuple) else (answers,)
    return unless_open(index, lambda: [functions[index](*copy.deepcopy(row)) for row in table])


def unless_open(index: int, run: Callable[[], Any]) -> Any:
    """What `run` returns, or NOT_ANSWERED where function `index` is left open; the first one raises NotImplementedError."""
    try:
        return run()
    except NotImplementedError:
        if index == 0:
            raise
        return NOT_ANSWERED


def interval(answer: Any, case: Any, comm: Any = None) -> Any:
    """A predicted interval: what the function returns, or the pair itself."""
    return answer() if callable(answer) else answer
