"""Numbers in chapter 20's prose about health checks, links and the queue."""

from collections.abc import Callable, Mapping

SOURCES: tuple[str, ...] = ()

NUMBERS: Mapping[str, Callable[[], str]] = {}
