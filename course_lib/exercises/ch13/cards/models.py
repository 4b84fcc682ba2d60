"""Cards of chapter 13 on models of a step: its communication, a calculator with defects, who waits, and a shared adapter."""

from collections.abc import Mapping

from course_lib.exercises import Card, Worth
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import Anything, ListOf, Number, Rows

REDUCED: Mapping[str, str] = {
    "all-reduce": "one ring all-reduce of the gradients, once a step",
    "ZeRO-3": "for **every micro-batch** two ring all-gathers of the weights and one ring reduce-scatter of the gradients (ZeRO-3)",
}

COMMUNICATION_TERM = Card(
    id="communication-term",
    chapter="13",
    title="The communication term of a step",
    text="""Write `communication_seconds(model, layout, wires)`, the term that a planner adds to the compute time of a step. It returns the seconds that one
GPU communicates on each axis, as a dictionary with `tp`, `cp`, `pp` and `dp`. Your term then predicts six published step times.

- `model` has `layers`, `hidden`, `kv` (width of the keys), `length` (tokens of a sequence) and `parameters`. `layout` has the sizes `tp`, `cp`, `pp`,
  `dp`, then `micro` (sequences of a micro-batch), `micro_batches` (of a step) and `recompute` (True: everything is recomputed).
- `wires` gives the bytes per second of one GPU for each axis. Numbers have 2 bytes. Ignore latency and overlap. A group of one rank takes 0 s.
- **tp**: in each of the GPU's layers, 4 ring all-reduces of its activations (micro × length / cp × hidden) for each micro-batch; 6 with `recompute`.
- **cp**: in each of its layers and for each micro-batch, the keys and values of the whole micro-batch (their width is cut by tp) are gathered
  twice, and their gradients reduce-scattered once.
- **pp**: for each micro-batch, a stage sends its activations forward once and a gradient of the same size backward once.
- **dp**: {{means}}. They are the GPU's share of the parameters, which tp and pp cut. The ring has **dp × cp** ranks,
  even where dp is 1, because the ranks of a cp group hold the same weights.

A ring all-gather or reduce-scatter of S bytes among n ranks takes (n − 1) / n × S / wire, a ring all-reduce twice as long.""",
    **Worth(points=12, minutes=25, difficulty=4, importance=5),
    hints=(
        "How many layers does a GPU hold? How many tokens of a micro-batch? Which axes cut neither?",
        "Write a helper for the ring, `(n - 1) / n * size / wire`. Then each axis is a count of rings times a size.",
        "`held = micro * length / cp * hidden * 2`; tp: `2 * ring(tp, held) * (6 or 4) * layers / pp * micro_batches`; dp: the ring has `dp * cp` ranks.",
    ),
    answers=("communication_seconds",),
    allowed="plain Python; the library's planner is switched off.",
    hides=("planner.traffic:traffic", "planner.estimating:estimate", "planner.step:step_time"),
    params={"reduced": "all-reduce", "means": REDUCED["all-reduce"]},
    vary=lambda draw: {"reduced": "ZeRO-3", "means": REDUCED["ZeRO-3"]},
    structural="reduced",
    needs=("08", "09", "10"),
    probe=rows,
    returns=Rows(Anything("a dictionary of seconds by axis")),
)

REPAIR_CALCULATOR = Card(
    id="repair-calculator",
    chapter="13",
    title="Find the bugs: a calculator with five defects",
    text="""Repair `estimate`, which returns the bytes of one GPU by purpose. A public calculator had these five defects (*EleutherAI/cookbook,
calc/calc_transformer_mem.py*); each of them changes where a model seems to fit.

```python
def estimate(model, job, tp, pp, dp, zero):
    layers, params = model["layers"] / pp, model["parameters"] / pp
    tokens = job["length"] * job["micro"]
    weights = 2 * params / tp
    if zero == 3:
        weights /= tp * dp
    gradients = 2 * params / (dp if zero >= 2 else 1)
    optimizer = job["state"] * params / (dp if zero >= 1 else 1)
    scores = 5 * model["heads"] * job["length"] / model["hidden"]
    factor = {"none": 34 + scores, "selective": 34, "full": 34}[job["recompute"]]
    activations = layers * tokens * model["hidden"] * factor
    cache = 2 * layers * tokens * model["hidden"] * 2 / tp
    return {"weights": weights, "gradients": gradients, "optimizer": optimizer, "activations": activations, "cache": cache}
```

- tp and pp cut weights, gradients and optimizer state. ZeRO-1 also shards the optimizer state over dp, ZeRO-2 the gradients as well, ZeRO-3 the weights too.
- Activations are those of one micro-batch. tp cuts all of them (with sequence parallelism). Full recomputation keeps the 16-bit input of each layer alone.
- `cache` is the KV cache of one micro-batch in 16 bits. The model has `kv_heads` key heads of width hidden / heads; tp cuts them.
- The optimizer has `job["state"]` bytes per parameter. What is not listed is right as it is.

The first check asks for a model of {{billions}}B parameters at tp = {{tp}}.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=4),
    kind="more",
    form="bug",
    hints=(
        "If you double tp, what should happen to each of the five numbers? Try it on the code.",
        "Compare zero = 0 and zero = 3 at tp = 2. How many bytes does a layer's 16-bit input have for one token? How many heads have keys?",
        "`weights /= dp`; `/ tp` for gradients, optimizer and activations; full: a factor of 2; cache: hidden × kv_heads / heads.",
    ),
    answers=("estimate",),
    allowed="plain Python; the library's planner is switched off.",
    hides=("planner.estimating:estimate", "planner.estimating:peak_memory"),
    params={"billions": 8, "tp": 8},
    vary=lambda draw: {"billions": draw.choice((7, 13, 20, 30, 34, 50, 65, 70, 90, 110)), "tp": draw.choice((2, 4))},
    needs=("02", "08", "09"),
    probe=rows,
    returns=Rows(Anything("a dictionary of bytes by purpose")),
)

NEXT: Mapping[str, str] = {
    "forward": "waits for a message from the rank whose coordinate is **one smaller**, as in a forward pass; the first rank waits for nobody",
    "backward": "waits for a message from the rank whose coordinate is **one larger**, as in a backward pass; the last rank waits for nobody",
}

BLAST_RADIUS = Card(
    id="blast-radius",
    chapter="13",
    title="Which ranks wait for a sleeping one?",
    text="""One rank falls asleep just before the operations of a step. Write `stalled(sizes, rank, waits)`, which returns the sorted list of all ranks that are
stuck in the end, the sleeping rank included.

- `sizes` is a mesh: a dictionary from axis to size, in which the last axis changes fastest.
- `waits` lists the operations that every rank performs, in order, each as a pair (kind, axis).
- `("all", axis)` is a collective: nobody in a group of this axis gets past it unless **all** of the group have joined it.
- `("next", axis)` is a pipeline message: every rank of a group {{means}}. It sends its own message only after that.

A rank that is stuck starts no later operation.""",
    **Worth(points=6, minutes=10, difficulty=3, importance=4),
    kind="more",
    hints=(
        "After a tp group is stuck in an all-reduce, what happens to the data-parallel partners of each of its ranks?",
        "Keep a set of stuck ranks. For each operation, go through the groups of its axis: who joins the set?",
        '`"all"`: if any rank of a group is stuck, all are. `"next"`: everyone behind the first stuck rank of the group, in the direction of the messages.',
    ),
    answers=("stalled",),
    allowed="plain Python; your own `groups`, if its mesh has the last axis fastest.",
    params={"direction": "forward", "means": NEXT["forward"]},
    vary=lambda draw: {"direction": "backward", "means": NEXT["backward"]},
    structural="direction",
    probe=rows,
    returns=Rows(ListOf(Number("a rank", whole=True), what="place")),
)

SHARING: Mapping[str, str] = {
    "fair": "All transfers that are under way share the bandwidth **equally** at every moment",
    "in turn": "The adapter serves one transfer at a time, **in the order of their starts**; of equal starts, the earlier one in the list first",
}

SHARED_ADAPTER = Card(
    id="shared-adapter",
    chapter="13",
    title="Two groups share an adapter",
    text="""Two axes of a mesh often send over one network adapter at the same time. Write `finish_times(transfers, bandwidth)`, which returns the
second at which each transfer ends, as a list in the order of `transfers`.

- `transfers` is a list of pairs (start in seconds, bytes), in any order. `bandwidth` is in bytes per second.
- {{means}}. If nothing is under way, the adapter is idle.
- A transfer of 0 bytes ends when it would begin to be served; with equal shares, that is its start.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "At which moments does a transfer's rate change?",
        "Rates change only when a transfer starts or ends. Go from one such moment to the next, and keep the bytes that each transfer still has to send.",
        "With equal shares and n under way, the next moment is the next start or `now + min(left) * n / bandwidth`, whichever comes first.",
    ),
    answers=("finish_times",),
    allowed="plain Python; the library's own is switched off.",
    hides=("mesh.cost:finish_times",),
    params={"sharing": "fair", "means": SHARING["fair"]},
    vary=lambda draw: {"sharing": "in turn", "means": SHARING["in turn"]},
    structural="sharing",
    needs=("06",),
    probe=rows,
    returns=Rows(ListOf(Number("seconds"), what="transfer")),
)
