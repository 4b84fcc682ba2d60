"""Texts of the numbers in chapter 15's prose, each computed from facts, evidence and the formulas of earlier chapters."""

from collections.abc import Callable, Mapping

NUMBERS: Mapping[str, Callable[[], str]] = {}
