"""Judge of prefill-and-decode: seconds of a prefill and of a decode step."""

import math
import random
from typing import Any

from course_lib.exercises.ch16.judges.shared import Row
from course_lib.judging import Judging, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, FINE, Column, shares, table
from course_lib.judging.draws import draw_rows, each_changed, generality, logarithmic, plain, safely_off_whole, unseen
from course_lib.judging.mistakes import mistakes, shifted
from course_lib.records import Case

# prefill and decode: p parameters of b bytes, f FLOP/s, m bytes per second


def prefill(p: float, layers: int, width: int, tokens: int, b: float, f: float, m: float, pairs: Any = None) -> float:
    """Seconds of a prompt; other `pairs` of tokens are a known mistake."""
    count = tokens * (tokens + 1) / 2 if pairs is None else pairs(tokens)
    return max((2 * p * tokens + 4 * layers * width * count) / f, p * b / m)


def decode(p: float, b: float, kv: float, batch: int, context: int, f: float, m: float) -> float:
    """Seconds of one token for each of a batch."""
    return max(2 * p * batch / f, (p * b + batch * context * kv) / m)


def ridge(p: float, b: float, kv: float, context: int, f: float, m: float) -> int | None:
    """The smallest batch that takes at least as long to compute as to read."""
    gain = 2 * p / f - kv * context / m
    return math.ceil(p * b / m / gain) if gain > 0 else None


def _exact_ridge(row: Row) -> bool:
    """Whether rounding cannot change the batch: no quotient near a whole number, no gain near zero."""
    p, b, kv, context, f, m = row
    one, other = 2 * p / f, kv * context / m
    return abs(one / other - 1) > 1e-3 and (one < other or safely_off_whole(p * b / m / (one - other)))


PREFILL = Column(
    part="prefill",
    unit="seconds",
    want=prefill,
    words=lambda p, la, w, t, b, f, m: f"{p:,g} parameters, a prompt of {t:,} tokens",
    rel=FINE,
    mistakes=mistakes(
        {
            "no-attention": lambda *row: prefill(*row, pairs=lambda t: 0),
            "all-pairs": lambda *row: prefill(*row, pairs=lambda t: t * t),
            "without-itself": lambda *row: prefill(*row, pairs=lambda t: t * (t - 1) / 2),
            "never-read": lambda p, la, w, t, b, *row: prefill(p, la, w, t, 0, *row),
        },
        {
            "no-attention": "attention's own FLOPs are missing; they grow with the square of the prompt.",
            "all-pairs": "no token attends to those after it: only about half of the pairs count.",
            "without-itself": "a token attends to itself, too: n · (n + 1) / 2 pairs.",
            "never-read": "a short prompt has to wait for the weights.",
        },
    ),
)

DECODE = Column(
    part="decode",
    unit="seconds",
    want=decode,
    words=lambda p, b, kv, n, c, f, m: f"{p:,g} parameters, {n:,} requests with {c:,} tokens each",
    rel=FINE,
    mistakes=mistakes(
        {
            "weights-each": lambda p, b, kv, n, c, f, m: max(2 * p * n / f, n * (p * b + c * kv) / m),
            "no-cache": lambda p, b, kv, n, c, f, m: decode(p, b, 0, n, c, f, m),
            "sum": lambda p, b, kv, n, c, f, m: 2 * p * n / f + (p * b + n * c * kv) / m,
            "never-compute": lambda p, b, kv, n, c, f, m: (p * b + n * c * kv) / m,
        },
        {
            "weights-each": "the weights are read once for the whole batch.",
            "no-cache": "the cache has to be read, too.",
            "sum": "computing and reading overlap: the longer one counts, not the sum.",
            "never-compute": "a large batch is computed longer than it is read.",
        },
    ),
)

RIDGE = Column(
    part="ridge",
    unit="requests",
    want=ridge,
    words=lambda p, b, kv, c, f, m: f"{p:,g} parameters, {c:,} tokens of {kv:,g} bytes in the cache",
    rel=EXACT,
    none="reading grows faster than computing, so no batch is large enough",
    some="some batch is large enough",
    mistakes=mistakes(
        {
            "no-cache": lambda p, b, kv, c, f, m: math.ceil(b * f / (2 * m)),
            "rounded-down": shifted(ridge, -1),
            "one-too-many": shifted(ridge, 1),
        },
        {
            "no-cache": "each further request also brings a cache that must be read.",
            "rounded-down": "at this batch reading still takes longer.",
            "one-too-many": "a smaller batch already takes as long to compute as to read.",
        },
    ),
)


def _roof_cases(params: Params, rng: random.Random) -> list[Case]:
    p, number, gpu = params["params"], params["number"], (params["flops"], params["bandwidth"])
    chips = ((989e12, 3.35e12), (312e12, 2.0e12), (125e12, 0.9e12))

    def drawn(count: int, *fields: Any) -> list[Row]:
        return [(*row, *rng.choice(chips)) for row in draw_rows(rng, count, *fields)]

    sizes, kvs, wide = logarithmic(1e9, 1e11), (16384, 65536, 131072, 327680), (2048, 4096, 8192)
    short = drawn(8, sizes, (24, 48, 80), wide, range(1, 60), (1, 2)) + drawn(2, sizes, (8,), wide, (1,), (2,))
    far = drawn(4, logarithmic(1e8, 1e9), (48, 80), (4096, 8192), range(30000, 60000), (1,))
    many = drawn(5, sizes, (1, 2), kvs, range(2000, 5000), range(1, 20)) + drawn(2, sizes, (2,), kvs, (1,), range(9))
    ridges = drawn(40, logarithmic(2e9, 1e11), (1, 2), (16384, 65536), range(20, 900))
    long = drawn(30, logarithmic(1e9, 8e9), (1, 2), kvs, range(9000, 60000))
    other = (3e10, 24, 8192, 200_000, 0.5, 1e15, 1e10)
    changed = [each for n in (10, 2000) for each in each_changed((1e10, 48, 4096, n, 2, 3e14, 2e12), other)]
    batches = each_changed((1e10, 2, 65536, 8, 1000, 3e14, 2e12), (3e10, 0.5, 131072, 20_000, 5000, 1e12, 1e12))
    limits = each_changed((1e10, 2, 65536, 100, 3e14, 2e12), (3e10, 0.5, 131072, 300, 4e14, 3e12))
    # powers of two: no cache, a whole number, a batch of 2^21, and twice a gain of exactly 0
    whole = (2, 16, 0), (1, 16, 512), (2, 13, 2**13 - 1), (2, 17, 512), (2, 16, 1024)
    exact = [(2.0**33, b, 2.0**kv, context, 2.0**49, 2.0**41) for b, kv, context in whole]
    return [
        shown("a prompt of 4,000 tokens", "values:prefill", 0, [(p, 32, 4096, 4000, number, *gpu)]),
        shown("32 requests", "values:decode", 1, [(p, number, 131072, 32, 1000, *gpu)]),
        shown("the ridge", "values:ridge", 2, [(p, number, 65536, 100, *gpu)]),
        plain("prefill", 0, "other prompts", drawn(6, sizes, (24, 48, 80), wide, range(1500, 9000), (1, 2))),
        plain("decode", 1, "other batches", drawn(6, sizes, (1, 2), kvs, range(2, 200), range(200, 9000))),
        plain("ridge", 2, "other models", [row for row in ridges if ridge(*row) and _exact_ridge(row)][:8]),
        generality("ridge", 2, "one number changed", limits),
        unseen(rng, "prefill", 0, "short prompts and very long ones", [*short, *far, *changed]),
        unseen(rng, "decode", 1, "large batches, and one request", many + batches),
        generality("ridge", 2, "long contexts, none, and exact ridges", [*filter(_exact_ridge, long), *exact][-9:]),
    ]


JUDGING = Judging(
    shares=shares(prefill=(0.125, 0.125), decode=(0.25, 0.125), ridge=(0.125, 0.25)),
    cases=_roof_cases,
    verdicts=table(PREFILL, DECODE, RIDGE),
    why="""A prompt brings thousands of tokens to each weight that is read, so it is bound by FLOP/s. A decode step brings one token a request, so it is bound by
bandwidth until the batch reaches the ridge. A further request brings FLOPs, but also a cache to read. If the cache is long enough, reading grows faster than computing, and
no batch reaches the ridge.""",
    pytorch="`vllm bench latency` and `vllm bench serve` measure both; compare the measured times with these two lower bounds.",
)

ANSWERS = r"""import math


# %% right: as written
def prefill_seconds(params, layers, width, tokens, number, flops, bandwidth):
    pairs = tokens * (tokens + 1) / 2
    return max((2 * params * tokens + 4 * layers * width * pairs) / flops, params * number / bandwidth)


def decode_seconds(params, number, kv, batch, context, flops, bandwidth):
    return max(2 * params * batch / flops, (params * number + batch * context * kv) / bandwidth)


def ridge_batch(params, number, kv, context, flops, bandwidth):
    gain = 2 * params / flops - kv * context / bandwidth
    return math.ceil(params * number / bandwidth / gain) if gain > 0 else None


# %% right: by doubling and halving  from: as written
def ridge_batch(params, number, kv, context, flops, bandwidth):
    def enough(batch):
        return 2 * params * batch / flops >= params * number / bandwidth + batch * context * kv / bandwidth

    high = 1
    while not enough(high):
        high *= 2
        if high > 1e12:
            return None
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# %% wrong: no attention => values no-attention  from: as written
# ~ (2 * params * tokens + 4 * layers * width * pairs) ==> 2 * params * tokens

# %% wrong: all pairs => values all-pairs  from: as written
# ~ (tokens + 1) / 2 ==> tokens

# %% wrong: weights are never read => generality never-read  from: as written
# ~ * pairs) / flops, params * number / bandwidth ==> * pairs) / flops, 0

# %% wrong: weights for each request => values weights-each  from: as written
# ~ batch / flops, (params * number + batch * context * kv) ==> batch / flops, batch * (params * number + context * kv)

# %% wrong: the cache is not read => values no-cache  from: as written
# ~ (params * number + batch * context * kv) ==> params * number

# %% wrong: only read => generality never-compute  from: as written
# ~ max(2 * params * batch / flops ==> max(0

# %% wrong: times add up => values sum  from: as written
# ~ max(2 * params * batch / flops, (params ==> (2 * params * batch / flops + (params

# %% wrong: the ridge of the weights => values no-cache  from: as written
# ~ 2 * params / flops - kv * context / bandwidth ==> 2 * params / flops

# %% wrong: there is always a ridge => generality none-is-right  from: as written
# ~ gain) if gain > 0 else None ==> abs(gain)) if gain else 1

# %% wrong: rounded down => values rounded-down  from: as written
# ~ ceil ==> floor

# %% wrong: one too many at an exact ridge => generality one-too-many  from: as written
# ~ ceil(params * number / bandwidth / gain) ==> floor(params * number / bandwidth / gain) + 1

# %% wrong: batches up to 4,096 => generality returned-none  from: as written
# ~ 0 ==> params * number / bandwidth / 4096

# %% wrong: a number takes a byte at least => generality -  from: as written
# ~ pairs) / flops, params * number ==> pairs) / flops, params * max(1, number)

# %% wrong: left as it is => not-answered  from: as written
# ~ pairs = tokens * (tokens + 1) / 2 ==> raise NotImplementedError

# %% half: weights for each request => 2  from: weights for each request
"""
