"""Probes that several chapters share: an answer called on many rows of arguments in one case, and a predicted
interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Literal, TypedDict

from course_grader.exercises.values import copied, tensors_in, unchanged

if TYPE_CHECKING:
    from course_grader.records import Case
    from course_lib.cluster import Comm

NOT_ANSWERED, CHANGED = "not answered", "an argument was changed"
Probe = Callable[..., object]


def rows(answers: Sequence[Callable[..., object]], case: Case, comm: object = None) -> object:
    """What one of the answers returns for each row of `case.args = (index of the answer, rows of arguments)`.

    Every row is a fresh copy, which takes the row's place, so that the caller sees whether the answer changed its
    arguments. An unanswered first function leaves the exercise unanswered; a later one only its part.
    """
    index, table = case.args
    functions = answers if isinstance(answers, tuple) else (answers,)

    def results() -> list[object]:
        found = []
        for at, row in enumerate(table):
            mine = copied(row)
            found.append(functions[index](*mine))
            if isinstance(table, list):
                table[at] = mine
        return found

    return unless_open(index, results)


def watched(probe: Probe) -> Probe:
    """The same probe for an answer that leaves the case's arguments as they are: CHANGED where it writes to a tensor,
    or on ranks to any argument, so that no judge need look for that. Without ranks, `first_changed` finds the rest,
    such as a list with another number of tensors."""

    @wraps(probe)
    def call(answers: object, case: Case, comm: Comm | None = None) -> object:
        given = copied(case.args)
        value = probe(answers, case, comm)
        was, now = (given, case.args) if comm is not None else (tensors_in(given), tensors_in(case.args))
        return CHANGED if len(was) == len(now) and not unchanged(was, now) else value

    return call


def unless_open(index: int, run: Callable[[], object]) -> object:
    """What `run` returns, or NOT_ANSWERED where function `index` is left open; the first one raises
    NotImplementedError."""
    try:
        return run()
    except NotImplementedError:
        if index == 0:
            raise
        return NOT_ANSWERED


def or_refusal(run: Callable[..., object], *given: object) -> object:
    """What `run` returns, or {"refused": the start of its ValueError's text}. An answer that returns such a dict raised
    nothing: it comes back as {"returned": the dict}."""
    try:
        value = run(*given)
    except ValueError as error:
        return {"refused": str(error)[:1000]}
    return {"returned": value} if isinstance(value, dict) and dict.__contains__(value, "refused") else value


def refusal(value: object) -> str | None:
    """The text of the ValueError that `or_refusal` met; None where the answer returned something."""
    text = value["refused"] if type(value) is dict and set(value) == {"refused"} else None
    return text if type(text) is str else None


def interval(answer: object, case: object, comm: object = None) -> object:
    """A predicted interval: what the function returns, or the pair itself."""
    return answer() if callable(answer) else answer


class _Prediction(TypedDict):
    form: Literal["prediction"]
    probe: Probe


PREDICTION: _Prediction = {"form": "prediction", "probe": interval}  # what the cards of all predictions say alike
