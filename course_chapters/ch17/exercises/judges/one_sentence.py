"""Judge of one-sentence: the one sentence, as a placement."""

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_grader.judging import Fault, Judging, Params, describe, oracle
from course_grader.judging.cases import hidden, shown
from course_grader.records import Case, Outcome
from course_lib.estimate.units import GB

Axes = Mapping[str, tuple[int, float, float]]  # size, bytes sent, seconds that can hide them
Levels = Sequence[tuple[int, float]]  # devices, bandwidth
Row = tuple[Axes, Levels]
Order = Sequence[str]
LEFT: Mapping[str, Callable[[Any], float]] = {"in turn": sum, "together": lambda each: max(each, default=0.0)}


def _starts(ranks: int, stride: int, size: int) -> list[int]:
    return [rank for rank in range(ranks) if rank // stride % size == 0]


def bandwidth(order: Order, row: Row, axis: str, slip: str = "") -> float:
    """The bandwidth of the first level that holds every group of an axis."""
    axes, levels = row
    stride = math.prod(axes[each][0] for each in order[list(order).index(axis) + 1 :])
    size = axes[axis][0]
    starts = [0] if slip == "first-group" else _starts(math.prod(each[0] for each in axes.values()), stride, size)
    reach = (size - 1) * stride
    for devices, rate in levels:
        if all(start // devices == (start + reach) // devices for start in starts):
            return rate
    return levels[-1][1]


def exposed(sharing: str, order: Order, row: Row, slip: str = "") -> float:
    """Seconds that an order leaves exposed."""
    left = []
    for axis, (size, sent, hides) in row[0].items():
        if size > 1:
            seconds = sent / bandwidth(order, row, axis, slip)
            left.append(seconds if slip == "nothing-hidden" else max(0.0, seconds - hides))
    if slip == "hidden-from-sum":
        return max(
            0.0,
            sum(s / bandwidth(order, row, a) for a, (n, s, _) in row[0].items() if n > 1)
            - sum(h for n, _, h in row[0].values() if n > 1),
        )
    return LEFT[sharing](left)


def best(sharing: str, row: Row, slip: str = "") -> Order:
    """One of the best orders; with a slip, one of those that look best with the mistake."""
    return min(itertools.permutations(row[0]), key=lambda order: exposed(sharing, order, row, slip))


def _by(key: Callable[[tuple[int, float, float]], float]) -> Callable[[str, Row], Order]:
    return lambda sharing, row: sorted(row[0], key=lambda axis: key(row[0][axis]))


RULES: Mapping[str, tuple[Callable[[str, Row], Order], str]] = {
    "as-given": (lambda sharing, row: list(row[0]), "this is the order that the dictionary happens to have."),
    "most-innermost": (
        _by(lambda axis: axis[1]),
        "the axis that sends the most is innermost, even where its bytes are hidden.",
    ),
    "most-outermost": (
        _by(lambda axis: -axis[1]),
        "the axis that sends the most has the slowest wire here; the last axis is innermost.",
    ),
    "nothing-hidden": (lambda sharing, row: best(sharing, row, "nothing-hidden"), "this is best if nothing is hidden."),
    "first-group": (
        lambda sharing, row: best(sharing, row, "first-group"),
        "look at every group of an axis, not only at the first one.",
    ),
    "other-sharing": (
        lambda sharing, row: best("together" if sharing == "in turn" else "in turn", row),
        "do the axes communicate in turn or together?",
    ),
    "hidden-from-sum": (
        lambda sharing, row: best(sharing, row, "hidden-from-sum"),
        "an axis cannot use what another one leaves of its window.",
    ),
}


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    sharing, rows, orders = params["sharing"], case.args[1], outcome.value
    for row, order in zip(rows, orders, strict=True):
        if not all(type(each) is str for each in order) or sorted(order) != sorted(row[0]):
            return "not-an-order", f"{case.name}: return each of {', '.join(row[0])} once; got {describe(order)}."
    for row, order in zip(rows, orders, strict=True):
        got, least = exposed(sharing, order, row), exposed(sharing, best(sharing, row), row)
        if got <= least * (1 + 1e-9) + 1e-12:
            continue
        shape = ", ".join(f"{axis} {size}" for axis, (size, _, _) in row[0].items())
        lead = f"{shape}, units of {', '.join(str(devices) for devices, _ in row[1])}: {' '.join(order)} leaves more exposed than another order; "
        for name, (rule, message) in RULES.items():
            if all(
                exposed(sharing, rule(sharing, r), r) == exposed(sharing, o, r)
                for r, o in zip(rows, orders, strict=True)
            ):
                return name, lead + message
        return "", lead + "compare all orders."
    return None


# --- cases

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
    """A row on which each of these rules leaves at least 3 % more exposed than the best order."""
    while True:
        row = _row(rng, rng.choice((3, 4)), sizes, rng.choice(units))
        least = exposed(sharing, best(sharing, row), row)
        if all(exposed(sharing, RULES[name][0](sharing, row), row) > 1.03 * least + 1e-4 for name in names):
            return row


def _cases(params: Params, rng: random.Random) -> list[Case]:
    sharing, server, rack = params["sharing"], params["server"], params["rack"]
    levels = [(server, 450 * GB), (rack, 100 * GB), (4096, 50 * GB)]
    example: Row = ({"tp": (4, 40e9, 0.0), "dp": (8, 60e9, 2.0), "pp": (2, 4e9, 0.1)}, levels)
    powers, units = (1, 2, 4, 8), ((4, 16), (8, 32), (8,), (4, 8, 32))
    straddling = ((6,), (4, 12), (8, 24))
    plain = [telling(sharing, rng, ("as-given", "most-outermost"), powers, units) for _ in range(2)]
    hides = [
        telling(sharing, rng, (name,), powers, units)
        for name in ("most-innermost", "nothing-hidden", "hidden-from-sum")
        for _ in range(2)
    ]
    odd = [telling(sharing, rng, ("first-group",), (2, 3, 5, 6), straddling) for _ in range(3)]
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
        hidden(
            "in turn or together",
            "values:hidden",
            0,
            [telling(sharing, rng, ("other-sharing",), powers, units) for _ in range(2)],
        ),
        hidden("sizes that straddle units", "generality:sizes", 0, odd),
        hidden("one axis, axes of size one, nothing exposed, ties", "generality:edges", 0, edges),
    ]


JUDGING = Judging(
    shares="values:orders 0.15, values:hidden 0.5, generality:sizes 0.25, generality:edges 0.1",
    cases=_cases,
    verdicts=oracle(_fault),
    why="The sentence says: put the most frequent communication on the fastest wire. The exact version is about what is exposed. Tensor parallelism "
    "waits for every byte and gets the server; data parallelism sends as much, but it has the whole backward pass to hide behind, so it can cross the slowest level.",
    pytorch="The order of the names in `init_device_mesh`: the last one is innermost, and its groups stay inside a server.",
)

ANSWERS = r"""import itertools
import math


# %% right: all orders
def place(axes, levels):
    ranks = math.prod(size for size, _, _ in axes.values())

    def exposed(order):
        total, stride = 0.0, 1
        for axis in reversed(order):
            size, sent, hidden = axes[axis]
            if size > 1:
                starts = [r for r in range(ranks) if r // stride % size == 0]
                reach = (size - 1) * stride
                rate = next(b for d, b in levels if all(r // d == (r + reach) // d for r in starts))
                total += max(0.0, sent / rate - hidden)
            stride *= size
        return total

    return min(itertools.permutations(axes), key=exposed)


# %% right: any variant  from: all orders
# - def place(axes, levels):
# + from course_lib import params
# + SUM = params("one-sentence").sharing == "in turn"
# + def place(axes, levels):
# -                 total += max(0.0, sent / rate - hidden)
# +                 left = max(0.0, sent / rate - hidden)
# +                 total = total + left if SUM else max(total, left)


# %% wrong: the most innermost => values -  from: all orders
# ~ min(itertools.permutations(axes), key=exposed) ==> sorted(axes, key=lambda axis: axes[axis][1])


# %% wrong: the most outermost => values most-outermost  from: all orders
# ~ min(itertools.permutations(axes), key=exposed) ==> sorted(axes, key=lambda axis: -axes[axis][1])


# %% wrong: as it is given => values -  from: all orders
# ~ min(itertools.permutations(axes), key=exposed) ==> list(axes)


# %% wrong: nothing hides => values nothing-hidden  from: all orders
# ~ max(0.0, sent / rate - hidden) ==> sent / rate

# %% wrong: windows are shared => values -  from: all orders
# ~ max(0.0, sent / rate - hidden) ==> sent / rate - hidden
# ~ return total ==> return max(0.0, total)

# %% wrong: the longest => values - unless sharing=together  from: all orders
# ~ total += max(0.0, sent / rate - hidden) ==> total = max(total, sent / rate - hidden)

# %% wrong: rank 0's group => generality first-group  from: all orders
# ~ r for r in range(ranks) if r // stride % size == 0 ==> 0

# %% wrong: innermost first => values not-an-order  from: all orders
# ~ return min(itertools.permutations(axes), key=exposed) ==> return [list(axes).index(axis) for axis in min(itertools.permutations(axes), key=exposed)]

# %% wrong: axes of size one are left out => values not-an-order  from: all orders
# ~ return min(itertools.permutations(axes), key=exposed) ==> return [axis for axis in min(itertools.permutations(axes), key=exposed) if axes[axis][0] > 1]

# %% wrong: five axes stay as they are => generality -  from: all orders
# ~ itertools.permutations(axes), ==> itertools.permutations(axes) if len(axes) < 5 else [tuple(axes)],

# %% wrong: the worst order => values -  from: all orders
# ~ return min(itertools.permutations(axes), key=exposed) ==> return max(itertools.permutations(axes), key=exposed)
"""
