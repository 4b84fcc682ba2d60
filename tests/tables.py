"""Tests that run over a table: one test for many rows, which goes on where a row fails and names each that did."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import pytest

from course_grader import exercises
from course_grader.exercises import Card
from tests import run_costs
from tests.rotation import chosen

Test = Callable[..., None]
Decorator = Callable[[Test], Test]

Row = TypeVar("Row")


def each_of(names: str, *rows: object, ids: Iterable[str] | Callable[..., object] | None = None) -> Decorator:
    """Run a test for each row, as `pytest.mark.parametrize` does: for tests without fixtures, as one test. Rows are the
    arguments behind `names`, or all in one of them."""
    columns, rows = names.replace(",", " ").split(), rows if len(rows) > 1 else tuple(rows[0])
    labels = rows if ids is None or callable(ids) else list(ids)
    given = [dict(zip(columns, row if len(columns) > 1 else [row], strict=True)) for row in rows]
    return _decorator(columns, lambda: zip(labels, given, strict=True), ids if callable(ids) else _short)


def each_alone(names: str, *rows: object, ids: Iterable[str] | None = None) -> Decorator:
    """A test of its own for each row, as `pytest.mark.parametrize` makes them: for tests with fixtures."""
    return pytest.mark.parametrize(names, rows, ids=ids)


def each_row(name: str, rows: Callable[[], Iterable[Row]], label: Callable[[Row], object] = str) -> Decorator:
    """Run a test for each of the `rows`, as its argument `name`; they are made when it runs, not when tests are
    collected."""
    return _decorator([name], lambda: ((row, {name: row}) for row in rows()), label)


def each_of_chapter(name: str, rows: Callable[[str], Iterable[Row]], label: Callable[[Row], object] = str) -> Decorator:
    """Run a test for each of the `rows` of a chapter, as its argument `name`: one test a chapter."""
    of_chapter = pytest.mark.parametrize("chapter", [each for each in exercises.chapters() if each in chosen])
    decorator = _decorator([name], lambda chapter: ((row, {name: row}) for row in rows(chapter)), label, "chapter")
    return lambda test: of_chapter(decorator(test))


def each_card(which: Callable[[Card], bool] = lambda card: True) -> Decorator:
    """Run a test for each card that `which` holds for, as its argument `card`: one test a chapter."""
    return each_of_chapter("card", lambda chapter: filter(which, exercises.cards(chapter)), lambda card: card.id)


def _short(row: object) -> str:
    if isinstance(row, tuple):
        return f"({', '.join(map(_short, row))})"
    try:
        return getattr(row, "__name__", "") or repr(row)[:60]
    except (ValueError, RecursionError):  # too many digits, too deep
        return type(row).__name__


def _decorator(
    columns: Sequence[str],
    rows: Callable[..., Iterable[tuple[object, Mapping[str, object]]]],
    label: Callable[..., object],
    *of: str,
) -> Decorator:
    """A test that runs over rows, with the name, marks and fixtures of the one that it runs, and the arguments `of` its
    rows."""

    def decorated(test: Test) -> Test:
        def over_rows(**given: object) -> None:
            failed, count = [], 0
            for key, row in rows(*(given.pop(name) for name in of)):
                count += 1
                try:
                    test(**row, **given)
                except (Exception, BaseExceptionGroup, pytest.fail.Exception) as error:
                    error.add_note(f"of {label(key)}")
                    failed.append((label(key), error))
                run_costs.give_back_memory()
            if failed:
                names = ", ".join(str(key) for key, _ in failed)
                raise BaseExceptionGroup(f"{len(failed)} of {count} failed: {names}", [error for _, error in failed])

        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(over_rows, name, getattr(test, name))
        names = [each for each in inspect.signature(test).parameters if each not in columns]
        over_rows.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY) for each in [*names, *of]]
        )
        over_rows.pytestmark = list(getattr(test, "pytestmark", []))  # type: ignore[attr-defined]
        return over_rows

    return decorated
