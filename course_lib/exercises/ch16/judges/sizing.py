"""Judges of chapter 16 on numbers of GPUs: two pools, and a fleet of replicas."""

import math
import random
from collections.abc import Callable
from typing import Any

from course_lib.install.words import count_text
from course_lib.judging import Judging, Params, draws
from course_lib.judging.cases import shown
from course_lib.judging.columns import CLOSE, EXACT, Column, Series, shares, table
from course_lib.judging.draws import draw_rows, generality, logarithmic, plain, rounded, safely_off_whole, unseen
from course_lib.judging.mistakes import mistakes, shifted
from course_lib.records import Case

Row = tuple[Any, ...]


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


def slots(memory: float, weights: float, kv: float, tokens: int, page: int) -> int:
    """How many sequences fit."""
    return max(0, int((memory - weights) // (kv * page))) // -(-tokens // page)


def replicas(rate: float, ttft: float, itl: float, answer: int, held: int, load: float) -> int | None:
    """The fewest replicas, by Little's law."""
    return math.ceil(rate * (ttft + (answer - 1) * itl) / (load * held)) if held else None


SLOTS = Column(
    part="slots",
    unit="sequences",
    want=slots,
    words=lambda m, w, kv, t, p: f"{m:,g} bytes, {w:,g} of weights, {t:,} tokens of {kv:,g} bytes, pages of {p}",
    rel=EXACT,
    mistakes=mistakes(
        {
            "no-weights": lambda m, w, *row: slots(m, 0, *row),
            "no-pages": lambda m, w, kv, t, p: max(0, int((m - w) // (kv * t))),
            "negative": lambda m, w, kv, t, p: int((m - w) // (kv * p)) // -(-t // p) if w > m else None,
            "pages": lambda m, w, kv, t, p: slots(m, w, kv, p, p),
        },
        {
            "no-weights": "the weights take memory, too.",
            "no-pages": "a sequence takes whole pages; the last one may be partly empty.",
            "negative": "if the weights do not fit, it is 0.",
            "pages": "these are pages; a sequence needs several.",
        },
    ),
)

REPLICAS = Column(
    part="replicas",
    unit="replicas",
    want=replicas,
    words=lambda r, t, i, a, s, u: (
        f"{r:g} requests per second, {t:g} s and {a} tokens of {i:g} s, {s} slots at {100 * u:g} %"
    ),
    rel=EXACT,
    none="a replica without slots serves nothing",
    some="these replicas have slots",
    mistakes=mistakes(
        {
            "full-load": lambda *row: replicas(*row[:5], 1.0),
            "no-ttft": lambda r, t, *row: replicas(r, 0, *row),
            "one-too-many": shifted(replicas, 1),
            "rounded-down": shifted(replicas, -1),
        },
        {
            "full-load": "a replica may not be full all the time: `load` is missing.",
            "no-ttft": "a request holds its slot before the first token, too.",
            "one-too-many": "one replica fewer is enough.",
            "rounded-down": "with one replica fewer, more than `load` of the slots are in use.",
        },
    ),
)


def _chosen(rule: Callable[[float, float, float, float], bool]) -> Callable[..., list[int]]:
    """The indices of a report's rows for which a rule holds: of number held minus product, product, number held, and slack."""
    return lambda report, slack: [
        at for at, (rate, time, held) in enumerate(report) if rule(held - rate * time, rate * time, held, slack)
    ]


REPORT = Series(
    part="report",
    want=_chosen(lambda by, product, held, slack: abs(by) > slack * product),
    words=lambda report, slack: f"a report of {len(report)} rows, slack {100 * slack:g} %",
    apart=lambda got, want: (
        "other-rows",
        "a row is missing." if len(got) < len(want) else "other rows break the law.",
    ),
    mistakes=mistakes(
        {
            "possible-rows": _chosen(lambda by, product, held, slack: abs(by) <= slack * product),
            "one-side": _chosen(lambda by, product, held, slack: by > slack * product),
            "at-the-limit": _chosen(lambda by, product, held, slack: abs(by) >= slack * product),
            "of-the-other": _chosen(lambda by, product, held, slack: abs(by) > slack * held),
        },
        {
            "possible-rows": "these are the rows that can be true.",
            "one-side": "too few requests are impossible, too.",
            "at-the-limit": "a row at the limit is not impossible.",
            "of-the-other": "the slack is a fraction of the product.",
        },
    ),
)


def _fleet_cases(params: Params, rng: random.Random) -> list[Case]:
    def report(count: int, *slips: float) -> list[tuple[float, float, float]]:
        """Rows whose products are exact; each slip is a fraction by which a row is off."""
        found = []
        for slip in [*slips, *rng.choices((-0.03125, 0.0, 0.03125), k=count)]:
            rate, seconds = float(2 ** rng.randrange(7)), rng.randrange(4, 60) / 4
            found.append((rate, seconds, rate * seconds * (1 + slip)))
        rng.shuffle(found)
        return found

    def clear(row: Row) -> bool:
        r, t, i, a, s, u = row
        return safely_off_whole(r * (t + (a - 1) * i) / (u * s))

    fits = draw_rows(rng, 6, (24e9, 40e9, 80e9), (6e9, 14e9, 16e9), (32_768, 131_072), range(300, 5000), (16, 32, 64))
    gib, room = 2.0**34, 2.0**20  # bytes; the room is one page of 1,024 tokens
    tight = [(gib + more, gib, 1024, tokens, 256) for more, tokens in ((room, 1024), (room, 1025), (room - 1, 1024))]
    tight += [(80e9, 140e9, 131_072, 1000, 16), (gib, gib, 1024, 8, 8), (4e9, 1e9, 500_000, 1, 16)]
    itl, seconds = rounded(0.01, 0.08, 3), rounded(0.1, 2, 2)
    fleets = draw_rows(rng, 6, range(5, 300), seconds, itl, range(50, 900), range(20, 200), (0.6, 0.7, 0.8), keep=clear)
    exact = [(16.0, 0.5, 0.25, 7, held, load) for held, load in ((8, 0.5), (32, 1.0), (31, 1.0), (0, 0.5))]
    exact += [(0.0, 0.5, 0.25, 7, 0, 0.5)]
    odd, near = (
        [(report(6, 0.5, -0.5), 0.125), (report(5, -0.25, 0.09375), 0.0625), (report(6, 0.1875), 0.25)],
        (0.140625, -0.109375),
    )
    limits = [(report(4, 0.125, -0.125), 0.125), (report(2, *near), 0.125), ([], 0.125), (report(4, 0.25, 0.5), 0.125)]
    zeros = [(0.0, 2.0, 0.0), (0.0, 2.0, 1.0), (4.0, 0.0, 0.0)]
    limits += [(zeros, 0.125), ([*report(30), (1.0, 2.0, 2.0 + 2**-10)], 0.0)]
    fits += draws.each_changed((80e9, 16e9, 131_072, 2000, 16), (90e9, 30e9, 65_536, 3000, 1))
    fleets += draws.each_changed((40, 0.5, 0.03, 257, 60, 0.7), (50, 1.5, 0.05, 300, 31, 0.9))
    return [
        shown("an H100 and a model of 16 GB", "values:slots", 0, [(80e9, 16e9, 131_072, 2000, 16)]),
        shown("a first fleet", "values:replicas", 1, [(params["rate"], 0.5, 0.03, params["answer"], 60, 0.7)]),
        shown("three rows", "values:report", 2, [([(10.0, 2.0, 20.0), (40.0, 2.5, 64.0), (80.0, 4.0, 330.0)], 0.125)]),
        plain("slots", 0, "other models", fits),
        plain("replicas", 1, "other fleets", fleets),
        plain("report", 2, "other reports", odd),
        unseen(rng, "slots", 0, "too large, exactly full, one byte or token off", tight),
        unseen(rng, "replicas", 1, "exactly enough, no slots, one token", [*exact, (2.0, 0.25, 0.5, 1, 64, 0.5)]),
        generality("report", 2, "at the limit, just beyond it, and zeros", limits),
    ]


SIZING = {
    "split-pools": Judging(
        shares=shares(pace=(0.25, 0.25), split=(0.25, 0.25)),
        cases=_split_cases,
        verdicts=lambda params, case, outcome: list(_split_columns(params["sends"])(params, case, outcome)),
        why="""Each request takes a certain time of a prefill GPU and of a decode GPU, and the best split has the two pools in proportion to these times. Long prompts move GPUs to
the prefill pool, and so does a slow link.""",
        pytorch="vLLM's `kv_transfer_config` and NVIDIA Dynamo run such pools; DistServe and Splitwise describe how to size them.",
    ),
    "size-the-fleet": Judging(
        shares=shares(slots=(0.125, 0.125), replicas=(0.125, 0.25), report=(0.125, 0.25)),
        cases=_fleet_cases,
        verdicts=table(SLOTS, REPLICAS, REPORT),
        why="""Little's law holds for any system in a steady state, whatever its scheduler does: requests in it = rate · time in it. With the slots of a replica it gives the fleet,
and with a report's three numbers it shows whether they can be true together.""",
        pytorch="vLLM prints `Maximum concurrency for … tokens per request` at its start: that is the first function.",
    ),
}
