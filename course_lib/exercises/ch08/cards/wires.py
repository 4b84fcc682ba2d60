"""More exercises of chapter 08 in numbers: the size of a group, how far to gather ahead, the link to the host, and the limit of sharding."""

from collections.abc import Mapping
from typing import Any

from course_lib import facts
from course_lib.exercises import Card, Worth
from course_lib.exercises.ch08.cards.core import card_memory
from course_lib.exercises.drilling import pick
from course_lib.exercises.probes import rows
from course_lib.units import BILLION, GB, TFLOP

H100 = facts.device("H100 SXM")
GATHERED: Mapping[bool, Mapping[str, Any]] = {
    False: {
        "kept": False,
        "gathers": 2,
        "words": "gathered **twice**, for the forward and again for the backward pass",
    },
    True: {"kept": True, "gathers": 1, "words": "gathered **once** and kept from the forward to the backward pass"},
}
PER_NODE = 8


HSDP_GROUP = Card(
    id="hsdp-group",
    chapter="08",
    title="How large a group?",
    text="""Choose how many ranks should share one model. HSDP shards a model over groups of G ranks, with a copy of the model in each of N / G groups.

- **Inside** a group, weights are {{words}}, and gradients are reduced. **Across** groups, each rank then all-reduces its part of the gradients
  with the ranks that hold the same part. All collectives are rings in 16 bits.
- State is 16 bytes per parameter, all of it sharded over the group.
- `hsdp(params, ranks, group)` returns `(held, inside, across)`: bytes of state on a rank, bytes it sends inside in a step, and across.
- `smallest_group(params, ranks, memory)` returns the smallest group whose state fits. Groups must divide `ranks`. Return `None` if even all
  ranks are too few.
- `best_group(params, ranks, memory, per_node, fast, slow)` returns the group that fits with the least **time on the links**; of equal ones
  the smallest, `None` if none fits. The times inside and across add up. Inside, a group of at most `per_node` ranks sends at `fast` bytes/s,
  a larger one at `slow`. Across groups ranks send at `slow`, or at `fast` if all ranks are in one node.

Shown: {{params:count}} parameters on {{ranks:int}} GPUs of {{memory:gb}}, {{per_node}} to a node, {{fast:gbps}} inside and {{slow:gbps}}
across. G = {{per_node}}, one server, has been published for this. Does it fit?""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "If the group doubles, what happens to the bytes inside, and to the bytes across?",
        "Per rank, an all-gather or reduce-scatter among G ranks sends (G − 1)/G of the weights. An all-reduce among M = N / G ranks sends twice "
        "(M − 1)/M of a part, and a part is one G-th of the gradients.",
        "`inside = (gathers + 1) * (G - 1) / G * 2 * params`; `across = 2 * (M - 1) / M * 2 * params / G`; try the divisors of `ranks` for which "
        "`16 * params / G <= memory`.",
    ),
    answers=("hsdp", "smallest_group", "best_group"),
    hides=("sharding:hybrid_bytes", "sharding:step_bytes", "sharding:group_of", "sharding:knee", "memory:zero_bytes"),
    params={
        "params": 405 * BILLION,
        "ranks": 24_576,
        "memory": card_memory(),
        "per_node": PER_NODE,
        "fast": float(H100.link_one_way or 0),
        "slow": float(H100.network_one_way or 0),
        **GATHERED[False],
    },
    vary=lambda draw: {
        **GATHERED[True],
        "params": draw.choice((70, 180, 405)) * BILLION,
        "ranks": draw.choice((3072, 4096, 6144)),
        "slow": draw.choice((25, 50)) * GB,
    },
    structural="kept",
    needs=("06",),
    probe=rows,
)

PREFETCH_DEPTH = Card(
    id="prefetch-depth",
    chapter="08",
    title="How far ahead?",
    text="""Find out when prefetch hides the gathers of FSDP. While a GPU computes one unit, it can gather the weights of the next ones; this hides the
gathers only if there is enough to compute and if they begin early enough.

- `crossover_tokens(flops, bandwidth, ranks, gather, reduce)` returns the tokens per GPU and step at which FSDP communicates for as long as
  it computes. A GPU computes 6 FLOPs per parameter and token at `flops` FLOP/s, and sends at `bandwidth` bytes/s. Each weight is gathered
  twice with `gather` bytes, and its gradient reduced once with `reduce` bytes, in rings of `ranks`. Shown: {{flops:tflops}},
  {{bandwidth:gbps}}, {{ranks}} ranks, 16 bits.
- `exposed_seconds(gathers, computes, depth)` returns the seconds for which the GPU waits in a forward pass. Unit i takes `gathers[i]` seconds
  to gather and `computes[i]` to compute. Gathers run one after another, and so do computations. Unit i computes once it is gathered and
  unit i − 1 has computed. **At most `depth` units are gathered ahead**: the gather of unit i may begin once unit i − 1 − depth has computed;
  the first ones may begin at once.
- `least_depth(gathers, computes, most)` returns the smallest depth that exposes at most `most` seconds, or `None` if none does.""",
    **Worth(points=8, minutes=15, difficulty=4, importance=4),
    kind="more",
    hints=(
        "With depth 0, what does the GPU do while unit 1 is gathered? With any depth, what can hide the very first gather?",
        "Go through the units in order, and keep two times: when the link is free and when each unit has computed. For the smallest depth, try all: "
        "more depth than units changes nothing.",
        "`start = max(wire, done[i - 1 - depth] if i > depth else 0)`; `wire = start + gathers[i]`; `done[i] = max(wire, done[i - 1]) + computes[i]`. Exposed: "
        "`done[-1] - sum(computes)`. The crossover: `(2 * gather + reduce) * (N - 1) / N / bandwidth = 6 * tokens / flops`.",
    ),
    answers=("crossover_tokens", "exposed_seconds", "least_depth"),
    hides=("sharding:play", "sharding:bytes_per_param_sent"),
    params={"flops": 400 * TFLOP, "bandwidth": 50 * GB, "ranks": 64},
    vary=pick(flops=(300 * TFLOP, 500 * TFLOP), bandwidth=(25 * GB, 100 * GB, 200 * GB), ranks=(16, 32, 128)),
    needs=("07",),
    probe=rows,
)

PCIE = float(facts.link("PCIe5 x16").one_way)


OFFLOAD_BOUNDARY = Card(
    id="offload-boundary",
    chapter="08",
    title="When the host is too far away",
    text="""Find out when offloading the optimizer state to the host or its disks slows down a step. Gradients must then move there, and weights back.

- Each of `ranks` GPUs moves the bytes of **its own share** of the parameters over its own link: `moved` bytes per parameter of the share,
  both directions together.
- Meanwhile it computes 6 FLOPs per parameter and token, for all parameters and its own `tokens`. The two overlap perfectly, so the step
  takes as long as the longer of them.
- `step_seconds(params, tokens, ranks, flops, moved, bandwidth)` returns that time.
- `hidden_tokens(ranks, flops, moved, bandwidth)` returns the tokens per GPU from which computing takes longer than moving. Why are the
  parameters not among the arguments?

Shown: {{flops:tflops}}; {{moved}} bytes per parameter over PCIe at {{pcie:gbps}} one way, on one GPU and on {{ranks}}; and {{nvme_moved}} bytes
per parameter at the {{nvme:gbps}} of a disk, where the optimizer state is read and written.""",
    **Worth(points=5, minutes=10, difficulty=2, importance=3),
    kind="more",
    hints=(
        "With twice as many ranks and the same tokens per rank, how do each rank's bytes and FLOPs change?",
        "The share is params / ranks. Set the two times equal and solve for the tokens; the parameters cancel.",
        "`max(6 * params * tokens / flops, params / ranks * moved / bandwidth)`; `moved * flops / (6 * ranks * bandwidth)`.",
    ),
    answers=("step_seconds", "hidden_tokens"),
    params={"flops": 400 * TFLOP, "moved": 4, "pcie": PCIE, "nvme_moved": 24, "nvme": 6 * GB, "ranks": 8},
    vary=pick(flops=(200 * TFLOP, 300 * TFLOP, 500 * TFLOP), moved=(2, 4, 6, 8), ranks=(2, 4, 16)),
    probe=rows,
)


LARGEST_ALONE = Card(
    id="largest-alone",
    chapter="08",
    title="How large a model by sharding alone?",
    text="""Compute the largest model that sharding alone can fit. "Double the GPUs, halve the memory" holds only for the state.

- Under ZeRO stage 3 a GPU holds its share of `per_param` bytes per parameter, **the whole weights of two layers** in 16 bits (the one that
  computes and the next), and its own activations. A model of P parameters consists of `layers` equal layers.
- `largest_model(ranks, memory, layers, activations, per_param)` returns the largest P that fits into `memory` bytes on each of `ranks` GPUs, or 0
  if nothing fits.
- `ranks_for(params, memory, layers, activations, per_param)` returns the fewest GPUs on which a model fits; exactly full fits. Return `None` if no
  number of GPUs is enough.

Shown: {{ranks}} GPUs of {{memory:gb}}, {{layers}} layers, {{activations:gb}} of activations on each, {{per_param}} bytes per parameter.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "With infinitely many GPUs, what would each still hold?",
        "Bytes per parameter on one GPU: `per_param` over N, and two layers, which are 2/layers of the model, at 2 bytes. Activations take the rest of "
        "the memory.",
        "`(memory - activations) / (per_param / ranks + 4 / layers)`; for the ranks: `room = memory - activations - 4 * params / layers`, and if it is "
        "positive `math.ceil(per_param * params / room)`.",
    ),
    answers=("largest_model", "ranks_for"),
    hides=("sharding:gathered_peak", "memory:zero_bytes", "memory:zero_bytes_per_param"),
    params={"ranks": 64, "memory": card_memory(), "layers": 80, "activations": 20 * GB, "per_param": 16},
    vary=lambda draw: {
        "ranks": draw.choice((32, 128, 256)),
        "memory": card_memory(draw.choice(("A100 SXM 80GB", "H200 SXM"))),
        "layers": draw.choice((32, 48, 96)),
        "activations": draw.choice((10, 15, 30)) * GB,
    },
    probe=rows,
)
