"""Texts of the numbers in chapter 06's prose, each computed from facts or by the library."""

from collections.abc import Callable

NUMBERS: dict[str, Callable[[], str]] = {}
