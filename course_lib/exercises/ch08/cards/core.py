"""Core exercises of chapter 08: who holds how much, a prediction, ZeRO's first stage, FSDP by hand, one norm over all parts."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib import facts, memory
from course_lib.exercises import Card
from course_lib.exercises.ch08.probes import by_hand, clipped, owned
from course_lib.exercises.probes import interval, rows
from course_lib.exercises.returns import Anything, DictOf, ListOf, Maybe, Number, PerRank, Tensor
from course_lib.units import BILLION, GB, TFLOP

BUCKETS = ("weights", "grads", "master", "moments")
STATE = ("memory:zero_bytes", "memory:zero_bytes_per_param", "memory:zero_by_bucket")


def card_memory(device: str = "H100 SXM") -> float:
    """Bytes of memory of one device, as a plain number."""
    return float(facts.device(device).memory)


def _state(params: float, ranks: int, convention: str, device: str = "H100 SXM") -> dict[str, Any]:
    buckets = memory.CONVENTIONS[convention].buckets
    return {
        "params": params,
        "ranks": ranks,
        "convention": convention,
        "memory": card_memory(device),
        **{name: buckets[name] for name in BUCKETS},
    }


def _vary_state(draw: random.Random) -> Mapping[str, Any]:
    return _state(draw.choice((8e9, 13e9, 34e9, 70e9)), draw.choice((16, 32, 128, 256)), draw.choice("CG"))


ZERO_STATE = Card(
    id="zero-state",
    chapter="08",
    title="Who holds how much?",
    text="""ZeRO shares the training state out over N ranks, bucket by bucket: stage 1 the optimizer's (master copy and moments),
stage 2 the gradients as well, stage 3 the weights as well; stage 0 nothing. What is not shared out, every rank holds whole.

`buckets` says how many bytes per parameter each bucket has: here `{"weights": {{weights:plain}}, "grads": {{grads:plain}},
"master": {{master:plain}}, "moments": {{moments:plain}}}`; other optimizers have others.

- `held(params, stage, ranks, buckets)`: bytes of state on one rank. Shown: {{params:count}} parameters on {{ranks}} ranks, stages
  0 to 3, and 405B on 1,024.
- `fewest_ranks(params, stage, buckets, memory)`: the fewest ranks on which the state fits into `memory` bytes each, exactly full
  being enough; `None` where no number of ranks helps. Shown: cards of {{memory:gb}}.""",
    points=4,
    minutes=5,
    difficulty=1,
    importance=5,
    hints=(
        "Which buckets does a stage leave whole? They are the part that no number of ranks makes smaller.",
        "Bytes on a rank are params × (what stays whole + what is shared out / ranks). For the inverse, take what stays whole from the "
        "memory first: the rest is what the shared part may take.",
        "`since = {'master': 1, 'moments': 1, 'grads': 2, 'weights': 3}`; `whole = sum(b for name, b in buckets.items() if stage < since[name])`; "
        "`math.ceil(params * shared / (memory - params * whole))`, with care where nothing is left or nothing is shared.",
    ),
    answers=("held", "fewest_ranks"),
    allowed="plain Python; the library's formulas are switched off.",
    hides=STATE,
    params=_state(7.5e9, 64, "B"),
    vary=_vary_state,
    needs=("02",),
    probe=rows,
)

RUN = facts.run("Llama 3.1 405B")


def _all(params: float, gpus: int, bandwidth: float, tokens: float) -> dict[str, Any]:
    return {"params": params, "gpus": gpus, "bandwidth": bandwidth, "tokens": tokens, "rate": 400 * TFLOP}


PREDICT_ALL_SHARDS = Card(
    id="predict-all-shards",
    chapter="08",
    title="Prediction: one model over all GPUs",
    text="""A model of {{params:count}} parameters is shared out over **all** {{gpus:int}} GPUs of a cluster by FSDP, and nothing else is cut.
Weights are gathered for the forward pass and again for the backward pass, gradients reduced to their owners, all in 16 bits, one
collective after another round a ring. Nearly every step of such a ring leaves the server: {{bandwidth:gbps}} one way out of each GPU.

Before you compute anything: give an interval, in **seconds**, that you believe holds the time for which a GPU sends in one
step, at most a factor of four from end to end. `talking_interval()` returns `(low, high)`. The points are for committing
yourself, not for being right.""",
    points=2,
    minutes=5,
    difficulty=2,
    importance=4,
    form="prediction",
    hints=(
        "How many bytes are the weights? How often does a rank send nearly all of them on?",
        "A ring's all-gather sends all parts but one, and so does its reduce-scatter: each about as many bytes as the weights have.",
        "`3 * 2 * params / bandwidth`; a factor of two either way is a safe interval.",
    ),
    answers=("talking_interval",),
    params=_all(405 * BILLION, 24_576, 50 * GB, 2**22),
    vary=lambda draw: _all(
        draw.choice((70, 180, 405)) * BILLION, draw.choice((2048, 8192, 16_384)), draw.choice((25, 50)) * GB, 2**22
    ),
    probe=interval,
)

FLAT = ("sharding:owners_of", "sharding.rows:rows_of", "data_parallel:buckets_of")

OWN_AND_TELL = Card(
    id="own-and-tell",
    chapter="08",
    title="ZeRO stage 1: step what you own, tell the others",
    text="""A public course checked its learners' sharded optimizers by the weights that came out (*stanford-cs336/assignment2-systems, commit
9d95f3b*). The plain optimizer, returned as it was, passed: every rank stepped everything, and no byte of memory was saved. Here
memory and bytes are looked at as well.

Write `shard_optimizer(comm, parameters, make)`. It returns an object whose `step()` does what the plain optimizer's would do,
with every rank holding a part of its state.

- `parameters` is a list of tensors, alike on all ranks. Their `.grad` is averaged over ranks already when `step()` is called, and
  new for every step. After `step()` **all ranks hold all new weights**, in the tensors that they gave you.
- `make(tensors)` makes an optimizer over a list of tensors, which must not be empty. It treats each number by itself, so you
  may give it whole tensors or pieces of them.
- **State**: it is made for a share only. No rank steps more bytes than a fair share and the largest tensor together. Tensors
  differ much in size: an equal number of tensors is no fair share.
- **Bytes**: what is stepped on one rank goes to each other rank once, and nothing else goes round.
- A tensor may be in the list twice (tied weights) and is stepped once; one with `requires_grad=False` is never stepped, nor
  sent. There may be more ranks than tensors.""",
    points=10,
    minutes=20,
    difficulty=3,
    importance=5,
    hints=(
        "If every rank knows the list and its sizes, do they have to talk about who owns what?",
        "Take each tensor once, if it is trained. Go through them, the largest first, and give each to the rank that has the fewest bytes "
        "so far: all ranks come to the same table. Make an optimizer over what is yours; after its step, every owner broadcasts.",
        "`mine = [p for p, rank in zip(kept, owner) if rank == comm.rank]`; `inner = make(mine) if mine else None`; in `step`: step `inner`, then "
        "`for p, rank in zip(kept, owner): comm.broadcast(p.data, src=rank)`.",
    ),
    answers=("shard_optimizer",),
    allowed="every operation of `comm`; torch. The library's own are switched off.",
    hides=FLAT,
    params={"layers": 3, "width": 12},
    vary=lambda draw: {"layers": draw.choice((2, 3, 4)), "width": draw.randrange(10, 17)},
    probe=owned,
    returns=PerRank(DictOf({"weights": Maybe(ListOf(Tensor())), "kept": Number("bytes")})),
)

WATCHED = {name: Number() for name in ("held", "ahead", "bytes")}  # units and bytes on a rank while it computes

OWNERS: Mapping[int, str] = {
    0: "rank r holds part r",
    1: "rank r holds part **(r + 1) mod N**, so the last rank holds part 0",
}

FSDP_BY_HAND = Card(
    id="fsdp-by-hand",
    chapter="08",
    title="Gather, compute, let go",
    text="""A model is a stack of units. The weights of a unit lie flat, end to end, are filled up with zeros to a multiple of N, and cut into
N equal parts: {{holds}}. Ranks have different inputs and average their gradients.

Write `sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True)`:

- `shards[u]` is this rank's part of unit u, `counts[u]` how many weights the unit really has.
- `forward(u, weights, x)` runs unit u on x; `weights` is its flat row, `counts[u]` numbers. `loss(y)` gives the gradient of the
  last unit's output. `backward(u, weights, x, grad)` needs the x that went into the unit and the gradient of its output, and
  returns `(gradient of x, gradient of the weights)`, the latter flat.
- Return a list with **this rank's part of each unit's mean gradient**, of the shape of `shards[u]`; its padding is zero.

A unit's weights are whole only while they are used. They are gathered for the forward pass and **again** for the backward
pass (the last unit may keep them in between, for it is next), and gradients are reduced to parts unit by unit. No more than two
units' weights, and two units' gradients, lie whole on a rank at any time, so the next unit may be gathered ahead, and no other.

**The check overwrites what should be gone**: when another unit computes, the row that the last one was given is filled with
NaN, wherever it still lies. With `reshard=False` rows stay from the forward pass to the unit's backward, and are gathered once.""",
    points=14,
    minutes=30,
    difficulty=4,
    importance=5,
    hints=(
        "Follow one unit through the step: when are its weights needed, and by whom? What must you keep from the forward pass, if not weights?",
        "`gather(u)` makes an empty row of N parts, all-gathers into it and cuts the padding off. Forward: gather, run, remember x, forget "
        "the row. Backward, last unit first: gather, run, put the flat gradient into a padded row of zeros, reduce-scatter, divide by N.",
        "`row = shard.new_empty(N * len(shard)); comm.all_gather_into_tensor(row, shard); row[:counts[u]]`. Gradients: "
        "`full = torch.zeros(N * len(shard)); full[:counts[u]] = grad; mine = torch.empty_like(shard); comm.reduce_scatter_tensor(mine, full, "
        "op='AVG')`. Where owners are shifted, parts come and go in the order of ranks: roll them.",
    ),
    answers=("sharded_step",),
    allowed="every operation of `comm`; torch.",
    hides=("sharding.rows:rows_of",),
    params={"owner": 0, "holds": OWNERS[0], "units": 6, "width": 5},
    vary=lambda draw: {"owner": 1, "holds": OWNERS[1], "units": draw.choice((5, 6, 7)), "width": draw.randrange(4, 7)},
    structural="owner",
    probe=by_hand,
    returns=PerRank(DictOf({"parts": ListOf(Tensor()), "order": ListOf(Anything()), **WATCHED})),
)

NORMS: Mapping[str, str] = {
    "2": "the root of the sum of all squares, over all trained numbers of the model",
    "max": "the **largest absolute value** among all trained numbers of the model (the maximum norm)",
}

CLIP_SHARDS = Card(
    id="clip-shards",
    chapter="08",
    title="One norm for all parts",
    text="""Somebody logged the gradient norm of an FSDP run, and every rank had another one: each was the norm of the rank's own parts
(*pytorch/torchtitan, issue 766, January 2025*). Elsewhere the norm was added up over the whole world while each part lay on several
ranks, and came out too large by the root of their number (*ByteDance-Seed/VeOmni, issue 184, November 2025*). Either way the model
is clipped by a wrong number, and nothing crashes.

Write `clip_parts(inside, across, parts, counts, most)`:

- `inside` is the communicator of the ranks that share one model out; `across` that of the ranks that hold **the same parts** as this
  one, with the same gradients. Without HSDP `across` has one rank.
- `parts` is a list of flat gradients. The first `counts[i]` numbers of `parts[i]` are this rank's; behind them is padding, where
  **anything** may lie, NaN too. A rank may have no number at all.
- The norm is {{means}}. Return it, a float, the same on all ranks.
- If it is larger than `most`, scale all parts in place by most / norm; else leave them.

Add up in float64: parts are float32, and the squares of large gradients have no room there. A number or two go over the wire,
however many parts there are.""",
    points=8,
    minutes=15,
    difficulty=2,
    importance=5,
    hints=(
        "If all ranks' numbers lay in one place, how often would a number that three ranks hold count? And a zero at the end of a row?",
        "One number per rank, from its own parts without padding; one all-reduce among the ranks whose parts make up the model; then a root "
        "(or none) and a division, the same on every rank.",
        "`total = torch.zeros((), dtype=torch.float64)`; `total += part[:count].double().square().sum()`; `inside.all_reduce(total)`; "
        "`norm = total.sqrt().item()`; `if norm > most: part.mul_(most / norm)`. For the maximum: `op='MAX'`, and no part may be empty for `max()`.",
    ),
    answers=("clip_parts",),
    allowed="every operation of the two communicators; torch.",
    hides=("sharding:gradient_norm", "sharding:clip_gradients"),
    params={"norm": "2", "means": NORMS["2"], "numbers": 20},
    vary=lambda draw: {"norm": "max", "means": NORMS["max"], "numbers": draw.randrange(15, 30)},
    structural="norm",
    probe=clipped,
    returns=PerRank(DictOf({"norm": Anything("the norm"), "parts": ListOf(Tensor())})),
)

CORE = (ZERO_STATE, PREDICT_ALL_SHARDS, OWN_AND_TELL, FSDP_BY_HAND, CLIP_SHARDS)
