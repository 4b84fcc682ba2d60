from course_grader.judging import Case, Judging, Params, Random, Worked, random_inputs, shown
from course_grader.judging.per_row import EXACT, Column, Series, shares, table
from course_grader.judging.random_inputs import draw_rows, generality, plain, rounded, safely_off_whole, unseen

right = Worked("size-the-fleet")
_SEQUENCES = "{memory:,g} bytes, {weights:,g} of weights, {tokens:,} tokens of {kv:,g} bytes, pages of {page}"


def _fleet_cases(params: Params, rng: Random) -> list[Case]:
    def report(count: int, *slips: float) -> list[tuple[float, float, float]]:
        """Rows whose products are exact; each slip is a fraction by which a row is off."""
        found = []
        for slip in [*slips, *rng.choices((-0.03125, 0.0, 0.03125), k=count)]:
            rate, seconds = float(2 ** rng.randrange(7)), rng.randrange(4, 60) / 4
            found.append((rate, seconds, rate * seconds * (1 + slip)))
        rng.shuffle(found)
        return found

    def clear(row: tuple[float, ...]) -> bool:
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
    odd = [(report(6, 0.5, -0.5), 0.125), (report(5, -0.25, 0.09375), 0.0625), (report(6, 0.1875), 0.25)]
    limits = [(report(4, 0.125, -0.125), 0.125), (report(2, 0.140625, -0.109375), 0.125), ([], 0.125)]
    limits += [(report(4, 0.25, 0.5), 0.125), ([(2.0, 4.0, 9.5)], 0.125)]
    zeros = [(0.0, 2.0, 0.0), (0.0, 2.0, 1.0), (4.0, 0.0, 0.0)]
    limits += [(zeros, 0.125), ([*report(30), (1.0, 2.0, 2.0 + 2**-10)], 0.0)]
    fits += random_inputs.each_changed((80e9, 16e9, 131_072, 2000, 16), (90e9, 30e9, 65_536, 3000, 1))
    fleets += random_inputs.each_changed((40, 0.5, 0.03, 257, 60, 0.7), (50, 1.5, 0.05, 300, 31, 0.9))
    return [
        shown("an H100 and a model of 16 GB", "values:concurrency", 0, [(80e9, 16e9, 131_072, 2000, 16)]),
        shown("a first fleet", "values:replicas", 1, [(params["rate"], 0.5, 0.03, params["answer"], 60, 0.7)]),
        shown("three rows", "values:report", 2, [([(10.0, 2.0, 20.0), (40.0, 2.5, 64.0), (80.0, 4.0, 330.0)], 0.125)]),
        plain("concurrency", 0, "other models", fits),
        plain("replicas", 1, "other fleets", fleets),
        plain("report", 2, "other reports", odd),
        unseen(rng, "concurrency", 0, "too large, exactly full, one byte or token off", tight),
        unseen(rng, "replicas", 1, "exactly enough, no room, one token", [*exact, (2.0, 0.25, 0.5, 1, 64, 0.5)]),
        generality("report", 2, "at the limit, just beyond it, and zeros", limits),
    ]


JUDGING = Judging(
    shares=shares(concurrency=(0.125, 0.125), replicas=(0.125, 0.25), report=(0.125, 0.25)),
    cases=_fleet_cases,
    verdicts=table(
        Column("concurrency", "sequences", words=right.words(0, _SEQUENCES), rel=EXACT),
        Column(
            "replicas",
            "replicas",
            words=lambda r, t, i, a, s, u: (
                f"{r:g} requests per second, {t:g} s and {a} tokens of {i:g} s, a concurrency of {s} at {100 * u:g} %"
            ),
            rel=EXACT,
            none="a replica with a concurrency of 0 serves nothing",
            some="these replicas have room",
        ),
        Series(
            "report",
            words=lambda report, slack: f"a report of {len(report)} rows, slack {100 * slack:g} %",
            apart=lambda got, want: (
                "other-rows",
                "a row is missing." if len(got) < len(want) else "other rows break the law.",
            ),
        ),
        right=right,
    ),
    why="""Little's law holds for any system in a steady state, whatever its scheduler does: requests in it = rate ·
time in it. With the concurrency of a replica it gives the fleet, and with a report's three numbers it shows whether
they can be true together.""",
    pytorch="vLLM prints `Maximum concurrency for … tokens per request` at its start: that is the first function.",
)

ANSWERS = r'''# %% right: worked
def concurrency(memory: float, weights: float, kv: float, tokens: int, page: int) -> int:
    """How many sequences of `tokens` tokens fit beside the weights, in whole pages."""
    pages = max(0, int((memory - weights) // (kv * page)))
    return pages // math.ceil(tokens / page)


def replicas(rate: float, ttft: float, itl: float, answer: int, concurrency: int, load: float) -> int | None:
    """The fewest replicas for `rate` requests per second, or None."""
    held = rate * (ttft + (answer - 1) * itl)
    return math.ceil(held / (load * concurrency)) if concurrency else None


def inconsistent(report: list[tuple[float, float, float]], slack: float) -> list[int]:
    """The rows (rate, seconds, requests in the system) that break Little's law."""
    return [at for at, (rate, time, held) in enumerate(report) if abs(held - rate * time) > slack * rate * time]
# %% right: whole numbers, between two bounds
# ~ pages // math.ceil(tokens / page) ==> int(pages // -(-tokens // page))
# ~ math.ceil(held / (load * concurrency)) ==> -int(-(held / concurrency / load) // 1)
# ~ abs(held - rate * time) > slack * rate * time ==> not (1 - slack) * rate * time <= held <= (1 + slack) * rate * time
# %% wrong: no weights => values
# > the weights take memory, too.
# ~ (memory - weights) ==> memory
# %% wrong: no pages => values
# > a sequence takes whole pages; the last one may be partly empty.
# ~ pages // math.ceil(tokens / page) ==> max(0, int((memory - weights) // (kv * tokens)))
# %% wrong: pages of a sequence rounded down => values
# > the last page of a sequence may be partly filled, and is taken all the same.
# ~ math.ceil(tokens / page) ==> max(1, tokens // page)
# %% wrong: pages => values
# > these are pages; a sequence needs several.
# ~ pages // math.ceil(tokens / page) ==> pages
# %% wrong: negative => generality
# > if the weights do not fit, it is 0.
# ~ max(0, int((memory - weights) // (kv * page))) ==> int((memory - weights) // (kv * page))
# %% wrong: full load => values
# > a replica may not be full all the time: `load` is missing.
# ~ (load * concurrency) ==> concurrency
# %% wrong: no ttft => values
# > a request takes its place before the first token, too.
# ~ (ttft + (answer - 1) * itl) ==> ((answer - 1) * itl)
# %% wrong: the first token counted twice => values
# > the first token comes after `ttft`; the others are `answer` - 1.
# ~ (answer - 1) * itl ==> answer * itl
# %% wrong: whole places => values
# > `load` is an average, so the places in use need not be a whole number on each replica.
# ~ (load * concurrency)) ==> max(1, int(load * concurrency)))
# %% wrong: rounded down => values
# > with one replica fewer, more than `load` of the places are in use.
# ~ math.ceil(held ==> math.floor(held
# %% wrong: one too many => generality
# > one replica fewer is enough.
# ~ math.ceil(held / (load * concurrency)) ==> math.floor(held / (load * concurrency)) + 1
# %% wrong: at least one place => generality none-is-right
# ~ (held / (load * concurrency)) if concurrency else None ==> (held / (load * max(1, concurrency)))
# %% wrong: nothing to serve, so no question of room => generality raised
# ~ if concurrency else ==> if concurrency or not rate else
# %% wrong: possible rows => values
# > these are the possible rows; return the impossible ones.
# ~ > slack * rate ==> <= slack * rate
# %% wrong: one side => values
# > too few requests are impossible, too.
# ~ abs(held - rate * time) ==> held - rate * time
# %% wrong: at the limit => generality
# > a row at the limit is not impossible.
# ~ > slack ==> >= slack
# %% wrong: of the other => generality
# > the slack is a fraction of the product.
# ~ slack * rate * time ==> slack * held
# %% wrong: slack in requests => values
# > `slack` is a fraction of the product, not a number of requests.
# ~ slack * rate * time ==> slack
# %% wrong: no requests are never impossible => generality other-rows
# ~ if abs(held ==> if rate * time and abs(held
'''
