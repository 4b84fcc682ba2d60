import math

from course_grader.judging import EXACT, Case, Column, Judging, Params, Random, Worked, draw_rows, shares, shown, table
from course_grader.judging.random_inputs import each_changed, generality, logarithmic, safely_off_whole, unseen

right = Worked("hide-the-ring")

Link = tuple[float, float, float, int, int, int]


def tokens_to_hide(seen: str, link: Link) -> float:
    """Tokens per rank from which on a step's computation takes as long as the transfer of the next block."""
    flops, bandwidth, latency, heads, kv_heads, width = link
    a, b = {"all": 4, "causal": 2}[seen] * heads * width / flops, 4 * kv_heads * width / bandwidth
    return (b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)


def _hide_cases(params: Params, rng: Random) -> list[Case]:
    seen = params["seen"]

    def drawn(count: int, *latencies: float) -> list[Link]:
        fields = logarithmic(1e14, 2e15), logarithmic(1e10, 9e11), latencies, (32, 40, 64, 96), (1, 4, 8), (64, 128)
        return draw_rows(rng, count, *fields, keep=lambda row: safely_off_whole(tokens_to_hide(seen, row)))

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


JUDGING = Judging(
    shares=shares(tokens=(0.4, 0.6)),
    cases=_hide_cases,
    verdicts=table(
        Column(
            "tokens",
            "tokens",
            words=lambda f, b, s, h, k, w: f"{f:.3g} FLOP/s, {b:.3g} B/s, {s:g} s, {h} heads, {k} KV heads of {w}",
            rel=EXACT,
        ),
        right=right,
    ),
    why="""Computation grows with the square of the tokens on a rank, and the transfer with their number. So there is a
smallest part that hides its transfer. GQA shrinks the transfer and not the computation, which is why it helps the
ring.""",
    pytorch="PyTorch's ring attention starts the exchange of the next block before it computes on the current one.",
)

ANSWERS = r'''# %% right: worked
def fewest_tokens(flops: float, bandwidth: float, latency: float, heads: int, kv_heads: int, width: int) -> int:
    """Tokens per rank from which on attention to a block takes as long as the transfer of the next one."""
    pairs = {"all": 4, "causal": 2}[params("hide-the-ring").seen]
    a, b = pairs * heads * width / flops, 4 * kv_heads * width / bandwidth  # a·c² against latency + b·c
    return max(1, math.ceil((b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)))
# %% right: by counting
# ~ return max(1, math.ceil((b + math.sqrt(b * b + 4 * a * latency)) / (2 * a))) ==> low, high = 0, 1
# +     while a * high * high < latency + b * high:
# +         low, high = high, 2 * high
# +     while high - low > 1:
# +         middle = (low + high) // 2
# +         low, high = (low, middle) if a * middle * middle >= latency + b * middle else (middle, high)
# +     return high
# %% wrong: other mask => values
# > this counts another number of FLOPs: which part of each block is computed?
# ~ pairs * heads ==> (6 - pairs) * heads
# %% wrong: no latency => values
# > the latency is missing.
# ~ 4 * a * latency ==> 0
# %% wrong: rounded down => values
# > rounded down, the transfer is still a little longer.
# ~ ceil ==> floor
# %% wrong: one more => generality
# > one token fewer is enough.
# ~ ceil((b + math.sqrt(b * b + 4 * a * latency)) / (2 * a))
# ~~ ==> floor((b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)) + 1
# %% wrong: one more where computation and latency meet exactly => generality one-more
# -     return max(1, math.ceil((b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)))
# +     c = (b + math.sqrt(b * b + 4 * a * latency)) / (2 * a)
# +     return max(1, math.floor(c) + 1 if latency else math.ceil(c))
# %% wrong: query heads => values
# > keys and values have KV heads.
# ~ 4 * kv_heads * width ==> 4 * heads * width
# %% wrong: keys alone => values
# > this is half of the bytes: keys and values, two bytes a number.
# ~ flops, 4 * kv_heads ==> flops, 2 * kv_heads
# %% wrong: a thousandth over is as good => generality rounded-down
# ~ / (2 * a) ==> / (2 * a) - 1e-3
# %% wrong: a latency of a millisecond at most => generality ~
# ~ 4 * a * latency ==> 4 * a * min(latency, 1e-3)
'''
