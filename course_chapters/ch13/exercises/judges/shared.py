"""What several of chapter 13's judges use."""

import math
from collections.abc import Mapping, Sequence

from course_grader.judging import Fault, Random, describe, is_number

Sizes = Mapping[str, int]
NAMES = ("dp", "pp", "cp", "tp", "ep", "dp_replicate", "dp_shard", "x", "rows")


def strides(sizes: Sizes) -> dict[str, int]:
    """The distance in ranks between neighbors on each axis, where the last one changes fastest."""
    names = list(sizes)
    return {axis: math.prod(sizes[name] for name in names[at + 1 :]) for at, axis in enumerate(names)}


def mesh(rng: Random, axes: int, most: int = 120, choices: Sequence[int] = (1, 2, 3, 4, 5, 6, 8)) -> Sizes:
    """A mesh with this many axes, of names and sizes in any order."""
    while True:
        sizes = {name: rng.choice(choices) for name in rng.sample(NAMES, axes)}
        if math.prod(sizes.values()) <= most:
            return sizes


def same_plain(got: object, right: object) -> bool:
    """Whether what came back, which may be anything, equals a plain number, text, None or dictionary of numbers."""
    if type(right) is dict:
        if type(got) is not dict or got.keys() != right.keys():
            return False
        return all(same_plain(got[key], value) for key, value in right.items())
    return is_number(got) and got == right if is_number(right) else type(got) is type(right) and got == right


def plain_fault(row: Sequence[object], got: object, want: object) -> Fault | None:
    return None if same_plain(got, want) else ("", f"{describe(got)} is not right.")


def mesh_words(sizes: Sizes) -> str:
    return "mesh {" + ", ".join(f"{axis}: {size}" for axis, size in sizes.items()) + "}"
