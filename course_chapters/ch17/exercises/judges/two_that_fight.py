from course_grader.judging import Case, Judging, Params, Random, Worked, each_changed, hidden, shown
from course_grader.judging.per_row import FINE, Column, table
from course_lib.estimate.units import BILLION, GB, TFLOP

right = Worked("two-that-fight")

COLUMNS = (
    Column(
        "",
        "seconds",
        words=lambda p, n, shard, per, *rest: (
            f"{p / BILLION:.3g}B on {n} GPUs, {shard} share a copy, servers of {per}, {rest[2]} micro-batches"
        ),
        rel=FINE,
    ),
    Column(
        "",
        "seconds",
        words=lambda layers, tokens, width, tp, *rest: f"{layers} layers of {width:,}, {tokens:,} tokens, tp {tp}",
        rel=FINE,
    ),
)


def _cases(params: Params, rng: Random) -> list[Case]:
    def row(gpus: int, shard: int, per: int, compute: float | None = None) -> tuple[object, ...]:
        inside, across = rng.choice((300, 450)) * GB, rng.choice((25, 50)) * GB
        run = rng.randint(5, 90) * BILLION, gpus, shard, per, inside, across, rng.choice((1, 3, 8, 16))
        return *run, right[0](*run, 0.0) * rng.uniform(0.2, 0.7) if compute is None else compute

    def again(tp: int, wire: float) -> tuple[object, ...]:
        shape = rng.choice((24, 80)), rng.choice((2048, 8192)), rng.choice((4096, 8192))
        return *shape, tp, wire, rng.choice((300, 600)) * TFLOP

    own = params["billions"] * BILLION, params["gpus"]
    shared = [row(64, shard, 8) for shard in (16, 32, 64)]
    apart = [row(64, 8, 8), row(32, 4, 8), row(96, 2, 8)]
    first = 70 * BILLION, 256, 8, 8, 450 * GB, 50 * GB, 8, 0.1
    second = 80 * BILLION, 512, 4, 4, 300 * GB, 5 * GB, 1, 0.2
    near = each_changed(first, second) + [
        (90 * BILLION, 16, 8, 8, 450 * GB, 25 * GB, 1, 0.0),
        (10 * BILLION, 64, 8, 8, 450 * GB, 50 * GB, 16, 0.0),
    ]
    straddle = [row(*each) for each in ((48, 6, 8), (24, 3, 8), (60, 12, 8), (36, 6, 4), (18, 2, 3), (48, 3, 16))]
    sizes = (
        (8, 8, 8),
        (8, 4, 8),
        (6, 3, 8),
        (8, 1, 8),
        (12, 3, 16),
        (64, 1, 8),
        (1, 1, 8, 0.0),
        (64, 16, 8, 1e6),
        (64, 8, 1),
    )
    edges = [row(*each) for each in sizes]
    others = [again(tp, rate * GB) for tp in (2, 4, 8, 32) for rate in (450, 50)]
    return [
        shown("the example", "values:replicas", 0, [(*own, 16, 8, 450 * GB, 50 * GB, params["micro_batches"], 2.0)]),
        shown("recomputation on eight ranks", "values:recompute", 1, [(80, 8192, 8192, 8, 450 * GB, 600 * TFLOP)]),
        hidden("shard groups through several servers", "values:replicas", 0, shared),
        hidden("shard groups inside a server", "values:replicas", 0, apart + near),
        hidden("other models", "values:recompute", 1, others),
        hidden("shard groups that straddle servers", "generality:straddle", 0, straddle),
        hidden("one server, one GPU, all hidden", "generality:edges", 0, edges),
        hidden("no tensor parallelism", "generality:edges", 1, [again(1, 450 * GB), again(3, 50 * GB)]),
    ]


JUDGING = Judging(
    shares="values:replicas 0.4, values:recompute 0.3, generality:straddle 0.2, generality:edges 0.1",
    cases=_cases,
    verdicts=table(*COLUMNS, right=right),
    why="Pure ZeRO-3 has no gradient all-reduce: a reduce-scatter replaces it, so there is nothing to compete with. "
    "HSDP has both. If a shard group fills a server, the gathers stay on the fast links and the replicas' sums on "
    "the network; if it is larger, both wait for the same adapter. Recomputation frees memory, but under tensor "
    "parallelism it also repeats messages that nothing hides.",
    pytorch="`fully_shard` on a two-dimensional mesh is HSDP; `set_requires_all_reduce(False)` on all micro-batches "
    "but the last sends the sums once.",
)

ANSWERS = r'''# %% right: worked
def sharding_and_replicas(parameters, gpus, shard, per_server, inside, across, micro_batches, compute) -> float:
    """Exposed seconds of a step with HSDP."""
    weights, copies = 2 * parameters, gpus // shard
    near = all(start // per_server == (start + shard - 1) // per_server for start in range(0, gpus, shard))
    first, second = inside if near else across, inside if gpus <= per_server else across
    gathers = micro_batches * 3 * (shard - 1) / shard * weights / first
    sums = 2 * (copies - 1) / copies * weights / shard / second
    talk = gathers + sums if first == second else max(gathers, sums)
    return max(0.0, talk - compute)


def recompute_and_tensor(layers: int, tokens: int, hidden: int, tp: int, bandwidth: float, rate: float) -> float:
    """Seconds that full recomputation adds to a step on a tensor-parallel rank."""
    work = 24 * tokens * hidden**2 / tp / rate
    talk = 2 * 2 * (tp - 1) / tp * 2 * tokens * hidden / bandwidth
    return layers * (work + talk)
# %% right: wires as a table  from: worked
def sharding_and_replicas(parameters, gpus, shard, per_server, inside, across, micro_batches, compute):
    everyone, loads = range(gpus), {inside: 0.0, across: 0.0}
    shards = [everyone[start : start + shard] for start in everyone[::shard]]
    replicas = [everyone[start::shard] for start in range(shard)]
    for groups, rings, share in ((shards, micro_batches * 3, 1), (replicas, 2, shard)):
        near = all(len({rank // per_server for rank in group}) == 1 for group in groups)
        rate, ranks = inside if near else across, len(groups[0])
        loads[rate] += rings * (ranks - 1) / ranks * 2 * parameters / share / rate
    return max(max(loads.values()) - compute, 0)
# %% wrong: once a step => values
# > the weights are gathered anew for every micro-batch.
# ~ micro_batches * 3 ==> 3
# %% wrong: two rings => values
# > three rings for each micro-batch: two gathers and a reduce-scatter.
# ~ 3 ==> 2
# %% wrong: every micro-batch => values
# > the replicas' all-reduce runs once a step.
# ~ sums = 2 ==> sums = micro_batches * 2
# %% wrong: whole gradient => values
# > a rank all-reduces its shard of the gradients, not all of them.
# ~ shard / second ==> second
# %% wrong: side by side => values
# > both kinds of traffic are on the same wire here, so they add up.
# ~ gathers + sums if first == second else max ==> max
# %% wrong: always adds => values
# > the two kinds of traffic are on different wires here and overlap.
# ~ sums if first == second else max(gathers, sums) ==> sums
# %% wrong: nothing hidden => values
# > communication hides behind `compute`.
# ~ max(0.0, talk - compute) ==> talk
# %% wrong: negative time => generality
# > no time is less than none: here everything is hidden.
# ~ max(0.0, talk - compute) ==> talk - compute
# %% wrong: first group => generality
# > a wire counts as fast only if every group lies inside a server.
# ~ range(0, gpus, shard) ==> range(1)
# %% wrong: always inside => values
# > this takes the fast wire where a shard group has ranks in two servers.
# ~ inside if near else across, ==> inside,
# %% wrong: no ring => values
# > a ring of n ranks sends (n − 1) / n of the tensor.
# ~ (shard - 1) / shard ==> (shard > 1)
# ~ (copies - 1) / copies ==> (copies > 1)
# %% wrong: compute alone => values
# > the forward pass's all-reduces are repeated too.
# ~ (work + talk) ==> work
# %% wrong: four again => values
# > only the two all-reduces of the forward pass are repeated.
# ~ talk = 2 * 2 ==> talk = 4 * 2
# %% wrong: six => values
# > that is all of a layer's traffic; asked for is what recomputation adds.
# ~ talk = 2 * 2 ==> talk = 6 * 2
# %% wrong: whole step => values
# > only the forward pass is repeated, not the backward pass.
# ~ 24 ==> 72
# %% wrong: work not cut => values
# > each of the tp ranks repeats its share of the products.
# ~ tp / rate ==> rate
# %% wrong: activations cut => values
# > the all-reduce adds up whole activations; tp does not cut them.
# ~ hidden / bandwidth ==> hidden / tp / bandwidth
# %% wrong: once round => values
# > a ring all-reduce sends twice the bytes of a reduce-scatter.
# ~ talk = 2 * 2 ==> talk = 2
# %% wrong: one layer => values
# > every layer is recomputed.
# ~ layers * (work + talk) ==> work + talk
# %% half: the second cell is missing => 3.2
# ~ work = 24 * tokens * hidden**2 / tp / rate ==> raise NotImplementedError
# %% wrong: a shard group must divide a server => generality
# ~ all(start // per_server == (start + shard - 1) // per_server for start in range(0, gpus, shard))
# ~~ ==> per_server % shard == 0
# %% wrong: the first four groups alone => generality
# ~ range(0, gpus, shard) ==> range(0, min(gpus, 4 * shard), shard)
# %% wrong: a server has eight GPUs => generality side-by-side
# ~ gpus <= per_server ==> gpus <= 8
'''
