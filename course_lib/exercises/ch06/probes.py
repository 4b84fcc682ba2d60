"""How chapter 06 calls answers: with a communicator that knows send and receive, and nothing ready-made."""

from __future__ import annotations

from typing import Any

from course_lib.exercises.layouts import MEASURED, WEIGHED, laid_out
from course_lib.exercises.point_to_point import PointToPoint


def from_messages(answer: Any, case: Any, comm: Any = None) -> Any:
    """The answer called with a communicator of messages only, then the case's arguments.

    A text that ends them says in which layout they are to be, or that the most bytes alive are to come with the result, or that
    the result of a large tensor is to come at some places only.
    """
    given, wish = tuple(case.args), ""
    if given and type(given[-1]) is str and given[-1] == WEIGHED:
        return _weighed(answer, comm, *given[:-1])
    if given and type(given[-1]) is str:
        *values, wish = given
        given = tuple(laid_out(value, wish) for value in values)
    if wish != MEASURED:
        return answer(PointToPoint(comm), *given, **case.kwargs)
    from course_lib.accounting import Accounting

    with Accounting() as books:
        books.adopt(given)
        result = answer(PointToPoint(comm), *given, **case.kwargs)
    return result, books.peak_bytes


def _weighed(answer: Any, comm: Any, table: Any, times: int, places: Any) -> Any:
    """The result for a table that is repeated, at some places: so that little crosses where much is added up."""
    return answer(PointToPoint(comm), table.repeat(times))[places]


def interval(answer: Any, case: Any, comm: Any = None) -> Any:
    """A predicted interval: what the function returns, or the pair itself."""
    return answer() if callable(answer) else answer
