"""Chapter 00, Start here: two ranks that wait, a token around a ring, strategies and their properties, symptoms and chapters."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.card_parts import folded
from course_lib.exercises.ch00.numbers import ROUTES as SYMPTOM_ROUTES
from course_lib.exercises.drilling import of_chapter, pick
from course_lib.exercises.returns import Anything, PerRank, Tensor

PAIRINGS: Mapping[str, str] = {
    "neighbors": "(0, 1), (2, 3), (4, 5) and so on",
    "mirrored": "(0, N−1), (1, N−2) and so on, inward",
    "halves": "(0, N/2), (1, N/2+1) and so on, the lower half with the upper half",
}

ROUTES: Mapping[int, str] = {1: "0 → 1 → 2 → … → 0", -1: "0 → N−1 → N−2 → … → 0"}

# The six properties, in an order that reveals nothing; the judge knows which strategy rests on which.
PROPERTIES = (
    "Layers compose: each one needs only the output of the one before it.",
    "A weight is needed only while its own layer computes; at other times another rank may hold it.",
    "A batch's gradient is a sum over its samples, and a sum may be grouped in any way.",
    "Each token uses only a few of the experts; for all other tokens an expert's weights are idle.",
    "A matrix product is linear: split the matrix, multiply the parts, then join or add the results.",
    "Softmax over a row can be computed block by block, with a running maximum and a running sum.",
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

- There are N ranks, N even, and the pairs are {{pairs}}. Partners hold tensors of the same shape and dtype.
- A rank sends its tensor once, and only to its partner.
- The order must be safe on any machine. Messages may be unbuffered. The operations of one pair may also run one after another, in
  the order in which they were issued, unless they are batched (as on NCCL).""",
    **Worth(points=5, minutes=10, difficulty=2, importance=5),
    form="bug",
    hints=(
        "Both ranks wait in `send`. What has to happen on the *other* rank before a `send` may return, and can that rank reach it?",
        "The two ranks run the same code, but they need not do the same thing first. What do partners know that lets one of them start "
        "by receiving? Or: which call starts the send and the receive together, as one operation?",
        "`if comm.rank < partner:` send, then receive; `else:` receive, then send. Work out `partner` from `comm.rank` (and `comm.size`, "
        "if the pairs need it). A bare `isend` before the `recv` passes almost every case, but not on a machine that runs one pair's "
        "operations in the order of issue; `batch_isend_irecv` passes there too.",
    ),
    answers=("exchange",),
    allowed="`comm.send`, `recv`, `isend`, `irecv`, and `comm.batch_isend_irecv([...])` of `P2POp(comm.isend, tensor, peer)` "
    "or `P2POp(comm.irecv, tensor, peer)`; `from course_lib.cluster import P2POp`.",
    params={"pairing": "neighbors", "pairs": PAIRINGS["neighbors"], "numbers": 6},
    vary=_vary_pairs,
    structural="pairing",
    returns=PerRank(Tensor()),
)

SENT = """- `all_reduce`: add up the tensors of all ranks; every rank gets the sum
- `all_gather + reduce_scatter`: collect the parts of a layer before its use; add up its gradients, each rank keeping one part
- `send_recv`: pass one tensor to the next rank, and its gradient back
- `ring`: pass blocks of keys and values around all ranks
- `all_to_all`: every rank sends something different to every other rank"""

MATCH_THE_CUTS = Card(
    id="match-the-cuts",
    chapter="00",
    title="Match the strategies",
    text=f"""Match each of the six strategies to the property that makes it possible and to its communication. Write `matches()`: it returns
a dictionary from each strategy to a pair (letter of the property, communication).

- **What each strategy splits:** `data` the batch; `sharded` the batch and, between uses, the weights, gradients and optimizer state;
  `tensor` every weight matrix; `pipeline` the stack of layers; `context` the sequence, attention included; `expert` the feed-forward layers.
- **Communication:** `all_reduce`, `all_gather + reduce_scatter`, `send_recv`, `ring` or `all_to_all`. One of the five is used twice.
- A row counts if both halves are right. A letter used twice counts for neither row.

Properties, each used once:

{{{{options}}}}

{folded("What each communication sends", SENT)}""",
    **Worth(points=3, minutes=5, difficulty=2, importance=4),
    hints=(
        "Start with the two that are easiest to picture: where does a layer's output go if the next layer is on another rank? Where does a "
        "token go if its expert is on another rank?",
        "`data` and `tensor` end in the same way: parts of a *sum* are on different ranks. They differ in what is summed: gradients of "
        "samples, or products of slices.",
        "`sharded` needs a whole layer only briefly. `context` uses every block of keys and values, in any order, with two running "
        "numbers per row.",
    ),
    answers=("matches",),
    params={"options": option_list(PROPERTIES)},
    vary=lambda rng: {"options": option_list(tuple(rng.sample(PROPERTIES, len(PROPERTIES))))},
    returns=Anything("a dictionary with a row for each strategy"),
)

TOKEN_ROUND_THE_RING = Card(
    id="token-round-the-ring",
    chapter="00",
    title="A token around the ring",
    text="""Pass a token once around a ring of N ranks, so that it collects every rank's stamp. Write `pass_token(comm, token)`.

- On every rank, `token` holds N whole numbers: the rank's own secret stamp in its own slot, `token[comm.rank]`, and 0 elsewhere.
- Rank 0 sends its token. It travels {{route}}, and every rank adds its stamp.
- Each rank returns the token **as it sent it on**; rank 0 returns it as it **came back**, with all N stamps.
- A single rank returns its own token and sends nothing.""",
    **Worth(points=5, minutes=8, difficulty=2, importance=3),
    kind="more",
    hints=(
        "Which rank must not start by receiving? What does every other rank need before it may send?",
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


def _symptom_list(texts: Sequence[str]) -> str:
    """Symptoms as a numbered Markdown list."""
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))


OPEN_FIRST = Card(
    id="open-first",
    chapter="00",
    title="Which chapter first?",
    text="""Find the chapter to open first for each of six failures. Write `open_first()`: it returns a list of six chapter numbers,
in the order of these symptoms. Every number is the chapter that explains the symptom itself, and each chapter is used once.

{{symptoms}}""",
    **Worth(points=3, minutes=5, difficulty=2, importance=3),
    kind="more",
    hints=(
        "For each symptom: which resource ran out, or which rank waits for what? The map names the chapter for each of these ideas.",
        "Two symptoms are about memory, but in one of them a copy is the problem. Two are about ranks that wait: in one they wait "
        "forever, in the other for a part of every step.",
        "The chapters are, in rising order: 02 memory, 05 mixed precision, 06 collectives, 08 sharding, 10 pipelines, 14 failures.",
    ),
    answers=("open_first",),
    params={"symptoms": _symptom_list(SYMPTOMS)},
    vary=lambda rng: {"symptoms": _symptom_list(rng.sample(SYMPTOMS, len(SYMPTOMS)))},
    returns=Anything("a list of six chapter numbers"),
)

CORE = (TWO_RANKS_WAIT, MATCH_THE_CUTS, TOKEN_ROUND_THE_RING, OPEN_FIRST)

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
        "A model of {{params:count}} parameters trains with 16-bit weights and gradients and with Adam in 32 bits, including a master "
        "copy. How many GB of state does it have?",
        "GB",
        {"params": 70e9},
        pick(params=(1e9, 3e9, 8e9, 13e9, 34e9, 70e9)),
    ),
    _drill(
        "cards-for-a-deadline",
        "{{params:count}} parameters, {{tokens:count}} tokens, H100s at an MFU of {{mfu:percent}}, {{days}} days. How many GPUs does "
        "the run need with perfect scaling?",
        "GPUs",
        {"params": 7e9, "tokens": 2e12, "mfu": 0.4, "days": 30},
        pick(params=(7e9, 13e9, 34e9), tokens=(1e12, 2e12), mfu=(0.35, 0.4, 0.45), days=(30, 60, 90)),
    ),
    _drill(
        "tokens-in-a-step",
        "{{ranks}} data-parallel ranks, {{micro}} sequences in a micro-batch, {{accumulate}} micro-batches before each optimizer step, "
        "{{seq:int}} tokens in a sequence. How many tokens does one step process?",
        "tokens",
        {"ranks": 16, "micro": 4, "accumulate": 2, "seq": 2048},
        pick(ranks=(16, 32, 64), micro=(2, 4, 8), accumulate=(2, 4, 8), seq=(2048, 4096, 8192)),
    ),
    _drill(
        "price-of-a-point",
        "A run costs {{usd:usd}} at an MFU of {{mfu:percent}}. How much does one percentage point more save?",
        "US dollars",
        {"usd": 1e6, "mfu": 0.4},
        pick(usd=(5e5, 1e6, 2e6, 5e6), mfu=(0.3, 0.35, 0.4, 0.45)),
    ),
)
