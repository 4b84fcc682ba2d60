from course_grader.judging import EXACT, FINE, Case, Column, Judging, Params, Random, Worked, draw_rows, each_changed
from course_grader.judging.cases import shown
from course_grader.judging.per_row import shares, table
from course_grader.judging.random_inputs import Field, generality, logarithmic, plain, safely_off_whole, unseen

right = Worked("prefill-and-decode")
_PROMPT = "{params:,g} parameters, a prompt of {tokens:,} tokens"
_BATCH = "{params:,g} parameters, {batch:,} requests with {context:,} tokens each"


def _exact_ridge(row: tuple[float, ...]) -> bool:
    """Whether rounding cannot change the batch: no quotient near a whole number, no gain near zero."""
    p, b, kv, context, f, m = row
    one, other = 2 * p / f, kv * context / m
    return abs(one / other - 1) > 1e-3 and (one < other or safely_off_whole(p * b / m / (one - other)))


def _roof_cases(params: Params, rng: Random) -> list[Case]:
    p, number, gpu = params["params"], params["number"], (params["flops"], params["bandwidth"])
    chips = ((989e12, 3.35e12), (312e12, 2.0e12), (125e12, 0.9e12))

    def drawn(count: int, *fields: Field) -> list[tuple[float, ...]]:
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
        plain("ridge", 2, "other models", [row for row in ridges if right[2](*row) and _exact_ridge(row)][:8]),
        generality("ridge", 2, "one number changed", limits),
        unseen(rng, "prefill", 0, "short prompts and very long ones", [*short, *far, *changed]),
        unseen(rng, "decode", 1, "large batches, and one request", many + batches),
        generality("ridge", 2, "long contexts, none, and exact ridges", [*filter(_exact_ridge, long), *exact][-9:]),
    ]


JUDGING = Judging(
    shares=shares(prefill=(0.125, 0.125), decode=(0.25, 0.125), ridge=(0.125, 0.25)),
    cases=_roof_cases,
    verdicts=table(
        Column("prefill", "seconds", words=right.words(0, _PROMPT), rel=FINE),
        Column("decode", "seconds", words=right.words(1, _BATCH), rel=FINE),
        Column(
            "ridge",
            "requests",
            words=right.words(2, "{params:,g} parameters, {context:,} tokens of {kv:,g} bytes in the cache"),
            rel=EXACT,
            none="reading grows faster than computing, so no batch is large enough",
            some="some batch is large enough",
        ),
        right=right,
    ),
    why="""A prompt brings thousands of tokens to each weight that is read, so it is bound by FLOP/s. A decode step
brings one token a request, so it is bound by bandwidth until the batch reaches the ridge. A further request brings
FLOPs, but also a cache to read. If the cache is long enough, reading grows faster than computing, and no batch reaches
the ridge.""",
    pytorch="`vllm bench latency` and `vllm bench serve` measure both; compare the measured times with these two "
    "lower bounds.",
)

ANSWERS = r'''# %% right: worked
def prefill_seconds(params, layers, width, tokens, number, flops, bandwidth):
    """Seconds of one prompt."""
    pairs = tokens * (tokens + 1) / 2
    return max((2 * params * tokens + 4 * layers * width * pairs) / flops, params * number / bandwidth)


def decode_seconds(params, number, kv, batch, context, flops, bandwidth):
    """Seconds of one more token for each request of a batch."""
    return max(2 * params * batch / flops, (params * number + batch * context * kv) / bandwidth)


def ridge_batch(params, number, kv, context, flops, bandwidth):
    """The smallest batch that takes at least as long to compute as to read, or None."""
    gain = (
        2 * params / flops - kv * context / bandwidth
    )  # seconds that a further request adds to computing over reading
    return math.ceil(params * number / bandwidth / gain) if gain > 0 else None
# %% right: by doubling and halving  from: worked
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
# %% wrong: no attention => values
# > attention's own FLOPs are missing; they grow with the square of the prompt.
# ~ (2 * params * tokens + 4 * layers * width * pairs) ==> 2 * params * tokens
# %% wrong: all pairs => values
# > no token attends to those after it: only about half of the pairs count.
# ~ (tokens + 1) / 2 ==> tokens
# %% wrong: without itself => values
# > a token attends to itself, too: n · (n + 1) / 2 pairs.
# ~ (tokens + 1) / 2 ==> (tokens - 1) / 2
# %% wrong: never read => generality
# > for a short prompt, reading the weights takes longer than computing.
# ~ pairs) / flops, params * number / bandwidth ==> pairs) / flops, 0
# %% wrong: weights each => values
# > the weights are read once for the whole batch.
# ~ (params * number + batch * context * kv) ==> batch * (params * number + context * kv)
# %% wrong: the cache is not read => values no-cache
# > the cache must be read, too.
# ~ (params * number + batch * context * kv) ==> params * number
# %% wrong: never compute => generality
# > for a large batch, computing takes longer than reading.
# ~ max(2 * params * batch / flops ==> max(0
# %% wrong: sum => values
# > computing and reading overlap: the longer one counts, not the sum.
# ~ max(2 * params * batch / flops, (params ==> (2 * params * batch / flops + (params
# %% wrong: the ridge of the weights => values no-cache
# > each further request also brings a cache that must be read.
# ~ flops - kv * context / bandwidth ==> flops
# %% wrong: rounded down => values
# > at this batch reading still takes longer.
# ~ math.ceil(params ==> math.floor(params
# %% wrong: one too many => generality
# > a smaller batch already takes as long to compute as to read.
# ~ math.ceil(params * number / bandwidth / gain) ==> math.floor(params * number / bandwidth / gain) + 1
# %% wrong: there is always a ridge => generality none-is-right
# ~ gain) if gain > 0 else None ==> abs(gain)) if gain else 1
# %% wrong: batches up to 4,096 => generality some-is-right
# ~ if gain > 0 else ==> if gain > params * number / bandwidth / 4096 else
# %% wrong: a number takes a byte at least => generality -
# ~ pairs) / flops, params * number ==> pairs) / flops, params * max(1, number)
# %% half: weights for each request => 2  from: weights each
'''
