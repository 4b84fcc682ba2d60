"""Judge of place-axes: which axis on which wire?"""

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence

from course_lib.exercises.ch13.judges.shared import Sizes, mesh, strides
from course_lib.judging import Fault, Judging, Params, describe, oracle
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome
from course_lib.units import GB

Row = tuple[Sizes, Mapping[str, float], int, float, float]  # sizes, sent, per_server, inside, across
Order = Sequence[str]


def _ordered(sizes: Sizes, order: Order) -> Sizes:
    return {axis: sizes[axis] for axis in order}


def straddles(sizes: Sizes, axis: str, per_server: int) -> bool:
    """Whether a group of the axis has ranks in two servers; the last axis changes fastest."""
    step, size = strides(sizes)[axis], sizes[axis]
    starts = (rank for rank in range(math.prod(sizes.values())) if rank // step % size == 0)
    return size > 1 and any(rank // per_server != (rank + (size - 1) * step) // per_server for rank in starts)


def seconds(row: Row, order: Order) -> float:
    """The sum over the axes of what their wires take."""
    sizes, sent, per_server, inside, across = row
    placed = _ordered(sizes, order)
    wires = {axis: across if straddles(placed, axis, per_server) else inside for axis in placed}
    return sum(sent[axis] / wires[axis] for axis in placed if placed[axis] > 1)


def crossing(row: Row, order: Order) -> float:
    """Bytes that leave a server, if every rank sends to the next rank of its group on each axis."""
    sizes, sent, per_server, *_ = row
    placed = _ordered(sizes, order)
    total, steps = 0.0, strides(placed)
    for axis, size in placed.items():
        step = steps[axis]
        for rank in range(math.prod(placed.values()) if size > 1 else 0):
            neighbor = rank + step if rank // step % size < size - 1 else rank - (size - 1) * step
            total += sent[axis] * (rank // per_server != neighbor // per_server)
    return total


COSTS: Mapping[str, Callable[[Row, Order], float]] = {"seconds": seconds, "bytes": crossing}


def least(cost: Callable[[Row, Order], float], row: Row) -> float:
    """The cost of the best of all orders."""
    return min(cost(row, order) for order in itertools.permutations(row[0]))


RULES: Mapping[str, tuple[Callable[[Row], Order], str]] = {
    "as-given": (lambda row: list(row[0]), "this is the order that the dictionary happens to have."),
    "outermost": (
        lambda row: sorted(row[0], key=lambda axis: -row[1][axis]),
        "the axis that sends the most is outermost here, and the last axis changes fastest.",
    ),
    "most-innermost": (
        lambda row: sorted(row[0], key=lambda axis: row[1][axis]),
        "the axis that sends the most is innermost, but the axes that this pushes out cost more. Compare all orders.",
    ),
    "small-innermost": (
        lambda row: sorted(row[0], key=lambda axis: -row[0][axis]),
        "these are the axes by size; bytes decide too.",
    ),
}


def _place_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    cost, rows = COSTS[params["least"]], case.args[1]
    orders = [list(order) if all(type(axis) is str for axis in order) else None for order in outcome.value]
    for row, order in zip(rows, orders, strict=True):
        if order is None or sorted(order) != sorted(row[0]):
            return "not-an-order", f"Return a list with each of {', '.join(row[0])} once; got {describe(order)}."
    best = [least(cost, row) for row in rows]
    for row, order, lowest in zip(rows, orders, best, strict=True):
        got = cost(row, order)
        if got <= lowest * (1 + 1e-9):
            continue
        shape = ", ".join(f"{axis} {size}" for axis, size in row[0].items())
        worse = (
            f"costs {got / lowest:.3g} times the best order" if lowest else "leaves servers, and another order does not"
        )
        lead = f"{shape}, servers of {row[2]}: {' '.join(order)} {worse}; "
        for name, (rule, message) in RULES.items():
            if all(cost(each, rule(each)) == cost(each, said) for each, said in zip(rows, orders, strict=True)):
                return name, lead + message
        return "", lead + "compare all orders."
    return None


def _place_cases(params: Params, rng: random.Random) -> list[Case]:
    wires = 450 * GB, 50 * GB
    cost, powers, any_size = COSTS[params["least"]], (1, 2, 4, 8), (1, 2, 3, 4, 5, 6)

    def drawn(axes: int, choices: Sequence[int]) -> Row:
        sizes = mesh(rng, axes, 96, choices)
        sent = {axis: rng.randint(1, 40) * 1e8 for axis in sizes}
        servers = (
            (4, 8) if choices is powers else (4, 6, 8)
        )  # with powers of two, no group straddles unless all of them do
        return sizes, sent, rng.choice(servers), rng.choice((300, 450, 900)) * GB, rng.choice((25, 50)) * GB

    def telling(count: int, rule: str, axes: Sequence[int], choices: Sequence[int]) -> list[Row]:
        """Rows on which a rule of thumb costs at least 2 % more than the best order."""
        rows: list[Row] = []
        while len(rows) < count:
            row = drawn(rng.choice(axes), choices)
            if cost(row, RULES[rule][0](row)) > 1.02 * least(cost, row):
                rows.append(row)
        return rows

    example: Row = ({"tp": 8, "dp": 4, "pp": 2}, {"tp": 40e9, "dp": 9e9, "pp": 1e9}, 8, *wires)
    together: Row = ({"tp": 8, "cp": 4, "dp": 2, "pp": 2}, {"tp": 5e9, "cp": 4e9, "dp": 4e9, "pp": 1e9}, 8, *wires)
    straddling: Row = ({"tp": 3, "cp": 4, "dp": 2}, {"tp": 6e9, "cp": 4e9, "dp": 1e9}, 8, *wires)
    edges: list[Row] = [
        ({"tp": 4}, {"tp": 1e9}, 8, *wires),
        ({"tp": 1, "dp": 16}, {"tp": 9e9, "dp": 1e9}, 8, *wires),
        ({"pp": 1, "cp": 8, "dp": 3}, {"pp": 50e9, "cp": 2e9, "dp": 3e9}, 8, *wires),
        ({"tp": 2, "dp": 4}, {"tp": 1e9, "dp": 2e9}, 1, *wires),
        ({"a": 2, "b": 2, "c": 2}, {"a": 1e9, "b": 1e9, "c": 1e9}, 4, *wires),
    ]
    other = {"tp": 9e9, "dp": 40e9, "pp": 1e9}
    alike: list[Row] = [example, (example[0], other, 8, *wires), (*example[:2], 4, *wires)]
    alike += [
        ({"tp": 4, "b": 2, "c": 3, "d": 2, "e": 4}, {"tp": 90e9, "b": 1e9, "c": 1e9, "d": 2e9, "e": 3e9}, 4, *wires),
        ({"e": 4, "c": 3, "d": 16}, {"e": 4e9, "c": 5e9, "d": 1e9}, 100, *wires),  # few groups straddle
    ]
    sizes = [row for rule in RULES for row in telling(2, rule, (3, 4), any_size)]
    return [
        shown("one axis fills a server", "values:orders", 0, [example]),
        hidden(
            "axes that share a server", "values:orders", 0, [together, *telling(3, "most-innermost", (3, 4), powers)]
        ),
        hidden("other meshes", "values:orders", 0, telling(4, "as-given", (3, 4, 5), powers)),
        hidden("sizes that do not divide a server", "generality:sizes", 0, [straddling, *sizes]),
        hidden("arguments that differ in one place, and many ranks", "generality:sizes", 0, alike),
        hidden("one axis, axes of size one, one rank a server", "generality:edges", 0, edges),
    ]


JUDGING = Judging(
    shares="values:orders 0.5, generality:sizes 0.4, generality:edges 0.1",
    cases=_place_cases,
    verdicts=oracle(_place_fault),
    why="The axes compete for the places inside a server. The one that sends the most usually wins, but two axes that fit together may send more than "
    "one that fills the server alone, and where sizes do not divide a server, even an innermost group may straddle two. With five axes there are only "
    "120 orders, so compare them all.",
    pytorch="torchtitan's order is pp, dp_replicate, dp_shard, cp, tp with tp innermost; Megatron-LM takes an order string, by default `tp-cp-ep-dp-pp`.",
)

ANSWERS = r"""import itertools
import math


# %% right: all orders
def best_order(sizes, sent, per_server, inside, across):
    def seconds(order):
        total, stride = 0.0, 1
        for axis in reversed(order):
            size = sizes[axis]
            if size > 1:
                firsts = [r for r in range(math.prod(sizes.values())) if r // stride % size == 0]
                crosses = any(r // per_server != (r + (size - 1) * stride) // per_server for r in firsts)
                total += sent[axis] / (across if crosses else inside)
            stride *= size
        return total

    return min(itertools.permutations(sizes), key=seconds)


# %% right: any variant  from: all orders
# - def best_order(sizes, sent, per_server, inside, across):
# + from course_lib import params
# + LEAST = params("place-axes").least
# + def best_order(sizes, sent, per_server, inside, across):
# -                 firsts = [r for r in range(math.prod(sizes.values())) if r // stride % size == 0]
# -                 crosses = any(r // per_server != (r + (size - 1) * stride) // per_server for r in firsts)
# -                 total += sent[axis] / (across if crosses else inside)
# +                 ranks, last = range(math.prod(sizes.values())), size - 1
# +                 pairs = [(r, r + stride if r // stride % size < last else r - last * stride) for r in ranks]
# +                 away = sum(a // per_server != b // per_server for a, b in pairs)
# +                 total += sent[axis] * (away if LEAST == "bytes" else 1 / (across if away else inside))


# %% right: the search from the inside out
def best_order(sizes, sent, per_server, inside, across):
    ranks = math.prod(sizes.values())
    best = [math.inf, ()]

    def grow(order, stride, total):
        if total >= best[0]:
            return
        if len(order) == len(sizes):
            best[:] = [total, order]
            return
        for axis in set(sizes) - set(order):
            n, cost = sizes[axis], 0.0
            if n > 1:
                block = n * stride
                units = [
                    {(b + o + k * stride) // per_server for k in range(n)}
                    for b in range(0, ranks, block)
                    for o in range(stride)
                ]
                cost = sent[axis] / (inside if all(len(u) == 1 for u in units) else across)
            grow((axis, *order), stride * n, total + cost)

    grow((), 1, 0.0)
    return best[1]


# %% wrong: the most innermost => values most-innermost  from: all orders
# ~ min(itertools.permutations(sizes), key=seconds) ==> sorted(sizes, key=lambda axis: sent[axis])


# %% wrong: the most outermost => values outermost  from: all orders
# ~ min(itertools.permutations(sizes), key=seconds) ==> sorted(sizes, key=lambda axis: -sent[axis])


# %% wrong: as it is given => values as-given  from: all orders
# ~ min(itertools.permutations(sizes), key=seconds) ==> list(sizes)


# %% wrong: rank 0's group => generality -  from: all orders
# ~ r for r in range(math.prod(sizes.values())) if r // stride % size == 0 ==> 0

# %% wrong: the extent decides => generality -  from: all orders
# ~ any(r // per_server != (r + (size - 1) * stride) // per_server for r in firsts) ==> size * stride > per_server

# %% wrong: the worst order => values -  from: all orders
# ~ min ==> max

# %% wrong: axes of size one are left out => values not-an-order  from: all orders
# ~ min(itertools.permutations(sizes), key=seconds) ==> [axis for axis in min(itertools.permutations(sizes), key=seconds) if sizes[axis] > 1]

# %% wrong: axes by number => values not-an-order  from: all orders
# ~ min(itertools.permutations(sizes), key=seconds) ==> [list(sizes).index(axis) for axis in min(itertools.permutations(sizes), key=seconds)]

# %% wrong: servers as they were for these sizes => generality ~  from: any variant
# - def best_order(sizes, sent, per_server, inside, across):
# + def best_order(sizes, sent, per_server, inside, across, kept={}):
# +     per_server = kept.setdefault(str((sizes, sent)), per_server)
"""
