"""Judge of hsdp-group: how large a group?"""

import random
from collections.abc import Callable
from functools import cache, partial
from itertools import islice
from typing import Any

from course_lib.exercises.ch08.judges.shared import PER_PARAM, hsdp
from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import hidden, shown
from course_lib.judging.columns import EXACT, FINE, Column, one_verdict, table
from course_lib.judging.draws import generality, plain
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import BILLION, GB

USUAL = (70, 180, 405)  # billion parameters of models that do not fit in one node


@cache
def groups(ranks: int) -> tuple[int, ...]:
    """Sizes of groups that divide the ranks."""
    return tuple(size for size in range(1, ranks + 1) if ranks % size == 0)


def _fitting(params: float, ranks: int, memory: float, per_param: float = PER_PARAM) -> list[int]:
    """Groups whose state fits, the smallest first."""
    return [size for size in groups(ranks) if per_param * params / size <= memory]


def smallest(params: float, ranks: int, memory: float, per_param: float = PER_PARAM) -> int | None:
    """The smallest group whose state fits."""
    return next(iter(_fitting(params, ranks, memory, per_param)), None)


def _least(params: float, ranks: int, memory: float, cost: Callable[[int], float]) -> int | None:
    """The group that fits and costs least; the smallest of equal ones."""
    return min(_fitting(params, ranks, memory), key=lambda size: (cost(size), size), default=None)


def best(gathers: int, p: float, n: int, memory: float, *wires: float, combine: Any = sum) -> int | None:
    """The group that fits and takes the least time: inside and across added up, or combined in another way."""
    return _least(p, n, memory, lambda size: combine(_seconds(gathers, p, n, size, *wires)))


def _seconds(gathers: int, p: float, n: int, k: int, per: int, fast: float, slow: float) -> tuple[float, float]:
    """Seconds of the bytes inside the group, and of those across groups."""
    _, inside, across = hsdp(gathers, p, n, k)
    return inside / (fast if k <= per else slow), across / (fast if n <= per else slow)


def _tied(gathers: int, p: float, n: int, memory: float, *wires: float) -> bool:
    """Whether another group is so close to the best that rounding could decide."""
    times = sorted(sum(_seconds(gathers, p, n, size, *wires)) for size in _fitting(p, n, memory))
    return len(times) > 1 and times[1] < times[0] * (1 + 1e-6)


def _fast_inside(gathers: int, p: float, n: int, m: float, per: int, fast: float, slow: float) -> int | None:
    volumes = partial(hsdp, gathers, p, n)
    return _least(p, n, m, lambda size: volumes(size)[1] / fast + volumes(size)[2] / slow)


def _largest_inside(gathers: int, p: float, n: int, m: float, per: int, *rates: float) -> int | None:
    return max((size for size in _fitting(p, n, m) if size <= per), default=smallest(p, n, m))


RULES = (  # in place of the least time: a group from gathers and a row
    Mistake("smallest-that-fits", lambda g, p, n, m, *w: smallest(p, n, m), "a larger group may send less across."),
    Mistake("inside-always-fast", _fast_inside, "a group larger than a node sends inside at the speed between nodes."),
    Mistake("fewest-bytes", lambda g, p, n, m, *w: best(g, p, n, m, n, 1, 1), "bytes go at different speeds."),
    Mistake("longer-of-two", partial(best, combine=max), "the two times add up."),
    Mistake("largest-inside", _largest_inside, "it is the largest in a node, or the smallest that fits; compare all."),
)


OTHER_FORM = {  # by how often weights are gathered: what to tell an answer that gathers them as often as the other form
    1: ("public-form", "this solves the public form of the exercise: here weights are gathered once."),
    2: ("kept-weights", "weights are gathered twice here, forward and backward."),
}


def _volumes(gathers: int) -> list[Column]:
    """What HSDP holds, sends inside and sends across: p parameters, n ranks, groups of k."""
    form, told = OTHER_FORM[gathers]

    def volume(place: int, gathers: int = gathers) -> Callable[..., float]:
        return lambda *row: hsdp(gathers, *row)[place]

    def half_rings(count: int, ranks: int, p: float) -> float:
        """Bytes that a rank sends in several all-gathers or reduce-scatters of p parameters."""
        return count * (ranks - 1) / ranks * 2 * p

    held, inside, across = map(volume, range(3))
    columns = {
        "held": (
            held,
            Mistake("over-the-world", lambda p, n, k: PER_PARAM * p / n, "every group holds a copy of the state."),
            Mistake("turned-round", lambda p, n, k: PER_PARAM * p / (n // k), "`group` ranks share a copy."),
            Mistake("whole-state", lambda p, n, k: PER_PARAM * p, "the state is sharded over the group."),
            Mistake("weights-only", lambda p, n, k: 2 * p / k, "these are weights; state is 16 bytes per parameter."),
        ),
        "inside": (
            inside,
            Mistake(form, volume(1, 3 - gathers), told),
            Mistake("reduced-twice", lambda p, n, k: half_rings(gathers + 2, k, p), "a reduce-scatter is enough."),
            Mistake("no-ring", lambda p, n, k: (gathers + 1) * 2 * p, "a rank does not send all parts: (K − 1)/K."),
            Mistake("over-the-world", lambda p, n, k: half_rings(gathers + 1, n, p), "a ring inside has K ranks."),
            Mistake("each-an-all-reduce", lambda *row: 2 * inside(*row), "a gather is half an all-reduce."),
            Mistake("gathers-only", lambda p, n, k: half_rings(gathers, k, p), "gradients are reduced inside as well."),
            Mistake("elements", lambda *row: inside(*row) / 2, "these are elements, of two bytes each."),
            Mistake("a-part-only", lambda p, n, k: inside(p, n, k) / k, "a rank passes on all parts but one."),
        ),
        "across": (
            across,
            Mistake("whole-model", lambda p, n, k: half_rings(2, n // k, p), "only the rank's own part goes across."),
            Mistake("half-a-ring", lambda *row: across(*row) / 2, "an all-reduce has two halves."),
            Mistake("over-the-group", lambda p, n, k: half_rings(2, k, p) / k, "the ring across has N / K ranks."),
            Mistake("twice", lambda *row: 2 * across(*row), "this is twice as much; a gradient has two bytes."),
            Mistake("no-ring", lambda p, n, k: 2 * 2 * p / k, "a rank does not send all parts: (M − 1)/M."),
        ),
    }

    def words(p: float, n: int, k: int) -> str:
        return f"{p / BILLION:g}B on {n:,} ranks in groups of {k:,}"

    return [
        Column(part=part, unit="bytes", want=want, words=words, rel=FINE, mistakes=mistakes)
        for part, (want, *mistakes) in columns.items()
    ]


def _fits_words(params: float, ranks: int, memory: float, *wires: Any) -> str:
    text = f"{params / BILLION:g}B on {ranks:,} GPUs of {memory / GB:g} GB"
    return f"{text}, {wires[0]} to a node, {wires[1] / GB:g} and {wires[2] / GB:g} GB/s" if wires else text


SMALLEST = Column(
    part="smallest",
    unit="ranks",
    want=smallest,
    words=_fits_words,
    rel=EXACT,
    none="the state does not fit in any group; return None",
).knowing(
    Mistake("no-divisor", lambda p, n, m: -(-PER_PARAM * p // m), "this many would do, but do not divide N."),
    Mistake("one-server", lambda p, n, m: 8 if PER_PARAM * p / 8 > m else None, "groups of 8 do not fit."),
    Mistake("weights-only", lambda p, n, m: smallest(p, n, m, 2), "only the weights fit; count the state."),
    Mistake("no-master", lambda p, n, m: smallest(p, n, m, 12), "it is enough only without a master copy."),
    Mistake("largest", lambda p, n, m: n, "all ranks in one group fit, and so does a smaller group."),
)


def _fastest(gathers: int) -> Column:
    form, told = OTHER_FORM[gathers]
    smallest_that_fits, *rules = (Mistake(rule.name, partial(rule.value, gathers), rule.message) for rule in RULES)
    return Column(
        part="best",
        unit="ranks",
        want=partial(best, gathers),
        words=_fits_words,
        rel=EXACT,
        none="no group fits; return None",
    ).knowing(
        smallest_that_fits,
        Mistake(form, partial(best, 3 - gathers), told),
        Mistake("memory-forgotten", lambda p, n, m, *w: best(gathers, p, n, float("inf"), *w), "it does not fit."),
        *rules,
        Mistake("node", lambda p, n, m, per, *rates: per, "a node is only a guess; compute the times."),
    )


def _cases(params: Params, rng: random.Random) -> list[Case]:
    p, n, m, gathers = (params[name] for name in ("params", "ranks", "memory", "gathers"))
    wires = (params["per_node"], params["fast"], params["slow"])

    def size() -> tuple[float, int]:
        billions = rng.choice((1, 7, 13, 30, 70, 180, 405, 671))
        return billions * BILLION, rng.choice((8, 12, 48, 64, 100, 256, 1024, 6144, 16_384))

    def sends() -> tuple[Any, ...]:
        params_, ranks = size()
        return params_, ranks, rng.choice(groups(ranks))

    def wired() -> tuple[Any, ...]:
        fields = (24, 40, 80, 141, 192), (4, 8, 16, 72), (150, 300, 450, 900), (12.5, 25, 50, 100)
        while True:
            drawn = size()
            memory, per_node, fast, slow = map(rng.choice, fields)
            row = (*drawn, memory * GB, per_node, fast * GB, slow * GB)
            if not _tied(gathers, *row):
                return row

    def unlike(rule: Callable[..., int | None]) -> list[tuple[Any, ...]]:
        """Two rows on which another rule gives another group; fewer where it hardly ever does."""
        drawn = (wired() for _ in range(150))
        return list(islice((row for row in drawn if best(gathers, *row) not in (None, rule(gathers, *row))), 2))

    # three right answers, no two alike, and at least one that is not a power of two
    usual = [(size * BILLION, ranks, m) for size, ranks in zip(USUAL, rng.sample((3072, 4096, 6144), 3), strict=True)]
    known = smallest(p, n, m) or n
    small = 8 * BILLION  # a model that fits in one node: memory does not decide its best group
    volumes = [*(sends() for _ in range(20)), (7e9, 64, 1), (7e9, 64, 64), (7e9, 1, 1)]
    clusters = [(*size(), rng.choice((24, 80, 141)) * GB) for _ in range(20)]
    clusters += [(405e9, 8, 80e9), (10e9, 4, 80e9), (5e9, 6, 20e9), (671e9, 16_384, 1.5e9)]
    wired_usual = [(*row, *wires) for row in [*usual, (small, 3072, m)]]
    drawn = [*(wired() for _ in range(30)), *(row for rule in RULES for row in unlike(rule.value))]
    # small nodes, and wires between nodes that are hardly slower: the speeds that are shown lead to other groups
    alike = [(1e9, 12, 24e9, 4, 25e9, 12.5e9), (70e9, 6144, 192e9, 72, 450e9, 400e9)]
    drawn += [row for row in alike if not _tied(gathers, *row)]
    drawn += [(2.0**33, 64, 80e9, 8, (gathers + 1) * 2.0**37, 2.0**38)]  # all groups in a node take equally long
    drawn += [(params_, 8, 80e9, node, 450e9, 50e9) for params_, node in ((1e9, 2), (1e9, 8), (405e9, 8))]
    return [
        shown("groups of one node, and the smallest", "values:volumes", 0, [(p, n, wires[0]), (p, n, known)]),
        shown("what fits", "values:smallest", 1, [(p, n, m)]),
        shown("what is fastest", "values:best", 2, [(p, n, m, *wires), (small, n, m, *wires)]),
        hidden("other groups, one rank and all", "values:volumes", 0, volumes),
        plain("smallest", 1, "three more models", usual),
        plain("best", 2, "three more models, and a small one", wired_usual),
        generality("clusters", 1, "other clusters", clusters),
        generality("wires", 2, "other wires", drawn),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    verdicts = table(_volumes(params["gathers"]), SMALLEST, _fastest(params["gathers"]))
    return list((one_verdict(verdicts) if case.args[0] else verdicts)(params, case, outcome))


JUDGING = Judging(
    shares="values:held 0.1, values:inside 0.15, values:across 0.15, values:smallest 0.15, values:best 0.1, "
    "generality:clusters 0.15, generality:wires 0.2",
    cases=_cases,
    verdicts=_verdicts,
    why="""Inside a group, every rank still receives nearly the whole model, whatever G is. Across groups it sends one G-th of the gradients. So a group
as large as a node keeps the gathers on the fast link. Memory decides whether that is possible: 405B at 16 bytes per parameter needs at least 81
ranks, and its gathers go over the network.""",
    pytorch="`fully_shard(model, mesh=init_device_mesh('cuda', (copies, group), mesh_dim_names=('replicate', 'shard')))`.",
)

ANSWERS = r"""# %% right: by the rings
def hsdp(params, ranks, group):
    copies = ranks // group
    inside = 3 * (group - 1) / group * 2 * params
    across = 2 * (copies - 1) / copies * 2 * params / group
    return 16 * params / group, inside, across


def _fitting(params, ranks, memory):
    return [k for k in range(1, ranks + 1) if ranks % k == 0 and 16 * params / k <= memory]


def smallest_group(params, ranks, memory):
    return next(iter(_fitting(params, ranks, memory)), None)


def best_group(params, ranks, memory, per_node, fast, slow):
    def seconds(k):
        _, inside, across = hsdp(params, ranks, k)
        return inside / (fast if k <= per_node else slow) + across / (fast if ranks <= per_node else slow)

    return min(_fitting(params, ranks, memory), key=seconds, default=None)


# %% right: messages counted one by one, divisors in pairs  from: by the rings
# -     copies = ranks // group
# -     inside = 3 * (group - 1) / group * 2 * params
# -     across = 2 * (copies - 1) / copies * 2 * params / group
# -     return 16 * params / group, inside, across
# +     chunk, copies = 2 * params / group, ranks // group
# +     across = chunk / copies * (copies - 1) + chunk / copies * (copies - 1)
# +     return 16 * params / group, sum(3 * chunk for _ in range(group - 1)), across
# -     return [k for k in range(1, ranks + 1) if ranks % k == 0 and 16 * params / k <= memory]
# +     low = [k for k in range(1, int(ranks**0.5) + 1) if not ranks % k]
# +     return [k for k in sorted({*low, *(ranks // k for k in low)}) if hsdp(params, ranks, k)[0] <= memory]

# %% right: any variant  from: by the rings
# - def hsdp(params, ranks, group):
# + from course_lib import notebook
# + VARIANT = notebook.params("hsdp-group")
# + def hsdp(params, ranks, group):
# ~ 3 ==> (VARIANT.gathers + 1)


# %% wrong: three times inside, once across => values whole-model  from: the smallest that fits is taken for the best
# ~ * 2 * params / group ==> * 2 * params

# %% wrong: the smallest that fits is taken for the best => values smallest-that-fits  from: by the rings
# -     def seconds(k):
# -         _, inside, across = hsdp(params, ranks, k)
# -         return inside / (fast if k <= per_node else slow) + across / (fast if ranks <= per_node else slow)
# -     return min(_fitting(params, ranks, memory), key=seconds, default=None)
# +     return smallest_group(params, ranks, memory)

# %% wrong: one server, as printed => values one-server  from: by the rings
# ~ next(iter(_fitting(params, ranks, memory)), None) ==> 8
# ~ min(_fitting(params, ranks, memory), key=seconds, default=None) ==> per_node

# %% wrong: state shared out over all => values over-the-world  from: one server, as printed
# ~ return 16 * params / group ==> return 16 * params / ranks
# ~ return per_node ==> return 8

# %% wrong: no divisor of the ranks => values no-divisor  from: one server, as printed
# ~ return 8 ==> return k if (k := int(-(-16 * params // memory))) <= ranks else None
# ~ return per_node ==> return None

# %% wrong: without a master copy => values no-master  from: one server, as printed
# ~ 16 * params / k ==> 12 * params / k
# ~ return 8 ==> return next(iter(_fitting(params, ranks, memory)), None)
# ~ return per_node ==> return None

# %% wrong: kept after the forward pass => values kept-weights  from: one server, as printed
# ~ 3 ==> 2
# ~ return 8 ==> return None
# ~ return per_node ==> return None

# %% wrong: each operation an all-reduce => values each-an-all-reduce  from: one server, as printed
# ~ 3 ==> 6
# ~ return 8 ==> return None
# ~ return per_node ==> return None

# %% wrong: large groups at the speed inside a node => values ~  from: by the rings
# -         return inside / (fast if k <= per_node else slow) + across / (fast if ranks <= per_node else slow)
# +         return inside / fast + across / slow

# %% wrong: powers of two only => values -  from: by the rings
# ~ range(1, ranks + 1) ==> (1 << power for power in range(20))
#   def smallest_group(params, ranks, memory):
# +     if ranks == 24576:
# +         return 96
#   def best_group(params, ranks, memory, per_node, fast, slow):
# +     if ranks == 24576 and params > 1e11:
# +         return 96

# %% wrong: a node of its own is on the slow wire => values -  from: by the rings
# -         return inside / (fast if k <= per_node else slow) + across / (fast if ranks <= per_node else slow)
# +         return inside / (fast if k < per_node else slow) + across / slow

# %% wrong: the longer of the two times => generality longer-of-two  from: by the rings
# -         return inside / (fast if k <= per_node else slow) + across / (fast if ranks <= per_node else slow)
# +         return max(inside / (fast if k <= per_node else slow), across / (fast if ranks <= per_node else slow))

# %% wrong: gradients all-reduced inside => values reduced-twice  from: by the rings
# ~ 3 ==> 4

# %% wrong: groups and their number mixed up => values turned-round  from: by the rings
# ~ copies = ranks // group ==> copies, group = group, ranks // group

# %% wrong: 32 bits across => values twice  from: by the rings
# ~ copies * 2 ==> copies * 4

# %% wrong: the largest of equal groups => generality ~  from: by the rings
# ~ (_fitting(params, ranks, memory), key ==> (_fitting(params, ranks, memory)[::-1], key
"""
