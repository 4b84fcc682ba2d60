"""Which rank holds which elements: parameters laid end to end, padded, and cut into one part per rank. No torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from course_lib.estimate.units import require_whole


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements `start` to `stop` of a flattened parameter, stored from element `at` of the rank's part on."""

    name: str
    start: int
    stop: int
    at: int


@dataclass(frozen=True, slots=True)
class Flat:
    """Parameters end to end, in the order of `counts` (name to number of elements), cut over `ranks` ranks.

    All parts have the same length, so that one all-gather restores the row; the last parts end in padding. A part may
    begin and end inside a parameter, contain several parameters, or only padding.
    """

    counts: Mapping[str, int]
    ranks: int

    def __post_init__(self) -> None:
        require_whole("ranks", self.ranks, "ranks")
        for name, count in self.counts.items():
            require_whole(f"counts[{name!r}]", count, "elements", least=0)

    @property
    def elements(self) -> int:
        """Elements of all parameters."""
        return sum(self.counts.values())

    @property
    def part(self) -> int:
        """Elements of one rank's part, padding included."""
        return -(-self.elements // self.ranks)

    @property
    def padded(self) -> int:
        """Elements of the whole row, padding included; the padding is shorter than `ranks`."""
        return self.part * self.ranks

    @property
    def starts(self) -> dict[str, int]:
        """The first element of each parameter in the row."""
        starts, at = {}, 0
        for name, count in self.counts.items():
            starts[name], at = at, at + count
        return starts

    def pieces(self, rank: int) -> list[Piece]:
        """The pieces in the part of `rank`, in order; padding belongs to no piece."""
        if not 0 <= rank < self.ranks:
            raise ValueError(f"rank={rank} of {self.ranks} ranks: choose 0 to {self.ranks - 1}.")
        low, high = rank * self.part, (rank + 1) * self.part
        found = []
        for name, begin in self.starts.items():
            first, last = max(begin, low), min(begin + self.counts[name], high)
            if first < last:
                found.append(Piece(name, first - begin, last - begin, first - low))
        return found


def owners_of(nbytes: Sequence[int], ranks: int) -> list[int]:
    """The rank that owns each whole tensor, balanced by bytes: the largest tensor first, each to the rank with the
    fewest bytes.

    No rank gets more than a fair share plus one tensor. Graham, "Bounds on multiprocessing timing anomalies" (1969). A
    single huge tensor cannot be balanced this way; cut it as `Flat` does.
    """
    require_whole("ranks", ranks, "ranks")
    load, owner = [0] * ranks, [0] * len(nbytes)
    for place in sorted(range(len(nbytes)), key=lambda each: (-nbytes[each], each)):
        owner[place] = load.index(min(load))
        load[owner[place]] += nbytes[place]
    return owner
