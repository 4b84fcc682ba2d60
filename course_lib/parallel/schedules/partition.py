"""Which layers form a stage."""

from collections.abc import Sequence
from itertools import accumulate

from course_lib.estimate.units import require, require_whole


def cut_evenly(layers: int, stages: int, chunks: int = 1) -> list[range]:
    """The layers of each of stages × chunks stages, the same number in each."""
    _enough(layers, stages, chunks)
    if layers % (stages * chunks):
        fits = [each for each in range(1, layers // stages + 1) if layers % (stages * each) == 0]
        way = (
            f"chunks of {', '.join(map(str, fits))} would fit" if fits else f"no chunk count makes {stages} ranks even"
        )
        raise ValueError(
            f"{layers} layers do not divide into {stages} × {chunks} equal stages; {way}, and `cut` makes "
            f"uneven stages."
        )
    size = layers // (stages * chunks)
    return [range(first, first + size) for first in range(0, layers, size)]


def cut(costs: Sequence[float], stages: int, chunks: int = 1) -> list[range]:
    """Consecutive layers for stages × chunks stages, so that the most expensive stage costs as little as possible.

    `costs` holds one positive number per layer, with embedding and head if they are layers. Exact, by dynamic
    programming over the beginning of the last stage; of equally good cuts, the one whose first stages are the longest.
    """
    count, parts = len(costs), stages * chunks
    _enough(count, stages, chunks)
    before = [0.0, *accumulate(float(require(f"costs[{at}]", cost)) for at, cost in enumerate(costs))]
    # worst[k][i]: the lowest cost of the most expensive stage if the layers from i on form k stages
    worst = [[float("inf")] * count + [0.0]]
    first: list[list[int]] = [[]]  # where the stage after the first of those begins
    for left in range(1, parts + 1):
        row, starts = [float("inf")] * (count + 1), [count] * (count + 1)
        for begin in range(count - left, -1, -1):
            for end in range(begin + 1, count - left + 2):
                value = max(before[end] - before[begin], worst[-1][end])
                if value <= row[begin]:
                    row[begin], starts[begin] = value, end
        worst.append(row)
        first.append(starts)
    found, begin = [], 0
    for left in range(parts, 0, -1):
        found.append(range(begin, first[left][begin]))
        begin = found[-1].stop
    return found


def _enough(layers: int, stages: int, chunks: int) -> None:
    require_whole("stages", stages, "stages")
    require_whole("chunks", chunks, "chunks")
    if layers < stages * chunks:
        most = layers // stages
        way = f"{stages} stages with {most} chunk{'s' * (most != 1)} each" if most else f"{layers} stages"
        raise ValueError(
            f"{layers} layers cannot fill {stages} stages{f' × {chunks} chunks' if chunks > 1 else ''}: "
            f"each needs at least one layer; {way} would fit."
        )
