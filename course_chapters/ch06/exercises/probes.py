"""How chapter 06 calls answers: with a communicator that can send and receive, and has no collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_grader.exercises.layouts import MEASURED, WEIGHED, laid_out
from course_grader.exercises.point_to_point import PointToPoint

if TYPE_CHECKING:
    from torch import Tensor

    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm


def from_messages(answer: Answer, case: Case, comm: Comm) -> object:
    """The answer's result when called with a communicator of single messages and the case's arguments.

    If the last argument is a string, it names the memory layout of the others, asks for the peak of live bytes with the
    result (`MEASURED`), or asks for only some elements of the result of a large tensor (`WEIGHED`).
    """
    given, wish = tuple(case.args), ""
    if given and type(given[-1]) is str and given[-1] == WEIGHED:
        return _weighed(answer, comm, *given[:-1])
    if given and type(given[-1]) is str:
        *values, wish = given
        given = tuple(laid_out(value, wish) for value in values)
    if wish != MEASURED:
        return answer(PointToPoint(comm), *given, **case.kwargs)
    from course_lib.model.accounting import Accounting

    with Accounting() as books:
        books.adopt(given)
        result = answer(PointToPoint(comm), *given, **case.kwargs)
    return result, books.peak_bytes


def _weighed(answer: Answer, comm: Comm, table: Tensor, times: int, places: object) -> object:
    """Some elements of the result for a row that is repeated `times`: a large sum, of which only a few numbers are
    returned."""
    return answer(PointToPoint(comm), table.repeat(times))[places]
