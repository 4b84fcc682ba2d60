"""Judges of chapter 16 on seconds: prefill and decode on the roofline, the length of a chunk, and how waits grow."""

import math
import random
from typing import Any

from course_lib.judging import Judging, Mistake, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, FINE, Column, shares, table
from course_lib.judging.draws import draw_rows, generality, logarithmic, plain, safely_off_whole, unseen
from course_lib.judging.prediction import prediction
from course_lib.records import Case, Outcome, Verdict

# --- prefill and decode


def prefill(params: float, layers: int, width: int, tokens: int, number: float, flops: float, bandwidth: float) -> float:
    """Seconds of a prompt."""
    computed = 2 * params * tokens + 2 * layers * width * tokens * (tokens + 1)
    return max(computed / flops, params * number / bandwidth)


def decode(params: float, number: float, kv: float, batch: int, context: int, flops: float, bandwidth: float) -> float:
    """Seconds of one token for each of a batch."""
    return max(2 * params * batch / flops, (params * number + batch * context * kv) / bandwidth)


def ridge(params: float, number: float, kv: float, context: int, flops: float, bandwidth: float) -> int | None:
    """The smallest batch that takes at least as long to compute as to read."""
    gain = 2 * params / flops - kv * context / bandwidth
    return math.ceil(params * number / bandwidth / gain) if gain > 0 else None


def _ridge_exactly(row: tuple[Any, ...]) -> bool:
    """Whether rounding cannot change the batch: no quotient near a whole number, no gain near zero."""
    params, number, kv, context, flops, bandwidth = row
    one, other = 2 * params / flops, kv * context / bandwidth
    return abs(one / other - 1) > 1e-3 and (one < other or safely_off_whole(params * number / bandwidth / (one - other)))


PREFILL = Column(
    part="prefill",
    unit="seconds",
    want=prefill,
    words=lambda p, la, w, t, b, f, m: f"{p:,g} parameters, a prompt of {t:,} tokens",
    rel=1e-6,
    mistakes=(
        Mistake("no-attention", lambda p, la, w, t, b, f, m: max(2 * p * t / f, p * b / m), "attention's own FLOPs are missing; they grow with the square of the prompt."),
        Mistake("all-pairs", lambda p, la, w, t, b, f, m: max((2 * p * t + 4 * la * w * t * t) / f, p * b / m), "no token attends to those after it: only about half of the pairs count."),
        Mistake("without-itself", lambda p, la, w, t, b, f, m: max((2 * p * t + 2 * la * w * t * (t - 1)) / f, p * b / m), "a token attends to itself, too: n · (n + 1) / 2 pairs."),
        Mistake("one-layer", lambda p, la, w, t, b, f, m: prefill(p, 1, w, t, b, f, m), "attention is counted in one layer only."),
        Mistake("sum", lambda p, la, w, t, b, f, m: (2 * p * t + 2 * la * w * t * (t + 1)) / f + p * b / m, "computing and reading overlap: the longer one counts, not the sum."),
        Mistake("never-read", lambda p, la, w, t, b, f, m: (2 * p * t + 2 * la * w * t * (t + 1)) / f, "a short prompt has to wait for the weights."),
        Mistake("read-each-token", lambda p, la, w, t, b, f, m: max((2 * p * t + 2 * la * w * t * (t + 1)) / f, t * p * b / m), "the weights are read once for all tokens of the prompt."),
    ),
)

DECODE = Column(
    part="decode",
    unit="seconds",
    want=decode,
    words=lambda p, b, kv, n, c, f, m: f"{p:,g} parameters, {n:,} requests with {c:,} tokens each",
    rel=1e-6,
    mistakes=(
        Mistake("weights-each", lambda p, b, kv, n, c, f, m: max(2 * p * n / f, n * (p * b + c * kv) / m), "the weights are read once for the whole batch."),
        Mistake("no-cache", lambda p, b, kv, n, c, f, m: max(2 * p * n / f, p * b / m), "the cache has to be read, too."),
        Mistake("one-cache", lambda p, b, kv, n, c, f, m: decode(p, b, kv, 1, c, f, m) if 2 * p / f < (p * b + c * kv) / m else None, "each request has a cache of its own."),
        Mistake("sum", lambda p, b, kv, n, c, f, m: 2 * p * n / f + (p * b + n * c * kv) / m, "computing and reading overlap: the longer one counts, not the sum."),
        Mistake("never-compute", lambda p, b, kv, n, c, f, m: (p * b + n * c * kv) / m, "a large batch is computed longer than it is read."),
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
    mistakes=(
        Mistake("no-cache", lambda p, b, kv, c, f, m: math.ceil(b * f / (2 * m)), "each further request also brings a cache that must be read."),
        Mistake("rounded-down", lambda p, b, kv, c, f, m: None if (n := ridge(p, b, kv, c, f, m)) is None else n - 1, "at this batch reading still takes longer."),
        Mistake("one-too-many", lambda p, b, kv, c, f, m: None if (n := ridge(p, b, kv, c, f, m)) is None else n + 1, "a smaller batch already takes as long to compute as to read."),
    ),
)


def _roof_cases(params: Params, rng: random.Random) -> list[Case]:
    p, number, gpu = params["params"], params["number"], (params["flops"], params["bandwidth"])
    chips = ((989e12, 3.35e12), (312e12, 2.0e12), (125e12, 0.9e12))

    def drawn(count: int, *fields: Any, keep: Any = None) -> list[tuple[Any, ...]]:
        return [(*row, *rng.choice(chips)) for row in draw_rows(rng, count, *fields, keep=keep)]

    sizes, kvs = logarithmic(1e9, 1e11), (16384, 65536, 131072, 327680)
    prompts = drawn(6, sizes, (24, 48, 80), (2048, 4096, 8192), range(1500, 9000), (1, 2))
    short = drawn(6, sizes, (24, 48, 80), (2048, 4096), range(1, 60), (1, 2))
    large = drawn(4, sizes, (8, 20), (2048,), range(1, 9), (2,)) + drawn(4, logarithmic(1e8, 1e9), (48, 80), (4096, 8192), range(30000, 60000), (1,))
    batches = drawn(6, sizes, (1, 2), kvs, range(2, 200), range(200, 9000))
    many = drawn(5, sizes, (1, 2), kvs, range(2000, 5000), range(1, 20)) + drawn(2, sizes, (2,), kvs, (1,), range(1, 900))
    ridges = [row for row in drawn(40, logarithmic(2e9, 1e11), (1, 2), (16384, 65536), range(20, 900)) if _ridge_exactly(row)][:8]
    long = [row for row in drawn(30, logarithmic(1e9, 8e9), (1, 2), kvs, range(9000, 60000)) if _ridge_exactly(row)][:4]
    exact = [(2.0**33, 2, 2.0**16, 0, 2.0**49, 2.0**41), (2.0**33, 1, 2.0**16, 2**9, 2.0**49, 2.0**41), (2.0**33, 2, 2.0**17, 2**9, 2.0**49, 2.0**41), (2.0**33, 2, 2.0**16, 2**10, 2.0**49, 2.0**41)]
    return [
        shown("a prompt of 4,000 tokens", "values:prefill", 0, [(p, 32, 4096, 4000, number, *gpu)]),
        shown("32 requests", "values:decode", 1, [(p, number, 131072, 32, 1000, *gpu)]),
        shown("the ridge", "values:ridge", 2, [(p, number, 65536, 100, *gpu)]),
        plain("prefill", 0, "other prompts", prompts),
        plain("decode", 1, "other batches", batches),
        plain("ridge", 2, "other models", ridges),
        unseen(rng, "prefill", 0, "short prompts and very long ones", [*short, *large, (8e9, 32, 4096, 1, 2, *chips[0])]),
        unseen(rng, "decode", 1, "large batches, and one request", many),
        generality("ridge", 2, "long contexts, no context, and exact ridges", [*long, *exact]),
    ]


# --- chunks


def latencies(times: str, chunk: int, prompt: int, batch: int, read: int, each: int, *, rest: bool = True) -> tuple[int, int]:
    """TTFT and longest iteration, in microseconds; without `rest` the last chunk counts as a full one."""

    def spent(tokens: int) -> int:
        return max(read, (tokens + batch) * each) if times == "longer" else read + (tokens + batch) * each

    full, left = divmod(prompt, chunk)
    last = spent(left if rest else chunk) if left else 0
    return full * spent(chunk) + last, spent(min(chunk, prompt))


def chunks(times: str, prompt: int, batch: int, read: int, each: int, limit: int, *, pick: str = "best", strict: bool = False) -> int | None:
    """The chunk with the shortest TTFT within the limit; `pick` names known other choices."""
    found = [(latencies(times, chunk, prompt, batch, read, each), chunk) for chunk in range(1, prompt + 1)]
    meeting = [(ttft, chunk) for (ttft, itl), chunk in found if itl < limit or (itl == limit and not strict)]
    if not meeting:
        return None
    if pick == "largest":
        return meeting[-1][1]
    return min(meeting, key=lambda pair: (pair[0], pair[1] if pick == "best" else -pair[1]))[1]


def _chunk_columns(times: str) -> Any:
    other = "both" if times == "longer" else "longer"
    # the verdict on the public form has the name that the house knows
    public = Mistake(
        "public-form" if times == "both" else "other-time",
        lambda *row: latencies(other, *row)[0],
        "this solves the public form of the exercise: here the times add up." if times == "both" else "the longer of the two counts, not the sum.",
    )

    def words(chunk: int, prompt: int, batch: int, read: int, each: int) -> str:
        return f"{prompt:,} tokens in chunks of {chunk:,} beside {batch} requests"

    def chosen(prompt: int, batch: int, read: int, each: int, limit: int) -> str:
        return f"{prompt:,} tokens beside {batch} requests, at most {limit:,} µs"

    ttft = Column(
        part="ttft",
        unit="microseconds",
        want=lambda *row: latencies(times, *row)[0],
        words=words,
        rel=FINE,
        mistakes=(
            public,
            Mistake("full-last", lambda *row: latencies(times, *row, rest=False)[0], "the last chunk has only the tokens that are left."),
            Mistake("no-others", lambda c, p, b, r, e: latencies(times, c, p, 0, r, e)[0], "the other requests' tokens are in each iteration, too."),
            Mistake("one-iteration", lambda *row: latencies(times, *row)[1], "this is one iteration; the prompt takes several."),
        ),
    )
    itl = Column(
        part="itl",
        unit="microseconds",
        want=lambda *row: latencies(times, *row)[1],
        words=words,
        rel=FINE,
        mistakes=(
            Mistake("public-form" if times == "both" else "other-time", lambda *row: latencies(other, *row)[1], public.message),
            Mistake("too-long", lambda c, p, b, r, e: latencies(times, c, max(c, p), b, r, e)[1], "a prompt shorter than a chunk has fewer tokens."),
            Mistake("no-others", lambda c, p, b, r, e: latencies(times, c, p, 0, r, e)[1], "the other requests' tokens are in each iteration, too."),
            Mistake("whole-prompt", lambda *row: latencies(times, *row)[0], "this is the time of all iterations."),
        ),
    )
    best = Column(
        part="chunk",
        unit="tokens",
        want=lambda *row: chunks(times, *row),
        words=chosen,
        rel=EXACT,
        none="no chunk meets the limit",
        some="some chunk meets the limit",
        mistakes=(
            Mistake("public-form" if times == "both" else "other-time", lambda *row: chunks(other, *row), public.message),
            Mistake("largest", lambda *row: chunks(times, *row, pick="largest"), "the largest chunk within the limit is not the one asked for: look at its `ttft`."),
            Mistake("larger-of-equals", lambda *row: chunks(times, *row, pick="larger"), "a smaller chunk has the same `ttft`."),
            Mistake("strictly-less", lambda *row: chunks(times, *row, strict=True), "an `itl` equal to the limit meets it."),
            Mistake("whole-prompt", lambda prompt, *row: prompt, "the whole prompt at once takes longer than the limit."),
        ),
    )
    return table((ttft, itl), best)


def _chunk_cases(params: Params, rng: random.Random) -> list[Case]:
    def spoken(count: int) -> list[tuple[Any, ...]]:
        return draw_rows(rng, count, range(50, 700), range(800, 5000), range(64), range(4000, 30000), range(20, 90))

    def asked(count: int, most: int = 2000) -> list[tuple[Any, ...]]:
        found = []
        for prompt, batch, read, each in draw_rows(rng, count, range(300, most), range(48), range(4000, 16000), range(20, 90)):
            tokens = rng.randrange(prompt // 5, prompt)
            longest = latencies(params["times"], tokens, prompt, batch, read, each)[1]
            found.append((prompt, batch, read, each, longest + rng.choice((0, 0, each // 2))))
        return found

    edges = [(1, 1, 0, 50, 30), (7, 7, 3, 100, 40), (900, 300, 5, 9000, 50), (128, 512, 0, 4000, 60), (100, 350, 250, 9000, 40)]
    refused = [(500, 20, 9000, 50, 8999), (500, 400, 9000, 50, 19000), (40, 0, 100, 50, 100), (64, 7, 512, 64, 512 * 2)]
    return [
        shown("1,000 tokens in chunks of 256", "values:ttft", 0, [(256, 1000, 32, 10_000, 50)]),
        shown("at most 25 milliseconds", "values:chunk", 1, [(1000, 32, 10_000, 50, 25_000)]),
        Case(name="other prompts", args=(0, spoken(6)), part="itl", visible=False),
        plain("ttft", 0, "more prompts", spoken(5)),
        plain("chunk", 1, "other limits", asked(6)),
        generality("ttft", 0, "one chunk, whole chunks, nobody else", edges),
        generality("chunk", 1, "limits that are met exactly, or by no chunk", [*refused, *asked(5, 900), (8192, 64, 12_000, 40, 30_000)]),
    ]


# --- waits


def growth(params: Params) -> float:
    """The factor by which the mean wait of M/D/1 grows from one load to another."""
    low, high = params["low"] / 100, params["high"] / 100
    return high / (1 - high) / (low / (1 - low))


def _chunk_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    return list(_chunk_columns(params["times"])(params, case, outcome))


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
        verdicts=_chunk_verdicts,
        why="""A larger chunk needs fewer iterations, and makes each one longer for everybody who is waiting for a next token. Once the limit fixes the number of iterations, the smallest chunk
with that number is as fast and disturbs the others less.""",
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
