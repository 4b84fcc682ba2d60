"""Core exercises of chapter 08: state per rank, a prediction, ZeRO stage 1, FSDP by hand, one norm over all parts."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib import facts, memory
from course_lib.exercises import Card, Worth
from course_lib.exercises.ch08.probes import by_hand, clipped, owned
from course_lib.exercises.drilling import pick
from course_lib.exercises.probes import PREDICTION, rows
from course_lib.exercises.returns import Anything, DictOf, ListOf, Maybe, Number, PerRank, Tensor, TupleOf, Word
from course_lib.units import GB, TFLOP

BUCKETS = ("weights", "grads", "master", "moments")
STATE = ("memory:zero_bytes", "memory:zero_bytes_per_param", "memory:zero_by_bucket")


def card_memory(device: str = "H100 SXM") -> float:
    """Bytes of memory of one device, as a plain number."""
    return float(facts.device(device).memory)


def _buckets(convention: str) -> dict[str, Any]:
    buckets = memory.CONVENTIONS[convention].buckets
    return {"convention": convention, **{name: buckets[name] for name in BUCKETS}}


def _vary_state(draw: random.Random) -> Mapping[str, Any]:
    size = {"params": draw.choice((8e9, 13e9, 34e9, 70e9)), "ranks": draw.choice((16, 32, 128, 256))}
    return {**size, **_buckets(draw.choice("CG"))}


ZERO_STATE = Card(
    id="zero-state",
    chapter="08",
    title="Who holds how much?",
    text="""Compute how much training state a rank holds in each stage of ZeRO, and how many ranks a model needs. Stage 1 shards the optimizer
state (master copy and moments), stage 2 also the gradients, and stage 3 also the weights; stage 0 shards nothing. Every rank holds
the other buckets whole.

- `buckets` has the bytes per parameter of each bucket: here `{"weights": {{weights:plain}}, "grads": {{grads:plain}},
  "master": {{master:plain}}, "moments": {{moments:plain}}}`; other optimizers have others.
- `held(params, stage, ranks, buckets)` returns the bytes of state on one rank. Shown: {{params:count}} parameters on {{ranks}} ranks in
  stages 0 to 3, and 405B on 1,024 ranks.
- `fewest_ranks(params, stage, buckets, memory)` returns the fewest ranks on which the state fits into `memory` bytes each. Exactly full
  fits. Return `None` where no number of ranks is enough. Shown: GPUs with {{memory:gb}}.""",
    **Worth(points=4, minutes=5, difficulty=1, importance=5),
    hints=(
        "Which buckets does a stage leave whole? No number of ranks makes them smaller.",
        "Bytes on a rank are params × (whole buckets + sharded buckets / ranks). For the inverse, subtract the whole buckets from the memory; "
        "the sharded ones have the rest.",
        "`since = {'master': 1, 'moments': 1, 'grads': 2, 'weights': 3}`; `whole = sum(b for name, b in buckets.items() if stage < since[name])`; "
        "`math.ceil(params * shared / (memory - params * whole))`; treat the cases where no memory is left, or nothing is sharded, separately.",
    ),
    answers=("held", "fewest_ranks"),
    allowed="plain Python; the library's formulas are switched off.",
    hides=STATE,
    params={"params": 7.5e9, "ranks": 64, "memory": card_memory(), **_buckets("B")},
    vary=_vary_state,
    needs=("02",),
    probe=rows,
)

PREDICT_ALL_SHARDS = Card(
    id="predict-all-shards",
    chapter="08",
    title="Prediction: one model over all GPUs",
    text="""Estimate for how many **seconds** a GPU sends in one step of FSDP, before you compute anything. A model of {{params:count}} parameters is
sharded over **all** {{gpus:int}} GPUs of a cluster, with no other kind of parallelism.

- Each step gathers the weights for the forward pass and again for the backward pass, and reduces the gradients to their owners, all in
  16 bits, one ring collective after another.
- Most messages of such a ring leave the server: each GPU sends {{bandwidth:gbps}} one way.
- `sending_interval()` returns `(low, high)`, at most a factor of four apart. You earn the points for committing yourself, not for being
  right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    hints=(
        "How many bytes are the weights? How often does a rank pass nearly all of them on?",
        "In a ring, a rank sends all parts but one for an all-gather, and as many for a reduce-scatter: each about the bytes of the weights.",
        "`3 * 2 * params / bandwidth`; a factor of two in each direction is a safe interval.",
    ),
    answers=("sending_interval",),
    params={"params": 405e9, "gpus": 24_576, "bandwidth": 50 * GB, "tokens": 2**22, "rate": 400 * TFLOP},
    vary=pick(params=(70e9, 180e9, 405e9), gpus=(2048, 8192, 16_384), bandwidth=(25 * GB, 50 * GB)),
)

FLAT = ("sharding:owners_of", "sharding.rows:rows_of", "data_parallel:buckets_of")

OWN_AND_TELL = Card(
    id="own-and-tell",
    chapter="08",
    title="ZeRO stage 1: update what you own, send the result",
    text="""Write an optimizer of ZeRO stage 1: every rank holds only a part of the optimizer state, updates the matching part of the
weights, and sends the result. A public course checked such optimizers only by the resulting weights (*stanford-cs336/assignment2-systems,
commit 9d95f3b*), so the plain optimizer passed and saved no memory; this exercise also checks memory and bytes.

- `shard_optimizer(comm, parameters, make)` returns an object whose `step()` has the effect of the plain optimizer's.
- `parameters` is a list of tensors, equal on all ranks. When `step()` is called, their `.grad` is already averaged over ranks; it is new for
  every step. After `step()` **all ranks hold all new weights**, in the given tensors.
- `make(tensors)` makes an optimizer over a list of tensors, which must not be empty. It is elementwise, so you may give it whole tensors
  or pieces of them.
- **State**: no rank updates more bytes than a fair share plus the largest tensor. Tensors differ a lot in size, so equal numbers of tensors
  are not fair shares.
- **Bytes**: each rank sends the values that it updated to each other rank once, and nothing else.
- A tensor that is in the list twice (tied weights) is updated once. One with `requires_grad=False` is neither updated nor sent. There may
  be more ranks than tensors.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "Every rank knows the list and its sizes. Do ranks have to communicate to agree on owners?",
        "Take each trained tensor once, the largest first, and give it to the rank with the fewest bytes so far: all ranks compute the same "
        "table. Make an optimizer over your own tensors; after its step, every owner broadcasts.",
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

CALL = TupleOf({"pass": Word(("forward", "backward")), "unit": Number(whole=True)})
WATCHED = {name: Number() for name in ("held", "ahead", "bytes")}  # units and bytes on a rank while it computes

OWNERS: Mapping[int, str] = {
    0: "rank r holds part r",
    1: "rank r holds part **(r + 1) mod N**, so the last rank holds part 0",
}

FSDP_BY_HAND = Card(
    id="fsdp-by-hand",
    chapter="08",
    title="Gather, compute, free",
    text="""Write one step of FSDP by hand, so that no rank ever holds more than two units whole. A model is a stack of units; the weights of a unit
form one flat row, which is padded with zeros to a multiple of N and cut into N equal parts: {{holds}}. Ranks have different inputs and
average their gradients.

- Write `sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True)`.
- `shards[u]` is this rank's part of unit u; `counts[u]` is the unit's number of weights, without padding.
- `forward(u, weights, x)` runs unit u on x, where `weights` is its flat row of `counts[u]` numbers. `loss(y)` returns the gradient of the
  last unit's output. `backward(u, weights, x, grad)` takes the unit's input and the gradient of its output, and returns
  `(gradient of x, gradient of the weights)`, the latter flat.
- Return a list with **this rank's part of each unit's mean gradient**, in the shape of `shards[u]`, with zeros as padding.
- Gather a unit's weights for the forward pass and **again** for the backward pass; only the last unit may keep them in between. With
  `reshard=False`, keep every row from the forward pass to its unit's backward pass, and gather it once.
- Reduce the gradients to parts unit by unit.
- **Memory.** At most two units' weights and two units' gradients are whole on a rank at any time, so only the next unit may be
  gathered ahead. The check fills the previous unit's row with NaN when another unit computes, if the row still exists.""",
    **Worth(points=14, minutes=30, difficulty=4, importance=5),
    hints=(
        "Follow one unit through the step. When are its weights needed? What else from the forward pass does its backward pass need?",
        "`gather(u)` makes an empty row of N parts, all-gathers into it and cuts the padding off. Forward: gather, run, keep x, free the row. "
        "Backward, last unit first: gather, run, put the flat gradient into a padded row of zeros, reduce-scatter, divide by N.",
        "`row = shard.new_empty(N * len(shard)); comm.all_gather_into_tensor(row, shard); row[:counts[u]]`. Gradients: "
        "`full = torch.zeros(N * len(shard)); full[:counts[u]] = grad; mine = torch.empty_like(shard); comm.reduce_scatter_tensor(mine, full, "
        "op='AVG')`. Where owners are shifted, collectives still use the order of ranks: roll the parts.",
    ),
    answers=("sharded_step",),
    allowed="every operation of `comm`; torch.",
    hides=("sharding.rows:rows_of",),
    params={"owner": 0, "holds": OWNERS[0], "units": 6, "width": 5},
    vary=lambda draw: {"owner": 1, "holds": OWNERS[1], "units": draw.choice((5, 6, 7)), "width": draw.randrange(4, 7)},
    structural="owner",
    probe=by_hand,
    returns=PerRank(DictOf({"parts": ListOf(Tensor()), "order": ListOf(CALL), **WATCHED})),
)

NORMS: Mapping[str, str] = {
    "2": "the root of the sum of all squares, over all trained numbers of the model",
    "max": "the **largest absolute value** among all trained numbers of the model (the maximum norm)",
}

CLIP_SHARDS = Card(
    id="clip-shards",
    chapter="08",
    title="One norm for all parts",
    text="""Compute the norm of the whole gradient when every rank has only parts of it, and clip by that norm. Two real runs clipped by a wrong
norm, and nothing crashed: in one, each rank took the norm of its own parts (*pytorch/torchtitan, issue 766, January 2025*); in the
other, parts that several ranks held were counted several times (*ByteDance-Seed/VeOmni, issue 184, November 2025*).

- Write `clip_parts(inside, across, parts, counts, most)`.
- `inside` is the communicator of the ranks that shard one copy of the model. `across` is that of the ranks that hold **the same parts** as
  this one, with the same gradients. Without hybrid sharding (HSDP, later in this chapter), `across` has one rank.
- `parts` is a list of flat gradients. The first `counts[i]` numbers of `parts[i]` are this rank's. After them comes padding, which may
  hold **anything**, even NaN. A rank may have no numbers at all.
- The norm is {{means}}. Return it as a float, the same on all ranks.
- If it is larger than `most`, scale all parts in place by most / norm. Otherwise leave them unchanged.
- Add in float64: in float32, the squares of large gradients overflow. Send a number or two per rank, however many parts there are.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    hints=(
        "If one process had all numbers of the model, how often would it count a number that three ranks hold? And padding?",
        "Compute one number per rank from its own parts without padding. All-reduce it among the ranks whose parts make up the model. Then every "
        "rank takes the root (or not) and divides.",
        "`total = torch.zeros((), dtype=torch.float64)`; `total += part[:count].double().square().sum()`; `inside.all_reduce(total)`; "
        "`norm = total.sqrt().item()`; `if norm > most: part.mul_(most / norm)`. For the maximum: `op='MAX'`, and no part may be empty for `max()`.",
    ),
    answers=("clip_parts",),
    may_change=("arguments",),
    allowed="every operation of the two communicators; torch.",
    hides=("sharding:gradient_norm", "sharding:clip_gradients"),
    params={"norm": "2", "means": NORMS["2"], "numbers": 20},
    vary=lambda draw: {"norm": "max", "means": NORMS["max"], "numbers": draw.randrange(15, 30)},
    structural="norm",
    probe=clipped,
    returns=PerRank(DictOf({"norm": Anything("the norm"), "parts": ListOf(Tensor())})),
)

CORE = (ZERO_STATE, PREDICT_ALL_SHARDS, OWN_AND_TELL, FSDP_BY_HAND, CLIP_SHARDS)
