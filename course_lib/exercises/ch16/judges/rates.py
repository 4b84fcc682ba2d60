"""Judges of chapter 16 on seconds: prefill and decode on the roofline, the length of a chunk, and how waits grow."""

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from course_lib.judging import Judging, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, FINE, Column, shares, table
from course_lib.judging.draws import draw_rows, each_changed, generality, logarithmic, plain, safely_off_whole, unseen
from course_lib.judging.mistakes import mistakes, shifted
from course_lib.judging.prediction import prediction
from course_lib.records import Case

Row = tuple[Any, ...]

# --- prefill and decode: p parameters of b bytes, f FLOP/s, m bytes per second


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


# --- chunks


def latencies(
    times: str, chunk: int, prompt: int, batch: int, read: int, each: int, *, rest: bool = True
) -> tuple[int, int]:
    """TTFT and longest iteration, in microseconds; without `rest` the last chunk counts as a full one."""

    def spent(tokens: int) -> int:
        return max(read, (tokens + batch) * each) if times == "longer" else read + (tokens + batch) * each

    full, left = divmod(prompt, chunk)
    last = spent(left if rest else chunk) if left else 0
    return full * spent(chunk) + last, spent(min(chunk, prompt))


def chunks(times: str, prompt: int, *row: int, pick: str = "best", strict: bool = False) -> int | None:
    """The chunk with the shortest TTFT within the limit, the last of `row`; `pick` names known other choices."""
    *given, limit = row
    found = [(*latencies(times, chunk, prompt, *given), chunk) for chunk in range(1, prompt + 1)]  # type: ignore[call-arg]
    meeting = [(ttft, chunk) for ttft, itl, chunk in found if itl < limit or (itl == limit and not strict)]
    if not meeting:
        return None
    if pick == "largest":
        return meeting[-1][1]
    return min(meeting, key=lambda pair: (pair[0], pair[1] if pick == "best" else -pair[1]))[1]


def _chunk_columns(times: str) -> Any:
    other = "both" if times == "longer" else "longer"
    name = "other-time" if times == "longer" else "public-form"
    told = {
        "other-time": "the longer of the two counts, not the sum.",
        "public-form": "this solves the public form of the exercise: here the times add up.",
        "full-last": "the last chunk has only the tokens that are left.",
        "no-others": "the other requests' tokens are in each iteration, too.",
        "too-long": "a prompt shorter than a chunk has fewer tokens.",
        "largest": "the largest chunk within the limit is not the one asked for: look at its `ttft`.",
        "larger-of-equals": "a smaller chunk has the same `ttft`.",
        "strictly-less": "an `itl` equal to the limit meets it.",
    }

    swapped = {name: lambda *row: latencies(other, *row)}
    both = {**swapped, "no-others": lambda c, p, b, *row: latencies(times, c, p, 0, *row)}
    ttft = both | {"full-last": lambda *row: latencies(times, *row, rest=False)}
    itl = both | {"too-long": lambda c, p, *row: latencies(times, c, max(c, p), *row)}
    chosen = {
        name: lambda *row: chunks(other, *row),
        "largest": lambda *row: chunks(times, *row, pick="largest"),
        "larger-of-equals": lambda *row: chunks(times, *row, pick="larger"),
        "strictly-less": lambda *row: chunks(times, *row, strict=True),
    }

    def time(part: str, at: int, values: Mapping[str, Callable[..., tuple[int, int]]]) -> Column:
        named = {each: lambda *row, value=value: value(*row)[at] for each, value in values.items()}
        return Column(
            part=part,
            unit="microseconds",
            want=lambda *row: latencies(times, *row)[at],
            words=lambda c, p, b, *_: f"{p:,} tokens in chunks of {c:,} beside {b} requests",
            mistakes=mistakes(named, told),
            rel=FINE,
        )

    best = Column(
        part="chunk",
        unit="tokens",
        want=lambda *row: chunks(times, *row),
        words=lambda p, b, read, each, limit: f"{p:,} tokens beside {b} requests, at most {limit:,} µs",
        mistakes=mistakes(chosen, told),
        rel=EXACT,
        none="no chunk meets the limit",
    )
    return table((time("ttft", 0, ttft), time("itl", 1, itl)), best)


def _chunk_cases(params: Params, rng: random.Random) -> list[Case]:
    def spoken(count: int) -> list[Row]:
        return draw_rows(rng, count, range(50, 700), range(800, 5000), range(64), range(4000, 30000), range(20, 90))

    def asked(count: int, most: int = 2000) -> list[Row]:
        found = []
        for prompt, *more in draw_rows(rng, count, range(300, most), range(48), range(4000, 16000), range(20, 90)):
            longest = latencies(params["times"], rng.randrange(prompt // 5, prompt), prompt, *more)[1]
            found.append((prompt, *more, longest + rng.choice((0, 0, more[-1] // 2))))
        return found

    edges = [(1, 1, 0, 50, 30), (6, 7, 2, 50, 30), (7, 7, 3, 100, 40), (900, 300, 5, 9000, 50), (128, 512, 0, 4000, 60)]
    refused = [
        (14, 0, 3, 1, 14),
        (3, 0, 1, 1, 1),
        (500, 20, 9000, 50, 8999),
        (500, 400, 9000, 50, 19000),
        (40, 0, 100, 50, 100),
        (64, 7, 512, 64, 1024),
        (40, 3, 100, 50, latencies(params["times"], 1, 40, 3, 100, 50)[1]),
    ]
    long = [(8192, 64, 12_000, 40, 30_000), (5000, 64, 12_000, 40, 400_000)]
    changed = each_changed((300, 900, 5, 9000, 50), (200, 1000, 400, 20_000, 90))
    limits = each_changed((300, 20, 9000, 50, 12_000), (400, 40, 20_000, 70, 10_000))
    return [
        shown("1,000 tokens in chunks of 256", "values:ttft", 0, [(256, 1000, 32, 10_000, 50)]),
        shown("at most 25 milliseconds", "values:chunk", 1, [(1000, 32, 10_000, 50, 25_000)]),
        plain("ttft", 0, "other prompts", spoken(8) + changed),
        plain("chunk", 1, "other limits", asked(6)),
        generality("ttft", 0, "one chunk, whole chunks, nobody else", [*edges, (100, 350, 250, 9000, 40)]),
        generality("chunk", 1, "limits met exactly, or by no chunk", [*refused, *asked(5, 900), *long, *limits]),
    ]


# --- waits


def growth(params: Params) -> float:
    """The factor by which the mean wait of M/D/1 grows from one load to another."""
    low, high = params["low"] / 100, params["high"] / 100
    return high / (1 - high) / (low / (1 - low))


RATES = {
    "prefill-and-decode": Judging(
        shares=shares(prefill=(0.125, 0.125), decode=(0.25, 0.125), ridge=(0.125, 0.25)),
        cases=_roof_cases,
        verdicts=table(PREFILL, DECODE, RIDGE),
        why="""A prompt brings thousands of tokens to each weight that is read, so it is bound by FLOP/s. A decode step brings one token a request, so it is bound by
bandwidth until the batch reaches the ridge. A further request brings FLOPs, but also a cache to read. If the cache is long enough, reading grows faster than computing, and
no batch reaches the ridge.""",
        pytorch="`vllm bench latency` and `vllm bench serve` measure both; compare the measured times with these two lower bounds.",
    ),
    "latency-budget": Judging(
        shares=shares(ttft=(0.15, 0.15), itl=(0.1, 0.1), chunk=(0.25, 0.25)),
        cases=_chunk_cases,
        verdicts=lambda params, case, outcome: _chunk_columns(params["times"])(params, case, outcome),
        why="""A larger chunk needs fewer iterations, and makes each one longer for every request that waits for its next token. Once the limit fixes the number of iterations, the
smallest chunk with that number is as fast and disturbs the others less.""",
        pytorch="`max_num_batched_tokens` in vLLM and `chunked_prefill_size` in SGLang set this chunk.",
    ),
    "predict-wait": prediction(
        "times",
        truth=growth,
        reveal=lambda params: f"The mean wait grows {growth(params):.1f} times.",
        why="""With random arrivals and a fixed service time s the mean wait is s · ρ / (2 · (1 − ρ)). It grows slowly at first and without bound near ρ = 1: this is the knee. A
server that must answer quickly cannot be busy all the time.""",
    ),
}
