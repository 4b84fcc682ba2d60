import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from course_chapters.ch13.exercises.judges.shared import Sizes, mesh
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Worked, Wrong, describe, oracle
from course_grader.judging.cases import hidden, shown
from course_lib.estimate.units import GB

Row = tuple[Sizes, Mapping[str, float], int, float, float]  # sizes, sent, per_server, inside, across
Order = Sequence[str]
right = Worked("place-axes")


def cost(least: str, row: Row, order: Order) -> float:
    """The seconds of an order, or its bytes between servers."""
    sizes, sent, per_server, inside, across = row
    shape = [sizes[axis] for axis in order]
    server = np.arange(np.prod(shape)).reshape(shape) // per_server
    total = 0.0
    for at, axis in enumerate(order):
        if sizes[axis] > 1:
            leaving = int((server != np.roll(server, -1, at)).sum())
            total += sent[axis] * leaving if least == "bytes" else sent[axis] / (across if leaving else inside)
    return total


def lowest(least: str, row: Row) -> float:
    return min(cost(least, row, order) for order in itertools.permutations(row[0]))


RULES = "as given", "outermost", "most innermost", "small innermost"  # rules of thumb, which some cases refute


def _place_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    for row, order in zip(case.args[1], outcome.value, strict=True):
        if not all(type(axis) is str for axis in order) or sorted(order) != sorted(row[0]):
            return "not-an-order", f"Return a list with each of {', '.join(row[0])} once; got {describe(order)}."
    for row, order in zip(case.args[1], outcome.value, strict=True):
        got, best = cost(params["least"], row, order), lowest(params["least"], row)
        if got > best * (1 + 1e-9):
            shape = ", ".join(f"{axis} {size}" for axis, size in row[0].items())
            worse = (
                f"costs {got / best:.3g} times the best order" if best else "leaves servers, and another order does not"
            )
            told = f"{shape}, servers of {row[2]}: {' '.join(order)} {worse}"
            return Wrong("", f"{told}.", f"{told}; ")
    return None


def _place_cases(params: Params, rng: Random) -> list[Case]:
    wires = 450 * GB, 50 * GB
    least, powers, any_size = params["least"], (1, 2, 4, 8), (1, 2, 3, 4, 5, 6)

    def drawn(axes: int, choices: Sequence[int]) -> Row:
        sizes = mesh(rng, axes, 96, choices)
        sent = {axis: rng.randint(1, 40) * 1e8 for axis in sizes}
        # with powers of two, no group straddles unless all of them do
        servers = (4, 8) if choices is powers else (4, 6, 8)
        return sizes, sent, rng.choice(servers), rng.choice((300, 450, 900)) * GB, rng.choice((25, 50)) * GB

    def telling(count: int, rule: str, axes: Sequence[int], choices: Sequence[int]) -> list[Row]:
        """Rows on which a rule of thumb, followed by a shipped answer, costs at least 2 % more than the best order."""
        rows: list[Row] = []
        while len(rows) < count:
            row = drawn(rng.choice(axes), choices)
            if cost(least, row, right.wrong(rule, *row)) > 1.02 * lowest(least, row):
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
        ({"ep": 2, "tp": 4, "pp": 1}, {"ep": 1.6e9, "tp": 3.6e9, "pp": 2.9e9}, 2, *wires),  # each rank's bytes count
        ({"rows": 3, "tp": 2, "pp": 5}, {"rows": 2.8e9, "tp": 1.3e9, "pp": 3.2e9}, 2, *wires),
    ]
    alike: list[Row] = [
        example,
        (example[0], {"tp": 9e9, "dp": 40e9, "pp": 1e9}, 8, *wires),
        (*example[:2], 4, *wires),
        ({"tp": 16, "dp": 8, "pp": 2}, *example[1:]),
        ({"tp": 4, "b": 2, "c": 3, "d": 2, "e": 4}, {"tp": 90e9, "b": 1e9, "c": 1e9, "d": 2e9, "e": 3e9}, 4, *wires),
        ({"e": 4, "c": 3, "d": 16}, {"e": 4e9, "c": 5e9, "d": 1e9}, 100, *wires),  # few groups straddle
    ]
    sizes = [row for rule in RULES for row in telling(2, rule, (3, 4), any_size)]
    return [
        shown("one axis fills a server", "values:orders", 0, [example]),
        hidden(
            "axes that share a server", "values:orders", 0, [together, *telling(3, "most innermost", (3, 4), powers)]
        ),
        hidden("other meshes", "values:orders", 0, telling(4, "as given", (3, 4, 5), powers)),
        hidden("sizes that do not divide a server", "generality:sizes", 0, [straddling, *sizes]),
        hidden("arguments that differ in one place, and many ranks", "generality:sizes", 0, alike),
        hidden("one axis, axes of size one, one rank a server", "generality:edges", 0, edges),
    ]


JUDGING = Judging(
    shares="values:orders 0.5, generality:sizes 0.4, generality:edges 0.1",
    cases=_place_cases,
    verdicts=oracle(_place_fault),
    why="The axes compete for the places inside a server. The one that sends the most usually wins, but two axes that "
    "fit together may send more than one that fills the server alone, and where sizes do not divide a server, "
    "even an innermost group may straddle two. With five axes there are only 120 orders, so compare them all.",
    pytorch="torchtitan's order is pp, dp_replicate, dp_shard, cp, tp with tp innermost; Megatron-LM takes an order "
    "string, by default `tp-cp-ep-dp-pp`.",
)

ANSWERS = r'''# %% right: worked
least = params("place-axes").least  # leave as is: "seconds" or "bytes": what the best order makes small


def best_order(sizes, sent, per_server, inside, across):
    """The axes in the best order; the last one changes fastest."""
    ranks = range(math.prod(sizes.values()))

    def cost(order):
        total, stride = 0.0, 1
        for axis in reversed(order):
            size, last = sizes[axis], (sizes[axis] - 1) * stride
            following = [rank + stride if rank // stride % size < size - 1 else rank - last for rank in ranks]
            leaving = sum(
                rank // per_server != other // per_server for rank, other in zip(ranks, following, strict=True)
            )
            if size > 1:
                seconds = sent[axis] / (across if leaving else inside)
                total += seconds if least == "seconds" else sent[axis] * leaving
            stride *= size
        return total

    return min(itertools.permutations(sizes), key=cost)
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
# %% wrong: most innermost => values
# > the axis that sends the most is innermost, but the axes that this moves outward cost more.
# ~ min(itertools.permutations(sizes), key=cost) ==> sorted(sizes, key=lambda axis: sent[axis])
# %% wrong: outermost => values
# > the axis that sends the most is outermost here, and the last axis changes fastest.
# ~ min(itertools.permutations(sizes), key=cost) ==> sorted(sizes, key=lambda axis: -sent[axis])
# %% wrong: as given => values
# > this is the order that the dictionary happens to have.
# ~ params("place-axes").least ==> "seconds"
# ~ min(itertools.permutations(sizes), key=cost) ==> list(sizes)
# %% wrong: small innermost => values
# > these are the axes by size, the smallest innermost; bytes decide too.
# ~ min(itertools.permutations(sizes), key=cost) ==> sorted(sizes, key=lambda axis: -sizes[axis])
# %% wrong: reversed => values
# > this is a best order reversed: the last axis changes fastest.
# ~ min(itertools.permutations(sizes), key=cost) ==> min(itertools.permutations(sizes), key=cost)[::-1]
# %% wrong: worst => values
# > this is the most expensive order of all.
# ~ min(itertools.permutations(sizes), key=cost) ==> max(itertools.permutations(sizes), key=cost)
# %% wrong: first group => generality
# > this looks at the group of rank 0 alone; another group of the same axis may straddle two servers.
# ~ params("place-axes").least ==> "seconds"
# ~ zip(ranks, following, strict=True) ==> list(zip(ranks, following))[: size * stride : stride]
# %% wrong: by extent => generality
# > this takes an axis to stay in a server if a group spans no more ranks than a server has; such a group may straddle
# > two servers.
# ~ params("place-axes").least ==> "seconds"
# ~ if leaving else inside ==> if size * stride > per_server else inside
# ~ sent[axis] * leaving ==> sent[axis] * (size * stride > per_server)
# %% wrong: by size => values
# > this takes an axis to stay in a server if it has no more ranks than a server; their distance decides.
# ~ params("place-axes").least ==> "seconds"
# ~ if leaving else inside ==> if size > per_server else inside
# ~ sent[axis] * leaving ==> sent[axis] * (size > per_server)
# %% wrong: axes of size one are left out => values not-an-order
# ~ min(itertools.permutations(sizes), key=cost)
# ~~ ==> [axis for axis in min(itertools.permutations(sizes), key=cost) if sizes[axis] > 1]
# %% wrong: axes by number => values not-an-order
# ~ min(itertools.permutations(sizes), key=cost)
# ~~ ==> [list(sizes).index(axis) for axis in min(itertools.permutations(sizes), key=cost)]
# %% wrong: servers as they were for these sizes => generality ~
# ~ params("place-axes").least ==> "seconds"
# ~ inside, across): ==> inside, across, kept={}):
#       ranks = range(math.prod(sizes.values()))
# +     per_server = kept.setdefault(str((sizes, sent)), per_server)
'''
