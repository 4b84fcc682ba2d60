"""Chapter 00, Start here: two ranks that wait, a token round a ring, and the cuts with what makes them possible."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch00.numbers import ROUTES as SYMPTOM_ROUTES
from course_lib.exercises.drilling import of_chapter, pick
from course_lib.exercises.returns import Anything, PerRank, Tensor

PAIRINGS: Mapping[str, str] = {
    "neighbours": "(0, 1), (2, 3), (4, 5) and so on",
    "mirrored": "(0, N−1), (1, N−2) and so on, inwards",
    "halves": "(0, N/2), (1, N/2+1) and so on, the lower half with the upper",
}

ROUTES: Mapping[int, str] = {1: "0 → 1 → 2 → … → 0", -1: "0 → N−1 → N−2 → … → 0"}

# The six properties, in no order that helps; which cut rests on which is the judge's to know.
PROPERTIES = (
    "Layers compose: each one needs only the output of the one before it.",
    "A weight is needed only while its own layer computes; the rest of the time it may live elsewhere.",
    "A batch's gradient is a sum over its samples, and a sum may be grouped in any way.",
    "Each token visits only a few of the experts; for all other tokens an expert's weights are idle.",
    "A matrix product is linear: cut the matrix, multiply the parts, then join or add the results.",
    "Softmax over a row can be computed block by block, if a running maximum and a running sum are kept.",
)

SYMPTOMS = tuple(SYMPTOM_ROUTES)


def option_list(texts: tuple[str, ...]) -> str:
    """The properties as a Markdown list with letters, as the statement shows them."""
    return "\n".join(f"- **{letter}** {text}" for letter, text in zip("ABCDEF", texts, strict=True))


def _vary_pairs(rng: random.Random) -> Mapping[str, Any]:
    pairing = rng.choice(("mirrored", "halves"))
    return {"pairing": pairing, "pairs": PAIRINGS[pairing], "numbers": rng.randrange(4, 10)}


TWO_RANKS_WAIT = Card(
    id="two-ranks-wait",
    chapter="00",
    title="Two ranks wait for each other",
    text="""Repair the function above. Write `exchange(comm, x)`: each rank returns its **partner's** tensor.

There are N ranks, N even, and the pairs are {{pairs}}. Partners hold tensors of the same shape and dtype. A rank sends its tensor once,
and only to its partner. The order must be safe on any machine: also where nothing is buffered, and where the operations of one pair run
one after another in the order of issue, unless they are batched (as on NCCL).""",
    **Worth(points=5, minutes=10, difficulty=2, importance=5),
    form="bug",
    hints=(
        "Both ranks wait in `send`. What has to happen on the *other* side before a `send` may return, and can the other side get there?",
        "The two ranks run the same code, but they need not do the same thing first. What do partners know that lets one of them start "
        "by receiving? Or: which call starts both halves at once, as one operation?",
        "`if comm.rank < partner:` send, then receive; `else:` receive, then send. Work out `partner` from `comm.rank` (and `comm.size`, "
        "where the pairs need it). A bare `isend` before the `recv` passes nearly everything, but not a machine that keeps one pair's "
        "operations in the order of issue; `batch_isend_irecv` passes there too.",
    ),
    answers=("exchange",),
    allowed="`comm.send`, `recv`, `isend`, `irecv`, and `comm.batch_isend_irecv([...])` of `P2POp(comm.isend, tensor, peer)` "
    "or `P2POp(comm.irecv, tensor, peer)`; `from course_lib.cluster import P2POp`.",
    params={"pairing": "neighbours", "pairs": PAIRINGS["neighbours"], "numbers": 6},
    vary=_vary_pairs,
    structural="pairing",
    returns=PerRank(Tensor()),
)

MATCH_THE_CUTS = Card(
    id="match-the-cuts",
    chapter="00",
    title="Match the cuts",
    text="""Every strategy of this course cuts something, and one property makes that possible. Write `matches()`: it returns a
dictionary from each of the six cuts to a pair (letter of the property, what the ranks say to each other).

| key | what is cut |
|---|---|
| `data` | the batch; every rank holds the whole model |
| `sharded` | the batch, *and* the weights, gradients and optimizer state between uses |
| `tensor` | every weight matrix |
| `pipeline` | the stack of layers |
| `context` | the sequence, attention included |
| `expert` | the feed-forward layers: there are many, and a token visits few of them |

Properties, each used once:

{{options}}

What the ranks say, in the traffic of the cut; one of the five is used twice:

- `all_reduce`: all ranks add up their tensors, and all get the sum
- `all_gather + reduce_scatter`: collect the pieces of a layer before it is used; add up its gradients, each rank keeping one piece
- `send_recv`: pass one tensor on to the next rank, and its gradient back
- `ring`: pass blocks of keys and values round all ranks
- `all_to_all`: every rank has something different for every other

A row counts when both halves are right. A letter used twice counts for neither row.""",
    **Worth(points=3, minutes=5, difficulty=2, importance=4),
    hints=(
        "Start with the two you can picture: where does a layer's output go when the layers live apart? Where does a token go when its "
        "expert lives on another rank?",
        "`data` and `tensor` end in the same way: parts of a *sum* lie on different ranks. They differ in what is summed: gradients of "
        "samples, or products of slices.",
        "`sharded` needs a whole layer for a moment, then need not keep it. `context` visits every block of keys and values, in any order, "
        "with two running numbers per row.",
    ),
    answers=("matches",),
    params={"options": option_list(PROPERTIES)},
    vary=lambda rng: {"options": option_list(tuple(rng.sample(PROPERTIES, len(PROPERTIES))))},
    returns=Anything("a dictionary with a row for each cut"),
)

TOKEN_ROUND_THE_RING = Card(
    id="token-round-the-ring",
    chapter="00",
    title="A token round the ring",
    text="""N ranks form a ring. On every rank `token` holds N whole numbers: the rank's own secret stamp in its own slot,
`token[comm.rank]`, and 0 elsewhere. Rank 0 sends its token off; it travels {{route}}, and every rank adds its stamp on the way.

Write `pass_token(comm, token)`. Each rank returns the token **as it sent it on**; rank 0 returns it as it **came home**, with all N
stamps. One rank alone returns its own token and sends nothing.""",
    **Worth(points=5, minutes=8, difficulty=2, importance=3),
    kind="more",
    hints=(
        "Which rank must not begin by receiving? What does every other rank need before it may send?",
        "Each rank has two neighbors: it receives from one and sends to the other. Modulo N closes the ring, also for a step of −1. "
        "Rank 0 sends first and receives last; all others receive first.",
        "`after = (comm.rank + step) % comm.size`, `before = (comm.rank - step) % comm.size`, with the step of the route. Others: "
        "`comm.recv(seen, before)`, add your stamp to `seen`, `comm.send(seen, after)`, return it.",
    ),
    answers=("pass_token",),
    allowed="`comm.send`, `recv`, `isend`, `irecv`.",
    params={"direction": 1, "route": ROUTES[1], "ranks": 5},
    vary=lambda rng: {"direction": -1, "route": ROUTES[-1], "ranks": rng.choice((4, 6, 7))},
    structural="direction",
    returns=PerRank(Tensor()),
)

CORE = (TWO_RANKS_WAIT, MATCH_THE_CUTS, TOKEN_ROUND_THE_RING)

_drill = of_chapter("00")

DRILLS = (
    _drill(
        "chapter-for-a-symptom",
        "{{symptom}} Which chapter do you open first? Give its number.",
        "chapter",
        {"symptom": SYMPTOMS[0]},
        pick(symptom=SYMPTOMS),
    ),
    _drill(
        "state-of-a-model",
        "A model of {{params:count}} parameters trains with 16-bit weights and gradients and Adam in 32 bits, master copy included. "
        "How many GB of state?",
        "GB",
        {"params": 70e9},
        pick(params=(1e9, 3e9, 8e9, 13e9, 34e9, 70e9)),
    ),
    _drill(
        "cards-for-a-deadline",
        "{{params:count}} parameters, {{tokens:count}} tokens, H100s at an MFU of {{mfu:percent}}, {{days}} days. How many GPUs, if "
        "nothing is lost to scaling?",
        "GPUs",
        {"params": 7e9, "tokens": 2e12, "mfu": 0.4, "days": 30},
        pick(params=(7e9, 13e9, 34e9), tokens=(1e12, 2e12), mfu=(0.35, 0.4, 0.45), days=(30, 60, 90)),
    ),
    _drill(
        "tokens-in-a-step",
        "{{ranks}} data-parallel ranks, {{micro}} sequences in a micro-batch, {{accumulate}} micro-batches before each optimizer step, "
        "{{seq:int}} tokens in a sequence. How many tokens does one step see?",
        "tokens",
        {"ranks": 16, "micro": 4, "accumulate": 2, "seq": 2048},
        pick(ranks=(16, 32, 64), micro=(1, 2, 4), accumulate=(2, 4, 8), seq=(2048, 4096, 8192)),
    ),
    _drill(
        "price-of-a-point",
        "A run costs {{usd:usd}} at an MFU of {{mfu:percent}}. What does it save to gain one percentage point?",
        "US dollars",
        {"usd": 1e6, "mfu": 0.4},
        pick(usd=(5e5, 1e6, 2e6, 5e6), mfu=(0.3, 0.35, 0.4, 0.45)),
    ),
)
