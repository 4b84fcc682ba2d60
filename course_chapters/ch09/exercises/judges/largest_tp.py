from collections.abc import Sequence

from course_grader.judging import Case, Judging, Params, Random, Worked, draw_rows, hidden, plain, shown
from course_grader.judging.per_row import EXACT, FINE, Column, one_verdict, table
from course_lib.estimate.units import GB, TFLOP

right = Worked("largest-tp")
HINT = "What do a rank's all-reduces take at that number, and its products?"
SECONDS = Column("seconds", "seconds", words=right.words(0), rel=FINE)
LARGEST = Column("largest", "ranks", words=right.words(1), rel=EXACT, hint=HINT)
RATES = (TFLOP, (200, 400, 700, 900)), (GB, (150, 300, 450, 900)), (GB, (12.5, 25, 50, 100))  # flops, inside, across
CLUSTERS = (
    (2048, 4096, 8192, 12288, 16384),  # tokens
    (2048, 4096, 8192),  # hidden
    (5120, 14336, 28672, 32768),  # ffn
    *(tuple(rate * unit for rate in rates) for unit, rates in RATES),
    (4, 8, 16, 64),  # ranks in a node
    (0.05, 0.1, 0.2, 0.5, 1.0, 2.0),
)


def _clear(row: Sequence[float]) -> bool:
    """Whether no number of ranks is so near the edge that rounding decides."""
    *given, share = row
    return bool(right[1](*given, share * 0.999) == right[1](*given, share * 1.001))


def _cases(params: Params, rng: Random) -> list[Case]:
    size = params["hidden"]
    width = (4 * size + 3 * (7 * size // 2)) * 450 * GB / (400 * TFLOP)  # distinguishes the two forms of the exercise
    wide = (4096, size, 7 * size // 2, 400 * TFLOP, 450 * GB, 50 * GB)
    visible, smaller = ((*wide, n, round((n - 1) / (0.354 * width), 3)) for n in (8, 4))
    full = (*wide, 8, round(7 * 3.1 / width, 3))  # a whole node in both forms, but only just
    larger = (*wide, 64, round(12 / (0.354 * width), 3))  # twice the share would allow twice the ranks
    wires = tuple(rate * GB for rate in (25, 50, 200, 450))
    layers = draw_rows(rng, 20, (1024, 4096, 8192), (size // 2, size, 2 * size), (2, 3, 4, 6, 8, 16, 72), wires)
    clusters = draw_rows(rng, 60, *CLUSTERS, keep=_clear)
    speed = 2.0**49 if params["recompute"] == "full" else 1.125 * 2.0**49
    at_share = (2048, 6144, 8192, speed, 2.0**38, 2.0**36, 8, 0.125)  # on two ranks exactly the share
    double = (*at_share[:3], 2 * at_share[3], *at_share[4:])  # on GPUs twice as fast
    small, share = (4096, 4096, 14336, 900 * TFLOP, 150 * GB, 12.5 * GB, 8), "generality:clusters"
    edges = [(*small, 1e-4), (*small, 1e4), at_share, double]
    edges += [(*wide[:5], across * GB, 8, 8.0) for across in (50, 12.5)]
    return [
        shown("one layer", "values:seconds", 0, [(4096, size, 8, 450 * GB), (4096, size, 8, 50 * GB)]),
        shown("a given share", "values:largest", 1, [visible]),
        hidden("other layers", "values:seconds", 0, [*layers, (4096, size, 1, 50 * GB)]),
        hidden("sixty other clusters", share, 1, clusters),
        plain("largest", 1, "smaller and larger nodes at a given share", [smaller, larger, full]),
        hidden("no ranks beyond one, and all of them", share, 1, edges),
    ]


JUDGING = Judging(
    shares="values:seconds 0.35, values:largest 0.25, generality:clusters 0.4",
    cases=_cases,
    verdicts=one_verdict(table(SECONDS, LARGEST, right=right)),
    why="Bytes per rank hardly depend on N, but products per rank fall with it. So communication's share grows with "
    "N, and jumps where the ring leaves the node. Tokens cancel: the width of the layer and the wire decide.",
    pytorch="Published runs stay inside a server: TP 8 in Megatron's and Llama 3's.",
)

ANSWERS = r'''# %% right: worked
recompute = params("largest-tp").recompute  # leave as is: "none" or "full": what your variant asks for


def tp_seconds(tokens, hidden, ranks, bandwidth) -> float:
    """Seconds of one layer's all-reduces, forward and backward; `bandwidth` in bytes/s."""
    sums = 6 if recompute == "full" else 4
    return sums * 2 * (1 - 1 / ranks) * tokens * hidden * 2 / bandwidth


def largest_tp(tokens, hidden, ffn, flops, inside, across, per_node, share) -> int:
    """The most ranks, a power of two, whose all-reduces take at most `share` of their products' time."""
    weights = 4 * hidden**2 + 3 * hidden * ffn
    for ranks in (2**power for power in range(10, 0, -1)):
        products = (8 if recompute == "full" else 6) * tokens * weights / ranks / flops
        wire = inside if ranks <= per_node else across
        if tp_seconds(tokens, hidden, ranks, wire) <= share * products:
            return ranks
    return 1
# %% right: each side of the node's edge by the inequality  from: worked
def largest_tp(tokens, hidden, ffn, flops, inside, across, per_node, share):
    sums, passes = (6, 8) if recompute == "full" else (4, 6)

    def fits(bandwidth):
        most = 1 + share * passes * (4 * hidden + 3 * ffn) * bandwidth / (4 * sums * flops)
        return [2**p for p in range(11) if 2**p <= most]

    near = [n for n in fits(inside) if n <= per_node]
    far = [n for n in fits(across) if n > per_node]
    return max(near + far)
# %% wrong: recomputed => values
# > this counts the all-reduces of another form. {{passes}}.
# ~ params("largest-tp").recompute ==> "none" if params("largest-tp").recompute == "full" else "full"
# %% wrong: forward only => values half
# > all-reduces of the backward pass are missing, or half of each: a ring reduces first, then gathers.
# ~ sums = 6 if recompute == "full" else 4 ==> sums = 2
# %% wrong: no ring => values
# > a ring sends 2 (1 − 1/N) of the tensor, not the tensor once.
# ~ * 2 * (1 - 1 / ranks) * tokens ==> * (ranks > 1) * tokens
# %% wrong: once around the ring => values half
# ~ * 2 * (1 - 1 / ranks) * tokens ==> * (1 - 1 / ranks) * tokens
# %% wrong: whole twice => values
# > a ring leaves out each rank's own part: (1 − 1/N).
# ~ * 2 * (1 - 1 / ranks) * tokens ==> * 2 * tokens
# %% wrong: one all-reduce => values
# > that is one all-reduce; a layer has more.
# ~ sums = 6 if recompute == "full" else 4 ==> sums = 1
# %% wrong: 32 bits => values
# > this takes 4 bytes a number; activations have 16 bits.
# ~ hidden * 2 / bandwidth ==> hidden * 4 / bandwidth
# %% wrong: one pass => values
# > this lets all-reduces take more than their share: count those of both passes, and compare with the products alone.
# ~ wire) <= share ==> wire) / 2 <= share
# %% wrong: two matrices => values
# > this MLP has two matrices; a gated one has three.
# ~ 3 * hidden * ffn ==> 2 * hidden * ffn
# %% wrong: a full node is across => values
# > a group that fills one node exactly got the speed between nodes.
# ~ inside if ranks <= per_node ==> inside if ranks < per_node
# %% wrong: less than the share => generality
# > seconds that are exactly the share were refused; at most the share is allowed.
# ~ wire) <= share ==> wire) < share
# %% wrong: 512 at most => generality
# > 1,024 ranks were not tried.
# ~ range(10, 0, -1) ==> range(9, 0, -1)
# %% wrong: inside only => generality
# > beyond a node the ring runs at the speed of the link between nodes.
# ~ inside if ranks <= per_node else across ==> inside
# %% wrong: across only => values
# > inside a node the ring runs at the speed of the link inside it.
# ~ inside if ranks <= per_node else across ==> across
# %% wrong: whole products => values
# > a rank has an N-th of the products only.
# ~ * weights / ranks / flops ==> * weights / flops
# %% wrong: never leaves the node => generality stays-inside
# > more ranks than a node has meet the share here, too.
# ~ if tp_seconds ==> if ranks <= per_node and tp_seconds
# %% wrong: any number of ranks => values
# > this is no power of two.
# ~ (2**power for power in range(10, 0, -1)) ==> range(1024, 1, -1)
# %% half: seconds only => 2.8
# ~ weights = 4 * hidden**2 + 3 * hidden * ffn ==> raise NotImplementedError
'''
