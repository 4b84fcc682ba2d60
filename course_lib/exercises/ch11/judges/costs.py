"""Judges of chapter 11's costs: bytes sent and held by each method, and the tokens from which on a transfer hides."""

import math
import random
from typing import Any

from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.columns import EXACT, FINE, Column, Word, shares, table
from course_lib.judging.draws import draw_rows, generality, logarithmic, safely_off_whole, unseen
from course_lib.records import Case, Outcome, Verdict

METHODS = ("gather", "ulysses", "ring")  # in the order in which ties are decided
ITEM = 2  # bytes of a number

# --- choose-context-parallel


def possible(method: str, heads: int, kv_heads: int, ranks: int) -> bool:
    """Whether the heads can be spread over the ranks, where they must be."""
    return method != "ulysses" or (heads % ranks == 0 and (kv_heads % ranks == 0 or ranks % kv_heads == 0))


def sent(method: str, tokens: int, heads: int, kv_heads: int, width: int, ranks: int, copies: bool = True) -> float | None:
    """Bytes that a rank sends in the forward pass; without `copies`, as if KV heads never had to be sent to several ranks."""
    if not possible(method, heads, kv_heads, ranks):
        return None
    token = ITEM * width * tokens / ranks
    if method == "ulysses":
        return 2 * (heads + (max(kv_heads, ranks) if copies else kv_heads)) * token * (ranks - 1) / ranks
    return 2 * kv_heads * token * (ranks - 1)


def held(method: str, tokens: int, heads: int, kv_heads: int, width: int, ranks: int) -> float | None:
    """Bytes of keys and values on a rank at a time."""
    if not possible(method, heads, kv_heads, ranks):
        return None
    whole = 2 * ITEM * width * tokens
    parts = {"ring": kv_heads * min(2, ranks) / ranks, "gather": kv_heads, "ulysses": max(kv_heads, ranks) / ranks}
    return whole * parts[method]


def best(tokens: int, heads: int, kv_heads: int, width: int, ranks: int, room: float, *, order: tuple[str, ...] = METHODS, roomy: bool = False) -> str:
    """The method that sends the least of those that fit; `order` decides ties, and `roomy` ignores the room."""
    size = tokens, heads, kv_heads, width, ranks
    fits = [each for each in order if (bytes_ := held(each, *size)) is not None and (roomy or bytes_ <= room)]
    return min(fits, key=lambda each: sent(each, *size) or 0.0, default="none")


def _words(method: Any, tokens: int, heads: int, kv_heads: int, width: int, ranks: int) -> str:
    return f"{method}, {tokens:,} tokens, {heads} heads, {kv_heads} KV heads of {width}, {ranks} ranks"


def _as_heads(*row: Any) -> float | None:
    method, tokens, heads, _, width, ranks = row
    return sent(method, tokens, heads, heads, width, ranks)


def _only_heads(*row: Any) -> float | None:
    method, tokens, heads, kv_heads, width, ranks = row
    if method != "ulysses" or heads % ranks or possible(*row[:1], heads, kv_heads, ranks):
        return None
    return 2 * (heads + max(kv_heads, ranks)) * ITEM * width * tokens / ranks * (ranks - 1) / ranks


SENT = Column(
    part="sent",
    unit="bytes",
    want=sent,
    words=_words,
    rel=FINE,
    none="this number of heads does not fit the ranks; return None",
    mistakes=(
        Mistake("query-heads", _as_heads, "keys and values have KV heads."),
        Mistake("no-copies", lambda *row: sent(*row, copies=False), "with fewer KV heads than ranks, every rank still needs one."),
        Mistake("keys-alone", lambda *row: (sent(*row) or 0) / 2 if row[0] != "ulysses" else None, "this is half of it: keys and values."),
        Mistake("no-output", lambda m, t, h, k, w, n: (sent(m, t, h, k, w, n) or 0) - h * ITEM * w * t / n * (n - 1) / n if m == "ulysses" and not h % n else None, "the output goes back, too."),
        Mistake("all-ranks", lambda *row: (sent(*row) or 0) * row[5] / (row[5] - 1) if row[5] > 1 else None, "a rank sends nothing to itself: N − 1 in place of N."),
        Mistake("whole-sequence", lambda *row: (sent(*row) or 0) * row[5], "a rank has only tokens / N of the sequence."),
        Mistake("not-possible", _only_heads, "neither of KV heads and ranks divides the other; return None."),
    ),
)
HELD = Column(
    part="held",
    unit="bytes",
    want=held,
    words=_words,
    rel=FINE,
    none="this number of heads does not fit the ranks; return None",
    mistakes=(
        Mistake("one-block", lambda *row: (held(*row) or 0) / 2 if row[0] == "ring" else None, "the next block is under way while this one is in use."),
        Mistake("two-blocks", lambda *row: 2 * (held(*row) or 0) if row[0] == "ring" and row[5] == 1 else None, "with one rank no block is under way."),
        Mistake("query-heads", lambda m, t, h, k, w, n: held(m, t, h, h, w, n), "keys and values have KV heads."),
        Mistake("part-of-a-head", lambda m, t, h, k, w, n: 2 * ITEM * w * t * k / n if m == "ulysses" else None, "a rank has at least one whole KV head."),
    ),
)
BEST = Word(
    part="best",
    choices=(*METHODS, "none"),
    want=best,
    words=lambda t, h, k, w, n, room: f"{t:,} tokens, {h} heads, {k} KV heads of {w}, {n} ranks, room for {room:,.0f} bytes",
    mistakes=(
        Mistake("no-room", lambda *row: best(*row, roomy=True), "this one does not fit in the room."),
        Mistake("ties", lambda *row: best(*row, order=("ring", "ulysses", "gather")), "of equal methods, gather comes first."),
        Mistake("ties", lambda *row: best(*row, order=("ulysses", "gather", "ring")), "of equal methods, gather comes first."),
    ),
)


def _choose_cases(params: Params, rng: random.Random) -> list[Case]:
    size, methods = (8192, params["heads"], params["kv_heads"], 128), METHODS
    drawn = [
        (method, 64 * n * rng.randrange(1, 9), heads, kv, rng.choice((64, 96, 128)), n)
        for heads, kv, n in ((32, 8, 4), (64, 8, 16), (24, 8, 8), (40, 10, 5), (16, 16, 8))
        for method in methods
    ]
    edges = [
        (method, 960, heads, kv, 64, n)
        for heads, kv, n in ((32, 8, 1), (12, 4, 5), (12, 4, 6), (8, 8, 16), (48, 8, 12), (12, 1, 6), (30, 4, 2), (16, 3, 4))
        for method in ("ulysses", "ring")
    ]
    picks = []
    for tokens, heads, kv, width, n in ((4096, 32, 8, 128, 8), (4096, 32, 1, 64, 4), (4096, 16, 16, 64, 8), (960, 12, 4, 64, 5), (960, 8, 2, 64, 1), (4096, 64, 32, 64, 4)):
        rooms = sorted({value for method in methods if (value := held(method, tokens, heads, kv, width, n)) is not None})
        picks += [(tokens, heads, kv, width, n, room) for edge in rooms for room in (edge, edge - 1)] + [(tokens, heads, kv, width, n, 1e12)]
    return [
        shown_rows("what a rank sends", "sent", 0, [(method, *size, 4) for method in methods]),
        unseen(rng, "sent", 0, "sent, other sizes", drawn),
        generality("sent", 0, "sent: one rank, heads that do not fit, KV heads fewer than ranks", edges),
        shown_rows("what a rank holds", "held", 1, [(method, *size, 4) for method in methods]),
        unseen(rng, "held", 1, "held, other sizes", drawn),
        generality("held", 1, "held: one rank, heads that do not fit, KV heads fewer than ranks", edges),
        shown_rows("the best", "best", 2, [(*size, 4, 1e9), (*size, 8, 1e9)]),
        unseen(rng, "best", 2, "the best, with room at the edge", picks),
    ]


def shown_rows(name: str, part: str, index: int, rows: list[tuple[Any, ...]]) -> Case:
    """A shown case of a table."""
    return Case(name=name, part=part, args=(index, rows))


# --- hide-the-ring

Link = tuple[float, float, float, int, int, int]


def fewest(seen: str, flops: float, bandwidth: float, latency: float, heads: int, kv_heads: int, width: int, *, whole: bool = True) -> float:
    """Tokens per rank from which on a step's computation takes as long as the transfer of the next block."""
    a = {"all": 4, "causal": 2}[seen] * heads * width / flops
    b = 2 * ITEM * kv_heads * width / bandwidth
    exact = (b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)
    return max(1, math.ceil(exact)) if whole else exact


def _hide_cases(params: Params, rng: random.Random) -> list[Case]:
    seen = params["seen"]

    def drawn(count: int, *latencies: float) -> list[Link]:
        return draw_rows(
            rng,
            count,
            logarithmic(1e14, 2e15),
            logarithmic(1e10, 9e11),
            latencies,
            (32, 40, 64, 96),
            (1, 4, 8),
            (64, 128),
            keep=lambda row: safely_off_whole(fewest(seen, *row, whole=False)),
        )

    exact = [(2.0**40, 2.0**30, 0.0, 16, 4, 64), (2.0**44, 2.0**38, 0.0, 8, 8, 128), (2.0**40, 2.0**34, 0.0, 64, 1, 32)]
    tiny = [(1e9, 1e12, 0.0, 32, 1, 128), (1e12, 1e9, 1e-3, 1, 1, 1)]
    return [
        shown_rows("one link", "tokens", 0, [(4e14, 5e10, 0.0, 32, 8, 128)]),
        shown_rows("with latency", "tokens", 0, [(4e14, 5e10, 1e-5, 32, 8, 128)]),
        unseen(rng, "tokens", 0, "other links, no latency", drawn(4, 0.0)),
        unseen(rng, "tokens", 0, "other links with latency", drawn(5, 1e-6, 2e-5, 3e-4)),
        generality("tokens", 0, "computation exactly as long as the transfer", exact),
        generality("tokens", 0, "less than a token, and small numbers", tiny),
    ]


def _hide_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    seen = params["seen"]
    other = "causal" if seen == "all" else "all"

    def without_latency(*row: Any) -> float:
        return fewest(seen, *row[:2], 0.0, *row[3:])

    column = Column(
        part="tokens",
        unit="tokens",
        want=lambda *row: fewest(seen, *row),
        words=lambda f, b, latency, h, k, w: f"{f:.3g} FLOP/s, {b:.3g} B/s, {latency:g} s, {h} heads, {k} KV heads of {w}",
        rel=EXACT,
        mistakes=(
            Mistake("other-mask", lambda *row: fewest(other, *row), "this counts another number of FLOPs: which part of each block is computed?"),
            Mistake("no-latency", without_latency, "the latency is missing."),
            Mistake("rounded-down", lambda *row: math.floor(fewest(seen, *row, whole=False)), "rounded down, the transfer is still a little longer."),
            Mistake("one-more", lambda *row: fewest(seen, *row) + 1, "one token fewer is enough."),
            Mistake("query-heads", lambda f, b, latency, h, k, w: fewest(seen, f, b, latency, h, h, w), "keys and values have KV heads."),
            Mistake("keys-alone", lambda f, b, *rest: fewest(seen, f, 2 * b, *rest), "this is half of the bytes: keys and values, two bytes a number."),
        ),
    )
    return table(column)(params, case, outcome)


COSTS = {
    "choose-context-parallel": Judging(
        shares=shares(sent=(0.15, 0.2), held=(0.15, 0.2), best=(0.1, 0.2)),
        cases=_choose_cases,
        verdicts=table(SENT, HELD, BEST),
        why="""Ring and gather send KV heads, N − 1 blocks of them. Ulysses sends query heads, too, but only (N − 1)/N of a block. With few KV heads the ring sends little, and with many
ranks Ulysses sends less. Gather sends what the ring sends, in one call, and pays with memory.""",
        pytorch="`context_parallel` offers all-gather and all-to-all rotation of K and V (`set_rotate_method`).",
    ),
    "hide-the-ring": Judging(
        shares=shares(tokens=(0.4, 0.6)),
        cases=_hide_cases,
        verdicts=_hide_verdicts,
        why="""Computation grows with the square of the tokens on a rank, and the transfer with their number. So there is a smallest part that hides its transfer. GQA shrinks the transfer
and not the computation, which is why it helps the ring.""",
        pytorch="PyTorch's ring attention starts the exchange of the next block before it computes on the current one.",
    ),
}
