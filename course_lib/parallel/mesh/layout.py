"""A mesh of ranks: named axes, the coordinates of a rank, and the groups along an axis. No torch.

The last axis changes fastest, as in `torch.distributed.device_mesh`: in {"pp": 2, "tp": 4}, ranks 0 to 3 differ in tp
alone. Megatron-LM writes its order the other way around: in "tp-cp-ep-dp-pp", the first axis changes fastest.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Self

from course_lib.estimate.units import require_whole


@dataclass(frozen=True)
class Mesh:
    """Ranks in a box: `Mesh({"pp": 2, "dp": 4, "tp": 8})` has 64 ranks. Axes of size 1 are allowed and change
    nothing."""

    sizes: Mapping[str, int]

    def __post_init__(self) -> None:
        if not self.sizes:
            raise ValueError('A mesh needs at least one axis, such as Mesh({"dp": 8}).')
        checked = {}
        for axis, size in self.sizes.items():
            if not isinstance(axis, str) or not axis.isidentifier():
                raise ValueError(f"{axis!r} is no name for an axis; use letters and digits, such as 'tp'.")
            checked[axis] = require_whole(axis, size, "ranks")
        object.__setattr__(self, "sizes", MappingProxyType(checked))

    def __hash__(self) -> int:
        return hash(tuple(self.sizes.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and tuple(self.sizes.items()) == tuple(other.sizes.items())

    def __reduce__(self) -> tuple:
        return Mesh, (dict(self.sizes),)

    def __repr__(self) -> str:
        return f"Mesh({dict(self.sizes)})"

    @classmethod
    def megatron(cls, order: str, sizes: Mapping[str, int]) -> Self:
        """From an order such as "tp-cp-ep-dp-pp", whose first axis changes fastest. An axis that `sizes` lacks has size
        1."""
        axes = order.split("-")
        unknown = [axis for axis in sizes if axis not in axes]
        if unknown or len(set(axes)) < len(axes):
            raise ValueError(f"The order {order!r} must name each axis once: {', '.join(sizes)}.")
        return cls({axis: sizes.get(axis, 1) for axis in reversed(axes)})

    @classmethod
    def parse(cls, text: str) -> Self:
        """From a text such as "pp2 dp4 tp8", slowest axis first."""
        parts = [re.fullmatch(r"([a-z_]+)=?(\d+)", part) for part in text.split()]
        found = [part for part in parts if part]
        if not parts or len(found) < len(parts):
            raise ValueError(f"{text!r} is no mesh; write axes and sizes, such as 'pp2 dp4 tp8'.")
        if len({part[1] for part in found}) < len(parts):
            raise ValueError(f"{text!r} names an axis twice.")
        return cls({part[1]: int(part[2]) for part in found})

    @property
    def axes(self) -> tuple[str, ...]:
        """Names, slowest first."""
        return tuple(self.sizes)

    @cached_property
    def size(self) -> int:
        """Ranks in all."""
        return prod(self.sizes.values())

    @cached_property
    def _strides(self) -> dict[str, int]:
        return strides(self.sizes)

    def stride(self, axis: str) -> int:
        """How far apart the ranks of two neighbors along this axis are."""
        return self._strides[self._known(axis)]

    def coordinates(self, rank: int) -> dict[str, int]:
        """Where a rank is along each axis."""
        self._check_rank(rank)
        return {axis: rank // self._strides[axis] % size for axis, size in self.sizes.items()}

    def axes_between(self, source: int, target: int) -> tuple[str, ...]:
        """The axes along which two ranks differ: the one of the group in which they exchange messages."""
        here, there = self.coordinates(source), self.coordinates(target)
        return tuple(axis for axis in self.sizes if here[axis] != there[axis])

    def rank(self, at: Mapping[str, int]) -> int:
        """The rank at these coordinates; every axis must be given."""
        if set(at) != set(self.sizes):
            raise ValueError(
                f"Coordinates of {sorted(at)} do not fit the axes {sorted(self.sizes)}; give each axis once."
            )
        for axis, place in at.items():
            if not 0 <= place < self.sizes[axis]:
                raise ValueError(f"{axis}={place} is outside the mesh; it must be from 0 to {self.sizes[axis] - 1}.")
        return sum(self._strides[axis] * place for axis, place in at.items())

    def group(self, rank: int, *axes: str) -> tuple[int, ...]:
        """The ranks that differ from this one along `axes` only, in ascending order, with itself."""
        self._check_rank(rank)
        here = rank - sum(self._strides[axis] * place for axis, place in self.coordinates(rank).items() if axis in axes)
        return tuple(sorted(here + step for step in self._steps(axes)))

    def groups(self, *axes: str) -> tuple[tuple[int, ...], ...]:
        """All groups along `axes`: every rank is in exactly one. Several axes make joint groups, such as dp and cp for
        gradients."""
        others = [axis for axis in self.axes if axis not in axes]
        steps = sorted(self._steps(axes))
        return tuple(tuple(first + step for step in steps) for first in sorted(self._steps(others)))

    def _steps(self, axes: tuple[str, ...] | list[str]) -> Iterator[int]:
        if len(set(axes)) < len(axes):
            raise ValueError(f"The axes {list(axes)} name one twice.")
        ranges = [range(0, self.sizes[self._known(axis)] * self._strides[axis], self._strides[axis]) for axis in axes]
        return (sum(steps) for steps in product(*ranges))

    def _known(self, axis: str) -> str:
        if axis not in self.sizes:
            raise ValueError(f"The mesh has no axis {axis!r}; it has {', '.join(self.sizes)}.")
        return axis

    def _check_rank(self, rank: int) -> None:
        if not 0 <= rank < self.size:
            raise ValueError(f"Rank {rank} is outside the mesh of {self.size} ranks, 0 to {self.size - 1}.")


def strides(sizes: Mapping[str, int]) -> dict[str, int]:
    """For each axis, how far apart the ranks of two neighbors along it are; the last axis changes fastest."""
    found, step = {}, 1
    for axis, size in reversed([*sizes.items()]):
        found[axis], step = step, step * size
    return found


def fill(devices: int, **sizes: int) -> dict[str, int]:
    """Sizes of all axes with the data parallel one first, which takes the rest: `fill(64, pp=4, tp=8)` has dp=2."""
    rest = prod(sizes.values())
    if devices % rest:
        near = [count for count in (devices // rest * rest, -(-devices // rest) * rest) if count]
        raise ValueError(
            f"{' × '.join(f'{axis}={size}' for axis, size in sizes.items())} makes {rest} ranks, which does not divide "
            f"{devices}; the nearest numbers of ranks that fit are {' and '.join(map(str, near))}."
        )
    return {"dp": devices // rest, **sizes}
