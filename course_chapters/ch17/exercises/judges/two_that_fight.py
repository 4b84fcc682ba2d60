"""Judge of two-that-fight: two cells of the conflict matrix."""

import random
from functools import partial
from typing import Any

from course_grader.judging import Judging, Mistake, Params, judged
from course_grader.judging.cases import hidden, shown
from course_grader.judging.per_row import FINE, Column
from course_grader.judging.random_inputs import each_changed
from course_grader.records import Case
from course_lib.estimate.units import BILLION, GB, TFLOP

TWO = 2  # bytes of a number on the wire


def inside_servers(groups: list[list[int]], per_server: int) -> bool:
    """Whether every group has its ranks in one server."""
    return all(len({rank // per_server for rank in group}) == 1 for group in groups)


def hsdp(
    parameters: int,
    gpus: int,
    shard: int,
    per_server: int,
    inside: float,
    across: float,
    micro_batches: int,
    compute: float,
    slip: str = "",
) -> float:
    """Exposed seconds of a step; `slip` names a mistake to make."""
    replicas = gpus // shard
    shards = [list(range(start, start + shard)) for start in range(0, gpus, shard)]
    others = [list(range(start, gpus, shard)) for start in range(shard)]
    if slip == "first-group":
        shards, others = shards[:1], others[:1]
    wires = [inside if inside_servers(each, per_server) else across for each in (shards, others)]
    if slip == "always-inside":
        wires[0] = inside
    rounds = 1 if slip == "once-a-step" else micro_batches
    gathers = {"one-gather": 2, "two-rings": 2, "no-scatter": 2}.get(slip, 3)
    ring = lambda n: 1.0 if slip == "no-ring" and n > 1 else (n - 1) / n  # noqa: E731
    one = rounds * gathers * ring(shard) * TWO * parameters / wires[0]
    piece = 1 if slip == "whole-gradient" else shard
    two = (
        (micro_batches if slip == "every-micro-batch" else 1) * 2 * ring(replicas) * TWO * parameters / piece / wires[1]
    )
    if slip == "always-adds" or (wires[0] == wires[1] and slip != "side-by-side"):
        talk = one + two
    else:
        talk = max(one, two)
    return talk if slip == "nothing-hidden" else max(0.0, talk - compute)


def recompute(layers: int, tokens: int, hidden_size: int, tp: int, wire: float, rate: float, slip: str = "") -> float:
    """Seconds that full recomputation adds on one tensor-parallel rank."""
    flops = (72 if slip == "whole-step" else 24) * tokens * hidden_size**2
    work = flops / rate / (1 if slip == "work-not-cut" else tp)
    reduces = {"four-again": 4, "compute-alone": 0, "six": 6}.get(slip, 2)
    turns = 1 if slip == "once-round" else 2
    whole = TWO * tokens * hidden_size / (tp if slip == "activations-cut" else 1)
    return (1 if slip == "one-layer" else layers) * (work + reduces * turns * (tp - 1) / tp * whole / wire)


FIGHTS = {
    "once-a-step": "the weights are gathered anew for every micro-batch.",
    "two-rings": "three rings for each micro-batch: two gathers and a reduce-scatter.",
    "every-micro-batch": "the replicas' all-reduce runs once a step.",
    "whole-gradient": "a rank all-reduces its shard of the gradients, not all of them.",
    "side-by-side": "both kinds of traffic are on the same wire here, so they add up.",
    "always-adds": "the two kinds of traffic are on different wires here and run side by side.",
    "nothing-hidden": "communication hides behind `compute`.",
    "first-group": "a wire counts as fast only if every group lies inside a server.",
    "always-inside": "this shard group has ranks in two servers.",
    "no-ring": "a ring of n ranks sends (n − 1) / n of the tensor.",
}
AGAIN = {
    "compute-alone": "the forward pass's all-reduces are repeated too.",
    "four-again": "only the two all-reduces of the forward pass are repeated.",
    "six": "that is all of a layer's traffic; asked for is what recomputation adds.",
    "whole-step": "only the forward pass is repeated, not the backward pass.",
    "work-not-cut": "each of the tp ranks repeats its share of the products.",
    "activations-cut": "the all-reduce adds up whole activations; tp does not cut them.",
    "once-round": "an all-reduce goes round the ring twice.",
    "one-layer": "every layer is recomputed.",
}

COLUMNS = (
    Column(
        part="replicas",
        unit="seconds",
        want=hsdp,
        words=lambda p, n, shard, per, *rest: (
            f"{p / BILLION:.3g}B on {n} GPUs, {shard} share a copy, servers of {per}, {rest[2]} micro-batches"
        ),
        mistakes=[Mistake(name, partial(hsdp, slip=name), text) for name, text in FIGHTS.items()],
        rel=FINE,
    ),
    Column(
        part="recompute",
        unit="seconds",
        want=recompute,
        words=lambda layers, tokens, width, tp, *rest: f"{layers} layers of {width:,}, {tokens:,} tokens, tp {tp}",
        mistakes=[Mistake(name, partial(recompute, slip=name), text) for name, text in AGAIN.items()],
        rel=FINE,
    ),
)


def _cases(params: Params, rng: random.Random) -> list[Case]:
    def row(gpus: int, shard: int, per: int, compute: float | None = None) -> tuple[Any, ...]:
        inside, across = rng.choice((300, 450)) * GB, rng.choice((25, 50)) * GB
        run = rng.randint(5, 90) * BILLION, gpus, shard, per, inside, across, rng.choice((1, 3, 8, 16))
        return *run, hsdp(*run, 0.0) * rng.uniform(0.2, 0.7) if compute is None else compute

    def again(tp: int, wire: float) -> tuple[Any, ...]:
        return (
            rng.choice((24, 80)),
            rng.choice((2048, 8192)),
            rng.choice((4096, 8192)),
            tp,
            wire,
            rng.choice((300, 600)) * TFLOP,
        )

    own = params["billions"] * BILLION, params["gpus"]
    shared = [row(64, shard, 8) for shard in (16, 32, 64)]
    apart = [row(64, 8, 8), row(32, 4, 8), row(96, 2, 8)]
    first, second = (
        (70 * BILLION, 256, 8, 8, 450 * GB, 50 * GB, 8, 0.1),
        (80 * BILLION, 512, 4, 4, 300 * GB, 5 * GB, 1, 0.2),
    )
    near = each_changed(first, second) + [
        (90 * BILLION, 16, 8, 8, 450 * GB, 25 * GB, 1, 0.0),
        (10 * BILLION, 64, 8, 8, 450 * GB, 50 * GB, 16, 0.0),
    ]
    straddle = [row(48, 6, 8), row(24, 3, 8), row(60, 12, 8), row(36, 6, 4), row(18, 2, 3), row(48, 3, 16)]
    edges = [
        row(8, 8, 8),
        row(8, 4, 8),
        row(6, 3, 8),
        row(8, 1, 8),
        row(12, 3, 16),
        row(64, 1, 8),
        row(1, 1, 8, 0.0),
        row(64, 16, 8, 1e6),
        row(64, 8, 1),
    ]
    return [
        shown("the example", "values:replicas", 0, [(*own, 16, 8, 450 * GB, 50 * GB, params["micro_batches"], 2.0)]),
        shown("recomputation on eight ranks", "values:recompute", 1, [(80, 8192, 8192, 8, 450 * GB, 600 * TFLOP)]),
        hidden("shard groups through several servers", "values:replicas", 0, shared),
        hidden("shard groups inside a server", "values:replicas", 0, apart + near),
        hidden(
            "other models", "values:recompute", 1, [again(tp, rate * GB) for tp in (2, 4, 8, 32) for rate in (450, 50)]
        ),
        hidden("shard groups that straddle servers", "generality:straddle", 0, straddle),
        hidden("one server, one GPU, all hidden", "generality:edges", 0, edges),
        hidden("no tensor parallelism", "generality:edges", 1, [again(1, 450 * GB), again(3, 50 * GB)]),
    ]


JUDGING = Judging(
    shares="values:replicas 0.4, values:recompute 0.3, generality:straddle 0.2, generality:edges 0.1",
    cases=_cases,
    verdicts=lambda params, case, outcome: judged(case, COLUMNS[case.args[0]].fault(case, outcome.value)),
    why="Pure ZeRO-3 has no gradient all-reduce: a reduce-scatter replaces it, so there is nothing to compete with. HSDP has both. If a shard group "
    "fills a server, the gathers stay on the fast links and the replicas' sums on the network; if it is larger, both wait for the same adapter. "
    "Recomputation frees memory, but under tensor parallelism it also repeats messages that nothing hides.",
    pytorch="`fully_shard` on a two-dimensional mesh is HSDP; `set_requires_all_reduce(False)` on all micro-batches but the last sends the sums once.",
)

ANSWERS = r"""# %% right: formulas
def sharding_and_replicas(parameters, gpus, shard, per_server, inside, across, micro_batches, compute):
    weights, copies = 2 * parameters, gpus / shard
    starts = range(0, gpus, shard)
    near = all(s // per_server == (s + shard - 1) // per_server for s in starts)
    first = inside if near else across
    second = inside if gpus <= per_server else across
    gathers = micro_batches * 3 * (shard - 1) / shard * weights / first
    sums = 2 * (copies - 1) / copies * weights / shard / second
    talk = gathers + sums if first == second else max(gathers, sums)
    return max(0.0, talk - compute)


def recompute_and_tensor(layers, tokens, hidden, tp, bandwidth, rate):
    work = 24 * tokens * hidden**2 / tp / rate
    talk = 2 * 2 * (tp - 1) / tp * 2 * tokens * hidden / bandwidth
    return layers * (work + talk)


# %% right: layer by layer  from: formulas
# ~ layers * (work + talk) ==> sum(work + talk for _ in range(layers))


# %% right: wires as a table
def sharding_and_replicas(parameters, gpus, shard, per_server, inside, across, micro_batches, compute):
    def wire(groups):
        return inside if all(len({rank // per_server for rank in group}) == 1 for group in groups) else across

    def ring(nbytes, ranks):
        return (ranks - 1) / ranks * nbytes

    everyone = range(gpus)
    loads = {}
    shards = [everyone[start : start + shard] for start in everyone[::shard]]
    replicas = [everyone[start::shard] for start in range(shard)]
    for groups, nbytes in (
        (shards, micro_batches * 3 * ring(2 * parameters, shard)),
        (replicas, 2 * ring(2 * parameters / shard, gpus // shard)),
    ):
        rate = wire(groups)
        loads[rate] = loads.get(rate, 0.0) + nbytes / rate
    return max(max(loads.values()) - compute, 0)


def recompute_and_tensor(layers, tokens, hidden, tp, bandwidth, rate):
    total = 0.0
    for _ in range(layers):
        total += 24 * tokens * hidden * hidden / (tp * rate)
        total += 2 * (2 * (tp - 1) / tp * (2 * tokens * hidden)) / bandwidth
    return total


# %% wrong: gathered once a step => values once-a-step  from: formulas
# ~ micro_batches * 3 ==> 3

# %% wrong: two rings a micro-batch => values two-rings  from: formulas
# ~ 3 ==> 2

# %% wrong: summed in every micro-batch => values every-micro-batch  from: formulas
# ~ sums = 2 * (copies - 1) / copies * weights / shard / second ==> sums = micro_batches * 2 * (copies - 1) / copies * weights / shard / second

# %% wrong: all gradients go across => values whole-gradient  from: formulas
# ~ shard / second ==> second

# %% wrong: always side by side => values side-by-side  from: formulas
# ~ gathers + sums if first == second else max ==> max

# %% wrong: always one after another => values always-adds  from: formulas
# ~ sums if first == second else max(gathers, sums) ==> sums

# %% wrong: nothing hides => values nothing-hidden  from: formulas
# ~ max(0.0, talk - compute) ==> talk

# %% wrong: negative time => generality -  from: formulas
# ~ max(0.0, talk - compute) ==> talk - compute

# %% wrong: recomputation sends nothing => values compute-alone  from: formulas
# ~ (work + talk) ==> work

# %% wrong: all four all-reduces again => values four-again  from: formulas
# ~ talk = 2 * 2 ==> talk = 4 * 2

# %% wrong: every rank repeats everything => values work-not-cut  from: formulas
# ~ tp / rate ==> rate


# %% half: the second cell is missing => 3.2  from: formulas
def recompute_and_tensor(layers, tokens, hidden, tp, bandwidth, rate):
    raise NotImplementedError


# %% wrong: a shard group must divide a server => generality -  from: formulas
# ~ near = all(s // per_server == (s + shard - 1) // per_server for s in starts) ==> near = per_server % shard == 0

# %% wrong: the first four groups alone => generality -  from: formulas
# ~ range(0, gpus, shard) ==> range(0, min(gpus, 4 * shard), shard)

# %% wrong: a server has eight GPUs => generality -  from: formulas
# ~ if gpus <= per_server ==> if gpus <= 8
"""
