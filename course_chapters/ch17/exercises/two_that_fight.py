from course_grader.exercises import Card, Number, Params, Random, Rows, Worth


def _vary_fight(draw: Random) -> Params:
    return {"billions": draw.choice((8, 13, 34)), "gpus": draw.choice((32, 128)), "micro_batches": draw.choice((4, 16))}


CARD = Card(
    title="Two cells of the conflict matrix",
    text="""A memory mechanism and a coordination mechanism can be right on their own and fight when they meet. Write
two functions that compute what two such pairs cost. Numbers on the wire have 2 bytes. A ring all-gather or
reduce-scatter of S bytes among n ranks takes (n − 1) / n · S / bandwidth, an all-reduce twice as long.

`sharding_and_replicas(parameters, gpus, shard, per_server, inside, across, micro_batches, compute)` returns the exposed
seconds of a step with HSDP:

- Every `shard` consecutive ranks share one copy of the state, so there are gpus / shard replicas. `shard` divides
  `gpus`.
- For each of the `micro_batches`, the weights are gathered twice and the gradients reduce-scattered once inside a shard
  group.
- Once a step, each rank all-reduces its shard of the gradients (its share 1 / shard of them) with the other replicas.
- A group uses `inside` bytes per second if **every** group of its kind lies inside a server of `per_server` consecutive
  ranks, otherwise `across`. The two kinds of traffic add up if they use the same wire; on different wires they
  overlap.
- `compute` seconds of the step can hide communication; what is left over is exposed.

`recompute_and_tensor(layers, tokens, hidden, tp, bandwidth, rate)` returns the seconds that **full recomputation adds**
to a step on one of `tp` ranks:

- It repeats the forward pass: 24 · tokens · hidden² FLOPs per layer, divided by tp, at `rate` FLOP/s.
- With it, it repeats the forward pass's two all-reduces of the activations (tokens × hidden) in each layer.

Example: {{billions}}B parameters on {{gpus}} GPUs, {{micro_batches}} micro-batches.""",
    **Worth(points=8, minutes=20, difficulty=3, importance=5),
    kind="more",
    hints=(
        "Which of the two kinds of HSDP traffic grows with the number of micro-batches? Where do the replicas' groups "
        "lie if a shard group fills a server?",
        "A replica group has the ranks r, r + shard, r + 2 · shard, …: it lies inside a server only if all GPUs do. A "
        "shard group of 6 may straddle servers of 8.",
        "`max(0, (a + b if same_wire else max(a, b)) - compute)`, where a = micro_batches · 3 rings of 2P over "
        "`shard`, b = 2 rings of 2P / shard over the replicas.",
    ),
    answers=("sharding_and_replicas", "recompute_and_tensor"),
    allowed="plain Python; the library's conflict matrix is switched off.",
    hides=("course_chapters.ch17.mechanisms:conflict", "course_chapters.ch17.mechanisms:matrix"),
    params={"billions": 70, "gpus": 64, "micro_batches": 8},
    vary=_vary_fight,
    needs=("02", "05", "08", "09", "13"),
    returns=Rows(Number("seconds"), Number("seconds")),
)
