"""Chapter 00, Start here: two ranks that wait, a token round a ring, and the cuts with what makes them possible."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Drill
from course_lib.exercises.ch00.numbers import NUMBERS
from course_lib.exercises.ch00.numbers import ROUTES as SYMPTOM_ROUTES

__all__ = ["CARDS", "DRILLS", "NUMBERS"]

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


def _vary_route(rng: random.Random) -> Mapping[str, Any]:
    return {"direction": -1, "route": ROUTES[-1], "ranks": rng.choice((4, 6, 7))}


def _vary_options(rng: random.Random) -> Mapping[str, Any]:
    return {"options": option_list(tuple(rng.sample(PROPERTIES, len(PROPERTIES))))}


CARDS: tuple[Card, ...] = (
    Card(
        id="two-ranks-wait",
        chapter="00",
        title="Two ranks wait for each other",
        text=(
            "Repair the function above. Write `exchange(comm, x)`: each rank returns its **partner's** tensor."
            "\n\n"
            "There are N ranks, N even, and the pairs are {{pairs}}. Partners hold tensors of the same shape and dtype. "
            "A rank speaks only to its partner and sends its tensor once. The order must be safe on any machine: also where "
            "nothing is buffered, and where the operations of one pair run one after another, in the order of issue, unless "
            "they are batched (as on NCCL)."
        ),
        points=5,
        minutes=10,
        difficulty=2,
        importance=5,
        form="bug",
        hints=(
            "Both ranks stand in `send`. What has to happen on the *other* side before a `send` may return, and can the "
            "other side get there?",
            "The two ranks run the same code, but they need not do the same thing first. What do partners know that tells "
            "one of them to start by listening? Or: which call starts both halves at once, as one operation?",
            "`if comm.rank < partner:` send, then receive; `else:` receive, then send. Work out `partner` from `comm.rank` "
            "(and `comm.size`, where the pairs need it). A bare `isend` before the `recv` passes nearly everything, but not a "
            "machine that keeps one pair's operations in the order of issue; `batch_isend_irecv` passes there too.",
        ),
        answers=("exchange",),
        allowed="`comm.send`, `recv`, `isend`, `irecv`, and `comm.batch_isend_irecv([...])` of `P2POp(comm.isend, tensor, peer)` "
        "or `P2POp(comm.irecv, tensor, peer)`; `from course_lib.cluster import P2POp`.",
        params={"pairing": "neighbours", "pairs": PAIRINGS["neighbours"], "numbers": 6},
        vary=_vary_pairs,
        structural="pairing",
    ),
    Card(
        id="match-the-cuts",
        chapter="00",
        title="Match the cuts",
        text=(
            "Every strategy of this course cuts something, and may do so because of one property. Write `matches()`: a "
            "dictionary from each of the six cuts to a pair (letter of the property, what the ranks say to each other).\n\n"
            "| key | what is cut |\n|---|---|\n"
            "| `data` | the batch; every rank holds the whole model |\n"
            "| `sharded` | the batch, *and* the weights, gradients and optimiser state between uses |\n"
            "| `tensor` | every weight matrix |\n"
            "| `pipeline` | the stack of layers |\n"
            "| `context` | the sequence, attention included |\n"
            "| `expert` | the feed-forward layers, into many of which a token visits few |\n\n"
            "Properties, each used once:\n\n{{options}}\n\n"
            "What the ranks say, in the cut's own traffic; one of the five is used twice:\n\n"
            "- `all_reduce`: all add up their tensors, and all get the sum\n"
            "- `all_gather + reduce_scatter`: collect the pieces of a layer before it is used; add up its gradients, each "
            "rank keeping one piece\n"
            "- `send_recv`: pass one tensor on to the next rank, and its gradient back\n"
            "- `ring`: pass blocks of keys and values round all ranks\n"
            "- `all_to_all`: every rank has something different for every other\n\n"
            "A row counts when both halves are right. A letter used twice counts for neither row."
        ),
        points=3,
        minutes=5,
        difficulty=2,
        importance=4,
        hints=(
            "Start with the two you can picture: where does a layer's output go when the layers live apart? Where does a "
            "token go when its expert lives on another rank?",
            "`data` and `tensor` end in the same act: parts of a *sum* lie on different ranks. What is summed differs: "
            "gradients of samples, or products of slices.",
            "`sharded` must have a layer whole for a moment, then need not keep it. `context` visits every block of keys "
            "and values, in any order, with two running numbers per row.",
        ),
        answers=("matches",),
        params={"options": option_list(PROPERTIES)},
        vary=_vary_options,
    ),
    Card(
        id="token-round-the-ring",
        chapter="00",
        title="A token round the ring",
        text=(
            "N ranks stand in a ring. On every rank `token` holds N whole numbers: the rank's own secret stamp in its own "
            "slot, `token[comm.rank]`, and 0 elsewhere. Rank 0 sends its token off; it travels {{route}}, and every rank "
            "adds its stamp on the way.\n\n"
            "Write `pass_token(comm, token)`. Each rank returns the token **as it left its hands**; rank 0 returns it as it "
            "**came home**, with all N stamps. One rank alone returns its own token and sends nothing."
        ),
        points=5,
        minutes=8,
        difficulty=2,
        importance=3,
        kind="more",
        hints=(
            "Which rank must not begin by receiving? What does every other rank have to hold before it may send?",
            "Each rank has two neighbours: the one it hears from and the one it speaks to. Modulo N closes the ring, also "
            "for a step of −1. Rank 0 sends first and receives last; all others the other way round.",
            "`after = (comm.rank + step) % comm.size`, `before = (comm.rank - step) % comm.size`, with the step that the "
            "route asks for. Others: `comm.recv(seen, before)`, add your stamp to `seen`, `comm.send(seen, after)`, return it.",
        ),
        answers=("pass_token",),
        allowed="`comm.send`, `recv`, `isend`, `irecv`.",
        params={"direction": 1, "route": ROUTES[1], "ranks": 5},
        vary=_vary_route,
        structural="direction",
    ),
)


def _deadline(rng: random.Random) -> Mapping[str, Any]:
    return {
        "params": rng.choice((7e9, 13e9, 34e9)),
        "tokens": rng.choice((1e12, 2e12)),
        "mfu": rng.choice((0.35, 0.4, 0.45)),
        "days": rng.choice((30, 60, 90)),
    }


DRILLS: tuple[Drill, ...] = (
    Drill(
        id="chapter-for-a-symptom",
        chapter="00",
        unit="chapter",
        text="{{symptom}} Which chapter do you open first? Give its number.",
        params={"symptom": SYMPTOMS[0]},
        vary=lambda rng: {"symptom": rng.choice(SYMPTOMS)},
    ),
    Drill(
        id="state-of-a-model",
        chapter="00",
        unit="GB",
        text="A model of {{params:count}} parameters trains with 16-bit weights and gradients and Adam in 32 bits, master "
        "copy included. How many GB of state?",
        params={"params": 70e9},
        vary=lambda rng: {"params": rng.choice((1e9, 3e9, 8e9, 13e9, 34e9, 70e9))},
    ),
    Drill(
        id="cards-for-a-deadline",
        chapter="00",
        unit="cards",
        text="{{params:count}} parameters, {{tokens:count}} tokens, H100s at an MFU of {{mfu:percent}}, {{days}} days. "
        "How many cards, if nothing is lost to scaling?",
        params={"params": 7e9, "tokens": 2e12, "mfu": 0.4, "days": 30},
        vary=_deadline,
    ),
    Drill(
        id="tokens-in-a-step",
        chapter="00",
        unit="tokens",
        text="{{ranks}} data-parallel ranks, {{micro}} sequences in a micro-batch, {{accumulate}} micro-batches before each "
        "optimiser step, {{seq:int}} tokens in a sequence. How many tokens does one step see?",
        params={"ranks": 16, "micro": 4, "accumulate": 2, "seq": 2048},
        vary=lambda rng: {
            "ranks": rng.choice((16, 32, 64)),
            "micro": rng.choice((1, 2, 4)),
            "accumulate": rng.choice((2, 4, 8)),
            "seq": rng.choice((2048, 4096, 8192)),
        },
    ),
    Drill(
        id="price-of-a-point",
        chapter="00",
        unit="US dollars",
        text="A run costs {{usd:usd}} at an MFU of {{mfu:percent}}. What does it save to gain one percentage point?",
        params={"usd": 1e6, "mfu": 0.4},
        vary=lambda rng: {"usd": rng.choice((5e5, 1e6, 2e6, 5e6)), "mfu": rng.choice((0.3, 0.35, 0.4, 0.45))},
    ),
)
