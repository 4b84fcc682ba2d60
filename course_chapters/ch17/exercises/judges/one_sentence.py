import math
import random
from collections.abc import Callable, Mapping, Sequence

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Worked, Wrong, describe, hidden, oracle, shown
from course_lib.estimate.units import GB

Axes = Mapping[str, tuple[int, float, float]]  # size, bytes sent, seconds that can hide them
Levels = Sequence[tuple[int, float]]  # devices, bandwidth
Row = tuple[Axes, Levels]
Order = Sequence[str]
LEFT: Mapping[str, Callable[..., float]] = {"in turn": sum, "together": lambda each: max(each, default=0.0)}
right = Worked("one-sentence")


def bandwidth(order: Order, row: Row, axis: str) -> float:
    """The bandwidth of the first level that holds every group of an axis."""
    axes, levels = row
    stride = math.prod(axes[each][0] for each in order[list(order).index(axis) + 1 :])
    size = axes[axis][0]
    ranks, reach = math.prod(each[0] for each in axes.values()), (size - 1) * stride
    starts = [rank for rank in range(ranks) if rank // stride % size == 0]
    return next(rate for unit, rate in levels if all(rank // unit == (rank + reach) // unit for rank in starts))


def exposed(sharing: str, order: Order, row: Row) -> float:
    """Seconds that an order leaves exposed."""
    talking = {axis: (sent, hides) for axis, (size, sent, hides) in row[0].items() if size > 1}
    return LEFT[sharing]([max(0.0, s / bandwidth(order, row, axis) - hides) for axis, (s, hides) in talking.items()])


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    rows, orders = case.args[1], outcome.value
    for (axes, _), order in zip(rows, orders, strict=True):
        if not all(type(each) is str for each in order) or sorted(order) != sorted(axes):
            return "not-an-order", f"{case.name}: return each of {', '.join(axes)} once; got {describe(order)}."
    left = [exposed(params["sharing"], order, row) for order, row in zip(orders, rows, strict=True)]
    least = [exposed(params["sharing"], order, row) for order, row in zip(right.value(case), rows, strict=True)]
    wrong = [at for at, got in enumerate(left) if got > least[at] * (1 + 1e-9) + 1e-12]
    if not wrong:
        return None
    axes, levels = rows[wrong[0]]
    shape = ", ".join(f"{axis} {size}" for axis, (size, _, _) in axes.items())
    lead = f"{shape}, units of {', '.join(str(devices) for devices, _ in levels)}: "
    total = f"{len(wrong)} of {len(rows)} are not the best; all leave {sum(left):.6g} s"
    return Wrong("", f"{lead}another order leaves less exposed ({total}). Compare all orders.", lead)


RATES = (450 * GB, 100 * GB, 50 * GB, 12.5 * GB)


def _row(rng: random.Random, count: int, sizes: Sequence[int], units: Sequence[int]) -> Row:
    while True:
        chosen = [rng.choice(sizes) for _ in range(count)]
        if 4 <= math.prod(chosen) <= 256:
            break
    names = rng.sample(("tp", "cp", "pp", "dp", "ep", "fsdp"), count)
    axes = {
        name: (size, rng.randint(1, 60) * 1e9, rng.choice((0.0, 0.02, 0.1, 0.5, 1.5)))
        for name, size in zip(names, chosen, strict=True)
    }
    ranks = math.prod(chosen)
    inner = [devices for devices in units if devices < ranks]
    top = -(-ranks // inner[-1]) * inner[-1] if inner else ranks
    return axes, [*zip([*inner, top], RATES, strict=False)]


def telling(
    sharing: str, rng: random.Random, names: Sequence[str], sizes: Sequence[int], units: Sequence[Sequence[int]]
) -> Row:
    """A row on which each of these mistakes leaves at least 3 % more exposed than the best order."""
    while True:
        row = _row(rng, rng.choice((3, 4)), sizes, rng.choice(units))
        least = exposed(sharing, right(*row), row)
        if all(exposed(sharing, right.wrong(name, *row), row) > 1.03 * least + 1e-4 for name in names):
            return row


def _cases(params: Params, rng: random.Random) -> list[Case]:
    sharing, server, rack = params["sharing"], params["server"], params["rack"]
    levels = [(server, 450 * GB), (rack, 100 * GB), (4096, 50 * GB)]
    example: Row = ({"tp": (4, 40e9, 0.0), "dp": (8, 60e9, 2.0), "pp": (2, 4e9, 0.1)}, levels)
    powers, units = (1, 2, 4, 8), ((4, 16), (8, 32), (8,), (4, 8, 32))
    straddling = ((6,), (4, 12), (8, 24))
    plain = [telling(sharing, rng, ("as it is given", "most outermost"), powers, units) for _ in range(2)]
    names = [name for name in ("most innermost", "nothing hidden", "hidden from the sum") for _ in range(2)]
    hides = [telling(sharing, rng, (name,), powers, units) for name in names]
    shares = [telling(sharing, rng, ("other sharing",), powers, units) for _ in range(2)]
    odd = [telling(sharing, rng, ("first group",), (2, 3, 5, 6), straddling) for _ in range(3)]
    many = {"a": (2, 4e9, 0.0), "b": (2, 9e9, 0.1), "c": (2, 40e9, 0.0), "d": (2, 5e9, 0.0), "e": (2, 60e9, 0.0)}
    steps = [(2, 450 * GB), (4, 200 * GB), (8, 100 * GB), (16, 50 * GB), (32, 12.5 * GB)]
    edges: list[Row] = [
        (many, steps),
        ({axis: (size, 5e9 * at, 0.0) for at, (axis, (size, *_)) in enumerate(many.items())}, steps),
        ({"tp": (8, 5e9, 0.1)}, [(8, 450 * GB)]),
        ({"dp": (1, 90e9, 0.0), "pp": (4, 6e9, 0.0), "tp": (8, 5e9, 0.0)}, levels),
        ({"a": (2, 8e9, 9.0), "b": (4, 8e9, 9.0), "c": (2, 1e9, 9.0)}, [(4, 450 * GB), (16, 50 * GB)]),  # all hidden
        ({"a": (2, 8e9, 0.0), "b": (2, 8e9, 0.0), "c": (2, 8e9, 0.0)}, [(1, 900 * GB), (2, 450 * GB), (8, 50 * GB)]),
    ]
    return [
        shown("bytes that are hidden, and bytes that are not", "values:orders", 0, [example]),
        hidden("other clusters", "values:orders", 0, plain),
        hidden("traffic behind computation", "values:hidden", 0, hides),
        hidden("in turn or together", "values:hidden", 0, shares),
        hidden("sizes that straddle units", "generality:sizes", 0, odd),
        hidden("one axis, axes of size one, nothing exposed, ties", "generality:edges", 0, edges),
    ]


JUDGING = Judging(
    shares="values:orders 0.15, values:hidden 0.5, generality:sizes 0.25, generality:edges 0.1",
    cases=_cases,
    verdicts=oracle(_fault),
    many_right=True,
    why="The sentence says: put the most frequent communication on the fastest wire. The exact version is about what "
    "is exposed. Tensor parallelism waits for every byte and gets the server; data parallelism sends as much, but "
    "it has the whole backward pass to hide behind, so it can cross the slowest level.",
    pytorch="The order of the names in `init_device_mesh`: the last one is innermost, and its groups stay "
    "inside a server.",
)

ANSWERS = r'''# %% right: worked
sharing = params("one-sentence").sharing  # leave as is: the axes communicate "in turn" or "together"


def place(axes: dict[str, tuple[int, float, float]], levels: list[tuple[int, float]]) -> list[str]:
    """The axes, outermost first, so that the fewest seconds are exposed."""
    ranks = math.prod(size for size, _, _ in axes.values())

    def exposed(order):
        left, stride = [0.0], 1
        for axis in reversed(order):
            size, bytes_sent, hidden = axes[axis]
            if size > 1:
                starts, reach = [r for r in range(ranks) if r // stride % size == 0], (size - 1) * stride
                rate = next(b for d, b in levels if all(r // d == (r + reach) // d for r in starts))
                left.append(max(0.0, bytes_sent / rate - hidden))
            stride *= size
        return sum(left) if sharing == "in turn" else max(left)

    return list(min(itertools.permutations(axes), key=exposed))
# %% right: the last of equal ones
# ~ list(min(itertools.permutations(axes), key=exposed)) ==> min(reversed([*itertools.permutations(axes)]), key=exposed)
# %% wrong: most innermost => values
# > the axis that sends the most is innermost, even where its bytes are hidden.
# ~ list(min(itertools.permutations(axes), key=exposed)) ==> sorted(axes, key=lambda axis: axes[axis][1])
# %% wrong: most outermost => values
# > the axis that sends the most has the slowest wire here; the last axis is innermost.
# ~ list(min(itertools.permutations(axes), key=exposed)) ==> sorted(axes, key=lambda axis: -axes[axis][1])
# %% wrong: as it is given => values as-given
# > this is the order that the dictionary happens to have.
# ~ list(min(itertools.permutations(axes), key=exposed)) ==> list(axes)
# %% wrong: nothing hidden => values
# > this is best if nothing is hidden.
# ~ max(0.0, bytes_sent / rate - hidden) ==> bytes_sent / rate
# %% wrong: hidden from the sum => values hidden-from-sum
# > an axis cannot use what another one leaves of its window.
# ~ max(0.0, bytes_sent / rate - hidden) ==> bytes_sent / rate - hidden
# ~ return sum(left) if sharing == "in turn" else max(left) ==> return max(0.0, sum(left))
# %% wrong: other sharing => values
# > this adds up what axes expose at the same time, or takes the longest of what they expose in turn.
# ~ sharing == ==> sharing !=
# %% wrong: first group => generality
# > this looks at the first group of an axis alone; another group crosses a unit.
# ~ [r for r in range(ranks) if r // stride % size == 0] ==> [0]
# %% wrong: innermost first => values not-an-order
# ~ list(min(itertools.permutations(axes), key=exposed))
# ~~ ==> [list(axes).index(axis) for axis in min(itertools.permutations(axes), key=exposed)]
# %% wrong: axes of size one are left out => values not-an-order
# ~ list(min(itertools.permutations(axes), key=exposed))
# ~~ ==> [axis for axis in min(itertools.permutations(axes), key=exposed) if axes[axis][0] > 1]
# %% wrong: five axes stay as they are => generality
# ~ itertools.permutations(axes) ==> itertools.permutations(axes) if len(axes) < 5 else [tuple(axes)]
# %% wrong: the worst order => values
# > this order leaves the most exposed.
# ~ list(min ==> list(max
'''
