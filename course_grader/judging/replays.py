"""Answers that follow a script: whether what they gave is right, and where it first is not."""

from collections.abc import Sequence


def same(got: object, want: object) -> bool:
    """Whether nested lists and dictionaries are equal, the types of their numbers included."""
    if type(want) is dict:
        return type(got) is dict and got.keys() == want.keys() and all(same(got[key], want[key]) for key in want)
    if type(want) is list:
        return type(got) is list and len(got) == len(want) and all(map(same, got, want))
    return type(got) is type(want) and got == want


def first_apart(got: Sequence[object], want: Sequence[object]) -> int:
    """The first index at which two lists differ; the length of the shorter one if the longer one begins with it."""
    pairs = zip(got, want, strict=False)
    return next((at for at, pair in enumerate(pairs) if not same(*pair)), min(len(got), len(want)))
