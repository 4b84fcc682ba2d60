"""Judge of hide-the-ring: when does the ring cost nothing?"""

import math
import random
from typing import Any

from course_lib.judging import Judging, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, Column, shares, table
from course_lib.judging.draws import draw_rows, each_changed, generality, logarithmic, safely_off_whole, unseen
from course_lib.judging.mistakes import mistakes
from course_lib.records import Case, Outcome, Verdict

Link = tuple[float, float, float, int, int, int]


def tokens_to_hide(seen: str, link: Link) -> float:
    """Tokens per rank from which on a step's computation takes as long as the transfer of the next block."""
    flops, bandwidth, latency, heads, kv_heads, width = link
    a, b = {"all": 4, "causal": 2}[seen] * heads * width / flops, 4 * kv_heads * width / bandwidth
    return (b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)


def fewest(seen: str, *link: Any) -> int:
    """The same as a whole number of tokens."""
    return max(1, math.ceil(tokens_to_hide(seen, link)))  # type: ignore[arg-type]


def _hide_cases(params: Params, rng: random.Random) -> list[Case]:
    seen = params["seen"]

    def drawn(count: int, *latencies: float) -> list[Link]:
        fields = logarithmic(1e14, 2e15), logarithmic(1e10, 9e11), latencies, (32, 40, 64, 96), (1, 4, 8), (64, 128)
        return draw_rows(rng, count, *fields, keep=lambda row: safely_off_whole(tokens_to_hide(seen, row)))  # type: ignore[arg-type]

    exact = [(2.0**40, 2.0**30, 0.0, 16, 4, 64), (2.0**44, 2.0**38, 0.0, 8, 8, 128), (2.0**40, 2.0**34, 0.0, 64, 1, 32)]
    exact += [(2.0**40, 2.0**30, 2.0**power, 16, 4, 64) for power in (-10, -11)]  # one of them for each mask
    exact += [(2.0**40, 2.0**30 * (1 - 1e-6), 0.0, 16, 4, 64)]  # a little longer
    alike = each_changed((4e14, 5e10, 2e-5, 32, 8, 128), (8e14, 1e11, 0.03, 64, 32, 64))
    tiny = [(1e9, 1e12, 0.0, 32, 1, 128), (1e12, 1e9, 1e-3, 1, 1, 1), (4e14, 9e11, 1e-7, 32, 1, 64)]
    return [
        shown("one link", "values:tokens", 0, [(4e14, 5e10, 0.0, 32, 8, 128)]),
        shown("with latency", "values:tokens", 0, [(4e14, 5e10, 1e-5, 32, 8, 128)]),
        unseen(rng, "tokens", 0, "other links, no latency", drawn(4, 0.0)),
        unseen(rng, "tokens", 0, "other links with latency", drawn(5, 1e-6, 2e-5, 3e-4)),
        generality("tokens", 0, "computation exactly as long as the transfer", exact),
        generality("tokens", 0, "less than a token, and small numbers", tiny),
        generality("tokens", 0, "one number differs", alike),
    ]


HIDDEN = {
    "other-mask": "this counts another number of FLOPs: which part of each block is computed?",
    "no-latency": "the latency is missing.",
    "rounded-down": "rounded down, the transfer is still a little longer.",
    "one-more": "one token fewer is enough.",
    "query-heads": "keys and values have KV heads.",
    "keys-alone": "this is half of the bytes: keys and values, two bytes a number.",
}


def _hide_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    seen = params["seen"]
    other = "causal" if seen == "all" else "all"

    slips = {
        "other-mask": lambda *row: fewest(other, *row),
        "no-latency": lambda *row: fewest(seen, *row[:2], 0.0, *row[3:]),
        "rounded-down": lambda *row: math.floor(tokens_to_hide(seen, row)),  # type: ignore[arg-type]
        "one-more": lambda *row: fewest(seen, *row) + 1,
        "query-heads": lambda f, b, latency, h, k, w: fewest(seen, f, b, latency, h, h, w),
        "keys-alone": lambda f, b, *rest: fewest(seen, f, 2 * b, *rest),
    }
    column = Column(
        part="tokens",
        unit="tokens",
        want=lambda *row: fewest(seen, *row),
        words=lambda f, b, s, h, k, w: f"{f:.3g} FLOP/s, {b:.3g} B/s, {s:g} s, {h} heads, {k} KV heads of {w}",
        rel=EXACT,
        mistakes=mistakes(slips, HIDDEN),
    )
    return table(column)(params, case, outcome)


JUDGING = Judging(
    shares=shares(tokens=(0.4, 0.6)),
    cases=_hide_cases,
    verdicts=_hide_verdicts,
    why="""Computation grows with the square of the tokens on a rank, and the transfer with their number. So there is a smallest part that hides its transfer. GQA shrinks the transfer
and not the computation, which is why it helps the ring.""",
    pytorch="PyTorch's ring attention starts the exchange of the next block before it computes on the current one.",
)

ANSWERS = r"""import math

from course_lib import params

PAIRS = {"all": 4, "causal": 2}[params("hide-the-ring").seen]


# %% right: the larger root
def fewest_tokens(flops, bandwidth, latency, heads, kv_heads, width):
    a, b = PAIRS * heads * width / flops, 4 * kv_heads * width / bandwidth
    return max(1, math.ceil((b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)))


# %% right: by bisection
def fewest_tokens(flops, bandwidth, latency, heads, kv_heads, width):
    def hidden(c):
        return PAIRS * c * c * heads * width / flops >= latency + 4 * c * kv_heads * width / bandwidth

    low, high = 0, 1
    while not hidden(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if hidden(middle) else (middle, high)
    return high


# %% wrong: the other mask => values other-mask  from: the larger root
# ~ PAIRS ==> (6 - PAIRS)

# %% wrong: no latency => values no-latency  from: the larger root
# ~ (b + math.sqrt(b * b + 4 * a * latency)) / (2 * a) ==> b / a

# %% wrong: rounded down => values rounded-down  from: the larger root
# ~ ceil ==> floor

# %% wrong: one more than the bound => generality one-more  from: the larger root
# ~ ceil((b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)) ==> floor((b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)) + 1

# %% wrong: query heads travel => values query-heads  from: the larger root
# ~ 4 * kv_heads * width ==> 4 * heads * width

# %% wrong: keys without values => values keys-alone  from: the larger root
# ~ flops, 4 * kv_heads ==> flops, 2 * kv_heads

# %% wrong: one more where computation and latency meet exactly => generality one-more  from: the larger root
# -     return max(1, math.ceil((b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)))
# +     c = (b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)
# +     return max(1, math.floor(c) + 1 if latency else math.ceil(c))

# %% wrong: a thousandth over is as good => generality rounded-down  from: the larger root
# ~ / (2 * a) ==> / (2 * a) - 1e-3

# %% wrong: a latency of a millisecond at most => generality ~  from: the larger root
# ~ 4 * a * latency ==> 4 * a * min(latency, 1e-3)
"""
