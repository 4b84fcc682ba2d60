"""Tests that run over a table: one test for many rows, which goes on where a row fails and names each that did."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from course_grader import exercises
from course_grader.exercises import Card
from tests.rotation import chosen

Test = Callable[..., None]


def each_row(name: str, rows: Callable[[], Iterable[Any]], label: Callable[[Any], str] = str) -> Callable[[Test], Test]:
    """Run a test for each of the `rows`, as its argument `name`; they are made when it runs, not when tests are collected."""

    def decorated(test: Test) -> Test:
        def over_rows(**fixtures: Any) -> None:
            _run(test, ((label(row), {name: row}) for row in rows()), fixtures)

        return _named_as(over_rows, test, without=name)

    return decorated


def each_of_chapter(
    name: str, rows: Callable[[str], Iterable[Any]], label: Callable[[Any], str] = str
) -> Callable[[Test], Test]:
    """Run a test for each of the `rows` of a chapter, as its argument `name`: one test a chapter."""

    def decorated(test: Test) -> Test:
        def over_rows(chapter: str, **fixtures: Any) -> None:
            _run(test, ((label(row), {name: row}) for row in rows(chapter)), fixtures)

        return pytest.mark.parametrize("chapter", chosen_chapters())(_named_as(over_rows, test, name, "chapter"))

    return decorated


def each_card(which: Callable[[Card], bool] = lambda card: True) -> Callable[[Test], Test]:
    """Run a test for each card that `which` holds for, as its argument `card`: one test a chapter."""
    return each_of_chapter("card", lambda chapter: filter(which, exercises.cards(chapter)), lambda card: card.id)


def chosen_chapters() -> list[str]:
    """The chapters whose tests were asked for and that have exercises."""
    return [chapter for chapter in exercises.chapters() if chapter in chosen]


def _run(test: Test, rows: Iterator[tuple[str, dict[str, Any]]], fixtures: dict[str, Any]) -> None:
    failed, count = [], 0
    for label, row in rows:
        count += 1
        try:
            test(**row, **fixtures)
        except Exception as error:
            error.add_note(f"of {label}")
            failed.append((label, error))
    if failed:
        names = ", ".join(label for label, _ in failed)
        raise ExceptionGroup(f"{len(failed)} of {count} failed: {names}", [error for _, error in failed])


def _named_as(made: Test, test: Test, without: str, more: str = "") -> Test:
    """The test that runs over rows, with the name, marks and fixtures of the one that it runs."""
    made.__name__, made.__qualname__, made.__doc__, made.__module__ = (
        test.__name__,
        test.__qualname__,
        test.__doc__,
        test.__module__,
    )
    given = [each for each in inspect.signature(test).parameters.values() if each.name != without]
    own = [inspect.Parameter(more, inspect.Parameter.KEYWORD_ONLY)] if more else []
    made.__signature__ = inspect.Signature(
        [*(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in given), *own]
    )  # type: ignore[attr-defined]
    made.pytestmark = list(getattr(test, "pytestmark", []))  # type: ignore[attr-defined]
    return made
