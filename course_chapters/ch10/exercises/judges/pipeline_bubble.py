from course_grader.judging import EXACT, Case, Column, Judging, Params, Random, Worked, one_verdict, table
from course_grader.judging.cases import hidden, shown
from course_lib.estimate.units import count_text

right = Worked("pipeline-bubble")
INVERSE = "Is the bubble at most `most` with this number, and larger with one micro-batch fewer?"


def _sizes(stages: int, microbatches: int) -> str:
    return f"{count_text(stages, 'stage')}, {count_text(microbatches, 'micro-batch', 'micro-batches')}"


def _limit(stages: int, most: float) -> str:
    return f"at most {most:g} on {count_text(stages, 'stage')}"


def _cases(params: Params, rng: Random) -> list[Case]:
    p, m, most = params["stages"], params["microbatches"], params["most"]
    cases = [
        shown(_sizes(p, m), "values:bubble", 0, [(p, m)]),
        shown(_limit(p, most), "values:inverse", 1, [(p, most)]),
    ]
    mosts, exact = (0.02, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5), right[0](7, 11)
    groups = {
        "one stage, one micro-batch": [(1, rng.randrange(2, 9), 0.5), (rng.randrange(5, 9), 1, 0.75)],
        "many of them": [(21, 2000, 0.08), (90, 3, 0.004)],
        "exactly as many idle, and hardly fewer": [(7, 11, exact), (7, 12, 0.9999 * exact), (5, 8, right[0](5, 8))],
        "other sizes": [(rng.randrange(2, 33), rng.randrange(2, 129), rng.choice(mosts)) for _ in range(8)],
    }
    for name, rows in groups.items():
        cases.append(hidden(name, "generality:sizes", 0, [(p, m) for p, m, _ in rows]))
        cases.append(hidden(f"{name}: the fewest", "generality:sizes", 1, [(p, most) for p, _, most in rows]))
    return cases


JUDGING = Judging(
    shares="values:bubble 0.4, values:inverse 0.3, generality:sizes 0.3",
    cases=_cases,
    verdicts=one_verdict(
        table(
            Column("bubble", "(a fraction of one)", rel=EXACT, words=_sizes, hint="Draw the slots of two stages."),
            Column("inverse", "micro-batches", rel=EXACT, words=_limit, hint=INVERSE),
            right=right,
        )
    ),
    why="""Rank s waits s slots before its first micro-batch arrives, and p − 1 − s slots after its last: p − 1 in all,
whichever rank it is. A slot is one forward and one backward, so their ratio cancels.""",
    pytorch="`n_microbatches` of the schedules in `torch.distributed.pipelining` is the number to choose.",
)

ANSWERS = r'''# %% right: worked
convention = params("pipeline-bubble").convention  # leave as is: "all": of all time; "work": of working time


def bubble(stages: int, microbatches: int) -> float:
    """The fraction of time that stages idle, in the convention asked for."""
    waiting = stages - 1  # in micro-batches' worth of time
    return waiting / (microbatches + waiting if convention == "all" else microbatches)


def microbatches_for(stages: int, most: float) -> int:
    """The fewest micro-batches with a bubble of at most `most`."""
    count = 1
    while bubble(stages, count) > most + 1e-12:
        count += 1
    return count
# %% right: by formula
# -     count = 1
# -     while bubble(stages, count) > most + 1e-12:
# -         count += 1
# -     return count
# +     slots = (stages - 1) / most - (stages - 1 if convention == "all" else 0)
# +     return max(1, int(-(-(slots - 1e-9) // 1)))
# %% wrong: other convention => values other-convention unless convention=work
# > this is idle time over working time; a share of all time is asked for.
# ~ if convention == "all" else ==> if False else
# %% wrong: naive => values
# > this is the naive pipeline, where one rank works at a time.
# ~ return waiting / (microbatches + waiting if convention == "all" else microbatches) ==> return 1 - 1 / stages
# ~ while bubble(stages, count) > most ==> while (stages - 1) / (count + stages - 1) > most
# %% wrong: off by one => values
# > how many slots does a rank wait before its first micro-batch arrives?
# ~ stages - 1  # in ==> stages  # in
# %% wrong: one less => values
# > count the slots from the first forward to the end once more.
# ~ waiting if convention == "all" else microbatches ==> (stages if convention == "all" else 1)
# %% wrong: useful part => values
# > this is the share that works; the idle share is asked for.
# ~ return waiting / ==> return 1 - waiting /
# ~ while bubble(stages, count) > most ==> while (stages - 1) / (count + stages - 1) > most
# %% wrong: per cent => values percent
# ~ return waiting / ==> return 100 * waiting /
# %% wrong: rounded down => generality
# > with one micro-batch less than needed, the bubble is still a little too large.
# ~ return count ==> return count if bubble(stages, count) > most - 1e-9 else max(1, count - 1)
# %% wrong: a five-thousandth too much is allowed => generality rounded-down
# ~ > most + 1e-12 ==> > most * 1.0002
# %% wrong: below one => generality
# > there is at least one micro-batch.
# ~ return count ==> return count if stages > 1 else 0
# %% wrong: not fewest => values
# > this many are enough, but not the fewest: a bubble of exactly that share is allowed.
# ~ > most + 1e-12 ==> >= most - 1e-12
# %% wrong: a rule of thumb => values -
# ~ return count ==> return 4 * stages
# %% wrong: a thousand micro-batches at most => generality -
# ~ > most + 1e-12 ==> > most + 1e-12 and count < 1000
# %% wrong: a bubble of half at most => generality -
# ~ > most + 1e-12 ==> > min(most, 0.5) + 1e-12
# %% wrong: the example's numbers => values -
# ~ return waiting / (microbatches + waiting if convention == "all" else microbatches) ==> return 3 / 11
# ~ while bubble(stages, count) > most + 1e-12: ==> while count < 27:
# %% half: no inverse => 1.6
# ~ return count ==> return None
'''
