"""A test over a table runs every row, and names those that failed."""

import pytest

from tests.tables import each_of

SEEN: list[tuple[int, str]] = []


@each_of("number", [1, 2, 3])
@each_of("word, other", [("a", len), ("b", max)])
def over_two_tables(number: int, word: str, other: object, more: str) -> None:
    SEEN.append((number, word + more))
    assert number != 2 or word == "a", "wrong"
    with pytest.raises(ValueError):
        int("x" if number < 3 else "3")


def test_every_row_runs_and_each_that_failed_is_named() -> None:
    SEEN.clear()
    with pytest.raises(BaseExceptionGroup, match="2 of 3 failed: 2, 3") as failed:
        over_two_tables(more="!")
    assert [(number, word) for number in (1, 2, 3) for word in ("a!", "b!")] == SEEN
    two, three = failed.value.exceptions
    assert "1 of 2 failed: ('b', max)" in str(two) and "2 of 2 failed: ('a', len), ('b', max)" in str(three)
    assert two.exceptions[0].__notes__ == ["of ('b', max)"] and "wrong" in str(two.exceptions[0])
