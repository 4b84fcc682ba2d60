"""What a worker must not read: the modules that judge, told by their names alone."""

from collections.abc import Sequence


def is_judging(parts: Sequence[str]) -> bool:
    """Whether a module of `course_lib` judges answers, by the parts of its name, such as ("exercises", "ch01", "judges", "state_13b")."""
    if parts[0] == "exercises":
        return tuple(parts[1:2]) in (("killmatrix",), ("mutation",)) or "judges" in parts[2:3]
    return parts[0] == "judging"
