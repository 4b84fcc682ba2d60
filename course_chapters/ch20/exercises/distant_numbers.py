"""Numbers in chapter 20's prose about local SGD, DiLoCo, quorums and job files."""

from collections.abc import Callable, Mapping

SOURCES: tuple[str, ...] = ()

NUMBERS: Mapping[str, Callable[[], str]] = {}
