"""Judge of latency-budget: how long a chunk?"""

import random
from collections.abc import Callable, Mapping
from typing import Any

from course_lib.exercises.ch16.judges.shared import Row
from course_lib.judging import Judging, Params
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, FINE, Column, shares, table
from course_lib.judging.draws import draw_rows, each_changed, generality, plain
from course_lib.judging.mistakes import mistakes
from course_lib.records import Case


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


JUDGING = Judging(
    shares=shares(ttft=(0.15, 0.15), itl=(0.1, 0.1), chunk=(0.25, 0.25)),
    cases=_chunk_cases,
    verdicts=lambda params, case, outcome: _chunk_columns(params["times"])(params, case, outcome),
    why="""A larger chunk needs fewer iterations, and makes each one longer for every request that waits for its next token. Once the limit fixes the number of iterations, the
smallest chunk with that number is as fast and disturbs the others less.""",
    pytorch="`max_num_batched_tokens` in vLLM and `chunked_prefill_size` in SGLang set this chunk.",
)

ANSWERS = r"""# %% right: as written
def spent(tokens, read, each):
    return max(read, tokens * each)


def latencies(chunk, prompt, batch, read, each):
    full, rest = divmod(prompt, chunk)
    times = [spent(tokens + batch, read, each) for tokens in [chunk] * full + [rest] * (rest > 0)]
    return sum(times), max(times)


def best_chunk(prompt, batch, read, each, limit):
    best = None
    for chunk in range(prompt, 0, -1):
        full, rest = divmod(prompt, chunk)
        longest = spent(chunk + batch, read, each)
        ttft = full * longest + (spent(rest + batch, read, each) if rest else 0)
        if longest <= limit and (best is None or ttft <= best[0]):
            best = ttft, chunk
    return best and best[1]


# %% right: any variant, from a list of all chunks  from: as written
from course_lib import params

TIMES = params("latency-budget").times


def spent(tokens, read, each):
    return max(read, tokens * each) if TIMES == "longer" else read + each * tokens


def best_chunk(prompt, batch, read, each, limit):
    found = [(*latencies(chunk, prompt, batch, read, each), chunk) for chunk in range(1, prompt + 1)]
    return min([(ttft, chunk) for ttft, longest, chunk in found if longest <= limit], default=[None])[-1]


# %% wrong: the last chunk is full => values full-last  from: as written
# ~ + [rest] * (rest > 0) ==> + [chunk] * (rest > 0)

# %% wrong: nobody else => values no-others  from: as written
# ~ spent(tokens + batch ==> spent(tokens

# %% wrong: the last chunk is left out => values -  from: as written
# ~ + [rest] * (rest > 0)] ==> ] or [read]

# %% wrong: times add up => values other-time  from: as written
# ~ spent(tokens + batch, read, each) ==> read + (tokens + batch) * each

# %% wrong: the whole chunk although the prompt is shorter => generality too-long  from: as written
# ~ max(times) ==> spent(chunk + batch, read, each)

# %% wrong: the largest chunk => values largest  from: as written
# ~ (best is None or ttft <= best[0]) ==> best is None

# %% wrong: the larger of equals => values larger-of-equals  from: as written
# ~ ttft <= best ==> ttft < best

# %% wrong: below the limit => generality -  from: as written
# ~ longest <= limit ==> longest < limit

# %% wrong: something is always returned => generality none-is-right  from: as written
# ~ best and best[1] ==> best[1] if best else 1

# %% wrong: chunks up to 4,096 => generality -  from: as written
# ~ range(prompt, 0, -1) ==> range(min(prompt, 4096), 0, -1)

# %% wrong: left as it is => not-answered  from: as written
#   def latencies(chunk, prompt, batch, read, each):
# +     raise NotImplementedError
"""
