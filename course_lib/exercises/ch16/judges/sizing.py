"""Judges of chapter 16 on GPUs and dollars: two pools, a fleet, and what an answer costs."""

import math
import random
from typing import Any

from course_lib.judging import Fault, Judging, Mistake, Params, judged
from course_lib.judging.cases import shown
from course_lib.judging.columns import EXACT, Column, rows_fault, shares, table
from course_lib.judging.draws import draw_rows, generality, logarithmic, plain, rounded, safely_off_whole, unseen
from course_lib.judging.mistakes import scaled, shifted
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import HOUR

# --- two pools


def pace(sends: str, prefill: int, decode: int, prompt: int, answer: int, kv: float, fast: float, slow: float, link: float) -> float:
    """Requests per second of two pools."""
    computing, sending = prompt / fast, prompt * kv / link
    busy = max(computing, sending) if sends == "overlaps" else computing + sending
    return min(prefill / busy, decode * slow / answer)


def split(sends: str, gpus: int, *row: Any) -> int:
    """The fewest prefill GPUs that serve the most."""
    return max(range(1, gpus), key=lambda prefill: pace(sends, prefill, gpus - prefill, *row))


def _split_columns(sends: str) -> Any:
    other = "waits" if sends == "overlaps" else "overlaps"
    name = "public-form" if sends == "waits" else "other-sending"
    told = "this solves the public form of the exercise: here sending and computing take turns." if sends == "waits" else "sending and computing overlap here."

    def words(gpus: str, prompt: int, answer: int) -> str:
        return f"{gpus}, prompts of {prompt:,} and answers of {answer:,} tokens"

    rate = Column(
        part="pace",
        unit="requests per second",
        want=lambda *row: pace(sends, *row),
        words=lambda p, d, prompt, answer, *_: words(f"{p} + {d} GPUs", prompt, answer),
        mistakes=(
            Mistake(name, lambda *row: pace(other, *row), told),
            Mistake("no-sending", lambda p, d, pr, a, kv, f, s, li: pace(sends, p, d, pr, a, 0, f, s, li), "the cache of each prompt has to be sent."),
            Mistake("sum", lambda p, d, pr, a, kv, f, s, li: pace(sends, p, 10**9, pr, a, kv, f, s, li) + d * s / a, "every request needs both pools: the slower one sets the pace."),
            Mistake("prefill-only", lambda p, d, pr, a, kv, f, s, li: pace(sends, p, 10**9, pr, a, kv, f, s, li), "the decode pool has a pace, too."),
            Mistake("decode-only", lambda p, d, pr, a, kv, f, s, li: d * s / a, "the prefill pool has a pace, too."),
            Mistake("tokens", lambda p, d, pr, a, kv, f, s, li: a * pace(sends, p, d, pr, a, kv, f, s, li), "these are tokens per second; requests are asked for."),
        ),
    )
    best = Column(
        part="split",
        unit="GPUs",
        want=lambda *row: split(sends, *row),
        words=lambda gpus, prompt, answer, *_: words(f"{gpus} GPUs", prompt, answer),
        rel=EXACT,
        mistakes=(
            Mistake(name, lambda *row: split(other, *row), told),
            Mistake("no-sending", lambda n, pr, a, kv, f, s, li: split(sends, n, pr, a, 0, f, s, li), "the cache of each prompt has to be sent."),
            Mistake("decode-gpus", lambda n, *row: n - split(sends, n, *row), "this is the number of decode GPUs."),
            Mistake("halves", lambda n, *row: n // 2, "half of the GPUs each is not the best split here."),
            Mistake("more-of-equals", lambda n, *row: max(range(n - 1, 0, -1), key=lambda p: pace(sends, p, n - p, *row)), "fewer prefill GPUs serve as many requests."),
        ),
    )
    return table(rate, best)


def _split_cases(params: Params, rng: random.Random) -> list[Case]:
    tail = ((20_000, 90_000, 160_000, 320_000), logarithmic(4e3, 4e4), logarithmic(400, 4000), (12.5e9, 25e9, 50e9))

    def clear(row: tuple[Any, ...]) -> bool:
        """Whether the best split is the only one within rounding, in both forms."""
        paces = [sorted(pace(how, p, row[0] - p, *row[1:]) for p in range(1, row[0])) for how in ("overlaps", "waits")]
        return all(len(each) < 2 or each[-1] > each[-2] * (1 + 1e-6) for each in paces)

    rates = draw_rows(rng, 5, range(1, 9), range(1, 9), range(500, 8000), range(50, 900), *tail)
    slow = draw_rows(rng, 5, range(1, 9), range(20, 60), range(500, 8000), range(50, 300), (160_000, 320_000), logarithmic(1e4, 4e4), logarithmic(2e3, 4e3), (1e9, 2e9))
    splits = draw_rows(rng, 6, range(4, 33), range(500, 8000), range(50, 900), *tail, keep=clear)
    far = draw_rows(rng, 4, range(16, 65), range(4000, 30000), range(20, 60), (320_000,), logarithmic(4e3, 4e4), logarithmic(2e3, 4e3), (2e9, 5e9), keep=clear)
    # powers of two, so that equals are exact in both forms: the last two have two best splits
    ties = [(2, 1024, 128, 2.0**15, 2.0**13, 2.0**10, 2.0**40), (3, 1024, 256, 0.0, 2.0**10, 2.0**8, 2.0**40), (5, 1024, 256, 0.0, 2.0**10, 2.0**8, 2.0**40)]
    return [
        shown("three GPUs for prompts, five for answers", "values:pace", 0, [(3, 5, 3000, 250, 131_072, 12_000.0, 1200.0, 50e9)]),
        shown("16 GPUs", "values:split", 1, [(16, 3000, 250, 131_072, 12_000.0, 1200.0, 50e9)]),
        plain("pace", 0, "other pools", rates),
        plain("split", 1, "other numbers of GPUs", splits),
        generality("pace", 0, "slow links", slow),
        unseen(rng, "split", 1, "slow links, two and three GPUs, equals", [*far, *ties]),
    ]


# --- fleet


def slots(memory: float, weights: float, kv: float, tokens: int, page: int) -> int:
    """How many sequences fit."""
    return max(0, int((memory - weights) // (kv * page))) // -(-tokens // page)


def replicas(rate: float, ttft: float, itl: float, answer: int, held: int, load: float) -> int | None:
    """The fewest replicas, by Little's law."""
    return math.ceil(rate * (ttft + (answer - 1) * itl) / (load * held)) if held else None


def impossible(report: list[tuple[float, float, float]], slack: float) -> list[int]:
    """Indices of rows that break Little's law."""
    return [at for at, (rate, seconds, held) in enumerate(report) if abs(held - rate * seconds) > slack * rate * seconds]


SLOTS = Column(
    part="slots",
    unit="sequences",
    want=slots,
    words=lambda m, w, kv, t, p: f"{m:,g} bytes, {w:,g} of weights, {t:,} tokens of {kv:,g} bytes, pages of {p}",
    rel=EXACT,
    mistakes=(
        Mistake("no-weights", lambda m, w, kv, t, p: slots(m, 0, kv, t, p), "the weights take memory, too."),
        Mistake("no-pages", lambda m, w, kv, t, p: max(0, int((m - w) // (kv * t))), "a sequence takes whole pages; the last one may be partly empty."),
        Mistake("negative", lambda m, w, kv, t, p: int((m - w) // (kv * p)) // -(-t // p) if w > m else None, "if the weights do not fit, it is 0."),
        Mistake("pages", lambda m, w, kv, t, p: max(0, int((m - w) // (kv * p))), "these are pages; a sequence needs several."),
        Mistake("pages-rounded-down", lambda m, w, kv, t, p: max(0, int((m - w) // (kv * p))) // max(1, t // p), "the tokens of the last page need a page as well."),
    ),
)

REPLICAS = Column(
    part="replicas",
    unit="replicas",
    want=replicas,
    words=lambda r, t, i, a, s, u: f"{r:g} requests per second, {t:g} s and {a} tokens of {i:g} s, {s} slots at {100 * u:g} %",
    rel=EXACT,
    none="a replica without slots serves nothing",
    some="these replicas have slots",
    mistakes=(
        Mistake("full-load", lambda r, t, i, a, s, u: replicas(r, t, i, a, s, 1.0), "a replica may not be full all the time: `load` is missing."),
        Mistake("no-ttft", lambda r, t, i, a, s, u: replicas(r, 0, i, a, s, u), "a request holds its slot before the first token, too."),
        Mistake("one-token-more", lambda r, t, i, a, s, u: replicas(r, t, i, a + 1, s, u), "the first token comes with `ttft`; only the others take `itl`."),
        Mistake("rounded-down", shifted(replicas, -1), "with one replica fewer, more than `load` of the slots are in use."),
        Mistake("one-too-many", shifted(replicas, 1), "one replica fewer is enough."),
        Mistake("in-flight", lambda r, t, i, a, s, u: math.ceil(r * (t + (a - 1) * i)), "these are requests in the system; a replica holds several."),
    ),
)


def _report_fault(case: Case, got: list[Any]) -> Fault | None:
    for (report, slack), said in zip(case.args[1], got, strict=True):
        want, mine = impossible(report, slack), sorted(map(int, said))
        if mine == want:
            continue
        within = [at for at, (r, s, n) in enumerate(report) if abs(n - r * s) >= slack * r * s]
        of_held = [at for at, (r, s, n) in enumerate(report) if abs(n - r * s) > slack * n]
        above = [at for at, (r, s, n) in enumerate(report) if n - r * s > slack * r * s]
        possible = [at for at in range(len(report)) if at not in want]
        lead = f"a report of {len(report)} rows, slack {100 * slack:g} %: "
        for name, other, message in (
            ("possible-rows", possible, "these are the rows that can be true."),
            ("one-side", above, "a number that is too small is impossible, too."),
            ("at-the-limit", within, "a row at the limit is not impossible."),
            ("of-the-other", of_held, "the slack is a fraction of the product."),
        ):
            if other != want and mine == other:
                return name, lead + message
        return "other-rows", f"{lead}{'a row is missing' if len(mine) < len(want) else 'other rows break the law'}."
    return None


def _fleet_cases(params: Params, rng: random.Random) -> list[Case]:
    def report(count: int, *slips: float) -> list[tuple[float, float, float]]:
        """Rows in sixteenths; each slip is a fraction by which a row is off."""
        found = []
        for slip in [*slips, *[rng.choice((-0.03125, 0.0, 0.03125)) for _ in range(count)]]:
            rate, seconds = float(2 ** rng.randrange(7)), rng.randrange(4, 60) / 4
            found.append((rate, seconds, rate * seconds * (1 + slip)))
        rng.shuffle(found)
        return found

    def exact(row: tuple[Any, ...]) -> bool:
        r, t, i, a, s, u = row
        return safely_off_whole(r * (t + (a - 1) * i) / (u * s))

    fits = draw_rows(rng, 6, (24e9, 40e9, 80e9), (6e9, 14e9, 16e9), (32_768, 131_072), range(300, 5000), (16, 32, 64))
    tight = [(80e9, 140e9, 131_072, 1000, 16), (2.0**34, 2.0**34, 1024, 8, 8), (2.0**34 + 2**20, 2.0**34, 1024, 1024, 256), (2.0**34 + 2**20, 2.0**34, 1024, 1025, 256), (2.0**34 + 2**20 - 1, 2.0**34, 1024, 1024, 256), (4e9, 1e9, 500_000, 1, 16)]
    fleets = draw_rows(rng, 6, range(5, 300), rounded(0.1, 2, 2), rounded(0.01, 0.08, 3), range(50, 900), range(20, 200), (0.6, 0.7, 0.8), keep=exact)
    edges = [(16.0, 0.5, 0.25, 7, 8, 0.5), (16.0, 0.5, 0.25, 7, 32, 1.0), (16.0, 0.5, 0.25, 7, 31, 1.0), (3.0, 1.0, 0.05, 40, 0, 0.8), (2.0, 0.25, 0.5, 1, 64, 0.5)]
    return [
        shown("an H100 and a model of 16 GB", "values:slots", 0, [(80e9, 16e9, 131_072, 2000, 16)]),
        shown("a first fleet", "values:replicas", 1, [(params["rate"], 0.5, 0.03, params["answer"], 60, 0.7)]),
        shown("three rows, one impossible", "values:report", 2, [([(10.0, 2.0, 20.0), (40.0, 2.5, 64.0), (80.0, 4.0, 330.0)], 0.125)]),
        plain("slots", 0, "other models", fits),
        plain("replicas", 1, "other fleets", fleets),
        Case(name="other reports", args=(2, [(report(6, 0.5, -0.5), 0.125), (report(5, -0.25), 0.0625), (report(6), 0.0625)]), part="report", visible=False),
        unseen(rng, "slots", 0, "too large, exactly full, one byte or token off", tight),
        unseen(rng, "replicas", 1, "exactly enough, no slots, one token", edges),
        generality("report", 2, "at the limit, and just beyond it", [(report(4, 0.125, -0.125), 0.125), (report(2, 0.140625, -0.109375), 0.125), ([], 0.125)]),
    ]


def _fleet_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    if case.args[0] < 2:
        return list(table(SLOTS, REPLICAS)(params, case, outcome))
    fault = rows_fault(case, outcome.value)
    return judged(case, fault or _report_fault(case, outcome.value))


# --- cost


def usd(gpus: int, hourly: float, speed: float, load: float) -> float:
    """Dollars for a million tokens."""
    return gpus * hourly / HOUR / (speed * load) * 1e6


def lifetime(params: float, trained: float, served: float) -> float:
    """FLOPs of training and serving."""
    return params * (6 * trained + 2 * served)


def even(small: float, small_tokens: float, large: float, large_tokens: float, train: float, serve: float) -> float:
    """Served tokens at which the small model has taken no more GPU seconds than the large one."""
    return max(0.0, 6 / train * (small * small_tokens - large * large_tokens) / (2 / serve * (large - small)))


USD = Column(
    part="price",
    unit="dollars",
    want=usd,
    words=lambda g, h, s, u: f"{g} GPUs at {h:g} dollars, {s:,g} tokens per second, busy {100 * u:g} %",
    mistakes=(
        Mistake("always-busy", lambda g, h, s, u: usd(g, h, s, 1.0), "idle hours are paid for as well: divide by `load`."),
        Mistake("load-upside-down", lambda g, h, s, u: usd(g, h, s, 1 / u), "a lower load makes a token more expensive, not less."),
        Mistake("one-gpu", lambda g, h, s, u: usd(1, h, s, u), "each GPU costs `hourly`."),
        Mistake("per-second", scaled(usd, HOUR), "the price is for an hour, the speed for a second."),
        Mistake("per-token", scaled(usd, 1e-6), "this is one token; a million are asked for."),
    ),
)

LIFETIME = Column(
    part="lifetime",
    unit="FLOPs",
    want=lifetime,
    words=lambda p, t, s: f"{p:,g} parameters, {t:,g} tokens trained and {s:,g} served",
    mistakes=(
        Mistake("six-in-all", lambda p, t, s: 6 * p * (t + s), "serving has no backward pass: 2 FLOPs a parameter and token."),
        Mistake("training-only", lambda p, t, s: 6 * p * t, "serving is missing."),
        Mistake("serving-only", lambda p, t, s: 2 * p * s, "training is missing."),
    ),
)

EVEN = Column(
    part="even",
    unit="tokens",
    want=even,
    words=lambda a, d, b, e, t, s: f"{a:,g} parameters and {d:,g} tokens, or {b:,g} and {e:,g}",
    mistakes=(
        Mistake("same-efficiency", lambda a, d, b, e, t, s: even(a, d, b, e, 1, 1), "training and serving use other fractions of the peak."),
        Mistake("fractions-swapped", lambda a, d, b, e, t, s: even(a, d, b, e, s, t), "FLOPs are divided by the fraction of the peak, not multiplied."),
        Mistake("negative", lambda a, d, b, e, t, s: None if even(a, d, b, e, t, s) else 3 * s / t * (a * d - b * e) / (b - a), "if the small model takes less in training, too, it is 0."),
        Mistake("tokens-apart", lambda a, d, b, e, t, s: 3 * s / t * (d - e) if d > e else None, "the models differ in parameters as well."),
    ),
)


def _cost_cases(params: Params, rng: random.Random) -> list[Case]:
    prices = draw_rows(rng, 6, (1, 2, 4, 8, 16), rounded(1, 9, 2), logarithmic(200, 3e4), rounded(0.1, 1.0, 2))
    lives = draw_rows(rng, 5, logarithmic(1e9, 4e11), logarithmic(1e11, 2e13), logarithmic(1e10, 1e15))
    pairs = draw_rows(rng, 6, logarithmic(1e9, 8e9), logarithmic(8e12, 2e13), logarithmic(1e10, 7e10), logarithmic(2e11, 6e11), rounded(0.3, 0.6, 2), rounded(0.05, 0.25, 2))
    always = [(7e9, 1e12, 13e9, 2e12, 0.4, 0.2), (8e9, 1e12, 16e9, 5e11, 0.4, 0.2), (1e9, 3e12, 2e9, 1e12, 0.5, 0.5)]
    return [
        shown(f"{params['gpus']} GPUs", "values:price", 0, [(params["gpus"], params["hourly"], 2400.0, 0.5)]),
        shown("8 billion parameters", "values:lifetime", 1, [(8e9, 15e12, 2e12)]),
        shown("8 or 30 billion parameters", "values:even", 2, [(8e9, 4e12, 30e9, 6e11, 0.4, 0.1)]),
        plain("price", 0, "other deployments", prices),
        plain("lifetime", 1, "other models", lives),
        plain("even", 2, "other pairs", pairs),
        generality("even", 2, "a small model that is cheaper from the start, or just about", [*always, *pairs[:2]]),
    ]


SIZING = {
    "split-pools": Judging(
        shares=shares(pace=(0.25, 0.25), split=(0.25, 0.25)),
        cases=_split_cases,
        verdicts=lambda params, case, outcome: list(_split_columns(params["sends"])(params, case, outcome)),
        why="""Each request takes a certain time of a prefill GPU and of a decode GPU, and the best split has the two pools in proportion to these times. Long prompts move GPUs to the prefill pool, and
so does a slow link, because a GPU that waits for its link computes no prompts.""",
        pytorch="vLLM's `kv_transfer_config` and NVIDIA Dynamo run such pools; DistServe and Splitwise describe how to size them.",
    ),
    "size-the-fleet": Judging(
        shares=shares(slots=(0.125, 0.125), replicas=(0.125, 0.25), report=(0.125, 0.25)),
        cases=_fleet_cases,
        verdicts=_fleet_verdicts,
        why="""Little's law holds for any system in a steady state, whatever its scheduler does: requests in it = rate · time in it. With the slots of a replica it gives the fleet, and with a
report's three numbers it says whether they can be true together.""",
        pytorch="vLLM prints `Maximum concurrency for … tokens per request` at its start: that is the first function.",
    ),
    "cost-of-an-answer": Judging(
        shares=shares(price=(0.4, 0), lifetime=(0.2, 0), even=(0.2, 0.2)),
        cases=_cost_cases,
        verdicts=table(USD, LIFETIME, EVEN),
        why="""A GPU costs the same whether it is busy or not, so the price of a token is set by the load as much as by the speed. Serving costs 2 FLOPs a parameter and token for as long as the
model is used. A smaller model that was trained longer pays its extra training back with every token, and faster if serving uses little of the peak.""",
        pytorch="There is nothing of this in PyTorch. Sardana and others fold serving into the scaling law; Llama 3 8B was trained on 15 trillion tokens for this reason.",
    ),
}
