"""Judge of largest-tp: how many ranks are worthwhile?"""

import random
from collections.abc import Sequence
from typing import Any

from course_lib.judging import Fault, Judging, Mistake, Params, first, judged, near
from course_lib.judging.cases import hidden, shown
from course_lib.judging.draws import draw_rows, plain
from course_lib.judging.numbers import number_fault
from course_lib.records import Case, Outcome, Verdict
from course_lib.tensor_parallel.traffic import tp_calls_per_layer, tp_cost_per_layer
from course_lib.units import GB, TFLOP

POWERS = tuple(2**power for power in range(11))


def seconds_of(tokens: int, hidden: int, ranks: int, bandwidth: float, recompute: str) -> float:
    """Seconds of one layer's all-reduces."""
    return float(tp_cost_per_layer(tokens, hidden, ranks, 0.0, bandwidth, recompute=recompute).seconds)


def product_seconds(tokens: int, hidden: int, ffn: int, ranks: int, flops: float, recompute: str) -> float:
    """Seconds of one rank's products in a layer."""
    passes = 8 if recompute == "full" else 6
    return passes * tokens * (4 * hidden * hidden + 3 * hidden * ffn) / ranks / flops


def _share(
    row: Sequence[Any], n: int, recompute: str, halved: bool = False, inside_only: bool = False, whole: bool = False
) -> float:
    """Seconds of the all-reduces over those of the products; the options are known mistakes."""
    tokens, hidden, ffn, flops, inside, across, per_node, _ = row
    wire = inside if n <= per_node or inside_only else across
    talk = seconds_of(tokens, hidden, n, wire, recompute) * (0.5 if halved else 1)
    return talk / product_seconds(tokens, hidden, ffn, 1 if whole else n, flops, recompute)


def largest(row: Sequence[Any], recompute: str, **mistake: bool) -> int:
    """The largest power of two of ranks that meets the share."""
    return max(n for n in POWERS if n == 1 or _share(row, n, recompute, **mistake) <= row[-1])


def _clear(row: Sequence[Any], recompute: str) -> bool:
    """Whether no number of ranks is so near the edge that rounding decides."""
    return not any(0.999 < _share(row, n, recompute) / row[-1] < 1.001 for n in POWERS[1:])


def _cluster(row: Sequence[Any]) -> tuple[Any, ...]:
    """A row as it is drawn, the MLP's width in halves of the layer's."""
    hidden, tokens, halves, *others = row
    return (tokens, hidden, halves * hidden // 2, *others)


def _cases(params: Params, rng: random.Random) -> list[Case]:
    size = params["hidden"]
    width = (4 * size + 3 * (7 * size // 2)) * 450 * GB / (400 * TFLOP)  # distinguishes the two forms of the exercise
    wide = (4096, size, 7 * size // 2, 400 * TFLOP, 450 * GB, 50 * GB)
    visible, smaller = ((*wide, n, round((n - 1) / (0.354 * width), 3)) for n in (8, 4))
    layers = draw_rows(
        rng,
        20,
        (1024, 2048, 4096, 8192),
        lambda rng: size * rng.choice((1, 2)) // rng.choice((1, 2)),
        (2, 3, 4, 6, 8, 16, 72),
        tuple(rate * GB for rate in (25, 50, 200, 450)),
    )
    clusters = draw_rows(
        rng,
        60,
        (2048, 4096, 8192, 12288, 16384),
        (2048, 4096, 8192),
        (5, 7, 8),
        tuple(rate * TFLOP for rate in (200, 400, 700, 900)),
        tuple(rate * GB for rate in (150, 300, 450, 900)),
        tuple(rate * GB for rate in (12.5, 25, 50, 100)),
        (4, 8, 16, 64),
        (0.05, 0.1, 0.2, 0.5, 1.0, 2.0),
        keep=lambda row: _clear(_cluster(row), params["recompute"]),
    )
    at_share = (2048, 4096, 16384, 0.75 * 2**50, 2.0**38, 2.0**36, 8, 0.125)  # on two ranks exactly the share
    double = (*at_share[:3], 2 * at_share[3], *at_share[4:])  # on GPUs twice as fast
    small, share = (4096, 4096, 14336, 900 * TFLOP, 150 * GB, 12.5 * GB, 8), "generality:clusters"
    return [
        shown("one layer", "values:seconds", 0, [(4096, size, 8, 450 * GB), (4096, size, 8, 50 * GB)]),
        shown("a given share", "values:largest", 1, [visible]),
        hidden("other layers", "values:seconds", 0, [*layers, (4096, size, 1, 50 * GB)]),
        hidden("sixty other clusters", share, 1, [*map(_cluster, clusters)]),
        plain("largest", 1, "smaller nodes at a given share", [smaller]),
        hidden("no ranks beyond one, and all of them", share, 1, [(*small, 1e-4), (*small, 1e4), at_share, double]),
    ]


def _seconds_fault(case: Case, row: Sequence[Any], got: float, recompute: str) -> Fault | None:
    tokens, hidden, n, bandwidth = row
    want, ring = seconds_of(*row, recompute), n / (n - 1) if n > 1 else 1.0
    calls = tp_calls_per_layer(recompute=recompute)["all_reduce"]
    public = "This solves the public form of the exercise: here the forward pass runs twice, with its all-reduces."
    table = (
        ("public-form", 4 / calls if calls != 4 else None, public),
        ("recomputed", 1.5 if calls == 4 else None, "Nothing is recomputed here: four all-reduces a layer."),
        ("forward-only", 2 / calls, "These are the forward pass's two all-reduces; the backward pass has as many."),
        ("one-each", 1 / 2, "Attention and MLP have an all-reduce each, in each pass."),
        ("one-all-reduce", 1 / calls, "That is one all-reduce; a layer has more."),
        ("no-ring", ring / 2, "A ring sends 2 (1 − 1/N) of the tensor, not the tensor once."),
        ("whole-twice", ring, "A ring leaves out each rank's own part: (1 − 1/N)."),
        ("32-bits", 2, "Activations have 16 bits."),
    )
    mistakes = [Mistake(name, times and want * times, message) for name, times, message in table]
    hint = f"{tokens:,} tokens, hidden {hidden:,}, {n} ranks."
    return number_fault(case.name, got, want, unit="seconds", mistakes=mistakes, hint=hint)


def _largest_fault(rows: Sequence[Any], results: Sequence[float], recompute: str) -> Fault | None:
    pairs = list(zip(rows, results, strict=True))
    wrong = [(row, got) for row, got in pairs if not near(got, largest(row, recompute), 1e-9)]
    if not wrong:
        return None
    (tokens, hidden, ffn, flops, inside, across, per_node, share), got = wrong[0]
    lead = (
        f"{tokens:,} tokens, hidden {hidden:,}, ffn {ffn:,}, {flops / TFLOP:,.0f} TFLOP/s, {inside / GB:g} and {across / GB:g} GB/s, "
        f"{per_node} ranks a node, share {share:g}: "
    )
    full, public = recompute == "full", "this solves the public form of the exercise: here the forward pass runs twice."
    other = ("public-form", "none", public) if full else ("recomputed", "full", "nothing is recomputed here.")
    table = (
        (other[0], {"recompute": other[1]}, other[2]),
        ("one-pass", {"halved": True}, "forward *and* backward have all-reduces."),
        ("inside-only", {"inside_only": True}, "beyond a node the ring runs at the speed of the link between nodes."),
        ("whole-products", {"whole": True}, "a rank has an N-th of the products only."),
    )
    for name, options, message in table if len(rows) > 9 else table[:full]:  # a single number has many causes
        if all(near(got, largest(row, **{"recompute": recompute, **options}), 1e-9) for row, got in pairs):
            return name, lead + message
    return "other-number", f"{lead}got {got:,g}. What do a rank's all-reduces take at that number, and its products?"


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    (which, rows), recompute = case.args, params["recompute"]
    if which == 1:
        return judged(case, _largest_fault(rows, outcome.value, recompute))
    faults = (_seconds_fault(case, *each, recompute) for each in zip(rows, outcome.value, strict=True))
    return judged(case, first(*faults))


JUDGING = Judging(
    shares="values:seconds 0.35, values:largest 0.25, generality:clusters 0.4",
    cases=_cases,
    verdicts=_verdicts,
    why="Bytes per rank hardly depend on N, but products per rank fall with it. So communication's share grows with N, and jumps where the "
    "ring leaves the node. Tokens cancel: the width of the layer and the wire decide.",
    pytorch="Published runs stay inside a server: TP 8 in Megatron's and Llama 3's.",
)

ANSWERS = r"""# %% right: from the top
def tp_seconds(tokens, hidden, ranks, bandwidth):
    return 4 * 2 * (1 - 1 / ranks) * tokens * hidden * 2 / bandwidth


def largest_tp(tokens, hidden, ffn, flops, inside, across, per_node, share):
    weights = 4 * hidden**2 + 3 * hidden * ffn
    for n in (1024, 512, 256, 128, 64, 32, 16, 8, 4, 2):
        products = 6 * tokens * weights / n / flops
        if tp_seconds(tokens, hidden, n, inside if n <= per_node else across) <= share * products:
            return n
    return 1


# %% right: each side of the node's edge by the inequality
def tp_seconds(tokens, hidden, ranks, bandwidth):
    each = 2 * (ranks - 1) / ranks * (2 * tokens * hidden)
    return (each + each + each + each) / bandwidth


def largest_tp(tokens, hidden, ffn, flops, inside, across, per_node, share):
    def fits(bandwidth):
        most = 1 + share * 6 * (4 * hidden + 3 * ffn) * bandwidth / (16 * flops)
        return [2**p for p in range(11) if 2**p <= most]

    near = [n for n in fits(inside) if n <= per_node]
    far = [n for n in fits(across) if n > per_node]
    return max(near + far)


# %% right: any variant  from: from the top
# - def tp_seconds(tokens, hidden, ranks, bandwidth):
# + from course_lib import params
# + CALLS, PASSES = (6, 8) if params("largest-tp").recompute == "full" else (4, 6)
# + def tp_seconds(tokens, hidden, ranks, bandwidth):
# ~ return 4 * 2 ==> return CALLS * 2
# ~ products = 6 ==> products = PASSES

# %% wrong: forward only => values forward-only  from: from the top
# ~ return 4 * 2 * (1 - 1 / ranks) ==> return 2 * 2 * (1 - 1 / ranks)


# %% wrong: tensors instead of rings => values no-ring  from: from the top
def tp_seconds(tokens, hidden, ranks, bandwidth):
    return 4 * tokens * hidden * 2 / bandwidth if ranks > 1 else 0.0


# %% wrong: twice the tensor, whatever N => values whole-twice  from: from the top
# ~ return 4 * 2 * (1 - 1 / ranks) ==> return 4 * 2


# %% wrong: one all-reduce => values one-all-reduce
def tp_seconds(tokens, hidden, ranks, bandwidth):
    return 2 * (1 - 1 / ranks) * tokens * hidden * 2 / bandwidth


def largest_tp(tokens, hidden, ffn, flops, inside, across, per_node, share):
    return 8


# %% wrong: 32 bits => values 32-bits  from: one all-reduce
# ~ 2 * (1 - 1 / ranks) * tokens * hidden * 2 ==> 4 * 2 * (1 - 1 / ranks) * tokens * hidden * 4

# %% wrong: the wire inside, everywhere => generality inside-only  from: from the top
# ~ inside if n <= per_node else across ==> inside

# %% wrong: the whole layer's products on every rank => generality whole-products  from: from the top
# ~ weights / n / flops ==> weights / flops

# %% wrong: never leaves the node => generality -  from: from the top
# ~ if tp_seconds ==> if n <= per_node and tp_seconds

# %% wrong: the library's => raised  from: one all-reduce
# - def tp_seconds(tokens, hidden, ranks, bandwidth):
# -     return 2 * (1 - 1 / ranks) * tokens * hidden * 2 / bandwidth
# + from course_lib.tensor_parallel import tp_cost_per_layer
# + def tp_seconds(tokens, hidden, ranks, bandwidth):
# +     return tp_cost_per_layer(tokens, hidden, ranks, 0.0, bandwidth).seconds

# %% wrong: any number of ranks => generality -  from: from the top
# ~ (1024, 512, 256, 128, 64, 32, 16, 8, 4, 2) ==> range(1024, 1, -1)


# %% half: seconds only => 2.8  from: from the top
def largest_tp(tokens, hidden, ffn, flops, inside, across, per_node, share):
    raise NotImplementedError
"""
