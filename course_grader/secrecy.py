"""What a worker must not read: the modules that judge, recognized by their names alone."""

from collections.abc import Sequence

_JUDGING = (("course_grader", "judging"), ("course_grader", "bank"), ("course_chapters", "released"))


def is_judging(parts: Sequence[str]) -> bool:
    """Whether a module judges answers, or a file holds them, by the parts of its name: ("course_chapters", "ch01",
    "exercises", "judges", "state_13b")."""
    return tuple(parts[:2]) in _JUDGING or (parts[0] == "course_chapters" and "judges" in parts[3:4])
