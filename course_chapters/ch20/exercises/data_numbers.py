"""Numbers in chapter 20's prose about data."""

from collections.abc import Callable, Mapping

SOURCES: tuple[str, ...] = ()

NUMBERS: Mapping[str, Callable[[], str]] = {}
