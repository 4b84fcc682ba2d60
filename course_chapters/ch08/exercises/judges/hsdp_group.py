from itertools import islice

from course_chapters.ch08.exercises.hsdp_group import PER_NODE
from course_grader.judging import Case, Judging, Params, Random, Worked, hidden, shown
from course_grader.judging.per_row import EXACT, FINE, Column, shares, table
from course_grader.judging.random_inputs import draw_rows, generality, plain
from course_lib.estimate.units import BILLION, GB, US

USUAL = (70, 180, 405)  # billion parameters of models that do not fit in one node
SIZES = tuple(size * BILLION for size in (1, 7, 13, 30, 70, 180, 405, 671))
FOUND = ("the longer of the two times", "largest inside", "large groups at the speed inside a node")
RULES = (  # shipped answers whose best group must differ from the right one on some rows
    *FOUND,  # of the values too
    "the smallest that fits is taken for the best",
    "one adapter for a ring through several nodes",
    "latency forgotten",
    "half the steps across",
)
right = Worked("hsdp-group")


def _clear(*row: float) -> bool:
    """Whether nodes divide the ranks or hold all of them, and rounding cannot decide which group is the best."""
    best, (_, n, _, per, *_) = right[2](*row), row
    near = ((*row[:at], row[at] * (1 + 1e-5), *row[at + 1 :]) for at in (4, 5, 6))
    return not (n % per and per % n) and all(right[2](*each) == best for each in near)


def wired(rng: Random, count: int) -> list[tuple[object, ...]]:
    ranks, per_node, latency = (8, 12, 48, 576, 1024, 6144), (4, 8, 16, 72), (1 * US, 5 * US, 10 * US, 20 * US)
    memory, fast, slow = (
        [each * GB for each in s] for s in ((24, 40, 80, 141, 192), (150, 300, 450, 900), (12.5, 25, 50, 100))
    )
    fields = SIZES, ranks, memory, per_node, fast, slow, latency
    return draw_rows(rng, count, *fields, keep=lambda row: _clear(*row))


def differs(rule: str, *row: object) -> bool:
    """Whether a shipped answer finds another best group."""
    return bool(right.wrong(rule, *row, at=2) != right[2](*row))


VOLUMES = [Column(part, "bytes", words=right.words(0), rel=FINE) for part in ("held", "inside", "across")]
SMALLEST = Column("smallest", "ranks", words=right.words(1), rel=EXACT, none="no group is enough; return None")
BEST = Column("best", "ranks", words=right.words(2), rel=EXACT, none="no group fits; return None")


def _cases(params: Params, rng: Random) -> list[Case]:
    p, n, m = (params[name] for name in ("params", "ranks", "memory"))
    wires = (params["per_node"], params["fast"], params["slow"], params["latency"])
    counts = 8, 12, 48, 64, 100, 256, 1024, 6144, 16_384

    def sends() -> tuple[object, ...]:
        size, ranks = rng.choice(SIZES), rng.choice(counts)
        return size, ranks, rng.choice([k for k in range(1, ranks + 1) if ranks % k == 0])

    # three right answers, no two alike, and at least one that is not a power of two
    usual = [(size * BILLION, ranks, m) for size, ranks in zip(USUAL, rng.sample((3072, 4096, 6144), 3), strict=True)]
    known = right[1](p, n, m) or n
    small = 8 * BILLION  # a model that fits in one node: memory does not decide its best group
    volumes = [*(sends() for _ in range(20)), (7e9, 64, 1), (7e9, 64, 64), (7e9, 1, 1)]
    clusters = draw_rows(rng, 20, SIZES, counts, (24 * GB, 80 * GB, 141 * GB))
    clusters += [(405e9, 8, 80e9), (10e9, 4, 80e9), (5e9, 6, 20e9), (671e9, 16_384, 1.5e9)]
    pool = wired(rng, 90)
    others = {rule: [*islice((row for row in pool if differs(rule, *row)), 2)] for rule in RULES}
    wired_usual: list[tuple[object, ...]] = [(*row, *wires) for row in [*usual, (small, 3072, m)]]
    wired_usual += [row for rule in FOUND for row in others[rule][:1]]
    links = PER_NODE, 450 * GB, 50 * GB, 20 * US
    wired_usual += [(671 * BILLION, 6144, 8 * GB, *links)]  # memory decides
    drawn: list[tuple[object, ...]] = [(671 * BILLION, 6144, 80 * GB, *links), *pool[:30]]
    drawn += [row for found in others.values() for row in found]
    # small nodes, and wires between nodes that are hardly slower: the speeds that are shown lead to other groups
    alike = [(1e9, 12, 24e9, 4, 25e9, 12.5e9, 1e-6), (70e9, 6144, 192e9, 16, 450e9, 400e9, 1e-5)]
    alike += [(30e9, 48, 192e9, 16, 150e9, 100e9, 1e-5)]  # where a divisor that is no group would be faster
    drawn += [row for row in alike if _clear(*row)]
    # one node holds all ranks: nothing leaves it
    drawn += [(7e9, 8, 80e9, 8, 900e9, 100e9, 2e-5), (13e9, 8, 192e9, 72, 900e9, 12.5e9, 5e-6)]
    drawn += [(5 * 2.0**33, 8, 1e12, 8, 2.0**37, 2.0**36, 2.0**-4)]  # two groups take equally long
    drawn += [(params_, 8, 80e9, node, 450e9, 50e9, 1e-5) for params_, node in ((1e9, 2), (1e9, 8), (405e9, 8))]
    return [
        shown("groups of one node, and the smallest", "values:volumes", 0, [(p, n, wires[0]), (p, n, known)]),
        shown("what fits", "values:smallest", 1, [(p, n, m)]),
        shown("what is fastest", "values:best", 2, [(p, n, m, *wires), (small, n, m, *wires)]),
        hidden("other groups, one rank and all", "values:volumes", 0, volumes),
        plain("smallest", 1, "three more models", usual),
        plain("best", 2, "more models, and other nodes", wired_usual),
        generality("smallest", 1, "other clusters", clusters),
        generality("best", 2, "other wires", drawn),
    ]


JUDGING = Judging(
    shares=shares(held=(0.1, 0), inside=(0.15, 0), across=(0.15, 0), smallest=(0.15, 0.15), best=(0.1, 0.2)),
    cases=_cases,
    verdicts=table(VOLUMES, SMALLEST, BEST, right=right),
    why="""Inside a group, every rank still receives nearly the whole model, whatever G is. Across groups it sends one
G-th of the gradients. A ring through full nodes uses all of their adapters, eight times 50 GB/s, so its gathers are
hardly slower than inside a node. Larger groups send less across but have more ring steps, each with its latency: the
best size lies where the two balance, unless memory decides. 405B at 16 bytes per parameter needs at least 81 ranks.""",
    pytorch="`fully_shard(model, mesh=init_device_mesh('cuda', (copies, group), mesh_dim_names=('replicate', "
    "'shard')))`.",
)

ANSWERS = r'''# %% right: worked
gathers = 1 if params("hsdp-group").kept else 2  # leave as is: of weights, in a step


def hsdp(params: float, ranks: int, group: int) -> tuple[float, float, float]:
    """(bytes held, bytes sent inside, bytes sent across) on one rank."""
    copies = ranks // group
    inside = (gathers + 1) * (group - 1) / group * 2 * params
    return 16 * params / group, inside, 2 * (copies - 1) / copies * 2 * params / group


def smallest_group(params: float, ranks: int, memory: float) -> int | None:
    """The smallest group whose state fits; None if all ranks are too few."""
    return next((k for k in range(1, ranks + 1) if ranks % k == 0 and 16 * params / k <= memory), None)


def best_group(params, ranks, memory, per_node, fast, slow, latency):
    """The group that fits and has the least time on the links; None if none fits."""

    def seconds(k):
        _, inside, across = hsdp(params, ranks, k)
        full = fast if k <= per_node else min(fast, per_node * slow)
        partly = fast if ranks <= per_node else min(fast, max(per_node // k, 1) * slow)
        steps = (gathers + 1) * (k - 1) + 2 * (ranks // k - 1)
        return inside / full + across / partly + steps * latency

    sizes = (k for k in range(1, ranks + 1) if ranks % k == 0 and (k % per_node == 0 or per_node % k == 0))
    fits = (k for k in sizes if 16 * params / k <= memory)
    return min(fits, key=seconds, default=None)
# %% right: divisors in pairs
# -     sizes = (k for k in range(1, ranks + 1) if ranks % k == 0 and (k % per_node == 0 or per_node % k == 0))
# +     low = [k for k in range(1, int(ranks**0.5) + 1) if not ranks % k]
# +     divisors = sorted({*low, *(ranks // k for k in low)})
# +     sizes = (k for k in divisors if k % per_node == 0 or per_node % k == 0)
# %% wrong: over the world => values
# > this is over all ranks, but every group of G ranks has a copy of the model, and rings of its own.
# ~ (group - 1) / group ==> (ranks - 1) / ranks
# ~ return 16 * params / group ==> return 16 * params / ranks
# %% wrong: groups and their number mixed up => values turned-round
# > `group` ranks share a copy.
# ~ copies = ranks // group ==> copies, group = group, ranks // group
# %% wrong: whole state => values
# > the state is sharded over the group.
# ~ return 16 * params / group ==> return 16 * params
# %% wrong: weights only => values
# > these are weights; state is 16 bytes per parameter.
# ~ return 16 * params / group ==> return 2 * params / group
# %% wrong: an operation too few => values kept-weights
# > an operation is missing: weights are gathered {{gathers}} times in a step, and gradients are reduced once.
# ~ (gathers + 1) * (group ==> gathers * (group
# %% wrong: gradients all-reduced inside => values reduced-twice
# > an operation too many: weights are gathered {{gathers}} times in a step, and a reduce-scatter is enough for
# > gradients.
# ~ (gathers + 1) * (group ==> (gathers + 2) * (group
# %% wrong: no ring => values
# > a rank does not send all parts: (G − 1)/G inside, (M − 1)/M across.
# ~ (gathers + 1) * (group - 1) / group ==> (gathers + 1)
# ~ 2 * (copies - 1) / copies ==> 2
# %% wrong: each operation an all-reduce => values each-an-all-reduce
# > a gather is half an all-reduce.
# ~ (gathers + 1) * (group ==> 2 * (gathers + 1) * (group
# %% wrong: elements => values
# > these are elements, of two bytes each.
# ~ (group - 1) / group * 2 ==> (group - 1) / group
# ~ copies * 2 * params ==> copies * params
# %% wrong: a part only => values
# > a rank passes on all parts but one.
# ~ (group - 1) / group ==> (group - 1) / group**2
# %% wrong: three times inside, once across => values whole-model
# > only the rank's own part goes across.
# ~ copies * 2 * params / group ==> copies * 2 * params
# %% wrong: half a ring => values
# > an all-reduce has two halves.
# ~ inside, 2 * (copies ==> inside, (copies
# %% wrong: over the group => values
# > the ring across has N / G ranks.
# ~ 2 * (copies - 1) / copies ==> 2 * (group - 1) / group
# %% wrong: 32 bits across => values twice
# > this is twice as much; a gradient has two bytes.
# ~ copies * 2 * params ==> copies * 4 * params
# %% wrong: no divisor => values
# > this many would do, but do not divide N.
# ~ next((k for k in range(1, ranks + 1) if ranks % k == 0 and 16 ==> next((k for k in range(1, ranks + 1) if 16
# %% wrong: one server, as printed => values one-server
# > groups of 8 do not fit.
# ~ return next((k ==> return 8 or next((k
# %% wrong: only the weights fit => values weights-only
# > only the weights fit; count the state.
# ~ 16 * params / k <= memory), None) ==> 2 * params / k <= memory), None)
# %% wrong: without a master copy => values no-master
# > it is enough only without a master copy.
# ~ 16 * params / k <= memory), None) ==> 12 * params / k <= memory), None)
# %% wrong: largest => values
# > all ranks in one group fit, and so does a smaller group.
# ~ return next((k ==> return ranks or next((k
# %% wrong: the smallest that fits is taken for the best => values smallest-that-fits
# > this group is the smallest that fits and sends the fewest bytes, but they go at different speeds: a larger one may
# > send less across.
# ~ min(fits, key=seconds, default=None) ==> next(fits, None)
# %% wrong: memory forgotten => values
# > it does not fit.
# ~ fits = (k for k in sizes if 16 * params / k <= memory) ==> fits = sizes
# %% wrong: one adapter for a ring through several nodes => values one-adapter
# > a ring that fills nodes leaves each of them over the adapters of all its ranks there.
# ~ fast if k <= per_node else min(fast, per_node * slow) ==> fast if k <= per_node else slow
# %% wrong: large groups at the speed inside a node => values
# > a ring through several nodes is no faster than the adapters of a node.
# ~ full = fast if k <= per_node else min(fast, per_node * slow) ==> full = fast
# %% wrong: latency forgotten => values no-latency
# > each step of a ring takes `latency` seconds more.
# ~ return inside / full + across / partly + steps * latency ==> return inside / full + across / partly
# %% wrong: the longer of the two times => values longer-of-two
# > the two times add up.
# -         steps = (gathers + 1) * (k - 1) + 2 * (ranks // k - 1)
# -         return inside / full + across / partly + steps * latency
# +         within = inside / full + (gathers + 1) * (k - 1) * latency
# +         return max(within, across / partly + 2 * (ranks // k - 1) * latency)
# %% wrong: largest inside => values
# > it is the largest in a node, or the smallest that fits; compare all.
# ~ min(fits, key=seconds, default=None)
# ~~ ==> max((k for k in fits if k <= per_node), default=next((k for k in range(1, ranks + 1) if ranks % k == 0 and (k %
# ~~ per_node == 0 or per_node % k == 0) and 16 * params / k <= memory), None))
# %% wrong: a node is the best group => values node
# > a node is only a guess; compute the times.
# ~ return min(fits ==> return per_node or min(fits
# %% wrong: half the steps across => generality
# > the all-reduce across takes 2 (N / G − 1) steps.
# ~ 2 * (ranks // k - 1) ==> ranks // k - 1
# %% wrong: any divisor is a group => generality
# > this group neither divides a node nor fills whole nodes.
# ~ ranks % k == 0 and (k % per_node == 0 or per_node % k == 0)) ==> ranks % k == 0)
# %% wrong: powers of two only => values
# > this tries powers of two alone.
# ~ next((k for k in range(1, ranks + 1) if ==> next((k for k in [1 << power for power in range(20)] if
# ~ sizes = (k for k in range(1, ranks + 1) if ==> sizes = (k for k in [1 << power for power in range(20)] if
# %% wrong: rings across with one adapter each => values
# > a ring across leaves a node over the adapters of all its ranks there.
# ~ min(fast, max(per_node // k, 1) * slow) ==> slow
# %% wrong: a node of its own is on the slow wire => generality
# > one node holds all ranks here, so no ring leaves it.
# ~ fast if ranks <= per_node else min(fast, max(per_node // k, 1) * slow) ==> min(fast, max(per_node // k, 1) * slow)
# %% wrong: the largest of equal groups, where two are equal => generality ~
# ~ min(fits, key ==> min(reversed(list(fits)) if params == 5 * 2**33 else fits, key
'''
