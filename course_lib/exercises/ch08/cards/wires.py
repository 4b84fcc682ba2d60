"""Further exercises of chapter 08 in numbers: the size of a group, how far to gather ahead, the host's wire, and the floor."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib import facts
from course_lib.exercises import Card
from course_lib.exercises.ch08.cards.core import card_memory
from course_lib.exercises.probes import rows
from course_lib.units import BILLION, GB, TFLOP

H100 = facts.device("H100 SXM")
KEPT: Mapping[bool, tuple[int, str]] = {
    False: (2, "gathered **twice**, for the forward pass and again for the backward"),
    True: (1, "gathered **once** and kept from the forward pass to the backward"),
}
PER_NODE = 8


def _group(kept: bool, params: float, ranks: int, memory: float, slow: float) -> dict[str, Any]:
    gathers, words = KEPT[kept]
    return {
        "kept": kept,
        "gathers": gathers,
        "words": words,
        "params": params,
        "ranks": ranks,
        "memory": memory,
        "per_node": PER_NODE,
        "fast": float(H100.link_one_way or 0),
        "slow": slow,
    }


HSDP_GROUP = Card(
    id="hsdp-group",
    chapter="08",
    title="How large a group?",
    text="""HSDP shards a model among groups of K ranks and copies it to N / K groups. In 16 bits, round rings: weights are {{words}}, and
gradients reduced, all **inside** a group; then each rank averages its part of the gradients with the ranks that hold the same part, by
an all-reduce **across** groups. State is 16 bytes per parameter, all of it shared out over the group.

- `hsdp(params, ranks, group)` returns `(held, inside, across)`: bytes of state on a rank, bytes it sends inside in a step, and across.
- `smallest_group(params, ranks, memory)`: the smallest group whose state fits; groups must divide `ranks`; `None` if even all ranks are
  too few.
- `best_group(params, ranks, memory, per_node, fast, slow)`: the group that fits and has the least **time on the wires**. Inside, a group
  of at most `per_node` ranks sends at `fast` bytes/s, a larger one at `slow`. Across goes at `slow`, but at `fast` where all ranks are
  in one node. The two times add up; of equally good groups the smallest. `None` where none fits.

Shown: {{params:count}} parameters on {{ranks:int}} GPUs of {{memory:gb}}, {{per_node}} to a node, {{fast:gbps}} inside and {{slow:gbps}}
across. Somebody printed K = {{per_node}} for it, one server; does that fit?""",
    points=8,
    minutes=15,
    difficulty=3,
    importance=5,
    kind="more",
    hints=(
        "If the group doubles, what happens to the bytes inside, and what to those across?",
        "An all-gather or a reduce-scatter among K ranks sends (K − 1)/K of the weights, an all-reduce of a part among M = N / K ranks twice (M − 1)/M of that part. "
        "A part is a K-th of the gradients.",
        "`inside = (gathers + 1) * (K - 1) / K * 2 * params`; `across = 2 * (M - 1) / M * 2 * params / K`; go through the divisors of `ranks` for which `16 * params / K <= memory`.",
    ),
    answers=("hsdp", "smallest_group", "best_group"),
    hides=("sharding:hybrid_bytes", "sharding:step_bytes", "sharding:group_of", "sharding:knee", "memory:zero_bytes"),
    params=_group(False, 405 * BILLION, 24_576, card_memory(), float(H100.network_one_way or 0)),
    vary=lambda draw: _group(
        True,
        draw.choice((70, 180, 405)) * BILLION,
        draw.choice((3072, 4096, 6144)),
        card_memory(),
        draw.choice((25, 50)) * GB,
    ),
    structural="kept",
    needs=("06",),
    probe=rows,
)

PREFETCH_DEPTH = Card(
    id="prefetch-depth",
    chapter="08",
    title="How far ahead?",
    text="""While a GPU computes, the next units' weights can be on their way. Whether that hides the gathering depends on two things: whether
there is enough to compute at all, and whether gathering may begin early enough.

- `crossover_tokens(flops, bandwidth, ranks, gather, reduce)`: the tokens per GPU and step at which FSDP's communication takes as long as its computing. A
  GPU does `flops` FLOP/s, 6 FLOPs per parameter and token; it sends at `bandwidth` bytes/s. Each weight is gathered twice with `gather` bytes, its gradient
  reduced once with `reduce` bytes, round rings of `ranks`. Shown: {{flops:tflops}}, {{bandwidth:gbps}}, {{ranks}} ranks, 16 bits.
- `exposed_seconds(gathers, computes, depth)`: a forward pass. `gathers[i]` and `computes[i]` are the seconds of unit i. Gathers go one after another, computing too.
  Unit i computes when it is gathered and unit i − 1 has computed. **At most `depth` units are gathered ahead**: the gather of unit i may begin once
  unit i − 1 − depth has computed, for the first ones at once. Return the time for which the GPU stands still.
- `least_depth(gathers, computes, most)`: the smallest depth that leaves at most `most` seconds; `None` if none does.""",
    points=8,
    minutes=15,
    difficulty=4,
    importance=4,
    kind="more",
    hints=(
        "With depth 0, what is going on while unit 1 is gathered? With every depth: what can hide the very first gather?",
        "Keep two times, when the wire is free and when each unit has computed. Walk through the units in order. For the smallest depth, try them: more depth "
        "than units changes nothing.",
        "`start = max(wire, done[i - 1 - depth] if i > depth else 0)`; `wire = start + gathers[i]`; `done[i] = max(wire, done[i - 1]) + computes[i]`. Exposed: "
        "`done[-1] - sum(computes)`. The crossover: `(2 * gather + reduce) * (N - 1) / N / bandwidth = 6 * tokens / flops`.",
    ),
    answers=("crossover_tokens", "exposed_seconds", "least_depth"),
    hides=("sharding:play", "sharding:bytes_per_param_sent"),
    params={"flops": 400 * TFLOP, "bandwidth": 50 * GB, "ranks": 64},
    vary=lambda draw: {
        "flops": draw.choice((300, 500)) * TFLOP,
        "bandwidth": draw.choice((25, 100, 200)) * GB,
        "ranks": draw.choice((16, 32, 128)),
    },
    needs=("07",),
    probe=rows,
)

PCIE = float(facts.link("PCIe5 x16").one_way)


def _offload(draw: random.Random) -> Mapping[str, Any]:
    return {
        "flops": draw.choice((200, 300, 500)) * TFLOP,
        "moved": draw.choice((2, 4, 6, 8)),
        "ranks": draw.choice((2, 4, 16)),
    }


OFFLOAD_BOUNDARY = Card(
    id="offload-boundary",
    chapter="08",
    title="When the host is too far away",
    text="""Optimizer state can live in the host's memory, or on its disks, and what is stepped there has to go there and come back. Each of `ranks` GPUs
moves the bytes of **its own share** of the parameters over a wire of its own, `moved` bytes per parameter of the share, there and back
together; meanwhile it computes 6 FLOPs per parameter and token, for all parameters and its own `tokens`. Both run side by side, perfectly: the step takes as long as the
longer of the two.

- `step_seconds(params, tokens, ranks, flops, moved, bandwidth)`: that time.
- `hidden_tokens(ranks, flops, moved, bandwidth)`: the tokens per GPU at which the wire stops being what the step waits for. Why are the
  parameters not among the arguments?

Shown: {{flops:tflops}}; {{moved}} bytes per parameter over PCIe at {{pcie:gbps}} one way, on one GPU and on {{ranks}}; and {{nvme_moved}} bytes
per parameter, the optimizer state read and written, at the {{nvme:gbps}} of a disk.""",
    points=5,
    minutes=10,
    difficulty=2,
    importance=3,
    kind="more",
    hints=(
        "Twice as many ranks: what happens to each one's wire, and what to its computing, if each keeps its tokens?",
        "The share is params / ranks. Set the two times equal and solve for the tokens; the parameters stand on both sides.",
        "`max(6 * params * tokens / flops, params / ranks * moved / bandwidth)`; `moved * flops / (6 * ranks * bandwidth)`.",
    ),
    answers=("step_seconds", "hidden_tokens"),
    params={"flops": 400 * TFLOP, "moved": 4, "pcie": PCIE, "nvme_moved": 24, "nvme": 6 * GB, "ranks": 8},
    vary=_offload,
    probe=rows,
)


def _alone(ranks: int, memory: float, layers: int, activations: float, per_param: float) -> dict[str, Any]:
    return {"ranks": ranks, "memory": memory, "layers": layers, "activations": activations, "per_param": per_param}


LARGEST_ALONE = Card(
    id="largest-alone",
    chapter="08",
    title="How large without any other cut?",
    text=""""Double the GPUs, halve the memory": true of the state, and of nothing else. Under ZeRO stage 3 a GPU holds its share of
`per_param` bytes per parameter; **two layers' weights whole**, in 16 bits, the one at work and the one on its way; and
its own activations. A model of P parameters has `layers` equal layers and nothing beside them.

- `largest_model(ranks, memory, layers, activations, per_param)`: the largest P that fits into `memory` bytes on each of `ranks` GPUs. 0 if nothing fits.
- `ranks_for(params, memory, layers, activations, per_param)`: the fewest GPUs on which a model fits, exactly full being enough; `None` if no number of them is enough.

Shown: {{ranks}} GPUs of {{memory:gb}}, {{layers}} layers, {{activations:gb}} of activations on each, {{per_param}} bytes per parameter.""",
    points=6,
    minutes=10,
    difficulty=2,
    importance=4,
    kind="more",
    hints=(
        "With infinitely many GPUs, what would still lie on each?",
        "Bytes per parameter on one GPU: the shared ones over N, and those of two layers, which are 2/layers of the model at 2 bytes. The rest of the memory is the "
        "activations'.",
        "`(memory - activations) / (per_param / ranks + 4 / layers)`; for the ranks: `room = memory - activations - 4 * params / layers`, and if it is positive "
        "`math.ceil(per_param * params / room)`.",
    ),
    answers=("largest_model", "ranks_for"),
    hides=("sharding:gathered_peak", "memory:zero_bytes", "memory:zero_bytes_per_param"),
    params=_alone(64, card_memory(), 80, 20 * GB, 16),
    vary=lambda draw: _alone(
        draw.choice((32, 128, 256)),
        card_memory(draw.choice(("A100 SXM 80GB", "H200 SXM"))),
        draw.choice((32, 48, 96)),
        draw.choice((10, 15, 30)) * GB,
        16,
    ),
    probe=rows,
)

NUMBERS_ALONE = (HSDP_GROUP, PREFETCH_DEPTH, OFFLOAD_BOUNDARY, LARGEST_ALONE)
