"""Attacks and accidents that do not ship with the grader: the suite tries them all, `course class self-test` a
selection.

Importing this package enters them into the list.
"""

from tests.attacks import (
    accidents,
    channels,
    cluster,
    escapes,
    exhausting,
    forging,
    handed_in,
    introspection,
    leaking,
    tampering,
    unwatched,
    weighing,
)

__all__ = [
    "accidents",
    "channels",
    "cluster",
    "escapes",
    "exhausting",
    "forging",
    "handed_in",
    "introspection",
    "leaking",
    "tampering",
    "unwatched",
    "weighing",
]
