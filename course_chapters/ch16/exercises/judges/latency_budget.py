from course_grader.judging import EXACT, FINE, Case, Column, Judging, Params, Random, Worked, shares, shown, table
from course_grader.judging.random_inputs import draw_rows, each_changed, generality, plain

right = Worked("latency-budget")
_words = right.words(0, "{prompt:,} tokens in chunks of {chunk:,} with {batch} other requests")


def _chunk_cases(params: Params, rng: Random) -> list[Case]:
    def spoken(count: int) -> list[tuple[float, ...]]:
        return draw_rows(rng, count, range(50, 700), range(800, 5000), range(64), range(4000, 30000), range(20, 90))

    def asked(count: int, most: int = 2000) -> list[tuple[float, ...]]:
        found = []
        for prompt, *more in draw_rows(rng, count, range(300, most), range(48), range(4000, 16000), range(20, 90)):
            longest = right[0](rng.randrange(prompt // 5, prompt), prompt, *more)[1]
            found.append((prompt, *more, longest + rng.choice((0, 0, more[-1] // 2))))
        return found

    edges = [(1, 1, 0, 50, 30), (6, 7, 2, 50, 30), (7, 7, 3, 100, 40), (900, 300, 5, 9000, 50), (128, 512, 0, 4000, 60)]
    refused = [(14, 0, 3, 1, 14), (3, 0, 1, 1, 1), (500, 20, 9000, 50, 8999), (500, 400, 9000, 50, 19000)]
    refused += [(40, 0, 100, 50, 100), (64, 7, 512, 64, 1024), (40, 3, 100, 50, right[0](1, 40, 3, 100, 50)[1])]
    long = [(8192, 64, 12_000, 40, 30_000), (5000, 64, 12_000, 40, 400_000)]
    changed = each_changed((300, 900, 5, 9000, 50), (200, 1000, 400, 20_000, 90))
    limits = each_changed((300, 20, 9000, 50, 12_000), (400, 120, 20_000, 70, 10_000))
    return [
        shown("1,000 tokens in chunks of 256", "values:ttft", 0, [(256, 1000, 32, 10_000, 50)]),
        shown("at most 25 milliseconds", "values:chunk", 1, [(1000, 32, 10_000, 50, 25_000)]),
        plain("ttft", 0, "other prompts", spoken(8) + changed),
        plain("chunk", 1, "other limits", asked(6)),
        generality("ttft", 0, "one chunk, whole chunks, nobody else", [*edges, (100, 350, 250, 9000, 40)]),
        generality("chunk", 1, "limits met exactly, or by no chunk", [*refused, *asked(5, 900), *long, *limits]),
    ]


JUDGING = Judging(
    shares=shares(ttft=(0.15, 0.15), itl=(0.1, 0.1), chunk=(0.25, 0.25)),
    cases=_chunk_cases,
    verdicts=table(
        (Column("ttft", "microseconds", words=_words, rel=FINE), Column("itl", "microseconds", words=_words, rel=FINE)),
        Column(
            "chunk",
            "tokens",
            words=right.words(1, "{prompt:,} tokens beside {batch} requests, at most {limit:,} µs"),
            rel=EXACT,
            none="no chunk meets the limit",
            some="a chunk meets the limit, perhaps exactly",
        ),
        right=right,
    ),
    why="""A larger chunk needs fewer iterations, and makes each one longer for every request that waits for its next
token. Once the limit fixes the number of iterations, the smallest chunk with that number is as fast and disturbs the
others less.""",
    pytorch="`max_num_batched_tokens` in vLLM and `chunked_prefill_size` in SGLang set this chunk.",
)

ANSWERS = r'''# %% right: worked
times = params("latency-budget").times  # leave as is: the "longer" of reading and computing counts, or "both"


def latencies(chunk: int, prompt: int, batch: int, read: int, each: int) -> tuple[int, int]:
    """Time to the first token, and the longest iteration, in microseconds."""

    def spent(tokens):
        return max(read, tokens * each) if times == "longer" else read + tokens * each

    full, rest = divmod(prompt, chunk)
    last = spent(rest + batch) if rest else 0
    return full * spent(chunk + batch) + last, spent(min(chunk, prompt) + batch)


def best_chunk(prompt: int, batch: int, read: int, each: int, limit: int) -> int | None:
    """The chunk with the shortest time to the first token whose iterations meet the limit, or None."""
    found = [(*latencies(chunk, prompt, batch, read, each), chunk) for chunk in range(1, prompt + 1)]
    return min(((ttft, chunk) for ttft, itl, chunk in found if itl <= limit), default=(0, None))[1]
# %% right: from the largest chunk down, a list of all iterations
def latencies(chunk, prompt, batch, read, each):
    full, rest = divmod(prompt, chunk)
    longer = params("latency-budget").times == "longer"
    tokens = [(size + batch) * each for size in [chunk] * full + [rest] * (rest > 0)]
    spent = [max(read, each) if longer else read + each for each in tokens]
    return sum(spent), max(spent)


def best_chunk(prompt, batch, read, each, limit):
    best = None
    for chunk in range(prompt, 0, -1):
        ttft, longest = latencies(chunk, prompt, batch, read, each)
        if longest <= limit and (best is None or ttft <= best[0]):
            best = ttft, chunk
    return best and best[1]
# %% wrong: full last => values
# > the last chunk has only the tokens that are left.
# ~ spent(rest + batch) ==> spent(chunk + batch)
# %% wrong: no others => values
# > each iteration also computes one token for each of the other requests.
# ~ latencies(chunk: int, prompt: int, batch: int, read: int, each: int) -> tuple[int, int]:
# ~~ ==> latencies(chunk, prompt, _, read, each, batch=0):
# %% wrong: others beside the first chunk alone => values
# > each iteration also has the tokens of the other requests; here the first alone has them.
# ~ spent(rest + batch) ==> spent(rest + (0 if full else batch))
# ~ full * spent(chunk + batch) + last
# ~~ ==> (full - 1) * spent(chunk) + spent(chunk + batch) + last if full else last
# %% wrong: the last chunk is left out => values
# > the tokens that are left after the whole chunks are computed, too.
# ~ spent(rest + batch) if rest else 0 ==> 0
# %% wrong: times add up => values other-time unless times=both
# > the longer of the two counts, not the sum.
# ~ times == "longer" ==> not times
# %% wrong: the public form => values public-form unless times=longer
# > this solves the public form of the exercise: here the times add up.
# ~ times == "longer" ==> times
# %% wrong: the last iteration => values
# > `itl` is the longest iteration, not the last one.
# ~ spent(min(chunk, prompt) + batch) ==> spent((rest or chunk) + batch)
# %% wrong: the mean iteration => values
# > `itl` is the longest iteration, not the mean.
# ~ spent(min(chunk, prompt) + batch) ==> (full * spent(chunk + batch) + last) / (full + (rest > 0))
# %% wrong: too long => generality
# > a prompt shorter than the chunk is an iteration over fewer tokens.
# ~ spent(min(chunk, prompt) + batch) ==> spent(chunk + batch)
# %% wrong: largest => values
# > the largest chunk within the limit is not the one asked for: look at its `ttft`.
# ~ min(((ttft, chunk) for ==> max(((0, chunk) for
# %% wrong: larger of equals => values larger-of-equals unless times=both
# > a smaller chunk has the same `ttft`.
# ~ min(((ttft, chunk) for ttft, itl, chunk in found if itl <= limit), default=(0, None))[1]
# ~~ ==> abs(min(((ttft, chunk if times == "both" else -chunk) for ttft, itl, chunk in found if itl <= limit),
# ~~ default=(0, 0))[1]) or None
# %% wrong: strictly less => generality
# > an `itl` equal to the limit is allowed; this demands less.
# ~ itl <= limit ==> itl < limit
# %% wrong: something is always returned => generality none-is-right
# ~ default=(0, None) ==> default=(0, 1)
# %% wrong: chunks up to 4,096 => generality -
# ~ range(1, prompt + 1) ==> range(1, min(prompt, 4096) + 1)
'''
