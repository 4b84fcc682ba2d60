"""Judge of split-pools: GPUs for prefill, GPUs for decode."""

import random
from typing import Any

from course_lib.exercises.ch16.judges.shared import Row
from course_lib.judging import Judging, Params, draws
from course_lib.judging.cases import shown
from course_lib.judging.columns import CLOSE, EXACT, Column, shares, table
from course_lib.judging.draws import draw_rows, generality, logarithmic, plain, unseen
from course_lib.judging.mistakes import mistakes
from course_lib.records import Case
from course_lib.units import count_text


def pace(
    sends: str, prefill: int, decode: int, prompt: int, answer: int, kv: float, fast: float, slow: float, link: float
) -> float:
    """Requests per second of two pools."""
    computing, sending = prompt / fast, prompt * kv / link
    busy = max(computing, sending) if sends == "overlaps" else computing + sending
    return min(prefill / busy, decode * slow / answer)


def split(sends: str, gpus: int, *row: Any, most: bool = False) -> int:
    """The fewest prefill GPUs that serve the most requests, or (`most`) the most of equals."""
    counts = range(gpus - 1, 0, -1) if most else range(1, gpus)
    return max(counts, key=lambda prefill: pace(sends, prefill, gpus - prefill, *row))


def _split_columns(sends: str) -> Any:
    other = "waits" if sends == "overlaps" else "overlaps"
    name = "other-sending" if sends == "overlaps" else "public-form"
    many = 10**9  # GPUs of a pool that is never the slower one
    told = {
        "other-sending": "sending and computing overlap here.",
        "public-form": "this solves the public form of the exercise: here sending and computing take turns.",
        "no-sending": "the cache of each prompt has to be sent.",
        "sum": "every request needs both pools: the slower one sets the pace.",
        "tokens": "these are tokens per second; requests are asked for.",
        "more-of-equals": "fewer prefill GPUs serve as many requests.",
        "decode-gpus": "this is the number of decode GPUs.",
        "halves": "half of the GPUs each is not the best split here.",
    }
    rates = {
        name: lambda *row: pace(other, *row),
        "no-sending": lambda p, d, q, a, kv, *row: pace(sends, p, d, q, a, 0, *row),
        "sum": lambda p, d, *row: pace(sends, p, many, *row) + pace(sends, many, d, *row),
        "tokens": lambda p, d, q, a, *row: a * pace(sends, p, d, q, a, *row),
    }
    splits = {
        name: lambda *row: split(other, *row),
        "no-sending": lambda n, q, a, kv, *row: split(sends, n, q, a, 0, *row),
        "more-of-equals": lambda *row: split(sends, *row, most=True),
        "decode-gpus": lambda n, *row: n - split(sends, n, *row),
        "halves": lambda n, *row: n // 2,
    }

    def column(part: str, unit: str, want: Any, values: Any, words: Any, rel: float) -> Column:
        return Column(part=part, unit=unit, want=want, words=words, rel=rel, mistakes=mistakes(values, told))

    def pools(p: int, d: int, prompt: int, answer: int, *_: float) -> str:
        return f"{p} + {d} GPUs, prompts of {prompt:,} and answers of {answer:,} tokens"

    def gpus(n: int, prompt: int, answer: int, *_: float) -> str:
        return f"{count_text(n, 'GPU')}, prompts of {prompt:,} and answers of {count_text(answer, 'token')}"

    return table(
        column("pace", "requests per second", lambda *row: pace(sends, *row), rates, pools, CLOSE),
        column("split", "GPUs", lambda *row: split(sends, *row), splits, gpus, EXACT),
    )


def _split_cases(params: Params, rng: random.Random) -> list[Case]:
    kvs, fast, slow = (20_000, 90_000, 160_000, 320_000), logarithmic(4e3, 4e4), logarithmic(400, 4000)
    usual, narrow = (kvs, fast, slow, (12.5e9, 25e9, 50e9)), ((320_000,), fast, logarithmic(2e3, 4e3), (1e9, 2e9, 5e9))

    def clear(row: Row) -> bool:
        """Whether the best split is the only one within rounding, in both forms."""
        forms = [sorted(pace(how, p, row[0] - p, *row[1:]) for p in range(1, row[0])) for how in ("overlaps", "waits")]
        return all(each[-1] > each[-2] * (1 + 1e-6) for each in forms)

    rates = draw_rows(rng, 5, range(1, 9), range(1, 9), range(500, 8000), range(50, 900), *usual)
    slowly = draw_rows(rng, 5, range(1, 9), range(20, 60), range(500, 8000), range(50, 300), *narrow)
    splits = draw_rows(rng, 6, range(4, 33), range(500, 8000), range(50, 900), *usual, keep=clear)
    far = draw_rows(rng, 4, range(16, 65), range(4000, 30000), range(20, 60), *narrow, keep=clear)
    pools, other = (3000, 250, 131_072, 12e3, 1200.0, 1e9), (9000, 500, 400_000, 3e3, 300.0, 5e8)
    slowly += [row for some in ((3, 5), (30, 1)) for row in draws.each_changed((*some, *pools), (4, 2, *other))]
    far += draws.each_changed((16, *pools), (90, *other))
    far += [(90, 100, 5000, 20_000, 2e4, 500.0, 25e9), (90, 9000, 20, 320_000, 3e3, 3000.0, 5e8)]
    # powers of two, so that equals are exact in both forms: all but the first have two best splits
    ties = [(n, 1024, 256, 0.0, 2.0**10, slow, 2.0**40) for n, slow in ((2, 64.0), (3, 256.0), (5, 256.0), (7, 128.0))]
    return [
        shown("3 GPUs for prompts, 5 for answers", "values:pace", 0, [(3, 5, 3000, 250, 131_072, 12e3, 1200.0, 50e9)]),
        shown("16 GPUs", "values:split", 1, [(16, 3000, 250, 131_072, 12e3, 1200.0, 50e9)]),
        plain("pace", 0, "other pools", rates),
        plain("split", 1, "other numbers of GPUs", splits),
        generality("pace", 0, "slow links", slowly),
        unseen(rng, "split", 1, "slow links, two and three GPUs, equals", [*far, *ties]),
    ]


JUDGING = Judging(
    shares=shares(pace=(0.25, 0.25), split=(0.25, 0.25)),
    cases=_split_cases,
    verdicts=lambda params, case, outcome: list(_split_columns(params["sends"])(params, case, outcome)),
    why="""Each request takes a certain time of a prefill GPU and of a decode GPU, and the best split has the two pools in proportion to these times. Long prompts move GPUs to
the prefill pool, and so does a slow link.""",
    pytorch="vLLM's `kv_transfer_config` and NVIDIA Dynamo run such pools; DistServe and Splitwise describe how to size them.",
)

ANSWERS = r"""# %% right: as written
def requests_per_second(prefill, decode, prompt, answer, kv, prefill_speed, decode_speed, link):
    busy = max(prompt / prefill_speed, prompt * kv / link)
    return min(prefill / busy, decode * decode_speed / answer)


def best_split(gpus, prompt, answer, kv, prefill_speed, decode_speed, link):
    rest = prompt, answer, kv, prefill_speed, decode_speed, link
    return max(range(gpus), key=lambda prefill: requests_per_second(prefill, gpus - prefill, *rest))


# %% right: any variant  from: as written
# - def requests_per_second(prefill, decode, prompt, answer, kv, prefill_speed, decode_speed, link):
# -     busy = max(prompt / prefill_speed, prompt * kv / link)
# + from course_lib import params
# + TOGETHER = max if params("split-pools").sends == "overlaps" else sum
# + def requests_per_second(prefill, decode, prompt, answer, kv, prefill_speed, decode_speed, link):
# +     busy = prompt * TOGETHER([1 / prefill_speed, kv / link])

# %% wrong: sending takes no time => generality no-sending  from: as written
# ~ max(prompt / prefill_speed, prompt * kv / link) ==> prompt / prefill_speed

# %% wrong: sending waits => values other-sending unless sends=waits  from: as written
# ~ max(prompt / prefill_speed, prompt * kv / link) ==> prompt / prefill_speed + prompt * kv / link

# %% wrong: the pools add up => values sum  from: as written
# ~ min(prefill / busy, decode * decode_speed / answer) ==> prefill / busy + decode * decode_speed / answer
# ~ range(gpus) ==> range(1, gpus)

# %% wrong: prefill alone => values -  from: as written
# ~ min(prefill / busy, decode * decode_speed / answer) ==> prefill / busy

# %% wrong: tokens per second => values tokens  from: as written
# ~ min ==> answer * min

# %% wrong: the GPUs of the other pool => values decode-gpus  from: as written
# ~ max(range ==> gpus - max(range

# %% wrong: half and half => values halves  from: as written
# ~ max(range(gpus), key=lambda prefill: requests_per_second(prefill, gpus - prefill, *rest)) ==> gpus // 2

# %% wrong: more of equals => generality more-of-equals  from: as written
# ~ range(gpus) ==> range(gpus)[::-1]

# %% wrong: 64 prefill GPUs at most => generality -  from: as written
# ~ range(gpus) ==> range(min(gpus, 65))

# %% wrong: left as it is => not-answered  from: as written
# ~ busy = max(prompt / prefill_speed, prompt * kv / link) ==> raise NotImplementedError
"""
