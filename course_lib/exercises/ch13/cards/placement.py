"""Cards of chapter 13 on placement: which axes lie inside servers, what the wrong order costs, and how to read it off the bytes."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch13.probes import mesh_run
from course_lib.exercises.probes import PREDICTION, rows
from course_lib.exercises.returns import Anything, ListOf, PerRank, Rows

LEAST: Mapping[str, str] = {
    "seconds": "the least **seconds**: the sum over the axes of `sent[axis] / inside`, or `sent[axis] / across` for an axis of which at "
    "least one group has ranks in two servers",
    "bytes": "the fewest **bytes between servers**. On each axis, every rank sends `sent[axis]` bytes to the next rank of its group, "
    "the last one to the first. Count a rank's bytes if that neighbor is in another server; `inside` and `across` do not matter here",
}

PLACE_AXES = Card(
    id="place-axes",
    chapter="13",
    title="Which axis on which wire?",
    text="""Write `best_order(sizes, sent, per_server, inside, across)`, which decides where each axis of a mesh goes. It returns the list of all axes, in
an order with {{means}}.

- `sizes` is a dictionary from axis to size. Its order means nothing: you choose one. In your order the **last axis changes fastest**.
- `sent` is a dictionary from axis to the bytes that every rank sends along it in a step; on an axis of size 1, nothing is sent.
- Ranks fill the servers in order, `per_server` ranks each. A group smaller than a server may still straddle two servers. A group that does
  counts as slow, however many of its ranks are in one server.
- `inside` and `across` are bytes per second of one GPU, inside a server and between servers; `inside` is the larger.
- Several orders may be equally good; any of them passes. There are at most five axes and 200 ranks.

Putting the axis that sends the most innermost is a good guess, but not always right: see what it leaves for the other axes. Users of a
small training library asked for another order of its axes for this reason (*huggingface/picotron, issue 17, 2024*).""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "How many orders are there of five axes? How long would it take to look at all of them?",
        "Write a function that gives the cost of one order, with your `groups` from above if the last axis is fastest there. Then take the minimum over all orders.",
        "`min(itertools.permutations(sizes), key=cost)`; in `cost`, an axis crosses servers if `group[0] // per_server != group[-1] // "
        "per_server` for any of its groups.",
    ),
    answers=("best_order",),
    allowed="plain Python and `itertools`; the library's meshes and planner are switched off.",
    hides=("mesh.layout:strides", "mesh.cost:placements", "mesh.cost:axis_seconds", "planner.traffic:strides"),
    params={"least": "seconds", "means": LEAST["seconds"]},
    vary=lambda draw: {"least": "bytes", "means": LEAST["bytes"]},
    structural="least",
    needs=("03",),
    probe=rows,
    returns=Rows(ListOf(Anything("an axis"), what="place")),
)


def _vary_swapped(draw: random.Random) -> Mapping[str, Any]:
    return {
        "tokens": draw.choice((8192, 32_768)),
        "billions": draw.choice((34, 70)),
        "hidden": 8192,
        "layers": draw.choice((48, 60, 80)),
    }


PREDICT_SWAPPED = Card(
    id="predict-swapped-axes",
    chapter="13",
    title="Prediction: what does the wrong order cost?",
    text="""Predict the cost of placing two axes of a mesh in the wrong order. A model of {{billions}}B parameters ({{layers}} layers, hidden {{hidden}}) trains on 64 H100s in 8 servers with tp = 8 and dp = 8.
Each replica processes {{tokens}} tokens in a step. Every layer has four tensor-parallel all-reduces of its activations, and dp all-reduces the
gradients once, all in 16 bits. In the right order, tp is inside the servers (450 GB/s) and dp between them (50 GB/s). Somebody swaps the two
axes: tp now crosses servers, and dp stays inside.

Commit to an interval for how many **times longer** communication takes with the axes swapped: both axes added up, no overlap, no latency.
`swapped_interval()` returns `(low, high)`, with `high` at most four times `low`. You earn the points for committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    kind="more",
    **PREDICTION,
    hints=(
        "Which of the two axes sends more bytes per GPU, and by what factor do the wires differ?",
        "One all-reduce among n ranks sends 2 (n − 1) / n of its tensor. tp: 4 per layer, tokens × hidden × 2 bytes. dp: parameters / 8 × 2 bytes.",
        "With T and D for the bytes of the axes: (T / 50 + D / 450) / (T / 450 + D / 50).",
    ),
    answers=("swapped_interval",),
    params={"tokens": 32_768, "billions": 70, "hidden": 8192, "layers": 80},
    vary=_vary_swapped,
    needs=("07", "09"),
    returns=Anything("a pair of numbers, how many times longer"),
)

SWAPPED_MESH = Card(
    id="swapped-mesh",
    chapter="13",
    title="Find the bug: a mesh that is right on four ranks",
    text="""Repair `on_mesh(comm, tp_size, x, gradient)`. It builds the groups of a mesh (dp, tp) on `comm`, the communicator of all ranks. Then it returns
the pair (`x` summed over the rank's tensor-parallel group, `gradient` averaged over its data-parallel group).

```python
def on_mesh(comm, tp_size, x, gradient):
    grid = torch.arange(comm.size).view(tp_size, -1)      # the mesh (dp, tp)
    for ranks in grid.T.tolist():
        group = comm.new_group(ranks)
        if comm.rank in ranks:
            dp = group
    for ranks in grid.tolist():
        group = comm.new_group(ranks)
        if comm.rank in ranks:
            tp = group
    x, gradient = x.clone(), gradient.clone()
    tp.all_reduce(x)
    dp.all_reduce(gradient)
    return x, gradient / tp_size
```

Its test has {{shown}} and passes. A test of PyTorch had its axes mixed up in the same way (*pytorch/pytorch, issue 107974, 2023*).

- A tensor-parallel group has `tp_size` **consecutive** ranks; the data-parallel groups have the others. `tp_size` divides the ranks.
- Leave `x` and `gradient` as they are. The ranks send what these two all-reduces need, and no more.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    form="bug",
    hints=(
        "With 8 ranks and tp_size 2, write down the grid. How many ranks are in a row?",
        "Two numbers are equal on the test's mesh, tp_size and the number of replicas. Find every place that takes one for the other.",
        "`grid = torch.arange(comm.size).view(-1, tp_size)`; rows are tp groups, columns dp groups; divide by `comm.size // tp_size`.",
    ),
    answers=("on_mesh",),
    allowed="torch and every operation of `comm`; the library's meshes are switched off.",
    hides=("mesh.layout:strides", "mesh.training:communicators"),
    params={"ranks": 4, "tp": 2, "shown": "four ranks and tp_size 2"},
    vary=lambda draw: {"ranks": 9, "tp": 3, "shown": "nine ranks and tp_size 3"},
    needs=("07", "09"),
    probe=mesh_run,
    returns=PerRank(Anything("(x, gradient)")),
)

NORM_ON_MESH = Card(
    id="norm-on-mesh",
    chapter="13",
    title="One norm for any mesh",
    text="""Write `mesh_norm(comm, sizes, parts)`, which clipping needs: the {{power}}-norm of all gradients of the model, (Σ |g|^{{power}})^(1/{{power}}), on
a mesh with any axes. A trainer that summed over all ranks counted replicated gradients several times (*NVIDIA-NeMo/RL, pull request
3788*).

- `sizes` is the mesh: a dictionary from axis to size. Their product is `comm.size`.
- `parts` is a list of pairs (tensor, axes): this rank's piece of a gradient, and the axes over which that gradient is **sharded**. Along every
  other axis the ranks hold equal copies of the piece. A parameter of one pipeline stage counts as sharded over that axis.
- Every rank returns the norm of the whole model as a float. Add up in float64, because pieces may be bf16.
- Ranks may hold different numbers of parts, even none, and pieces may be empty.
- Leave the tensors as they are. **Bytes:** a rank sends at most {{most}} bytes.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "If all ranks add up all of their pieces, how often does a piece count that is sharded over tp alone?",
        "It counts once for each copy: as often as the product of the sizes of the axes over which it is *not* sharded. Divide by that number first.",
        "`total += tensor.double().abs().pow(p).sum() / copies`, with `copies = math.prod(size for axis, size in sizes.items() if axis not in axes)`; one "
        "all-reduce of `total` over `comm`.",
    ),
    answers=("mesh_norm",),
    allowed="torch and every operation of `comm`.",
    hides=("optimizer.clipping:clip_sharded_", "optimizer.clipping:global_norm", "mesh.training:mesh_norm_of"),
    params={"power": 2, "most": 512},
    vary=lambda draw: {"power": draw.choice((3, 4, 5)), "most": draw.choice((384, 512, 640))},
    needs=("04", "08", "09"),
    probe=mesh_run,
    returns=PerRank(Anything("the norm")),
)
