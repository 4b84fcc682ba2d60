"""Cards of chapter 17 on a job before it has a plan: the cheapest remedy, the table of parallelisms, the one sentence."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import Anything, DictOf, ListOf, Maybe, Number, Rows, Word

REMEDIES = ("nothing", "accumulate", "shard the optimizer", "recompute", "shard everything", "split the model")


def _vary_job(draw: random.Random) -> Mapping[str, Any]:
    return {
        "billions": draw.choice((3, 7, 8, 13)),
        "gpus": draw.choice((16, 32, 64)),
        "sequences": draw.choice((4, 8, 16)),
    }


FIRST_REMEDY = Card(
    id="first-remedy",
    chapter="17",
    title="The cheapest remedy that is enough",
    text="""A run does not fit. Write `first_remedy(parameters, gpus, sequences, activations, inputs, memory)`, which returns the first remedy of this
list that makes it fit, as text. On this job's network each remedy costs more than the one before it, and it **keeps those before it**:

1. `"nothing"`: plain data parallelism. A GPU holds 16 bytes per parameter (4 of weights and gradients, 12 of optimizer state) and the
   activations of all its `sequences`.
2. `"accumulate"`: one sequence at a time, which is free until the matrices become too small.
3. `"shard the optimizer"` (ZeRO-1) over all `gpus`: no more bytes on the wire than the gradients' all-reduce.
4. `"recompute"`: of a sequence, only the layers' `inputs` stay, for a third more compute.
5. `"shard everything"` (ZeRO-3): all 16 bytes are cut by `gpus`, for half as many bytes again on the wire.
6. `"split the model"`: none of the others is enough.

`activations` and `inputs` are bytes of one sequence, `memory` bytes of one GPU. A run that fills the memory exactly fits. Ignore all other buffers.
Example: {{billions}}B parameters on {{gpus}} GPUs, {{sequences}} sequences per GPU.""",
    **Worth(points=4, minutes=5, difficulty=1, importance=5),
    hints=(
        "What does a GPU hold after each remedy, if those before it stay in place?",
        "The state is 16 P, then (4 + 12 / n) P, then 16 P / n. The activations are those of all sequences, of one, then its inputs.",
        "Compute the six totals in order and return the first name whose total is at most `memory`; the last needs no test.",
    ),
    answers=("first_remedy",),
    allowed="plain Python; the library's ranking is switched off.",
    hides=("capstone.remedy:remedies",),
    params={"billions": 7, "gpus": 64, "sequences": 8},
    vary=_vary_job,
    needs=("02", "05", "08"),
    probe=rows,
    returns=Rows(Word(REMEDIES)),
)

STRATEGIES = ("dp", "fsdp", "tp", "pp", "cp")
RESHARD: Mapping[str, str] = {
    "freed": "gathered for the forward pass, freed, and gathered again for the backward pass",
    "kept": "gathered for the forward pass and kept until the backward pass has used them",
}

PARALLELISM_TABLE = Card(
    id="parallelism-table",
    chapter="17",
    title="The table of parallelisms, in bytes",
    text="""Fill the table that every lesson prints in words, for one step on `ranks` GPUs that all serve **one** strategy. Write three functions:

- `sent(model, ranks)`: the bytes that one GPU sends, as a dictionary with `dp`, `fsdp`, `tp`, `pp`, `cp`.
- `state(model, ranks)`: the bytes of state that one GPU holds, with the same keys.
- `fewest(model, ranks, memory)`: the strategy that sends the fewest bytes of those whose state fits into `memory` bytes; `None` if none
  does. State may fill the memory exactly. Of equally good ones, return any.

`model` has `parameters`, `layers`, `hidden`, `kv` (width of the keys, equal to that of the values) and `tokens` (of the step, all GPUs together). Numbers on the
wire have 2 bytes, state has 16 per parameter. With n ranks, a ring all-gather or reduce-scatter of S bytes sends (n − 1) / n · S, an all-reduce twice that.

- **dp** all-reduces the gradients. **fsdp** cuts the state; its weights are {{means}}; its gradients are reduce-scattered.
- **tp** cuts every matrix. Each layer all-reduces the activations of all tokens (tokens × hidden) four times.
- **pp**: take a stage in the middle of `ranks` stages: all tokens' activations go forward once, a gradient of the same size back once; with one
  rank, nothing is sent.
- **cp** cuts the sequence. Each layer gathers the keys and values of all tokens twice, and reduce-scatters their gradients once. All
  ranks hold all weights, so their gradients are all-reduced too.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "Which strategies send a number of bytes that depends on the tokens, and which on the parameters?",
        "Let `ring = (n - 1) / n`. Gradients and weights are 2 · parameters bytes, activations 2 · tokens · hidden, keys and values 2 · 2 · tokens · kv.",
        "dp: `2 * ring * w`; fsdp: `gathers * ring * w + ring * w`; tp: `layers * 4 * 2 * ring * a`; pp: `2 * a`; cp: `layers * 3 * ring * keys + dp`.",
    ),
    answers=("sent", "state", "fewest"),
    allowed="plain Python; the library's table is switched off.",
    hides=("capstone.strategies:parallelisms", "capstone.strategies:sent_bytes"),
    params={"reshard": "freed", "means": RESHARD["freed"]},
    vary=lambda draw: {"reshard": "kept", "means": RESHARD["kept"]},
    structural="reshard",
    needs=("06", "07", "08", "09", "10", "11"),
    probe=rows,
    returns=Rows(
        DictOf({name: Number("bytes") for name in STRATEGIES}),
        DictOf({name: Number("bytes") for name in STRATEGIES}),
        Maybe(Word(STRATEGIES)),
    ),
)

SHARING: Mapping[str, str] = {
    "in turn": "The axes communicate one after another, so a placement takes the **sum** of what they leave exposed",
    "together": "The axes communicate at the same time, so a placement takes the **longest** of what they leave exposed",
}

ONE_SENTENCE = Card(
    id="one-sentence",
    chapter="17",
    title="The one sentence, as a placement",
    text="""Map the hierarchy of communication onto the hierarchy of bandwidth. Write `place(axes, levels)`, which returns the list of all axes,
outermost first, in an order that leaves the fewest seconds of communication **exposed**. The last axis changes fastest.

- `axes` is a dictionary from axis to (size, sent, hidden): its ranks, the bytes that a GPU sends along it in a step, and the seconds of
  computation that can hide this traffic. An axis of size 1 sends nothing. The order of the dictionary means nothing.
- `levels` is a list of (devices, bandwidth), from the inside out, such as
  `[({{server}}, 450e9), ({{rack}}, 100e9), (4096, 50e9)]`: GPUs of one unit, and bytes per second of one GPU. Ranks fill the units in order.
- An axis uses the bandwidth of the first level for which **every** group of the axis lies inside one unit. The last level holds all ranks.
- An axis leaves `max(0, sent / bandwidth - hidden)` seconds exposed. {{means}}.
- Of equally good orders, return any. There are at most five axes and 256 ranks, and sizes need not be powers of two.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "Does the axis that sends the most bytes need the fastest wire if all of its bytes are hidden behind computation?",
        "Write a function for the exposed seconds of one order. An axis's stride is the product of the sizes behind it; its groups follow from stride and size.",
        "`min(itertools.permutations(axes), key=exposed)`; a group that starts at rank r lies inside a unit of d GPUs if "
        "`r // d == (r + (size - 1) * stride) // d`.",
    ),
    answers=("place",),
    allowed="plain Python and `itertools`; your own `groups` of chapter 13. The library's meshes are switched off.",
    hides=(
        "mesh.layout:strides",
        "mesh.cost:placements",
        "mesh.cost:axis_seconds",
        "mesh.wires:widest",
        "mesh.wires:crossed",
    ),
    params={"sharing": "in turn", "means": SHARING["in turn"], "server": 8, "rack": 32},
    vary=lambda draw: {
        "sharing": "together",
        "means": SHARING["together"],
        "server": draw.choice((4, 8)),
        "rack": draw.choice((16, 64)),
    },
    structural="sharing",
    needs=("03", "13"),
    probe=rows,
    returns=Rows(ListOf(Anything("an axis"), what="place")),
)
